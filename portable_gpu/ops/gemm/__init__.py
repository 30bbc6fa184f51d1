"""Matrix products: gemm, matmul, and the epilogues that they can end in."""

from __future__ import annotations

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.ops.gemm.api import gemm, matmul
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy
from portable_gpu.ops.gemm.tiling import Tiling

__all__ = [
    "Epilogue",
    "GemmPolicy",
    "PackedPolicy",
    "Tiling",
    "gemm",
    "matmul",
]
