"""The record of Cholesky factors and triangular solves."""

from __future__ import annotations

from portable_gpu.ops.factor.api import cholesky, solve_triangular
from portable_gpu.ops.factor.commands import cases
from portable_gpu.ops.factor.commands.cases import CHOLESKY, SOLVE
from portable_gpu.ops.factor.commands.catalogue import (
    DTYPES,
    cholesky_specializations,
    explain_cholesky,
    explain_solve,
    solve_specializations,
)
from portable_gpu.ops.factor.commands.checks import checks
from portable_gpu.ops.family import Benchmark, Compiled, Family, OperationRecord, Sizes, Typical

_CHOLESKY = OperationRecord(
    name="cholesky",
    function=cholesky,
    explain=explain_cholesky,
    specializations=cholesky_specializations,
    compiled=DTYPES,
    extents=1,
    shapes=cases.cholesky_shapes,
    options=cases.cholesky_options,
    typical=Typical(((32,), (500,)), function=cases.warmed),
)
_SOLVE = OperationRecord(
    name="solve_triangular",
    function=solve_triangular,
    explain=explain_solve,
    specializations=solve_specializations,
    compiled=DTYPES,
    extents=2,
    shapes=cases.solve_shapes,
    options=cases.solve_options,
    transposes=("trans",),
    typical=Typical(((32, 1), (500, 500)), options=lambda _: [{"lower": True}, {"lower": False}]),
)
# Batches are those of the smallest matrices, where one launch does the work.
_TIMED_CHOLESKY = Benchmark(
    sizes=Sizes(
        cpu="256,512,1024,2048,4096,10000:16,10000:32,2000:64,500:128",
        gpu="1024,2048,4096,8192,16384,10000:16,10000:32,2000:64,500:128",
    ),
    roofline=Sizes(cpu="1024,10000:32", gpu="4096,16384,10000:32"),
    flop=lambda case: cases.cholesky_of(case).flop,
    bytes=lambda case: cases.cholesky_of(case).bytes,
    oracle=cases.cholesky_oracle,
    operands=cases.positive_definite,
    like_numpy=cases.cholesky_like_numpy,
    form="n, perhaps with a batch",
    label="n",
    by_flop=True,
    batched=True,
    manners=cases.MANNERS,
    call=cases.cholesky_call,
    random=CHOLESKY,
)
_TIMED_SOLVE = Benchmark(
    sizes=Sizes(
        cpu="256x256,1024x1024,2048x2048,2048x16,2048x1,10000:16x16,2000:64x64",
        gpu="1024x1024,4096x4096,8192x8192,8192x16,8192x1,10000:16x16,10000:32x32,2000:64x64",
    ),
    roofline=Sizes(cpu="1024x1024/N,2000:64x64/N", gpu="4096x4096/N,2000:64x64/N"),
    flop=lambda case: cases.solve_of(case).flop,
    bytes=lambda case: cases.solve_of(case).bytes,
    oracle=cases.solve_oracle,
    operands=cases.well_conditioned,
    like_numpy=cases.solve_like_numpy,
    form="n x m, perhaps with a batch",
    label="n x m / transpose",
    by_flop=True,
    variants=cases.solve_variants,
    batched=True,
    manners=cases.MANNERS,
    call=cases.solve_call,
    random=SOLVE,
)
# What is small follows from registers and local memory by formula: there is no row to look up yet,
# and so nothing to tune.
FACTOR = Family(
    name="factor",
    operations=(_CHOLESKY, _SOLVE),
    checks=checks,
    benchmarks={"cholesky": _TIMED_CHOLESKY, "solve_triangular": _TIMED_SOLVE},
    kernels={
        "factor/cholesky": Compiled(shown="cholesky", fma_share=lambda policy: 0.0),
        "factor/solve": Compiled(shown="solve_triangular"),
        # Vectors are read once, and fronts gather elements at indices from tables times `count`.
        **dict.fromkeys(
            (
                "factor/vector",
                "fronts/inverse",
                "fronts/inverse_rows",
                "fronts/permute",
                "fronts/residual",
                "fronts/small",
                "fronts/small_backward",
                "fronts/small_forward",
                "fronts/vector",
            ),
            Compiled(strided=True),
        ),
    },
)
