"""Every way to compute a product computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from reference import assert_within, product_bound, wider

from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.variants import variants
from portable_gpu.ops.variant import chosen, sample_of_kinds
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan

# m, n, k: less than a tile, tiles and tails, a split k, a vector, few columns of many rows.
SHAPES = [(5, 7, 3), (70, 130, 33), (40, 24, 2100), (1, 90, 40), (200, 8, 64)]


def multiplied(engine: Engine, plan: Plan, a: Any, b: Any, shape: tuple[int, ...]) -> Any:
    """C, which is full of NaN before."""
    c = np.full(shape, np.nan, a.dtype)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(engine.context, flags, hostbuf=x) for x in (a, b, c)]
    plan.enqueue(engine.state(), buffers, (0, 0, 0), (1.0, 0.0))
    cl.enqueue_copy(engine.queue, c, buffers[2])
    return c


def check(
    engine: Engine, m: int, n: int, k: int, trans: str, dtype: str, batch: tuple[int, ...] = ()
) -> None:
    rng = np.random.default_rng(1)
    a = rng.uniform(-1, 1, (*batch, m, k)).astype(dtype)
    b = rng.uniform(-1, 1, (*batch, k, n)).astype(dtype)
    stored = [
        x if t == "N" else np.ascontiguousarray(np.swapaxes(x, -1, -2))
        for x, t in zip((a, b), trans, strict=True)
    ]
    problem = contiguous(m, n, k, dtype, batch, *trans)
    expected, bound = wider(a) @ wider(b), product_bound(a, b, np.float32)
    every = variants(problem, engine.target, engine.table)
    assert len({variant.name for variant in every}) == len(every)
    assert chosen(engine, every)[0] in every
    for variant in sample_of_kinds(every):
        if variant.works is None or variant.works(engine):
            got = multiplied(engine, variant.bind(engine), *stored, (*batch, m, n))
            assert_within(got, expected, bound)


@pytest.mark.parametrize(
    ("shape", "trans"), list(zip(SHAPES, ("NN", "TT", "TN", "NT", "TT"), strict=True)), ids=str
)
def test_every_way_is_right(unoptimised: Engine, shape: tuple[int, int, int], trans: str) -> None:
    check(unoptimised, *shape, trans, "float32")


def test_batches(engine: Engine) -> None:
    check(engine, 20, 33, 17, "NT", "float32", (9,))


def test_conversion_leaves_no_operand_in_place(engine: Engine) -> None:
    check(engine, 33, 65, 40, "TN", "float16")


def test_there_is_more_than_one_way(engine: Engine) -> None:
    def kernels(m: int, n: int, k: int) -> set[str]:
        problem = contiguous(m, n, k, "float32")
        every = variants(problem, engine.target, engine.table)
        return {spec.name for variant in sample_of_kinds(every) for spec in variant.texts()}

    assert (
        len(
            sample_of_kinds(
                variants(contiguous(64, 64, 64, "float32"), engine.target, engine.table)
            )
        )
        > 3
    )
    assert any(name.startswith("gemv/") for name in kernels(64, 1, 64))
