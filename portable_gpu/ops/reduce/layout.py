"""How rows or columns are dealt out to work-groups, and the text of the kernel for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.reductions import Reduction
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.reduce.geometry import Geometry
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two
from portable_gpu.targets import Target

# Rows of at most so many elements are folded side by side on a CPU; what carries indices costs more
# at a row's end, and is so of twice as many (docs/experiments/reduce.md).
_CPU_SHORT = 256
#: Columns of a work-item on a CPU at most: their accumulators are to stay in its L1 cache.
_CPU_COLUMNS = 1024
#: Rows that it folds into them at a time, at most.
_CPU_ROWS = 8
# The last group adds what all others found: with less than so many bytes for each of them, no more
# groups than are resident at once.  On an H200 2^22 float32 take 1.3 of the time otherwise.
_PLENTY, _FEW_GROUPS = 1 << 19, 3
# Elements for each lane of a sub-group on each compute unit, up to which latency counts alone.
_FEW = 4
# Rows of each compute unit from which on sub-groups have one each.
_MANY = 12
# Columns in fewer steps than this wait longer for their parts to meet than they take; and so many
# of their rows a work-item is to have (on an H200, 8 x 154280: 7.8 us, and 3.5 with all 8).
_LEAST_STEPS, _LEAST_ROWS = 8, 8
_COLUMN_GROUPS = 2
# Results of more than so many blocks a compute unit have work-items enough: then no two share a
# column, unless it has many rows (H200: 42 x 193735 float16 9 us, 15 with four; 271 rows lose 7 %).
_PLENTY_OF_BLOCKS, _MANY_ROWS = 4, 128
# Columns of so few rows are folded by one work-item each, all rows on their way at once.
_FEW_ROWS = 8
# Of float32 and 16-bit floats, groups of moments along columns of many rows have twice the
# work-items: registers leave no room for a third group (H200: 53846 x 645 float16 112 us, and 57).
_TALL, _TALL_SIZE = 512, 512
# Lanes side by side along columns that no vectors fit, by the bytes of an element: a group reads
# 1024 and 256 bytes of a row; of 2 bytes where columns are many (docs/experiments/reduce.md).
_OFF_THE_GRID, _MANY_COLUMNS, _OFF_WIDE_GRID = {8: 128, 4: 64}, 4096, 64
# Lanes of a row of few vectors have so many each, and read so many bytes side by side, where a
# compute unit has so many work-items all the same (docs/experiments/reduce.md).
_MANY_STEPS, _LINE, _FULL = 2, 128, 2048
# Rows off the grid of vectors that have so many of them are read by vectors all the same.
_LEAST_VECTORS = 4
# Bytes of a row that one group folds sooner than several do, which have to meet; twice as many of
# moments, or where rows keep half of the compute units at work.
_ALONE = 3 << 15
# Vectors of a row for each work-item of a group, where rows keep half of the compute units at work.
_ROW_STEPS = 16
# Steps of a sub-group along a row, so that vectors of moments of 16-bit floats are worth folding to
# one at the end.
_MOMENT_STEPS = 8
# Bytes of a work-item that are to be on their way, and steps for them at most: single elements of
# columns that lie off the grid of vectors have 0.3 of the bandwidth otherwise (H200, 8113 x 435).
_IN_FLIGHT, _MOST_STEPS = 32, 8


@dataclass(frozen=True)
class Layout:
    """What a kernel is rendered for, besides the reduction.

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
class Deal:
    """How the work is dealt out: groups, and the parts into which each result is cut."""

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


def lay_out(
    policy: ReducePolicy, target: Target, reduction: Reduction, geometry: Geometry, alignment: int
) -> list[tuple[Layout, Deal]]:
    """Rows, and where results lie next to each other columns: the kernel's form by each."""
    elem, streamed = reduction.inputs[0], len(reduction.streamed)
    if target.is_cpu and geometry.inner.size == 1:  # no text of its own for single elements
        geometry = replace(geometry, inner=Axis(1, (1,) * len(reduction.inputs)))
    unit = is_unit(geometry.inner.strides[:streamed])
    wanted = geometry.rows * geometry.count * elem.itemsize // policy.work_per_group
    alone = target.is_cpu and target.compute_units == 1  # no one to share the work with
    wanted = 1 if alone else max(1, min(wanted, target.compute_units * policy.groups_per_unit))
    if target.is_cpu:
        rows = _cpu_rows(policy, reduction, geometry, wanted, unit)
    else:
        rows = _rows(policy, target, reduction, geometry, alignment, wanted, unit)
    ways = [_with_spread(reduction, geometry.inner, *rows)]
    if geometry.kept and is_unit(geometry.kept[-1].strides[:streamed]):
        if target.is_cpu:
            columns = _cpu_columns(policy, reduction, geometry, wanted)
        else:
            columns = _columns(policy, target, reduction, geometry, alignment, wanted)
        ways.append(_with_spread(reduction, geometry.kept[-1], *columns))
    return ways


