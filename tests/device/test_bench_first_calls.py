"""``portable-gpu bench first-calls``: a few cheap calls, and what is refused."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from portable_gpu import nn
from portable_gpu.bench import first_calls_process
from portable_gpu.bench.first_calls import Cost, first_calls
from portable_gpu.bench.first_calls_layers import CALLS
from portable_gpu.cli import main
from portable_gpu.errors import PortableGPUError

pytestmark = pytest.mark.divided("bench first-calls")


def test_a_second_process_compiles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert main(["bench", "first-calls", "--rows", "engine,sum", "--json", str(report)]) == 0
    written = json.loads(report.read_text())
    calls = {call["name"]: call for call in written["calls"]}
    assert list(calls) == ["import", "engine", "sum"]
    cold, warm = calls["sum"]["cold"], calls["sum"]["warm"]
    assert cold["programs"] >= 1
    assert cold["kernels"] >= cold["programs"]
    assert cold["text"] > 1000 * cold["programs"]
    assert warm["programs"] == 0
    assert 0 < warm["cpu"] < cold["cpu"]
    total = Cost(**written["totals"]["dense"]["cold"])
    assert total == sum((Cost(**call["cold"]) for call in calls.values()), Cost())
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[1:5]] == [
        "import",
        "engine",
        "sum",
        "all",
    ]


def test_layers_share_no_caches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    words = ["bench", "first-calls", "--rows", "pixel_unshuffle", "--json", str(report)]
    assert main(words) == 0
    written = json.loads(report.read_text())
    calls = {call["name"]: call for call in written["calls"]}
    names = ["nn.pixel_unshuffle", "nn.pixel_unshuffle_backward"]
    assert list(calls) == ["import", "import nn", "engine", *names]
    assert all(calls[name]["cold"]["programs"] >= 1 for name in names)
    assert all(calls[name]["warm"]["programs"] == 0 for name in names)
    assert calls["import nn"]["cold"]["programs"] == 0
    assert list(written["totals"]) == ["dense", "nn"]
    assert "all nn" in capsys.readouterr().out


def test_each_function_of_nn_has_a_first_call() -> None:
    """But those that time all variants of a call."""
    functions = {name for name in nn.__all__ if not inspect.isclass(getattr(nn, name))}
    functions = {name for name in functions if not name.startswith("find_")}
    assert {name.split()[0] for name in CALLS} == functions - {"manual_seed"}


@pytest.mark.parametrize("words", [["--rows", "sum,nope"], ["--rows", ""], ["--seed", "1"]])
def test_what_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "first-calls", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_call_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = tmp_path / "stub.py"
    stub.write_text('import sys\nprint(\'{"name": "import"}\')\nsys.exit("it is gone")\n')
    monkeypatch.setattr(first_calls_process, "__file__", str(stub))
    with pytest.raises(PortableGPUError, match="the first call of 'sum' failed: it is gone"):
        first_calls(["sum"], None)
