"""The comparison of policies, which are timed by turns in calls of the library, and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from statistics import fmean
from typing import Any, Protocol

from portable_gpu.bench.cases import oracle
from portable_gpu.bench.measure import Bench, Contestant, alternate, ratios
from portable_gpu.bench.peers import Ours
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import calls_a_turn
from portable_gpu.checking.check import Check
from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle
from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.ops.registry import FAMILY_OF
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.program import ProgramCache
from portable_gpu.tuner.jobs import TUNED, TuningJob
from portable_gpu.tuning.policy import TunedPolicy
from portable_gpu.tuning.table import LookUp, PolicyRow, RevisedTable, RowKey, TuningTable

#: A policy that takes ``_HOPELESS`` times the other's time in ``_LOOK`` turns is not timed again.
_HOPELESS, _LOOK = 1.5, 2
#: A smaller gain does not count, even if the spread of the times is smaller.
LEAST_GAIN = 0.01
#: A winner may be slower by this much on a problem, even if the spread of the times is smaller.
_LEAST_LOSS = 0.02


class TrialError(PortableGPUError):
    """A policy that could not be judged: its kernel did not build, was wrong, or did not end."""


class TrialTimeoutError(TrialError):
    """A measurement or a check took longer than its limit."""


@dataclass(frozen=True)
class Race:
    """The times of two policies on a job's problems.

    The race ends early at a problem on which the first policy is much slower.

    Attributes:
        seconds: The seconds of a call with the first policy in its fastest turn, by problem.
        other_seconds: The seconds of a call with the other policy in its fastest turn, by problem.
        ratios: The first policy's time over the other's, turn by turn.
    """

    seconds: tuple[float, ...]
    other_seconds: tuple[float, ...]
    ratios: tuple[Statistic, ...]

    @property
    def relative(self) -> float:
        """The geometric mean of the ratios; below 1 the first policy is faster."""
        return exp(fmean(log(ratio.median) for ratio in self.ratios))

    @property
    def spread(self) -> float:
        """The mean spread of the ratios."""
        return fmean(ratio.spread for ratio in self.ratios)

    @property
    def fastest(self) -> float:
        """As :attr:`relative`, of the fastest turns; other work can only make turns slower."""
        pairs = zip(self.seconds, self.other_seconds, strict=True)
        return exp(fmean(log(mine / theirs) for mine, theirs in pairs))

    @property
    def won(self) -> bool:
        """Whether the first policy is faster by more than the spread, and slower on no problem.

        On a busy machine the ratios of many turns may be wrong by chance, so the fastest turns
        must also be faster.
        """
        faster = 1 - self.relative > max(self.spread, LEAST_GAIN)
        return faster and self.fastest < 1 - LEAST_GAIN and self.loss is None

    @property
    def loss(self) -> int | None:
        """The number of the first problem on which the first policy is slower beyond the spread."""
        for number, ratio in enumerate(self.ratios):
            if ratio.median > 1 + max(ratio.spread, _LEAST_LOSS):
                return number
        return None


class Judge(Protocol):
    """The measurements and checks of a search; both methods may raise :class:`TrialError`."""

    def race(
        self, job: TuningJob, policy: TunedPolicy, other: TunedPolicy, turns: int, limit: float
    ) -> Race:
        """Time a policy against another one, within ``limit`` seconds."""

    def verify(self, job: TuningJob, policy: TunedPolicy, limit: float) -> str:
        """The fault of a policy's results; empty if they are right."""


class Pinned(RevisedTable):
    """Another table with one row added or replaced."""

    def __init__(self, table: TuningTable, key: RowKey, policy: TunedPolicy) -> None:
        super().__init__(table)
        self._key, self._policy = key, policy
        #: Whether a choice has returned the policy.
        self.used = False

    def revise(self, asked: LookUp, row: PolicyRow[Any]) -> PolicyRow[Any]:
        """See :class:`RevisedTable`."""
        named = asked.kernel, asked.elem.name, asked.shape_class
        if named != (self._key.kernel, self._key.element, self._key.shape_class):
            return row
        self.used = True
        self._policy.check(asked.target, asked.elem)
        return PolicyRow(self._policy, "the tuner")


