"""The figures of a device: they are measured, fitted, and compared with those in use.

The costs of the device are measured by three calls.  The corrections of the estimates are fitted,
for each kind of variant, to the times of variants of some random cases.  Other cases are held back:
for these, the choices by the new figures are timed against the choices by those in use.

Programs are built by several processes, and timed by this one while the others rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from json import dumps
from typing import Any, Final

import numpy as np

from portable_gpu.bench.builders import Builders
from portable_gpu.bench.dispatch import CONTESTED, Contest, random_cases
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import Prepared
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.ops.reduce.api import sum as sum_of
from portable_gpu.ops.variant import Variant, best_of, ranked
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray
from portable_gpu.side_by_side import cores
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts

#: For each operation and dtype, the numbers of cases to fit to, and of those held back.
_DRAWN: Final = {
    (operation, dtype): counts
    for operation, contested in CONTESTED.items()
    for dtype, counts in contested.calibrated.items()
}
_FITTED, _HELD_BACK = 0, 1
_SEED = 1001
#: The part of the time left for the cases that figures are fitted to; and the part of a block's
#: time in which its programs are built.
_FITTED_PART, _BUILDING_PART = 0.6, 0.7
_MIN_SAMPLES = 4  # of a kind
#: The least number of cases held back for which figures are stored.
_MIN_HELD_BACK = 8
#: The fit has this many samples more, at which the estimate needs no correction; and the relative
#: error from which on a sample counts less.
_PRIOR, _OUTLIER = 2.0, 0.25
_MIN_FACTOR, _MAX_FACTOR = 0.25, 4.0
_TURNS = 5  # of a measurement of the device's costs
_TINY_CALLS = 64
_CASES_PER_LOOK = 16  # at the reference
#: The most variants of a case that are timed in addition to the choice, each of another kind.
_RIVALS = 8
_SUM_BYTES = 1 << 28  # of the array that is added for the bandwidth


@dataclass(frozen=True)
class Sample:
    """The time of one variant.

    Attributes:
        kind: The kind of the variant.
        estimate, launches: Its estimate in seconds, and its launches.
        seconds: The measured seconds of a call, launches included.
    """

    kind: str
    estimate: float
    launches: int
    seconds: float


@dataclass(frozen=True)
class Calibrated:
    """The result of a calibration.

    Attributes:
        costs: The new costs of the device.
        relative: The time of the choices by them over that of the choices by the figures in use:
            the geometric mean over the cases that were held back.
        timed, held_back, differing: The number of cases that were fitted to, that were held back,
            and of those in which the choices differ.
        reference: The times of one call during the calibration, which show disturbances.
    """

    costs: DeviceCosts
    relative: float
    timed: int
    held_back: int
    differing: int
    reference: Statistic

    @property
    def accepted(self) -> bool:
        """Whether the new costs are stored."""
        return not self.refusal

    @property
    def refusal(self) -> str:
        """Why the new costs are not stored; empty if they are."""
        if self.held_back < _MIN_HELD_BACK:
            return (
                f"the budget was enough for {self.held_back} cases to compare, not {_MIN_HELD_BACK}"
            )
        return "the figures in use are better" if self.relative > 1.0 else ""

    @property
    def evidence(self) -> str:
        """A sentence on the measurement."""
        return (
            f"{self.timed} random products and transforms; choices for {self.held_back} others "
            f"take {self.relative:.3f} of the time by the figures before ({self.differing} differ)"
        )


def calibrate(
    engine: Engine,
    until: float,
    builders: Builders,
    watch: Callable[[str], None] = lambda _: None,
) -> Calibrated:
    """Measure the costs of an engine's device, and compare the choices by them.

    Args:
        engine: The engine; choices are compared with those by the figures of its target.
        until: The value of :func:`time.monotonic` after which nothing is built or timed.
        builders: Processes that build the programs.
        watch: Is called with the name of each step.

    Raises:
        PortableGPUError: There was no time for one case to fit to, and one that is held back.
    """
    in_use, shipped = engine.target, replace(engine.target, figures=())
    watch("costs of the device")
    reference = _Reference(engine)
    # Corrections are fitted to both the measured and the shipped costs; the better result is taken.
    bases = with_costs(shipped, device_costs(engine, shipped)), shipped
    begin, seen = time.monotonic(), Counter[str]()
    timed: list[tuple[Case, Mapping[str, float]]] = []
    phase = _Phase(
        _FITTED, begin + _FITTED_PART * (until - begin), partial(_rivals, engine=engine, seen=seen)
    )
    for contest, case, variants in _cases(engine, phase, builders, watch):
        timed.append((case, contest.run(case, variants).ways))
    reference.look()
    targets = [
        in_use,
        *(with_costs(shipped, _corrected(base, _samples(timed, base, engine))) for base in bases),
    ]
    ratios = []
    phase = _Phase(
        _HELD_BACK, until, lambda case: [_choice(case, target, engine) for target in targets]
    )
    for contest, _, choices in _cases(engine, phase, builders, watch):
        ratios.append(_ratios(contest, choices))
        if len(ratios) % _CASES_PER_LOOK == 0:
            reference.look()
    if not timed or not ratios:
        raise PortableGPUError("the budget is too short: programs were built, and nothing compared")
    means = np.exp(np.mean(np.log(ratios), axis=0))
    best = int(means.argmin())
    return Calibrated(
        DeviceCosts.of("device", targets[1 + best]), float(means[best]), len(timed), len(ratios),
        sum(of_case[best] != 1.0 for of_case in ratios), Statistic.of(reference.seconds),
    )  # fmt: skip


@dataclass(frozen=True)
class _Phase:
    """Which cases are timed, until when, and which variants of them."""

    which: int
    until: float
    variants: Callable[[Case], list[Variant]]


def _cases(
    engine: Engine, phase: _Phase, builders: Builders, watch: Callable[[str], None]
) -> Iterator[tuple[Contest, Case, list[Variant]]]:
    """Yield cases whose programs are built, with the variants to time.

    Each operation and dtype has its part of the time that is left.  Programs are built for as many
    cases at a time as there are cores; those that take too long are left out with their cases.
    """
    for number, ((operation, dtype), counts) in enumerate(_DRAWN.items()):
        now = time.monotonic()
        end = now + (phase.until - now) / (len(_DRAWN) - number)
        drawn = random_cases(
            operation, counts[phase.which], dtype, _SEED + phase.which, engine.maps_host_memory
        )
        contest = Contest(engine, drawn)
        for first in range(0, len(drawn), cores()):
            if (now := time.monotonic()) >= end:
                break
            block = {case: phase.variants(case) for case in drawn[first : first + cores()]}
            watch(f"{operation} {dtype}, building case {first + 1} of {len(drawn)}")
            texts = {case: _texts(variants) for case, variants in block.items()}
            for case in builders.build(texts, now + _BUILDING_PART * (end - now)):
                if time.monotonic() >= end:
                    break
                watch(str(case))
                yield contest, case, block[case]


def _texts(variants: Sequence[Variant]) -> list[Specialization]:
    """The texts of variants; a refused text is reported where its variant is timed."""
    texts: list[Specialization] = []
    for variant in variants:
        with suppress(PortableGPUError):
            texts += variant.texts()
    return texts


def _rivals(case: Case, engine: Engine, seen: Counter[str]) -> list[Variant]:
    """The choice for a case, and variants of kinds of which few samples have been ``seen``.

    Variants whose estimates exceed the choice's by more than :data:`_MAX_FACTOR` are left out: no
    correction of theirs alone makes them the choice.  Their kinds get samples in other cases.
    """
    costs = DeviceCosts.of("device", engine.target)
    choice, *others = ranked(_variants(case, engine.target, engine), costs)
    kinds: dict[str, Variant] = {}
    for variant in others:
        if variant.seconds(costs) <= _MAX_FACTOR * choice.seconds(costs):
            kinds.setdefault(variant.kind, variant)
    kinds.pop(choice.kind, None)
    rare = sorted(kinds, key=seen.__getitem__)[:_RIVALS]
    seen.update([choice.kind, *rare])
    return [choice, *(kinds[kind] for kind in rare)]


def with_costs(target: Target, costs: DeviceCosts) -> Target:
    """The target with other costs of the device."""
    return replace(target, figures=(("device", dumps(asdict(costs)), "measured"),))


def device_costs(engine: Engine, target: Target) -> DeviceCosts:
    """Measure the costs of a device, without corrections."""
    units, n = target.compute_units, 1024 if engine.maps_host_memory else 4096
    small, large = (Case("gemm", (extent,) * 3, trans="NN") for extent in (8, n))
    contest = Contest(engine, [large])
    tiny = contest.prepared(_choice(small, target, engine))
    launch, enqueue = _fastest(tiny, _TINY_CALLS), _fastest(_Enqueued(tiny), _TINY_CALLS)
    multiplied = _fastest(contest.prepared(_choice(large, target, engine)), 1)
    moved, moving = _sum(engine)
    return DeviceCosts(
        launch=launch,
        enqueue=enqueue,
        multiply_adds=n**3 / (multiplied * units),
        bandwidth=moved / (_fastest(moving, 1) * units),
        starts={},
        factors={},
    )


def corrections(samples: Sequence[Sample], launch: float) -> tuple[dict[str, float], ...]:
    """Fit the starts and the factors of the estimates, by the kind of the variants.

    It minimises relative errors by weighted least squares, with less weight on outliers.  Few
    samples change an estimate little.
    """
    starts, factors = {}, {}
    for kind in sorted({sample.kind for sample in samples}):
        of_kind = [sample for sample in samples if sample.kind == kind]
        if len(of_kind) >= _MIN_SAMPLES:
            start, factors[kind] = _line(of_kind, launch)
            if start:
                starts[kind] = start
    return starts, factors


def _line(samples: Sequence[Sample], launch: float) -> tuple[float, float]:
    """The start and the factor by which estimates are nearest to the times."""
    times = np.array([sample.seconds for sample in samples])
    launches = np.array([sample.launches * launch for sample in samples])
    estimates = np.array([sample.estimate for sample in samples])
    columns = np.stack([np.full(len(times), np.median(times)), estimates], axis=1) / times[:, None]
    right_side = 1.0 - launches / times
    unit = np.median(times)
    for free in (True, False):  # the start is 0 if it would be negative
        used = columns if free else columns * (0.0, 1.0)
        weights = np.ones(len(times))
        for _ in range(8):
            left = (used.T * weights) @ used + _PRIOR * np.eye(2)
            start, factor = np.linalg.solve(left, (used.T * weights) @ right_side + (0.0, _PRIOR))
            errors = np.abs(used @ (start, factor) - right_side)
            weights = np.minimum(1.0, _OUTLIER / np.maximum(errors, 1e-9))
        if start >= 0:
            break
    return max(0.0, float(start * unit)), float(np.clip(factor, _MIN_FACTOR, _MAX_FACTOR))


def _corrected(target: Target, samples: Sequence[Sample]) -> DeviceCosts:
    costs = DeviceCosts.of("device", target)
    starts, factors = corrections(samples, costs.launch)
    return replace(costs, starts=starts, factors=factors)


def _samples(
    timed: Sequence[tuple[Case, Mapping[str, float]]], target: Target, engine: Engine
) -> list[Sample]:
    """The times of variants with their estimates on a target."""
    return [
        Sample(variant.kind, variant.estimate, variant.launches, times[variant.name])
        for case, times in timed
        for variant in _variants(case, target, engine)
        if variant.name in times
    ]


def _variants(case: Case, target: Target, engine: Engine) -> list[Variant]:
    contested = CONTESTED[case.operation]
    return contested.variants(contested.problem(case), target, engine.table)


def _choice(case: Case, target: Target, engine: Engine) -> Variant:
    return best_of(_variants(case, target, engine), target)


def _ratios(contest: Contest, choices: Sequence[Variant]) -> list[float]:
    """The times of the other choices over that of the first, which is the choice in use."""
    old, *new = choices
    seconds = contest.race(choices)
    return [seconds[variant.name] / seconds[old.name] for variant in new]


def _fastest(timed: Prepared, calls: int) -> float:
    timed.seconds(0, calls)
    return min(timed.seconds(0, calls) for _ in range(_TURNS)) / calls


def _sum(engine: Engine) -> tuple[int, Prepared]:
    """The bytes of an array that caches do not hold, and calls that add its elements."""
    x: Any = np.ones(min(_SUM_BYTES, engine.target.facts.max_alloc_size // 4) // 4, np.float32)
    if engine.maps_host_memory:
        return x.nbytes, Prepared([partial(sum_of, x, engine=engine)])
    array = asarray(x, engine=engine)
    return x.nbytes, Queued(engine, [partial(sum_of, array, engine=engine)])


class _Enqueued(Prepared):
    """Calls of which only the host's time counts."""

    def __init__(self, timed: Prepared) -> None:
        super().__init__(timed.calls, timed.finish)

    def seconds(self, first: int, count: int) -> float:
        """See :class:`Timed`."""
        calls = self.in_turn(first, count)
        begin = time.perf_counter()
        for call in calls:
            call()
        seconds = time.perf_counter() - begin
        self.finish()
        return seconds


class _Reference:
    """One product, timed now and then: other work on the machine makes its times spread."""

    def __init__(self, engine: Engine) -> None:
        case = Case("gemm", (512, 512, 512), trans="NN")
        self._timed = Contest(engine, [case]).prepared(_choice(case, engine.target, engine))
        self._timed.seconds(0, 1)
        self.seconds: list[float] = []
        self.look()

    def look(self) -> None:
        """Time it."""
        self.seconds += [self._timed.seconds(0, 4) / 4 for _ in range(_TURNS)]
