"""Attention of 16-bit floats on the matrix units of NVIDIA's GPUs: one launch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from portable_gpu.codegen.parameters import scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.attention.plan import (
    AttentionProblem,
    array_parameters,
    attention_plan,
    operands,
)
from portable_gpu.ops.attention.policy import AnyPolicy, AttentionPolicy, WarpgroupPolicy
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.table import PolicyRow, TuningTable

_CHUNK = 8  # elements of an asynchronous copy
_MAX_EXTENT = 256  # of a row of q or of v
_MAX_EXTENT_OF_WARPGROUPS = 128  # for warpgroup instructions
_LEAST_KEYS = 16


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
    q, k, v, *_, out, _ = p.strides  # and those of a mask, if there is one, and of the sums
    arrays = (q, k, v, out)
    return (
        p.aligned
        and p.scale > 0
        and 0 < max(p.dq, p.dv) <= _MAX_EXTENT
        and p.dq % _CHUNK == p.dv % _CHUNK == 0
        and all(step in (0, 1) for *_, step in arrays)
        and all(stride % _CHUNK == 0 for *strides, _ in arrays for stride in strides)
    )


def extents(problem: AttentionProblem, policy: AnyPolicy) -> tuple[int, int]:
    """The extents of rows of q and of v that the kernel of a policy is compiled for."""
    unit = 64 if isinstance(policy, WarpgroupPolicy) else 16
    dq, dv = (-(-max(1, extent) // unit) * unit for extent in (problem.dq, problem.dv))
    return dq, dv


def registers(problem: AttentionProblem, policy: AnyPolicy) -> int:
    """An estimate of the registers of a work-item."""
    return policy.registers(*extents(problem, policy), bool(problem.mask))


def policies_of(
    problem: AttentionProblem, target: Target, table: TuningTable
) -> list[PolicyRow[Any]]:
    """The policies of a problem that matrix units take, one for each kernel that computes it."""
    p, extent = problem, max(problem.dq, problem.dv)
    kinds: list[tuple[type[Any], int]] = [(AttentionPolicy, _MAX_EXTENT_OF_WARPGROUPS)]
    if target.matrix_units == "wgmma" and extent <= _MAX_EXTENT_OF_WARPGROUPS:
        kinds.append((WarpgroupPolicy, _MAX_EXTENT_OF_WARPGROUPS // 2))
    result = []
    for kind, narrow in kinds:
        shape_class = "narrow" if extent <= narrow else "wide"
        default = kind.for_shape_class(shape_class)
        few = p.batch * p.heads * -(-p.queries // default.queries) < target.compute_units
        row_class = f"{shape_class}, few" if few else shape_class
        row = table.choose(
            f"attention_{kernel_of(default)}",
            kind,
            target,
            p.elem,
            row_class,
            kind.for_shape_class(row_class),
        )
        result.append(_fitted(row, p))
    return result


def _fitted(row: PolicyRow[Any], problem: AttentionProblem) -> PolicyRow[Any]:
    """The policy with tiles of as many keys as registers allow."""
    policy = row.policy
    while policy.keys > _LEAST_KEYS and registers(problem, policy) > policy.most_registers:
        policy = replace(policy, keys=policy.keys - 16)
    if policy == row.policy:
        return row
    return replace(row, policy=policy, origin=f"{row.origin}, fitted to registers")


def specialization(problem: AttentionProblem, target: Target, policy: AnyPolicy) -> Specialization:
    """The text and options of the kernel of a policy."""
    p = problem
    dq, dv = extents(p, policy)
    parameters = [
        *array_parameters(p, operands(p), ("out", "sums"), "ushort"),
        *scalars("uint", "heads", "shared", "queries", "keys", "blocks", "dq", "dv"),
        *scalars("float", "scale"),
    ]
    options: dict[str, Any] = {}
    if isinstance(policy, AttentionPolicy):
        options["keeps_q"] = policy.keeps_queries(dq, dv, bool(p.mask))
    kernel = kernel_of(policy)
    return specialize(
        f"attention/{kernel}", target, {f"attention_{kernel}": parameters}, policy=policy,
        kind=p.elem.name, wide=p.wide, mask=p.mask, causal=p.is_causal, DQ=dq, DV=dv, **options,
    )  # fmt: skip


def kernel_of(policy: AnyPolicy) -> str:
    """The name of the kernel that a policy is for."""
    return "mma" if isinstance(policy, AttentionPolicy) else "wgmma"


def attention_on_matrix_units(
    engine: Engine, problem: AttentionProblem, policy: AnyPolicy
) -> OneLaunch:
    """Return the plan of attention on matrix units; see :func:`attention_plan`."""
    spec, kernel = specialization(problem, engine.target, policy), kernel_of(policy)
    return attention_plan(
        engine, problem, spec, policy.queries, policy.group_size, f"attention_{kernel}"
    )
