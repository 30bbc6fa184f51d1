"""Exceptions of signal handlers at any moment of a call: only the memory of the result is written.

If a kernel still runs after its call has ended, it writes to memory that Python may have given to
another object.  So after each interrupted call the test allocates arrays of a known value, which
would get that memory, and checks them when everything has ended.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
import scipy.sparse as sp
from interruptions import Interrupted, handler, interrupted, stop

import portable_gpu as pg
from portable_gpu import folders
from portable_gpu.codegen import source
from portable_gpu.ops.registry import CATALOGUE
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch
from portable_gpu.runtime.recording import Kernels
from portable_gpu.targets import example_target
from portable_gpu.tuning.table import read_rows

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="this system has no timer that raises a signal"
)

# Results of hundreds of KiB, by kernels that take a few tenths of a millisecond: there is time to
# leave the call, and memory for others to be given.
X = np.random.default_rng(0).integers(-9, 10, (600, 500)).astype(np.float32)
ONES = np.ones((500, 500), np.float32)
BLOCKS = X.reshape(-1, 4, 4)  # transforms of four integers are exact
CALLS: dict[str, tuple[Callable[[], Any], Any]] = {
    "matmul": (lambda: pg.matmul(X, ONES), X @ ONES),
    "sum": (lambda: pg.sum(X.reshape(60, 10, 500), axis=1), X.reshape(60, 10, 500).sum(axis=1)),
    "misaligned": (lambda: pg.matmul(unaligned(X), ONES), X @ ONES),
    "into a copy": (lambda: pg.gemm(X, ONES, epilogue=pg.Epilogue().bias([1] * 500)), X @ ONES + 1),
    "fftn": (lambda: pg.fft.fftn(BLOCKS, axes=(1, 2)), np.rint(np.fft.fftn(BLOCKS, axes=(1, 2)))),
}


def unaligned(array: np.ndarray) -> np.ndarray:
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
    copy = np.ndarray(array.shape, array.dtype, memory)
    copy[...] = array
    return copy


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_left_when_its_kernels_are_done(engine: Engine, name: str) -> None:
    call, want = CALLS[name]
    np.testing.assert_array_equal(call(), want)
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    rng = np.random.default_rng(1)
    left, turn = 0, 0
    with handler(stop):
        while left < 50:
            turn += 1
            assert turn < 500, f"only {left} calls were interrupted"
            left += interrupted(call, max(1e-6, rng.uniform(0, min(spent))))
            others = [np.full(want.shape, turn, np.float32) for _ in range(3)]
            copy = X.copy()
            engine.queue.finish()
            assert all((other == turn).all() for other in others)
            assert (copy == X).all()
    np.testing.assert_array_equal(call(), want)
    assert not engine.state().in_flight


@pytest.mark.parametrize("is_known", [False, True], ids=["first call", "repeated call"])
def test_a_second_exception_while_the_first_waits(
    engine: Engine, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C twice: the wait for the kernels is left as well, and the memory stays."""
    call, want = CALLS["matmul"]
    np.testing.assert_array_equal(call(), want)
    state = engine.state()
    owner, name = (Kernels, "enqueue") if is_known else (Launch, "__call__")
    launch = getattr(owner, name)

    def launch_and_stop(*arguments: Any) -> None:
        launch(*arguments)
        raise Interrupted

    for turn in range(40):
        if not is_known:
            state.known.clear()
        with monkeypatch.context() as planted:
            planted.setattr(owner, name, launch_and_stop)
            planted.setattr(state, "finish", stop)
            with pytest.raises(Interrupted):
                call()
        assert len(state.in_flight) == 1
        others = [np.full(want.shape, turn, np.float32) for _ in range(3)]
        engine.queue.finish()
        assert all((other == turn).all() for other in others)
        state.in_flight.clear()
        np.testing.assert_array_equal(call(), want)


