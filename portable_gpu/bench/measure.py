"""Us and a peer by turns: the protocol of every timing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Protocol

from portable_gpu.bench.operands import copies, operands
from portable_gpu.bench.oracle import oracle
from portable_gpu.bench.peers import Ours, Peer
from portable_gpu.bench.revisions import Revision
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import Timed, calls_a_turn, warm_up
from portable_gpu.bench.verdict import Verdict
from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine

#: Seconds that the turns of a default case may take in all.
BUDGET = 20.0


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
        verdict: Beside another revision, whether we are slower.
    """

    case: Case
    peer: str | None
    ours: Statistic
    theirs: Statistic | None
    ratio: Statistic | None
    calls: tuple[int, ...]
    copies: int
    error: tuple[float, ...]
    verdict: Verdict | None = None


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

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Timed | None:
        """See :meth:`Peer.prepare`."""


@dataclass(frozen=True)
class Contestant:
    """Someone whose result was found right.

    Attributes:
        name: Who.
        timed: Its calls.
        error: Of its result, in units of the bound.
        once: Seconds of one call after the first ones.
    """

    name: str
    timed: Timed
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
        revisions = [peer for peer in self.peers if isinstance(peer, Revision)]
        for revision in revisions:
            yield self._beside(revision, case, inputs, judge)
        others = [peer for peer in self.peers if not isinstance(peer, Revision)]
        if revisions and not others:
            return
        us = self.admit(Ours(self.engine), case, inputs, judge)
        if not isinstance(us, Contestant):
            if us is not None:
                yield us
            return
        alone = not revisions
        for peer in others:
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

    def _beside(
        self, revision: Revision, case: Case, inputs: Sequence[Operands], judge: Oracle
    ) -> Row | Remark:
        """Ours and another revision by turns, each in its process, and that one once more."""
        sides: list[Contestant] = []
        for who in revision.sides:
            result = self.admit(who, case, inputs, judge)
            if not isinstance(result, Contestant):
                return result or Remark(case, who.name, "left out: it lacks the operation")
            sides.append(result)
        calls = tuple(calls_a_turn(side.once) for side in sides)
        try:
            timed = [side.timed for side in sides]
            ours, theirs, repeated = alternate(timed, calls, self.turns, rotated=True)
        except PortableGPUError as failure:  # calls cannot stand in line, or a process ended
            return left_out(case, revision.name, failure)
        both = [sqrt(item * other) for item, other in zip(theirs, repeated, strict=True)]
        found_ratios = ratios(ours, both)
        return Row(
            case=case,
            peer=revision.name,
            ours=Statistic.of(ours),
            theirs=Statistic.of(both),
            ratio=Statistic.of(found_ratios),
            calls=calls[:2],
            copies=len(inputs),
            error=tuple(side.error for side in sides[:2]),
            verdict=Verdict.of(found_ratios, ratios(theirs, repeated)),
        )

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
        result = checked(peer, case, inputs, judge)
        if result is None or isinstance(result, Remark):
            return result
        prepared, error = result
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
        times = alternate([side.timed for side in sides], calls, self.turns)
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
) -> tuple[Timed, float] | Remark | None:
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


def alternate(
    sides: Sequence[Timed], calls: Sequence[int], turns: int, rotated: bool = False
) -> tuple[list[float], ...]:
    """Seconds of a call, turn by turn: the first side, the second, the first ...

    A turn follows when the process is silent: see :meth:`Timed.turn`.

    Args:
        sides: Who takes turns.
        calls: Calls of a turn of each.
        turns: Of each.
        rotated: Whether each round begins with another side: the first of a round comes after the
            bookkeeping between rounds.
    """
    times: tuple[list[float], ...] = tuple([] for _ in sides)
    for turn in range(turns):
        for place in range(len(sides)):
            k = (place + turn) % len(sides) if rotated else place
            times[k].append(sides[k].turn(turn * calls[k], calls[k]))
    return times


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Their time over ours in each pair of turns."""
    return [b / a for a, b in zip(ours, theirs, strict=True)]
