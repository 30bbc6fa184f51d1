"""Reductions with no device at hand: the kernels that each builds by default, and explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable_gpu.codegen.operators import BinaryOp, Map
from portable_gpu.codegen.reductions import Reduction, Request
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.explanation import Explanation
from portable_gpu.ops.reduce import rules
from portable_gpu.ops.reduce.geometry import Geometry, analyse
from portable_gpu.ops.reduce.plan import (
    Deal,
    Layout,
    ReducePolicy,
    lay_out,
    reduction_for,
    render_layout,
    require_fp64,
)
from portable_gpu.ops.reduce.run import Axes, centre_dtype, normalise_axes
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import Choice, TuningTable

DType = np.dtype[Any]

#: What each operation computes by default, from its inputs' dtypes.
_RULES: dict[str, Callable[..., tuple[Request, DType]]] = {
    "sum": rules.sum_like("sum", None),
    "prod": rules.sum_like("prod", None),
    "mean": rules.mean(None),
    "var": rules.moment(None, 0.0, False),
    "std": rules.moment(None, 0.0, True),
    "min": rules.minimum,
    "max": rules.maximum,
    "argmin": rules.argmin,
    "argmax": rules.argmax,
    "any": rules.any_,
    "all": rules.all_,
    "count_nonzero": rules.count_nonzero,
    "asum": rules.asum,
    "nrm2": rules.nrm2,
    "dot": rules.dot,
    "vdot": rules.vdot,
    "reduce": rules.custom(BinaryOp("add", "0", "a + b"), Map("x"), None),
}
_WHOLE_ONLY = ("dot", "vdot")
_SINGLE_AXIS = ("argmin", "argmax")
_ALIGNMENT = 128  # bytes: what a fresh buffer has


@dataclass(frozen=True)
class Step:
    """One kernel of a reduction of a C-ordered array."""

    reduction: Reduction
    geometry: Geometry
    choice: Choice[ReducePolicy]
    layout: Layout
    deal: Deal


def steps(
    operation: str, shape: Shape, axis: Axes, dtype: DType, target: Target, table: TuningTable
) -> Iterator[Step]:
    """The kernels of a reduction in order: one, or two for ``var`` and ``std``."""
    request, _ = _RULES[operation](*[dtype] * (2 if operation in _WHOLE_ONLY else 1))
    if request.name == "moment":
        centre = element(centre_dtype(request.acc))
        yield _step(Request("mean", request.x, centre, centre), shape, axis, target, table)
        request = replace(request, y=centre)
    yield _step(request, shape, axis, target, table)


def _step(request: Request, shape: Shape, axis: Axes, target: Target, table: TuningTable) -> Step:
    fold = reduction_for(request, target)
    folded = normalise_axes(axis, len(shape))
    kept = contiguous_strides(tuple(n for a, n in enumerate(shape) if a not in folded))
    strides = [contiguous_strides(shape)] * len(fold.inputs)
    if fold.per_row:
        along = iter(kept)
        strides[1] = tuple(0 if a in folded else next(along) for a in range(len(shape)))
    geometry = analyse(shape, folded, strides, kept, fold.indexed)
    choice = table.choose("reduce", ReducePolicy, target, fold.inputs[0])
    alignment = 1 if target.is_cpu else _ALIGNMENT
    layout, deal = lay_out(choice.policy, target, fold, geometry, alignment)
    return Step(fold, geometry, choice, layout, deal)


def specializations(operation: str, target: Target, dtype: DType) -> list[Specialization]:
    """What default policies build for a long vector, and along both axes of matrices."""
    table = TuningTable.shipped()
    problems: list[tuple[Shape, Axes]] = [((1 << 24,), None)]
    if operation not in _WHOLE_ONLY:
        problems += [((1 << 16, 32), 1), ((4096, 4096), 1), ((4096, 4096), 0)]
    found = [
        render_layout(target, step.reduction, step.layout)
        for shape, axis in problems
        for step in steps(operation, shape, axis, dtype, target, table)
    ]
    return list({spec.key: spec for spec in found}.values())


def explain(
    operation: str,
    sizes: Sequence[int],
    dtype: DType,
    target: Target,
    table: TuningTable,
    *,
    axis: Axes = None,
) -> Explanation:
    """Which kernels a reduction of a C-ordered array takes, how it is dealt out, and why."""
    shape = tuple(sizes)
    if operation in _WHOLE_ONLY and (axis is not None or len(shape) != 1):
        raise ArgumentError(f"{operation} takes one size, that of both vectors; got {shape}")
    if operation in _SINGLE_AXIS and isinstance(axis, tuple):
        raise ArgumentError(f"{operation} takes one axis or none; got {axis}")
    every = list(steps(operation, shape, axis, dtype, target, table))
    for step in every:
        require_fp64(target, step.reduction.needs_fp64, operation)
    last = every[-1]
    layout, deal = last.layout, last.deal
    along = "" if axis is None else f" along axis {axis}"
    return Explanation(
        operation=f"{operation} of {_by(shape)} {dtype}{along} on {target.facts.name}",
        path=f"{layout.kind}{', split' if layout.split else ''}",
        kernels=tuple(f"reduce/{step.layout.kind}" for step in every),
        policy=last.choice.policy.to_dict(),
        origin=last.choice.origin,
        why=_why(last, target),
        details={
            "groups": deal.tiles * deal.parts,
            "group size": layout.group_size,
            "parts of a result": deal.parts,
            "vector": layout.vector,
            "unroll": layout.unroll,
            "lanes": target.exchange,
        },
        evidence=last.choice.evidence,
    )


def _why(step: Step, target: Target) -> str:
    layout, deal, rows = step.layout, step.deal, step.geometry.rows
    if layout.kind == "columns":
        why = "results lie next to each other and the folded axis does not"
        why += ", so work-items go side by side along the results"
    else:
        why = "work-items stream along the folded axis"
        if layout.lanes < layout.group_size:
            why += f", {layout.lanes} to a row, {layout.block} rows to a group"
    results = "one result" if rows == 1 else f"{rows} results"
    if layout.split:
        why += (
            f"; {results} would leave some of {target.compute_units} compute units idle, so each "
            f"is cut into {deal.parts} parts, and the last group to finish folds them in order"
        )
    elif step.layout.kind == "rows" and rows == 1:
        why += "; too small to share among work-groups"
    return why


def _by(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "a scalar"
