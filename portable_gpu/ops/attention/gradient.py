"""The gradients of attention of 16-bit floats on the matrix units of NVIDIA's GPUs.

Each side of the gradients, by queries and by keys, is one launch, as in
:func:`~portable_gpu.ops.attention.plan.gradient_plan`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from portable_gpu.codegen.parameters import scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.attention.plan import (
    RESULTS,
    SIZES,
    AttentionProblem,
    array_parameters,
    backward_operands,
    gradient_plan,
    rounded_extent,
)
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range
from portable_gpu.tuning.table import PolicyRow, TuningTable

#: Whose gradients: those of queries, or those of keys and values.
Side: TypeAlias = Literal["q", "k"]
_CHUNK = 8  # elements of an asynchronous copy
_MAX_EXTENT = 128  # of a row
_NARROW = 64  # elements of a row
_LEAST_OTHERS = 16
# Registers of a work-item for fragments and addresses, for addresses and values of a mask, and the
# most that it may have.  ptxas 13.0 takes from 67 fewer than these estimates to 40 more.
_REGISTERS, _MASK, _MOST_REGISTERS = 60, 24, 255
_WARPGROUPS = 30  # the others of a warpgroup's work-item; ptxas 13.0 takes up to 30 fewer


@dataclass(frozen=True)
class GradientPolicy(Policy):
    """How ``cl_kernels/attention/mma_backward.cl.mako`` divides the work.

    Attributes:
        warps: Warps of a group.
        blocks: Blocks of 16 own rows of a warp.
        others: Rows of a tile of the other side.
    """

    warps: Annotated[int, Range(1, 8)]
    blocks: Annotated[int, Range(1, 2)]
    others: Annotated[int, Range(16, 128)]

    @property
    def rows(self) -> int:
        """Own rows of a group."""
        return 16 * self.blocks * self.warps

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return 32 * self.warps

    def registers(self, extents: int, masked: bool) -> int:
        """An estimate of the registers of a work-item, given the extents of its sums together."""
        others = _REGISTERS + (_MASK if masked else 0)
        return self.blocks * (extents // 2 + 2 * self.others) + others

    def local_bytes(self, extents: int, side: Side) -> int:
        """Local memory of a group, given the extents of rows of both arrays together."""
        statistics = 16 * self.others if side == "k" else 0
        return 2 * extents * (self.rows + 2 * self.others) + statistics

    @classmethod
    def default(cls, target: Target, elem: Element) -> GradientPolicy:
        """The policy of queries with rows of 64 elements."""
        return cls.for_shape_class("q, narrow")

    @classmethod
    def for_shape_class(cls, shape_class: str) -> GradientPolicy:
        """The default of one of :data:`SHAPE_CLASSES`."""
        return cls(*SHAPE_CLASSES[shape_class])

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        local = self.local_bytes(2 * _MAX_EXTENT, "k")
        return {
            "the target's warps have matrix units": target.matrix_units in ("mma", "wgmma"),
            "others is a multiple of 16": self.others % 16 == 0,
            "a work-item has at most one other row of a tile": self.others <= self.group_size,
            "local memory holds tiles": local <= target.static_local_mem,
            "the group is within the device's limit": self.group_size <= target.max_work_group_size,
        }


#: The kinds of problem that have policies of their own: the side, and whether the greater of the
#: extents is up to 64 or to 128.
SHAPE_CLASSES = {
    "q, narrow": (4, 2, 32), "q, wide": (4, 1, 32), "k, narrow": (4, 1, 32), "k, wide": (4, 1, 16),
}  # fmt: skip


@dataclass(frozen=True)
class WarpgroupGradientPolicy(Policy):
    """How ``cl_kernels/attention/wgmma_backward.cl.mako`` divides the work.

    Attributes:
        others: Rows of a tile of the other side.
        stages: Tiles of the other side in local memory; with 3 the products of own rows' sums are
            awaited in the next turn.
    """

    others: Annotated[int, Range(16, 128)]
    stages: Annotated[int, Range(2, 3)]

    blocks = 1  # a warp has one block of 16 own rows
    rows = 64  # own rows of a group
    group_size = 128

    def registers(self, extents: int, masked: bool) -> int:
        """An estimate of the registers of a work-item, given the extents of its sums together."""
        others = _WARPGROUPS + (_MASK if masked else 0)
        return extents // 2 + 3 * self.others // 2 + others

    def local_bytes(self, extents: int, side: Side) -> int:
        """Local memory of a group, given the extents of rows of both arrays together."""
        statistics = 16 * self.others if side == "k" else 0
        return 2 * extents * (self.rows + self.stages * self.others) + statistics

    @classmethod
    def default(cls, target: Target, elem: Element) -> WarpgroupGradientPolicy:
        """The policy of queries with rows of 64 elements."""
        return cls.for_shape_class("q, narrow")

    @classmethod
    def for_shape_class(cls, shape_class: str) -> WarpgroupGradientPolicy:
        """The default of one of :data:`WARPGROUP_CLASSES`."""
        return cls(*WARPGROUP_CLASSES[shape_class])

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        local = self.local_bytes(2 * _MAX_EXTENT, "k")
        return {
            "the target's matrix units are fed by warpgroups": target.matrix_units == "wgmma",
            "others is a multiple of 16": self.others % 16 == 0,
            "local memory holds tiles": local <= target.static_local_mem,
            "the group is within the device's limit": self.group_size <= target.max_work_group_size,
        }


AnyGradientPolicy: TypeAlias = GradientPolicy | WarpgroupGradientPolicy
#: The same kinds of problem, for warpgroups.
WARPGROUP_CLASSES = {
    "q, narrow": (64, 2), "q, wide": (80, 2), "k, narrow": (64, 3), "k, wide": (64, 2),
}  # fmt: skip


def takes(problem: AttentionProblem, target: Target, side: Side) -> bool:
    """Whether matrix units compute one side of the gradients.

    Rows of all arrays are adjacent chunks of 16 bytes.  The scale is positive, so that scores that
    are not seen stay minus infinity.
    """
    p = problem
    if target.forced or target.matrix_units not in ("mma", "wgmma"):
        return False
    if p.elem.name not in ("f16", "bf16") or p.drops or not p.aligned or not p.scale > 0:
        return False
    if not 0 < max(p.dq, p.dv) <= _MAX_EXTENT or p.dq % _CHUNK or p.dv % _CHUNK:
        return False
    names = backward_operands(p, side)
    arrays = [
        strides
        for name, strides in zip(names, p.strides, strict=True)
        if name not in ("mask", "sums", "delta")
    ]
    return all(step in (0, 1) for *_, step in arrays) and all(
        stride % _CHUNK == 0 for *strides, _ in arrays for stride in strides
    )


def extents(problem: AttentionProblem, policy: AnyGradientPolicy) -> tuple[int, int]:
    """The extents of rows of q and of v that the kernel is compiled for."""
    unit = 64 if isinstance(policy, WarpgroupGradientPolicy) else 16
    return rounded_extent(problem.dq, unit), rounded_extent(problem.dv, unit)


def registers(problem: AttentionProblem, side: Side, policy: AnyGradientPolicy) -> int:
    """An estimate of the registers of a work-item."""
    dq, dv = extents(problem, policy)
    return policy.registers(dq if side == "q" else dq + dv, bool(problem.mask))


def policies_of(
    problem: AttentionProblem, side: Side, target: Target, table: TuningTable
) -> list[PolicyRow[Any]]:
    """The policies of one side of a problem, one for each kernel that computes it.

    Tiles have as many rows as registers allow.
    """
    width = "narrow" if max(problem.dq, problem.dv) <= _NARROW else "wide"
    kinds: list[type[Any]] = [GradientPolicy]
    if target.matrix_units == "wgmma":
        kinds.append(WarpgroupGradientPolicy)
    result = []
    for kind in kinds:
        shape_class, default = f"{side}, {width}", kind.for_shape_class(f"{side}, {width}")
        name = f"attention_{kernel_of(default)}"
        row = table.choose(name, kind, target, problem.elem, shape_class, default)
        result.append(_fitted(row, problem, side))
    return result


def kernel_of(policy: AnyGradientPolicy) -> str:
    """The name of the kernel that a policy is for."""
    return f"{'mma' if isinstance(policy, GradientPolicy) else 'wgmma'}_backward"


def _fitted(row: PolicyRow[Any], problem: AttentionProblem, side: Side) -> PolicyRow[Any]:
    policy = row.policy
    while policy.others > _LEAST_OTHERS and registers(problem, side, policy) > _MOST_REGISTERS:
        policy = replace(policy, others=policy.others - 16)
    if policy == row.policy:
        return row
    return replace(row, policy=policy, origin=f"{row.origin}, fitted to registers")


def specialization(
    problem: AttentionProblem, target: Target, side: Side, policy: AnyGradientPolicy
) -> Specialization:
    """The text and options of the kernel of one side."""
    p = problem
    dq, dv = extents(p, policy)
    parameters = [
        *array_parameters(p, backward_operands(p, side), RESULTS[side], "ushort"),
        *scalars("uint", *SIZES, "dq_size", "dv_size"),
        *scalars("float", "scale"),
    ]
    of_queries = ("q", dq, "dq_size"), ("grad", dv, "dv_size")
    of_keys = ("k", dq, "dq_size"), ("v", dv, "dv_size")
    row_arrays, tile_arrays = (of_queries, of_keys) if side == "q" else (of_keys, of_queries)
    return specialize(
        f"attention/{kernel_of(policy)}", target, {"attention_backward": parameters}, policy=policy,
        kind=p.elem.name, elem=p.elem, wide=p.wide, mask=p.mask, causal=p.is_causal, DQ=dq, DV=dv,
        side=side, row_arrays=row_arrays, tile_arrays=tile_arrays,
        shift=15 if p.elem.name == "f16" and side == "k" else 0,
    )  # fmt: skip


def gradient_on_matrix_units(
    engine: Engine, problem: AttentionProblem, side: Side, policy: AnyGradientPolicy
) -> OneLaunch:
    """Return the plan of one side on matrix units; see :func:`gradient_plan`."""
    spec = specialization(problem, engine.target, side, policy)
    return gradient_plan(engine, problem, side, spec, policy.rows, policy.group_size)
