"""Call the library from many threads at once, in one fresh process after the other.

    python tools/thread_stress.py [--processes 50] [--threads 16] [--engines 1] [--interrupts]

Each process makes its arrays and engines, and then starts all threads at the same moment, so that
their first calls build programs and open queues side by side.  Each thread makes ``--turns`` calls
on arrays of NumPy and on the device (``--arrays``), drawn from ``--calls``, or with ``--each 5``
from five of these, which each process draws.  With two engines every second thread uses the second
one.  With ``--interrupts`` the main thread makes calls too, and a timer's signal ends most of them
by an exception.

All results are compared, bit by bit, with those of a process that makes each call once on its only
thread; ``--bits FILE`` stores these for further runs.  A line is printed for each problem of
a process: a crash, more than ``--timeout`` seconds, an error, a wrong result, or an output on
stderr.  The exit status is 0 if there is none.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import hashlib
import importlib
import json
import logging
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import portable_gpu as pg
from portable_gpu import nn

ARRAYS = ("host", "device")
_LEAST, _MOST = 20e-6, 3e-3  # seconds until a signal
_GRID = 24  # points along an edge of the sparse problem's square


class Interrupted(BaseException):
    """The exception that the signal's handler raises, in place of KeyboardInterrupt."""


class Data:
    """The arrays of all calls, on the host and on the device of an engine."""

    def __init__(self) -> None:
        rng = np.random.default_rng(36)
        self.tall = rng.standard_normal((2000, 500)).astype(np.float32)
        self.vector = rng.standard_normal(500).astype(np.float32)
        self.left, self.right = (rng.standard_normal(s) for s in ((150, 200), (200, 120)))
        self.lines = rng.standard_normal((800, 200))
        self.short = rng.standard_normal((40, 96))
        square = rng.standard_normal((30, 12, 12))
        self.definite = square @ square.transpose(0, 2, 1) + 12 * np.eye(12)
        self.maps = rng.standard_normal((4, 8, 12, 12)).astype(np.float32)
        self.filters = rng.standard_normal((6, 8, 3, 3)).astype(np.float32)
        self.sides = rng.standard_normal((30, 12, 3))
        self.unknowns = rng.standard_normal((_GRID**2, 2))


class Place:
    """The place of a call: its engine, and arrays of NumPy or on that engine's device."""

    def __init__(self, data: Data, engine: pg.Engine | None, on_device: bool) -> None:
        self.engine, self._lock = engine, threading.Lock()
        self._factor: Any = None
        for name, array in vars(data).items():
            setattr(self, name, pg.asarray(array, engine=engine) if on_device else array)

    def __getattr__(self, name: str) -> Any:  # for type checkers: the arrays
        raise AttributeError(name)

    def factor(self) -> Any:
        """The factor that all threads share, made by the first one that wants it."""
        with self._lock:
            if self._factor is None:
                self._factor = pg.sparse.cholesky(laplacian(), engine=self.engine)
            return self._factor


@functools.cache
def laplacian() -> Any:
    """The definite matrix of a square of points."""
    import scipy.sparse as sp

    line = sp.diags([-1.0, 2.1, -1.0], [-1, 0, 1], shape=(_GRID, _GRID))
    eye = sp.identity(_GRID)
    return (sp.kron(line, eye) + sp.kron(eye, line)).tocsc()


def _solve(p: Place) -> Any:
    factors = pg.linalg.cho_factor(p.definite, engine=p.engine)
    return pg.linalg.cho_solve(factors, p.sides, engine=p.engine)


