"""The record of matrix-vector products."""

from __future__ import annotations

from portable_gpu.ops.family import (
    USUAL_DTYPES,
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Tuning,
    Typical,
)
from portable_gpu.ops.gemv.api import gemv
from portable_gpu.ops.gemv.commands import cases
from portable_gpu.ops.gemv.commands.cases import RANDOM
from portable_gpu.ops.gemv.commands.catalogue import explain, specializations
from portable_gpu.ops.gemv.commands.checks import checks, edge_checks
from portable_gpu.ops.gemv.commands.ladder import ladders

_GEMV = OperationRecord(
    name="gemv",
    function=gemv,
    explain=explain,
    specializations=specializations,
    compiled=USUAL_DTYPES,
    extents=2,
    shapes=cases.shapes,
    options=lambda case: {"trans": case.trans},
    transposes=("trans",),
    typical=Typical(((64, 64), (2000, 1000), (100000, 32)), common=True),
)
# Tall, square and flat matrices.
_BENCHMARK = Benchmark(
    sizes=Sizes(
        cpu="16384x16,16384x32,16384x128,4096x4096,64x262144",
        gpu="2^20x16,2^20x32,2^20x128,16384x4096,4096x16384,64x2^20",
    ),
    roofline=Sizes(cpu="16384x32,4096x4096", gpu="2^20x32,16384x4096"),
    flop=lambda case: cases.problem_of(case).flop,
    bytes=lambda case: cases.problem_of(case).bytes,
    oracle=cases.oracle,
    like_numpy=cases.like_numpy,
    form="rows x columns",
    label="rows x columns / transpose",
    variants=cases.variants,
    ladders=ladders,
    random=RANDOM,
)
_TUNING = Tuning(
    operation="gemv",
    shapes=Sizes(cpu="16384x32,4096x4096,64x262144", gpu="2^20x32,16384x4096,64x2^20"),
    grid={
        "gemv": Sizes(
            cpu="1000x1000,100000x30,300x4096", gpu="1000x1000,100000x300,4096x4096,2^20x16"
        )
    },
    edge_checks=edge_checks,
)
GEMV = Family(
    name="gemv",
    operations=(_GEMV,),
    checks=checks,
    benchmarks={"gemv": _BENCHMARK},
    tuning=_TUNING,
    kernels={
        "gemv/dot_rows": Compiled(shown="gemv", folds=True),
        "gemv/long_rows": Compiled(folds=True),
    },
)
