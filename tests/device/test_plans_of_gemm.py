"""Plans of gemm: results of gemm, and refusal of arrays that it was not made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.errors import ArgumentError, ArgumentTypeError, OverlapError, ReadOnlyError
from portable_gpu.runtime.engine import Engine


def random(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("where", ["numpy", "device"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (70, 33, 90), (130, 200, 150)])
@pytest.mark.parametrize("trans", ["NN", "TN", "NT"])
def test_as_gemm(engine: Engine, where: str, shape: tuple[int, int, int], trans: str) -> None:
    m, k, n = shape
    a = random((m, k) if trans[0] == "N" else (k, m))
    b = random((k, n) if trans[1] == "N" else (n, k))
    want = (a if trans[0] == "N" else a.T) @ (b if trans[1] == "N" else b.T)
    place = (lambda x: x) if where == "numpy" else (lambda x: cla.to_device(engine.queue, x))
    read = (lambda x: x) if where == "numpy" else (lambda x: x.get())
    options = {"trans_a": trans[0], "trans_b": trans[1]}
    plan = pg.plan("gemm", place(a), place(b), alpha=2, **options)
    for _ in range(3):
        np.testing.assert_array_equal(read(plan(place(a), place(b))), 2 * want)
    c = place(random((m, n)))
    update = pg.plan("gemm", place(a), place(b), alpha=-1, beta=1, c=c, **options)
    expected = random((m, n)).astype(np.float64)
    for _ in range(3):
        expected -= want
        assert update(place(a), place(b), c) is c
        np.testing.assert_array_equal(read(c), expected)


def test_epilogues_arrays_stay_bound(engine: Engine) -> None:
    a, b, bias = random((40, 30)), random((30, 50)), random((50,))
    plan = pg.plan("gemm", a, b, epilogue=pg.Epilogue().bias(bias).relu())
    for _ in range(2):
        np.testing.assert_array_equal(plan(a, b), np.maximum(a @ b + bias, 0))
    bias += 1
    expected = np.maximum(a @ b + bias, 0)
    if engine.maps_host_memory:  # else the plan keeps what it copied
        np.testing.assert_array_equal(plan(a, b), expected)


def test_strided_arrays_and_empty_ones(engine: Engine) -> None:
    a, b = random((40, 60))[::2, ::3], random((20, 50))
    plan = pg.plan("gemm", a, b)
    np.testing.assert_array_equal(plan(a, b), a @ b)
    empty = np.empty((0, 20), np.float32)
    assert pg.plan("gemm", empty, b)(empty, b).shape == (0, 50)


def test_other_arrays_are_refused(engine: Engine) -> None:
    a, b, c = random((8, 9)), random((9, 7)), np.zeros((8, 7), np.float32)
    plan, into = pg.plan("gemm", a, b), pg.plan("gemm", a, b, c=c)
    for wrong in (
        lambda: plan(a[:4], b),
        lambda: plan(a.astype(np.float64), b),
        lambda: plan(np.asfortranarray(a), b),
        lambda: plan(a, b, c),
        lambda: plan(cla.to_device(engine.queue, a), cla.to_device(engine.queue, b)),
        lambda: into(a, b),
        lambda: into(a, b, c[:4]),
    ):
        with pytest.raises(ArgumentError, match="the plan is for"):
            wrong()
    with pytest.raises(ArgumentTypeError, match="a is a list; the plan is for"):
        plan(a.tolist(), b)
    square = random((6, 6))
    with pytest.raises(OverlapError):
        pg.plan("gemm", square, square.copy(), c=np.empty_like(square))(
            square, square.copy(), square
        )
    assert not c.any()


def test_read_only_output_is_refused(engine: Engine) -> None:
    a, b, c = random((8, 9)), random((9, 7)), np.zeros((8, 7), np.float32)
    into = pg.plan("gemm", a, b, c=c)
    into(a, b, c)
    frozen = np.zeros_like(c)
    frozen.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        into(a, b, frozen)
    assert not frozen.any()
