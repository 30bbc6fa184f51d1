"""A bool is true by any byte but 0, wherever one is read; as NumPy has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from sampling import compile_fast, dealt, in_pairs

import portable_gpu as pg
from portable_gpu.runtime.engine import Engine

NAMES = (
    "sum", "prod", "min", "max", "mean", "std", "var", "any", "all", "argmin", "argmax",
    "count_nonzero",
)  # fmt: skip


def bools(*shape: int, seed: int = 0) -> Any:
    """Truth values in bytes of 0, 1, 2, 254 and 255."""
    values = np.array([0, 1, 2, 254, 255], np.uint8)
    return np.random.default_rng(seed).choice(values, shape).view(np.bool_)


def plain(x: Any) -> Any:
    """Return the truth values in bytes of 0 and 1."""
    return x.view(np.uint8) != 0


@pytest.fixture
def place(
    request: pytest.FixtureRequest, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Engine:
    """The engine, or a path with tiles in local memory and loads of vectors."""
    if request.param == "own":
        return engine
    compile_fast(monkeypatch, engine)  # it has many barriers
    return Engine(queue=engine.queue, device_class="generic")


PLACES = ("own", "tiles")
SHAPES = ((5, 7, 3), (70, 130, 33), (300, 260, 270), (3, 400, 200))


@pytest.mark.parametrize("name", NAMES)
def test_reductions(engine: Engine, name: str) -> None:
    x = bools(37, 19)
    ours, numpys = getattr(pg, name), getattr(np, name)
    axes = (None, 0, 1)
    for axis in axes if name in ("sum", "argmax") else dealt(axes, NAMES.index(name), 1):
        expected = numpys(plain(x), axis=axis)
        for got in (ours(x, axis, engine=engine), ours(on_device(engine, x), axis).get()):
            np.testing.assert_allclose(got, expected, rtol=1e-15)


def test_reductions_of_their_own(engine: Engine) -> None:
    x = bools(37, 19)
    bound = np.count_nonzero(x)
    assert pg.asum(x, engine=engine) == bound
    assert pg.nrm2(x, engine=engine) == np.sqrt(bound)
    assert pg.sum(x, dtype="float32", engine=engine) == bound
    assert pg.dot(x[0], x[1], engine=engine) == np.any(plain(x[0]) & plain(x[1]))
    floats = np.arange(37 * 19, dtype=np.float32).reshape(37, 19)
    assert pg.vdot(floats, x, engine=engine) == np.sum(floats[plain(x)])
    added = pg.BinaryOp("added", "0", "a + b")
    assert pg.reduce(x, added, dtype="int32", engine=engine) == bound
    wide = pg.reduce(x.view(np.uint8), added, "x + 1", axis=0, dtype=bool, engine=engine)
    assert set(wide.view(np.uint8)) <= {0, 1}


@pytest.mark.parametrize(
    ("other", "shape", "place"),
    in_pairs(("bool", "float32", "int32"), SHAPES, PLACES),
    indirect=["place"],
)
def test_products(place: Engine, shape: tuple[int, int, int], other: str) -> None:
    m, n, k = shape
    a, b = bools(m, k), bools(k, n, seed=1)
    right = b if other == "bool" else np.arange(k * n).reshape(k, n).astype(other) % 5
    expected = plain(a) @ (plain(right) if other == "bool" else right)
    orders = (a, np.asfortranarray(a))
    for left in orders if other == "bool" else dealt(orders, SHAPES.index(shape), 1):
        got = pg.matmul(left, right, engine=place)
        np.testing.assert_array_equal(got, expected)
        if other == "bool":
            assert set(got.view(np.uint8).ravel()) <= {0, 1}


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_products_of_256_and_more_trues(place: Engine) -> None:
    for m, n, k in ((300, 1, 256), (1, 300, 512), (300, 2, 256)):
        a, b = np.ones((m, k), bool), np.ones((k, n), bool)
        assert np.all(pg.matmul(a, b, engine=place))


@pytest.mark.parametrize("where", ["numpy", "device"])
def test_converted_for_gemv(engine: Engine, where: str) -> None:
    a, x = bools(60, 45), np.arange(45, dtype=np.float32)
    for matrix in (a, np.asfortranarray(a), a[::-2]):
        expected = plain(matrix) @ x
        if where == "numpy":
            got = pg.gemv(matrix, x, engine=engine)
        else:
            got = pg.gemv(on_device(engine, matrix), on_device(engine, x)).get()
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_arrays_of_an_epilogue(place: Engine) -> None:
    a = np.arange(40 * 30, dtype=np.float32).reshape(40, 30) % 7
    b, mask = a.T.copy(), bools(40, 40)
    masked = pg.Epilogue().apply("e != 0 ? v : 0", mask)
    got = pg.gemm(a, b, epilogue=masked.bias(mask[0]), engine=place)
    np.testing.assert_array_equal(got, np.where(plain(mask), a @ b, 0) + plain(mask[0]))
    both = pg.matmul(bools(6, 5), bools(5, 6), epilogue=pg.Epilogue().apply("v + 1"), engine=place)
    assert set(both.view(np.uint8).ravel()) == {1}


def test_device_arrays_that_stay(engine: Engine) -> None:
    a = on_device(engine, bools(33, 40))
    np.testing.assert_array_equal(from_device(a), from_device(a))
    expected = plain(from_device(a))
    np.testing.assert_array_equal(pg.any(a, axis=0).get(), expected.any(0))
    np.testing.assert_array_equal(pg.matmul(a, a.T).get(), expected @ expected.T)