def _with_spread(
    reduction: Reduction, along: Axis, layout: Layout, deal: Deal
) -> tuple[Layout, Deal]:
    """A form whose layout names the inputs that are one element along an axis."""
    strides = along.strides[: len(reduction.streamed)]
    one = tuple(n for n, s in zip(reduction.names, strides, strict=False) if not s)
    return replace(layout, spread=one), deal


def is_unit(strides: tuple[int, ...]) -> bool:
    """Whether vectors of elements lie along an axis, or one element is all of a vector."""
    return 1 in strides and all(stride in (0, 1) for stride in strides)


def _rows(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    wanted: int,
    unit: bool,
) -> tuple[Layout, Deal]:
    elem, n, rows = reduction.inputs[0], geometry.inner.size, geometry.rows
    vector, aligned, peel = 1, False, False
    if unit and reduction.vectorizable:
        vector, aligned, peel = _row_vector(policy, target, reduction, geometry, alignment)
    size, lanes = _row_lanes(policy, target, geometry, elem.itemsize, vector, wanted, peel)
    if peel:
        lanes = max(lanes, vector)
    unroll = 1
    if n * geometry.outer_count > lanes * vector:
        # Measured on an H200: in rows that share a group the other rows hide the latency, and
        # in what carries indices the registers count for more (docs/experiments/reduce.md).
        plain = lanes < size or reduction.indexed
        own = replace(policy, unroll=1) if plain else policy
        unroll = _unroll(own, target, reduction, vector, n // (lanes * vector))
    group_rows = size // lanes
    parts = _row_parts(policy, target, reduction, geometry, wanted) if lanes == size else 1
    inner, outer, inner_span, outer_span = _split(parts, geometry, lanes * vector * unroll)
    if inner * outer > 1:
        tiles, rows_per_group = rows, 1
    else:
        most = 8 * target.compute_units * policy.groups_per_unit
        groups = max(1, min(most, -(-rows // group_rows)))
        rows_per_group = -(-rows // (groups * group_rows)) * group_rows
        tiles = -(-rows // rows_per_group)
    layout = Layout(
        "rows", size, lanes, vector, 1, unroll, aligned, unit, inner * outer > 1,
        len(geometry.kept), len(geometry.outer), peel=peel,
    )  # fmt: skip
    return layout, Deal(tiles, inner, outer, inner_span, outer_span, rows_per_group)


def _row_vector(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
) -> tuple[int, bool, bool]:
    """Elements of a load along rows, whether it is aligned, and whether rows begin anywhere."""
    elem, n, lanes = reduction.inputs[0], geometry.inner.size, target.subgroup_size
    if n <= lanes and _are_few(geometry, target):
        return 1, False, False
    vector = min(_widest(policy, reduction), floor_power_of_two(max(1, n)))
    if len(reduction.folds[0].lane.fields) > 1 and elem.itemsize <= 4:
        vector = max(1, vector // 2)  # measured on an H200: docs/experiments/reduce.md
    while vector > 1 and not _fits(policy, target, reduction, vector):
        vector //= 2
    if reduction.name == "moment" and elem.itemsize < 4:
        while vector > 1 and lanes * vector <= n < _MOMENT_STEPS * lanes * vector:
            vector //= 2
    widest = vector
    vector, aligned = _aligned_vector(vector, reduction, geometry, alignment, geometry.inner)
    # Each of a row's lanes has one of the elements before, or behind, the vectors.
    single = len(reduction.streamed) == 1 and not elem.complex
    single &= widest <= target.subgroup_size
    if single and vector < widest and n >= _LEAST_VECTORS * widest:
        return widest, True, True
    return vector, aligned, False


def _row_lanes(
    policy: ReducePolicy,
    target: Target,
    geometry: Geometry,
    itemsize: int,
    vector: int,
    wanted: int,
    peel: bool,
) -> tuple[int, int]:
    """Work-items of a group, and of a row: a whole group, or a sub-group at most."""
    n, rows, units = geometry.inner.size, geometry.rows, target.compute_units
    size, most = policy.group_size, target.subgroup_size
    if n <= vector * most and _are_few(geometry, target):
        return size, ceil_power_of_two(max(1, -(-n // vector)))
    lanes = ceil_power_of_two(max(1, -(-n // (2 * vector))))
    if lanes > 1 and not peel and 2 * (n % (lanes // 2 * vector)) < n % (lanes * vector):
        lanes //= 2  # fewer lanes are without work in the last step
    # Measured on an H200: sub-groups that have a row each take 0.2 to 0.95 of the time of groups
    # that have one, from 15 rows a compute unit on (docs/experiments/reduce.md).
    many = rows >= _MANY * units
    wide = lanes > 4 * most or rows * min(lanes, size) < size * wanted
    if wide and not many:
        if 2 * rows >= units:
            enough = ceil_power_of_two(-(-n // (vector * _ROW_STEPS)))
            size = max(2 * most, min(size, enough))
        return size, size
    lanes = min(lanes, most)
    # Measured on an H200: where rows are many, lanes with more of a row spend less on meeting.
    line = max(1, _LINE // (vector * itemsize))
    while lanes > line and n < _MANY_STEPS * lanes * vector:
        if rows * lanes < 2 * _FULL * units:
            break
        lanes //= 2
    return size, lanes


def _are_few(geometry: Geometry, target: Target) -> bool:
    """Whether there is so little to fold that latency counts alone."""
    elements = geometry.rows * geometry.inner.size
    return (
        geometry.outer_count == 1 and elements <= _FEW * target.subgroup_size * target.compute_units
    )


def _row_parts(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    wanted: int,
) -> int:
    """Into how many parts each row is cut at most, a group each."""
    rows, units = geometry.rows, target.compute_units
    nbytes = geometry.count * reduction.inputs[0].itemsize
    dear = reduction.name == "moment" or 2 * rows >= units
    if nbytes < _ALONE * (2 if dear else 1):
        return 1
    parts = -(-wanted // max(1, rows))
    if nbytes < parts * _PLENTY:
        parts = min(parts, -(-min(_FEW_GROUPS, policy.groups_per_unit) * units // max(1, rows)))
    if rows >= units:  # which have work anyway
        parts = min(parts, max(1, nbytes // (4 * policy.work_per_group)))
    return parts


def _cpu_rows(
    policy: ReducePolicy, reduction: Reduction, geometry: Geometry, wanted: int, unit: bool
) -> tuple[Layout, Deal]:
    """Rows on a CPU: short ones a vector's lane each, others one after the other."""
    n, rows = geometry.inner.size, geometry.rows
    strides = geometry.inner.strides[: len(reduction.streamed)]
    vector = _widest(policy, reduction) if unit and reduction.vectorizable else 1
    together = min(vector, max(1, policy.vector_bytes // 4))
    short = n <= _CPU_SHORT * (2 if reduction.indexed else 1)
    side_by_side = short and set(strides) == {1} and 1 < together <= rows
    # Each step waits for the one before, and where nothing is lifted there are more side by side.
    unroll = policy.unroll * (1 if reduction.block else 2)
    layout = Layout(
        "rows", 1, 1, together if side_by_side else vector, 1, unroll, False, unit,
        not side_by_side, max(1, len(geometry.kept)), len(geometry.outer),
        side_by_side=side_by_side,
    )  # fmt: skip
    least = together if side_by_side else 1
    parts = 1 if side_by_side else -(-wanted // max(1, rows))
    inner, outer, inner_span, outer_span = _split(parts, geometry, vector * unroll)
    if inner * outer > 1:
        return layout, Deal(rows, inner, outer, inner_span, outer_span, 1)
    each = -(-rows // (wanted * least)) * least
    return layout, Deal(-(-rows // each), 1, 1, inner_span, outer_span, each)


def _columns(
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    wanted: int,
) -> tuple[Layout, Deal]:
    columns, size, count = geometry.kept[-1].size, policy.group_size, geometry.count
    vector, widest, aligned = 1, 1, False
    if reduction.vectorizable:
        vector = min(_widest(policy, reduction), floor_power_of_two(columns))
        while vector > 1 and not _fits(policy, target, reduction, vector, shared=vector):
            vector //= 2
        widest = vector
        # The last block is moved back to the edge, so the extent counts as well.
        vector, aligned = _aligned_vector(
            vector, reduction, geometry, alignment, geometry.kept[-1], columns
        )
    itemsize = reduction.inputs[0].itemsize
    # Narrow vectors side by side would spread a load over eight times the lines.
    vectors = max(1, policy.column_bytes // max(policy.vector_bytes, vector * itemsize))
    vectors = min(vectors, floor_power_of_two(max(1, columns // vector)))
    while vectors > 1 and not _fits(policy, target, reduction, vector * vectors, shared=vector):
        vectors //= 2
    # Measured on an H200: 1.2 of the speed of eight a unit at 2^20 x 100, 1.1 at 8192 x 8192.
    shared_by_all = wanted >= _COLUMN_GROUPS * target.compute_units
    wanted = min(wanted, _COLUMN_GROUPS * target.compute_units)
    lanes = policy.column_lanes
    if reduction.name == "moment" and itemsize <= 4 and count >= _TALL and shared_by_all:
        tall = replace(policy, group_size=min(_TALL_SIZE, target.max_work_group_size))
        if _fits(tall, target, reduction, vector * vectors, shared=vector):
            size = max(size, tall.group_size)
    if vector == 1 < widest:
        beside = _OFF_THE_GRID.get(itemsize, _OFF_WIDE_GRID if columns > _MANY_COLUMNS else 1)
        lanes = min(size, max(lanes, beside))
    lanes = min(lanes, ceil_power_of_two(-(-columns // (vector * vectors))))
    # Few rows are soon folded: work-items go side by side rather than share columns.
    few = count <= _FEW_ROWS and not geometry.outer and not reduction.indexed
    if few:
        alone = -(-columns // (vector * vectors * target.compute_units))
        lanes = size = max(target.subgroup_size, min(size, ceil_power_of_two(alone)))
    lanes = max(lanes, size // ceil_power_of_two(max(1, count)))
    block = lanes * vector * vectors
    most = min(size, _LEAST_ROWS * size // max(1, count))
    while lanes < size and columns > block * target.compute_units * (
        2 if lanes < most else _PLENTY_OF_BLOCKS if count <= _MANY_ROWS else columns
    ):
        lanes, block = 2 * lanes, 2 * block
    tiles = -(-columns // block) * (geometry.rows // columns)
    unroll = _in_flight(
        max(1, policy.unroll // vectors), policy, target, reduction, vector * vectors,
        most=geometry.inner.size * lanes // size,
    )  # fmt: skip
    if few:
        all_rows = ceil_power_of_two(count)
        unroll = _doubled(unroll, all_rows, policy, target, reduction, vector * vectors)
    step = size // lanes * unroll
    # Of 528 x 31997 float64 an H200 makes one part each in 36 us, and two in 66.
    shared = count >= _LEAST_STEPS * step and 2 * wanted > 3 * tiles
    parts = -(-wanted // tiles) if shared else 1
    inner, outer, inner_span, outer_span = _split(parts, geometry, step)
    kept, outer_axes = len(geometry.kept) - 1, len(geometry.outer)
    split = inner * outer > 1
    layout = Layout(
        "columns", size, lanes, vector, vectors, unroll, aligned, False, split, kept, outer_axes
    )
    return layout, Deal(tiles, inner, outer, inner_span, outer_span, 1)


def _cpu_columns(
    policy: ReducePolicy, reduction: Reduction, geometry: Geometry, wanted: int
) -> tuple[Layout, Deal]:
    """Columns on a CPU: one work-item a block, whose accumulators are to stay in its L1 cache."""
    columns = geometry.kept[-1].size
    vector = _widest(policy, reduction) if reduction.vectorizable else 1
    vector = vector if vector <= columns else 1
    most = min(_CPU_COLUMNS, policy.column_bytes // reduction.inputs[0].itemsize)
    unroll = min(_CPU_ROWS, reduction.block or _CPU_ROWS)
    layout = Layout(
        "columns", 1, 1, vector, max(1, most // vector), unroll, False, False, True,
        len(geometry.kept) - 1, len(geometry.outer),
    )  # fmt: skip
    tiles = -(-columns // layout.block) * (geometry.rows // columns)
    inner, outer, inner_span, outer_span = _split(-(-wanted // tiles), geometry, unroll)
    return layout, Deal(tiles, inner, outer, inner_span, outer_span, 1)


def _split(parts: int, geometry: Geometry, step: int) -> tuple[int, int, int, int]:
    """Cut a result's elements into about ``parts``: outer positions first, then the inner axis."""
    n, outer = max(1, geometry.inner.size), max(1, geometry.outer_count)
    outer_span = -(-outer // min(outer, max(1, parts)))
    outer_parts = -(-outer // outer_span)
    inner_span = -(-n // max(1, parts // outer_parts))
    inner_span = -(-inner_span // step) * step
    return -(-n // inner_span), outer_parts, inner_span, outer_span


def _widest(policy: ReducePolicy, reduction: Reduction) -> int:
    """Elements of the widest vector: within policy_bytes, and within OpenCL's 16 components."""
    widths = [
        min(policy.vector_bytes // elem.itemsize, 16 // elem.components)
        for elem in reduction.streamed
    ]
    return max(1, min(widths))


def _fits(
    policy: ReducePolicy, target: Target, reduction: Reduction, width: int, shared: int = 0
) -> bool:
    """Whether ``width`` elements at a time leave most registers and half the local memory free.

    ``shared``: accumulators of a work-item in local memory.  What folds
    them takes as many registers again and half as many: two sub-groups of a SIMD are to have them.
    """
    state = width * (policy.unroll * reduction.lane.bytes + reduction.acc.bytes) // 4
    local = policy.group_size * shared * reduction.acc.bytes
    roomy = 3 * state <= target.registers and 5 * state <= 2 * target.resident_registers
    return roomy and 2 * local <= target.local_mem_size


def _unroll(
    policy: ReducePolicy, target: Target, reduction: Reduction, vector: int, most: int
) -> int:
    """Vectors in flight: where a GPU keeps several sums of a value, more share in lifting them.

    As many as make it cost a value no more than one sum's; not for more than ``most``, all that a
    work-item has of a row.
    """
    wanted = min(most, policy.unroll * reduction.folds[0].lift_cost)
    return _doubled(policy.unroll, wanted, policy, target, reduction, vector)


def _in_flight(
    unroll: int, policy: ReducePolicy, target: Target, reduction: Reduction, width: int, most: int
) -> int:
    """Steps of ``width`` elements in flight: where elements are few, or small, more of them.

    With room for their states twice, for what is loaded and its addresses take registers too.
    """
    enough = -(-_IN_FLIGHT // (width * reduction.inputs[0].itemsize))
    wanted = min(most, _MOST_STEPS, enough)
    return _doubled(unroll, wanted, policy, target, reduction, width, room=2)


def _doubled(
    unroll: int,
    wanted: float,
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    width: int,
    room: int = 1,
) -> int:
    """``unroll``, doubled as often as ``room`` times the states fit, up to ``wanted``."""
    while 2 * unroll <= wanted:
        if not _fits(replace(policy, unroll=2 * room * unroll), target, reduction, width):
            break
        unroll *= 2
    return unroll


def _aligned_vector(
    vector: int,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    along: Axis,
    extent: int = 0,
) -> tuple[int, bool]:
    """The most of ``vector`` of which every line along an axis of unit stride starts at a multiple.

    Of all streamed inputs; and whether that is more than one.
    """
    lines = [k for k in range(len(reduction.streamed)) if along.strides[k] == 1]
    axes = (*geometry.kept, *geometry.outer, geometry.inner)
    steps = [axis.strides[k] for axis in axes if axis is not along for k in lines]
    steps += (*(geometry.shift[k] for k in lines), extent)
    itemsize = max(reduction.streamed[k].itemsize for k in lines)
    while vector > 1 and (alignment < vector * itemsize or any(step % vector for step in steps)):
        vector //= 2
    return vector, vector > 1


def render_layout(target: Target, reduction: Reduction, layout: Layout) -> Specialization:
    """The OpenCL text of one kernel."""
    common: dict[str, Any] = {
        "r": reduction,
        "V": layout.vector,
        "U": layout.unroll,
        "aligned": layout.aligned,
        "split": layout.split,
        "kept": layout.kept,
        "outer": layout.outer,
        "spread": layout.spread,
    }
    if layout.side_by_side:
        return specialize("reduce/cpu_short_rows", target, **common)
    if target.is_cpu and layout.kind == "rows":
        return specialize("reduce/cpu_rows", target, unit=layout.unit, **common)
    if layout.kind == "rows":
        return specialize(
            "reduce/rows",
            target,
            G=layout.group_size,
            L=layout.lanes,
            S=target.subgroup_size,
            unit=layout.unit,
            peel=layout.peel,
            **common,
        )
    if target.is_cpu:
        return specialize("reduce/cpu_columns", target, COLUMNS=layout.block, **common)
    return specialize(
        "reduce/columns",
        target,
        CX=layout.lanes,
        CY=layout.group_size // layout.lanes,
        C=layout.vectors,
        **common,
    )
