"""Forms of the packed product: its orientation, its partition, and which operands are packed.

``core`` is the product that is computed: the problem, or its transpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L1_BYTES, L2_BYTES, LINE_BYTES, PAGE_BYTES
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped, stride_waste
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import PolicyRow, TuningTable

#: Multiply-adds of a product of the shape class ``tiny``.
TINY = 1_500_000
#: Sides of a product that differ by this factor make it deep, tall or wide.
OBLONG = 4
#: Rows of A that a tile of any product reads in place, and bytes of a row of which a tile of a slab
#: reads more (:attr:`Target.rows_in_place`).
_FEW_ROWS = 6
_LONG_ROW = 8 * LINE_BYTES


@dataclass(frozen=True)
class PackedFigures(Figures):
    """The thresholds of the rules for packed products.

    Attributes:
        slab_uses, whole_uses: An operand that is used by at most this number of tiles is read in
            place.  ``slab_uses`` applies to slabs, where packing is a pass over memory;
            ``whole_uses`` applies if one work-item computes whole products, where packing is a pass
            over the cache.
        long_k: From this number of steps of k on, the choice between the product and its transpose
            follows from the packed operand, not from the stores of C.
        lone_flop: Up to this many flop for each compute unit, operands are read in place if they
            can be, because packing takes a launch.
        strip_flop, strip_steps: Up to this many flop of float32 for each compute unit, and from
            this many steps of k on, each work-item packs the columns that it multiplies, because a
            launch that packs costs more.
        strips: Strips for each compute unit, which divide the work evenly.
        serial_flop: Up to this many flop, a second thread takes longer to wake than it saves.
    """

    slab_uses: int
    whole_uses: int
    long_k: int
    lone_flop: int
    strip_flop: int
    strip_steps: int
    strips: int
    serial_flop: int


def packed_figures(target: Target) -> PackedFigures:
    """The thresholds of a target."""
    return PackedFigures.of("gemm packed", target)


def shape_class(problem: GemmProblem) -> str:
    """The shape class of the tuning table: batched, tiny, deep, tall, wide or square."""
    m, n, k = problem.m, problem.n, problem.k
    if problem.batch_size > 1:
        return "batched"
    if m * n * k <= TINY:
        return "tiny"
    if k >= OBLONG * max(m, n):
        return "deep"
    if m >= OBLONG * n:
        return "tall"
    return "wide" if n >= OBLONG * m else "square"


@dataclass(frozen=True)
class PackedForm:
    """A form of the packed product.

    Attributes:
        policy: The policy, fitted to the extents of the computed product.
        transposed: Whether ``C^T = B^T A^T`` is computed.
        whole: Whether a work-item computes whole products, or strips of them.
        a_packed, b_packed: Whether the operand is packed first; otherwise tiles read it in place.
        strip: The number of panels of columns of a work-item's strip; 0: the whole product.
        origin, evidence: The source of the policy, and the measurements behind it.
    """

    policy: PackedPolicy
    transposed: bool
    whole: bool
    a_packed: bool
    b_packed: bool
    strip: int = 0
    origin: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def launches(self) -> int:
        """The number of kernels of a slab: one for packing, if needed, and one for tiles."""
        return 1 if self.whole or not (self.a_packed or self.b_packed) else 2

    @property
    def name(self) -> str:
        """``packed, transposed, B in place``."""
        parts = ["strips" if self.strip else "whole" if self.whole else "packed"]
        parts += ["transposed"] if self.transposed else []
        parts += [] if self.a_packed else ["A in place"]
        parts += [] if self.b_packed else ["B in place"]
        return ", ".join(parts)


def preferred_form(problem: GemmProblem, target: Target, table: TuningTable) -> PackedForm:
    """Return the form that the rules prefer, by the policy, the extents and the strides."""
    row = row_of(problem, target, table)
    transposed = prefers_transpose(problem, row.policy, target)
    core = problem.transpose() if transposed else problem
    policy = row.policy.fit(core.m, core.n, core.k, core.compute)
    whole = takes_whole(core, policy, target)
    a_packed, b_packed = _packs(core, policy, whole, target)
    strip = 0 if whole else _strip(core, policy, target, b_packed)
    if strip:
        whole, a_packed, b_packed = True, False, True
    return PackedForm(
        policy=policy, transposed=transposed, whole=whole, a_packed=a_packed, b_packed=b_packed,
        strip=strip, origin=row.origin, evidence=row.evidence,
    )  # fmt: skip


def packed_forms(problem: GemmProblem, target: Target, table: TuningTable) -> Iterator[PackedForm]:
    """Yield every form that the kernels have for the policy of the table."""
    row = row_of(problem, target, table)
    for transposed in (False, True):
        core = problem.transpose() if transposed else problem
        policy = row.policy.fit(core.m, core.n, core.k, core.compute)
        fits = whole_bytes(core, policy) <= L2_BYTES
        a_options = (True, False) if in_place(core.a, core.compute) else (True,)
        b_options = (True, False) if _reads_b_in_place(core, policy) else (True,)
        for whole, a_packed, b_packed in product(
            (False, True) if fits else (False,), a_options, b_options
        ):
            yield PackedForm(
                policy=policy, transposed=transposed, whole=whole, a_packed=a_packed,
                b_packed=b_packed, strip=0, origin=row.origin, evidence=row.evidence,
            )  # fmt: skip
        strip = strip_of(core, policy, target)
        if _fits_strips(core, policy, strip):
            yield PackedForm(
                policy=policy, transposed=transposed, whole=True, a_packed=False, b_packed=True,
                strip=strip, origin=row.origin, evidence=row.evidence,
            )  # fmt: skip


def in_core(name: str, form: PackedForm) -> str:
    """Return the operand ``"a"`` or ``"b"`` of the computed product that one of the problem is."""
    return "ba"["ab".index(name)] if form.transposed else name


def packed_seconds(problem: GemmProblem, target: Target) -> float:
    """Return the estimated seconds of the preferred form."""
    costs = DeviceCosts.of("device", target)
    p, units = problem, target.compute_units
    products = p.batch_size * p.area * p.k * multiply_adds(p.compute)
    waste = max(stride_waste(min(abs(item.row), abs(item.col))) for item in (p.a, p.b))
    computing = products / (costs.multiply_adds * units)
    return overlapped(computing, waste * p.moving(costs, units))


def row_of(problem: GemmProblem, target: Target, table: TuningTable) -> PolicyRow[PackedPolicy]:
    """Return the policy of the table, before it is fitted to the extents."""
    return table.choose("gemm_packed", PackedPolicy, target, problem.compute, shape_class(problem))


def _packs(
    core: GemmProblem, policy: PackedPolicy, whole: bool, target: Target
) -> tuple[bool, bool]:
    """Return whether A and B are packed: packing saves time if enough tiles use them."""
    figures, units = packed_figures(target), target.compute_units
    a_fits, b_fits = in_place(core.a, core.compute), _reads_b_in_place(core, policy)
    is_lone = not whole and core.flop <= figures.lone_flop * units
    if a_fits and b_fits and is_lone:
        return False, False
    uses = figures.whole_uses if whole else figures.slab_uses
    tiles_of_a, tiles_of_b = -(-core.n // policy.item_n), -(-core.m // policy.item_m)
    if not whole:  # slabs pack an operand that all products share once
        tiles_of_a *= 1 if any(core.a.batch) else core.batch_size
        tiles_of_b *= 1 if any(core.b.batch) else core.batch_size
    if not whole and _reads_near_columns(core, policy, target):
        a_packed = False
    else:
        a_packed = tiles_of_a > uses and not _reads_rows(core, policy, whole, target)
        if not whole and not is_lone:
            a_packed = a_packed or _reads_far_columns(core, policy, tiles_of_a)
    return a_packed or not a_fits, tiles_of_b > uses or not b_fits


def _reads_near_columns(core: GemmProblem, policy: PackedPolicy, target: Target) -> bool:
    """Whether tiles of many rows read contiguous columns of A in place in slabs of deep products.

    They do if several columns share a page of memory, and if these are not in few sets of the
    cache.  One that all products of a batch share is packed once for all.
    """
    a, pitch = core.a, core.a.col * core.a.elem.itemsize
    is_near = 0 < pitch < PAGE_BYTES and pitch % (PAGE_BYTES // 2) != 0
    is_own = core.batch_size == 1 or any(a.batch)
    fits = _FEW_ROWS < policy.item_m <= target.rows_in_place
    is_deep = core.k >= OBLONG * max(core.m, core.n)
    return fits and is_deep and a.row == 1 and is_near and is_own


def _reads_far_columns(core: GemmProblem, policy: PackedPolicy, tiles: int) -> bool:
    """Whether the caches lose what a panel of A in place has, before it is read again.

    Each step of contiguous columns is in a line of its own.  The lines of a panel are read again by
    the next of several tiles, and the rest of each line by the next panel.  Columns whose distance
    is a multiple of half a page are in few sets of the cache.
    """
    a, pitch = core.a, core.a.col * core.a.elem.itemsize
    if a.row != 1 or a.col == 1 or core.m <= OBLONG * policy.item_m:
        return False
    in_few_sets = pitch % (PAGE_BYTES // 2) == 0
    available = L1_BYTES // 2 if in_few_sets else L2_BYTES // 16
    return (tiles > 1 or in_few_sets) and core.k * LINE_BYTES > available


def _reads_rows(core: GemmProblem, policy: PackedPolicy, whole: bool, target: Target) -> bool:
    """Whether A is read in place even if many tiles use it.

    It is if its rows are contiguous, and their distance does not put them all into one set of the
    cache.  A tile must have few rows of A, or the product is computed in slabs and the rows are
    long: short ones end before the processor prefetches them.
    """
    a, itemsize = core.a, core.a.elem.itemsize
    is_long = not whole and core.k * itemsize >= _LONG_ROW
    max_rows = target.rows_in_place if is_long else _FEW_ROWS
    pitch = a.row * itemsize
    return policy.item_m <= max_rows and a.col == 1 and pitch % (2 * PAGE_BYTES) != 0


def _reads_b_in_place(core: GemmProblem, policy: PackedPolicy) -> bool:
    """Whether tiles can read B in place: contiguous rows of at least a tile's columns."""
    b = core.b
    return in_place(b, core.compute) and b.col == 1 and core.n >= policy.item_n


