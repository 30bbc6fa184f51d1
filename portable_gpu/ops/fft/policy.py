"""How transforms use a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.packed.policy import L2_BYTES
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range


@dataclass(frozen=True)
class CpuFftPolicy(Policy):
    """Transforms side by side in the lanes of vectors; see ``cl_kernels/fft/cpu``.

    Attributes:
        vector: Lanes.
        most: The longest transform of one pass.
    """

    vector: Annotated[int, Range(2, 8)]
    most: Annotated[int, Range(16, 65536)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> CpuFftPolicy:
        """As many lanes as a register has, and scratch of half of the second cache."""
        itemsize = elem.itemsize // elem.components
        vector = min(8, max(2, target.vector_bytes // itemsize))
        return cls(vector, L2_BYTES // 2 // (2 * vector * itemsize))

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """See :meth:`Policy.search_space`."""
        return {"vector": (2, 4, 8), "most": (1024, 2048, 4096, 8192)}

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        return {"vector is 2, 4 or 8": self.vector in (2, 4, 8)}

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.vector, self.vector, self.vector
