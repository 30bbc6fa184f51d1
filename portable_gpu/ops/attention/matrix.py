"""Attention of 16-bit floats on the matrix units of NVIDIA's GPUs: one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pyopencl as cl

from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.attention.plan import (
    AXES,
    AttentionProblem,
    forward_arguments,
    operands,
    rounded_extent,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range
from portable_gpu.tuning.table import PolicyRow, TuningTable

_CHUNK = 8  # elements of an asynchronous copy
_OTHER_REGISTERS = 80  # of a work-item: fragments, addresses, maxima and sums of rows
_MASK_REGISTERS = 16  # where it has a mask: its addresses and values
_MOST_REGISTERS = 255  # of a work-item
_MOST_EXTENT = 256  # of a row of q or of v


@dataclass(frozen=True)
class AttentionPolicy(Policy):
    """How ``cl_kernels/attention/mma.cl.mako`` divides the work.

    Attributes:
        warps: Warps of a group.
        blocks: Blocks of 16 queries of a warp.
        keys: Keys of a tile.
    """

    warps: Annotated[int, Range(1, 8)]
    blocks: Annotated[int, Range(1, 2)]
    keys: Annotated[int, Range(16, 128)]

    @property
    def queries(self) -> int:
        """Queries of a group."""
        return 16 * self.blocks * self.warps

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return 32 * self.warps

    def registers(self, dq: int, dv: int, masked: bool) -> int:
        """An estimate of the registers of a work-item, without its queries.

        Sums of the result and of scores take most; ptxas 13.0 confirms the others.
        """
        others = _OTHER_REGISTERS + (_MASK_REGISTERS if masked else 0)
        return self.blocks * (dv + self.keys) // 2 + others

    def keeps_queries(self, dq: int, dv: int, masked: bool) -> bool:
        """Whether there are registers for a warp's queries, which are else loaded for each tile."""
        return self.registers(dq, dv, masked) + self.blocks * dq // 4 <= _MOST_REGISTERS

    def local_bytes(self, dq: int, dv: int) -> int:
        """Local memory of a group."""
        return 2 * (self.queries * dq + self.keys * (dq + dv))

    @classmethod
    def default(cls, target: Target, elem: Element) -> AttentionPolicy:
        """The policy of many queries of 64 elements."""
        return cls.for_shape_class("narrow")

    @classmethod
    def for_shape_class(cls, shape_class: str) -> AttentionPolicy:
        """The default of one of :data:`SHAPE_CLASSES`."""
        return cls(*SHAPE_CLASSES[shape_class])

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """See :meth:`Policy.search_space`."""
        return {"warps": (2, 4, 8), "blocks": (1, 2), "keys": (32, 64, 128)}

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.queries, 16, self.keys

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        return {
            "the target's warps have matrix units": target.matrix_units in ("mma", "wgmma"),
            "keys is a multiple of 16": self.keys % 16 == 0,
            "the group is within the device's limit": self.group_size <= target.max_work_group_size,
        }


#: The kinds of problem that have policies of their own, by the greater of the extents: up to 96, to
#: 128 and to 256; ``few``: tiles of the others' queries are fewer than the compute units.
SHAPE_CLASSES = {
    "narrow": (4, 2, 64), "medium": (4, 2, 32), "wide": (4, 1, 64),
    "narrow, few": (4, 1, 64), "medium, few": (4, 1, 64), "wide, few": (4, 1, 64),
}  # fmt: skip


def takes(problem: AttentionProblem, target: Target) -> bool:
    """Whether matrix units compute a problem.

    Rows of q, k, v and the result are adjacent chunks of 16 bytes.  The scale is positive, so that
    the greatest product has the greatest score.
    """
    p = problem
    if target.forced or target.matrix_units not in ("mma", "wgmma"):
        return False
    if p.elem.name not in ("f16", "bf16") or p.drops:
        return False
    *rows, _, out, _ = p.strides if p.mask else (*p.strides[:3], (), *p.strides[3:])
    arrays = (*rows, out)
    return (
        p.aligned
        and p.scale > 0
        and 0 < max(p.dq, p.dv) <= _MOST_EXTENT
        and p.dq % _CHUNK == p.dv % _CHUNK == 0
        and all(step in (0, 1) for *_, step in arrays)
        and all(stride % _CHUNK == 0 for *strides, _ in arrays for stride in strides)
    )


def extents(problem: AttentionProblem) -> tuple[int, int]:
    """The extents of rows of q and of v that the kernel is compiled for."""
    return rounded_extent(problem.dq), rounded_extent(problem.dv)


def policy_of(
    problem: AttentionProblem, target: Target, table: TuningTable
) -> PolicyRow[AttentionPolicy]:
    """The policy of a problem that matrix units take."""
    p, extent = problem, max(problem.dq, problem.dv)
    shape_class = "narrow" if extent <= 96 else "medium" if extent <= 128 else "wide"
    queries = AttentionPolicy.for_shape_class(shape_class).queries
    if p.batch * p.heads * -(-p.queries // queries) < target.compute_units:
        shape_class += ", few"
    default = AttentionPolicy.for_shape_class(shape_class)
    return table.choose("attention_mma", AttentionPolicy, target, p.elem, shape_class, default)


def specialization(
    problem: AttentionProblem, target: Target, policy: AttentionPolicy
) -> Specialization:
    """The text and options of the kernel."""
    p = problem
    dq, dv = extents(p)
    types = {"mask": f"{p.mask.name}_t" if p.mask else "", "sums": f"{p.wide.name}_t"}
    parameters = []
    for name in operands(p):
        array = f"{name}_in"
        parameters.append(buffer(types.get(name, "ushort"), array, writes=name in ("out", "sums")))
        parameters += scalars("long", *(f"{name}_{part}" for part in ("offset", *AXES)))
    sizes = ("heads", "shared", "queries", "keys", "blocks", "dq", "dv")
    parameters += [*scalars("uint", *sizes), *scalars("float", "scale")]
    return specialize(
        "attention/mma", target, {"attention_mma": parameters}, policy=policy, kind=p.elem.name,
        wide=p.wide, mask=p.mask, causal=p.is_causal, DQ=dq, DV=dv,
        keeps_q=policy.keeps_queries(dq, dv, bool(p.mask)),
    )  # fmt: skip


class MatrixAttentionPlan(Plan):
    """Attention on matrix units; its operands are q, k, v, mask, out, sums."""

    def __init__(self, engine: Engine, problem: AttentionProblem, policy: AttentionPolicy) -> None:
        """Build the kernel.

        Raises:
            BuildError: The driver refused it.
        """
        p = problem
        blocks = -(-p.queries // policy.queries)
        self.flop, self.bytes = p.flop, p.bytes
        self._launch = engine.programs.launch(
            specialization(p, engine.target, policy), "attention_mma",
            *forward_arguments(p, blocks), (p.batch * p.heads * blocks * policy.group_size,),
            (policy.group_size,),
        )  # fmt: skip

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`; it has no scalars that vary."""
        return self._launch(state, buffers, offsets, wait_for)
