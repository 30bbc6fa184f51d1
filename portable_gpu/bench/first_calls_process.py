"""The program of a process that makes first calls: what each one costs, and what it compiles.

It is run by its path (:mod:`portable_gpu.bench.first_calls`), so that nothing is imported before
the clock starts.  Its arguments are the names of calls.  It prints a line of JSON after each call.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

_ROWS, _COLUMNS, _GRID = 1000, 300, 50


class Operands:
    """NumPy's arrays and SciPy's matrices of the calls.

    Attributes:
        x: Random numbers, float32.
        a: A positive definite matrix, float64.
    """

    def __init__(self, np: Any) -> None:
        random = np.random.default_rng(0)
        self.complex64 = np.complex64
        self.x = random.standard_normal((_ROWS, _COLUMNS), dtype=np.float32)
        self.a = np.float64(self.x.T @ self.x) + np.eye(_COLUMNS)
        self.b = np.ones(_GRID**2)

    def poisson(self) -> Any:
        """The matrix of five-point differences, float64."""
        sparse = importlib.import_module("scipy.sparse")
        line = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(_GRID, _GRID))
        identity = sparse.identity(_GRID)
        return (sparse.kron(line, identity) + sparse.kron(identity, line)).tocsc()


Call = Callable[[Any, Operands], Any]
#: The calls, in the order in which they are made.
DENSE: dict[str, Call] = {
    "engine": lambda pg, _: pg.default_engine(),
    "sum": lambda pg, o: pg.sum(o.x),
    "argmin axis=1": lambda pg, o: pg.argmin(o.x, axis=1),
    "gemv": lambda pg, o: pg.gemv(o.x, o.x[0]),
    "matmul": lambda pg, o: pg.matmul(o.x, o.x.T),
    "gemm trans_a": lambda pg, o: pg.gemm(o.x, o.x, trans_a="T"),
    "std axis=0": lambda pg, o: pg.std(o.x, axis=0),
    "elementwise": lambda pg, o: pg.elementwise("exp(x - m)", x=o.x, m=o.x[:, :1]),
    "cho_factor": lambda pg, o: pg.linalg.cho_factor(o.a),
    "solve": lambda pg, o: pg.linalg.solve(o.a, o.x.sum(0), assume_a="pos"),
    "lstsq": lambda pg, o: pg.linalg.lstsq(o.x, o.x[:, 0]),
    "rfft axis=0": lambda pg, o: pg.fft.rfft(o.x, axis=0),
    "irfft axis=0": lambda pg, o: pg.fft.irfft(o.complex64(o.x), axis=0),
    "fftconvolve": lambda pg, o: pg.signal.fftconvolve(o.x, o.x[:9, :9]),
}
#: Calls that need llvmlite and SciPy, made after the others.
SPARSE: dict[str, Call] = {
    "sparse.spsolve": lambda pg, o: pg.sparse.spsolve(o.poisson(), o.b),
    "sparse.cholesky": lambda pg, o: pg.sparse.cholesky(o.poisson()),
}
#: What names of calls of the module ``first_calls_layers`` begin with.
LAYER = "nn."
IMPORT, IMPORT_LAYERS = "import", "import nn"
COMPILED = ("programs", "kernels", "text")


class CostTimer:
    """Measures wall time, and processor time of this process and of its ended child processes."""

    def __init__(self) -> None:
        self._cpu, self._wall = _cpu(), time.perf_counter()

    def read(self) -> dict[str, float]:
        """The seconds since the timer was made."""
        return {"cpu": _cpu() - self._cpu, "wall": time.perf_counter() - self._wall}


def _cpu() -> float:
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _compiled(engine: Any) -> dict[str, int]:
    """The counts of compilations of an engine, and of its engine for small calls."""
    caches = [opened.programs for opened in (engine, engine.caller) if opened is not None]
    return {name: sum(cache.compiled[name] for cache in caches) for name in COMPILED}


def main(names: list[str]) -> None:
    """Make calls, each once, and print what each one cost."""
    timer = CostTimer()
    np, pg = importlib.import_module("numpy"), importlib.import_module("portable_gpu")
    before = dict.fromkeys(COMPILED, 0)
    _print(IMPORT, timer.read(), before)
    calls = {**DENSE, **SPARSE}
    if any(name.startswith(LAYER) for name in names):
        timer = CostTimer()
        importlib.import_module("portable_gpu.nn")
        _print(IMPORT_LAYERS, timer.read(), before)
        calls |= _layers()
    operands = Operands(np)
    for name, call in calls.items():
        if name not in names:
            continue
        if name in SPARSE:
            operands.poisson()  # a user of sparse matrices has imported SciPy
        if name != "engine":
            pg.default_engine()
        timer = CostTimer()
        call(pg, operands)
        engine = pg.default_engine()
        engine.queue.finish()
        cost, after = timer.read(), _compiled(engine)
        _print(name, cost, {key: after[key] - before[key] for key in COMPILED})
        before = after


def _layers() -> dict[str, Call]:
    layers = importlib.import_module("portable_gpu.bench.first_calls_layers")
    operands = layers.LayerOperands()

    def bound(call: Callable[[Any, Any], Any]) -> Call:
        return lambda pg, _: call(pg.nn, operands)

    return {LAYER + name: bound(call) for name, call in layers.CALLS.items()}


def _print(name: str, *costs: dict[str, Any]) -> None:
    merged = {key: value for cost in costs for key, value in cost.items()}
    sys.stdout.write(json.dumps({"name": name, **merged}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
