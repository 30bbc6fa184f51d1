"""Reductions of whole arrays against NumPy in higher precision: sizes, dtypes, special values."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from reference import (
    add,
    assert_within,
    norm,
    norm_bound,
    product_of_all_bound,
    sum_bound,
    variance,
    variance_bound,
    wider,
)
from sampling import FORCED, OCLGRIND, computes, dealt, needs, needs_fp64, sample

import portable_gpu as pg
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    BuildError,
    DTypeError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Steps

BFLOAT16 = bfloat16()

NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128"
)
DTYPES = [np.dtype(name) for name in NAMES.split()] + ([BFLOAT16] if BFLOAT16 is not None else [])
N = 1009  # a prime; the common size, so that operations on it share no more than they must


def values(n: Any, dtype: Any, seed: int = 0) -> Any:
    """Values of mixed sign and size; integers over all their range."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, n, dtype, endpoint=True)
    if dtype.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    x = rng.standard_normal(n)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(n)
    return x.astype(dtype)


def folded_in(dtype: Any) -> np.dtype[Any]:
    """The dtype that elements of ``dtype`` are added in."""
    dtype = np.dtype(dtype)
    return np.dtype(np.float32) if dtype.kind not in "biufc" or dtype == np.float16 else dtype


def check_sum(got: Any, x: Any, axis: Any = None, keepdims: bool = False) -> None:
    """``got`` is exact for integers, and within 16 u sum|x| for the rest."""
    if x.dtype.kind in "biu":
        expected = np.sum(x, axis=axis, keepdims=keepdims)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    else:
        assert got.dtype == x.dtype
        assert_within(got, add(x, axis, keepdims), sum_bound(x, folded_in(x.dtype), axis, keepdims))


# -- sizes and dtypes


@pytest.mark.tiny
@pytest.mark.parametrize("n", [0, 1, 3, 130])
def test_sum_of_few(engine: Engine, n: int) -> None:
    x = values(n, np.float32)
    check_sum(pg.sum(x, engine=engine), x)


@pytest.mark.path
def test_sum_at_every_edge(engine: Engine) -> None:
    sub, group = engine.target.subgroup_size, 256
    edges = {sub, 16, 64, group, 4 * group, 16 * group, 1 << 15, 1 << 17}
    sizes = {n + d for n in edges for d in (-1, 0, 1)} | {2, 7, 997, 65537}
    data = values(max(sizes), np.float32)
    for n in sorted(sizes):
        check_sum(pg.sum(data[:n], engine=engine), data[:n])


@pytest.mark.path
@pytest.mark.parametrize("n", [(1 << 20) + 7, 3_000_017])
def test_sum_of_many(engine: Engine, n: int) -> None:
    x = values(n, np.float32, n)
    check_sum(pg.sum(x, engine=engine), x)
    whole = values(n, np.int32, n)
    check_sum(pg.sum(whole, engine=engine), whole)


@pytest.mark.parametrize(
    "dtype", sample(DTYPES, "bool", "int8", "uint64", "bfloat16", "complex128"), ids=str
)
def test_sum_of_each_dtype(engine: Engine, dtype: Any) -> None:
    x = values(N, dtype)
    check_sum(pg.sum(x, engine=engine), x)


@pytest.mark.parametrize("dtype", sample(DTYPES, "int8", "uint64", "float32", "complex64"), ids=str)
def test_extremes_of_each_dtype(engine: Engine, dtype: Any) -> None:
    x = values(N, dtype, 1)
    names = ("min", "argmin", "max", "argmax")
    for name in names if dtype == "float32" else dealt(names, DTYPES.index(dtype), 1):
        got = getattr(pg, name)(x, engine=engine)
        assert got.dtype == (np.int64 if name.startswith("arg") else dtype)
        assert got == getattr(np, name)(x)


@pytest.mark.parametrize(
    "dtype", sample(["int8", "uint32", "float16", "float32", "complex64"], "int8", "complex64")
)
def test_prod(engine: Engine, dtype: str) -> None:
    x = values(N, dtype, 3)
    if x.dtype.kind in "iu":
        x |= 1  # a zero would hide the rest
        np.testing.assert_array_equal(pg.prod(x, engine=engine), np.prod(x))
        return
    x = (x / np.abs(x) * np.linspace(0.9, 1.1, N)).astype(dtype)
    got = pg.prod(x, engine=engine)
    assert got.dtype == x.dtype
    assert_within(got, np.prod(wider(x)), product_of_all_bound(x, folded_in(dtype)))


@pytest.mark.parametrize(
    "dtype",
    sample(["bool", "int16", "uint64", "float16", "float32", "complex128"], "int16", "complex128"),
)
def test_mean(engine: Engine, dtype: str) -> None:
    x = values(N, dtype, 4)
    got = pg.mean(x, engine=engine)
    assert got.dtype == np.mean(x).dtype
    sums = np.float64 if x.dtype.kind in "biu" else folded_in(dtype)
    assert_within(got, add(wider(x) / np.longdouble(N)), sum_bound(x, sums) / N)