def in_place(operand: Operand, compute: Element) -> bool:
    """Whether tiles can read the operand in place, because no conversion is needed."""
    return operand.elem == compute and not compute.complex and not compute.boolean


def whole_bytes(core: GemmProblem, policy: PackedPolicy) -> int:
    """Return the scratch bytes of a work-item that packs both operands of a whole product."""
    rows, cols = -(-core.m // policy.item_m), -(-core.n // policy.item_n)
    lanes = rows * policy.item_m + cols * policy.item_n
    return max(64, lanes * core.k * core.compute.itemsize)


def strip_of(core: GemmProblem, policy: PackedPolicy, target: Target) -> int:
    """Return the number of panels of a strip, for the configured strips of each compute unit."""
    figures, units = packed_figures(target), target.compute_units
    strips = max(1, figures.strips * units // core.batch_size)
    return max(1, -(-core.n // policy.item_n) // strips)


def _fits_strips(core: GemmProblem, policy: PackedPolicy, strip: int) -> bool:
    """Whether A can be read in place, and fits the cache together with a strip's columns of B."""
    nbytes = (core.m + strip * policy.item_n) * core.k * core.compute.itemsize
    return in_place(core.a, core.compute) and nbytes <= L2_BYTES


def _strip(core: GemmProblem, policy: PackedPolicy, target: Target, b_packed: bool) -> int:
    """Return the number of panels of a strip, or 0 if the product is not computed in strips.

    A tile must have few rows of A, and as for :func:`_reads_rows` their distance must not put them
    into one set of the cache.
    """
    figures, units = packed_figures(target), target.compute_units
    strip = strip_of(core, policy, target)
    pitch = max(abs(core.a.row), abs(core.a.col)) * core.a.elem.itemsize
    takes = (
        _fits_strips(core, policy, strip)
        and (b_packed or core.m > figures.whole_uses * policy.item_m)
        and core.k >= figures.strip_steps
        and core.flop * multiply_adds(core.compute) <= figures.strip_flop * units
        and core.batch_size * -(-core.n // policy.item_n) >= 2 * units
        and policy.item_m <= 8
        and pitch % (2 * PAGE_BYTES) != 0
    )
    return strip if takes else 0


def takes_whole(core: GemmProblem, policy: PackedPolicy, target: Target) -> bool:
    """Whether a work-item computes a whole product."""
    return whole_bytes(core, policy) <= L2_BYTES and is_item(core, target)


def is_small(problem: GemmProblem, target: Target) -> bool:
    """Whether a product with its batch is small enough for one work-item."""
    return problem.flop <= packed_figures(target).serial_flop


def is_item(problem: GemmProblem, target: Target) -> bool:
    """Whether one work-item should compute a product, if it fits the cache."""
    return is_small(problem, target) or problem.batch_size >= 4 * target.compute_units


def prefers_transpose(problem: GemmProblem, policy: PackedPolicy, target: Target) -> bool:
    """Whether ``C^T = B^T A^T`` is computed.

    It depends on an operand that is better read in place, if there is one; otherwise the rows of
    the computed product should be contiguous in C.
    """
    for item, transposed in ((problem, False), (problem.transpose(), True)):
        preference = _wide_b_prefers_transpose(item, policy, target)
        if preference is not None:
            return preference != transposed
    c = problem.c
    return c.col != 1 and (c.row == 1 or abs(c.row) < abs(c.col))


def _wide_b_prefers_transpose(p: GemmProblem, policy: PackedPolicy, target: Target) -> bool | None:
    """Whether the transpose is better for a wide B: one with more columns than A has rows.

    ``None`` if this does not decide.  If A has few rows, B is best read in place: as B if its rows
    are contiguous, otherwise as A of the transposed product, whose B has few columns and is packed
    fast.  A single work-item packs B and not A, so with a long k the narrower operand should be B.
    """
    figures = packed_figures(target)
    if p.m >= p.n or not in_place(p.b, p.compute):
        return None
    in_rows = _reads_b_in_place(p, policy.fit(p.m, p.n, p.k, p.compute))
    if in_rows:
        return False if p.m <= figures.slab_uses * policy.item_m < p.n else None
    few = p.b.row == 1 and p.m <= figures.slab_uses * policy.item_n < p.n
    return True if p.k >= figures.long_k and (few or is_item(p, target)) else None
