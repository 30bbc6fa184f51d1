"""Tilings of products: the tiles, the orientation and the partition of k."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from portable_gpu.ops.gemm.matrix.policy import MatrixPolicy
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy
from portable_gpu.tuning.table import PolicyRow


@dataclass(frozen=True)
class Tiling:
    """The tiles of a product: their policy, the orientation, and the partition of k.

    Attributes:
        path: ``wgmma``, ``mma`` or ``mfma`` (matrix units; ``wgmma, split-k``), ``tiled``,
            ``split-k``, ``direct`` (a work-item per element), or ``packed`` (CPU).
        policy: Tile sizes; ``None`` for the direct path.
        splits: The number of parts of k.  Each part is computed by another group, and on the direct
            path by another work-item.
        unsplit: The number of tiles of each product whose k is not split, because they fill the
            compute units anyway; with ``shares`` the number of such tiles of all products.
        shares: The number of groups that share the steps of k of the other tiles equally, so that
            two or more groups compute each of these tiles; 0 if tiles are whole or have ``splits``.
        lanes: The number of groups that have the same share, each of another tile.
        transposed: Whether ``C' = B' A'`` is computed.
        gather: Whether operands that matrix units cannot read as they are stored are copied element
            by element; otherwise a first pass repacks them.
        shape_class: One of :data:`SHAPE_CLASSES`, for which the tuning table may have rows.
        origin: The source of the policy.
        why: A sentence that says why this tiling applies.
        evidence: The measurements behind the policy.
    """

    path: str
    policy: GemmPolicy | MatrixPolicy | None = None
    splits: int = 1
    unsplit: int = 0
    shares: int = 0
    lanes: int = 1
    transposed: bool = False
    gather: bool = False
    shape_class: str = "any"
    origin: str = ""
    why: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """``wgmma, split-k, medium, transposed, 4 splits``."""
        if self.policy is None:
            return self.path if self.splits == 1 else f"{self.path}, {self.splits} lanes"
        parts = [self.path, self.shape_class]
        parts += ["transposed"] if self.transposed else []
        parts += [f"{self.splits} splits"] if self.splits > 1 else []
        parts += [f"{self.shares} shares"] if self.shares else []
        parts += [f"{self.lanes} lanes"] if self.lanes > 1 else []
        parts += ["of the last tiles"] if self.unsplit else []
        return ", ".join(parts)

    @property
    def row(self) -> PolicyRow[GemmPolicy | MatrixPolicy] | None:
        """The policy with its origin and measurements."""
        return PolicyRow(self.policy, self.origin, self.evidence) if self.policy else None

    @property
    def is_cut(self) -> bool:
        """Whether several groups compute a tile, and their sums are added."""
        return self.splits > 1 or self.shares > 0

    def fit(self, k: int) -> Tiling:
        """Return the tiling without the splits that would be empty."""
        if not isinstance(self.policy, GemmPolicy) or self.splits == 1:
            return self
        return replace(self, splits=-(-k // split_length(k, self.splits, self.policy.tile_k)))


#: Bytes of partial sums of one launch, unless one product of a batch needs more.
WORKSPACE = 64 << 20


def split_length(k: int, splits: int, tile_k: int) -> int:
    """Steps of k in each split: equal, in whole tiles; the last split has the remaining ones."""
    if splits == 1:
        return k
    tiles = -(-k // tile_k)
    return -(-tiles // splits) * tile_k
