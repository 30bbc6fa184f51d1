"""gemm with few rows or columns, which GPUs take for a gemv of several vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from reference import assert_within, product_bound, wider
from sampling import in_pairs

import portable_gpu as pg
from portable_gpu.runtime.engine import Engine

# m, n, k: vectors on either side; rows that are short, long, and long and few; parts; V > 1 or not.
SHAPES = [
    (8, 300, 77), (3, 65, 130), (300, 5, 64), (1, 257, 1000), (700, 1, 33), (2, 1032, 9),
    (8, 8, 4100), (64, 7, 4099), (4, 64, 4096), (9, 8, 1),
]  # fmt: skip
PAD = 3


def random(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) + (
        1j * rng.standard_normal(shape) if dtype[0] == "c" else 0
    )
    return values.astype(dtype)


def check(engine: Engine, m: int, n: int, k: int, trans: str, dtype: str) -> None:
    a = random((m, k) if trans[0] == "N" else (k, m), dtype, 1)
    b = random((k, n) if trans[1] == "N" else (n, k), dtype, 2)
    forms = [{"N": x, "T": x.T, "C": x.conj().T} for x in (a, b)]
    left, right = (form[t] for form, t in zip(forms, trans, strict=True))
    options = {"trans_a": trans[0], "trans_b": trans[1], "engine": engine}
    sums = np.dtype("float32") if dtype == "float16" else np.dtype(dtype)

    frame = np.full((m + 2 * PAD, n + 2 * PAD), np.nan, dtype)
    whole = on_device(engine, frame)
    inner = whole[PAD : PAD + m, PAD : PAD + n]
    pg.gemm(on_device(engine, a), on_device(engine, b), c=inner, **options)
    got = from_device(whole)
    first = got[PAD : PAD + m, PAD : PAD + n].copy()
    assert_within(first, wider(left) @ wider(right), product_bound(left, right, sums))
    got[PAD : PAD + m, PAD : PAD + n] = np.nan
    assert np.isnan(got).all(), "written outside of C"

    pg.gemm(on_device(engine, a), on_device(engine, b), alpha=2, beta=-1, c=inner, **options)
    expected = 2 * (wider(left) @ wider(right)) - wider(first)
    got = from_device(whole)[PAD : PAD + m, PAD : PAD + n]
    assert_within(got, expected, product_bound(left, right, sums, 2, -1, first))


@pytest.mark.path
@pytest.mark.parametrize(("shape", "left", "right"), in_pairs(SHAPES, "NT", "NT"), ids=str)
def test_shapes(engine: Engine, shape: tuple[int, int, int], left: str, right: str) -> None:
    check(engine, *shape, left + right, "float32")


DTYPES = ("complex64", "complex128", "float16", "float64")


@pytest.mark.parametrize(
    ("dtype", "trans", "shape"),
    in_pairs(DTYPES, ("NN", "CT", "TC"), ((8, 130, 70), (66, 3, 2100))),
    ids=str,
)
def test_dtypes(engine: Engine, shape: tuple[int, int, int], dtype: str, trans: str) -> None:
    if dtype in ("float64", "complex128") and not engine.target.fp64:
        pytest.skip("no double precision here")
    check(engine, *shape, trans, dtype)


@pytest.mark.tiny
@pytest.mark.parametrize("shape", [(2, 9, 7), (9, 3, 40), (1, 5, 6), (8, 8, 8)], ids=str)
def test_tiny(engine: Engine, shape: tuple[int, int, int]) -> None:
    check(engine, *shape, "NN", "float32")
    check(engine, *shape, "TT", "float32")


def test_strides_of_either_sign(engine: Engine) -> None:
    a, b = random((12, 90), "float32", 3), random((180, 40), "float32", 4)
    for x, y in (
        (a[::-3, ::-1], b[::2]),
        (a[:4], b[::-2, ::-1]),
        (a[:3, ::2], b[44::-1, :20]),
    ):
        got = pg.matmul(x, y, engine=engine)
        assert_within(got, wider(x) @ wider(y), product_bound(x, y, np.dtype("float32")))


def test_integers_wrap_around(engine: Engine) -> None:
    a = np.arange(-60, 60, dtype=np.int8).reshape(4, 30)
    b = np.arange(-100, 110, dtype=np.int8).reshape(30, 7)
    np.testing.assert_array_equal(pg.matmul(a, b, engine=engine), a @ b)


def test_same_bits_in_100_runs(engine: Engine) -> None:
    a, b = random((6, 3000), "float32", 5), random((3000, 200), "float32", 6)
    a, b = on_device(engine, a), on_device(engine, b)
    first = from_device(pg.matmul(a, b, engine=engine))
    for _ in range(100):
        np.testing.assert_array_equal(from_device(pg.matmul(a, b, engine=engine)), first)
