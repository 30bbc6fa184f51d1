"""Every way to compute a product, and the plan of the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError
from portable_gpu.ops.gemm.matrix import estimates as matrix_estimates
from portable_gpu.ops.gemm.matrix import plan as matrix
from portable_gpu.ops.gemm.matrix.check import works, works_in_pairs
from portable_gpu.ops.gemm.matrix.format import MatrixFormat, format_of
from portable_gpu.ops.gemm.matrix.parts import added, in_parts
from portable_gpu.ops.gemm.matrix.policy import WgmmaPolicy
from portable_gpu.ops.gemm.mirror import filled
from portable_gpu.ops.gemm.packed import lanes
from portable_gpu.ops.gemm.packed.forms import (
    PackedForm,
    packed_forms,
    packed_seconds,
    preferred_form,
    row_of,
    shape_class,
)
from portable_gpu.ops.gemm.packed.plan import PackedPlan
from portable_gpu.ops.gemm.packed.plan import specialization_of as packed_spec
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.skinny import vectors as skinny
from portable_gpu.ops.gemm.tiled import estimates as tiles
from portable_gpu.ops.gemm.tiled.plan import TiledPlan, specialization_of
from portable_gpu.ops.gemm.tiled.tile import takes_pairs
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.ops.variant import Variant, best_of, bind_best, by_rule, ranked
from portable_gpu.runtime.build_message import of_expression
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import PolicyRow, TuningTable


def make_plan(engine: Engine, problem: GemmProblem) -> Plan:
    """The plan of ``problem``: the way with the least estimate that works on the device.

    Raises:
        BuildError: The driver refused the kernel, mostly for what the epilogue's expressions say.
    """
    target, table = engine.target, engine.table
    try:
        likely = fastest(problem, target, table)
        works = best_of(likely, target).works
        if works is None or works(engine):
            return bind_best(engine, likely)
        return bind_best(engine, variants(problem, target, table))
    except BuildError as error:
        texts = "; ".join(stage.expression for stage in problem.epilogue)
        if not texts:
            raise
        raise of_expression(error, "the expression of epilogue", texts) from error


def variants(problem: GemmProblem, target: Target, table: TuningTable) -> list[Variant]:
    """Return all variants of a product whose C is not empty.

    * On a CPU: the packed product, in the order A B or B' A', by whole products, by strips or by
      shared ones, with each operand packed or read where it is stored.
    * On other devices: one work-item for each element, and the tiles of each shape class on SIMD
      units and matrix units, with k whole or split.
    * On both: the kernels for few rows or columns.

    A product of a matrix and its own transpose has variants that compute the lower triangle and
    mirror it.
    """
    if problem.fills:
        part = replace(problem, fills="")
        return [filled(item, problem, target) for item in variants(part, target, table)]
    plain = replace(problem, symmetric=False)
    whole = [variant for group in _groups(plain, target, table) for variant in group.make()]
    if problem.symmetric:
        lower = replace(problem, symmetric=False, triangle="lower", fills="mirror")
        whole += variants(lower, target, table)
    return whole


def fastest(problem: GemmProblem, target: Target, table: TuningTable) -> list[Variant]:
    """Return those of :func:`variants` that may have the least estimate; that one is among them."""
    if problem.fills or problem.symmetric:
        return variants(problem, target, table)
    costs = DeviceCosts.of("device", target)
    groups = list(_groups(problem, target, table))
    made: dict[int, list[Variant]] = {}
    best = math.inf
    for index in sorted(range(len(groups)), key=lambda index: groups[index].lower_bound):
        if costs.seconds(costs.bound(groups[index].lower_bound)) > best:
            break
        made[index] = list(groups[index].make())
        for variant in ranked(made[index], costs)[:1]:  # a rule may put lower estimates after it
            best = min(best, variant.seconds(costs))
    return [variant for index in sorted(made) for variant in made[index]]


class _Group(NamedTuple):
    """Variants that are made only if one of them may be the fastest.

    Attributes:
        lower_bound: A lower bound of their estimates.
        make: Makes them.
    """

    lower_bound: float
    make: Callable[[], Iterable[Variant]]


def _groups(problem: GemmProblem, target: Target, table: TuningTable) -> Iterator[_Group]:
    """Yield the variants of one product, or of a triangle of it."""
    of_problem = problem, target, table
    if problem.has_readers or problem.k_parts:  # only these kernels take them
        yield from _by_matrix_units(*of_problem)
        if problem.in_pieces or problem.k_parts:
            return
        yield _Group(0.0, partial(_tiled, *of_problem))
        return
    yield _Group(0.0, partial(skinny.variants, *of_problem))
    if target.is_cpu:
        yield _Group(0.0, partial(_packed, *of_problem))
        return
    yield from _by_matrix_units(*of_problem)
    if problem.k:
        yield _Group(tiles.least_seconds(problem, target), partial(_tiled, *of_problem))
    yield _Group(0.0, partial(_direct, problem, target))


def _packed(problem: GemmProblem, target: Target, table: TuningTable) -> list[Variant]:
    """Return the forms of the packed product, of which a rule prefers one."""
    form = preferred_form(problem, target, table)
    preferred = _packed_variant(problem, form, target)
    others = [
        _packed_variant(problem, other, target)
        for other in packed_forms(problem, target, table)
        if other != form
    ]
    row = row_of(problem, target, table)
    if lanes.takes(problem, row.policy):
        gain = lanes.gain(problem, row.policy, form, target)
        side_by_side = _side_by_side(problem, row, preferred.estimate / gain, target)
        if gain > lanes.LEAST_GAIN:
            others = [preferred, *others]
            preferred = side_by_side
        else:
            others.append(side_by_side)
    costs = DeviceCosts.of("device", target)
    return by_rule("form of the packed product", [preferred], others, costs)


def _packed_variant(problem: GemmProblem, form: PackedForm, target: Target) -> Variant:
    path, why = "packed", "a CPU: panels packed in memory, no local memory"
    if form.strip:
        path += ", strips"
        why += "; each work-item packs the columns that it multiplies"
    elif form.whole:
        path += ", whole"
        why += "; each product is small enough for one work-item"
    return Variant(
        path=path,
        name=form.name,
        estimate=packed_seconds(problem, target),
        launches=form.launches,
        why=why,
        texts=lambda: [packed_spec(problem, form, target)],
        bind=partial(PackedPlan, problem=problem, form=form),
        row=PolicyRow(form.policy, form.origin, form.evidence),
        details={
            "shape class": shape_class(problem), "transposed": form.transposed,
            **_costs(problem),
        },
    )  # fmt: skip


def _side_by_side(
    problem: GemmProblem, row: PolicyRow[PackedPolicy], seconds: float, target: Target
) -> Variant:
    """Return small products side by side, each in a lane of a CPU's vectors."""
    return Variant(
        path="packed, side by side",
        name="side by side",
        estimate=seconds,
        launches=1,
        why="a CPU: small products, each in a lane of every vector",
        texts=lambda: [lanes.specialization(problem, row.policy, target)],
        bind=partial(lanes.lanes_plan, problem=problem, policy=row.policy),
        row=row,
        details=_costs(problem),
    )


