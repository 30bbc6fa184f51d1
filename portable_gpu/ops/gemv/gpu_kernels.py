"""The kernels of matrix-vector products on a GPU, for a problem and a policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from portable_gpu.codegen.operators import Accumulator, Field
from portable_gpu.ops.gemv.kernels import (
    GemvKernel,
    base_context,
    ceil_div,
    partition,
    slowdown_of,
)  # fmt: skip
from portable_gpu.ops.gemv.policy import ColumnPolicy, RowPolicy, real_bytes
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.stagger import stagger
from portable_gpu.powers_of_two import ceil_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import PolicyRow

#: Short rows that share the lanes of a long one at most.
_MOST_SHORT_ROWS = 8
#: The barriers of a sum in local memory, in values that are passed.
_FOLD_START = 5


@dataclass(frozen=True)
class GemvRowFigures(Figures):
    """The threshold of the kernels that read A along its rows.

    Attributes:
        shared_steps: The maximum of steps of a row for which lanes share interleaved vectors.
    """

    shared_steps: int


def _figures(target: Target) -> GemvRowFigures:
    return GemvRowFigures.of("gemv rows", target)


def long_rows(p: GemvProblem, target: Target, row: PolicyRow[RowPolicy]) -> Iterator[GemvKernel]:
    """Generate the kernel in which a work-group sums each row, if rows are long."""
    policy, units, unit = row.policy, target.compute_units, p.a_sum == 1
    V, max_rows = _row_vectors(p, policy, target)
    R = min(max_rows, 2, p.m) if p.m < 2 * units else 1
    size = _fitting_group(policy.long_group_size, R, p, target)
    if p.n < size * V:
        return
    blocks = ceil_div(p.m, R)
    enough = min(ceil_div(policy.groups_per_unit * units, blocks), p.n // (2 * size * V))
    parts, part_size = partition(p.n, enough, size * V)
    acc = _row_sums(p, R)
    context = {
        **base_context(p, V, R, unit, parts > 1), "G": size, "S": target.subgroup_size,
        "x_vector": _x_vector(p, V), "vectors_per_load": _vectors_of_a_load(p), "acc": acc,
    }  # fmt: skip
    nbytes = blocks * parts * acc.bytes if parts > 1 else 0
    yield GemvKernel(
        template="long_rows",
        context=context,
        group_size=size,
        blocks=blocks,
        parts=parts,
        part_size=part_size,
        block_size=R,
        partial_bytes=nbytes,
        row=row,
        why=f"rows of {p.n} are long: a work-group of {size} on {R} row(s), in {parts} part(s)",
        slowdown=slowdown_of(p, by_rows=True),
        load_waits=ceil_div(part_size, size * V),
        folded_values=5 * R * p.padded_vectors,
    )


def _row_vectors(p: GemvProblem, policy: RowPolicy, target: Target) -> tuple[int, int]:
    """Return the elements of a load, and the maximum of rows of a work-item."""
    along = p.a_sum == 1 and not _is_interleaved(p)
    V = _aligned_vector(p, policy.vector, p.n, p.a_out, p.m) if along else 1
    return _fit_vectors(p, V, policy.rows, target)


def dot_rows(p: GemvProblem, target: Target, row: PolicyRow[RowPolicy]) -> GemvKernel:
    """Return the kernel in which lanes of a sub-group sum each row."""
    if _are_shared(p, target, row.policy):
        return _shared_rows(p, target, row)
    policy, units, unit = row.policy, target.compute_units, p.a_sum == 1
    V, R = _row_vectors(p, policy, target)
    few = max(1, policy.lanes // _MOST_SHORT_ROWS)
    lanes = max(few, min(policy.lanes, ceil_power_of_two(ceil_div(p.n, V))))
    size = _fitting_group(policy.group_size, R, p, target)
    if ceil_div(p.m, size // lanes * R) < 2 * units:
        R = 1
    context = {
        **base_context(p, V, R, unit, False), "G": size, "L": lanes, "x_vector": _x_vector(p, V),
        "vectors_per_load": _vectors_of_a_load(p), "acc": _row_sums(p, R), "shared": False,
        "stagger": stagger(
            target, p.a_out * p.elem.itemsize, lanes * V * p.elem.itemsize, p.n // (lanes * V)
        ) if unit else None,
    }  # fmt: skip
    block = size // lanes * R
    return GemvKernel(
        template="dot_rows",
        context=context,
        group_size=size,
        blocks=ceil_div(p.m, block),
        parts=1,
        part_size=p.n,
        block_size=block,
        partial_bytes=0,
        row=row,
        why=(
            f"A lies along the summed axis: {lanes} lanes a row, {R} row(s) each, "
            f"loads of {V} element(s)"
        ),
        slowdown=slowdown_of(p, by_rows=True),
        load_waits=ceil_div(p.n, lanes * V),
        folded_values=R * p.padded_vectors,
    )


def _shared_rows(p: GemvProblem, target: Target, row: PolicyRow[RowPolicy]) -> GemvKernel:
    """Return the kernel in which each lane of a row has two of several interleaved vectors.

    The lanes together then read a contiguous piece of x.  If each lane had all vectors, each would
    read another line of memory.
    """
    policy, two = row.policy, replace(p, vectors=2)
    pairs, lanes = p.vectors // 2, max(1, policy.lanes // 4)
    _, R = _fit_vectors(two, 1, policy.rows, target)
    size = _fitting_group(policy.group_size, R, two, target)
    if ceil_div(pairs * p.m, size // lanes * R) < 2 * target.compute_units:
        R = 1
    context = {
        **base_context(two, 1, R, p.a_sum == 1, False), "G": size, "L": lanes, "x_vector": False,
        "vectors_per_load": 2, "acc": _row_sums(two, R), "shared": True, "stagger": None,
    }  # fmt: skip
    blocks = ceil_div(pairs * ceil_div(p.m, R), size // lanes)
    return GemvKernel(
        template="dot_rows",
        context=context,
        group_size=size,
        blocks=blocks,
        parts=1,
        part_size=p.n,
        block_size=size // lanes * R // pairs,
        partial_bytes=0,
        row=row,
        why=f"A lies along the summed axis: {lanes} lanes a row and two vectors, {R} row(s) each",
        slowdown=slowdown_of(p, by_rows=True),
        load_waits=ceil_div(p.n, 4 * lanes),
        folded_values=2 * R,
    )


def _fit_vectors(p: GemvProblem, V: int, rows: int, target: Target) -> tuple[int, int]:
    """Return the largest load and number of rows for which a SIMD has registers for two waves.

    The compiler unrolls loops, so a kernel takes twice the registers of its sums and loads.  For
    integers it loads at least a word of elements.
    """
    c, available = p.elem.components, 3 * target.resident_registers // 8
    unrolled = 1 if p.elem.floating else max(1, 4 // p.elem.itemsize)

    def registers(V: int, rows: int) -> int:
        return real_bytes(p.elem) // 4 * V * c * ((rows + 1) * p.padded_vectors * c + rows)

    while p.vectors > 1 and V > 1 and registers(V, 1) > available:
        V //= 2
    while p.vectors > 1 and rows > 1 and registers(max(V, unrolled), rows) > available:
        rows //= 2
    return V, rows


def _fitting_group(size: int, rows: int, p: GemvProblem, target: Target) -> int:
    """Return the largest group size, up to ``size``, whose sums fit into half the local memory."""
    sums = rows * p.padded_vectors * p.elem.components * real_bytes(p.elem)
    while size > target.subgroup_size and 2 * size * sums > target.local_mem_size:
        size //= 2
    return size


def axpy_columns(p: GemvProblem, target: Target, row: PolicyRow[ColumnPolicy]) -> GemvKernel:
    """Return the kernel in which adjacent work-items compute adjacent outputs.

    With several vectors and 16-bit floats, shorter loads, narrower blocks and fewer parts are
    faster, because one group adds all parts at the end (docs/experiments/gemm_skinny.md).
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
    lanes = min(max(1, policy.lanes // several), ceil_power_of_two(ceil_div(p.m, V)))
    if p.n < size // lanes:  # few summed elements: more work-items along the outputs
        lanes = min(size, size // ceil_power_of_two(p.n))
    deep = size // lanes
    blocks = ceil_div(p.m, lanes * V)
    enough = ceil_div(policy.groups_per_unit // several * target.compute_units, blocks)
    min_size = deep * U * 2
    parts, part_size = partition(p.n, min(enough, p.n // min_size), 1)
    context = {
        **base_context(p, V, U, unit, parts > 1), "G": size, "W": lanes, "U": U,
        "vectors_at_once": _vectors_at_once(
            p, size * V * p.elem.components * real_bytes(p.elem), target
        ),
    }  # fmt: skip
    nbytes = (
        parts * p.padded_vectors * p.m * p.elem.components * real_bytes(p.elem) if parts > 1 else 0
    )
    return GemvKernel(
        template="axpy_columns",
        context=context,
        group_size=size,
        blocks=blocks,
        parts=parts,
        part_size=part_size,
        block_size=lanes * V,
        partial_bytes=nbytes,
        row=row,
        why=(
            f"A lies along the outputs: {lanes} work-items side by side own {V} output(s) each, "
            f"{deep} share an output, in {parts} part(s)"
        ),
        slowdown=slowdown_of(p, by_rows=False),
        load_waits=2 * ceil_div(part_size, deep * U),
        folded_values=deep // 8 + _FOLD_START,
    )


def _vectors_at_once(p: GemvProblem, nbytes: int, target: Target) -> int:
    """Return the number of vectors whose sums, of ``nbytes`` each, a group adds at the same time.

    They take a quarter of the local memory of a group at most, so that several groups are resident.
    """
    count = p.padded_vectors
    while count > 1 and 4 * count * nbytes > target.static_local_mem:
        count //= 2
    return count


def _row_sums(p: GemvProblem, rows: int) -> Accumulator:
    """Return the sums of several rows and vectors as one accumulator, which lanes exchange."""
    sums = [f"{k}_{q}" for k in range(rows) for q in range(p.padded_vectors)]
    names = [f"{part}{at}" for at in sums for part in ("re", "im")[: p.elem.components]]
    text = " ".join(f"a.{name} += b.{name};" for name in names)
    fields = tuple(Field(name, p.real, "0") for name in names)
    return Accumulator("acc_t", fields, lambda width: text)


def _aligned_vector(p: GemvProblem, most: int, length: int, pitch: int, pitches: int) -> int:
    """Return the elements of a load for which every row is aligned: ``most``, 2 or 1.

    Rows are ``pitch`` elements apart.  Other widths would need further programs and gain little.
    2 is possible only for one vector or elements of 16 bits, where it is faster than 1.
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
    """Return whether the vectors are interleaved: their elements for one k are adjacent in memory.

    Each lane then has one element of A, so that the lanes together read a contiguous piece of x.
    """
    return p.vectors > 2 and p.x_pitch == 1 and abs(p.x_step) != 1


def _are_shared(p: GemvProblem, target: Target, policy: RowPolicy) -> bool:
    """Return whether the lanes of a row share interleaved vectors of 64-bit elements.

    One load reads the elements of two vectors.  A row has few lanes, so rows must be many and
    short.
    """
    pairs = p.vectors % 2 == p.x_step % 2 == p.x_aligned % 16 == 0
    if not (_is_interleaved(p) and p.elem.itemsize == 8 and not p.elem.complex and pairs):
        return False
    lanes = max(1, policy.lanes // 4)
    groups = p.m * p.vectors // 2 // max(1, policy.group_size // lanes)
    shared = p.n <= _figures(target).shared_steps * lanes
    return shared and groups >= 2 * target.compute_units


def _vectors_of_a_load(p: GemvProblem) -> int:
    """Return the number of adjacent vectors of which one aligned load of x reads an element.

    It is 1 if the kernel is rendered for more vectors than x has; a load would exceed the last one.
    """
    if not _is_interleaved(p) or p.vectors < p.padded_vectors:
        return 1
    width = min(p.padded_vectors, 16 // p.elem.itemsize, 4)
    while width > 1 and (p.x_step % width or p.x_aligned % (width * p.elem.itemsize)):
        width //= 2
    return width