CALLS: dict[str, Callable[[Place], Any]] = {
    "sum": lambda p: pg.sum(p.tall, engine=p.engine),
    "columns": lambda p: pg.sum(p.tall, axis=0, engine=p.engine),
    "max": lambda p: pg.max(p.tall, axis=1, engine=p.engine),
    "std": lambda p: pg.std(p.lines, axis=1, engine=p.engine),
    "elementwise": lambda p: pg.elementwise("2 * x + 1", x=p.tall, engine=p.engine),
    "gemv": lambda p: pg.gemv(p.tall, p.vector, engine=p.engine),
    "gemm": lambda p: pg.matmul(p.left, p.right, engine=p.engine),
    "fft": lambda p: pg.fft.fft(p.lines, engine=p.engine),
    "rfft": lambda p: pg.fft.rfft(p.short, engine=p.engine),
    "dct": lambda p: pg.fft.dct(p.short, engine=p.engine),
    "convolve": lambda p: pg.signal.convolve(p.short, p.short[:5, :7], engine=p.engine),
    "cholesky": _solve,
    "conv": lambda p: nn.conv2d(p.maps, p.filters, padding=1, engine=p.engine),
    "pool": lambda p: nn.max_pool2d(p.maps, 2, return_indices=True, engine=p.engine),
    "norm": lambda p: nn.native_layer_norm(p.short, (96,), engine=p.engine),
    "spsolve": lambda p: pg.sparse.spsolve(laplacian(), p.unknowns, engine=p.engine),
    "sparse": lambda p: p.factor().solve(p.unknowns),
}


def digest(result: Any) -> str:
    """The hash of the bits of a result, or of several."""
    results = result if isinstance(result, tuple) else (result,)
    bits = b"".join(np.ascontiguousarray(pg.asnumpy(one)).tobytes() for one in results)
    return hashlib.blake2b(bits, digest_size=12).hexdigest()


class Process:
    """Run one of the processes, and return its faults."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.expected = options, json.loads(options.expected.read_text())
        data = Data()
        engines = [pg.Engine() for _ in range(options.engines)] if options.engines > 1 else [None]
        self.places = [
            [(kind, Place(data, engine, kind == "device")) for kind in options.arrays]
            for engine in engines
        ]
        draw = random.Random(options.seed)
        self.names = draw.sample(options.calls, min(options.each, len(options.calls)))
        if options.interrupts:
            self._import_all()
        self.problems: list[str] = []
        self.done: list[str] = []
        self.left = 0
        self._start = threading.Barrier(options.threads)

    def _import_all(self) -> None:
        """Import what calls import; an exception in the middle leaves Python's own lock locked."""
        importlib.import_module("pyopencl.invoker")
        if {"spsolve", "sparse"} & set(self.names):
            CALLS["spsolve"](self.places[0][0][1])

    def call(self, rng: random.Random, places: list[tuple[str, Place]]) -> None:
        """Make a call, and compare its result."""
        name, (kind, place) = rng.choice(self.names), rng.choice(places)
        result = digest(CALLS[name](place))
        self.done.append(name)
        if result != self.expected[f"{name} {kind}"]:
            self.problems.append(f"wrong bits: {name} on {kind} arrays")

    def work(self, number: int) -> None:
        """Make the calls of a thread."""
        rng = random.Random(f"{self.options.seed} {number}")
        places = self.places[number % len(self.places)]
        self._start.wait()
        try:
            for _ in range(self.options.turns):
                self.call(rng, places)
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")

    def interrupt(self, threads: list[threading.Thread]) -> None:
        """Make calls on the main thread that a signal interrupts, while other threads work."""
        rng = random.Random(f"{self.options.seed} signals")
        while any(thread.is_alive() for thread in threads):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(_LEAST, _MOST))
                try:
                    self.call(rng, rng.choice(self.places))
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                self.left += 1
            except Exception as error:
                self.problems.append(f"beside signals, {type(error).__name__}: {error}")
                return

    def run(self) -> None:
        """Start the threads, wait for them, and print counts and problems."""
        threads = [
            threading.Thread(target=self.work, args=(n,)) for n in range(self.options.threads)
        ]
        if self.options.interrupts:
            signal.signal(signal.SIGALRM, _stop)
        for thread in threads:
            thread.start()
        if self.options.interrupts:
            self.interrupt(threads)
        for thread in threads:
            thread.join()
        result = {"calls": len(self.done), "left": self.left, "problems": self.problems}
        print(json.dumps(result))


