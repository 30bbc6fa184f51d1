"""Types of the public functions, as type checkers infer them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import portable_gpu as pg
from portable_gpu import fft, linalg, signal

ROOT = Path(__file__).parents[2]
CHECKED = """
from typing import Any, assert_type

import numpy as np
import pyopencl.array as cla

import portable_gpu as pg
from portable_gpu.typing import ArrayLike

NumPyArray = np.ndarray[Any, Any]


def check(host: NumPyArray, device: pg.Array, foreign: cla.Array, either: ArrayLike) -> None:
    assert_type(pg.gemm(host, host, alpha=2, trans_b="T"), NumPyArray)
    assert_type(pg.gemm(device, device, out=device), pg.Array)
    assert_type(pg.gemm(host, device), pg.Array)
    assert_type(pg.gemm(foreign, host), pg.Array)
    assert_type(pg.gemv([[1.0]], [1.0]), NumPyArray)
    assert_type(pg.matmul(device, either), pg.Array)
    assert_type(pg.sum(device, axis=0), pg.Array)
    assert_type(pg.sum(host), Any)
    assert_type(pg.vdot(host, foreign), pg.Array)
    assert_type(pg.fft.rfft(host, 8, axis=0, out=None), NumPyArray)
    assert_type(pg.fft.idctn(device), pg.Array)
    assert_type(pg.signal.fftconvolve(device, host, "same"), pg.Array)
    assert_type(pg.linalg.cholesky(host, True), NumPyArray)
    assert_type(pg.linalg.cho_factor(device), tuple[pg.Array, bool])
    assert_type(pg.linalg.solve(host, host, assume_a="pos"), NumPyArray)
    assert_type(pg.linalg.packed.herk(device, lower=True), pg.Array)
    assert_type(pg.asarray(host), pg.Array)
    assert_type(pg.asnumpy(device), NumPyArray)


def wrong(host: NumPyArray, either: ArrayLike) -> None:
    pg.gemm(host)  # type: ignore[call-overload]
    pg.gemm(host, host, trans="T")  # type: ignore[call-overload]
    pg.fft.fft(host, n="8")  # type: ignore[call-overload]
    pg.linalg.cholesky(None)  # type: ignore[call-overload]
    pg.sum({1: 2})  # type: ignore[call-overload]
"""


@pytest.mark.divided("types, pages and texts")
def test_numpy_in_numpy_out_and_device_in_device_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mypy = pytest.importorskip("mypy.api")
    source = tmp_path / "checked.py"
    source.write_text(CHECKED, encoding="utf-8")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--warn-unused-ignores"]
    report, errors, status = mypy.run([*options, str(source)])
    assert status == 0, report + errors


def test_functions_stay_functions() -> None:
    """Declarations are for type checkers: names and signatures are the functions' own."""
    for module in (pg, fft, linalg, linalg.packed, signal):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                assert function.__name__ == name
                assert "_P" not in str(inspect.signature(function))