def test_device_arrays(engine: Engine) -> None:
    """An interrupted call on device arrays leaves the other arrays of the pool as they are."""
    x, ones = cla.to_device(engine.queue, X), cla.to_device(engine.queue, ONES)
    call, want = (lambda: pg.matmul(x, ones)), X @ ONES
    retained = [call() for _ in range(3)]
    rng = np.random.default_rng(3)
    with handler(stop):
        for _ in range(250):
            interrupted(call, 10 ** rng.uniform(-5.3, -3))
    for result in (*retained, call()):
        np.testing.assert_array_equal(result.get(), want)


def test_handlers_and_destructors_that_call(engine: Engine) -> None:
    """Make the same calls again from a signal handler and from ``__del__`` during each call."""
    small = np.arange(35, dtype=np.float32).reshape(5, 7)
    on_device = cla.to_device(engine.queue, small)
    seen: list[Any] = []
    calls: list[Callable[[np.ndarray, Any], Any]] = [
        lambda x, d: pg.sum(x, axis=0),
        lambda x, d: pg.sum(d, axis=0).get(),
        lambda x, d: pg.max(x, axis=0),
        lambda x, d: pg.matmul(np.ones((1, len(x)), np.float32), x)[0],
    ]
    wants = [
        lambda x: x.sum(axis=0), lambda x: x.sum(axis=0), lambda x: x.max(axis=0),
        lambda x: x.sum(axis=0),
    ]  # fmt: skip
    other = cla.to_device(engine.queue, small + 1)

    def call_in_between(*_: Any) -> None:
        which = len(seen) % len(calls)
        seen.append(np.array_equal(calls[which](small + 1, other), wants[which](small + 1)))

    def call_and_wind_up(*_: Any) -> None:
        call_in_between()
        signal.setitimer(signal.ITIMER_REAL, 2e-4)

    class Destroyed:
        def __init__(self) -> None:
            self.cycle = self

        __del__ = call_in_between

    with handler(call_and_wind_up):
        signal.setitimer(signal.ITIMER_REAL, 1e-4)
        for turn in range(2000):
            Destroyed()
            which = turn % len(calls)
            np.testing.assert_array_equal(calls[which](small, on_device), wants[which](small))
    gc.collect()
    assert len(seen) > 2000
    assert all(seen)


def test_handlers_call_while_other_threads_do(engine: Engine) -> None:
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    want, wrong, stopped = x.sum(axis=0), [], threading.Event()

    def work() -> None:
        while not stopped.is_set():
            if not np.array_equal(pg.sum(x, axis=0), want):
                wrong.append("thread")

    def call_in_between(*_: Any) -> None:
        if not np.array_equal(pg.sum(x + 1, axis=0), want + 5):
            wrong.append("handler")
        signal.setitimer(signal.ITIMER_REAL, 5e-4)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with handler(call_in_between):
            signal.setitimer(signal.ITIMER_REAL, 1e-3)
            for _ in range(1500):
                if not np.array_equal(pg.sum(x - 1, axis=0), want - 5):
                    wrong.append("main")
    finally:
        stopped.set()
        for thread in threads:
            thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_templates_compiled_in_the_midst_of_templates() -> None:
    """Python's parser, which Mako calls, loses count where a handler parses meanwhile."""
    target, float32 = example_target("gcn"), np.dtype(np.float32)

    def texts() -> list[str]:
        return [spec.text for spec in CATALOGUE["sum"](target, float32)]

    want, seen, rng = texts(), [], np.random.default_rng(4)
    source._templates._compiled.clear()
    begin = time.perf_counter()
    texts()
    once = time.perf_counter() - begin
    with handler(lambda *_: seen.append(texts() == want)):
        for _ in range(6):
            source._templates._compiled.clear()
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.01, 0.7) * once)
            assert texts() == want
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert seen
    assert all(seen)


class Interruption:
    """A template that an exception leaves as Mako's filtered blocks are left."""

    def render(self, **_: Any) -> str:
        try:
            raise Interrupted
        finally:
            [].pop()


def test_an_exception_of_a_handler_in_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mako's clean-up fails then, and its error is not what comes out."""
    monkeypatch.setattr(
        source, "_templates", SimpleNamespace(get_template=lambda _: Interruption())
    )
    with pytest.raises(Interrupted):
        source.render("reduce/rows")


