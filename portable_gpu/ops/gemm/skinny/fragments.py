"""Products of 16-bit floats with few rows or columns, by matrix instructions of warps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from portable_gpu.codegen.epilogue import Finish, stored_operands
from portable_gpu.codegen.parameters import buffer, operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.operands import as_given, extras, strides
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemv.plan import SCALARS, kernel_scalars
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.policy import Range, TunedPolicy
from portable_gpu.tuning.table import PolicyRow, TuningTable

#: The most rows, or columns, of C.
MOST_VECTORS = 16
_WIDE = 8  # elements of a load


@dataclass(frozen=True)
class SkinnyPolicy(TunedPolicy):
    """The partition of a product in ``cl_kernels/gemm/skinny.cl.mako``.

    Attributes:
        warps: Warps of a group, which take turns along k.
        unroll: Steps of k that a warp has in flight.
        blocks: Blocks of 16 rows of a warp at most.
        groups_per_unit: The least number of work-groups for each compute unit.
    """

    warps: Annotated[int, Range(1, 32)]
    unroll: Annotated[int, Range(1, 8)]
    blocks: Annotated[int, Range(1, 4)]
    groups_per_unit: Annotated[int, Range(1, 1024)]

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return 32 * self.warps

    @classmethod
    def default(cls, target: Target, elem: Element) -> SkinnyPolicy:
        """The policy of many rows that k runs across."""
        return cls.for_shape_class("across")

    @classmethod
    def for_shape_class(cls, shape_class: str) -> SkinnyPolicy:
        """The default of one of :data:`SKINNY_CLASSES`."""
        return cls(*SKINNY_CLASSES[shape_class])

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """How much is in flight, and where."""
        return {
            "warps": (4, 8, 16),
            "unroll": (1, 2, 4),
            "blocks": (1, 2, 4),
            "groups_per_unit": (1, 2, 4),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`TunedPolicy.edges`."""
        return 16 * self.blocks, MOST_VECTORS, 32 * self.unroll

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        sums = 4 * self.warps * MOST_VECTORS * 16 * self.blocks
        return {
            "blocks is 1, 2 or 4": self.blocks in (1, 2, 4),
            "the group is within the device's limit": self.group_size <= target.max_work_group_size,
            "local memory holds the sums": sums <= target.static_local_mem,
        }


#: The kinds of product that have policies of their own: how k runs through A's lines, and whether
#: there is a block of 64 rows for at least half of the compute units.
SKINNY_CLASSES = {"along": (8, 4, 1, 1), "across": (16, 2, 4, 1), "across, few rows": (8, 2, 2, 4)}


@dataclass(frozen=True)
class SkinnyKernel:
    """The kernel of a product with few columns, and the partition of its work.

    Attributes:
        spec: The text of the kernel.
        row: The policy, and its origin.
        blocks, parts: The number of blocks of rows, and of groups that share a block, each with a
            part of k.
        part_size: Steps of k of a part.
        partial_bytes: Workspace for the sums of parts.
        across: Whether k runs across A's lines.
    """

    spec: Specialization
    row: PolicyRow[SkinnyPolicy]
    blocks: int
    parts: int
    part_size: int
    partial_bytes: int
    across: bool


@dataclass(frozen=True)
class FewColumnsCosts(Figures):
    """The costs of the path in addition to its traffic.

    Attributes:
        start: Seconds of a very small product.
        reread: Seconds for each byte of the few columns that a group reads in addition to the
            first group.
    """

    start: float
    reread: float


def takes(problem: GemmProblem, target: Target) -> bool:
    """Whether the path takes a product that has no fewer rows than columns."""
    p, a = problem, problem.a
    whole, pitch = (p.m, a.col) if a.row == 1 else (p.k, a.row)
    return (
        target.matrix_units in ("mma", "wgmma")
        and p.n <= MOST_VECTORS
        and p.k > 0
        and not p.batch
        and a.elem == p.b.elem
        and a.elem.floating
        and a.elem.itemsize == 2
        and p.compute.real == "float"
        and not p.c.elem.complex
        and 1 in (a.row, a.col)
        and a.aligned_bytes == 16
        and whole % _WIDE == 0
        and pitch % _WIDE == 0
    )


def finish(problem: GemmProblem) -> Finish | None:
    """The epilogue of each sum, if there is one."""
    p = problem
    return Finish(p.compute, p.epilogue, p.extras, p.transposed) if p.epilogue else None


