"""The record of attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import Any

import numpy as np

from portable_gpu.checking.check import Check, Expected, rounding, unit
from portable_gpu.checking.inputs import Input
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.ops.attention.commands import cases
from portable_gpu.ops.attention.functions import scaled_dot_product_attention
from portable_gpu.ops.attention.gradient import Side
from portable_gpu.ops.attention.plan import AttentionProblem, backward_operands
from portable_gpu.ops.attention.variants import backward_variants, variants
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    forward_or_backward,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


def _problem(rows: int, extent: int, dtype: np.dtype[Any]) -> AttentionProblem:
    """Attention of C-ordered arrays without a mask: as many keys as queries."""
    elem = element(dtype)
    wide = element(np.float64 if elem.real == "double" else np.float32)
    strides = ((0, 0, extent, 1),) * 4 + ((0, 0, 1, 0),)
    scale = 1 / sqrt(max(1, extent))
    return AttentionProblem(
        elem=elem, wide=wide, mask=None, batch=1, heads=1, shared=1, queries=rows, keys=rows,
        dq=extent, dv=extent, strides=strides, is_causal=False, scale=scale, aligned=True,
    )  # fmt: skip


def explain(question: Question) -> Explanation:
    """Which kernel attention of as many keys as queries takes: sizes are rows and their extent.

    Raises:
        ArgumentError: A size is 0, or there are more than two.
        DTypeError: ``dtype`` is not a real floating dtype.
    """
    operation, sizes, dtype = question.operation, question.sizes, question.dtype
    if not 1 <= len(sizes) <= 2 or not prod(sizes):
        raise ArgumentError(f"{operation} takes rows and their extent, at least 1; got {sizes}")
    if element(dtype).complex or not element(dtype).floating:
        raise DTypeError(f"{operation} takes no {dtype}; expected float32 or float16")
    rows, extent = (*sizes, 64)[:2]
    ways = variants(_problem(rows, extent, dtype), question.target, question.table)
    return question.answer(ways, f"{rows} x {extent}")


def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernels of attention of rows of 64 elements, and of its gradients.

    Matrix units have others for causal attention, for masks and for other extents of rows.
    """
    if element(dtype).complex or not element(dtype).floating:
        return []
    problem, wide = (replace(_problem(1024, n, dtype), batch=256) for n in (64, 128))
    strides = (*problem.strides[:3], *problem.strides[2:])
    masked = replace(problem, mask=element(bool), strides=strides)
    table = TuningTable.shipped()
    problems = (problem, masked, replace(problem, is_causal=True), wide)
    forward = [
        variant
        for item in problems
        for variant in variants(item, target, table)
        if variant.policy or item is problem
    ]
    sides: tuple[Side, Side] = ("q", "k")
    backward = [
        variant
        for side in sides
        for item in problems
        for variant in backward_variants(_of_side(item, side), side, target, table)
        if variant.policy or item is problem
    ]
    return [spec for variant in (*forward, *backward) for spec in variant.texts()]


def _of_side(problem: AttentionProblem, side: Side) -> AttentionProblem:
    """The problem of one side of the gradients, with the same rows in all arrays."""
    row, sums = problem.strides[0], problem.strides[-1]
    names = backward_operands(problem, side)
    return replace(
        problem,
        strides=tuple(sums if name in ("sums", "delta") else row for name in names),
    )


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """One shape in each real floating dtype."""
    for dtype in dtypes:
        if dtype.kind == "f" or is_float16_like(dtype):
            yield _check(dtype)


def _check(dtype: np.dtype[Any]) -> Check:
    q, k, v = (Input(dtype, (3, 50, 40), seed=seed) for seed in range(3))

    def run(engine: Engine) -> Any:
        arrays = [x.array(engine) for x in (q, k, v)]
        return scaled_dot_product_attention(*arrays, engine=engine)

    def expected() -> Expected:
        a, b, c = (x.host().astype(np.float64) for x in (q, k, v))
        scores = a @ b.swapaxes(1, 2) / sqrt(40)
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        value = powers / powers.sum(axis=2, keepdims=True) @ c
        bound = unit(dtype) * 400 * np.abs(c).max() * (1 + np.abs(scores).max())
        return Expected(value, bound + rounding(dtype) * np.abs(value) + 1e-7, dtype)

    return Check("scaled_dot_product_attention", str(q), run, expected)


_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="8:256x64", gpu="64:2048x64,32:2048x128"),
    layers=Sizes(cpu="8:256x64,8:256x64/backward", gpu="64:2048x64,64:2048x64/backward"),
    roofline=Sizes(cpu="8:256x64", gpu="64:2048x64"),
    flop=cases.flop,
    bytes=cases.nbytes,
    oracle=cases.oracle,
    operands=cases.operands,
    like_numpy=cases.like_numpy,
    form="heads: rows x extent",
    label="heads: rows x extent",
    by_flop=True,
    variants=forward_or_backward,
    batched=True,
    section=lambda case: case.trans,
    call=cases.call,
    on_matrix_units=True,
    random=cases.RANDOM,
)
ATTENTION = Family(
    name="attention",
    operations=(
        OperationRecord(
            name="scaled_dot_product_attention",
            function=scaled_dot_product_attention,
            explain=explain,
            specializations=specializations,
            compiled=(),  # the gradients of all dtypes spill registers; see docs/nn.md
            extents=2,
            shapes=cases.shapes,
        ),
    ),
    checks=checks,
    benchmarks={"scaled_dot_product_attention": _BENCHMARK},
    kernels={
        f"attention/{name}{direction}": Compiled(matrix=True)
        for name in ("mma", "wgmma")
        for direction in ("", "_backward")
    },
)