def _stop(*_: Any) -> None:
    raise Interrupted


def write_expected(file: Path, calls: list[str], arrays: list[str]) -> None:
    """Make each call once, and write the hashes of the results."""
    data = Data()
    places = {kind: Place(data, None, kind == "device") for kind in arrays}
    result = {f"{n} {kind}": digest(CALLS[n](p)) for n in calls for kind, p in places.items()}
    file.write_text(json.dumps(result))


def outcome(arguments: list[str], timeout: float) -> tuple[dict[str, Any], list[str]]:
    """Run one process; what it counted, and its problems."""
    command = [sys.executable, __file__, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout + 30)
    except subprocess.TimeoutExpired:
        return {}, ["hangs, and does not even end itself"]
    written = done.stderr.strip()
    if done.returncode < 0:
        return {}, [f"crash: {signal.Signals(-done.returncode).name}\n{written}"]
    if "Timeout (" in written:
        return {}, [f"hangs\n{written}"]
    if done.returncode:
        return {}, [f"exit status {done.returncode}\n{written}"]
    counts = json.loads(done.stdout or '{"problems": []}')
    return counts, counts["problems"] + ([f"written: {written}"] if written else [])


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=50)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--engines", type=int, default=1, choices=(1, 2))
    parser.add_argument("--turns", type=int, default=20, help="calls of a thread")
    parser.add_argument("--calls", type=lambda text: text.split(","), default=list(CALLS))
    parser.add_argument("--each", type=int, default=len(CALLS), help="calls that a process draws")
    parser.add_argument("--arrays", type=lambda text: text.split(","), default=list(ARRAYS))
    parser.add_argument("--interrupts", action="store_true")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds of a process")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bits", type=Path, help="what results are to be; made if it is missing")
    for name in ("expected", "write"):  # what a process of its own is to do
        parser.add_argument(f"--{name}", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name, allowed in (("calls", CALLS), ("arrays", ARRAYS)):
        if unknown := set(getattr(options, name)) - set(allowed):
            parser.error(f"--{name}: no {', '.join(sorted(unknown))}; it has {', '.join(allowed)}")
    return options


def main(arguments: list[str]) -> int:
    """Run the processes, or be one of them; returns the exit status."""
    options = parsed(arguments)
    if options.write or options.expected:
        logging.getLogger("portable_gpu").setLevel(logging.ERROR)  # no notice of long compilation
        faulthandler.enable()
        faulthandler.dump_traceback_later(options.timeout, exit=True)
        if options.write:
            write_expected(options.write, options.calls, options.arrays)
        else:
            Process(options).run()
        return 0
    totals = {"calls": 0, "left": 0}
    bad, begin = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="portable_gpu-threads-") as folder:
        expected = options.bits or Path(folder) / "expected.json"
        if not expected.exists():
            _, problems = outcome([*arguments, "--write", str(expected)], options.timeout)
            if not expected.exists():
                print("the process with one thread:", *problems)
                return 1

        def run(number: int) -> tuple[dict[str, Any], list[str]]:
            process_options = ["--expected", str(expected), "--seed", str(options.seed + number)]
            return outcome([*arguments, *process_options], options.timeout)

        with ThreadPoolExecutor(options.jobs) as pool:
            for number, (counts, problems) in enumerate(pool.map(run, range(options.processes))):
                for name in totals:
                    totals[name] += counts.get(name, 0)
                bad += bool(problems)
                for problem in sorted(set(problems)):
                    print(f"process {number}: {problems.count(problem)} x {problem}", flush=True)
    print(
        f"{options.processes} processes, {options.threads} threads, {options.engines} engine(s): "
        f"{totals['calls']} calls, {totals['left']} left by a signal, {bad} processes with "
        f"problems, {time.monotonic() - begin:.0f} s"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
