"""The examples run, and check themselves; the README's tour runs too."""

import re
import runpy
from pathlib import Path

import pytest

from portable_gpu.runtime import registry
from portable_gpu.runtime.engine import Engine

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def default(unoptimised: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine of calls that name none."""
    monkeypatch.setattr(registry, "_default", unoptimised)
    return unoptimised


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_example(path: Path, default: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_tour_of_the_readme(default: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
