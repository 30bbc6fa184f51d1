"""Us and a peer by turns: the protocol of every timing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from portable_gpu.bench.operands import copies, operands
from portable_gpu.bench.oracle import oracle
from portable_gpu.bench.peers import Ours, Peer
from portable_gpu.bench.prepared import Prepared
from portable_gpu.bench.statistics import Statistic
from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine

#: Seconds that a turn lasts at least: short calls are repeated and their time divided.
TURN = 0.005
#: Seconds that the turns of a default case may take in all.
BUDGET = 20.0
_LONG = 0.5  # seconds after which we no longer wait for the process to fall silent


@dataclass(frozen=True)
class Row:
    """What one case came to, against one peer.

    Attributes:
        case: What was timed.
        peer: Its name; ``None`` where no peer has the operation.
        ours, theirs: Seconds of a call.
        ratio: Their time over ours, turn by turn: above 1 we are faster.
        calls: Our calls a turn, and theirs.
        copies: Copies of the inputs that took turns.
        error: Our largest error in units of its bound, and theirs.
    """

    case: Case
    peer: str | None
    ours: Statistic
    theirs: Statistic | None
    ratio: Statistic | None
    calls: tuple[int, ...]
    copies: int
    error: tuple[float, ...]


@dataclass(frozen=True)
class Remark:
    """Why something was not timed.

    Attributes:
        case: Of what.
        who: This library or a peer.
        text: The reason.
        wrong: Whether its result was wrong.
    """

    case: Case
    who: str
    text: str
    wrong: bool = False


class Contender(Protocol):
    """Who can be timed: a :class:`Peer`, or a rung of a ladder."""

    @property
    def name(self) -> str:
        """What it is called."""

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :meth:`Peer.prepare`."""


@dataclass(frozen=True)
class Contestant:
    """Someone whose result was found right.

    Attributes:
        name: Who.
        prepared: Its calls.
        error: Of its result, in units of the bound.
        once: Seconds of one call after the first ones.
    """

    name: str
    prepared: Prepared
    error: float
    once: float


@dataclass(frozen=True)
class Bench:
    """Times cases on one engine.

    Attributes:
        engine: Where we run.
        peers: Against whom.
        turns: Turns of each side.
        budget: Seconds that a case's turns may take; ``None`` for no limit.
        eager: Whether calls are timed as they are made, and not the device by itself (on a GPU).
    """

    engine: Engine
    peers: Sequence[Peer]
    turns: int = 9
    budget: float | None = BUDGET
    eager: bool = False

    def run(self, case: Case) -> Iterator[Row | Remark]:
        """Time one case against each peer that has it; nothing is timed whose result is wrong."""
        inputs = self.inputs(case)
        count, judge = len(inputs), oracle(case, inputs[0])
        us = self.admit(Ours(self.engine), case, inputs, judge)
        if not isinstance(us, Contestant):
            if us is not None:
                yield us
            return
        alone = True
        for peer in self.peers:
            them = self.admit(peer, case, inputs, judge)
            if isinstance(them, Remark):
                yield them
            elif them is not None:
                alone = False
                try:
                    yield self._row(case, count, us, them)
                except PortableGPUError as failure:  # its calls cannot stand in line
                    yield Remark(case, peer.name, f"left out: {failure}")
        if alone:
            yield self._row(case, count, us, None)

    def inputs(self, case: Case) -> list[Operands]:
        """Copies of random inputs, enough of them to outgrow the caches."""
        facts = self.engine.target.facts
        first = operands(case)
        count = copies(case, facts.cache_size, facts.global_mem_size)
        return [first, *(tuple(x.copy() for x in first) for _ in range(count - 1))]

    def admit(
        self, peer: Contender, case: Case, inputs: Sequence[Operands], judge: Oracle
    ) -> Contestant | Remark | None:
        """A contestant with a right result, warmed up; or why there is none.

        Args:
            peer: Who.
            case: What to do.
            inputs: Copies of its inputs.
            judge: Finds the error of a result.

        Returns:
            ``None`` where it lacks the operation; a remark where it failed or takes too long.
        """
        found = checked(peer, case, inputs, judge)
        if found is None or isinstance(found, Remark):
            return found
        prepared, error = found
        prepared = prepared.eager() if self.eager else prepared
        try:
            once = warm_up(prepared)
        except (PortableGPUError, RuntimeError, MemoryError) as failure:
            return left_out(case, peer.name, failure)
        if self.budget is not None and once * self.turns > self.budget:
            text = f"left out: a call takes {once:.3g} s, and all turns may take {self.budget:g} s"
            return Remark(case, peer.name, text)
        return Contestant(peer.name, prepared, error, once)

    def _row(self, case: Case, count: int, us: Contestant, them: Contestant | None) -> Row:
        sides = [us] if them is None else [us, them]
        calls = tuple(calls_a_turn(side.once) for side in sides)
        times = alternate([side.prepared for side in sides], calls, self.turns)
        return Row(
            case=case,
            peer=None if them is None else them.name,
            ours=Statistic.of(times[0]),
            theirs=None if them is None else Statistic.of(times[1]),
            ratio=None if them is None else Statistic.of(ratios(*times)),
            calls=calls,
            copies=count,
            error=tuple(side.error for side in sides),
        )


