"""Time the ladders of the families (:mod:`portable_gpu.ops.ladder`), rung by rung."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyopencl.array as cla

from portable_gpu.bench.cases import EVERY, cases, oracle
from portable_gpu.bench.measure import (
    BUDGET,
    Bench,
    Contender,
    Contestant,
    Remark,
    alternate,
)
from portable_gpu.bench.peers import Ours
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import Prepared, calls_a_turn
from portable_gpu.checking.operands import Operands
from portable_gpu.ops.case import Case
from portable_gpu.ops.ladder import Ladder, Rung
from portable_gpu.ops.registry import BENCHMARKS
from portable_gpu.ops.sizes import parse_sizes
from portable_gpu.runtime.engine import Engine


@dataclass(frozen=True)
class LadderRow:
    """The times on one size of the rungs, the library and the peers that were not left out."""

    size: str
    seconds: dict[str, Statistic]


@dataclass(frozen=True)
class LadderTimes:
    """One ladder, timed.

    Attributes:
        title: What it computes.
        note: How it ran.
        rungs, peers: The columns.
        rows: A row for each size.
    """

    title: str
    note: str
    rungs: tuple[str, ...]
    peers: tuple[str, ...]
    rows: tuple[LadderRow, ...]


#: The operations that have ladders.
CLIMBED = tuple(name for name, benchmark in BENCHMARKS.items() if benchmark.ladders is not None)


def ladders(operation: str, engine: Engine) -> list[Ladder]:
    """Return the ladders of an operation, or of all operations for the name :data:`EVERY`."""
    return [
        ladder
        for name, benchmark in BENCHMARKS.items()
        if benchmark.ladders is not None and operation in (name, EVERY)
        for ladder in benchmark.ladders(engine)
    ]


def climb(bench: Bench, ladder: Ladder) -> Iterator[Remark | LadderTimes]:
    """Time a ladder; yield remarks about omitted and wrong contenders, and at the end the times."""
    contenders: list[Contender] = [
        *map(_RungContender, ladder.rungs),
        Ours(bench.engine),
        *bench.peers,
    ]
    rows = []
    known: dict[str, float] = {}  # each contender's seconds for a flop, on the size before
    sizes = parse_sizes(ladder.sizes)
    for case in cases(ladder.operation, [ladder.dtype], sizes, bench.engine.target.is_cpu):
        inputs = bench.inputs(case)
        judge = oracle(case, inputs[0])
        sides: list[Contestant] = []
        for contender in contenders:
            if known.get(contender.name, 0.0) * case.flop * bench.turns > BUDGET:
                yield Remark(case, contender.name, "left out: it would take too long")
                continue
            result = bench.admit(contender, case, inputs, judge)
            if isinstance(result, Contestant):
                sides.append(result)
                known[contender.name] = result.once / case.flop
            elif result is not None:
                yield result
        calls = [calls_a_turn(side.once) for side in sides]
        times = alternate([side.timed for side in sides], calls, bench.turns)
        seconds = {s.name: Statistic.of(t) for s, t in zip(sides, times, strict=True)}
        rows.append(LadderRow(case.size, seconds))
    target = bench.engine.target
    note = f"{Ours.name}: what the library chooses by itself."
    if target.is_cpu:
        note = f"The rungs run as class generic: the kernels of CPUs have no rungs. {note}"
    names = tuple(rung.name for rung in ladder.rungs)
    took_part = {name for row in rows for name in row.seconds}
    peers = (Ours.name, *(peer.name for peer in bench.peers if peer.name in took_part))
    yield LadderTimes(ladder.title, note, names, peers, tuple(rows))


@dataclass(frozen=True)
class _RungContender:
    """A rung as a contender of the bench."""

    rung: Rung

    @property
    def name(self) -> str:
        return self.rung.name

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :meth:`portable_gpu.bench.peers.Peer.prepare`."""
        if not self.rung.takes(case):
            return None
        engine = self.rung.engine
        on_device = [[cla.to_device(engine.queue, x) for x in arrays] for arrays in inputs]
        calls = [self.rung.bind(arrays) for arrays in on_device]
        if not engine.maps_host_memory:
            return Queued(engine, calls)
        return Prepared(calls, engine.queue.finish, lambda result: np.asarray(result.get()))
