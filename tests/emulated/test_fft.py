"""NVIDIA's transforms by work-groups, run from their PTX."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from emulator.device import Emulator
from emulator.memory import Fault

from portable_gpu.dtypes import element
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.ops.fft import group
from portable_gpu.ops.fft.passes import Pass, Rows
from portable_gpu.ops.fft.policy import GroupFftPolicy

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))

LANES = 3
SMALL = GroupFftPolicy(item=16, group=32, beside=4, most=4096)


def complex_pass(n: int, dtype: str, across: bool, whole: int = 0, inverse: bool = False) -> Pass:
    rows = Rows("complex", n, LANES, 1) if across else Rows("complex", n, 1, n)
    return Pass(n, inverse, element(dtype), LANES, (2,), *(_of_two(rows, n),) * 2, whole=whole)


def real_pass(n: int) -> Pass:
    half = n // 2 + 1
    source, result = Rows("real", n, 1, n), Rows("half", half, 1, half)
    real = element("float32")
    return Pass(n, False, real, LANES, (2,), _of_two(source, n), _of_two(result, half))


def _of_two(rows: Rows, length: int) -> Rows:
    """With the stride of a batch of two."""
    return Rows(rows.form, rows.rows, rows.row, rows.lane, (LANES * length,))


def transform(run: Pass, x: Any, gpu: Emulator, policy: GroupFftPolicy = SMALL) -> Any:
    plan = group.GroupPassPlan(gpu, [run], policy)
    numbers = 2 * LANES * run.target.rows
    out = np.full(numbers, np.nan, np.complex64 if x.dtype.itemsize < 16 else np.complex128)
    plan.enqueue(gpu, [x.copy(), out], (0, 0))
    assert gpu.launches == ["fft/group"]
    return out


def close(got: Any, wanted: Any) -> None:
    bound = 2e-6 if got.dtype == np.complex64 else 5e-15
    assert np.linalg.norm((got - wanted).ravel()) <= bound * np.linalg.norm(wanted.ravel())


@pytest.mark.parametrize(
    ("name", "n", "dtype", "across", "inverse"),
    [
        ("sm_90", 64, "float32", False, False),
        ("sm_90", 256, "float64", True, True),
        ("sm_60", 30, "float32", True, False),
        ("sm_90", 101, "float32", False, True),  # by a chirp
    ],
)
def test_complex(name: str, n: int, dtype: str, across: bool, inverse: bool) -> None:
    x = _numbers((2, n, LANES) if across else (2, LANES, n), dtype)
    run = complex_pass(n, dtype, across, inverse=inverse)
    got = transform(run, x, Emulator.of(name, races=True)).reshape(x.shape)
    kept = np.fft.ifft(x, axis=1 if across else 2) * n if inverse else None
    close(got, np.fft.fft(x, axis=1 if across else 2) if kept is None else kept)


def test_roots_between_two_passes() -> None:
    n, whole = 32, 32 * LANES
    x = _numbers((2, n, LANES), "float32")
    got = transform(complex_pass(n, "float32", True, whole), x, Emulator.of("sm_90", races=True))
    roots = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(LANES)) / whole)
    close(got.reshape(x.shape), np.fft.fft(x, axis=1) * roots)


def test_two_real_lines_as_one() -> None:
    x = _numbers((2, LANES, 48), "float32").real.copy()
    got = transform(real_pass(48), x, Emulator.of("sm_90", races=True))
    close(got.reshape(2, LANES, 25), np.fft.rfft(x))


@pytest.mark.parametrize("real", [False, True], ids=["complex", "real"])
def test_warps_that_do_not_wait_for_each_other(real: bool) -> None:
    """Each warp has a slot; it goes on to the next layout while another one still reads."""
    x = _numbers((2, LANES, 512), "float32")
    run = real_pass(512) if real else complex_pass(512, "float32", False)
    gpu, warps = Emulator.of("sm_90", races=True), replace(SMALL, group=128)
    if real:
        got = transform(run, x.real.copy(), gpu, warps)
        close(got.reshape(2, LANES, 257), np.fft.rfft(x.real))
    else:
        close(transform(run, x, gpu, warps).reshape(x.shape), np.fft.fft(x))


def test_a_missing_barrier_is_seen() -> None:
    gpu = Emulator.of("sm_90", races=True)
    gpu.edit = partial(re.sub, r"bar\.sync\s+\d+;", "", count=1)
    x = _numbers((2, 256, LANES), "float32")
    with pytest.raises(Fault, match="no barrier between them"):
        transform(complex_pass(256, "float32", True), x, gpu)


def _numbers(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return x.astype(np.complex64 if dtype == "float32" else np.complex128)