def checked(
    peer: Contender, case: Case, inputs: Sequence[Operands], judge: Oracle
) -> tuple[Prepared, float] | Remark | None:
    """The calls of someone whose result is right, and its error in units of the bound.

    Returns:
        ``None`` where it lacks the operation; a remark where it failed or its result is wrong.
    """
    try:
        prepared = peer.prepare(case, inputs)
        if prepared is None:
            return None
        error = judge(prepared.result())
    except (PortableGPUError, RuntimeError, MemoryError) as failure:
        return left_out(case, peer.name, failure)
    if not error <= 1:  # or NaN
        text = f"its result is {error:.3g} times its bound off; not timed"
        return Remark(case, peer.name, text, wrong=True)
    return prepared, error


def left_out(case: Case, who: str, failure: Exception) -> Remark:
    """Why someone's calls were not timed."""
    first_line = (str(failure).splitlines() or [type(failure).__name__])[0]
    return Remark(case, who, f"left out: {first_line}")


def warm_up(prepared: Prepared) -> float:
    """Call each copy once, then give the seconds of one call."""
    copies_ = len(prepared.calls)
    prepared.seconds(0, copies_)
    once = prepared.seconds(0, 1)
    if once < TURN:  # one call is too short for the clock
        count = calls_a_turn(once)
        once = prepared.seconds(0, count) / count
    return once


def calls_a_turn(once: float) -> int:
    """Calls that make a turn last."""
    return max(1, min(10_000, round(TURN / max(once, 1e-9) + 0.5)))


def alternate(
    sides: Sequence[Prepared], calls: Sequence[int], turns: int
) -> tuple[list[float], ...]:
    """Seconds of a call, turn by turn: the first side, the second, the first ...

    A turn follows when the process is silent.  OpenBLAS's threads spin for a tenth of a second
    after a call, in wait of the next one: whoever came straight after would share the cores
    with them.  And where a call is short, a turn starts with one that does not count: it wakes
    the threads of the side whose turn it is, which is then timed at its best.
    """
    times: tuple[list[float], ...] = tuple([] for _ in sides)
    for turn in range(turns):
        for side, count, found in zip(sides, calls, times, strict=True):
            fall_silent()
            if count > 1:
                side.seconds(turn * count, 1)
            found.append(side.seconds(turn * count + 1, count) / count)
    return times


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Their time over ours in each pair of turns."""
    return [b / a for a, b in zip(ours, theirs, strict=True)]


def fall_silent() -> None:
    """Wait until this process' other threads no longer use a core, half a second at most.

    A look lasts 10 ms, for on a busy machine a thread that spins may get no core for some of them.
    """
    end = time.perf_counter() + _LONG
    while time.perf_counter() < end:
        begin, used = time.perf_counter(), time.process_time()
        time.sleep(0.01)
        if time.process_time() - used < 0.1 * (time.perf_counter() - begin):
            return
