"""Random cases of every operation, timed against a peer, to find cases where the library is slow.

A case is timed in line (see :mod:`portable_gpu.bench.queued`) and as calls from Python.  On a CPU
device the two are the same.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from statistics import geometric_mean, median
from typing import Any, TypeAlias

import numpy as np

from portable_gpu.bench.cases import cases, oracle
from portable_gpu.bench.measure import Contender, Remark, checked, left_out
from portable_gpu.bench.peers import Ours, Peer
from portable_gpu.bench.revisions import Revision
from portable_gpu.bench.timing import Timed, calls_a_turn, warm_up
from portable_gpu.bench.verdict import Verdict, pooled
from portable_gpu.checking.operands import Array, Operands, uniform
from portable_gpu.checking.oracle import Oracle
from portable_gpu.dtypes import bfloat16, dtype_of, element
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.registry import BENCHMARKS
from portable_gpu.runtime.engine import Engine

TURNS = 5  # of each side
_MOST_CALLS = 200  # of a turn
LINE_TURN, _LINE_CALLS = 1e-3, 64  # on a GPU: seconds of a turn, and its most calls
_APART = 64  # elements: operands begin at multiples


@dataclass(frozen=True)
class HuntRow:
    """A row of the table: random cases of one operation, kind of sizes and dtype.

    Attributes:
        operation: The name of the operation.
        sizes: The distribution of the sizes.
        dtype: The name of the dtype, as NumPy has it.
    """

    operation: str
    sizes: RandomSizes
    dtype: str

    def __str__(self) -> str:
        return f"{self.operation}, {self.sizes.name}, {self.dtype}"


@dataclass(frozen=True)
class Trial:
    """The times of one case and one peer.

    Attributes:
        kind: The row that the case belongs to.
        operation, dtype, size: The case, as the command takes them.
        flop: The floating-point operations of a call.
        peer: The name of the peer.
        seconds, peer_seconds: The seconds of a call in line, the median of the turns.
        eager, peer_eager: The seconds of a call from Python, the median of the turns.
        first: The seconds of our first call, including the build of programs.
        programs: The number of programs that our first call built.
        itself: If the peer is another revision, its time in a second process over that in the
            first one, in line.
        eager_itself: That ratio for calls from Python.
    """

    kind: str
    operation: str
    dtype: str
    size: str
    flop: int
    peer: str
    seconds: float
    peer_seconds: float
    eager: float
    peer_eager: float
    first: float
    programs: int
    itself: float | None = None
    eager_itself: float | None = None

    @property
    def ratio(self) -> float:
        """The peer's time over ours, in line."""
        return self.peer_seconds / self.seconds

    @property
    def eager_ratio(self) -> float:
        """The peer's time over ours, as Python calls."""
        return self.peer_eager / self.eager


@dataclass(frozen=True)
class Summary:
    """The summary of all trials of one row against one peer.

    Attributes:
        kind, peer: The row and the peer.
        count: The number of trials.
        ratio, tenth: The geometric mean and the tenth percentile of the ratios in line.
        eager, eager_tenth: The geometric mean and the tenth percentile for calls from Python.
        first: The median of the seconds of a first call.
        programs: The total number of programs that were built.
    """

    kind: str
    peer: str
    count: int
    ratio: float
    tenth: float
    eager: float
    eager_tenth: float
    first: float
    programs: int

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Summary:
        """The summary of one trial or more of one row against one peer."""
        line = [trial.ratio for trial in trials]
        eager = [trial.eager_ratio for trial in trials]
        return cls(
            kind=trials[0].kind, peer=trials[0].peer, count=len(trials), ratio=geometric_mean(line),
            tenth=float(np.quantile(line, 0.1)), eager=geometric_mean(eager),
            eager_tenth=float(np.quantile(eager, 0.1)),
            first=median(trial.first for trial in trials),
            programs=sum(trial.programs for trial in trials),
        )  # fmt: skip


def summaries(trials: Iterable[Trial]) -> list[Summary]:
    """Return the summary of each kind and peer, in the order of the trials."""
    return [Summary.of(group) for group in _by_row(trials)]


def _by_row(trials: Iterable[Trial]) -> list[list[Trial]]:
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.kind, trial.peer), []).append(trial)
    return list(groups.values())


