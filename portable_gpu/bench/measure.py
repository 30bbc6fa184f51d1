"""The protocol of every timing: this library and a peer take turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Protocol

from portable_gpu.bench.cases import copies, operands, oracle
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
    """The result of one case against one peer.

    Attributes:
        case: The case.
        peer: The name of the peer; ``None`` if no peer has the operation.
        ours, theirs: The seconds of our calls and of the peer's.
        ratio: The peer's time over ours, turn by turn; above 1 we are faster.
        calls: The number of calls in a turn, ours and the peer's.
        copies: The number of copies of the inputs; successive calls use successive copies.
        error: The largest error, ours and the peer's, in units of the bound.
        verdict: If the peer is another revision, whether this one is slower.
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
        case: The case.
        who: The name of this library or of the peer.
        text: The reason.
        wrong: Whether the result was wrong.
    """

    case: Case
    who: str
    text: str
    wrong: bool = False


class Contender(Protocol):
    """The interface of everything that can be timed: a :class:`Peer`, or a rung of a ladder."""

    @property
    def name(self) -> str:
        """The name in tables."""

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Timed | None:
        """See :meth:`Peer.prepare`."""


@dataclass(frozen=True)
class Contestant:
    """A contender whose result is right, ready to be timed.

    Attributes:
        name: The name in tables.
        timed: The calls.
        error: The error of the result, in units of the bound.
        once: The seconds of one call after warming up.
    """

    name: str
    timed: Timed
    error: float
    once: float


@dataclass(frozen=True)
class Bench:
    """Times cases on one engine.

    Attributes:
        engine: The engine that our calls run on.
        peers: The peers.
        turns: The number of turns of each side.
        budget: The seconds that all turns of a case may take; ``None`` for no limit.
        eager: Whether calls are timed as Python makes them, instead of in line (on a GPU).
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
            yield self._against_revision(revision, case, inputs, judge)
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

    def _against_revision(
        self, revision: Revision, case: Case, inputs: Sequence[Operands], judge: Oracle
    ) -> Row | Remark:
        """Time this revision, another one, and the other one again, each in its own process."""
        sides: list[Contestant] = []
        for side in revision.sides:
            result = self.admit(side, case, inputs, judge)
            if not isinstance(result, Contestant):
                return result or Remark(case, side.name, "left out: it lacks the operation")
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
        """Copies of random inputs, which together are larger than the caches."""
        facts = self.engine.target.facts
        first = operands(case)
        count = copies(case, facts.cache_size, facts.global_mem_size)
        return [first, *(tuple(x.copy() for x in first) for _ in range(count - 1))]

    def admit(
        self, peer: Contender, case: Case, inputs: Sequence[Operands], judge: Oracle
    ) -> Contestant | Remark | None:
        """Check a contender's result and warm it up.

        Args:
            peer: The contender.
            case: The case.
            inputs: Copies of the inputs.
            judge: Computes the error of a result.

        Returns:
            ``None`` if the contender lacks the operation; a remark if it failed, if its result is
            wrong, or if it takes too long.
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
    """Prepare a contender's calls, and check its result; the error is in units of the bound.

    Returns:
        ``None`` if the contender lacks the operation; a remark if it failed or its result is wrong.
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
    """The remark that a contender was not timed because of an exception."""
    first_line = (str(failure).splitlines() or [type(failure).__name__])[0]
    return Remark(case, who, f"left out: {first_line}")


def alternate(
    sides: Sequence[Timed], calls: Sequence[int], turns: int, rotated: bool = False
) -> tuple[list[float], ...]:
    """Seconds of a call, turn by turn: the first side, the second, the first ...

    A turn follows when the process is silent: see :meth:`Timed.turn`.

    Args:
        sides: The sides that take turns.
        calls: The number of calls in a turn of each side.
        turns: The number of turns of each side.
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
