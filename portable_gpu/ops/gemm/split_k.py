"""What groups that share a tile of C leave for each other; see ``gemm/_split_k.cl.mako``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.tiled.policy import value_bytes
from portable_gpu.runtime.queue_state import QueueState


@dataclass(frozen=True)
class SplitSpace:
    """Room in which the parts of tiles meet, for one launch.

    Attributes:
        tiles: Tiles whose k is split.
        nbytes: Of what their groups leave.
    """

    tiles: int
    nbytes: int

    @classmethod
    def of(cls, tiles: int, splits: int, area: int, compute: Element) -> SplitSpace:
        """For tiles of ``area`` elements whose k is cut into ``splits``."""
        return cls(tiles, tiles * splits * area * max(value_bytes(compute), 4))

    def allocate(self, state: QueueState) -> tuple[Any, Any]:
        """The buffers ``partial`` and ``counters``.

        Raises:
            DeviceMemoryError: The device has no such room.
        """
        counters, _ = state.fold_space(self.tiles, 0)
        return state.workspace(self.nbytes), counters