def kernel_of(problem: GemmProblem, target: Target, table: TuningTable) -> SkinnyKernel:
    """Return the kernel of a product that the path :func:`takes`, and its partition.

    A is read along its lines, or ``across`` them where its columns are adjacent.  Its rows are
    divided into ``blocks``, and k into ``parts``.
    """
    p = problem
    across, units = p.a.row == 1, target.compute_units
    few = ", few rows" if 2 * -(-p.m // 64) <= units else ""
    shape_class = f"across{few}" if across else "along"
    default = SkinnyPolicy.for_shape_class(shape_class)
    row = table.choose("gemm_skinny", SkinnyPolicy, target, p.a.elem, shape_class, default)
    lane = 4 if across else 8
    x_wide = p.b.row == 1 and p.b.aligned_bytes % (2 * lane) == 0 and p.b.col % lane == 0
    warps, unroll = row.policy.warps, row.policy.unroll
    if not x_wide:  # its elements come one by one, and take registers
        unroll = min(unroll, 2)
    # Fewer warps share a short k: 16 warps with a step each spend most of the time on adding their
    # sums.  Each warp has one turn of ``unroll`` steps at least, or four if it reads across.
    while warps > 1 and warps * unroll * (64 if across else 32) > p.k:
        warps //= 2
    policy = replace(row.policy, warps=warps, unroll=unroll)
    if policy != row.policy:
        row = replace(row, policy=policy, origin=row.origin + ", fitted to k")
    min_groups = policy.groups_per_unit * units
    tile, step = 16 * policy.blocks, policy.warps * (16 if across else 32)
    # Short blocks are for reads along the lines only.  Across them a group reads adjacent rows of a
    # column together, so a short block would have short lines of memory.
    while not across and tile > 16 and 4 * -(-p.m // tile) < 3 * min_groups:
        tile //= 2
    blocks = -(-p.m // tile)
    parts = max(1, min(round(min_groups / blocks), p.k // step))
    part_size = -(-p.k // (parts * step)) * step
    parts = -(-p.k // part_size)
    parameters = [
        *operand("ushort", "w", "w_pitch"),
        *operand("ushort", "x", "x_step", "x_pitch"),
        *operand(f"{p.c.elem.name}_t", "y", "y_step", "y_pitch", writes=True),
        *scalars("long", "m", "n"),
        *scalars("const float", "alpha", "beta"),
        *scalars("int", "reads_y"),
        *stored_operands(p.extras if p.epilogue else ()),
    ]
    if parts > 1:
        parameters += [*scalars("uint", "parts"), *scalars("long", "part_size")]
        parameters += [
            buffer("uint", "partial", writes=True, restrict=False),
            buffer("uint", "counters", writes=True, shared=True, restrict=False),
        ]
    spec = specialize(
        "gemm/skinny",
        target,
        {"gemm_skinny": parameters},
        policy=policy,
        blocks=tile // 16,
        elem=p.a.elem,
        out=p.c.elem,
        Q=p.n,
        across=across,
        x_wide=x_wide,
        split=parts > 1,
        finish=finish(p),
    )
    partial = parts * p.m * p.n * 4 if parts > 1 else 0
    return SkinnyKernel(spec, row, blocks, parts, part_size, partial, across)


def variant(problem: GemmProblem, target: Target, table: TuningTable) -> Variant:
    """The variant of a product that the path :func:`takes`."""
    kernel = kernel_of(problem, target, table)
    p, policy = problem, kernel.row.policy
    costs = FewColumnsCosts.of("few columns", target)
    bandwidth = DeviceCosts.of("device", target).bandwidth * target.compute_units
    reread = kernel.blocks * p.n * p.k * p.b.elem.itemsize
    return Variant(
        name="skinny",
        estimate=p.bytes / bandwidth + reread * costs.reread + costs.start,
        launches=1,
        why=f"{p.n} column(s) for matrix instructions of warps, which read A in place",
        texts=lambda: [kernel.spec],
        bind=lambda engine: skinny_plan(engine, p, kernel),
        row=kernel.row,
        details={
            "group size": policy.group_size,
            "blocks": kernel.blocks,
            "parts": kernel.parts,
            "flop": p.flop,
            "bytes": p.bytes,
        },
    )


def skinny_plan(engine: Engine, problem: GemmProblem, kernel: SkinnyKernel) -> OneLaunch:
    """Return the plan of a product that the path :func:`takes`; it reads the large operand once.

    Operands: a, b, the epilogue's arrays and c; scalars: alpha and beta.
    """
    p = problem
    arrays = extras(p)
    constants = {
        "w_pitch": p.a.col if kernel.across else p.a.row, "x_step": p.b.row, "x_pitch": p.b.col,
        "y_step": p.c.row, "y_pitch": p.c.col, "m": p.m, **strides(arrays),
    }  # fmt: skip
    if kernel.parts > 1:
        constants |= {"parts": kernel.parts, "part_size": kernel.part_size}
    size = kernel.row.policy.group_size
    return OneLaunch(
        engine, kernel.spec, "gemm_skinny", constants, as_given(("w", "x", "y", *arrays)),
        (kernel.blocks * kernel.parts * size,), (size,), scalars=SCALARS,
        convert=partial(kernel_scalars, p.k), counters=kernel.blocks if kernel.parts > 1 else 0,
        partials=kernel.partial_bytes, flop=p.flop, nbytes=p.bytes,
    )  # fmt: skip