@dataclass(frozen=True)
class RevisionRow:
    """A row compared with another revision.

    Attributes:
        kind, peer: The row and the revision.
        verdict: The verdict on the times in line.
        eager: The verdict on the times of calls from Python.
    """

    kind: str
    peer: str
    verdict: Verdict
    eager: Verdict

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> RevisionRow:
        """Return the verdict on the trials of one kind against one revision."""
        line = [trial.itself for trial in trials if trial.itself is not None]
        eager = [trial.eager_itself for trial in trials if trial.eager_itself is not None]
        return cls(
            trials[0].kind, trials[0].peer,
            Verdict.of([trial.ratio for trial in trials], line),
            Verdict.of([trial.eager_ratio for trial in trials], eager),
        )  # fmt: skip

    @property
    def lost(self) -> bool:
        """Whether one of the two verdicts is a loss."""
        return self.verdict.lost or self.eager.lost

    def to_dict(self) -> dict[str, Any]:
        """The fields and the verdicts, for JSON."""
        verdicts = {"verdict": self.verdict.to_dict(), "eager": self.eager.to_dict()}
        return {"kind": self.kind, "peer": self.peer, **verdicts}


def revision_rows(trials: Iterable[Trial]) -> list[RevisionRow]:
    """Return a row for each kind and revision, in the order of the first cases."""
    of_two_revisions = [trial for trial in trials if trial.itself is not None]
    rows = [RevisionRow.of(group) for group in _by_row(of_two_revisions)]
    line, eager = pooled([row.verdict for row in rows]), pooled([row.eager for row in rows])
    return [
        replace(row, verdict=item, eager=other)
        for row, item, other in zip(rows, line, eager, strict=True)
    ]


def kinds(engine: Engine) -> list[HuntRow]:
    """Return the rows of all dtypes that the device supports."""
    return [
        HuntRow(operation, sizes, dtype)
        for operation, benchmark in BENCHMARKS.items()
        for sizes in benchmark.random
        for dtype in sizes.dtypes
        if dtype != "bfloat16" or bfloat16() is not None
        if engine.target.fp64 or not element(dtype_of(dtype)).needs_fp64
    ]


def random_cases(
    rows: Sequence[HuntRow], count: int, seed: int, on_cpu: bool
) -> list[tuple[HuntRow, Case]]:
    """Return ``count`` cases of each row, one of each row in turn, so that a run may stop at any.

    The cases of a row do not depend on the other rows.
    """
    result: list[tuple[HuntRow, Case]] = []
    sources = {row: random.Random(f"{seed} {row}") for row in rows}
    for _ in range(count):
        for row, rng in sources.items():
            size = row.sizes.draw(rng, on_cpu)
            result += [(row, case) for case in cases(row.operation, [row.dtype], [size], on_cpu)]
    return result


@dataclass(frozen=True)
class Ready:
    """A case whose results are correct and whose programs are built; it is timed next.

    Attributes:
        row, case: The row and the case.
        first: Seconds of our first call, including the build of programs.
        programs: The number of programs that the first call built.
        sides: For each peer that has the operation, the calls that take turns: ours and the peer's.
            Another revision runs in two processes, so it has two calls.
        remarks: The reasons why peers are missing.
    """

    row: str
    case: Case
    first: float
    programs: int
    sides: Mapping[str, Sequence[Timed]]
    remarks: Sequence[Remark]


Found: TypeAlias = list[Trial | Remark]


@dataclass(frozen=True)
class _OurCalls:
    """This library with calls that are prepared."""

    timed: Timed
    name: str = Ours.name

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Timed:
        """See :meth:`Contender.prepare`."""
        return self.timed


