"""Random work of every kind beside a peer: where is the library slow on what nobody named?

A case is timed in line (see :mod:`portable_gpu.bench.queued`) and as Python calls it.  On a CPU
device the two are the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from statistics import geometric_mean, median
from typing import Any, TypeAlias

import numpy as np

from portable_gpu.bench.cases import cases
from portable_gpu.bench.measure import (
    ALONE,
    Bench,
    Contestant,
    Remark,
    calls_a_turn,
    fall_silent,
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
LINE_TURN = 1e-3  # seconds of a turn on a GPU: nothing disturbs calls in line
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
class First:
    """Our first call of a case.

    Attributes:
        seconds: That it took, with the programs that it built.
        programs: How many it built.
    """

    seconds: float
    programs: int


Found: TypeAlias = list[Trial | Remark]
Times: TypeAlias = tuple[float, float]


class Hunt:
    """Times random cases on one engine."""

    def __init__(
        self,
        engine: Engine,
        peers: Sequence[Peer],
        device: AbstractContextManager[Any] = ALONE,
    ) -> None:
        """``device`` is held while the device is used, but for first calls."""
        self._engine, self._ours = engine, Ours(engine)
        self._turn = None if engine.maps_host_memory else LINE_TURN
        self._bench = Bench(engine, peers, turn=self._turn, device=device)
        self._numbers: dict[str, Array] = {}

    def over(self, cases: Iterable[tuple[Kind, Case]]) -> Iterator[Found]:
        """What there is to tell of each case, one after the other."""
        for row, case in cases:
            yield self.run(str(row), case, self.first(case))

    def first(self, case: Case) -> First | Remark:
        """Call the library once; it builds what it has not yet built."""
        built = self._built()
        try:
            prepared = self._ours.prepare(case, [self._operands(case)])
            seconds = prepared.eager().seconds(0, 1)
        except (PortableGPUError, RuntimeError, MemoryError) as failure:
            return left_out(case, failure)
        return First(seconds, self._built() - built)

    def run(self, row: str, case: Case, first: First | Remark) -> Found:
        """Time a case of a row beside each peer that has it, but nothing whose result is wrong."""
        if isinstance(first, Remark):
            return [first]
        try:
            return list(self._trials(row, case, first))
        except (PortableGPUError, RuntimeError, MemoryError) as failure:
            return [left_out(case, failure)]

    def _trials(self, row: str, case: Case, first: First) -> Iterator[Trial | Remark]:
        inputs = [self._operands(case)]
        judge = oracle(case, inputs[0])
        us = self._bench.admit(self._ours, case, inputs, judge)
        if not isinstance(us, Contestant):
            if us is not None:
                yield us
            return
        for peer in self._bench.peers:
            them = self._bench.admit(peer, case, inputs, judge)
            if isinstance(them, Remark):
                yield them
            elif them is not None:
                yield self._trial(row, case, first, us, them)

    def _trial(self, row: str, case: Case, first: First, us: Contestant, them: Contestant) -> Trial:
        with self._bench.device:
            line = self._times((us.prepared, us.once), (them.prepared, them.once))
            eager = line
            if not self._engine.maps_host_memory:
                sides = us.prepared.eager(), them.prepared.eager()
                eager = self._times(*((side, warm_up(side, self._turn)) for side in sides))
        return Trial(
            row, case.operation, case.type, case.size, case.flop, them.name,
            *line, *eager, first.seconds, first.programs,
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

    def _times(self, ours: tuple[Prepared, float], theirs: tuple[Prepared, float]) -> Times:
        """Seconds of a call of each side, in the median of turns; each with those of one call.

        As in :func:`~portable_gpu.bench.measure.alternate`, a turn of several calls starts with one
        that does not count.
        """
        found: tuple[list[float], list[float]] = [], []
        for _ in range(TURNS):
            for (side, once), times in zip((ours, theirs), found, strict=True):
                count = min(_MOST_CALLS, calls_a_turn(once, self._turn))
                if self._engine.maps_host_memory:
                    fall_silent()
                if count > 1:
                    side.seconds(0, 1)
                times.append(side.seconds(0, count) / count)
        return median(found[0]), median(found[1])


def left_out(case: Case, failure: Exception) -> Remark:
    """Why one of our calls was not timed."""
    first_line = (str(failure).splitlines() or [type(failure).__name__])[0]
    return Remark(case, Ours.name, f"left out: {first_line}")