SPREADS = ["bool", "int32", "float16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("dtype", sample(SPREADS, "float32", "complex64"))
def test_var_and_std(engine: Engine, dtype: str) -> None:
    x = values(N, dtype, 5)
    sums = np.float64 if x.dtype.kind in "biu" else folded_in(dtype)
    kinds = ("var", "var of a sample", "std")
    for kind in kinds if dtype == "float32" else dealt(kinds, SPREADS.index(dtype), 1):
        if kind == "std":
            expected = np.sqrt(variance(x))
            assert_within(pg.std(x, engine=engine), expected, variance_bound(x, sums) / expected)
            continue
        ddof = 0 if kind == "var" else 1
        got = pg.var(x, ddof=ddof, engine=engine)
        assert got.dtype == np.var(x).dtype
        assert_within(got, variance(x, ddof=ddof), variance_bound(x, sums, ddof=ddof))


@pytest.mark.path
def test_var_of_large_offsets(engine: Engine) -> None:
    noise = np.random.default_rng(6).standard_normal(100_003)
    offsets = ((np.float64, 1e8), (np.float32, 1e4), (np.complex128, 1e8 - 1e8j))
    for dtype, offset in offsets[: 3 - FORCED]:
        if not computes(engine, dtype):
            continue
        x = (noise + offset).astype(dtype)
        assert_within(pg.var(x, engine=engine), variance(x), variance_bound(x, dtype))
    between = np.resize(np.array([1 << 24, (1 << 24) + 2], np.float32), 1000)
    assert pg.var(between, engine=engine) == 1  # about a mean that float32 does not have
    item = np.full(N, 0.1, np.float32)
    assert 0 <= pg.var(item, engine=engine) <= 1e-15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1])
def test_var_whose_first_element_is_far_from_all_others(
    engine: Engine, axis: int, dtype: Any
) -> None:
    """About the first element, n - 1 of n parts of the sum of squares cancel."""
    x = np.random.default_rng(3).standard_normal((1 << 16, 3)).astype(dtype)
    x[0] = (1e6, -1e9, 0)
    x = x if axis == 0 else np.ascontiguousarray(x.T)
    for ddof in (0, 1):
        got = pg.var(x, axis=axis, ddof=ddof, engine=engine)
        want = x.var(axis, np.longdouble, ddof=ddof)
        assert np.all(np.abs(got - want) <= 8 * np.finfo(dtype).eps * want)


@pytest.mark.parametrize(
    ("device_class", "dtype", "axis"),
    [("gcn", "f4", 1), ("gcn", "c8", 0), ("gcn-gfx906", "f8", 0), ("gcn-gfx906", "f8", 1)],
)
def test_var_in_one_pass(engine: Engine, device_class: str, dtype: str, axis: int) -> None:
    """A CPU takes two passes, so GPUs' classes are forced on it."""
    if not engine.target.fp64:
        pytest.skip("the device has no double precision")
    rng = np.random.default_rng(7)
    x = (rng.standard_normal((45, 131)) + 1j * rng.standard_normal((45, 131))).astype("c16") + 7
    x = (x if dtype == "c8" else x.real).astype(dtype)
    x[0, :9] = 1e4
    with Engine(engine.device, device_class=device_class, caller=False) as forced:
        got = pg.var(x, axis=axis, engine=forced)
        plans = [plan for plan in forced._plans.values() if isinstance(plan, Steps)]
        assert [len(plan.steps) for plan in plans] == [1]
    want = x.astype(np.clongdouble if dtype == "c8" else np.longdouble).var(axis)
    assert np.all(np.abs(got - want) <= 16 * np.finfo(got.dtype).eps / 2 * want)


@pytest.mark.parametrize("first", [0.1, 1 / 3])
def test_var_of_many_long_rows_and_one_far_element_each(engine: Engine, first: float) -> None:
    """A lane adds thousands of equal squares, nearly all of which cancel in the end."""
    n = 1 << 22
    row = np.zeros(n, np.float32)
    row[0] = first
    want = float(np.float64(row[0]) ** 2 / n * (1 - 1 / n))
    got = pg.var(np.broadcast_to(row, (32, n)), axis=1, engine=engine)
    assert np.all(np.abs(got - want) <= 16 * 2.0**-24 * want)