def test_an_exception_of_a_handler_comes_through(engine: Engine) -> None:
    """It is not taken for one of an argument's."""

    class Array:
        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            raise TimeoutError("30 s are over")

    with pytest.raises(TimeoutError):
        pg.sum(Array())


class Slow:
    """A value during whose conversion a signal comes."""

    def _value(self, *_: Any, **__: Any) -> Any:
        signal.raise_signal(signal.SIGALRM)
        return 0

    __index__ = __float__ = __iter__ = __array__ = _value
    dtype = property(_value)


LAPLACIAN = sp.csr_array(sp.diags_array([4.0, 4.0, 4.0]))
CONVERSIONS: dict[str, Callable[[], Any]] = {
    "axis": lambda: pg.sum(X, axis=Slow()),
    "axes": lambda: pg.sum(X, axis=(0, Slow())),
    "keepdims": lambda: pg.sum(X, keepdims=Slow()),
    "dtype": lambda: pg.sum(X, dtype=Slow()),
    "ddof": lambda: pg.var(X, ddof=Slow()),
    "array": lambda: pg.sum(Slow()),
    "wait_for": lambda: pg.sum(X, wait_for=Slow()),
    "n": lambda: pg.fft.fft(X, n=Slow()),
    "axes of a convolution": lambda: pg.signal.fftconvolve(X, X, axes=[Slow()]),
    "relax": lambda: pg.sparse.analyze(LAPLACIAN, relax=Slow()),
    "ordering": lambda: pg.sparse.analyze(LAPLACIAN, Slow()),
    "dtype of a factor": lambda: pg.sparse.cholesky(LAPLACIAN, dtype=Slow()),
    "offset": lambda: pg.linalg.ragged.Ragged(X[0], [2], offsets=Slow()),
    "a shape": lambda: pg.nn.conv2d_input(Slow(), ONES[:2, :2, None, None], X),
    "parameters": lambda: pg.nn.SGD(Slow(), 0.1),
}


class Alarm:
    """A signal handler that is an object, with the usual exception; TimeoutError is an OSError."""

    def __call__(self, *_: Any) -> None:
        raise TimeoutError("30 s are over")

    def ring(self, *_: Any) -> None:
        raise TimeoutError("30 s are over")


@pytest.mark.parametrize("name", CONVERSIONS)
def test_an_exception_of_a_handler_in_a_conversion(engine: Engine, name: str) -> None:
    """It is not reported as an error of the argument."""
    of_object = Alarm()
    for of_signal in (of_object, of_object.ring, partial(of_object.ring, 0)):
        with handler(of_signal), pytest.raises(TimeoutError):
            CONVERSIONS[name]()


def test_an_exception_of_a_handler_in_file_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is not taken for an error of the file."""
    cache = DiskCache(tmp_path)
    cache.write("a", b"x")
    monkeypatch.setattr(folders, "read_own", Slow()._value)
    with handler(Alarm()):
        for read in (lambda: cache.read("a"), lambda: read_rows(tmp_path / "rows.json")):
            with pytest.raises(TimeoutError):
                read()
        monkeypatch.setattr(os, "replace", Slow()._value)
        with pytest.raises(TimeoutError):
            cache.write("b", b"x")


def test_a_failing_launch_leaves_nothing_behind(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two kernels fails: the first is done when the error comes out."""
    if not engine.target.fp64:
        pytest.skip("the device has no double precision, in which a variance takes two passes")
    state, launch, finish = engine.state(), Launch.__call__, engine.state().finish
    launched: list[Launch] = []
    finished: list[int] = []

    def fail_at_the_second(self: Launch, *arguments: Any) -> Any:
        launched.append(self)
        if len(launched) == 2:
            raise cl.RuntimeError("planted")
        return launch(self, *arguments)

    monkeypatch.setattr(state, "finish", lambda: finished.append(len(launched)) or finish())
    monkeypatch.setattr(Launch, "__call__", fail_at_the_second)
    with pytest.raises(cl.RuntimeError, match="planted"):
        pg.var(np.ones((40, 50), np.complex128), axis=1, engine=engine)
    assert finished == [2]
    assert not state.in_flight
