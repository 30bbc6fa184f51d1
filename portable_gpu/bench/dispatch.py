"""The library's choice of a variant for random cases, compared with every other variant."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.bench import timing
from portable_gpu.bench.cases import GROUPS, cases
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.timing import Prepared
from portable_gpu.checking.operands import uniform
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.ops.registry import BENCHMARKS
from portable_gpu.ops.variant import Variant, best_of, chosen, sample_of_kinds
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan

#: A choice is a fault if its time is at least this many times that of the fastest variant.
FAULT = 2.0
_DOUBT = 1.25  # a larger ratio is measured again, because a minimum of short timings is too small
#: Seconds of a turn in the first measurement, and its turns; later turns take ``timing.TURN``.
FIRST_TURN, FIRST_TURNS = 1e-3, 3
TURNS = 9
_MOST_CALLS = 200  # of a turn
_HOPELESS = 3.0  # times the first side's time
#: The name of the choice in the result of :func:`contest`.
OWN = "the library's choice"


#: The operations whose choices are timed, the usual one first.
CONTESTED = {
    name: benchmark.contested
    for name, benchmark in BENCHMARKS.items()
    if benchmark.contested is not None
}
#: The operations that each name of the command stands for: its own, or those of its family.
ROWS = {name: (name,) for name in CONTESTED} | {
    name: timed
    for name, timed in GROUPS.items()
    if name not in CONTESTED and set(timed) <= set(CONTESTED)
}


@dataclass(frozen=True)
class Standing:
    """The time of the chosen variant for one case, and the times of all variants.

    Attributes:
        case: The case.
        chosen: The name of the variant that the library chose.
        chosen_seconds: The seconds of a call with the library's choice, in its fastest turn.
        ways: The seconds of a call of each variant, in its fastest turn.
        left_out: The variants that could not be built, and the reasons.
    """

    case: Case
    chosen: str
    chosen_seconds: float
    ways: Mapping[str, float]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The name of the fastest variant."""
        return min(self.ways, key=self.ways.__getitem__)

    @property
    def ratio(self) -> float:
        """The time of the choice over that of the fastest variant, and at least 1."""
        return max(1.0, self.chosen_seconds / self.ways[self.best])

    def to_dict(self) -> dict[str, Any]:
        """The fields, the fastest variant and the ratio, for JSON."""
        fields = {name: value for name, value in asdict(self).items() if name != "case"}
        named = {
            "operation": self.case.operation,
            "size": self.case.size,
            "dtype": self.case.dtype,
            "flop": self.case.flop,
        }
        return {**named, **fields, "best": self.best, "ratio": self.ratio}


@dataclass(frozen=True)
class Distribution:
    """The distribution of the ratios of many cases.

    Attributes:
        count: The number of cases.
        median, ninety, ninety_nine, worst: The quantiles.
        doubtful: The number of cases whose choice takes 1.25 times the best time or more.
        faults: The number of cases whose choice takes twice the best time or more.
    """

    count: int
    median: float
    ninety: float
    ninety_nine: float
    worst: float
    doubtful: int
    faults: int

    @classmethod
    def of(cls, found: Sequence[Standing]) -> Distribution:
        """The distribution of one product or more."""
        ratios = np.array([standing.ratio for standing in found])
        median, ninety, ninety_nine = (float(q) for q in np.quantile(ratios, (0.5, 0.9, 0.99)))
        return cls(
            len(found), median, ninety, ninety_nine, float(ratios.max()),
            int((ratios > _DOUBT).sum()), int((ratios >= FAULT).sum()),
        )  # fmt: skip


def random_cases(operation: str, count: int, dtype: str, seed: int, on_cpu: bool) -> list[Case]:
    """Cases whose extents are uniform on a logarithmic scale."""
    rng, draw = random.Random(seed), CONTESTED[operation].draw
    sizes = [draw(rng, on_cpu) for _ in range(count)]
    return cases(operation, [dtype], sizes, on_cpu)


