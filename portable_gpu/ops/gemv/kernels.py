"""The kernels of matrix-vector products: what they are rendered with, and their partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from portable_gpu.codegen.epilogue import stored_operands
from portable_gpu.codegen.operators import Accumulator, Field, vector
from portable_gpu.codegen.parameters import Parameter, buffer, operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.caches import L2_BYTES, PAGE_BYTES
from portable_gpu.ops.gemv.policy import (
    ColumnPolicy,
    RowPolicy,
    real_bytes,
)
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.stagger import stagger
from portable_gpu.powers_of_two import ceil_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import MOST_WASTE, stride_waste
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import PolicyRow, TuningTable

_MOST_PARTS = 4096


@dataclass(frozen=True)
class GemvRowFigures(Figures):
    """The thresholds and factors of the kernels on a GPU that go along rows.

    Attributes:
        long_loads: Loads of each work-item from which on a row is long enough for a work-group.
        by_lanes: The time of a long row by lanes of a sub-group, relative to that by a group.
        short_by_group: The factor of the time of a row that is too short for a group.
        shared_steps: Steps of a row, at most, for which lanes share interleaved vectors.
    """

    long_loads: int
    by_lanes: float
    short_by_group: float
    shared_steps: int


@dataclass(frozen=True)
class GemvCpuFigures(Figures):
    """The thresholds of the kernels on a CPU.

    Attributes:
        short_row: Rows of more bytes than this, within a page, are read one after the other: side
            by side, the hardware recognises no stream to prefetch.
        parts: Parts of a block at most, because one thread adds them.
        written_out: Vectors of a row, at most, that the kernel writes out instead of a loop.
    """

    short_row: int
    parts: int
    written_out: int


def _row_figures(target: Target) -> GemvRowFigures:
    return GemvRowFigures.of("gemv rows", target)


@dataclass(frozen=True)
class GemvKernel:
    """A kernel for one product, and the partition of its work.

    Attributes:
        template: The name of the template; the kernel function is ``gemv_`` and this name.
        context: What the template is rendered with.
        group_size: Work-items of a group.
        blocks: Blocks of outputs.
        parts: Work-groups that share a block, each with a part of the summed axis.
        part_size: Summed elements of a part.
        block_size: Outputs of a block.
        partial_bytes: Workspace for the sums of parts (0 without several parts).
        row: The policy from which the numbers follow, and its origin.
        why: A sentence.
        slowdown: Its time over that of moving each operand once, estimated.
        loads: How many times a work-item waits for elements of A, estimated; 0 on a CPU.
        folds: The weight of adding the work-items' sums, fitted to measurements; 0 on a CPU.
    """

    template: str
    context: Mapping[str, Any]
    group_size: int
    blocks: int
    parts: int
    part_size: int
    block_size: int
    partial_bytes: int
    row: PolicyRow[Any]
    why: str
    slowdown: float
    loads: int = 0
    folds: int = 0

    @property
    def by_rows(self) -> bool:
        """Whether work-items go along the summed axis, and not along the outputs."""
        return self.template in ("dot_rows", "long_rows", "cpu_rows")

    def specialization(self, target: Target) -> Specialization:
        """The text and options of the kernel."""
        kernels = {f"gemv_{self.template}": self._parameters(target)}
        return specialize(f"gemv/{self.template}", target, kernels, **self.context)

    def _parameters(self, target: Target) -> list[Parameter]:
        """The kernel's parameters: a, x and y, scalars, the epilogue's arrays, the partition."""
        context = self.context
        elem, finish, split = context["elem"], context["finish"], context["split"]
        ctype, value = f"{elem.name}_t", vector(context["real"], elem.components)
        result = [
            *operand(ctype, "a", "a_out", "a_sum"),
            *operand(ctype, "x", "x_step"),
            *operand(ctype, "y", "y_step", writes=True),
            *scalars("long", "m", "n"), *scalars(f"const {value}", "alpha", "beta"),
            *scalars("int", "reads_y"), *(stored_operands(finish.extras) if finish else ()),
        ]  # fmt: skip
        if context["Q"] > 1:
            result += scalars("long", "x_pitch", "y_pitch")
        if context["Q"] > 2 or context.get("shared"):
            result += scalars("int", "vectors")
        if split:
            result += [*scalars("uint", "parts"), *scalars("long", "part_size")]
            result += [buffer("uint", "partial", writes=True, restrict=False)]
            result += [buffer("uint", "counters", writes=True, shared=True, restrict=False)]
        return result + scalars("long", "block_size") * target.is_cpu


def kernels(problem: GemvProblem, target: Target, table: TuningTable) -> list[GemvKernel]:
    """Return every kernel of a product that is not empty; the problem runs forwards."""
    p = problem
    kind = "eight" if p.padded_vectors == 8 else "any"  # vectors, whose sums take the registers
    rows = table.choose("gemv_rows", RowPolicy, target, p.elem)
    columns = table.choose("gemv_columns", ColumnPolicy, target, p.elem, kind)
    if target.is_cpu:
        result = [_cpu_rows(p, target, rows), _cpu_columns(p, target, columns)]
    else:
        result = [_dot_rows(p, target, rows), _columns(p, target, columns)]
        result += _long_rows(p, target, rows)
    return result


def _slowdown(p: GemvProblem, *, by_rows: bool) -> float:
    """Return the factor of the time of a kernel that reads A along the summed axis, or across it.

    It is that of the strides of A along that axis.
    """
    if p.m == 1 or p.n == 1:  # the stride of an axis of one element says nothing
        return 1.0 if by_rows == p.by_rows else MOST_WASTE
    return stride_waste(p.a_sum if by_rows else p.a_out)


def _long_rows(p: GemvProblem, target: Target, row: PolicyRow[RowPolicy]) -> Iterator[GemvKernel]:
    """A whole work-group on each of few, long rows."""
    policy, units, unit = row.policy, target.compute_units, p.a_sum == 1
    V, most = _row_vectors(p, policy, target)
    R = min(most, 2, p.m) if p.m < 2 * units else 1
    size = _fitting(policy.long_group_size, R, p, target)
    if p.n < size * V:
        return
    blocks = _ceil(p.m, R)
    enough = min(_ceil(policy.groups_per_unit * units, blocks), p.n // (2 * size * V))
    parts, part_size = _parts(p.n, enough, size * V)
    acc = _row_sums(p, R)
    context = {
        **_context(p, V, R, unit, parts > 1), "G": size, "S": target.subgroup_size,
        "x_vector": _x_vector(p, V), "x_together": _together(p), "acc": acc,
    }  # fmt: skip
    nbytes = blocks * parts * acc.bytes if parts > 1 else 0
    slowdown = 1.0 if _are_long(p, policy, V, target) else _row_figures(target).short_by_group
    yield GemvKernel(
        "long_rows", context, size, blocks, parts, part_size, R, nbytes, row,
        f"rows of {p.n} are long: a work-group of {size} on {R} row(s), in {parts} part(s)",
        slowdown * _slowdown(p, by_rows=True),
        _ceil(part_size, size * V), 5 * R * p.padded_vectors,
    )  # fmt: skip


def _are_long(p: GemvProblem, policy: RowPolicy, V: int, target: Target) -> bool:
    """Whether rows are long enough for a work-group each."""
    return p.n >= _row_figures(target).long_loads * policy.long_group_size * V


def _row_vectors(p: GemvProblem, policy: RowPolicy, target: Target) -> tuple[int, int]:
    """Elements of a load, and the most rows of a work-item."""
    along = p.a_sum == 1 and not _is_interleaved(p)
    V = _aligned_vector(p, policy.vector, p.n, p.a_out, p.m) if along else 1
    return _fit_vectors(p, V, policy.rows, target)


def _dot_rows(p: GemvProblem, target: Target, row: PolicyRow[RowPolicy]) -> GemvKernel:
    """Lanes of a sub-group on each row."""
    if _are_shared(p, target, row.policy):
        return _shared_rows(p, target, row)
    policy, units, unit = row.policy, target.compute_units, p.a_sum == 1
    V, R = _row_vectors(p, policy, target)
    slowdown = _row_figures(target).by_lanes if _are_long(p, policy, V, target) else 1.0
    few = max(1, policy.lanes // 4)
    lanes = few if p.n <= few * V else policy.lanes
    size = _fitting(policy.group_size, R, p, target)
    if _ceil(p.m, size // lanes * R) < 2 * units:
        R = 1
    context = {
        **_context(p, V, R, unit, False), "G": size, "L": lanes, "x_vector": _x_vector(p, V),
        "x_together": _together(p), "acc": _row_sums(p, R), "shared": False,
        "stagger": stagger(
            target, p.a_out * p.elem.itemsize, lanes * V * p.elem.itemsize, p.n // (lanes * V)
        ) if unit else None,
    }  # fmt: skip
    block = size // lanes * R
    return GemvKernel(
        "dot_rows", context, size, _ceil(p.m, block), 1, p.n, block, 0, row,
        f"A lies along the summed axis: {lanes} lanes a row, {R} row(s) each, "
        f"loads of {V} element(s)", slowdown * _slowdown(p, by_rows=True),
        _ceil(p.n, lanes * V), R * p.padded_vectors,
    )  # fmt: skip


def _shared_rows(p: GemvProblem, target: Target, row: PolicyRow[RowPolicy]) -> GemvKernel:
    """Lanes on each row that have a pair of its vectors each: a load of x is then one piece.

    A lane with all of them would take them out of a line of memory of its own.
    """
    policy, two = row.policy, replace(p, vectors=2)
    pairs, lanes = p.vectors // 2, max(1, policy.lanes // 4)
    _, R = _fit_vectors(two, 1, policy.rows, target)
    size = _fitting(policy.group_size, R, two, target)
    if _ceil(pairs * p.m, size // lanes * R) < 2 * target.compute_units:
        R = 1
    context = {
        **_context(two, 1, R, p.a_sum == 1, False), "G": size, "L": lanes, "x_vector": False,
        "x_together": 2, "acc": _row_sums(two, R), "shared": True, "stagger": None,
    }  # fmt: skip
    blocks = _ceil(pairs * _ceil(p.m, R), size // lanes)
    return GemvKernel(
        "dot_rows", context, size, blocks, 1, p.n, size // lanes * R // pairs, 0, row,
        f"A lies along the summed axis: {lanes} lanes a row and two vectors, {R} row(s) each",
        _slowdown(p, by_rows=True), _ceil(p.n, 4 * lanes), 2 * R,
    )  # fmt: skip


def _fit_vectors(p: GemvProblem, V: int, rows: int, target: Target) -> tuple[int, int]:
    """The most elements of a load and rows of a work-item with which two waves fit a SIMD.

    The compiler unrolls: it takes twice the registers of the sums and of what is loaded, and for
    integers those of a word of elements at least.
    """
    c, room = p.elem.components, 3 * target.resident_registers // 8
    unrolled = 1 if p.elem.floating else max(1, 4 // p.elem.itemsize)

    def registers(V: int, rows: int) -> int:
        return real_bytes(p.elem) // 4 * V * c * ((rows + 1) * p.padded_vectors * c + rows)

    while p.vectors > 1 and V > 1 and registers(V, 1) > room:
        V //= 2
    while p.vectors > 1 and rows > 1 and registers(max(V, unrolled), rows) > room:
        rows //= 2
    return V, rows


def _fitting(size: int, rows: int, p: GemvProblem, target: Target) -> int:
    """Work-items of a group whose sums fit into half the local memory."""
    sums = rows * p.padded_vectors * p.elem.components * real_bytes(p.elem)
    while size > target.subgroup_size and 2 * size * sums > target.local_mem_size:
        size //= 2
    return size


def _columns(p: GemvProblem, target: Target, row: PolicyRow[ColumnPolicy]) -> GemvKernel:
    """Work-items own adjacent outputs and walk along the summed axis.

    Several vectors and 16-bit floats want shorter loads, narrower blocks and fewer parts, for each
    part is added by one group at the end (docs/experiments/gemm_skinny.md).
    """
    policy = row.policy
    unit = p.a_out == 1
    several = 2 if p.vectors > 2 else 1
    max_vector = (
        max(1, policy.vector // 2) if p.elem.itemsize < 4 or p.vectors > 2 else policy.vector
    )
    V = _aligned_vector(p, max_vector, p.m, p.a_sum, p.n) if unit else 1
    while p.m % V:
        V //= 2
    size = policy.group_size
    words = real_bytes(p.elem) // 4 * p.elem.components
    U = max(1, min(policy.rows, 16 // (p.padded_vectors * max(1, words // 2))))
    lanes = min(max(1, policy.lanes // several), ceil_power_of_two(_ceil(p.m, V)))
    if p.n < size // lanes:  # few summed elements: more work-items along the outputs
        lanes = min(size, size // ceil_power_of_two(p.n))
    deep = size // lanes
    blocks = _ceil(p.m, lanes * V)
    enough = _ceil(policy.groups_per_unit // several * target.compute_units, blocks)
    min_size = deep * U * 2
    parts, part_size = _parts(p.n, min(enough, p.n // min_size), 1)
    context = {
        **_context(p, V, U, unit, parts > 1), "G": size, "W": lanes, "U": U,
    }  # fmt: skip
    nbytes = (
        parts * p.padded_vectors * p.m * p.elem.components * real_bytes(p.elem) if parts > 1 else 0
    )
    return GemvKernel(
        "axpy_columns", context, size, blocks, parts, part_size, lanes * V, nbytes, row,
        f"A lies along the outputs: {lanes} work-items side by side own {V} output(s) each, "
        f"{deep} share an output, in {parts} part(s)", _slowdown(p, by_rows=False),
        2 * _ceil(part_size, deep * U), (deep.bit_length() - 1) * p.padded_vectors,
    )  # fmt: skip


def _cpu_rows(p: GemvProblem, target: Target, row: PolicyRow[RowPolicy]) -> GemvKernel:
    """Rows in the order of memory; short and long ones side by side, to share the loads of x."""
    policy, figures = row.policy, GemvCpuFigures.of("gemv on CPUs", target)
    unit = p.a_sum == 1
    V, R = policy.vector if unit else 1, policy.rows
    target_groups = _groups(p, target, policy)
    block = _ceil(_ceil(p.m, min(target_groups, _ceil(p.m, R))), R) * R
    blocks = _ceil(p.m, block)
    enough = min(target_groups // blocks, p.n // (64 * V)) if 2 * blocks <= target_groups else 1
    parts, part_size = _parts(p.n, enough, V)
    nbytes = p.n * p.elem.itemsize
    is_near = p.m * nbytes <= L2_BYTES
    whole = p.n // V if unit and p.n % V == 0 and p.n // V <= figures.written_out else 0
    side_by_side = not whole and (
        not unit or is_near or not figures.short_row < nbytes <= PAGE_BYTES
    )
    context = {
        **_context(p, V, R, unit, parts > 1), "U": policy.unroll, "side_by_side": side_by_side,
        "tail": "none" if V == 1 or whole else "across" if p.n < V else "inside",
        "whole": whole,
        "x_unit": p.x_step == 1, "y_unit": p.y_step == 1,
    }  # fmt: skip
    nbytes = parts * p.m * p.elem.components * real_bytes(p.elem) if parts > 1 else 0
    order = "side by side" if side_by_side else "one after the other"
    return GemvKernel(
        "cpu_rows", context, 1, blocks, parts, part_size, block, nbytes, row,
        f"a CPU, and A lies along the summed axis: {R} row(s) {order}, vectors of {V}, "
        f"{blocks} block(s) of rows in {parts} part(s)", _slowdown(p, by_rows=True),
    )  # fmt: skip


def _cpu_columns(p: GemvProblem, target: Target, row: PolicyRow[ColumnPolicy]) -> GemvKernel:
    """Blocks of outputs as wide as L1 holds their sums, for A is best read in long pieces."""
    policy = row.policy
    unit = p.a_out == 1
    V, U, R = (policy.vector, policy.unroll, policy.rows) if unit else (1, 1, policy.rows)
    if unit and p.m > U * V and p.m * p.elem.itemsize <= PAGE_BYTES:
        R, U = 1, 4 * U
    max_block = policy.block_bytes // (p.elem.components * real_bytes(p.elem))
    target_groups = _groups(p, target, policy)
    # A block of a row should be long enough for the hardware's prefetch: 2 KiB.
    short = max(V * U, 2048 // p.elem.itemsize)
    blocks = max(
        _ceil(p.m, max_block),
        min(
            _ceil(target_groups, GemvCpuFigures.of("gemv on CPUs", target).parts), _ceil(p.m, short)
        ),
    )
    block = min(max_block, _ceil(_ceil(p.m, blocks), V) * V)
    blocks = _ceil(p.m, block)
    enough = min(target_groups // blocks, p.n // (8 * R)) if 2 * blocks <= target_groups else 1
    parts, part_size = _parts(p.n, enough, R)
    context = {
        **_context(p, V, R, unit, True), "U": U, "B": max_block,
        "widths": [V >> k for k in range(V.bit_length())], "y_unit": p.y_step == 1,
    }  # fmt: skip
    nbytes = parts * p.m * p.elem.components * real_bytes(p.elem) if parts > 1 else 0
    return GemvKernel(
        "cpu_columns", context, 1, blocks, parts, part_size, block, nbytes, row,
        f"a CPU, and A lies along the outputs: {R} row(s) of A at a time, {U} vector(s) of {V}, "
        f"{blocks} block(s) of outputs in {parts} part(s)", _slowdown(p, by_rows=False),
    )  # fmt: skip


def _context(p: GemvProblem, V: int, R: int, unit: bool, split: bool) -> dict[str, Any]:
    components = p.elem.components
    return {
        "elem": p.elem, "real": p.real, "P": components, "C": V * components,
        "T": vector(p.real, V * components), "E": vector(p.real, components),
        "V": V, "R": R, "Q": p.padded_vectors, "conj": p.conj, "unit": unit, "split": split,
        "finish": p.finish,
        "mask": "long" if p.real in ("double", "ulong") else "int",
    }  # fmt: skip


def _row_sums(p: GemvProblem, rows: int) -> Accumulator:
    """The sums of several rows and vectors as one accumulator: they cross lanes together."""
    sums = [f"{k}_{q}" for k in range(rows) for q in range(p.padded_vectors)]
    names = [f"{part}{at}" for at in sums for part in ("re", "im")[: p.elem.components]]
    text = " ".join(f"a.{name} += b.{name};" for name in names)
    fields = tuple(Field(name, p.real, "0") for name in names)
    return Accumulator("acc_t", fields, lambda width: text)


def _aligned_vector(p: GemvProblem, most: int, length: int, pitch: int, pitches: int) -> int:
    """Elements of a load that every row (``pitch`` elements apart) is aligned for: ``most``, or 1.

    Widths between them would be programs of their own, which gain little.  Pairs do gain where A
    is all that is loaded, or its elements are of 16 bits.
    """
    for V in (most, 2) if p.vectors == 1 or p.elem.itemsize == 2 else (most,):
        aligned = p.a_aligned % (V * p.elem.itemsize) == 0 and (pitch % V == 0 or pitches <= 1)
        if min(most, length) >= V and aligned:
            return V
    return 1


def _x_vector(p: GemvProblem, V: int) -> bool:
    aligned = p.x_aligned % (V * p.elem.itemsize) == 0 and (p.vectors == 1 or p.x_pitch % V == 0)
    return V > 1 and p.x_step == 1 and aligned


def _is_interleaved(p: GemvProblem) -> bool:
    """Return whether the elements of several vectors at one place of k are adjacent in memory.

    Lanes then take one element of A each, so that together they read a whole piece of x.
    """
    return p.vectors > 2 and p.x_pitch == 1 and abs(p.x_step) != 1


def _are_shared(p: GemvProblem, target: Target, policy: RowPolicy) -> bool:
    """Return whether lanes share interleaved vectors: two of 64 bits are a load of 16 bytes.

    Few lanes have a row then, so rows have to be many and short.
    """
    pairs = p.vectors % 2 == p.x_step % 2 == p.x_aligned % 16 == 0
    if not (_is_interleaved(p) and p.elem.itemsize == 8 and not p.elem.complex and pairs):
        return False
    lanes = max(1, policy.lanes // 4)
    groups = p.m * p.vectors // 2 // max(1, policy.group_size // lanes)
    shared = p.n <= _row_figures(target).shared_steps * lanes
    return shared and groups >= 2 * target.compute_units


def _together(p: GemvProblem) -> int:
    """Return how many adjacent vectors' elements one aligned load of x reads.

    It is one where the kernel holds more vectors than there are: it would read past the last one.
    """
    if not _is_interleaved(p) or p.vectors < p.padded_vectors:
        return 1
    width = min(p.padded_vectors, 16 // p.elem.itemsize, 4)
    while width > 1 and (p.x_step % width or p.x_aligned % (width * p.elem.itemsize)):
        width //= 2
    return width


def _groups(p: GemvProblem, target: Target, policy: RowPolicy | ColumnPolicy) -> int:
    """How many work-groups a CPU wants: one for a thread alone, else enough to even threads out."""
    if target.compute_units == 1:
        return 1
    max_groups = policy.groups_per_unit * target.compute_units
    return max(1, min(max_groups, p.m * p.n * p.elem.itemsize // policy.grain))


def _parts(n: int, count: int, multiple: int) -> tuple[int, int]:
    """About ``count`` parts of n elements, each but the last a multiple of ``multiple``."""
    count = max(1, min(count, _MOST_PARTS))
    size = _ceil(_ceil(n, count), multiple) * multiple
    return (_ceil(n, size), size) if count > 1 else (1, n)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
