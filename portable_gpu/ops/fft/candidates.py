"""Every way to transform arrays: a line at a time for each axis, each by its passes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count, product
from math import prod
from typing import TypeAlias

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.candidate import Candidate, bind_best
from portable_gpu.ops.fft.kernels import FftPolicy, pass_kernels
from portable_gpu.ops.fft.problem import End, FftProblem, Form, Line
from portable_gpu.ops.fft.ways import Leg, Place, Way, ways
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import Choice, TuningTable

#: What a step reads or writes: the input, the output, or what lies between.
_Operand: TypeAlias = int | Temporary


def make_plan(engine: Engine, problem: FftProblem) -> Plan:
    """The plan of the way that is estimated to be the fastest.

    Raises:
        BuildError: The driver refused a kernel.
        DeviceMemoryError: The device has no room for the tables.
    """
    return bind_best(engine, candidates(problem, engine.target, engine.table))


def candidates(problem: FftProblem, target: Target, table: TuningTable) -> list[Candidate]:
    """The ways of all axes, in every combination of the first one's with the best of the others."""
    elem = element(dtype_of("complex128" if problem.real.needs_fp64 else "complex64"))
    kernels = pass_kernels(target)
    choice: Choice[FftPolicy] = table.choose(kernels.name, kernels.policy, target, elem)
    costs = DeviceCosts.of("device", target)
    found = []
    names = (f"between{k}" for k in count())
    each = [(operands, ways(line, choice.policy.reach, names)) for line, operands in lines(problem)]

    def seconds(way: Way) -> float:
        return sum(kernels.seconds(leg.run, choice.policy, target, costs) for leg in way.legs)

    start = 0.0 if target.is_cpu else costs.launch  # a CPU's workers are awake from pass to pass
    best = [min(own, key=lambda way: seconds(way) + start * len(way.legs)) for _, own in each]
    varied = range(len(each)) if len(each) == 1 else ()
    for chosen in product(
        *([*own] if k in varied else [best[k]] for k, (_, own) in enumerate(each))
    ):
        legs = [
            (leg, _place(leg.source, operands), _place(leg.target, operands))
            for way, (operands, _) in zip(chosen, each, strict=True)
            for leg in way.legs
        ]
        found.append(_candidate(problem, chosen, legs, choice, sum(map(seconds, chosen)), target))
    return found


def _candidate(
    problem: FftProblem,
    chosen: tuple[Way, ...],
    legs: list[tuple[Leg, _Operand, _Operand]],
    choice: Choice[FftPolicy],
    device: float,
    target: Target,
) -> Candidate:
    names = [way.name for way in chosen]
    path = names[0] if len(set(names)) == 1 else " and ".join(dict.fromkeys(names))
    kernels = pass_kernels(target)
    lengths = " x ".join(str(leg.run.n) for leg, _, _ in legs)
    return Candidate(
        path=path,
        way=f"{path}: {lengths}",
        kind=path,
        device=device,
        launches=len(legs),
        why=_WHY[names[0]],
        texts=lambda: [kernels.text(leg.run, choice.policy, target) for leg, _, _ in legs],
        bind=partial(_bind, problem=problem, legs=legs, policy=choice.policy),
        policy=choice.policy,
        origin=choice.origin,
        evidence=choice.evidence,
        details={
            "passes": len(legs),
            "lengths": [leg.run.n for leg, _, _ in legs],
            "bytes": sum(leg.run.bytes for leg, _, _ in legs),
        },
    )


_WHY = {
    "one pass": "a group holds a line, so memory is read and written once for each axis",
    "two passes": "columns, then rows: for lines too long for one pass, or too few",
    "three passes": "columns, and two passes of the rest: for lines too long for two",
    "chirp": "the length has a prime beyond 13: a convolution with a chirp",
}


def _bind(
    engine: Engine,
    problem: FftProblem,
    legs: list[tuple[Leg, _Operand, _Operand]],
    policy: FftPolicy,
) -> Plan:
    steps = []
    for k, (leg, source, target) in enumerate(legs):
        factors = [make and make() for make in (leg.source_factors, leg.target_factors)]
        last = k == len(legs) - 1
        run = replace(leg.run, last=last)
        plan = pass_kernels(engine.target).plan(engine, run, policy, *factors)
        steps.append(Step(plan, (source, target), takes_scalars=last, scalars=(1.0,)))
    whole = Steps(steps)
    whole.flop, whole.bytes = problem.flop, problem.bytes
    return whole


def _place(place: Place, operands: tuple[_Operand, _Operand]) -> _Operand:
    return operands[place == "target"] if isinstance(place, str) else place


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
