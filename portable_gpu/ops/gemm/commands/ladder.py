"""The ladders of gemm: successive optimisations, from naive to two-level prefetching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyopencl.array as cla

from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.tiled.plan import TiledPlan
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy, value_words
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.ops.ladder import Ladder, Rung, climbing_engine
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import View, places
from portable_gpu.targets import Target


def ladders(engine: Engine) -> list[Ladder]:
    """Square products; few sizes on a CPU, where they take long."""
    climbing, most = climbing_engine(engine), 1024 if engine.target.is_cpu else 4096
    singles = [n for n in (256, 512, 1024, 2048) if n <= most]
    doubles = [n for n in (1024, 2048, 4096) if n <= most]
    result = [_ladder(climbing, "sgemm", "float32", _single(climbing.target), singles)]
    if climbing.target.fp64:
        result.append(_ladder(climbing, "dgemm", "float64", _double(climbing.target), doubles))
    return result


def _ladder(
    engine: Engine,
    title: str,
    dtype: str,
    policies: dict[str, GemmPolicy | None],
    sizes: Sequence[int],
) -> Ladder:
    rungs = [_rung(engine, name, policy) for name, policy in policies.items()]
    return Ladder(title, "gemm", dtype, ",".join(f"{n}x{n}x{n}/NN" for n in sizes), rungs)


def _single(target: Target) -> dict[str, GemmPolicy | None]:
    """The rungs of float32; ``None``: no tile."""
    block, line, square = (
        _fitted(target, "float32", policy)
        for policy in (
            GemmPolicy(16, 16, 16, 1, 1, 1, 1),
            GemmPolicy(64, 32, 8, 8, 1, 1, 1),
            GemmPolicy(128, 128, 8, 8, 8, 1, 1),
        )
    )
    vectors = replace(square, vector=4)
    double = replace(vectors, buffers=2, prefetch=True)
    return {
        "naive": None,
        "block tile": block,
        "1-D tile": line,
        "2-D tile": square,
        "vectors": vectors,
        "double buffer": double,
        "two-level prefetch": replace(double, prefetch_local=True),
    }


def _double(target: Target) -> dict[str, GemmPolicy | None]:
    """The rungs of float64."""
    plain, small = (
        _fitted(target, "float64", policy)
        for policy in (
            GemmPolicy(128, 128, 8, 8, 8, 1, 1, unroll=8),
            GemmPolicy(128, 64, 8, 4, 8, 1, 1, unroll=8),
        )
    )
    wide = replace(plain, vector=2)
    prefetch = replace(wide, prefetch=True)
    return {
        "unroll": plain,
        "128b": wide,
        "128b, prefetch": prefetch,
        "double buffer, 128b": replace(wide, buffers=2),
        "double buffer, 128b, prefetch": replace(prefetch, buffers=2),
        "small tile, 128b, prefetch": replace(small, vector=2, prefetch=True),
    }


def _fitted(target: Target, dtype: str, policy: GemmPolicy) -> GemmPolicy:
    """Halve a tile until its sums fit two thirds of the registers; adjacent lanes span a row."""
    words = value_words(element(dtype_of(dtype)))
    while 3 * policy.item_m * policy.item_n * words > 2 * target.registers:
        if policy.item_m >= policy.item_n:
            policy = replace(policy, tile_m=policy.tile_m // 2, item_m=policy.item_m // 2)
        else:
            policy = replace(policy, tile_n=policy.tile_n // 2, item_n=policy.item_n // 2)
    return replace(policy, lanes_n=policy.tile_n // policy.item_n)


def _rung(engine: Engine, name: str, policy: GemmPolicy | None) -> Rung:
    tiling = Tiling("direct" if policy is None else "tiled", policy)

    def bound(arrays: Sequence[Any]) -> Callable[[], Any]:
        a, b = arrays
        c = cla.empty(engine.queue, (a.shape[0], b.shape[1]), a.dtype)
        views = [_view(x) for x in (a, b, c)]
        problem = bind(
            engine.target, *views, trans_a="N", trans_b="N", stages=(), extras=(),
            multiplies=True, reads_c=False,
        )  # fmt: skip
        plan = TiledPlan(engine, problem, tiling)
        enqueue = partial(plan.enqueue, engine.state(), *places(views), (1.0, 0.0))

        def call() -> Any:
            enqueue()
            return c

        return call

    return Rung(name, engine, bound)


def _view(x: Any) -> View:
    strides = tuple(step // x.dtype.itemsize for step in x.strides)
    return View(x.base_data, x.offset // x.dtype.itemsize, x.shape, strides, x.dtype)