class Referee:
    """A :class:`Judge` in this process.  It cannot stop a kernel, so it ignores limits."""

    def __init__(self, device: str | None = None) -> None:
        """Open a device, as :class:`Engine` does."""
        self._engine = Engine(device)
        self._kept: dict[TunedPolicy, dict[Case, Contestant]] = {}
        self._engines: dict[TunedPolicy, Engine] = {}
        self._bench = Bench(self._engine, (), budget=None)
        self._inputs = lru_cache(maxsize=8)(self._make_inputs)

    def race(
        self,
        job: TuningJob,
        policy: TunedPolicy,
        other: TunedPolicy,
        turns: int,
        limit: float = 0.0,
    ) -> Race:
        """See :meth:`Judge.race`."""
        seconds, other_seconds, result = [], [], []
        for case in job.cases:
            first, second = (self._contestant(job, item, case) for item in (policy, other))
            times = _by_turns(first, second, _LOOK)
            hopeless = min(ratios(times[1], times[0])) > _HOPELESS
            if not hopeless:
                times = _by_turns(first, second, turns)
            seconds.append(min(times[0]))
            other_seconds.append(min(times[1]))
            result.append(Statistic.of(ratios(times[1], times[0])))
            if hopeless:
                break
        self._keep_only(other)
        return Race(tuple(seconds), tuple(other_seconds), tuple(result))

    def verify(self, job: TuningJob, policy: TunedPolicy, limit: float = 0.0) -> str:
        """See :meth:`Judge.verify`."""
        engine = self._engine_of(job, policy)
        try:
            for check in edge_checks(job, policy):
                result = check(engine)
                if not result.passed:
                    return f"{result.operation} of {result.case}: {result.message}"
            return ""
        finally:
            self._keep_only(None)

    def _contestant(self, job: TuningJob, policy: TunedPolicy, case: Case) -> Contestant:
        known = self._kept.setdefault(policy, {})
        if case not in known:
            engine = self._engine_of(job, policy)
            inputs, judge = self._inputs(case)
            result = self._bench.admit(Ours(engine), case, inputs, judge)
            if not isinstance(result, Contestant):
                raise TrialError(f"{case}: {result.text}" if result else f"{case}: not timed")
            if case not in job.grid and not _was_used(engine):
                raise TrialError(f"{case} does not take {job.key.kernel}")
            known[case] = result
        return known[case]

    def _engine_of(self, job: TuningJob, policy: TunedPolicy) -> Engine:
        """An engine that takes the policy; its programs are not written to the user's cache."""
        if policy not in self._engines:
            self._engines[policy] = _pinned(self._engine, job.key, policy)
        return self._engines[policy]

    def _keep_only(self, policy: TunedPolicy | None) -> None:
        """Free the programs and the memory of all other policies."""
        for item in [known for known in self._engines if known != policy]:
            engine = self._engines.pop(item)
            self._kept.pop(item, None)
            engine.close()

    def _make_inputs(self, case: Case) -> tuple[list[Operands], Oracle]:
        inputs = self._bench.inputs(case)
        return inputs, oracle(case, inputs[0])


def _pinned(engine: Engine, key: RowKey, policy: TunedPolicy) -> Engine:
    """An engine on the same queue with one policy replaced, also in its engine for small calls."""
    pinned = Engine(queue=engine.queue, table=Pinned(engine.table, key, policy))
    pinned.programs = ProgramCache(pinned.context, pinned.device, DiskCache(None))
    if engine.caller is not None:
        pinned.caller = _pinned(engine.caller, key, policy)
    return pinned


def _by_turns(first: Contestant, second: Contestant, turns: int) -> tuple[list[float], list[float]]:
    """The times of both; the first one starts half of the rounds, and the second one the others."""
    sides = [(side.timed, calls_a_turn(side.once)) for side in (first, second)]
    times: tuple[list[float], list[float]] = [], []
    for order, count in (((0, 1), (turns + 1) // 2), ((1, 0), turns // 2)):
        prepared, calls = zip(*(sides[i] for i in order), strict=True)
        for i, result in zip(order, alternate(prepared, calls, count), strict=True):
            times[i].extend(result)
    return times


def _was_used(engine: Engine) -> bool:
    tables = [item.table for item in (engine, engine.caller) if item is not None]
    return any(isinstance(table, Pinned) and table.used for table in tables)


def edge_checks(job: TuningJob, policy: TunedPolicy) -> Iterator[Check]:
    """The checks of a policy for the problems of a job, in each of their dtypes and families.

    Checks of the kernel's own family run before those of other families that use the row: flat
    products of gemm may use a row of gemv.
    """
    tile = policy.edges(job.elem.itemsize)
    family = next(name for name in TUNED if f"{job.key.kernel}_".startswith(f"{name}_"))
    served = [(name, c.dtype) for c in job.cases for name in (family, FAMILY_OF[c.operation])]
    for name, dtype in dict.fromkeys(served):
        yield from TUNED[name].edge_checks(tile, dtype_of(dtype), job.cases)
