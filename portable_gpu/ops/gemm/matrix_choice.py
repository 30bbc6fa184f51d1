"""Which policy a product takes on matrix units, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from portable_gpu.ops.gemm.choice import WORKSPACE, GemmChoice
from portable_gpu.ops.gemm.matrix_format import Format, format_of
from portable_gpu.ops.gemm.matrix_policy import POLICIES, MatrixPolicy, WgmmaPolicy, classes_of
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.targets import Target
from portable_gpu.tuning.table import Choice, TuningTable

MOST_BATCH = 65535


@dataclass(frozen=True)
class _Costs:
    """What takes time besides multiplying, in units of a step of the large tile.

    Attributes:
        fixed: Filling the stages, per tile of a group.
        store: Storing a large tile.
        meeting: The parts of a tile wait for each other.
        sum: A part of a large tile, written and read.
    """

    fixed: float
    store: float
    meeting: float
    sum: float


# Fitted on one H200 (driver 580, November 2026): of wgmma to 240 times of 15 shapes in float16,
# where the choice takes 1.002 of the time of the best of all classes and splits, and 1.02 at most.
# Of mma to 370 of 30 shapes, wgmma's of then among them, before its stores took a third of the
# time.  For want of a measurement the same for mfma.
_COSTS = {
    "wgmma": _Costs(fixed=0.0, store=6.0, meeting=5.0, sum=2.0),
    "mma": _Costs(fixed=6.0, store=0.0, meeting=3.0, sum=2.0),
    "mfma": _Costs(fixed=6.0, store=0.0, meeting=3.0, sum=2.0),
}


def choose_matrix(problem: GemmProblem, target: Target, table: TuningTable) -> GemmChoice | None:
    """The policy with the least estimated time; ``None`` where matrix units do not apply."""
    p, form = problem, format_of(problem, target)
    if form is None or p.k == 0 or p.batch_size > MOST_BATCH:
        return None
    if p.m * p.n <= 64 and p.k <= 64:
        return None
    kernel, transposed = form.kernel, form.turned(p)
    m, n = (p.n, p.m) if transposed else (p.m, p.n)
    best: tuple[float, GemmChoice] | None = None
    largest, costs = 128 * 256 if kernel == "wgmma" else 128 * 128, _COSTS[kernel]
    for shape_class, row in fitting(p, form, target, table):
        policy, efficiency = row.policy, classes_of(kernel, form.parts)[shape_class]
        tiles = p.batch_size * -(-m // policy.tile_m) * -(-n // policy.tile_n)
        steps = -(-p.k // form.depth)
        area = policy.tile_m * policy.tile_n / largest
        for splits in _splits(p, steps, tiles, target.compute_units):
            turns = -(-tiles * splits // target.compute_units)
            step = area / efficiency * form.work
            time = turns * (step * -(-steps // splits) + costs.store * area + costs.fixed)
            if splits > 1:
                time += costs.meeting + costs.sum * area * (splits + turns)
            if best is None or time < best[0]:
                choice = GemmChoice(
                    path=kernel if splits == 1 else f"{kernel}, split-k",
                    policy=policy,
                    splits=splits,
                    transposed=transposed,
                    shape_class=shape_class,
                    origin=row.origin,
                    why=f"{tiles * splits} tiles on {target.compute_units} compute units with "
                    "matrix units: the least estimate; checked on the device before the first use",
                    evidence=row.evidence,
                )
                best = time, choice
    return None if best is None else best[1]


def fitting(
    problem: GemmProblem, form: Format, target: Target, table: TuningTable
) -> Iterator[tuple[str, Choice[MatrixPolicy]]]:
    """The kinds of product that have policies which fit the target, and their rows of the table.

    Raises:
        PolicyError: A row's stages do not hold whole steps of a value's pieces.
    """
    kind = POLICIES[form.kernel][0]
    name = f"gemm_{form.kernel}_split" if form.parts > 1 else f"gemm_{form.kernel}"
    longest = max(problem.m, problem.n, form.parts * problem.k)
    computed = problem.transpose() if form.turned(problem) else problem
    for shape_class in classes_of(form.kernel, form.parts):
        default = kind.for_shape_class(shape_class, parts=form.parts)
        row = table.choose(name, kind, target, form.elem, shape_class, default)
        policy, origin = row.policy, row.origin
        if isinstance(policy, WgmmaPolicy):
            policy.check_pieces(form.parts)
            policy = policy.suited(target, longest)
            if policy != row.policy:
                origin += ", copied by work-items"
            if form.through_registers(computed, policy.bulk) and not policy.has_room_for_a:
                continue
        if all(policy.limits(target, form.elem).values()):
            yield shape_class, replace(row, policy=policy, origin=origin)


def _splits(p: GemmProblem, steps: int, tiles: int, units: int) -> list[int]:
    """Ways to cut k that give idle compute units work; none is empty."""
    found, splits = [1], 2
    while steps >= 4 * splits and tiles * splits <= 4 * units:
        if splits * p.batch_size * p.m * p.n * 4 > WORKSPACE:
            break
        if -(-steps // -(-steps // splits)) == splits:
            found.append(splits)
        splits += 1
    return found
