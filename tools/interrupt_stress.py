"""Interrupt calls of sparse factors at random moments, on the default device, and compare the bits.

    python tools/interrupt_stress.py [--interrupts 30000] [--seconds S] [--seed 0]

Factors that are on the disk except a part, factors that are on the device, and stacks: a timer's
signal comes in the midst of ``solve``, ``refactorize``, ``inv_diag``, ``L`` and ``logdet``.  Its
handler raises, raises again while the first exception is on its way, or calls the same factor.
After each of them the factor gives the bits that an uninterrupted one gave, or, after
``refactorize``, refuses until it is factorised again.  It fails if a bit is wrong, another error
comes, a call hangs for two minutes, or descriptors, threads or files are left.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import portable_gpu as pg
from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor, FactorStack, analyze

#: Seconds after which a call hangs.
LONG = 120
#: Shares of the timers whose handler calls, and of those that raises twice.
CALLS, TWICE = 0.15, 0.03
#: Seconds up to the second exception, at most.
SOON = 1e-3


class Interrupted(BaseException):
    """The exception that the handler raises, in place of KeyboardInterrupt."""


class Timer:
    """A signal, once or twice, and what its handler does."""

    def __init__(self) -> None:
        self.is_armed = False  # the system may deliver a signal late, by another thread
        self.again = 0.0  # seconds until another exception
        self.call: Callable[[], None] | None = None
        signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, *_: Any) -> None:
        if not self.is_armed:
            return
        if self.call is not None:
            self.call()
            return
        repeated, self.again = self.again, 0.0
        if repeated:
            signal.setitimer(signal.ITIMER_REAL, repeated)
        raise Interrupted

    def leaves(self, work: Callable[[], Any], after: float) -> bool:
        """Whether work was left by an exception; none comes afterwards."""
        try:
            try:
                self.is_armed = True
                signal.setitimer(signal.ITIMER_REAL, after)
                work()
                self.is_armed = False
            except Interrupted:
                self.is_armed = False
                return True
        except Interrupted:
            self.is_armed = False
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.again, self.call = 0.0, None
        return False


class Subject:
    """A factor or a stack, with two sets of values and what each call gives for either."""

    def __init__(self, name: str, make: Callable[[], Any], values: list[Any], b: Any) -> None:
        self.name, self.factor, self.values = name, make(), values
        self.on_device = [pg.asarray(v.data, queue=self.queue) for v in self._stored(values)]
        operand = pg.asarray(b, queue=self.queue)
        factor = self.factor
        self.calls: dict[str, Callable[[], Any]] = {
            "solve": lambda: factor.solve(b),
            "solve L": lambda: factor.solve(b, "L"),
            "solve, refined": lambda: factor.solve(b, refine=1),
            "solve, device": lambda: factor.solve(operand).get(),
            "inv_diag": factor.inv_diag,
            "logdet": factor.logdet,
        }
        if isinstance(factor, Factor):
            self.calls["L"] = lambda: factor.L().data
            self.calls["operator"] = lambda: factor.as_linear_operator().matmat(b)
        self.want: list[dict[str, bytes]] = []
        self.spent: dict[str, float] = {}
        for which in (0, 1):
            self._refactorize(which)
            self.want.append({name: bits(call()) for name, call in self.calls.items()})
        for name in (*self.calls, *self.refactorize):
            begin = time.perf_counter()
            self.run(name, 1)()
            self.spent[name] = time.perf_counter() - begin
        self.holds: set[int] = {1}  # which values it may have
        self.may_refuse = False

    #: Ways of another factorisation.
    refactorize = ("refactorize", "refactorize, device", "refactorize, told")

    @property
    def queue(self) -> Any:
        """The factor's queue."""
        factor = self.factor
        return factor.queue if isinstance(factor, Factor) else factor._blocks.queue

    def _stored(self, values: list[Any]) -> list[Any]:
        return [v if sp.issparse(v) else np.asarray(v) for v in values]

    def _refactorize(self, which: int) -> None:
        self.factor.refactorize(self.values[which])

    def run(self, name: str, which: int) -> Callable[[], Any]:
        """A call, which takes one of the sets of values."""
        if name not in self.refactorize:
            return self.calls[name]

        def work() -> None:
            if name == "refactorize, device":
                self.factor.refactorize(self.on_device[which])
            elif name == "refactorize, told":
                self.factor.refactorize(self.values[which], progress=lambda *_: None)
            else:
                self._refactorize(which)

        return work

    def fault(self, name: str) -> str | None:
        """The fault of a call's result, if any."""
        try:
            result = bits(self.calls[name]())
        except ArgumentError as error:
            if not self.may_refuse or "interrupted" not in str(error):
                return f"{self.name}: {name} raises {error!r}"
            self._refactorize(0)
            self.holds, self.may_refuse = {0}, False
            result = bits(self.calls[name]())
        live = {which for which in self.holds if self.want[which][name] == result}
        if not live:
            return f"{self.name}: {name} has wrong bits"
        self.holds, self.may_refuse = live, False
        return None


def bits(array: Any) -> bytes:
    """A result's bits."""
    return np.asarray(array).tobytes()


