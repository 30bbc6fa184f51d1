"""Calls in the middle of calls: from signal handlers, finalizers and other threads."""

from __future__ import annotations

import gc
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError
from portable_gpu.runtime import program as programs
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.inside_pyopencl import new_kernel
from portable_gpu.runtime.program import ProgramCache

OUTER, INNER = np.full(1000, 3, np.int32), np.full(1000, 5, np.int32)
NOTE = """
#pragma OPENCL EXTENSION cl_khr_byte_addressable_store : enable
__kernel void note(__global int *out, int a, int b) { out[0] = a + 10 * b; }
"""


def spec(text: str = NOTE) -> Specialization:
    arguments = [buffer("int", "out", writes=True), *scalars("int", "a", "b")]
    return Specialization("test/note", text, (), kernels={"note": arguments})


@pytest.fixture
def cache(engine: Engine) -> ProgramCache:
    return ProgramCache(engine.context, engine.device, DiskCache(None))


@pytest.fixture
def alarm() -> Iterator[Any]:
    """Has a function called by a signal handler, at intervals that no call divides evenly."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("no interval timer")
    before = signal.getsignal(signal.SIGALRM)

    def start(call: Any) -> None:
        def handler(*_: object) -> None:
            call()
            signal.setitimer(signal.ITIMER_REAL, 0.00013 + 0.000007 * (time.monotonic_ns() % 29))

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0001)

    yield start
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("where", ["host", "device"])
def test_signal_handlers_that_call(where: str, engine: Engine, alarm: Any) -> None:
    """The kernel may be called with other numbers between any two steps of a call."""
    outer, inner = OUTER, INNER
    if where == "device":
        outer, inner = (cla.to_device(engine.queue, array) for array in (OUTER, INNER))
    results: list[Any] = []

    def value(found: Any) -> int:
        return int(found.get() if where == "device" else found)

    def call() -> None:
        results.append(value(pg.sum(inner, engine=engine)))

    assert value(pg.sum(outer, engine=engine)) == 3000
    call()
    alarm(call)
    deadline = time.monotonic() + 30
    count = 0
    while len(results) < 1000 and time.monotonic() < deadline:
        for _ in range(50):
            assert value(pg.sum(outer, engine=engine)) == 3000
        count += 50
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert set(results) == {5000}
    assert len(results) >= 200, f"{len(results)} signals in {count} calls"


class _Sums:
    """A cycle, which the garbage collector ends wherever it happens to run."""

    def __init__(self, results: list[int], engine: Engine) -> None:
        self.results, self.engine, self.cycle = results, engine, self

    def __del__(self) -> None:
        self.results.append(int(pg.sum(INNER, engine=self.engine)))


def test_finalizers_that_call(engine: Engine) -> None:
    results: list[int] = []
    thresholds = gc.get_threshold()
    gc.set_threshold(3)
    try:
        for _ in range(2000):
            _Sums(results, engine)
            assert pg.sum(OUTER, engine=engine) == 3000
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert len(results) == 2000
    assert set(results) == {5000}


def test_a_call_between_arguments_and_launch(engine: Engine, cache: ProgramCache) -> None:
    """The inner call comes when the outer one has set some of its arguments."""
    launch = cache.launch(spec(), "note", {}, ["out"], ["a", "b"], (1,), (1,))
    state = engine.state()
    outer, inner = (cla.zeros(engine.queue, 1, np.int32) for _ in range(2))

    class Late:
        """A scalar that is asked for when the buffer has been set."""

        def __init__(self, value: int) -> None:
            self.value = value

        def __int__(self) -> int:
            launch(state, (inner.base_data,), (7, 8))
            return self.value

    launch(state, (outer.base_data,), (1, Late(2)))
    assert outer.get()[0] == 21
    assert inner.get()[0] == 87
    launch(state, (outer.base_data,), (7, 8))
    assert outer.get()[0] == 87


def test_a_call_that_fails_leaves_no_arguments_behind(engine: Engine, cache: ProgramCache) -> None:
    launch = cache.launch(spec(), "note", {}, ["out"], ["a", "b"], (1,), (1,))
    state, out = engine.state(), cla.zeros(engine.queue, 1, np.int32)
    launch(state, (out.base_data,), (1, 2))
    with pytest.raises(ValueError, match="invalid literal"):
        launch(state, (out.base_data,), (5, "five"))
    launch(state, (out.base_data,), (1, 2))
    assert out.get()[0] == 21


# -- builds


def test_a_build_holds_up_nobody_who_wants_something_else(
    cache: ProgramCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, going_on = threading.Event(), threading.Event()
    compiled = programs.compiled

    def build(context: cl.Context, device: cl.Device, text: Any, options: Any) -> cl.Program:
        if "// slow" in text:
            going_on.set()
            assert slow.wait(30)
        return compiled(context, device, text, options)

    monkeypatch.setattr(programs, "compiled", build)
    thread = threading.Thread(target=cache.program, args=(spec(NOTE + "// slow"),))
    thread.start()
    assert going_on.wait(30)
    cache.program(spec())
    assert thread.is_alive()
    slow.set()
    thread.join(30)
    assert len(cache) == 2


def test_threads_that_want_one_program_build_it_once(
    cache: ProgramCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds: list[int] = []
    compiled = programs.compiled

    def build(*arguments: Any) -> cl.Program:
        builds.append(threading.get_ident())
        time.sleep(0.2)
        return compiled(*arguments)

    monkeypatch.setattr(programs, "compiled", build)
    threads = [threading.Thread(target=cache.program, args=(spec(),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(builds) == 1
    assert len(cache) == 1
    assert not cache._building


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, BuildError])
def test_a_builder_that_fails_leaves_others_able_to_build(
    trouble: type[BaseException], cache: ProgramCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = programs.compiled
    calls: list[int] = []

    def build(*arguments: Any) -> cl.Program:
        calls.append(len(calls))
        if len(calls) == 1:
            raise trouble("interrupted")
        return compiled(*arguments)

    monkeypatch.setattr(programs, "compiled", build)
    with pytest.raises(trouble):
        cache.program(spec())
    thread = threading.Thread(target=cache.program, args=(spec(),))
    thread.start()
    thread.join(30)
    assert len(cache) == 1


def test_the_same_program_wanted_in_the_middle_of_its_build(
    cache: ProgramCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = programs.compiled
    calls: list[Any] = []

    def build(*arguments: Any) -> cl.Program:
        calls.append(None)
        if len(calls) == 1:  # as a handler on this thread would
            assert cache.program(spec())
        return compiled(*arguments)

    monkeypatch.setattr(programs, "compiled", build)
    thread = threading.Thread(target=cache.program, args=(spec(),), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


# -- an application's own warnings


def test_filters_of_an_application_stay_as_they_are(engine: Engine) -> None:
    """Threads build, while the application changes its filters and warns."""
    stop = threading.Event()
    texts = [NOTE.replace("10 *", f"{100 + i} *") for i in range(8)]

    def build(part: list[str]) -> None:
        new_cache = ProgramCache(engine.context, engine.device, DiskCache(None))
        while not stop.is_set():
            for text in part:
                new_cache.program(spec(text))
                new_cache._programs.clear()

    def open_engines() -> None:
        while not stop.is_set():
            Engine(engine.device, caller=False).state()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=build, args=(texts[i::2],)) for i in range(2)]
        threads.append(threading.Thread(target=open_engines))
        for thread in threads:
            thread.start()
        filters = list(warnings.filters)
        deadline = time.monotonic() + 3
        sent = 0
        try:
            while time.monotonic() < deadline:
                warnings.warn("the application's own", UserWarning, stacklevel=1)
                sent += 1
                time.sleep(0.0005)
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert warnings.filters == filters
        new_cache = [item for item in caught if "application's own" in str(item.message)]
        assert len(new_cache) == sent
        assert not [item for item in caught if issubclass(item.category, cl.CompilerWarning)]


def test_kernels_are_made_without_pyopencls_invokers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cache of invokers has a lock that its thread cannot take twice; kernels of users work."""
    program = cl.Program(engine.context, "kernel void one(global int *x) { *x = 1; }").build()

    class Cache:
        def __getitem__(self, key: Any) -> Any:
            pytest.fail("an invoker is wanted")

    with monkeypatch.context() as patch:
        patch.setattr(cl, "_PYOPENCL_NO_CACHE", False)
        patch.setattr("pyopencl.invoker.invoker_cache", Cache(), raising=False)
        kernel = new_kernel(program, "one")
    assert kernel.num_args == 1
    values = pg.asarray(np.zeros(1, np.int32), engine=engine)
    cl.Kernel(program, "one")(values.queue, (1,), None, values.base_data)
    assert values.get() == 1
