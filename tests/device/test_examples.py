"""The examples run and check themselves, and so do the samples in README and in the pages."""

import re
import runpy
import sys
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


#: tests/oracle compares two networks with torch's; test_dask.py runs the cluster.
ELSEWHERE = {"dask_cluster", "mobilenet_v2", "resnet18"}
EXAMPLES = [p for p in sorted((ROOT / "examples").glob("*.py")) if p.stem not in ELSEWHERE]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(
    path: Path,
    default: Engine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path)])  # without a folder for pictures
    monkeypatch.setenv("DIGITS_EPOCHS", "1")  # of the 40 that reach the accuracy
    monkeypatch.setenv("DIGITS_STEPS", "3")
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if SAMPLE.search(p.read_text("utf-8"))], ids=lambda p: p.stem
)
def test_samples_of_a_page(page: Path, default: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, as one program."""
    if page.stem == "sparse":
        pytest.importorskip("llvmlite")
    samples = SAMPLE.findall(page.read_text("utf-8"))
    exec(compile("\n".join(samples), page.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
