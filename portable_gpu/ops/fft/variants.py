"""The variants of the transforms of arrays: one axis after another, each by its passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count, pairwise, product
from math import prod
from typing import TypeAlias

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.fft import cpu
from portable_gpu.ops.fft.convolution import ConvolutionProblem, convolution_lines
from portable_gpu.ops.fft.decompositions import Decomposition, PassStep, decompositions, passes_of
from portable_gpu.ops.fft.kernels import FftPolicy, PassKernels, pass_kernels
from portable_gpu.ops.fft.passes import Pass, moved
from portable_gpu.ops.fft.policy import CpuFftPolicy
from portable_gpu.ops.fft.problem import FftProblem, Form, Line, LineOperand
from portable_gpu.ops.fft.tables import Table
from portable_gpu.ops.variant import Variant, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import PolicyRow, TuningTable

#: The part of a call's time that programs in common may cost.
_HARDLY = 0.01
#: An array that a step reads or writes: an input, the output, or a temporary.
_Operand: TypeAlias = int | Temporary | Part
#: The passes of a launch, with its source, the array that it multiplies by (if any), its target.
_Step: TypeAlias = tuple[tuple[PassStep, ...], tuple[_Operand, ...]]


def one_pass_plan(engine: Engine, line: Line, factors: Table) -> Plan | None:
    """Plan the transforms of lines by one pass that multiplies its results by factors.

    Returns ``None`` if one pass does not suffice, or if passes of the device lack the line's forms.
    """
    kernels = pass_kernels(engine.target)
    if not kernels.orders:
        return None
    elem = element(dtype_of("complex128" if line.real.needs_fp64 else "complex64"))
    choice: PolicyRow[FftPolicy] = engine.table.choose(
        kernels.name, kernels.policy, engine.target, elem
    )
    listed = decompositions(line, choice.policy.pass_limits, (f"between{k}" for k in count()))
    if [item.name for item in listed] != ["one pass"]:  # two passes may be faster for few lines
        return None
    pass_ = listed[0].pass_steps[0].pass_
    pass_ = replace(pass_, target=replace(pass_.target, factor="rows"))
    return kernels.plan(engine, [pass_], choice.policy, (None, factors), ())


def make_plan(
    engine: Engine,
    problem: FftProblem | ConvolutionProblem,
    other_launches: Sequence[Sequence[Pass]] = (),
) -> Plan:
    """Plan the variant with the least estimated time.

    Args:
        engine, problem: The device, and the problem.
        other_launches: See :func:`variants`.

    Raises:
        BuildError: The driver refused a kernel.
        DeviceMemoryError: The tables cannot be allocated on the device.
    """
    return bind_best(engine, variants(problem, engine.target, engine.table, other_launches))


def variants(
    problem: FftProblem | ConvolutionProblem,
    target: Target,
    table: TuningTable,
    other_launches: Sequence[Sequence[Pass]] = (),
) -> list[Variant]:
    """List the variants: all for a single axis; for several axes, the best of each.

    On CPUs the launches of a convolution have a text in common, and so have those of the transforms
    along an axis.  A program for several launches takes less time to compile than one for each.

    Args:
        problem: The problem.
        target, table: The device, and its measured policies.
        other_launches: The passes of the other launches of the call, which have the same text too.
    """
    candidates, choice = _candidates(problem, target, table)
    return [
        _variant(problem, candidate, choice, other_launches, target) for candidate in candidates
    ]


def launches_of(problem: FftProblem, target: Target, table: TuningTable) -> list[list[Pass]]:
    """Return the passes of each launch of the variant with the least estimated time."""
    candidates, _ = _candidates(problem, target, table)
    costs = DeviceCosts.of("device", target)
    best = min(
        candidates, key=lambda candidate: costs.seconds(candidate.seconds, len(candidate.launches))
    )
    return [passes_of(pass_steps) for pass_steps, _ in best.launches]


def strips_of(problem: FftProblem, target: Target, table: TuningTable) -> tuple[int, int]:
    """Return the strips of all passes of that variant on a CPU, and the numbers of their lanes."""
    elem = element(dtype_of("complex128" if problem.real.needs_fp64 else "complex64"))
    policy = table.choose("fft/cpu", CpuFftPolicy, target, elem).policy
    counts = [
        (cpu.strips(pass_, policy), pass_.n)
        for passes in launches_of(problem, target, table)
        for pass_ in passes
    ]
    return sum(n for n, _ in counts), sum(n * policy.vector * length for n, length in counts)


@dataclass(frozen=True)
class _Decompositions:
    """Decompositions of all axes.

    Attributes:
        chosen: The decomposition of each axis.
        launches: Their launches, in order.
        seconds: The estimated seconds of the launches.
    """

    chosen: tuple[Decomposition, ...]
    launches: list[_Step]
    seconds: float


@lru_cache(maxsize=8)
def _candidates(
    problem: FftProblem | ConvolutionProblem, target: Target, table: TuningTable
) -> tuple[list[_Decompositions], PolicyRow[FftPolicy]]:
    """List the decompositions: all for a single axis; for several axes, the best of each."""
    elem = element(dtype_of("complex128" if problem.real.needs_fp64 else "complex64"))
    kernels = pass_kernels(target)
    choice: PolicyRow[FftPolicy] = table.choose(kernels.name, kernels.policy, target, elem)
    costs = DeviceCosts.of("device", target)
    names = (f"between{k}" for k in count())
    axes = _lines(problem)
    operands = [line_operands for _, line_operands in axes]
    by_axis = [
        kernels.with_fused_passes(
            decompositions(line, choice.policy.pass_limits, names), line, choice.policy, target
        )
        for line, _ in axes
    ]

    def seconds(decomposition: Decomposition) -> float:
        return sum(
            kernels.seconds(passes_of(steps), choice.policy, target, costs)
            for steps in decomposition.launches
        )

    def cost(decomposition: Decomposition) -> float:
        return costs.seconds(seconds(decomposition), len(decomposition.launches))

    best = [] if len(by_axis) == 1 else _best_of_axes(by_axis, cost)
    chosen = [[item] for item in best] or by_axis
    every = [(combined, operands) for combined in product(*chosen)]
    for k, ((first, places), (second, others)) in enumerate(pairwise(axes)):
        if places[1] != others[1]:  # both must write the same array
            continue
        for fused in kernels.fused_axes(first, second, choice.policy, target, names):
            combined = (*best[:k], fused, *best[k + 2 :])
            every.append((combined, [*operands[:k], (places[0], others[1]), *operands[k + 2 :]]))
    return [
        _Decompositions(
            combined, _launches(problem, combined, places, kernels), sum(map(seconds, combined))
        )
        for combined, places in every
    ], choice


def _launches(
    problem: FftProblem | ConvolutionProblem,
    chosen: Sequence[Decomposition],
    operands: Sequence[tuple[_Operand, ...]],
    kernels: PassKernels,
) -> list[_Step]:
    """Return the launches of decompositions, in order."""
    launches: list[_Step] = [
        (pass_steps, _operands(pass_steps, line_operands, kernels.between))
        for decomposition, line_operands in zip(chosen, operands, strict=True)
        for pass_steps in decomposition.launches
    ]
    return [
        (_with_scale(pass_steps, problem.scaled and _ends(k, launches)), line_operands)
        for k, (pass_steps, line_operands) in enumerate(launches)
    ]


def _best_of_axes(
    by_axis: Sequence[Sequence[Decomposition]], cost: Callable[[Decomposition], float]
) -> list[Decomposition]:
    """Return the best decomposition of each axis.

    Where it costs hardly more, an axis takes the passes of another axis: these need no programs of
    their own, each of which takes a tenth of a second or more to compile.
    """
    best = [min(listed, key=cost) for listed in by_axis]
    limit = _HARDLY * sum(map(cost, best))
    for k, listed in enumerate(by_axis):
        others = [_rendered(item) for item in (*best[:k], *best[k + 1 :])]
        alike = [item for item in listed if _rendered(item) in others]
        if alike and cost(cheapest := min(alike, key=cost)) <= cost(best[k]) + limit:
            best[k] = cheapest
    return best


def _rendered(decomposition: Decomposition) -> tuple[object, ...]:
    """Return what the texts of a decomposition depend on, apart from the policy."""
    passes = passes_of(decomposition.pass_steps)
    return decomposition.path, *(
        (pass_.n, pass_.planes, pass_.source.rendered, pass_.target.rendered) for pass_ in passes
    )


def _lines(
    problem: FftProblem | ConvolutionProblem,
) -> Sequence[tuple[Line, tuple[_Operand, ...]]]:
    if isinstance(problem, ConvolutionProblem):
        return convolution_lines(problem)
    return lines(problem)


def _variant(
    problem: FftProblem | ConvolutionProblem,
    candidate: _Decompositions,
    choice: PolicyRow[FftPolicy],
    other_launches: Sequence[Sequence[Pass]],
    target: Target,
) -> Variant:
    kernels = pass_kernels(target)
    chosen, launches = candidate.chosen, candidate.launches
    names = list(dict.fromkeys(decomposition.name for decomposition in chosen))
    paths = list(dict.fromkeys(decomposition.path for decomposition in chosen))
    company = _company(problem, candidate, other_launches)
    lengths = [pass_.n for pass_steps, _ in launches for pass_ in passes_of(pass_steps)]
    path = " and ".join(paths)
    return Variant(
        path=path,
        name=f"{path}: {' x '.join(map(str, lengths))}",
        kind=path,
        estimate=candidate.seconds,
        launches=len(launches),
        why="; ".join(_WHY[name] for name in names),
        texts=lambda: [
            kernels.specialization(passes_of(pass_steps), choice.policy, target, others)
            for (pass_steps, _), others in zip(launches, company, strict=True)
        ],
        bind=partial(
            _bind, problem=problem, launches=launches, company=company, policy=choice.policy
        ),
        row=choice,
        details={
            "passes": len(lengths),
            "lengths": lengths,
            "bytes": sum(moved(passes_of(pass_steps)) for pass_steps, _ in launches),
        },
    )


def _company(
    problem: FftProblem | ConvolutionProblem,
    candidate: _Decompositions,
    other_launches: Sequence[Sequence[Pass]],
) -> list[list[Sequence[Pass]]]:
    """Return, for each launch, the passes of the launches that have a text in common with it."""
    every = [passes_of(pass_steps) for pass_steps, _ in candidate.launches]
    if isinstance(problem, ConvolutionProblem) or other_launches:
        return [[*every, *other_launches]] * len(every)
    result: list[list[Sequence[Pass]]] = []
    for decomposition in candidate.chosen:
        first, count = len(result), len(decomposition.launches)
        result += [[*every[first : first + count]]] * count
    return result


_WHY = {
    "one pass": "scratch or a group holds a line, so memory is read and written once for each axis",
    "one pass without pairs": "one pass of real lines as complex ones: few may share a transform",
    "two passes": "columns, then rows: for lines too long for one pass, or too few",
    "three passes": "columns, and two passes of the rest: for lines too long for two",
    "two axes": "one launch transforms planes along both, so that a cache holds them in between",
    "chirp": "the length has a prime beyond 13: a convolution with a chirp",
}


def _bind(
    engine: Engine,
    problem: FftProblem | ConvolutionProblem,
    launches: list[_Step],
    company: list[list[Sequence[Pass]]],
    policy: FftPolicy,
) -> Plan:
    kernels = pass_kernels(engine.target)
    steps = []
    for k, ((pass_steps, operands), others) in enumerate(zip(launches, company, strict=True)):
        first, final = pass_steps[0], pass_steps[-1]
        last = _ends(k, launches)
        factors = tuple(make and make() for make in (first.source_factors, final.target_factors))
        pass_plan = kernels.plan(
            engine, passes_of(pass_steps), policy, (factors[0], factors[1]), others
        )
        steps.append(Step(pass_plan, operands, takes_scalars=last, scalars=(1.0,)))
    # A single launch from the input to the output needs no Steps.
    plan: Plan = steps[0].plan if [step.operands for step in steps] == [(0, 1)] else Steps(steps)
    plan.flop, plan.bytes = problem.flop, problem.bytes
    return plan


def _ends(k: int, launches: list[_Step]) -> bool:
    """Whether a launch writes results; convolutions by blocks write them by several launches."""
    return k == len(launches) - 1 or isinstance(launches[k][1][-1], Part)


def _with_scale(pass_steps: tuple[PassStep, ...], scaled: bool) -> tuple[PassStep, ...]:
    """Return the passes of a launch, with or without a scale of the last one's results."""
    *before, last = pass_steps
    return (*before, replace(last, pass_=replace(last.pass_, scaled=scaled)))