class Contest:
    """Times cases of one operation on one engine, in memory that all of them share."""

    def __init__(self, engine: Engine, every: Sequence[Case]) -> None:
        """Fill inputs with random numbers, as long as the longest of ``every`` needs."""
        self.engine, self._of = engine, CONTESTED[every[0].operation]
        #: Seconds of timing, without those of compilation.
        self.timed = 0.0
        self._buffers: dict[Engine, list[Any]] = {}
        sizes = [
            int(nbytes) for nbytes in np.max([self._of.nbytes(case) for case in every], axis=0)
        ]
        dtype = dtype_of(every[0].dtype)
        rng = np.random.default_rng(1)
        for item in filter(None, (engine, engine.caller)):
            self._buffers[item] = [item.allocate(size) for size in sizes]
            for buffer, size in zip(self._buffers[item][:-1], sizes, strict=False):
                cl.enqueue_copy(item.queue, buffer, uniform(rng, (size // dtype.itemsize,), dtype))

    def _threads(self, engine: Engine) -> str:
        return "worker threads" if engine is self.engine else "calling thread"

    def texts(self, case: Case) -> list[Specialization]:
        """The texts of the variants that :meth:`run` times by default."""
        engine, problem = self.engine, self._of.problem(case)
        every = self._of.variants(problem, engine.target, engine.table)
        timed = [*sample_of_kinds(every), best_of(every, engine.target)]
        result: list[Specialization] = []
        for variant in timed:
            with suppress(PortableGPUError):  # of a variant that run leaves out, and says why
                result += variant.texts()
        return result

    def run(self, case: Case, timed: Sequence[Variant] | None = None) -> Standing:
        """Build variants of a case, then time them by turns.

        Args:
            case: The case.
            timed: The variants; by default up to three of each kind, and the library's choice.
        """
        variants, problem = self._of.variants, self._of.problem(case)
        alone = self._of.alone and partial(self._of.alone, problem)
        engine = self.engine.for_host_work(problem.bytes, problem.flop, alone)
        others = [other for other in self._buffers if other is not engine]
        every = variants(problem, engine.target, engine.table)
        choice, plan = chosen(engine, every)
        if timed is None:
            timed = [*sample_of_kinds(every), choice]
        ways = {item.name: (item, engine) for item in timed}
        for other in others:
            best = best_of(variants(problem, other.target, other.table), other.target)
            ways[f"its choice, {self._threads(other)}"] = best, other
        rivals, left_out = {}, {}
        for name, (variant, where) in ways.items():
            try:
                if variant.works is not None and not variant.works(where):
                    left_out[name] = "the device does not do it as it should"
                    continue
                rivals[name] = self._prepare(variant.bind(where), where)
                rivals[name].seconds(0, 1)
            except PortableGPUError as error:
                left_out[name] = str(error).splitlines()[0]
        begin = time.monotonic()
        times = contest(self._prepare(plan, engine), rivals)
        self.timed += time.monotonic() - begin
        chosen_seconds = times.pop(OWN)
        return Standing(case, choice.name, chosen_seconds, times, left_out)

    def prepared(self, variant: Variant) -> Prepared:
        """Calls of a variant of one of the cases, on the engine."""
        return self._prepare(variant.bind(self.engine), self.engine)

    def race(self, variants: Sequence[Variant]) -> dict[str, float]:
        """Seconds of a call of each variant of one case, in its fastest turn, by its name."""
        different = {variant.name: variant for variant in variants}
        if len(different) == 1:
            return dict.fromkeys(different, 1.0)
        sides = {name: self.prepared(variant) for name, variant in different.items()}
        for side in sides.values():
            side.seconds(0, 1)
        begin = time.monotonic()
        seconds = fastest(sides, TURNS, timing.TURN)
        self.timed += time.monotonic() - begin
        return seconds

    def _prepare(self, plan: Plan, engine: Engine) -> Prepared:
        """Calls as users make them with NumPy arrays; on a GPU, launches that stand in line."""
        state, buffers = engine.state(), self._buffers[engine]
        enqueue = partial(plan.enqueue, state, buffers, (0,) * len(buffers), self._of.scalars)
        if engine.maps_host_memory:
            return Prepared([lambda: state.event(enqueue()).wait()])
        return Queued(engine, [enqueue])


def contest(own: Prepared, rivals: Mapping[str, Prepared]) -> dict[str, float]:
    """Seconds of a call of each rival, and of the choice.

    Where a rival looks faster by far, both are timed again, for longer.
    """
    sides = {OWN: own, **rivals}
    seconds = fastest(sides, FIRST_TURNS, FIRST_TURN)
    sure: set[str] = set()
    while True:
        best = min(seconds, key=seconds.__getitem__)
        if best in sure or seconds[OWN] <= _DOUBT * seconds[best]:
            return seconds
        pair = {name: sides[name] for name in (OWN, best)}
        seconds |= fastest(pair, TURNS, timing.TURN)
        sure.add(best)


def fastest(sides: Mapping[str, Prepared], turns: int, turn: float) -> dict[str, float]:
    """Seconds of a call in the fastest turn of each side.

    Other work on the machine can only make a turn slower.  A side that is slow, and much slower
    than the first side, is not timed again after its first call.
    """
    result: dict[str, float] = {}
    calls: dict[str, int] = {}
    for name, side in sides.items():
        side.seconds(0, 1)
        once = result[name] = side.seconds(0, 1)
        if once <= max(turn, _HOPELESS * next(iter(result.values()))):
            calls[name] = max(1, min(_MOST_CALLS, round(turn / max(once, 1e-9))))
    for _ in range(turns):
        for name, count in calls.items():
            result[name] = min(result[name], sides[name].seconds(0, count) / count)
    return result
