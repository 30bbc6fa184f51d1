"""Random work of every kind beside a peer: where is the library slow on what nobody named?

A case is timed in line (see :mod:`portable_gpu.bench.queued`) and as Python calls it.  On a CPU
device the two are the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from statistics import geometric_mean, median
from typing import TypeAlias

import numpy as np

from portable_gpu.bench.cases import cases
from portable_gpu.bench.measure import (
    Remark,
    calls_a_turn,
    checked,
    fall_silent,
    left_out,
    warm_up,
)
from portable_gpu.bench.oracle import oracle
from portable_gpu.bench.peers import Ours, Peer
from portable_gpu.bench.prepared import Prepared
from portable_gpu.checking.operands import Array, Operands, uniform
from portable_gpu.dtypes import BFLOAT16, dtype_of, element
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
class Kind:
    """A row of the table: random cases of one kind and dtype.

    Attributes:
        operation: Its name.
        sizes: What its sizes are like.
        dtype: NumPy's name.
    """

    operation: str
    sizes: RandomSizes
    dtype: str

    def __str__(self) -> str:
        return f"{self.operation}, {self.sizes.name}, {self.dtype}"


@dataclass(frozen=True)
class Trial:
    """One case beside one peer.

    Attributes:
        kind: The row that it belongs to.
        operation, dtype, size: The case, as the command takes them.
        flop: Its operations.
        peer: Whose time it is compared with.
        seconds, peer_seconds: Of a call in line, in the median of the turns.
        eager, peer_eager: The same of calls as Python makes them.
        first: Seconds of our first call, with the programs that it built.
        programs: How many it built.
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
    """What the trials of one kind beside one peer came to.

    Attributes:
        kind, peer: Whose.
        count: Trials.
        ratio, tenth: Geometric mean of the ratios in line, and what a tenth of them is below.
        eager, eager_tenth: The same of calls as Python makes them.
        first: Seconds of a first call, in the median.
        programs: Built in all.
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
        """The summary of one trial or more of one kind beside one peer."""
        line = [trial.ratio for trial in trials]
        eager = [trial.eager_ratio for trial in trials]
        return cls(
            trials[0].kind, trials[0].peer, len(trials),
            geometric_mean(line), float(np.quantile(line, 0.1)),
            geometric_mean(eager), float(np.quantile(eager, 0.1)),
            median(trial.first for trial in trials), sum(trial.programs for trial in trials),
        )  # fmt: skip


def summaries(trials: Iterable[Trial]) -> list[Summary]:
    """One for each kind and peer, in the order in which they were met."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.kind, trial.peer), []).append(trial)
    return [Summary.of(group) for group in groups.values()]


def kinds(engine: Engine) -> list[Kind]:
    """Every row whose dtype the device has."""
    return [
        Kind(operation, sizes, dtype)
        for operation, benchmark in BENCHMARKS.items()
        for sizes in benchmark.random
        for dtype in sizes.dtypes
        if dtype != "bfloat16" or BFLOAT16 is not None
        if engine.target.fp64 or not element(dtype_of(dtype)).needs_fp64
    ]


def random_cases(
    rows: Sequence[Kind], count: int, seed: int, on_cpu: bool
) -> list[tuple[Kind, Case]]:
    """``count`` cases of each row, by turns, so that the time may be up at any of them.

    A row's cases do not depend on what other rows there are.
    """
    found: list[tuple[Kind, Case]] = []
    sources = {row: random.Random(f"{seed} {row}") for row in rows}
    for _ in range(count):
        for row, rng in sources.items():
            size = row.sizes.draw(rng, on_cpu)
            found += [(row, case) for case in cases(row.operation, [row.dtype], [size], on_cpu)]
    return found


@dataclass(frozen=True)
class Ready:
    """A case that is to be timed: results were found right, and programs are built.

    Attributes:
        row, case: Which.
        first: Seconds of our first call, with the programs that it built.
        programs: How many it built.
        ours: Our calls.
        peers: Those of the peers that have it, by name.
        remarks: Why someone is missing.
    """

    row: str
    case: Case
    first: float
    programs: int
    ours: Prepared
    peers: Mapping[str, Prepared]
    remarks: Sequence[Remark]


