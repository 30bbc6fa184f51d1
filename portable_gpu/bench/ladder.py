"""The founding texts' ladders, rung by rung: the same kernels, with one idea more at each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyopencl.array as cla

import portable_gpu as pg
from portable_gpu.bench.measure import (
    BUDGET,
    Bench,
    Contender,
    Contestant,
    Remark,
    alternate,
    calls_a_turn,
)
from portable_gpu.bench.oracle import oracle
from portable_gpu.bench.peers import Ours
from portable_gpu.bench.prepared import Prepared
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.statistics import Statistic
from portable_gpu.checking.operands import Operands
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.case import Case
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.choice import GemmChoice
from portable_gpu.ops.gemm.tiled.plan import TiledPlan
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy, value_words
from portable_gpu.ops.gemv.policy import RowPolicy
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import View, places
from portable_gpu.targets import Target
from portable_gpu.tuning.table import Choice, TuningTable


@dataclass(frozen=True)
class LadderRow:
    """Everybody's time on one size; who is missing was left out."""

    size: str
    seconds: dict[str, Statistic]


@dataclass(frozen=True)
class Ladder:
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


@dataclass(frozen=True)
class Plan:
    """One ladder, to be timed."""

    title: str
    rungs: Sequence[Contender]
    cases: Sequence[Case]


def ladders(operation: str, engine: Engine) -> list[Plan]:
    """The ladders of ``gemv``, ``gemm``, or of both for any other name."""
    climbing = _engine(engine)
    subgroup = climbing.target.subgroup_size
    plans = []
    if operation != "gemm":
        cases = [Case("gemv", (16384, n), trans="N") for n in (16, 32, 128)]
        rungs = _gemv_rungs(climbing)
        plans.append(Plan(f"sgemv, sub-groups of {subgroup}", rungs, cases))
    if operation != "gemv":
        plans.append(Plan("sgemm", _sgemm_rungs(climbing), _squares("float32", engine)))
        if climbing.target.fp64:
            plans.append(Plan("dgemm", _dgemm_rungs(climbing), _squares("float64", engine)))
    return plans


def climb(bench: Bench, plan: Plan) -> Iterator[Remark | Ladder]:
    """Time a ladder: remarks on the way, and the ladder at the end."""
    contenders: list[Contender] = [*plan.rungs, Ours(bench.engine), *bench.peers]
    rows = []
    known: dict[str, float] = {}  # seconds for each operation, on the size before
    for case in plan.cases:
        inputs = bench.inputs(case)
        judge = oracle(case, inputs[0])
        sides: list[Contestant] = []
        for who in contenders:
            if known.get(who.name, 0.0) * case.flop * bench.turns > BUDGET:
                yield Remark(case, who.name, "left out: it would take too long")
                continue
            found = bench.admit(who, case, inputs, judge)
            if isinstance(found, Contestant):
                sides.append(found)
                known[who.name] = found.once / case.flop
            elif found is not None:
                yield found
        calls = [calls_a_turn(side.once) for side in sides]
        times = alternate([side.prepared for side in sides], calls, bench.turns)
        seconds = {s.name: Statistic.of(t) for s, t in zip(sides, times, strict=True)}
        rows.append(LadderRow(case.size, seconds))
    here = bench.engine.target
    note = f"{Ours.name}: what the library chooses by itself."
    if here.is_cpu:
        note = f"The rungs run as class generic: {here.facts.name}'s own path has none. {note}"
    names = tuple(rung.name for rung in plan.rungs)
    took_part = {name for row in rows for name in row.seconds}
    peers = (Ours.name, *(peer.name for peer in bench.peers if peer.name in took_part))
    yield Ladder(plan.title, note, names, peers, tuple(rows))


class _Table(TuningTable):
    """Gives one policy, whatever is asked for."""

    def __init__(self, policy: Any) -> None:
        super().__init__([])
        self._policy = policy

    def choose(self, kernel: str, policy_type: Any, target: Any, elem: Any, *_: Any) -> Any:
        """The policy, where it is of the type."""
        if isinstance(self._policy, policy_type):
            self._policy.check(target, elem)
            return Choice(self._policy, "a rung of the ladder")
        return super().choose(kernel, policy_type, target, elem, *_)


