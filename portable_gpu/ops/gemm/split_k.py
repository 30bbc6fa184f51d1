"""The workspace of groups that share a tile of C; see ``gemm/_split_k.cl.mako``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.tiled.policy import value_bytes
from portable_gpu.runtime.queue_state import QueueState


@dataclass(frozen=True)
class SplitSpace:
    """Workspace in which the parts of tiles are combined, for one launch.

    Attributes:
        counters: The number of words that are 0 between launches.
        nbytes: The bytes of the partial sums.
    """

    counters: int
    nbytes: int

    @classmethod
    def of(cls, counters: int, parts: int, area: int, compute: Element) -> SplitSpace:
        """Return the workspace for ``parts`` parts of tiles of ``area`` elements."""
        return cls(counters, parts * area * max(value_bytes(compute), 4))

    def allocate(self, state: QueueState) -> tuple[Any, Any]:
        """The buffers ``partial`` and ``counters``.

        Raises:
            DeviceMemoryError: The device has no memory for it.
        """
        counters, _ = state.counters_and_partials(self.counters, 0)
        return state.workspace(self.nbytes), counters