def test_var_of_what_nearly_overflows(engine: Engine) -> None:
    if not engine.target.fp64:
        pytest.skip("the device has no double precision")
    x = np.random.default_rng(3).standard_normal((5, 300)) * np.array(
        [[1e152]] + [[1e160]] + [[1]] * 3
    )
    x[2, 9], x[3, 0] = np.inf, np.nan
    x[4] = 1e305 * (-1) ** np.arange(300)  # the sum of distances from the first overflows
    got = pg.var(x, axis=1, engine=engine)
    np.testing.assert_allclose(got[0], (x[0] / 1e152).var() * 1e304, rtol=1e-14)
    assert got[1] == got[4] == np.inf
    assert np.isnan(got[2:4]).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_means_of_complex_infinities(engine: Engine, dtype: str) -> None:
    """NumPy divides by a complex count, so an infinite part makes the other part NaN."""
    if dtype == "complex128" and not engine.target.fp64:
        pytest.skip("the device has no double precision")
    x = np.ones((6, 40), dtype)
    x[0, 3], x[1, 5] = complex(np.inf, 2), complex(3, -np.inf)
    x[2, 0], x[3, 9] = complex(np.inf, np.inf), complex(1, np.nan)
    x[4] = np.finfo(dtype).max  # the sum overflows
    rtol = 4 * np.finfo(dtype).eps
    with np.errstate(all="ignore"):
        for axis in (1, 0):
            got, want = pg.mean(x, axis=axis, engine=engine), x.mean(axis)
            np.testing.assert_allclose(got.real, want.real, rtol=rtol)
            np.testing.assert_allclose(got.imag, want.imag, rtol=rtol)
        x[4] = 1  # a variance about the first element does not overflow
        np.testing.assert_array_equal(pg.var(x, axis=1, engine=engine), x.var(1))


def test_var_divisors(engine: Engine) -> None:
    x = values(5, np.float64, 7)
    assert np.isinf(pg.var(x, ddof=5, engine=engine))
    assert np.isinf(pg.var(x, ddof=7, engine=engine))
    assert np.isnan(pg.std(np.full(5, 2.0), ddof=5, engine=engine))
    got = pg.var(x, ddof=0.5, engine=engine)
    assert_within(got, variance(x, ddof=0.5), variance_bound(x, np.float64, ddof=0.5))
    for wrong, error in (
        ("one", ArgumentTypeError),
        (None, ArgumentTypeError),
        (float("nan"), ArgumentError),
        (float("inf"), ArgumentError),
    ):
        with pytest.raises(error, match="ddof"):
            pg.var(x, ddof=wrong, engine=engine)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    "dtype", sample(["bool", "int64", "float16", "float32", "complex64"], "bool", "float16")
)
def test_logic(engine: Engine, dtype: str) -> None:
    x = np.zeros(N, dtype)
    assert not pg.any(x, engine=engine)
    assert pg.count_nonzero(x, engine=engine) == 0
    x[N - 1] = 1j if x.dtype.kind == "c" else 1
    assert pg.any(x, engine=engine).dtype == bool
    assert pg.any(x, engine=engine)
    assert not pg.all(x, engine=engine)
    x = values(N, dtype, 8)
    x[::3] = 0
    got = pg.count_nonzero(x, engine=engine)
    assert got.dtype == np.int64
    assert got == np.count_nonzero(x)
    x[:] = 1
    if x.dtype.kind not in "biu":
        x[5] = np.nan
        x[6] = -0.0
        assert not pg.all(x, engine=engine)
        x[6] = 1e-7
    assert pg.all(x, engine=engine)
    assert pg.count_nonzero(x, engine=engine) == N


@pytest.mark.path
def test_count_of_many(engine: Engine) -> None:
    x = np.ones((1 << 20) + 3, np.int8)
    assert pg.count_nonzero(x, engine=engine) == x.size
    assert pg.sum(np.full(x.size, 65535, np.uint16), engine=engine) == 65535 * x.size
    assert pg.sum(np.full(x.size, -128, np.int8), engine=engine) == -128 * x.size


@pytest.mark.parametrize(
    "dtype",
    sample(["int8", "int64", "uint8", "float16", "float64", "complex64"], "int8", "complex64"),
)
def test_dot_and_vdot(engine: Engine, dtype: str) -> None:
    a, b = values(N, dtype, 9), values(N, dtype, 10)
    for name in ("vdot",) if FORCED else ("dot", "vdot"):
        got, numpys = getattr(pg, name)(a, b, engine=engine), getattr(np, name)(a, b)
        assert got.dtype == numpys.dtype
        if a.dtype.kind in "iu":
            np.testing.assert_array_equal(got, numpys)
            continue
        products = wider(a) * wider(b) if name == "dot" else np.conj(wider(a)) * wider(b)
        assert_within(got, np.sum(products), 2 * sum_bound(products, folded_in(dtype)))


PAIRS = [
    "float32 float64", "int8 float32", "uint64 int64", "int32 complex64", "complex64 float64",
    "bool int16", "bool bool", "int16 uint8",
]  # fmt: skip


@pytest.mark.parametrize("pair", sample(PAIRS, "complex64 float64", "bool bool"))
def test_dot_of_two_dtypes(engine: Engine, pair: str) -> None:
    first, second = pair.split()
    a, b = values(N, first, 11), values(N, second, 12)
    if first == second == "bool":
        a, b = np.arange(N) < 256, np.arange(N) < 512  # 256 of both do not fit 8 bits
    numpys = np.dot(a, b)
    for x, y in ((a, b), (on_device(engine, a), on_device(engine, b))):
        got = pg.dot(x, y, engine=engine)
        got = got if x is a else got.get()[()]
        assert got.dtype == numpys.dtype
        if numpys.dtype.kind in "biu":
            np.testing.assert_array_equal(got, numpys)
        else:
            products = wider(a) * wider(b)
            assert_within(got, np.sum(products), 2 * sum_bound(products, numpys.dtype))


