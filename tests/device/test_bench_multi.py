"""``portable-gpu bench multi`` on this machine's devices, and the group that ``info`` shows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.bench import links, on_cores
from portable_gpu.bench.multi_calls import CALLS, TrainingCall
from portable_gpu.cli import main
from portable_gpu.multi import DeviceGroup


def test_rows_a_file_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if pg.default_engine().device.max_compute_units < 2:
        pytest.skip("the device has no two sub-devices")
    report, picture = tmp_path / "r.json", tmp_path / "r.png"
    monkeypatch.setattr(links, "_HOST", 1 << 20)
    calls = ["sum", "streamed gemm"]
    options = ["--rows", ",".join(calls), "--sizes", "96", "--turns", "9"]
    options += ["--threads", "each", "--json", str(report)]
    assert main(["bench", "multi", *options, "--plot", str(picture)]) == 0
    assert "efficiency" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    written = json.loads(report.read_text("utf-8"))
    rows = written["multi"]
    counts = sorted({row["devices"] for row in rows})
    assert counts[0] == 1
    assert [(row["operation"], row["devices"]) for row in rows] == [
        (call, count) for call in calls for count in counts
    ]
    for row in rows:
        assert row["seconds"]["median"] > 0
        assert row["bound"] > 0
        assert 0 <= row["error"] <= 1
        assert 0 <= row["overlap"] <= 1
        assert row["efficiency"]["median"] > 0
    assert written["rates"]["host"] > 0


@pytest.mark.parametrize(
    ("name", "size", "dtype"),
    [
        ("sum", 60, "float32"), ("copies", 60, "float32"), ("elementwise", 60, "float64"),
        ("gemm", 60, "float16"),
        ("cholesky", 60, "float64"), ("conv2d", 3, "float32"), ("fftn", 24, "float32"),
        ("sparse cholesky", 6, "float64"),
        ("training", 3, "float32"),
    ],
)  # fmt: skip
def test_a_wrong_result_is_an_error(
    name: str, size: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One element that is off by half of the largest one is found."""
    for field, value in {"extent": 16, "classes": 5, "stages": (4,)}.items():
        monkeypatch.setattr(TrainingCall, field, value)
    engine = pg.default_engine()
    call = CALLS[name](size, dtype)
    with DeviceGroup([engine.device]) as group:
        result = call.result(call.on_group(group)())
        assert call.error(result, engine) <= 1
        plain = call.result(call.on_engine(engine)())
        if name != "training":  # which takes the statistics of the whole batch
            assert call.error(plain, engine) <= 1
    wrong = result.copy()
    wrong.reshape(-1)[wrong.size // 3] += np.max(np.abs(result)) / 2
    assert call.error(wrong, engine) > 1
    wrong.reshape(-1)[0] = np.nan
    assert not call.error(wrong, engine) <= 1


def test_other_bits_are_found() -> None:
    x = np.arange(1000.0).reshape(10, 100)
    assert on_cores.same_bits(x, x.copy())
    y = x.copy()
    y[7, 3] = np.nextafter(y[7, 3], 0)
    assert not on_cores.same_bits(x, y)
    assert not on_cores.same_bits(x, x.astype(np.float32))


def test_rates_of_devices_with_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pg.Engine(pg.default_engine().device)
    assert links.pinned_rates([engine] * 2) == (np.inf, np.inf) or not engine.maps_host_memory
    engine.maps_host_memory = False
    monkeypatch.setattr(links, "_PINNED", 1 << 16)
    up, down = links.pinned_rates([engine] * 2)
    assert 0 < up < np.inf
    assert 0 < down < np.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rows", "sum,gemv"], "there are: sum, elementwise, copies"),
        (["--sizes", "64x64"], "of multi it is a comma list of positive numbers"),
        (["--dtype", "int32"], "--dtype is int32; sum takes float16"),
        (["--rows", "cholesky", "--dtype", "float16"], "cholesky takes float32, float64, complex"),
        (["--peers", "numpy"], "No such option: --peers"),
        (["--threads", "two"], "threads is 'two'"),
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
