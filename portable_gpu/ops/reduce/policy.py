"""How reductions use a device: policies, forms of kernels, partitions, thresholds of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.dtypes import Element
from portable_gpu.powers_of_two import is_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.policy import Range, TunedPolicy


@dataclass(frozen=True)
class ReducePolicy(TunedPolicy):
    """How reductions use a device.

    Attributes:
        group_size: Work-items of a group (1 on a CPU).
        vector_bytes: Bytes of a vector load.
        unroll: Independent vectors of a work-item in flight.
        groups_per_unit: Most work-groups for each compute unit.
        work_per_group: Bytes that are worth a work-group of their own.
        column_bytes: Bytes of neighbouring columns that a work-item folds.
        column_lanes: Work-items of a group side by side along the columns; more where rows are few.
    """

    group_size: Annotated[int, Range(1, 1024)]
    vector_bytes: Annotated[int, Range(1, 256)]
    unroll: Annotated[int, Range(1, 32)]
    groups_per_unit: Annotated[int, Range(1, 1024)]
    work_per_group: Annotated[int, Range(1, 1 << 30)]
    column_bytes: Annotated[int, Range(1, 1 << 16)]
    column_lanes: Annotated[int, Range(1, 1024)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> ReducePolicy:
        """CPU: whole vectors, few large groups.  GPU: 128-bit loads, groups of 256."""
        if target.is_cpu:
            return cls(1, target.vector_bytes, 4, 4, 1 << 17, 4096, 1)
        size = max(target.subgroup_size, min(256, target.max_work_group_size))
        return cls(size, 16, 2, 8, 1 << 14, 16, target.subgroup_size)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Group sizes, vectors and unrolling around the default."""
        default = cls.default(target, elem)
        return {
            "group_size": (1,) if target.is_cpu else (64, 128, 256, 512, 1024),
            "vector_bytes": (16, 32, 64) if target.is_cpu else (4, 8, 16),
            "unroll": (1, 2, 4, 8),
            "groups_per_unit": (1, 2, 4, 8, 16),
            "work_per_group": (1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18),
            "column_bytes": (
                default.column_bytes // 2,
                default.column_bytes,
                2 * default.column_bytes,
            ),
            "column_lanes": (1,) if target.is_cpu else (16, 32, 64),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`TunedPolicy.edges`."""
        rows = self.group_size * max(1, self.vector_bytes // itemsize) * self.unroll
        return rows, self.column_bytes // itemsize * self.column_lanes, 1

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        size, lanes = self.group_size, self.column_lanes
        return {
            "group_size is within the device's limit": 1 <= size <= target.max_work_group_size,
            "group_size is a power of two": is_power_of_two(size),
            "group_size is a multiple of the sub-group": size % target.subgroup_size == 0,
            "group_size is 1 on the CPU path": size == 1 or not target.is_cpu,
            "column_lanes divides group_size": lanes >= 1 and size % lanes == 0,
            "vector_bytes is a power of two": is_power_of_two(self.vector_bytes),
            "local memory holds an accumulator of 64 bytes for each work-item": (
                target.is_cpu or 64 * size <= target.local_mem_size
            ),
        }


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
        split: Whether several groups share a result (on a CPU: whether the text allows it).
        result_axes: The number of axes of the result.
        outer: The number of reduced axes except the inner one.
        spread: The inputs that have one element for all lanes of a vector.
        peel: Whether rows may be unaligned: the elements before and after the aligned vectors of a
            row are then loaded one by one.
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
    result_axes: int
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
class ReduceLoadFigures(Figures):
    """The loads that keep memory busy if single elements of columns are loaded.

    Attributes:
        item_bytes: Bytes that each work-item should have in flight.
        steps: The maximum number of steps in flight.
    """

    item_bytes: int
    steps: int


@dataclass(frozen=True)
class ReduceRowFigures(Figures):
    """The thresholds of the rules for rows on a GPU.

    Attributes:
        group_bytes: Bytes for each group from which on it does not matter that the last group adds
            the results of the others.
        few_groups: With fewer bytes, at most this number of groups for each compute unit share a
            row: those that are resident at once.
        few_elements: Elements for each lane of a sub-group on each compute unit, up to which only
            latency counts.
        many_rows: Rows for each compute unit from which on sub-groups have one each.
        lane_steps, adjacent_bytes, busy_items: A short row has fewer lanes, so that each has
            ``lane_steps`` vectors; but the lanes read at least ``adjacent_bytes`` side by side, and
            a compute unit keeps at least ``busy_items`` work-items.
        peeled_vectors: Rows of at least this number of vectors are read by vectors although they
            begin anywhere.
        single_bytes: With fewer bytes, one group reduces a row faster than several groups, which
            have to combine their results.  The limit is doubled for moments, and if rows keep half
            of the compute units busy.
        group_steps: Vectors of a row for each work-item of a group, if rows keep half of the
            compute units busy.
        moment_steps: For moments of 16-bit floats: the number of steps of a sub-group along a row
            from which on vectors are used.  With fewer, it takes longer to fold a vector at the
            end.
    """

    group_bytes: int
    few_groups: int
    few_elements: int
    many_rows: int
    lane_steps: int
    adjacent_bytes: int
    busy_items: int
    peeled_vectors: int
    single_bytes: int
    group_steps: int
    moment_steps: int


@dataclass(frozen=True)
class ReduceColumnFigures(Figures):
    """The thresholds of the rules for columns on a GPU.

    Attributes:
        shared_steps: Steps of a group along a column from which on several groups share it: with
            fewer, combining their results takes longer.
        item_rows: Rows of a column that a work-item has at least.
        groups: Groups for each compute unit; fewer than for rows.
        many_blocks, many_rows: If results fill more than ``many_blocks`` blocks for each compute
            unit, no two work-items share a column, unless it has more than ``many_rows`` rows.
        few_rows: Columns of at most this number of rows are reduced by one work-item each, with all
            loads in flight.
        tall_rows, tall_group: From this number of rows on, groups of moments of 4-byte elements and
            smaller ones have this number of work-items, because a compute unit has registers for
            two groups only.
        unaligned_lanes: Lanes side by side if no vectors fit, by the bytes of an element.
        many_columns, many_lanes: For elements of other sizes: ``many_lanes`` lanes side by side if
            there are more than ``many_columns`` columns, else one.
    """

    shared_steps: int
    item_rows: int
    groups: int
    many_blocks: int
    many_rows: int
    few_rows: int
    tall_rows: int
    tall_group: int
    unaligned_lanes: Mapping[str, int]
    many_columns: int
    many_lanes: int


@dataclass(frozen=True)
class ReduceCpuFigures(Figures):
    """The thresholds of the rules on a CPU.

    Attributes:
        short_row: Rows of at most this number of elements are reduced side by side; for operators
            with indices twice as many, because the end of a row costs more.
        block_columns: Columns of a work-item at most: their accumulators should stay in L1.
        block_rows: Rows that it adds to them at a time, at most.
    """

    short_row: int
    block_columns: int
    block_rows: int