def test_dot_of_what_does_not_fit(engine: Engine) -> None:
    with pytest.raises(ShapeError, match=r"\(3,\).*\(4,\)"):
        pg.dot(np.ones(3), np.ones(4), engine=engine)
    with pytest.raises(ShapeError, match="one or two axes"):
        pg.dot(np.ones((2, 2, 2)), np.ones(2), engine=engine)
    with pytest.raises(ShapeError, match="vdot"):
        pg.vdot(np.ones((2, 3)), np.ones(6), engine=engine)


def test_vdot_of_matrices(engine: Engine) -> None:
    a = values((33, 47), np.complex128, 13)
    b = np.asfortranarray(values((33, 47), np.complex128, 14))
    products = np.conj(wider(a)) * wider(b)
    assert_within(pg.vdot(a, b, engine=engine), np.sum(products), 2 * sum_bound(products, "c16"))


@pytest.mark.parametrize(
    "dtype",
    sample(["bool", "int8", "uint16", "float16", "float32", "complex128"], "int8", "complex128"),
)
def test_asum(engine: Engine, dtype: str) -> None:
    x = values(N, dtype, 15)
    got = pg.asum(x, engine=engine)
    if x.dtype.kind in "biu":
        assert got == np.sum(np.abs(wider(x).astype(np.int64)))
        return
    size = np.abs(wider(x).real) + np.abs(wider(x).imag)
    assert got.dtype == x.real.dtype
    assert_within(got, np.sum(size), sum_bound(size, folded_in(dtype).type(0).real.dtype))


@pytest.mark.parametrize(
    "dtype", sample(["int16", "float16", "float32", "float64", "complex64"], "float32", "complex64")
)
def test_nrm2(engine: Engine, dtype: str) -> None:
    x = values(N, dtype, 16)
    sums = np.float64 if x.dtype.kind == "i" else folded_in(dtype)
    assert_within(pg.nrm2(x, engine=engine), norm(x), norm_bound(x, sums))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nrm2_neither_overflows_nor_underflows(engine: Engine, dtype: Any) -> None:
    info = np.finfo(dtype)
    tiny, huge = float(info.smallest_subnormal), float(info.max)
    normal = values(N, dtype, 17)
    scales = (
        [1e30, 1e-30, 1e37, 1e-37, 1e19, 1e-19, 1e-20] if dtype == np.float32 else [1e300, 1e-300]
    )
    cases = [normal * dtype(scale / 8) for scale in scales]
    cases += [
        np.array([3 * tiny, 4 * tiny], dtype),
        np.arange(N, dtype=dtype) * dtype(tiny),
        np.array([huge / 2, huge / 2, 1, tiny], dtype),
        np.concatenate([normal * dtype(a) for a in (*scales[:2], 1)]).astype(dtype),
        np.zeros(N, dtype),
        np.array([-0.0], dtype),
    ]
    for x in cases:
        assert_within(pg.nrm2(x, engine=engine), norm(x), norm_bound(x, dtype) + tiny)
    for odd, expected in (([np.inf, 1], np.inf), ([np.nan, 1], np.nan), ([-np.inf], np.inf)):
        assert_equal(pg.nrm2(np.array(odd, dtype), engine=engine), expected)
    mixed = normal.copy()
    mixed[[3, N - 2]] = np.inf, np.nan
    assert np.isnan(pg.nrm2(mixed, engine=engine))
    mixed[N - 2] = tiny
    assert pg.nrm2(mixed, engine=engine) == np.inf


#: Roots of the greatest plain sum of squares that nrm2 takes, and of the least of one element.
EDGES = {np.float32: (2.0**40, 2.0**-49), np.float64: (2.0**486, 2.0**-482.5)}
EDGED = list(EDGES)[: 2 - FORCED]  # the steps are the same in both


@pytest.mark.path
@pytest.mark.parametrize("dtype", EDGED)
def test_nrm2_at_the_edges_of_plain_squares(engine: Engine, dtype: Any) -> None:
    needs(engine, dtype)
    limit, smallest = EDGES[dtype]
    for n in (1, N):
        for edge in (limit, limit / np.sqrt(n), smallest, smallest * np.sqrt(n)):
            for factor in (0.5, 1 - 1e-6, 1, 1 + 1e-6, 2):
                x = np.full(n, edge * factor, dtype)
                assert_within(pg.nrm2(x, engine=engine), norm(x), norm_bound(x, dtype))


