"""matmul against NumPy: shapes, broadcasting, promotion, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from reference import assert_within, product_bound, wider

import portable_gpu as pg
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import DTypeError, OverlapError, ShapeError
from portable_gpu.ops.gemm import Epilogue, matmul
from portable_gpu.runtime.engine import Engine

BFLOAT16 = bfloat16()


def random(shape: Any, dtype: Any = np.float32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed + len(shape))
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.2
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def check(got: Any, a: Any, b: Any, sums: Any = np.float32) -> None:
    expected = np.matmul(wider(a), wider(b))
    assert np.shape(got) == expected.shape
    bound = product_bound(a, b, sums) if expected.size else 0
    assert_within(got, expected, bound)


SHAPES = [
    ((3,), (3,)), ((4, 3), (3,)), ((3,), (3, 5)), ((4, 3), (3, 5)),
    ((2, 4, 3), (3,)), ((3,), (2, 3, 5)), ((2, 4, 3), (3, 5)), ((4, 3), (2, 3, 5)),
    ((2, 4, 3), (2, 3, 5)), ((2, 1, 4, 3), (6, 3, 5)), ((1, 4, 3), (7, 3, 5)),
    ((0,), (0,)), ((4, 0), (0, 5)), ((4, 0), (0,)), ((2, 0, 3), (3, 5)), ((0, 4, 3), (3, 5)),
    ((2, 1, 3, 1), (1, 5, 1, 2)), ((2000,), (2000,)), ((70, 80), (80,)), ((80,), (80, 70)),
]  # fmt: skip


@pytest.mark.tiny
@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_shapes(engine: Engine, left: Any, right: Any) -> None:
    a, b = random(left), random(right, seed=1)
    got = matmul(a, b, engine=engine)
    assert type(got) is type(np.matmul(a, b))
    assert got.dtype == np.float32
    check(got, a, b)
    device_a, device_b = cla.to_device(engine.queue, a), cla.to_device(engine.queue, b)
    on_device = matmul(device_a, device_b)
    assert isinstance(on_device, pg.Array)
    check(on_device.get(), a, b)


@pytest.mark.parametrize(
    ("left", "right"),
    [((5, 40, 30), (30, 37)), ((2, 3, 33, 20), (3, 20, 40)), ((1, 9, 70, 40), (4, 1, 40, 5))],
    ids=str,
)
@pytest.mark.parametrize("form", ["plain", "transposed", "every second", "reversed", "broadcast"])
def test_batches_of_views(engine: Engine, left: Any, right: Any, form: str) -> None:
    a, b = random(left), random(right, seed=1)
    if form == "transposed":
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
        b = np.ascontiguousarray(np.moveaxis(b, -1, 0)).T.T
        b = np.moveaxis(b, 0, -1)
    elif form == "every second":
        a, b = a.repeat(2, axis=0)[::2], b.repeat(2, axis=-1)[..., ::2]
    elif form == "reversed":
        a, b = a[::-1, ..., ::-1], b[..., ::-1, :]
    elif form == "broadcast":
        a = np.broadcast_to(a[..., :1], left)
    check(matmul(a, b, engine=engine), a, b)


@pytest.mark.path
def test_a_stack_times_one_matrix(engine: Engine) -> None:
    a, b, bias = random((6, 20, 30)), random((30, 25)), random((25,))
    got = matmul(a, b, epilogue=Epilogue().bias(bias), engine=engine)
    np.testing.assert_allclose(got, a @ b + bias, rtol=1e-4, atol=1e-4)
    per_matrix, rows = random((6, 1, 25)), random((6, 20))
    epilogue = Epilogue().add(per_matrix).scale(rows, per="row").apply("v + row")
    got = matmul(a, b, epilogue=epilogue, engine=engine)
    expected = (a @ b + per_matrix) * rows[..., None] + np.arange(20)[:, None]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"],
)
def test_integers_and_bool_are_exact(engine: Engine, dtype: str) -> None:
    a, b = random((33, 40), dtype), random((40, 36), dtype, seed=1)
    got, expected = matmul(a, b, engine=engine), np.matmul(a, b)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


MIXED = [
    ("float16", "float32"), ("int8", "float32"), ("int32", "float32"), ("float32", "float64"),
    ("complex64", "float32"), ("float64", "complex64"), ("int8", "uint8"), ("uint64", "int64"),
    ("bool", "int16"), ("bool", "float32"), ("float16", "complex64"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), MIXED)
def test_mixed_dtypes_promote_as_numpy(engine: Engine, left: str, right: str) -> None:
    a, b = random((18, 20), left), random((20, 33), right, seed=1)
    if np.dtype(left).kind in "iu" and np.result_type(a, b).kind == "f":
        a = (a % 100).astype(left)
    if np.dtype(right).kind in "iu" and np.result_type(a, b).kind == "f":
        b = (b % 100).astype(right)
    got, expected = matmul(a, b, engine=engine), np.matmul(a, b)
    assert got.dtype == expected.dtype
    if expected.dtype.kind in "iu":
        np.testing.assert_array_equal(got, expected)
    else:
        check(got, a, b, expected.dtype)


def test_bfloat16(engine: Engine) -> None:
    if BFLOAT16 is None:
        pytest.skip("ml_dtypes is not installed")
    a, b = random((18, 20)).astype(BFLOAT16), random((20, 33)).astype(BFLOAT16)
    got = matmul(a, b, engine=engine)
    assert got.dtype == BFLOAT16
    check(got, a, b)
    check(matmul(a, b.astype(np.float32), engine=engine), a, b)
    out = np.empty((18, 33), np.float32)
    assert matmul(a, b, out=out, engine=engine) is out
    check(out, a, b)
    with pytest.raises(DTypeError):
        matmul(a, b.astype(np.float16), engine=engine)


def test_out(engine: Engine) -> None:
    a, b = random((3, 10, 20)), random((20, 15))
    big = np.full((6, 10, 30), 5, np.float32)
    out = big[::2, :, ::2]
    assert matmul(a, b, out=out, engine=engine) is out
    check(out, a, b)
    assert np.all(big[1::2] == 5)
    assert np.all(big[::2, :, 1::2] == 5)
    vector = np.empty(10, np.float32)
    assert matmul(a[0], b[:, 0].copy(), out=vector, engine=engine) is vector
    check(vector, a[0], b[:, 0])


@pytest.mark.tiny
def test_errors(engine: Engine) -> None:
    a = random((4, 3))
    for left, right in [
        (a, a), (a, random((4,))), (random((4,)), random((3, 4))), (np.float32(1), a),
        (a, np.float32(1)), (random((2, 4, 3)), random((3, 3, 5))),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r"matmul|core dimension|operand"):
            np.matmul(left, right)
        with pytest.raises(ShapeError):
            matmul(left, right, engine=engine)
    with pytest.raises(DTypeError):
        matmul(np.array([["x"]]), a, engine=engine)
    with pytest.raises(OverlapError):
        matmul(a[:3], a[:3], out=a[:3], engine=engine)
    with pytest.raises(ShapeError):
        matmul(a, a.T, out=np.empty((3, 3), np.float32), engine=engine)
    with pytest.raises(DTypeError):
        matmul(a, a.T, out=np.empty((4, 4), np.float64), engine=engine)
