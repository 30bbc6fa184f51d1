"""Every way to transform arrays: a line at a time for each axis, each by its passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count, product
from math import log2, prod
from typing import TypeAlias

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.candidate import Candidate, bind_best
from portable_gpu.ops.fft.convolution import ConvolutionProblem, convolution_lines
from portable_gpu.ops.fft.cpu import CpuPassPlan, strips, text
from portable_gpu.ops.fft.passes import Pass
from portable_gpu.ops.fft.policy import CpuFftPolicy
from portable_gpu.ops.fft.problem import End, FftProblem, Form, Line
from portable_gpu.ops.fft.tables import Table
from portable_gpu.ops.fft.ways import Leg, Way, ways
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, overlapped
from portable_gpu.tuning.table import Choice, TuningTable

#: What a step reads or writes: an input, the output, or what lies between.
_Operand: TypeAlias = int | Temporary | Part
#: A pass, with what it reads, what it multiplies by, if anything, and what it writes.
_Step: TypeAlias = tuple[Leg, tuple[_Operand, ...]]
#: Of the rate of products in registers, what butterflies in scratch reach.
_EFFICIENCY = 0.3
#: How much longer it takes to bring numbers that lie along the transform, or anyhow.
_LAYOUTS = {"across": 1.0, "along": 1.15, "any": 4.0}


def multiplies_and_crops(target: Target) -> bool:  # noqa: ARG001  # all have the one kernel
    """Whether the passes of a device take :class:`Times`, and targets that begin further on.

    Convolutions on others are transforms, a product and a copy.
    """
    return True


def orders_and_turns(target: Target) -> bool:  # noqa: ARG001  # all have the one kernel
    """Whether the passes of a device take the forms ``ordered`` and ``turned``.

    Cosine transforms on others have a pass before the Fourier transform and one after it.
    """
    return True


def one_pass_plan(engine: Engine, line: Line, factors: Table, last: bool) -> Plan | None:
    """A line in one pass, with factors of the rows of its target; ``None`` where it takes more."""
    elem = element(dtype_of("complex128" if line.real.needs_fp64 else "complex64"))
    policy = engine.table.choose("fft/cpu", CpuFftPolicy, engine.target, elem).policy
    found = ways(line, policy.most, policy.vector, (f"between{k}" for k in count()))
    if [way.name for way in found] != ["one pass"]:  # a lonely line may do better in two
        return None
    run = found[0].legs[0].run
    run = replace(run, target=replace(run.target, factor="rows"), last=last)
    return CpuPassPlan(engine, run, policy, None, factors)


def make_plan(engine: Engine, problem: FftProblem | ConvolutionProblem) -> Plan:
    """The plan of the way that is estimated to be the fastest.

    Raises:
        BuildError: The driver refused a kernel.
        DeviceMemoryError: The device has no room for the tables.
    """
    return bind_best(engine, candidates(problem, engine.target, engine.table))


def candidates(
    problem: FftProblem | ConvolutionProblem, target: Target, table: TuningTable
) -> list[Candidate]:
    """The ways of all axes, in every combination of the first one's with the best of the others."""
    elem = element(dtype_of("complex128" if problem.real.needs_fp64 else "complex64"))
    choice = table.choose("fft/cpu", CpuFftPolicy, target, elem)
    costs = DeviceCosts.of("device", target)
    found = []
    names = (f"between{k}" for k in count())
    each = [
        (operands, ways(line, choice.policy.most, choice.policy.vector, names))
        for line, operands in _lines(problem)
    ]
    best = [min(own, key=lambda way: _seconds(way, choice, costs, target)) for _, own in each]
    varied = range(len(each)) if len(each) == 1 else ()
    for chosen in product(
        *([*own] if k in varied else [best[k]] for k, (_, own) in enumerate(each))
    ):
        legs = [
            (leg, _operands(leg, operands))
            for way, (operands, _) in zip(chosen, each, strict=True)
            for leg in way.legs
        ]
        found.append(_candidate(problem, chosen, legs, choice, costs, target))
    return found


def _lines(
    problem: FftProblem | ConvolutionProblem,
) -> Sequence[tuple[Line, tuple[_Operand, ...]]]:
    if isinstance(problem, ConvolutionProblem):
        return convolution_lines(problem)
    return lines(problem)


def _candidate(
    problem: FftProblem | ConvolutionProblem,
    chosen: tuple[Way, ...],
    legs: list[_Step],
    choice: Choice[CpuFftPolicy],
    costs: DeviceCosts,
    target: Target,
) -> Candidate:
    names = [way.name for way in chosen]
    path = names[0] if len(set(names)) == 1 else " and ".join(dict.fromkeys(names))
    lengths = " x ".join(str(leg.run.n) for leg, _ in legs)
    return Candidate(
        path=path,
        way=f"{path}: {lengths}",
        kind=path,
        device=sum(_seconds(way, choice, costs, target) for way in chosen),
        launches=len(legs),
        why=_WHY[names[0]],
        texts=lambda: [text(leg.run, choice.policy, target) for leg, _ in legs],
        bind=partial(_bind, problem=problem, legs=legs, policy=choice.policy),
        policy=choice.policy,
        origin=choice.origin,
        evidence=choice.evidence,
        details={
            "passes": len(legs),
            "lengths": [leg.run.n for leg, _ in legs],
            "bytes": sum(_bytes(leg.run) for leg, _ in legs),
        },
    )


