"""The record of matrix products."""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.dtypes import bfloat16
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
from portable_gpu.ops.gemm.api import gemm, matmul
from portable_gpu.ops.gemm.commands import cases
from portable_gpu.ops.gemm.commands.cases import CONTESTED, RANDOM
from portable_gpu.ops.gemm.commands.catalogue import explain, specializations
from portable_gpu.ops.gemm.commands.checks import checks, edge_checks
from portable_gpu.ops.gemm.commands.ladder import ladders
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy
from portable_gpu.ops.gemv.commands.cases import like_numpy
from portable_gpu.tuning.policy import Policy

#: Multiply-adds among the vector and local memory instructions of gemm's inner loop, float16 and
#: float32.
FMA_SHARE = 0.85
#: A loop of only the multiply-adds and loads of a flat tile may have a lower share; then this part
#: of that share is required.
_OF_BOUND = 0.95


def required_fma_share(policy: Policy | None) -> float:
    """The share of multiply-adds for an item's tile: each step loads one row and one column.

    For the kernel without tiles, no share is required.
    """
    if not isinstance(policy, GemmPolicy):
        return 0.0
    products = policy.item_m * policy.item_n
    vector_m, vector_n = (min(policy.vector, item) for item in (policy.item_m, policy.item_n))
    loads = policy.item_m / vector_m + policy.item_n / vector_n
    return min(FMA_SHARE, _OF_BOUND * products / (products + loads))


KERNELS = {
    "gemm/gemm": Compiled(shown="gemm", fma_share=required_fma_share),
    "gemm/wgmma": Compiled(shown="gemm", matrix=True),
    "gemm/mma": Compiled(shown="gemm", matrix=True),
    "gemm/mfma": Compiled(shown="gemm", matrix=True),
    "gemm/skinny": Compiled(matrix=True),
}


_SIZES = ((64, 64, 64), (512, 512, 512), (1500, 500, 1500), (2000, 1000, 4))
_BFLOAT16 = ("bfloat16",) if bfloat16() is not None else ()

_GEMM = OperationRecord(
    name="gemm",
    function=gemm,
    explain=explain,
    specializations=specializations,
    compiled=(*USUAL_DTYPES, *_BFLOAT16),
    extents=3,
    shapes=cases.shapes,
    options=cases.options,
    transposes=("trans_a", "trans_b"),
    typical=Typical(_SIZES, common=True, function=matmul),  # which takes integers too
)
_MATMUL = replace(
    _GEMM, name="matmul", function=matmul, specializations=None, typical=Typical(_SIZES)
)
# Extents are those of tutorials and of open issues of peers: flat matrices, CLBlast #520
# (8 x 3200 x 3200), #333 (400 x 1100000 x 400).
_BENCHMARK = Benchmark(
    sizes=Sizes(
        cpu="512x512x512,1000x1000x1000,1024x1024x1024,2048x2048x2048,3000x3000x3000,"
        "8x3200x3200,4096x64x4096,400x100000x400,1000:32x32x32",
        gpu="1024x1024x1024,2048x2048x2048,4096x4096x4096,8192x8192x8192,1000x1000x1000,"
        "3000x3000x3000,5001x5001x5001,8x4096x4096,1x4096x4096,400x1100000x400,1024:64x64x64",
    ),
    roofline=Sizes(
        cpu="1024x1024x1024/NN,2048x2048x2048/NN,8x3200x3200,4096x64x4096,1000:32x32x32",
        gpu="1024x1024x1024/NN,4096x4096x4096/NN,8x4096x4096,400x1100000x400,1024:64x64x64",
    ),
    flop=lambda case: cases.problem_of(case).flop,
    bytes=lambda case: cases.problem_of(case).bytes,
    oracle=cases.oracle,
    like_numpy=like_numpy,
    form="m x k x n, perhaps with a batch",
    label="m x k x n / transposes",
    by_flop=True,
    variants=cases.variants,
    batched=True,
    manners=cases.MANNERS,
    call=cases.call,
    on_matrix_units=True,
    ladders=ladders,
    random=RANDOM,
    contested=CONTESTED,
)
_TUNING = Tuning(
    operation="gemm",
    shapes=Sizes(
        cpu="1024x1024x1024/NN,600x600x600/NT,256x256x256/NN,8192x256x256,2048x512x128,"
        "256x256x8192,128x512x2048,256x16384x256,96x4096x128,64x64x64/NN,1000:32x32x32,"
        "64:128x128x128",
        gpu="4096x4096x4096/NN,2048x2048x2048/NT,1000x1000x1000/NN,512x512x512/NN,"
        "200x1000x200,32x4096x4096,65536x256x256,256x65536x256,8x4096x4096,1024:64x64x64,"
        "128:256x256x256",
    ),
    grid={
        "gemm": Sizes(
            cpu="96x96x96/NN,200x300x400/NT,384x384x384/NN,1000x100x1000,100x2000x100,"
            "20x1000x1000,2000x64x64,100:50x50x50",
            gpu="96x1000x96,300x300x300/NN,768x768x768/NT,1000x100x1000,128x8192x128,"
            "1300x500x800,3000x3000x3000/NN,1x4096x4096,4x4096x4096,8x4096x4096,64:128x128x128",
        )
    },
    edge_checks=edge_checks,
)
GEMM = Family(
    name="gemm",
    operations=(_GEMM, _MATMUL),
    checks=checks,
    benchmarks={"gemm": _BENCHMARK},
    tuning=_TUNING,
    kernels=KERNELS,
)
