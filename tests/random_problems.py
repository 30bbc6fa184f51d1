"""Random problems of every family, for a target: no device is needed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.candidate import Candidate
from portable_gpu.ops.elementwise.candidates import candidates as elementwise_candidates
from portable_gpu.ops.elementwise.catalogue import problem as expression_of
from portable_gpu.ops.factor.candidates import cholesky_candidates, solve_candidates
from portable_gpu.ops.factor.catalogue import cholesky_problem, solve_problem
from portable_gpu.ops.fft.candidates import candidates as fft_candidates
from portable_gpu.ops.fft.catalogue import problem as transform_of
from portable_gpu.ops.gemm.candidates import candidates as gemm_candidates
from portable_gpu.ops.gemm.catalogue import contiguous
from portable_gpu.ops.gemv.plan import candidates as gemv_candidates
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.reduce.candidates import candidates as reduce_candidates
from portable_gpu.ops.reduce.catalogue import problem as reduction_of
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

TABLE = TuningTable.shipped()
EACH = 12  # problems of a family on a device


def extent(rng: random.Random, most: int) -> int:
    return int(np.exp(rng.uniform(0, np.log(most + 1))))


def problems(target: Target, seed: int, each: int = EACH) -> Iterator[tuple[str, list[Candidate]]]:
    """Candidates of random problems of every family, ``each`` of one."""
    rng, turns = random.Random(seed), random.Random(seed)
    dtypes = ["float32", "float16", "int32"] + ["float64"] * target.fp64
    for _ in range(each):
        dtype = dtype_of(rng.choice([*dtypes, "bfloat16", "complex64"]))
        m, n, k = (extent(rng, rng.choice((20, 300, 5000))) for _ in range(3))
        batch = (extent(rng, 50),) if rng.random() < 0.3 else ()
        trans = rng.choice("NT"), rng.choice("NT")
        asked = contiguous(m, n, k, dtype, batch, *trans)
        asked = replace(asked, precision=rng.choice(("ieee", "tf32", "bf16x3")))
        yield f"{asked}", gemm_candidates(asked, target, TABLE)
        if turns.random() < 0.2:  # rows upside down, or all the same
            side = turns.choice("ab")
            lies = getattr(asked, side)
            row, col = (x if x == 1 else turns.choice((-x, 0)) for x in (lies.row, lies.col))
            asked = replace(asked, **{side: replace(lies, row=row, col=col)})
            yield f"{asked}", gemm_candidates(asked, target, TABLE)
    for _ in range(each):
        m, n = extent(rng, 100_000), extent(rng, 20_000)
        strides = rng.choice(((n, 1), (1, m), (2 * n, 2), (n, -1)))
        vector = GemvProblem(element(dtype_of(rng.choice(dtypes))), m, n, *strides, 1, 1)
        yield f"{vector}", gemv_candidates(vector, target, TABLE)
    for _ in range(each):
        shape = tuple(extent(rng, 3000) for _ in range(rng.choice((1, 2, 3))))
        axis = rng.choice((None, *range(len(shape))))
        operation = rng.choice(("sum", "max", "argmin", "var", "nrm2", "any"))
        dtype = dtype_of(rng.choice(("float32", "float16")))
        fold = reduction_of(operation, shape, axis, dtype, target)
        yield f"{fold}", reduce_candidates(fold, target, TABLE)
        sum_of_two = expression_of("x + y", dtype, shape, {})
        yield f"{sum_of_two}", elementwise_candidates(sum_of_two, target, TABLE)
    for _ in range(each):
        n, m = (extent(rng, rng.choice((20, 200, 2000))) for _ in range(2))
        dtype = dtype_of(
            rng.choice(["float32", "complex64"] + ["float64", "complex128"] * target.fp64)
        )
        batch = (extent(rng, 50),) if rng.random() < 0.3 else ()
        lower, flag = rng.random() < 0.5, rng.random() < 0.5
        factor = cholesky_problem(n, dtype, batch, lower=lower, overwrite=flag)
        yield f"{factor}", cholesky_candidates(factor, target, TABLE)
        trans, side = rng.choice("NTC"), rng.choice(("left", "right"))
        solve = solve_problem(n, m, dtype, batch, trans=trans, lower=lower, unit=flag, side=side)
        yield f"{solve}", solve_candidates(solve, target, TABLE)
    for _ in range(EACH):
        kind = rng.choice(("c2c", "r2c", "c2r"))
        rank = rng.choice((1, 1, 2, 3))
        lengths = tuple(extent(rng, (100_000, 1000, 100)[rank - 1]) for _ in range(rank))
        axis = rng.choice((None, *range(rank)))
        batch = (extent(rng, 50),) if rng.random() < 0.5 else ()
        dtype = dtype_of(rng.choice(["float32", "complex64"] + ["complex128"] * target.fp64))
        transform = transform_of(
            kind, lengths, dtype, batch, axis, inverse=rng.random() < 0.5
        )  # fmt: skip
        yield f"{transform}", fft_candidates(transform, target, TABLE)