Found: TypeAlias = list[Trial | Remark]


@dataclass(frozen=True)
class _OurCalls:
    """This library with calls that are prepared."""

    prepared: Prepared
    name: str = Ours.name

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared:
        """See :meth:`Contender.prepare`."""
        return self.prepared


class Hunt:
    """Times random cases on one engine."""

    def __init__(self, engine: Engine, peers: Sequence[Peer]) -> None:
        self._engine, self._peers, self._ours = engine, peers, Ours(engine)
        self._numbers: dict[str, Array] = {}

    def over(self, cases: Iterable[tuple[Kind, Case]]) -> Iterator[Found]:
        """What there is to tell of each case, one after the other."""
        for row, case in cases:
            yield self.time(self.prepare(str(row), case))

    def prepare(self, row: str, case: Case) -> Ready | Remark:
        """Build and check a case of a row; nothing is to be timed whose result is wrong."""
        try:
            inputs, built = [self._operands(case)], self._built()
            ours = self._ours.prepare(case, inputs)
            first = ours.eager().seconds(0, 1)
            programs, judge = self._built() - built, oracle(case, inputs[0])
            us = checked(_OurCalls(ours), case, inputs, judge)
            if isinstance(us, Remark):
                return us
            found = {peer.name: checked(peer, case, inputs, judge) for peer in self._peers}
        except (PortableGPUError, RuntimeError, MemoryError) as failure:
            return left_out(case, Ours.name, failure)
        peers = {name: one[0] for name, one in found.items() if isinstance(one, tuple)}
        remarks = [one for one in found.values() if isinstance(one, Remark)]
        return Ready(row, case, first, programs, ours, peers, remarks)

    def time(self, ready: Ready | Remark) -> Found:
        """Time a case beside each of its peers."""
        if isinstance(ready, Remark):
            return [ready]
        found: Found = [*ready.remarks]
        for name, theirs in ready.peers.items():
            try:
                found.append(self._trial(ready, name, theirs))
            except (PortableGPUError, RuntimeError, MemoryError) as failure:
                found.append(left_out(ready.case, name, failure))
        return found

    def _trial(self, ready: Ready, name: str, theirs: Prepared) -> Trial:
        case, ours = ready.case, ready.ours
        eager = line = self._times(ours, theirs)
        if not self._engine.maps_host_memory:
            eager = self._times(ours.eager(), theirs.eager())
        return Trial(
            ready.row, case.operation, case.type, case.size, case.flop, name,
            *line, *eager, ready.first, ready.programs,
        )  # fmt: skip

    def _operands(self, case: Case) -> Operands:
        """Parts of one row of random numbers for each dtype, or what is made of them."""
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

    def _times(self, ours: Prepared, theirs: Prepared) -> tuple[float, float]:
        """Seconds of a call of each side, in the median of turns.

        As in :func:`~portable_gpu.bench.measure.alternate`, a turn of several calls starts with one
        that does not count; but on a GPU nobody's threads are to be woken.
        """
        sides, on_cpu = (ours, theirs), self._engine.maps_host_memory
        calls = [_calls_on_cpu(side) if on_cpu else _calls_in_line(side) for side in sides]
        found: tuple[list[float], list[float]] = [], []
        for _ in range(TURNS):
            for side, count, times in zip(sides, calls, found, strict=True):
                if on_cpu:
                    fall_silent()
                    if count > 1:
                        side.seconds(0, 1)
                times.append(side.seconds(0, count) / count)
        return median(found[0]), median(found[1])


def _calls_on_cpu(side: Prepared) -> int:
    return min(_MOST_CALLS, calls_a_turn(warm_up(side)))


def _calls_in_line(side: Prepared) -> int:
    once, few = side.seconds(0, 1), 8
    if few * once < LINE_TURN:
        once = side.seconds(0, few) / few
    return max(1, min(_LINE_CALLS, round(LINE_TURN / once)))
