"""Products of which one triangle is computed: every way computes it, and leaves the other alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from reference import assert_within, product_bound, wider

from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import variants
from portable_gpu.ops.variant import sample_of_kinds
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan

TRIANGLES = ("lower", "upper")


def values(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-1, 1, shape)
    return x.astype(dtype)


def inside(n: int, triangle: str) -> Any:
    ones = np.ones((n, n), bool)
    return np.tril(ones) if triangle == "lower" else np.triu(ones)


def enqueued(engine: Engine, plan: Plan, a: Any, b: Any, c: Any, scalars: Any) -> Any:
    """The use of C."""
    got = c.copy()
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(engine.context, flags, hostbuf=x) for x in (a, b, got)]
    plan.enqueue(engine.state(), buffers, (0, 0, 0), scalars)
    cl.enqueue_copy(engine.queue, got, buffers[2])
    return got


def check(
    engine: Engine,
    n: int,
    k: int,
    trans: str,
    dtype: Any,
    triangle: str,
    beta: float = 0.0,
    batch: tuple[int, ...] = (),
    by_columns: bool = False,
) -> None:
    """Every way; of those of a GPU one for each path."""
    a, b = values((*batch, n, k), dtype, 1), values((*batch, k, n), dtype, 2)
    stored = [
        x if t == "N" else np.ascontiguousarray(np.swapaxes(x, -1, -2))
        for x, t in zip((a, b), trans, strict=True)
    ]
    problem = replace(contiguous(n, n, k, dtype, batch, *trans), triangle=triangle)
    if by_columns:
        problem = replace(problem, c=replace(problem.c, row=1, col=n))
    problem = replace(problem, reads_c=beta != 0)
    c = values((*batch, n, n), dtype, 3)
    untouched = ~inside(n, triangle)
    if beta == 0:
        c = np.where(untouched, c, np.nan).astype(dtype)
    if by_columns:
        c = np.ascontiguousarray(np.swapaxes(c, -1, -2))
    local = np.swapaxes(c, -1, -2) if by_columns else c
    expected = 1.5 * (wider(a) @ wider(b))
    if beta:
        expected = expected + beta * wider(local)
    sums = np.float32 if np.dtype(dtype).itemsize == 2 else dtype
    bound = product_bound(a, b, sums, 1.5, beta, local)
    ways = sample_of_kinds(variants(problem, engine.target, engine.table))
    if not engine.target.is_cpu:  # whose ways are many, and take long to emulate on a CPU
        ways = list({variant.path: variant for variant in ways}.values())
    for variant in ways:
        if variant.works is not None and not variant.works(engine):
            continue
        got = enqueued(engine, variant.bind(engine), *stored, c, (1.5, beta))
        got = np.swapaxes(got, -1, -2) if by_columns else got
        assert got[..., untouched].tobytes() == local[..., untouched].tobytes(), variant.name
        computed = ~untouched
        assert_within(got[..., computed], expected[..., computed], bound[..., computed])


#: n, k, transposes, beta: less than a tile, tiles and tails, a split k, nothing to multiply.
CASES = [
    (1, 5, "NN", 0.0), (7, 3, "NT", 0.5), (70, 33, "TN", 0.0), (128, 40, "NT", 0.0),
    (131, 65, "TT", -1.0), (40, 2100, "NN", 0.0),
]  # fmt: skip


#: Both triangles of the fullest case, one or the other of each.
IN_TURN = [(case, TRIANGLES[turn % 2]) for turn, case in enumerate(CASES)] + [
    (CASES[4], TRIANGLES[1])
]


@pytest.mark.parametrize(("case", "triangle"), IN_TURN, ids=str)
def test_every_way(unoptimised: Engine, case: tuple[int, int, str, float], triangle: str) -> None:
    n, k, trans, beta = case
    check(unoptimised, n, k, trans, np.float32, triangle, beta)


@pytest.mark.parametrize(
    ("dtype", "triangle"),
    [
        (np.float16, "lower"), (np.float64, "upper"), (np.complex64, "lower"),
        (np.complex128, "upper"),
    ],
    ids=str,
)  # fmt: skip
def test_dtypes(unoptimised: Engine, dtype: Any, triangle: str) -> None:
    if np.dtype(dtype).itemsize in (8, 16) and not unoptimised.target.fp64:
        pytest.skip("no double precision")
    check(unoptimised, 67, 40, "NT", dtype, triangle)


@pytest.mark.parametrize("triangle", TRIANGLES)
def test_batches_and_columns(unoptimised: Engine, triangle: str) -> None:
    check(unoptimised, 20, 17, "NT", np.float32, triangle, 1.0, (9,))
    check(unoptimised, 100, 17, "NT", np.float32, triangle, 0.0, (), by_columns=True)


@pytest.mark.tiny
def test_a_tiny_one(engine: Engine) -> None:
    check(engine, 9, 5, "NT", np.float32, "lower", 1.0)


def test_flop_and_tiles() -> None:
    whole = contiguous(1000, 1000, 10, np.float32)
    for name in TRIANGLES:
        part = replace(whole, triangle=name)
        assert part.flop == 2 * 10 * 1000 * 1001 // 2
        assert part.transpose().triangle != name
        for tile in ((1, 1), (8, 16), (64, 8), (1000, 1000), (999, 7)):
            assert part.tiles(*tile) == _tiles(part, *tile)


def _tiles(p: GemmProblem, tile_m: int, tile_n: int) -> int:
    mask = inside(p.m, p.triangle)
    of_rows = np.logical_or.reduceat(mask, np.arange(0, p.m, tile_m), axis=0)
    return int(np.logical_or.reduceat(of_rows, np.arange(0, p.n, tile_n), axis=1).sum())
