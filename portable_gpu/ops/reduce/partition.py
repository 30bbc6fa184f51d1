"""The form of a kernel, and the partition of its rows or columns over work-groups."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.ops.reduce.geometry import Geometry


@dataclass(frozen=True)
class ReduceForm:
    """The form of a kernel: all that its text depends on, except the reduction.

    Attributes:
        kind: ``rows`` or ``columns``.
        group_size: Work-items of a group.
        lanes: Work-items of a row, or side by side along the columns.
        vector: Elements of a vector.
        vectors: Vectors of a work-item along the columns.
        unroll: Steps in flight.
        aligned: Whether vector loads are aligned.
        unit: Whether the inner reduced axis has unit stride.
        split: Whether several groups share a result; on a CPU, whether they may.
        kept, outer: Numbers of axes.
        spread: The inputs that are one element for all lanes of a vector.
        peel: Whether rows begin anywhere, and vectors where memory has them aligned.
        side_by_side: Whether each lane of a vector has a row of its own (CPUs).
    """

    kind: str
    group_size: int
    lanes: int
    vector: int
    vectors: int
    unroll: int
    aligned: bool
    unit: bool
    split: bool
    kept: int
    outer: int
    spread: tuple[str, ...] = ()
    peel: bool = False
    side_by_side: bool = False

    @property
    def block(self) -> int:
        """Results of a work-group side by side."""
        if self.kind == "rows":
            return self.group_size // self.lanes
        return self.lanes * self.vector * self.vectors

    @property
    def step(self) -> int:
        """Elements along the inner axis that a group takes in one step."""
        if self.kind == "rows":
            return self.lanes * self.vector * self.unroll
        return self.group_size // self.lanes * self.unroll


@dataclass(frozen=True)
class ReducePartition:
    """The partition of a reduction: work-groups, and the parts of each result."""

    tiles: int  # groups, or groups of parts
    inner_parts: int
    outer_parts: int
    inner_span: int
    outer_span: int
    rows_per_group: int

    @property
    def parts(self) -> int:
        """Work-groups that share a result."""
        return self.inner_parts * self.outer_parts


def split_elements(parts: int, geometry: Geometry, step: int) -> tuple[int, int, int, int]:
    """Cut a result's elements into about ``parts``: outer positions first, then the inner axis."""
    n, outer = max(1, geometry.inner.size), max(1, geometry.outer_count)
    outer_span = -(-outer // min(outer, max(1, parts)))
    outer_parts = -(-outer // outer_span)
    inner_span = -(-n // max(1, parts // outer_parts))
    inner_span = -(-inner_span // step) * step
    return -(-n // inner_span), outer_parts, inner_span, outer_span
