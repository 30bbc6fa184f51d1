"""gemm with few rows or columns, which GPUs take for a gemv of several vectors."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from reference import assert_within, product_bound, unit_roundoff, wider
from sampling import in_pairs

import portable_gpu as pg
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.variants import variants
from portable_gpu.ops.variant import best_of
from portable_gpu.runtime.call import Call
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
    ("dtype", "shape", "trans"),
    [
        (dtype, shape, ("NN", "CT", "TC")[turn % 3])
        for turn, (dtype, shape) in enumerate(product(DTYPES, ((8, 130, 70), (66, 3, 2100))))
    ],
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


# -- epilogues


def by_gemv(engine: Engine, a: Any, b: Any, c: Any, epilogue: pg.Epilogue) -> bool:
    """Whether the product can be a gemv; then it is in ``c``."""
    call = Call((a, b, c), engine, None)
    views = call.input(a, "a"), call.input(b, "b"), call.output(c.shape, c.dtype, c)
    extras = [call.input(x, "epilogue") for x in epilogue.arrays]
    problem = bind(
        engine.target, *views, trans_a="N", trans_b="N", stages=epilogue.stages, extras=extras,
        multiplies=True, reads_c=False,
    )  # fmt: skip
    problem = replace(problem, aligned=not engine.maps_host_memory)
    every = variants(problem, engine.target, engine.table)
    ways = [item for item in every if item.texts()[0].name.startswith("gemv/")]
    if ways:
        plan = best_of(ways, engine.target).bind(engine)
        call.run(plan, (*views[:2], *extras, views[2]), (1.0, 0.0))
    return bool(ways)


def check_epilogue(engine: Engine, m: int, n: int, k: int, dtype: str, order: str) -> None:
    """Arrays of every spread, and a step that asks where it is."""
    a, b = (
        np.asarray(random(shape, dtype, seed), order=o)
        for shape, seed, o in zip([(m, k), (k, n)], (1, 2), order, strict=True)
    )
    bias, scale = random((n,), dtype, 3), random((m,), dtype, 4)
    residual = np.asfortranarray(random((m, n), dtype, 5))
    epilogue = pg.Epilogue().bias(bias).scale(scale, per="row").add(residual[::-1])
    fast = min(m, n) <= (1 if engine.target.is_cpu else 8)

    row, col = np.arange(m)[:, None], np.arange(n)
    bias, scale, residual = wider(bias), wider(scale)[:, None], wider(residual[::-1])
    expected = (wider(a) @ wider(b) + bias) * scale + residual
    sums = np.dtype("float32") if dtype == "float16" else np.dtype(dtype)
    size = (wider(abs(a)) @ wider(abs(b)) + abs(bias)) * abs(scale) + abs(residual) + row + col
    if dtype[0] != "c":
        epilogue = epilogue.relu().apply("v + R(0.5) * row - col")
        expected = np.maximum(expected, 0) + 0.5 * row - col
    bound = product_bound(a, b, sums) * abs(scale) + 16 * unit_roundoff(sums) * size
    if dtype == "float16":
        bound = bound + unit_roundoff(np.float16) * (abs(expected) + bound)
    c = np.full((m, n), np.nan, dtype)
    assert by_gemv(engine, a, b, c, epilogue) == fast
    for got in (pg.gemm(a, b, epilogue=epilogue, engine=engine), *([c] if fast else [])):
        assert_within(got, expected, bound)


@pytest.mark.path
@pytest.mark.parametrize(
    ("shape", "order"),
    [(shape, ("CC", "CF", "FC")[turn % 3]) for turn, shape in enumerate(SHAPES)],
    ids=str,
)
def test_epilogues(engine: Engine, shape: tuple[int, int, int], order: str) -> None:
    check_epilogue(engine, *shape, "float32", order)


@pytest.mark.parametrize(
    ("dtype", "shape", "order"),
    in_pairs(
        ("float16", "float64", "complex64"), ((1, 300, 70), (130, 1, 4100), (8, 130, 70)),
        ("CC", "CF"),
    ),
    ids=str,
)  # fmt: skip
def test_epilogues_of_dtypes(
    engine: Engine, shape: tuple[int, int, int], dtype: str, order: str
) -> None:
    if dtype == "float64" and not engine.target.fp64:
        pytest.skip("no double precision here")
    check_epilogue(engine, *shape, dtype, order)


def test_epilogue_of_a_long_sum_by_several_groups(engine: Engine) -> None:
    check_epilogue(engine, 1, 3, 1 << 17, "float32", "CF")
    check_epilogue(engine, 1, 64, 1 << 14, "float32", "CC")


def test_epilogue_keeps_numbers_of_outputs_that_run_backwards(engine: Engine) -> None:
    a, b = random((40, 30), "float32", 1), random((30, 1), "float32", 2)
    epilogue = pg.Epilogue().apply("v + row")
    for x in (a[::-1], np.asfortranarray(a)[::-1], a[::-1, ::-1]):
        got = pg.gemm(x, b, epilogue=epilogue, engine=engine)
        expected = wider(x) @ wider(b) + np.arange(40)[:, None]
        bound = product_bound(x, b, np.dtype("float32")) + 4 * 2.0**-24 * abs(expected)
        assert_within(got, expected, bound)


def test_epilogue_of_integers_and_of_another_dtype(engine: Engine) -> None:
    a = np.arange(-60, 60, dtype=np.int8).reshape(4, 30)
    b = np.arange(-15, 15, dtype=np.int8).reshape(30, 1)
    add = np.array([[1000], [-5], [7], [300]], np.int16)
    got = pg.matmul(a, b, epilogue=pg.Epilogue().add(add), engine=engine)
    np.testing.assert_array_equal(got, a @ b + add.astype(np.int8))
    x, y = a.astype("f4"), b.astype("f4")
    got = pg.matmul(x, y, epilogue=pg.Epilogue().add(add), engine=engine)
    np.testing.assert_array_equal(got, x @ y + add)


def test_epilogue_after_beta_and_in_a_plan(engine: Engine) -> None:
    a, b = (np.round(random(shape, "float32", 1) * 4) for shape in ((70, 40), (40, 1)))
    c, bias = np.round(random((70, 1), "float32", 3) * 4), np.arange(70, dtype="f4")
    out, epilogue = c.copy(), pg.Epilogue().bias(bias, per="row")
    pg.gemm(a, b, alpha=2, beta=3, c=out, epilogue=epilogue, engine=engine)
    np.testing.assert_array_equal(out, 2 * (a @ b) + 3 * c + bias[:, None])
    plan = pg.plan("gemm", a, b, epilogue=epilogue, engine=engine)
    np.testing.assert_array_equal(plan(a, b), a @ b + bias[:, None])
    bias += 1
    np.testing.assert_array_equal(plan(a, b), a @ b + bias[:, None])


@pytest.mark.path
@pytest.mark.parametrize("vectors", [4, 6, 8])
def test_lanes_share_interleaved_vectors(engine: Engine, vectors: int) -> None:
    """Rows are many and short, so that GPUs give lanes two of the vectors each."""
    if engine.target.is_cpu or not engine.target.fp64:
        pytest.skip("for GPUs with double precision")
    m, k = 1 + 64 * engine.target.compute_units, 13
    a, b = random((m, k), "float64", 1), random((k, vectors), "float64", 2)
    epilogue = pg.Epilogue().bias(random((vectors,), "float64", 3)).apply("v + R(0.5) * row - col")
    bias = epilogue.arrays[0]
    arrays = [on_device(engine, x) for x in (a, b, bias, np.full((m, vectors), np.nan))]
    call = Call((*arrays[:2], arrays[3]), engine, None)
    views = call.input(arrays[0], "a"), call.input(arrays[1], "b"), call.input(arrays[3], "c")
    problem = bind(
        engine.target, *views, trans_a="N", trans_b="N", stages=epilogue.stages,
        extras=[call.input(arrays[2], "epilogue")], multiplies=True, reads_c=False,
    )  # fmt: skip
    every = variants(problem, engine.target, engine.table)
    (way,) = (item for item in every if item.name == "dot_rows")
    assert "two vectors" in way.why
    state = engine.state()
    way.bind(engine).enqueue(state, [x.base_data for x in arrays], (0,) * 4, (1.0, 0.0))
    expected = a @ b + bias + 0.5 * np.arange(m)[:, None] - np.arange(vectors)
    bound = product_bound(a, b, np.dtype("float64")) + 4 * unit_roundoff(np.float64) * (
        abs(expected) + m
    )
    assert_within(from_device(arrays[3]), expected, bound)