@dataclass(frozen=True)
class _Rung:
    """A rung: how it makes calls of arrays on the device."""

    name: str
    engine: Engine
    bind: Callable[[Sequence[Any]], Callable[[], Any]]
    takes: Callable[[Case], bool] = lambda case: True

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :meth:`portable_gpu.bench.peers.Peer.prepare`."""
        if not self.takes(case):
            return None
        queue = self.engine.queue
        on_device = [[cla.to_device(queue, x) for x in arrays] for arrays in inputs]
        calls = [self.bind(arrays) for arrays in on_device]
        if not self.engine.maps_host_memory:
            return Queued(self.engine, calls)
        return Prepared(calls, queue.finish, lambda result: np.asarray(result.get()))


def _engine(engine: Engine, table: TuningTable | None = None) -> Engine:
    """An engine whose path has the rungs, on the same queue."""
    device_class = "generic" if engine.target.is_cpu else None
    return Engine(queue=engine.queue, device_class=device_class, table=table)


def _gemv_rungs(engine: Engine) -> list[_Rung]:
    """One sub-group a row, with vectors from 128 columns on; several rows below 32."""
    target = engine.target
    lanes = target.subgroup_size
    group = max(lanes, min(256, target.max_work_group_size))
    v0 = RowPolicy(group, group, 1, lanes, 1, 1, 4, 1 << 14)

    def rung(name: str, policy: RowPolicy, takes: Callable[[int], bool]) -> _Rung:
        own = Engine(
            queue=engine.queue, device_class=target.device_class if target.forced else None,
            table=_Table(policy),
        )  # fmt: skip

        def bound(arrays: Sequence[Any]) -> Callable[[], Any]:
            return lambda: pg.gemv(*arrays, engine=own)

        return _Rung(name, own, bound, lambda case: takes(case.extents[1]))

    return [
        rung("v0: a sub-group a row", v0, lambda n: n >= 32),
        rung("v1: the same, float4", replace(v0, vector=4), lambda n: n >= 128),
        rung("v2: several rows", replace(v0, lanes=max(1, lanes // 2)), lambda n: n <= 16),
    ]


def _sgemm_rungs(engine: Engine) -> list[_Rung]:
    block, line, square = (
        _fitted(engine.target, "float32", policy)
        for policy in (
            GemmPolicy(16, 16, 16, 1, 1, 1, 1),
            GemmPolicy(64, 32, 8, 8, 1, 1, 1),
            GemmPolicy(128, 128, 8, 8, 8, 1, 1),
        )
    )
    vectors = replace(square, vector=4)
    double = replace(vectors, buffers=2, prefetch=True)
    return [
        _gemm_rung(engine, "naive", None),
        _gemm_rung(engine, "block tile", block),
        _gemm_rung(engine, "1-D tile", line),
        _gemm_rung(engine, "2-D tile", square),
        _gemm_rung(engine, "vectors", vectors),
        _gemm_rung(engine, "double buffer", double),
        _gemm_rung(engine, "two-level prefetch", replace(double, prefetch_local=True)),
    ]


def _dgemm_rungs(engine: Engine) -> list[_Rung]:
    plain, small = (
        _fitted(engine.target, "float64", policy)
        for policy in (
            GemmPolicy(128, 128, 8, 8, 8, 1, 1, unroll=8),
            GemmPolicy(128, 64, 8, 4, 8, 1, 1, unroll=8),
        )
    )
    wide = replace(plain, vector=2)
    prefetch = replace(wide, prefetch=True)
    return [
        _gemm_rung(engine, "unroll", plain),
        _gemm_rung(engine, "128b", wide),
        _gemm_rung(engine, "128b, prefetch", prefetch),
        _gemm_rung(engine, "double buffer, 128b", replace(wide, buffers=2)),
        _gemm_rung(engine, "double buffer, 128b, prefetch", replace(prefetch, buffers=2)),
        _gemm_rung(engine, "small tile, 128b, prefetch", replace(small, vector=2, prefetch=True)),
    ]


def _fitted(target: Target, dtype: str, policy: GemmPolicy) -> GemmPolicy:
    """The texts' tile, halved until the sums fit the registers; rows of work-items side by side."""
    words = value_words(element(dtype_of(dtype)))
    while 3 * policy.item_m * policy.item_n * words > 2 * target.registers:
        if policy.item_m >= policy.item_n:
            policy = replace(policy, tile_m=policy.tile_m // 2, item_m=policy.item_m // 2)
        else:
            policy = replace(policy, tile_n=policy.tile_n // 2, item_n=policy.item_n // 2)
    return replace(policy, lanes_n=policy.tile_n // policy.item_n)


def _gemm_rung(engine: Engine, name: str, policy: GemmPolicy | None) -> _Rung:
    choice = GemmChoice("direct" if policy is None else "tiled", policy)

    def bound(arrays: Sequence[Any]) -> Callable[[], Any]:
        a, b = arrays
        c = cla.empty(engine.queue, (a.shape[0], b.shape[1]), a.dtype)
        views = [_view(x) for x in (a, b, c)]
        problem = bind(
            engine.target, *views, trans_a="N", trans_b="N", stages=(), extras=(),
            multiplies=True, reads_c=False,
        )  # fmt: skip
        path = TiledPlan(engine, problem, choice)
        enqueue = partial(path.enqueue, engine.state(), *places(views), (1.0, 0.0))

        def call() -> Any:
            enqueue()
            return c

        return call

    return _Rung(name, engine, bound)


def _view(x: Any) -> View:
    strides = tuple(step // x.dtype.itemsize for step in x.strides)
    return View(x.base_data, x.offset // x.dtype.itemsize, x.shape, strides, x.dtype)


def _squares(dtype: str, engine: Engine) -> list[Case]:
    """The texts' sizes, as far as a CPU's time goes."""
    sizes = (256, 512, 1024, 2048) if dtype == "float32" else (1024, 2048, 4096)
    most = 1024 if engine.target.is_cpu else max(sizes)
    return [Case("gemm", (n, n, n), dtype, trans="NN") for n in sizes if n <= most]