_WHY = {
    "one pass": "scratch holds a line, so memory is read and written once for each axis",
    "two passes": "columns, then rows: for lines longer than scratch, or fewer than lanes",
    "chirp": "the length has a prime beyond 13: a convolution with a chirp",
}


def _bind(
    engine: Engine,
    problem: FftProblem | ConvolutionProblem,
    legs: list[_Step],
    policy: CpuFftPolicy,
) -> Plan:
    steps = []
    for k, (leg, operands) in enumerate(legs):
        factors = [make and make() for make in (leg.source_factors, leg.target_factors)]
        # Convolutions by blocks write several parts of the result, each scaled by itself.
        last = k == len(legs) - 1 or isinstance(operands[-1], Part)
        run = replace(leg.run, last=last)
        plan = CpuPassPlan(engine, run, policy, *factors)
        steps.append(Step(plan, operands, takes_scalars=last, scalars=(1.0,)))
    whole = Steps(steps)
    whole.flop, whole.bytes = problem.flop, problem.bytes
    return whole


def _operands(leg: Leg, line: tuple[_Operand, ...]) -> tuple[_Operand, ...]:
    """What a pass reads, multiplies by and writes, given a line's source, target and factors."""
    source = line[0] if isinstance(leg.source, str) else leg.source
    target = line[1] if isinstance(leg.target, str) else leg.target
    return source, *(line[2:] if leg.run.target.times else ()), target


def _bytes(run: Pass) -> int:
    return (
        run.real.itemsize
        * run.count
        * sum(side.rows * side.side.components for side in (run.source, run.target))
    )


def _seconds(way: Way, choice: Choice[CpuFftPolicy], costs: DeviceCosts, target: Target) -> float:
    """Of a way's kernels: strips are computed whole, and each by one compute unit."""
    policy, found = choice.policy, 0.0
    for leg in way.legs:
        run = leg.run
        each = strips(run, policy)
        units = min(each, target.compute_units)
        points = each * policy.vector * run.planes * run.n
        rate = costs.multiply_adds * (2 if run.real.itemsize < 8 else 1) / 2 * _EFFICIENCY
        computing = points * (2.5 * log2(max(2, run.n)) + 4) / run.planes / (rate * units)
        wait = sum(_LAYOUTS[side.side.layout] for side in (run.source, run.target)) / 2
        found += overlapped(computing, wait * _bytes(run) / (costs.bandwidth * units))
    return found


def lines(problem: FftProblem) -> list[tuple[Line, tuple[_Operand, _Operand]]]:
    """The transforms of a problem, an axis each, with what each reads and writes.

    Numbers that are not there are read as zeros along the axis itself; along axes that are not
    transformed yet there are as many as the input has, and no more than will be wanted.
    """
    p = problem
    lengths = dict(zip(p.axes, p.lengths, strict=True))
    order = [p.axes[-1], *p.axes[:-1]] if p.kind == "r2c" else list(p.axes)
    real = order[-1] if p.kind == "c2r" else order[0] if p.kind == "r2c" else None
    shape = [min(n, lengths.get(axis, n)) for axis, n in enumerate(p.shape_in)]
    if p.kind == "c2r":
        shape[p.axes[-1]] = min(p.shape_in[p.axes[-1]], lengths[p.axes[-1]] // 2 + 1)
    middle = _middle(p, shape, lengths)
    found: list[tuple[Line, tuple[_Operand, _Operand]]] = []
    source: _Operand = 0
    strides = p.strides_in
    for k, axis in enumerate(order):
        last = k == len(order) - 1
        goal: _Operand = 1
        goal_strides = p.strides_out
        if middle is not None and not last:
            goal, goal_strides = middle[0], middle[1]
        first: Form = "real" if p.from_real and k == 0 else "complex"
        forms: tuple[Form, Form] = (first, "complex")
        if axis == real:
            forms = ("real", "half") if p.kind == "r2c" else ("half", "real")
        after = lengths[axis] if p.kind != "r2c" or axis != real else lengths[axis] // 2 + 1
        others = merged(
            Axis(shape[a], (strides[a], goal_strides[a])) for a in range(len(shape)) if a != axis
        )
        line = Line(
            lengths[axis], p.inverse, p.real,
            End(forms[0], shape[axis], strides[axis]), End(forms[1], after, goal_strides[axis]),
            tuple(others),
        )  # fmt: skip
        found.append((line, (source, goal)))
        shape[axis] = after
        source, strides = goal, goal_strides
    return found


def _middle(
    p: FftProblem, shape: list[int], lengths: dict[int, int]
) -> tuple[Temporary, tuple[int, ...]] | None:
    """Where complex axes go before the real one is transformed, for the input stays as it is."""
    if p.kind != "c2r" or len(p.axes) == 1:
        return None
    whole = [lengths[a] if a in p.axes[:-1] else n for a, n in enumerate(shape)]
    itemsize = 2 * p.real.itemsize
    room = Temporary("transformed along the other axes", prod(whole) * itemsize, itemsize)
    return room, contiguous_strides(tuple(whole))
