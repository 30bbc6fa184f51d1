"""``portable-gpu bench multi`` on this machine's devices, and the group that ``info`` shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import portable_gpu as pg
from portable_gpu.cli import main


def test_rows_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if pg.default_engine().device.max_compute_units < 2:
        pytest.skip("the device has no two sub-devices")
    report = tmp_path / "r.json"
    options = ["--sizes", "96", "--turns", "9", "--json", str(report)]
    assert main(["bench", "multi", *options]) == 0
    assert "efficiency" in capsys.readouterr().out
    rows = json.loads(report.read_text("utf-8"))["multi"]
    on_devices = [("sum", False), ("elementwise", False), ("gemm", False)]
    calls = [*on_devices, ("gemm", True), ("streamed gemm", True)]
    counts = sorted({row["devices"] for row in rows})
    assert counts[0] == 1
    assert [(row["operation"], row["numpy"], row["devices"]) for row in rows] == [
        (*call, count) for call in calls for count in counts
    ]
    for row in rows:
        assert row["seconds"]["median"] > 0
        assert 0 <= row["overlap"] <= 1
        assert row["efficiency"]["median"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sizes", "64x64"], "of multi it is a comma list of rows"),
        (["--peers", "numpy"], "multi takes only"),
        (["--device", "0:0,9:9"], "9:9"),
    ],
)
def test_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "multi", *options]) != 0
    assert message in " ".join(capsys.readouterr().err.split())


def test_info_shows_the_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["chosen"]["index"] in described["group"]
    assert set(described["group"]) <= {entry["index"] for entry in described["devices"]}