class Hunt:
    """Times random cases on one engine."""

    def __init__(self, engine: Engine, peers: Sequence[Peer]) -> None:
        self._engine, self._peers, self._ours = engine, peers, Ours(engine)
        self._numbers: dict[str, Array] = {}

    def over(self, cases: Iterable[tuple[HuntRow, Case]]) -> Iterator[Found]:
        """Yield the result of each case, in order."""
        for row, case in cases:
            yield self.time(self.prepare(str(row), case))

    def prepare(self, row: str, case: Case) -> Ready | Remark:
        """Build and check a case of a row; a case with a wrong result is not timed."""
        try:
            inputs, built = [self._operands(case)], self._built()
            ours = self._ours.prepare(case, inputs)
            first = ours.eager().seconds(0, 1)
            programs, judge = self._built() - built, oracle(case, inputs[0])
            checked_ours = checked(_OurCalls(ours), case, inputs, judge)
            if isinstance(checked_ours, Remark):
                return checked_ours
            sides: dict[str, Sequence[Timed]] = {}
            remarks = []
            for peer in self._peers:
                contenders = peer.sides if isinstance(peer, Revision) else (peer,)
                result = _all_checked(contenders, case, inputs, judge)
                if isinstance(result, Remark):
                    remarks.append(result)
                elif result is not None:
                    sides[peer.name] = result if len(result) > 1 else (ours, *result)
        except (PortableGPUError, RuntimeError, MemoryError) as failure:
            return left_out(case, Ours.name, failure)
        return Ready(row, case, first, programs, sides, remarks)

    def time(self, ready: Ready | Remark) -> Found:
        """Time a case against each of its peers."""
        if isinstance(ready, Remark):
            return [ready]
        result: Found = [*ready.remarks]
        for name, sides in ready.sides.items():
            try:
                result.append(self._trial(ready, name, sides))
            except (PortableGPUError, RuntimeError, MemoryError) as failure:
                result.append(left_out(ready.case, name, failure))
        return result

    def _trial(self, ready: Ready, name: str, sides: Sequence[Timed]) -> Trial:
        case = ready.case
        eager = line = self._times(sides)
        if not self._engine.maps_host_memory:
            eager = self._times([side.eager() for side in sides], eager=True)
        itself = [times[2] / times[1] if len(times) > 2 else None for times in (line, eager)]
        return Trial(
            ready.row, case.operation, case.type, case.size, case.flop, name,
            line[0], line[1], eager[0], eager[1], ready.first, ready.programs, *itself,
        )  # fmt: skip

    def _operands(self, case: Case) -> Operands:
        """Return operands that are made of parts of one row of random numbers for each dtype."""
        sizes = [prod(shape) for shape in case.shapes]
        ends = list(accumulate(-(-size // _APART) * _APART for size in sizes))
        numbers = self._numbers.get(case.dtype)
        if numbers is None or numbers.size < ends[-1]:
            length = 1 << (ends[-1] - 1).bit_length()
            numbers = uniform(np.random.default_rng(1), (length,), dtype_of(case.dtype))
            self._numbers[case.dtype] = numbers
        drawn = tuple(
            numbers[begin : begin + size].reshape(shape)
            for begin, size, shape in zip((0, *ends), sizes, case.shapes, strict=False)
        )
        return BENCHMARKS[case.operation].operands(case, drawn)

    def _built(self) -> int:
        engines = (self._engine, self._engine.caller)
        return sum(len(engine.programs) for engine in engines if engine is not None)

    def _times(self, sides: Sequence[Timed], eager: bool = False) -> list[float]:
        """Return the seconds of a call of each side, the median of turns.

        On a CPU a turn also waits for idle threads and wakes those that the calls need.

        Args:
            sides: The sides that take turns.
            eager: Whether a turn on a GPU starts with a call that is not timed.  It brings the
                device to the side's process, which takes as long as tens of short calls.  Calls in
                line do not need it, because their time starts on the device.
        """
        on_cpu = self._engine.maps_host_memory
        calls = [_calls_on_cpu(side) if on_cpu else _calls_in_line(side) for side in sides]
        result: list[list[float]] = [[] for _ in sides]
        order = deque(zip(sides, calls, result, strict=True))
        for _ in range(TURNS):
            order.rotate(1)  # the first side of a turn may find caches or clocks in another state
            for side, count, times in order:
                if eager:
                    side.seconds(0, 1)
                times.append(side.turn(0, count) if on_cpu else side.seconds(0, count) / count)
        return [median(times) for times in result]


def _all_checked(
    contenders: Sequence[Contender], case: Case, inputs: Sequence[Operands], judge: Oracle
) -> Sequence[Timed] | Remark | None:
    """Return the calls of all contenders, or the remark on the first one that fails.

    ``None``: a contender does not have the operation.
    """
    timed = []
    for contender in contenders:
        result = checked(contender, case, inputs, judge)
        if result is None or isinstance(result, Remark):
            return result
        timed.append(result[0])
    return timed


def _calls_on_cpu(side: Timed) -> int:
    return min(_MOST_CALLS, calls_a_turn(warm_up(side)))


def _calls_in_line(side: Timed) -> int:
    side.seconds(0, 1)  # its time includes the change of the device to the side's process
    once, few = side.seconds(0, 1), 8
    if few * once < LINE_TURN:
        once = side.seconds(0, few) / few
    return max(1, min(_LINE_CALLS, round(LINE_TURN / once)))