def _tiled(problem: GemmProblem, target: Target, table: TuningTable) -> Iterator[Variant]:
    for seconds, tiling in tiles.estimates(problem, target, table):
        details = _details(problem, tiling)
        if takes_pairs(problem, target):
            details["steps of k an instruction"] = 2
        yield _simt(problem, tiling, target, seconds, details)


def _direct(problem: GemmProblem, target: Target) -> Iterator[Variant]:
    for seconds, tiling in tiles.direct_estimates(problem, target):
        yield _simt(problem, tiling, target, seconds, _costs(problem))


def _simt(
    problem: GemmProblem,
    tiling: Tiling,
    target: Target,
    seconds: float,
    details: dict[str, Any],
) -> Variant:
    """A way of the vector units."""

    def bind(engine: Engine) -> Plan:
        pairs = takes_pairs(problem, engine.target) and works_in_pairs(engine, problem)
        return TiledPlan(engine, problem, tiling, pairs=pairs)

    def texts() -> list[Specialization]:
        computed = problem.transpose() if tiling.transposed else problem
        pairs = takes_pairs(problem, target)
        return [specialization_of(computed, tiling, target, pairs=pairs)]

    return Variant(
        path=tiling.path,
        name=tiling.name,
        kind=tiling.name if tiling.policy is None else f"{tiling.path}, {tiling.shape_class}",
        estimate=seconds,
        launches=1,
        why=tiling.why,
        texts=texts,
        bind=bind,
        row=tiling.row,
        details=details,
    )


