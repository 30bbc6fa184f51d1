"""Every way to transform arrays: a line at a time for each axis, each by its passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count, pairwise, product
from math import prod
from typing import TypeAlias

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.fft.convolution import ConvolutionProblem, convolution_lines
from portable_gpu.ops.fft.kernels import FftPolicy, pass_kernels
from portable_gpu.ops.fft.passes import moved
from portable_gpu.ops.fft.problem import End, FftProblem, Form, Line
from portable_gpu.ops.fft.tables import Table
from portable_gpu.ops.fft.ways import Leg, Way, ways
from portable_gpu.ops.variant import Variant, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import Choice, TuningTable

#: What a step reads or writes: an input, the output, or what lies between.
_Operand: TypeAlias = int | Temporary | Part
#: The passes of a launch, with what it reads, what it multiplies by (if anything), what it writes.
_Step: TypeAlias = tuple[tuple[Leg, ...], tuple[_Operand, ...]]


def one_pass_plan(engine: Engine, line: Line, factors: Table) -> Plan | None:
    """A line in one pass, with factors of the rows of its target.

    ``None`` where it takes more, or where passes of the device do not have its forms.
    """
    kernels = pass_kernels(engine.target)
    if not kernels.orders:
        return None
    elem = element(dtype_of("complex128" if line.real.needs_fp64 else "complex64"))
    choice: Choice[FftPolicy] = engine.table.choose(
        kernels.name, kernels.policy, engine.target, elem
    )
    found = ways(line, choice.policy.reach, (f"between{k}" for k in count()))
    if [way.name for way in found] != ["one pass"]:  # a lonely line may do better in two
        return None
    run = found[0].legs[0].run
    run = replace(run, target=replace(run.target, factor="rows"))
    return kernels.plan(engine, [run], choice.policy, (None, factors))


def make_plan(engine: Engine, problem: FftProblem | ConvolutionProblem) -> Plan:
    """The plan of the way that is estimated to be the fastest.

    Raises:
        BuildError: The driver refused a kernel.
        DeviceMemoryError: The device has no room for the tables.
    """
    return bind_best(engine, variants(problem, engine.target, engine.table))


def variants(
    problem: FftProblem | ConvolutionProblem, target: Target, table: TuningTable
) -> list[Variant]:
    """The ways of a single axis; of several axes the best of each."""
    elem = element(dtype_of("complex128" if problem.real.needs_fp64 else "complex64"))
    kernels = pass_kernels(target)
    choice: Choice[FftPolicy] = table.choose(kernels.name, kernels.policy, target, elem)
    costs = DeviceCosts.of("device", target)
    names = (f"between{k}" for k in count())
    found = _lines(problem)
    each = [
        (
            operands,
            kernels.more_ways(ways(line, choice.policy.reach, names), line, choice.policy, target),
        )
        for line, operands in found
    ]

    def seconds(way: Way) -> float:
        return sum(
            kernels.seconds([leg.run for leg in legs], choice.policy, target, costs)
            for legs in way.launches
        )

    def cost(way: Way) -> float:
        return costs.seconds(seconds(way), len(way.launches))

    chosen = [own if len(each) == 1 else [min(own, key=cost)] for _, own in each]
    every = [(combined, [own for own, _ in each]) for combined in product(*chosen)]
    for k, ((one, places), (two, others)) in enumerate(pairwise(found)):
        if places[1] != others[1]:  # the planes lie where both write
            continue
        for way in kernels.joined_axes(one, two, choice.policy, target, names):
            best = [min(own, key=cost) for _, own in each]
            best[k : k + 2] = [way]
            operands = [own for own, _ in each]
            operands[k : k + 2] = [(places[0], others[1])]
            every.append((tuple(best), operands))
    return [
        _variant(problem, combined, places, choice, sum(map(seconds, combined)), target)
        for combined, places in every
    ]


def _lines(
    problem: FftProblem | ConvolutionProblem,
) -> Sequence[tuple[Line, tuple[_Operand, ...]]]:
    if isinstance(problem, ConvolutionProblem):
        return convolution_lines(problem)
    return lines(problem)


def _variant(
    problem: FftProblem | ConvolutionProblem,
    chosen: tuple[Way, ...],
    operands: list[tuple[_Operand, ...]],
    choice: Choice[FftPolicy],
    device: float,
    target: Target,
) -> Variant:
    kernels = pass_kernels(target)
    names = list(dict.fromkeys(way.name for way in chosen))
    paths = list(dict.fromkeys(way.path for way in chosen))
    launches: list[_Step] = [
        (legs, _operands(legs, own, kernels.between))
        for way, own in zip(chosen, operands, strict=True)
        for legs in way.launches
    ]
    launches = [
        (_with_scale(legs, problem.scaled and _ends(k, launches)), own)
        for k, (legs, own) in enumerate(launches)
    ]
    lengths = [leg.run.n for legs, _ in launches for leg in legs]
    path = " and ".join(paths)
    return Variant(
        path=path,
        name=f"{path}: {' x '.join(map(str, lengths))}",
        kind=path,
        estimate=device,
        launches=len(launches),
        why="; ".join(_WHY[name] for name in names),
        texts=lambda: [
            kernels.text([leg.run for leg in legs], choice.policy, target) for legs, _ in launches
        ],
        bind=partial(_bind, problem=problem, launches=launches, policy=choice.policy),
        policy=choice.policy,
        origin=choice.origin,
        evidence=choice.evidence,
        details={
            "passes": len(lengths),
            "lengths": lengths,
            "bytes": sum(moved([leg.run for leg in legs]) for legs, _ in launches),
        },
    )


_WHY = {
    "one pass": "scratch or a group holds a line, so memory is read and written once for each axis",
    "two passes": "columns, then rows: for lines too long for one pass, or too few",
    "three passes": "columns, and two passes of the rest: for lines too long for two",
    "two axes": "one launch transforms planes along both, so that a cache holds them in between",
    "chirp": "the length has a prime beyond 13: a convolution with a chirp",
}


def _bind(
    engine: Engine,
    problem: FftProblem | ConvolutionProblem,
    launches: list[_Step],
    policy: FftPolicy,
) -> Plan:
    kernels = pass_kernels(engine.target)
    steps = []
    for k, (legs, operands) in enumerate(launches):
        first, final = legs[0], legs[-1]
        last = _ends(k, launches)
        runs = [leg.run for leg in legs]
        factors = tuple(make and make() for make in (first.source_factors, final.target_factors))
        plan = kernels.plan(engine, runs, policy, (factors[0], factors[1]))
        steps.append(Step(plan, operands, takes_scalars=last, scalars=(1.0,)))
    # One launch from the input to the output needs nobody to hand it on.
    whole = steps[0].plan if [step.operands for step in steps] == [(0, 1)] else Steps(steps)
    whole.flop, whole.bytes = problem.flop, problem.bytes
    return whole


def _ends(k: int, launches: list[_Step]) -> bool:
    """Whether a launch writes results: convolutions by blocks write several parts of them."""
    return k == len(launches) - 1 or isinstance(launches[k][1][-1], Part)


def _with_scale(legs: tuple[Leg, ...], scaled: bool) -> tuple[Leg, ...]:
    """The passes of a launch, the last of which multiplies its results by a scale, or does not."""
    *before, last = legs
    return (*before, replace(last, run=replace(last.run, scaled=scaled)))


def _operands(
    legs: tuple[Leg, ...], line: tuple[_Operand, ...], told: bool
) -> tuple[_Operand, ...]:
    """What a launch reads, has between its passes, multiplies by and writes.

    Of a line's source, target and factors; ``told`` as in :class:`PassKernels`.
    """
    first, last = legs[0], legs[-1]
    source = line[0] if isinstance(first.source, str) else first.source
    target = line[1] if isinstance(last.target, str) else last.target
    inner = legs[:-1] if told else ()
    between = [line[1] if isinstance(leg.target, str) else leg.target for leg in inner]
    return source, *between, *(line[2:] if last.run.target.times else ()), target


def lines(problem: FftProblem) -> list[tuple[Line, tuple[_Operand, _Operand]]]:
    """The transforms of a problem, an axis each, with what each reads and writes.

    Numbers that are not there are read as zeros along the axis itself; along axes that are not
    transformed yet there are as many as the input has, and no more than will be wanted.
    """
    p = problem
    if not p.axes:
        return [(_nothing(p), (0, 1))]
    lengths = dict(zip(p.axes, p.lengths, strict=True))
    order = [*reversed(p.axes)] if p.kind == "r2c" else list(p.axes)
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


def _nothing(p: FftProblem) -> Line:
    """The numbers as they are, for a transform along no axis: each by itself."""
    steps = zip(p.strides_in, p.strides_out, strict=True)
    each = (Axis(n, pair) for n, pair in zip(p.shape_in, steps, strict=True))
    first: Form = "real" if p.from_real else "complex"
    return Line(1, False, p.real, End(first, 1, 0), End("complex", 1, 0), tuple(merged(each)))


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