def subjects(engine: Engine, folder: str) -> list[Subject]:
    """Factors of every kind."""
    dtype = np.dtype(np.float64 if engine.target.fp64 else np.float32)
    lines = [sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n)) for n in (31, 25)]
    A = sp.kron(lines[0], sp.eye(25)) + sp.kron(sp.eye(31), lines[1])
    A = sp.csr_array(A, dtype=dtype)
    other = sp.csr_array(3 * A + sp.eye(A.shape[0]), dtype=dtype)
    assert other.nnz == A.nnz
    rng = np.random.default_rng(0)
    b = rng.standard_normal((A.shape[0], 3)).astype(dtype)
    symbolic = analyze(A, "amd")
    whole = Factor(symbolic, dtype, engine)
    size = whole.stats.factor_bytes

    def factor(share: float | None) -> Callable[[], Any]:
        limit = None if share is None else int(share * size)
        return lambda: Factor(symbolic, dtype, engine, memory_limit=limit, spill_dir=folder)

    small = analyze(A[:81, :81])
    stored = [np.stack([m[:81, :81].tocsr().data] * 3) for m in (A, other)]
    right = rng.standard_normal((3, 81, 2)).astype(dtype)
    return [
        Subject("a third on the device", factor(0.34), [A, other], b),
        Subject("a fifth on the device", factor(0.2), [A, other], b),
        Subject("all on the device", factor(None), [A, other], b),
        Subject("a stack", lambda: FactorStack(small, 3, dtype, engine), stored, right),
    ]


def descriptors() -> int:
    """How many files this process has open, where the system says so."""
    result = Path("/proc/self/fd")
    return len(list(result.iterdir())) if result.exists() else 0


def stress(engine: Engine, interrupts: int, seconds: float, seed: int) -> tuple[Counter[str], str]:
    """Interrupt calls; how many of each were left, and what went wrong, if anything did."""
    rng = np.random.default_rng(seed)
    left: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        every = subjects(engine, folder)
        fault = None
        timer = Timer()
        before = descriptors(), threading.active_count()
        peak = before[0]
        end, shown = time.monotonic() + seconds, time.monotonic()
        while fault is None and left.total() < interrupts and time.monotonic() < end:
            faulthandler.dump_traceback_later(LONG, exit=True)
            fault = interruption(every, timer, rng, left)
            peak = max(peak, descriptors())
            if time.monotonic() > shown + 30:
                shown = time.monotonic()
                print(f"{left.total()} interrupts, {peak} descriptors", file=sys.stderr, flush=True)
        faulthandler.cancel_dump_traceback_later()
        gc.collect()
        after = descriptors(), threading.active_count()
        if fault is None and (peak > before[0] + 2 * len(every) or after != before):
            fault = f"descriptors and threads: {before}, then {after}, at most {peak}"
        if files := list(Path(folder).iterdir()):
            fault = fault or f"files are left: {files}"
        print(
            f"{left.total()} interrupts; descriptors {before[0]}, at most {peak}, then {after[0]}"
        )
    return left, fault or ""


def interruption(
    every: list[Subject], timer: Timer, rng: np.random.Generator, left: Counter[str]
) -> str | None:
    """Interrupt one call; what is wrong after it."""
    subject = every[int(rng.integers(len(every)))]
    names = [*subject.calls, *subject.refactorize]
    name, which = str(rng.choice(names)), int(rng.integers(2))
    work, result = subject.run(name, which), list[str]()
    kind = rng.random()
    if kind < CALLS:
        timer.call = reentrant(subject, str(rng.choice(names)), result)
    elif kind < CALLS + TWICE:
        timer.again = max(1e-6, rng.uniform(0, SOON))
    if name in subject.refactorize:
        subject.holds.add(which)
        subject.may_refuse = True
    is_call = timer.call is not None
    might_hold = set(subject.holds)
    try:
        was_left = timer.leaves(work, max(1e-6, rng.uniform(0, 1.2 * subject.spent[name])))
    except Exception as error:
        return f"{subject.name}: {name} raises {error!r}"
    if name in subject.refactorize and not was_left:
        # A handler's call may have come when the factorisation was complete already.
        subject.holds, subject.may_refuse = might_hold if is_call else {which}, False
    if was_left and not is_call:
        left[f"{subject.name}: {name}"] += 1
    if result:
        return result[0]
    fault = subject.fault("solve" if rng.random() < 0.8 else str(rng.choice(list(subject.calls))))
    return fault and f"{fault} after {name}"


def reentrant(subject: Subject, name: str, found: list[str]) -> Callable[[], None]:
    """A handler that calls the factor, and notes what is wrong."""

    def call() -> None:
        try:
            if name in subject.refactorize:  # with the values that it has, unless it is refused
                subject.run(name, min(subject.holds))()
                return
            result = bits(subject.calls[name]())
        except ArgumentError as error:
            if "interrupted" not in str(error) and "midst" not in str(error):
                found.append(f"{subject.name}: {name} of a handler raises {error!r}")
            return
        except Exception as error:
            found.append(f"{subject.name}: {name} of a handler raises {error!r}")
            return
        if all(result != want[name] for want in subject.want):
            found.append(f"{subject.name}: {name} of a handler has wrong bits")

    return call


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interrupts", type=int, default=30000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    engine = Engine()
    print(engine)
    left, fault = stress(engine, options.interrupts, options.seconds, options.seed)
    for name, count in sorted(left.items()):
        print(f"{count:7}  {name}")
    if fault:
        print(f"FAULT: {fault}")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