def _by_matrix_units(problem: GemmProblem, target: Target, table: TuningTable) -> Iterator[_Group]:
    """Yield the tiles of matrix units, if the target has them."""
    form = format_of(problem, target)
    if form is None or (problem.has_readers and not form.supports_readers(problem)):
        return
    if form.supports_parts(problem, bulk=False):
        for seconds, tiling in matrix_estimates.estimates(problem, target, table):
            if isinstance(tiling.policy, WgmmaPolicy) and tiling.splits > 1:
                make = partial(of_parts, problem, tiling, form, target, table, seconds)
            else:
                make = partial(_copied, problem, tiling, form, target, seconds)
            yield _Group(seconds, make)


def of_parts(
    problem: GemmProblem,
    tiling: Tiling,
    form: MatrixFormat,
    target: Target,
    table: TuningTable,
    seconds: float,
) -> Iterator[Variant]:
    """Yield the variants of matrix units that compute parts of k, and add them."""
    parts = in_parts(problem, tiling.splits, tiling.transposed, form.depth)
    for variant in _copied(parts, replace(tiling, splits=1), form, target, seconds):
        yield added(variant, problem, parts, target, table)


def _copied(
    problem: GemmProblem, tiling: Tiling, form: MatrixFormat, target: Target, seconds: float
) -> Iterator[Variant]:
    """Yield a variant of matrix units by each way to copy its tiles to local memory.

    By a rule, copies by work-items come after those of the copy engine: they are slower, and serve
    a driver that does not have the engine's instructions.
    """
    variant = _on_matrix_units(problem, tiling, form, target, seconds)
    if not (isinstance(tiling.policy, WgmmaPolicy) and tiling.policy.bulk):
        yield variant
        return
    policy = replace(tiling.policy, bulk=False)
    computed = problem.transpose() if tiling.transposed else problem
    if not matrix_estimates.takes(policy, computed, form):
        yield variant
        return
    decision = f"copies of {variant.name}"
    by_items = _on_matrix_units(problem, replace(tiling, policy=policy), form, target, seconds)
    yield replace(variant, decision=decision)
    yield replace(by_items, decision=decision)


def _on_matrix_units(
    problem: GemmProblem, tiling: Tiling, form: MatrixFormat, target: Target, seconds: float
) -> Variant:
    policy = tiling.policy
    bulk = isinstance(policy, WgmmaPolicy) and policy.bulk
    computed = problem.transpose() if tiling.transposed else problem
    passes = matrix.repacked_bytes(computed, form, bulk, tiling.gather)
    by_items = isinstance(policy, WgmmaPolicy) and not policy.bulk
    by = ", gathered" if tiling.gather else ", by work-items" if by_items else ""
    return Variant(
        path=tiling.path,
        name=f"{tiling.name}{by}",
        kind=f"{tiling.path}, {tiling.shape_class}{by}",
        estimate=seconds + matrix_estimates.repack_seconds(passes, target),
        launches=1 + len(passes),
        why=tiling.why,
        texts=partial(matrix.specializations_of, problem, tiling, target),
        bind=partial(matrix.MatrixPlan, problem=problem, tiling=tiling),
        works=partial(works, problem=problem, bulk=bulk, gather=tiling.gather),
        row=tiling.row,
        details=_details(problem, tiling),
    )


def _details(problem: GemmProblem, tiling: Tiling) -> dict[str, Any]:
    assert tiling.policy is not None
    return {
        "shape class": tiling.shape_class,
        "splits of k": tiling.splits,
        **({"groups that share k": tiling.shares} if tiling.shares else {}),
        "transposed": tiling.transposed,
        "group size": tiling.policy.group_size,
        "local memory": tiling.policy.local_bytes(problem.compute),
        **_costs(problem),
    }


def _costs(problem: GemmProblem) -> dict[str, Any]:
    return {"flop": problem.flop, "bytes": problem.bytes}
