"""``portable-gpu bench transfer`` on this machine's device: rows, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from portable_gpu.bench import transfer
from portable_gpu.bench.transfer import Copier
from portable_gpu.cli import main


def test_rows_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.json"
    options = ["--sizes", "1000,70001", "--peers", "driver,pinned", "--json", str(report)]
    assert main(["bench", "transfer", *options]) == 0
    assert "70,001" in capsys.readouterr().out
    rows = json.loads(report.read_text())["transfers"]
    assert [(row["nbytes"], row["peer"], row["direction"]) for row in rows] == [
        (nbytes, peer, direction)
        for nbytes in (1000, 70001)
        for peer in ("driver", "pinned")
        for direction in ("to device", "to host")
    ]
    assert all(row["ours"]["median"] > 0 and row["ratio"]["median"] > 0 for row in rows)
    assert main(["bench", "transfer", "--sizes", "999", "--peers", "none"]) == 0


def test_other_bytes_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Copier(lambda x: x, np.zeros_like, lambda: None)
    monkeypatch.setattr(transfer, "ours", lambda engine: wrong)
    assert main(["bench", "transfer", "--sizes", "999", "--peers", "none"]) != 0
    assert "a copy of 999 bytes to the device and back changed the data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "1000x"], "--sizes has '1000x'"),
        (["--sizes", "0"], "--sizes has '0'"),
        (["--peers", "numpy"], "of transfer there are: driver, pinned, torch, cupy"),
        (["--dtype", "float32"], "No such option: --dtype"),
    ],
)
def test_what_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "transfer", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
