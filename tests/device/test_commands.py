"""selftest, explain and demo on this machine's device."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.checking.check import Expected
from portable_gpu.cli import main
from portable_gpu.ops.registry import OPERATIONS
from portable_gpu.runtime.engine import Engine
from portable_gpu.selftest import Check, all_checks

#: Layers that only tests of the library check.
NOT_CHECKED = {
    "batch_norm", "cross_entropy", "group_norm", "layer_norm", "mse_loss", "rms_norm",
}  # fmt: skip


def test_selftest_covers_every_operation(engine: Engine) -> None:
    helpers = {"asarray", "asnumpy", "default_engine", "devices", "explain", "plan"}
    public = {name for name in pg.__all__ if name.islower() and not name.startswith("_")}
    of_modules = set(OPERATIONS) & {*pg.linalg.__all__, *pg.fft.__all__, *pg.nn.__all__}
    checked = {check.operation for check in all_checks(engine)}
    assert checked == (public - helpers) | of_modules - NOT_CHECKED
    cases = [(check.operation, check.case) for check in all_checks(engine)]
    assert len(set(cases)) == len(cases)


def test_selftest_of_some_operations(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert main(["selftest", "reduce", "matmul", "--json", str(report)]) == 0
    output = capsys.readouterr().out
    assert re.search(r"(\d+) of \1 checks of 2 operations passed", output)
    content = json.loads(report.read_text())
    assert content["failed"] == 0
    assert content["device"] == engine.target.facts.name
    assert f"exchange {engine.target.exchange}" in content["path"]
    assert all(result["error"] <= 1 for result in content["results"])


def test_selftest_shows_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    single = np.dtype(np.float32)
    wrong = Check(
        "sum", "of nothing", lambda _: np.float32(1), lambda: Expected(np.float32(2), None, single)
    )
    monkeypatch.setattr("portable_gpu.cli.selftest.all_checks", lambda _: [wrong])
    assert main(["selftest"]) == 1
    output = capsys.readouterr().out
    assert "1.0 instead of 2.0" in output
    assert "0 of 1 checks" in output


def test_selftest_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "sin"]) == 2
    assert re.search("no operation 'sin'; there are: .*all, any", capsys.readouterr().err)


def test_explain_on_this_device(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "sum", "4096", "4096", "--axis", "0"]) == 0
    output = capsys.readouterr().out
    assert engine.target.facts.name in " ".join(output.split())
    assert ("reduce/cpu_columns" if engine.target.is_cpu else "reduce/columns") in output
    assert main(["explain", "sum", "4096x4096/0", "--device", engine.target.facts.name]) == 0
    if not engine.target.forced:
        assert capsys.readouterr().out == output
    capsys.readouterr()
    assert main(["explain", "gemm", "30x20x10", "--trans", "TN", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"]


def test_demo(engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    picture = tmp_path / "digits.png"
    assert main(["demo", "--picture", str(picture)]) == 0
    output = capsys.readouterr().out
    accuracy = re.search(r"accuracy (0\.\d+)", output)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.97
    assert f"exchange {engine.target.exchange}" in output
    assert picture.read_bytes().startswith(b"\x89PNG")