def _operands(
    pass_steps: tuple[PassStep, ...], line: tuple[_Operand, ...], has_between: bool
) -> tuple[_Operand, ...]:
    """Return the operands of a launch: source, array between its passes, multiplier, target.

    Args:
        pass_steps: The passes of the launch.
        line: The source, the target and the multiplier of the line.
        has_between: See :attr:`PassKernels.between`.
    """
    first, last = pass_steps[0], pass_steps[-1]
    source = line[0] if isinstance(first.source, str) else first.source
    target = line[1] if isinstance(last.target, str) else last.target
    inner = pass_steps[:-1] if has_between else ()
    between = [
        line[1] if isinstance(pass_step.target, str) else pass_step.target for pass_step in inner
    ]
    return source, *between, *(line[2:] if last.pass_.target.times else ()), target


def lines(problem: FftProblem) -> list[tuple[Line, tuple[_Operand, _Operand]]]:
    """Return the transforms of a problem, one for each axis, with source and target.

    Along the transformed axis, missing elements are read as zeros.  Along axes that are transformed
    later, only the elements are computed that exist in the input and that the transform reads.
    """
    p = problem
    if not p.axes:
        return [(_nothing(p), (0, 1))]
    lengths = dict(zip(p.axes, p.lengths, strict=True))
    firsts = dict(zip(p.axes, p.first, strict=False))
    order = [*reversed(p.axes)] if p.kind == "r2c" else list(p.axes)
    real = order[-1] if p.kind == "c2r" else order[0] if p.kind == "r2c" else None
    shape = [min(n, lengths.get(axis, n)) for axis, n in enumerate(p.shape_in)]
    if p.kind == "c2r":
        shape[p.axes[-1]] = min(p.shape_in[p.axes[-1]], lengths[p.axes[-1]] // 2 + 1)
    middle = _middle(p, shape, lengths)
    result: list[tuple[Line, tuple[_Operand, _Operand]]] = []
    source: _Operand = 0
    strides = p.strides_in
    for k, axis in enumerate(order):
        last = k == len(order) - 1
        target: _Operand = 1
        target_strides = p.strides_out
        if middle is not None and not last:
            target, target_strides = middle[0], middle[1]
        first: Form = "real" if p.from_real and k == 0 else "complex"
        forms: tuple[Form, Form] = (first, "complex")
        if axis == real:
            forms = ("real", "half") if p.kind == "r2c" else ("half", "real")
        after = lengths[axis] if p.kind != "r2c" or axis != real else lengths[axis] // 2 + 1
        if axis in firsts:
            after = p.shape_out[axis]
        apart, together = (
            merged(Axis(shape[a], (strides[a], target_strides[a])) for a in axes if a != axis)
            for axes in (range(p.apart), range(p.apart, len(shape)))
        )
        line = Line(
            lengths[axis], p.inverse, p.real,
            LineOperand(forms[0], shape[axis], strides[axis]),
            LineOperand(forms[1], after, target_strides[axis], firsts.get(axis, 0)),
            (*apart, *together), apart=len(apart),
        )  # fmt: skip
        result.append((line, (source, target)))
        shape[axis] = after
        source, strides = target, target_strides
    return result


def _nothing(p: FftProblem) -> Line:
    """Return the transform along no axis: transforms of length 1, which copy the elements."""
    steps = zip(p.strides_in, p.strides_out, strict=True)
    axes = (Axis(n, pair) for n, pair in zip(p.shape_in, steps, strict=True))
    first: Form = "real" if p.from_real else "complex"
    return Line(
        1,
        False,
        p.real,
        LineOperand(first, 1, 0),
        LineOperand("complex", 1, 0),
        tuple(merged(axes)),
    )


def _middle(
    p: FftProblem, shape: list[int], lengths: dict[int, int]
) -> tuple[Temporary, tuple[int, ...]] | None:
    """Return the temporary of the transforms along complex axes that precede a real one."""
    if p.kind != "c2r" or len(p.axes) == 1:
        return None
    whole = [lengths[a] if a in p.axes[:-1] else n for a, n in enumerate(shape)]
    itemsize = 2 * p.real.itemsize
    temporary = Temporary("transformed along the other axes", prod(whole) * itemsize, itemsize)
    return temporary, contiguous_strides(tuple(whole))
