"""The requirements of gemm's compiled kernels."""

from __future__ import annotations

from portable_gpu.ops.family import Compiled
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy
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