@pytest.mark.path
@pytest.mark.parametrize("dtype", EDGED)
def test_nrm2_of_every_magnitude(engine: Engine, dtype: Any) -> None:
    needs(engine, dtype)
    info = np.finfo(dtype)
    for n in (1, N):
        for exponent in range(info.minexp - info.nmant, info.maxexp - 6, info.nmant // 8):
            x = np.full(n, np.ldexp(1.37, exponent), dtype)
            assert_within(pg.nrm2(x, engine=engine), norm(x), norm_bound(x, dtype))


@pytest.mark.path
@pytest.mark.parametrize("dtype", EDGED)
def test_nrm2_where_the_sums_of_all_shares_would_overflow(engine: Engine, dtype: Any) -> None:
    needs(engine, dtype)
    half = np.finfo(dtype).maxexp // 2
    for exponent in range(half - 18, half, 2):
        x = np.full(1 << 18, 2.0**exponent, dtype)
        assert_within(pg.nrm2(x, engine=engine), norm(x), norm_bound(x, dtype))


@pytest.mark.path
@pytest.mark.parametrize("dtype", EDGED)
def test_nrm2_of_blocks_of_all_magnitudes(engine: Engine, dtype: Any) -> None:
    """Some work-items can take plain squares, and others cannot."""
    needs(engine, dtype)
    limit, smallest = EDGES[dtype]
    normal = values(1 << 15, dtype, 18)
    scales = {"normal": 1.0, "huge": limit * 1e5, "tiny": smallest / 1e5, "zero": 0.0}
    blocks = {name: (normal * scale).astype(dtype) for name, scale in scales.items()}
    for names in ("normal huge", "tiny normal", "zero tiny", "zero normal tiny", "tiny huge zero"):
        x = np.concatenate([blocks[name] for name in names.split() * 2])
        assert_within(pg.nrm2(x, engine=engine), norm(x), norm_bound(x, dtype))
    x[1 << 14] = np.inf
    assert pg.nrm2(x, engine=engine) == np.inf
    x[-7] = np.nan
    assert np.isnan(pg.nrm2(x, engine=engine))


@pytest.mark.path
@pytest.mark.parametrize("dtype", EDGED)
def test_nrm2_of_one_element_among_zeros(engine: Engine, dtype: Any) -> None:
    needs(engine, dtype)
    info = np.finfo(dtype)
    for item in (info.smallest_subnormal, info.tiny, EDGES[dtype][1] / 3, 1, info.max):
        x = np.zeros(100_003, dtype)
        x[70_001] = item
        got = pg.nrm2(x, engine=engine)
        assert_within(got, norm(x[70_001:70_002]), norm_bound(x[70_001:70_002], dtype))


@pytest.mark.path
@pytest.mark.parametrize("dtype", EDGED)
@pytest.mark.parametrize("shape", [(37, 1500), (1500, 37)], ids=str)
def test_nrm2_of_an_axis_of_all_magnitudes(engine: Engine, dtype: Any, shape: Any) -> None:
    """Next to each other: results of plain squares, and of others."""
    needs(engine, dtype)
    limit, smallest = EDGES[dtype]
    x = values(shape, dtype, 19)
    for axis in (0, 1):
        lines = np.moveaxis(x.copy(), 1 - axis, 0)  # each is folded to one result
        lines *= np.resize(np.array([1, limit * 1e5, 0, smallest / 1e5], dtype), len(lines))[
            :, None
        ]
        lines[5, 3], lines[9, 30] = np.inf, np.nan
        whole = np.delete(np.arange(len(lines)), [5, 9])
        got = pg.nrm2(np.moveaxis(lines, 0, 1 - axis), axis=axis, engine=engine)
        assert got[5] == np.inf
        assert np.isnan(got[9])
        folded = lines[whole]
        assert_within(got[whole], norm(folded, 1), norm_bound(folded, dtype, 1))


def test_nrm2_of_many_at_the_edge_of_a_class(engine: Engine) -> None:
    x = np.full((1 << 25) + 1, 2.0**51.9, np.float32)  # their squares sum up to 2^129
    assert_within(pg.nrm2(x, engine=engine), norm(x[:1]) * np.sqrt(np.longdouble(x.size)), 1e13)


# -- accuracy


HARD = {
    "signs": lambda rng, n: rng.standard_normal(n),
    "one sign": lambda rng, n: rng.random(n),
    "alternating": lambda rng, n: np.where(np.arange(n) % 2, 1, -1) * (1 + 1e-3 * rng.random(n)),
    "wide": lambda rng, n: rng.standard_normal(n) * 10.0 ** rng.uniform(-6, 6, n),
    "drifting": lambda rng, n: np.linspace(1, 1e4, n) * rng.random(n),
    "cancelling": lambda rng, n: np.concatenate([v := 1e4 * rng.standard_normal(n // 2), 1e-3 - v]),
    "one large": lambda rng, n: np.concatenate([[1e8], rng.random(n - 1) / 50]),
    "falling": lambda rng, n: rng.random(n) / np.arange(1, n + 1),
}


@pytest.mark.parametrize("kind", HARD)
def test_sums_are_as_good_as_numpys(engine: Engine, kind: str) -> None:
    """Root mean squares of the errors, for either may be lucky once."""
    ours, numpys, rounding = [], [], []
    for seed in range(8):
        x = HARD[kind](np.random.default_rng(seed), 1 << 18).astype(np.float32)
        exact = math.fsum(x.tolist())
        got = pg.sum(x, engine=engine)
        check_sum(got, x)
        ours.append(float(got) - exact)
        numpys.append(float(np.sum(x)) - exact)
        rounding.append(2.0**-24 * exact)  # half a unit in the last place: no sum can do better
    assert np.linalg.norm(ours) <= max(np.linalg.norm(numpys), np.linalg.norm(rounding))


def test_a_long_sum_of_one_sign_is_right_to_the_last_bits(engine: Engine) -> None:
    x = np.full((1 << 24) + 5, 0.1, np.float32)  # plain float32 sums stop at 2^21
    exact = float(x[0]) * x.size
    assert abs(float(pg.sum(x, engine=engine)) - exact) <= 20 * 2.0**-24 * exact
    assert abs(float(pg.mean(x, engine=engine)) - float(x[0])) <= 20 * 2.0**-24 * float(x[0])


# -- special values


def assert_equal(got: Any, expected: Any) -> None:
    np.testing.assert_array_equal(got, expected)


def test_sums_of_infinities_and_nan(engine: Engine) -> None:
    x = values(N, np.float32, 19)
    huge = np.finfo(np.float32).max
    for places, expected in (
        ({5: np.inf}, np.inf),
        ({5: -np.inf, 900: -np.inf}, -np.inf),
        ({5: np.inf, 900: -np.inf}, np.nan),
        ({5: np.nan}, np.nan),
        ({N - 1: np.nan, 0: np.inf}, np.nan),
        ({0: huge, 1: huge}, np.inf),
        ({0: -huge, N - 1: -huge}, -np.inf),
    ):
        y = x.copy()
        y[list(places)] = list(places.values())
        assert_equal(pg.sum(y, engine=engine), expected)
    assert pg.sum(np.full(2 * N, np.inf, np.float32), engine=engine) == np.inf


@pytest.mark.path
@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
def test_extremes_of_special_values(engine: Engine, name: str) -> None:
    ours, numpys = getattr(pg, name), getattr(np, name)
    base = values(N, np.float32, 20)
    cases = [np.full(N, v, np.float32) for v in (np.inf, -np.inf, 0, -1.5)]
    for places in ([0], [N - 1], [500], [3, 900], [900, 901], range(N)):
        x = base.copy()
        x[list(places)] = np.nan
        cases.append(x)
        x = x.copy()
        x[[0, 1]] = np.inf, -np.inf
        cases.append(x)
    for first, second in ((-0.0, 0.0), (0.0, -0.0)):
        x = np.full(N, first, np.float32)
        x[N // 2 :] = second
        cases.append(x)
    ties = np.round(base)
    cases += [ties, ties[::-1].copy(), np.abs(ties)]
    for x in cases:
        assert_equal(ours(x, engine=engine), numpys(x))


def test_extremes_of_all_equal_integers(engine: Engine) -> None:
    for dtype in (np.int8, np.int32, np.int64, np.uint64):
        info = np.iinfo(dtype)
        for value in (info.min, info.max):
            x = np.full(N, value, dtype)
            assert pg.argmax(x, engine=engine) == 0
            assert pg.max(x, engine=engine) == value
    low = np.full(N, np.iinfo(np.int32).max, np.int32)
    assert pg.argmin(low, engine=engine) == 0
    assert pg.min(low, engine=engine) == low[0]


@pytest.mark.path
def test_first_of_many_ties(engine: Engine) -> None:
    n = (1 << 20) + 11
    for place in (0, 1, n - 1, n // 2, 123_457):
        x = np.zeros(n, np.int8)
        x[place:] = 1
        assert pg.argmax(x, engine=engine) == place
        y = np.zeros(n, np.float32)
        y[place:] = np.nan
        assert pg.argmin(y, engine=engine) == place


def test_complex_order(engine: Engine) -> None:
    rng = np.random.default_rng(21)
    x = (rng.integers(-2, 3, N) + 1j * rng.integers(-2, 3, N)).astype(np.complex64)
    for name in ("min", "max", "argmin", "argmax"):
        assert_equal(getattr(pg, name)(x, engine=engine), getattr(np, name)(x))
    for nan in (complex(np.nan, 1), complex(1, np.nan)):
        y = x.copy()
        y[[700, 900]] = nan
        assert pg.argmax(y, engine=engine) == np.argmax(y) == 700
        assert pg.argmin(y, engine=engine) == 700
        assert np.isnan(pg.max(y, engine=engine))
        assert np.isnan(pg.min(y, engine=engine))


@pytest.mark.skipif(BFLOAT16 is None, reason="needs ml_dtypes")
def test_16_bit_floats_round_to_nearest_even(engine: Engine) -> None:
    for dtype in (np.dtype(np.float16),) if FORCED else (np.dtype(np.float16), BFLOAT16):
        assert dtype is not None
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        finite = every[np.isfinite(every.astype(np.float32))]
        item = finite.reshape(-1, 1)  # each element alone: a load and a store
        assert_equal(pg.sum(item, axis=1, engine=engine).view(np.uint16) << 1,
                     finite.view(np.uint16) << 1)  # fmt: skip
        assert_equal(
            pg.max(np.stack([finite, finite], 1), axis=1, engine=engine).view(np.uint16),
            finite.view(np.uint16),
        )
        pairs = np.stack([finite, finite[::-1]], 1)  # exact in float32, then rounded once
        expected = np.sum(pairs.astype(np.float32), axis=1).astype(dtype)
        assert_equal(pg.sum(pairs, axis=1, engine=engine).astype(np.float32),
                     expected.astype(np.float32))  # fmt: skip
        long = np.resize(finite, (3, 70_000))
        assert_equal(
            pg.max(long, axis=1, engine=engine).astype(np.float32), finite.astype(np.float32).max()
        )
        assert np.isnan(pg.min(every, engine=engine))


# -- dtype=


CONVERSIONS = [
    "int8 int8", "uint8 uint16", "int32 float32", "float32 float64", "float64 float32",
    "int64 complex64", "float16 float32", "bool uint8", "float32 bool", "int64 int16",
]  # fmt: skip


@pytest.mark.parametrize("conversion", sample(CONVERSIONS, "int64 complex64"))
def test_sum_in_another_dtype(engine: Engine, conversion: str) -> None:
    source, dtype = conversion.split()
    x = values(N, source, 22)
    got = pg.sum(x, dtype=dtype, engine=engine)
    assert got.dtype == dtype
    if got.dtype.kind in "biu":
        assert got == np.sum(x, dtype=dtype)
        return
    converted = x.astype(dtype)
    assert_within(got, add(converted), 2 * sum_bound(converted, dtype))


def test_other_operations_in_another_dtype(engine: Engine) -> None:
    x = values(N, np.int16, 23)
    assert pg.mean(x, dtype="float32", engine=engine).dtype == np.float32
    got = pg.var(x, dtype="float32", engine=engine)
    assert got.dtype == np.float32
    assert_within(got, variance(x), variance_bound(x, np.float32))
    assert pg.prod(x[:3], dtype="float64", engine=engine) == np.prod(x[:3], dtype="float64")
    assert pg.prod(np.array([2.5, 0.0], np.float32), dtype=bool, engine=engine) == np.False_


@pytest.mark.parametrize("dtype", ["no dtype", "U5", object, np.longdouble])
def test_unsupported_dtypes(engine: Engine, dtype: Any) -> None:
    with pytest.raises(DTypeError, match="dtype"):
        pg.sum(np.ones(3), dtype=dtype, engine=engine)
    for name in ("mean", "var", "prod"):
        with pytest.raises(DTypeError, match="dtype"):
            getattr(pg, name)(np.ones(3), dtype=dtype, engine=engine)


def test_dtypes_that_would_lose(engine: Engine) -> None:
    with pytest.raises(DTypeError, match="imaginary"):
        pg.sum(np.ones(3, complex), dtype=float, engine=engine)
    with pytest.raises(DTypeError, match="floating"):
        pg.mean(np.ones(3), dtype=int, engine=engine)


# -- a user's own operator

LARGEST = pg.BinaryOp("largest", "0", "a > b ? a : b")


def test_reduce_with_an_operator(engine: Engine) -> None:
    x = values(N, np.float32, 24)
    assert pg.reduce(x, LARGEST, "fabs(x)", engine=engine) == np.max(np.abs(x))
    y = values((13, 40), np.int16, 25)
    xor = pg.BinaryOp("exclusive_or", "0", "a ^ b")
    assert_equal(pg.reduce(y, xor, axis=0, engine=engine), np.bitwise_xor.reduce(y, axis=0))
    assert_equal(pg.reduce(y, xor, axis=1, engine=engine), np.bitwise_xor.reduce(y, axis=1))
    square = pg.BinaryOp("plus", "0", "a + b")
    got = pg.reduce(y, square, pg.Map("(long)x * x"), dtype="int64", engine=engine)
    assert got == np.sum(y.astype(np.int64) ** 2)
    either = pg.BinaryOp("either", "0", "a + b")
    assert pg.reduce(np.ones(256, bool), either, engine=engine) == np.True_
    assert pg.reduce(np.zeros(0, np.float32), LARGEST, engine=engine) == 0


def test_a_broken_operator(engine: Engine) -> None:
    """The message is short and ends with the expression and the compiler's words about it."""
    broken = pg.BinaryOp("broken", "0", "a + no_such_name")
    with pytest.raises(BuildError) as caught:
        pg.reduce(np.ones(10, np.float32), broken, engine=engine)
    *head, expression, words = str(caught.value).splitlines()
    assert head[0].startswith("map 'x' or operator 'a + no_such_name' does not compile: ")
    assert "kernel reduce/" in head[1]
    assert len(head) <= 5
    assert re.fullmatch(r"line \d+: +return \(a \+ no_such_name\);", expression)
    assert "no_such_name" in words
    assert "user_broken" in caught.value.source
    assert "no_such_name" in caught.value.log
    assert pg.sum(np.ones(10, np.float32), engine=engine) == 10


def test_reduce_refuses(engine: Engine) -> None:
    with pytest.raises(UnsupportedError, match="complex64"):
        pg.reduce(np.ones(3, np.complex64), LARGEST, engine=engine)
    with pytest.raises(ArgumentTypeError, match="BinaryOp"):
        pg.reduce(np.ones(3), "a + b", engine=engine)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("name", ["acc_t", "f32_load", "x", "min", "kernel", "reduce_rows"])
def test_an_operator_of_any_name(engine: Engine, name: str) -> None:
    op = pg.BinaryOp(name, "(0, -1)", "(a, a > b ? a : b)")
    assert pg.reduce(np.arange(99, dtype=np.float32), op, "x, x + 1", engine=engine) == 99


# -- tiny: every family under Oclgrind


TINY = ["sum", "prod", "max", "argmin", "var", "count_nonzero", "asum", "nrm2"]


@pytest.mark.tiny
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("shape", [(300,), (3, 70)], ids=str)
def test_tiny(engine: Engine, name: str, shape: tuple[int, ...]) -> None:
    x = np.arange(-3, np.prod(shape) - 3, dtype=np.int32).reshape(shape) % 7 - 3
    plain = {
        "asum": lambda x, axis: np.sum(np.abs(x), axis=axis),
        "nrm2": lambda x, axis: np.sqrt(np.sum(x**2, axis=axis)),
    }
    numpys = plain.get(name) or getattr(np, name)
    data, rtol = on_device(engine, x), 1e-14
    if name in ("var", "nrm2") and not engine.target.fp64:  # of integers they are float64
        data, rtol = on_device(engine, x.astype(np.float32)), 1e-6  # 16 u
    axes = (0, 1) if OCLGRIND else dealt((0, 1), TINY.index(name), 1)
    for axis in (None,) if len(shape) == 1 else axes:
        got = from_device(getattr(pg, name)(data, axis=axis, engine=engine))
        np.testing.assert_allclose(got, numpys(x, axis=axis), rtol=rtol)


@pytest.mark.tiny
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["asum", "nrm2"])
def test_tiny_norms_of_floats(engine: Engine, name: str, dtype: str) -> None:
    if dtype == "float64":
        needs_fp64(engine)
    x = np.arange(-150, 183, dtype=dtype)
    expected = np.linalg.norm(x.astype(np.float64), {"asum": 1, "nrm2": 2}[name])
    got = getattr(pg, name)(on_device(engine, x), engine=engine).get()
    np.testing.assert_allclose(got, expected, rtol=16 * np.finfo(dtype).eps)


@pytest.mark.tiny
def test_tiny_last_block_narrower_than_a_vector(engine: Engine) -> None:
    x = np.arange(2050, dtype=np.int32).reshape(2, 1025)
    assert_equal(pg.sum(on_device(engine, x), axis=0, engine=engine).get(), x[0] + x[1])


@pytest.mark.tiny
def test_tiny_split_over_groups(engine: Engine) -> None:
    x = np.arange(20_000, dtype=np.float32) % 17
    assert pg.sum(on_device(engine, x), engine=engine).get() == np.sum(x, dtype=np.float64)
    assert pg.argmax(on_device(engine, x), engine=engine).get() == 16
    rows = on_device(engine, x.reshape(2, 10_000))
    assert_equal(pg.sum(rows, axis=1, engine=engine).get(), np.sum(x.reshape(2, -1), axis=1))
    columns = on_device(engine, x[:18_000].reshape(6000, 3))
    assert_equal(pg.sum(columns, axis=0, engine=engine).get(), np.sum(x[:18_000].reshape(-1, 3), 0))


@pytest.mark.tiny
def test_tiny_dot(engine: Engine) -> None:
    x = np.arange(333, dtype=np.float32)
    got = pg.dot(on_device(engine, x), on_device(engine, x[::-1]), engine=engine)
    assert got.get() == np.dot(x.astype(np.float64), x[::-1])


def test_whole_precision_is_refused_without_fp64(engine: Engine) -> None:
    from dataclasses import replace

    small = Engine(queue=engine.queue)
    small.target = replace(engine.target, fp64=False)
    for call in (
        lambda x: pg.sum(x, engine=small),
        lambda x: pg.sum(x, dtype=np.float32, engine=small),
        lambda x: pg.mean(x, dtype=float, engine=small),
    ):
        with pytest.raises(UnsupportedError, match="cl_khr_fp64"):
            call(np.ones(3))
    with pytest.raises(UnsupportedError, match="cl_khr_fp64"):
        pg.mean(np.ones(3, np.int8), engine=small)
    assert pg.sum(np.ones(3, np.float32), engine=small) == 3
