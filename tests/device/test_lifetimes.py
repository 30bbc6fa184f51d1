"""Lifetimes of the states of queues, contexts and engines; processes that fork."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.runtime import registry
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import BoundKernel
from portable_gpu.runtime.queue_state import QueueState

ROOT = Path(__file__).parents[2]


def alive(kind: type) -> int:
    # ``isinstance`` would read the class of what a weak proxy stands for, which may be gone.
    return sum(issubclass(type(thing), kind) for thing in gc.get_objects())


def resident() -> int:
    """Bytes of memory that this process has."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux alone tells")


def test_what_is_kept_for_a_queue_goes_with_it(engine: Engine) -> None:
    gc.disable()  # it goes at once, not when Python looks for cycles
    try:
        queue, retained = cl.CommandQueue(engine.context, engine.device), set()
        for _ in range(3):
            assert pg.sum(cla.to_device(queue, np.ones(10, np.float32))).get() == 10
            retained.add(weakref.ref(registry.known_state(queue)))  # type: ignore[arg-type]
        (state,) = retained
        assert isinstance(state(), QueueState)
        del queue
        assert state() is None
    finally:
        gc.enable()


def test_results_carry_the_callers_queue(engine: Engine) -> None:
    """A chain of results keeps the queue and its state alive."""
    queue = cl.CommandQueue(engine.context, engine.device)
    x = cla.to_device(queue, np.ones((4, 4), np.float32))
    for _ in range(3):
        assert pg.max(x, axis=0).queue is queue
        assert pg.max(x, axis=0, engine=engine).queue is queue
        assert pg.sum(np.ones(4), queue=queue) == 4
    state = registry.known_state(queue)
    y = x
    del queue, x
    for _ in range(5):
        y = pg.matmul(y, y)
    assert registry.known_state(y.queue) is state
    np.testing.assert_array_equal(y.get(), np.full((4, 4), 4.0**31))


def test_arrays_of_another_queue_outlive_both_queues(engine: Engine) -> None:
    """A call on another queue keeps its inputs, also where all its objects are dropped."""
    theirs, ours = (cl.CommandQueue(engine.context, engine.device) for _ in range(2))
    x = pg.matmul(cla.to_device(theirs, np.ones((64, 64), np.float32)), np.ones((64, 64), "f4"))
    gate = cl.UserEvent(engine.context)
    result = pg.sum(x, queue=ours, wait_for=[gate])
    repeated = pg.sum(np.ones(3), queue=theirs)
    fills = [cla.to_device(theirs, np.full((64, 64), 7, np.float32)) for _ in range(4)]
    del x, theirs, ours
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert (result.get(), repeated, len(fills)) == (64**3, 3, 4)


@needs_proc
def test_a_result_moved_to_another_queue_keeps_its_memory(engine: Engine) -> None:
    """Its memory belongs to the pool of the queue that made it."""
    theirs, ours = (cl.CommandQueue(engine.context, engine.device) for _ in range(2))
    ones, sevens = (cla.to_device(theirs, np.full((64, 1000), n, np.float32)) for n in (1, 7))
    for _ in range(3):
        moved = pg.sum(ones, axis=0)
        theirs.finish()
        gate = cl.UserEvent(engine.context)
        cl.enqueue_barrier(ours, wait_for=[gate])
        total = pg.sum(moved.with_queue(ours)[:500])
        del moved
        others = [pg.sum(sevens, axis=0) for _ in range(3)]
        theirs.finish()
        gate.set_status(cl.command_execution_status.COMPLETE)
        assert total.get() == 64 * 500
        assert others[0].get()[0] == 64 * 7


def test_arrays_of_another_queue_are_let_go(engine: Engine) -> None:
    theirs, ours = (cl.CommandQueue(engine.context, engine.device) for _ in range(2))
    x = pg.asarray(np.ones(99, np.float32), queue=theirs)
    gone = weakref.ref(x)
    assert pg.sum(x, queue=ours).get() == 99
    ours.finish()
    del x
    pg.sum(pg.asarray(np.ones(3, np.float32)))
    gc.collect()
    assert gone() is None


def test_a_remembered_call_on_arrays_without_a_queue(engine: Engine) -> None:
    x = pg.asarray(np.ones(99, np.float32), engine=engine)
    for array in (x, x, x.with_queue(None), x.with_queue(None)):
        assert pg.sum(array, engine=engine).get() == 99


def test_the_default_engine_is_closed_again_and_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that name no engine go on in other threads."""
    monkeypatch.setattr(registry, "_default", Engine(engine.device))
    x, wrong, stopped = np.ones(10, np.float32), [], threading.Event()

    def work() -> None:
        while not stopped.is_set():
            try:
                assert pg.sum(x) == 10
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        time.sleep(0.01)
        pg.default_engine().close()
    stopped.set()
    for thread in threads:
        thread.join(60)
    pg.default_engine().close()
    assert not wrong


def test_a_thousand_queues(engine: Engine) -> None:
    x = np.ones(100, np.float32)

    def use(count: int) -> None:
        for _ in range(count):
            queue = cl.CommandQueue(engine.context, engine.device)
            assert pg.sum(cla.to_device(queue, x)).get() == 100
            assert pg.sum(x, engine=engine, queue=queue) == 100

    use(200)
    before = resident()
    use(1000)
    assert resident() - before < 11 << 20


@needs_proc
def test_many_engines(engine: Engine) -> None:
    """Dropped and closed ones; every fifth with a context and a queue of the user's."""
    x = np.ones(100, np.float32)

    def use(count: int) -> None:
        for turn in range(count):
            if turn % 5 == 0:
                context = cl.Context([engine.device])  # Intel's queues do not keep theirs
                queue = cl.CommandQueue(context)
                assert pg.sum(cla.to_device(queue, x)).get() == 100
            new_engine = Engine(engine.device)
            assert pg.sum(x, engine=new_engine) == 100
            assert pg.sum(cla.to_device(new_engine.queue, x), engine=new_engine).get() == 100
            if turn % 2:
                new_engine.close()

    use(10)
    before, count = resident(), alive(Engine)
    use(20)
    assert resident() - before < 9 << 20
    assert alive(Engine) < count + 10


def test_a_closed_engine(engine: Engine) -> None:
    x = np.ones((5, 5), np.float32)
    with Engine(engine.device) as new_engine:
        on_device = cla.to_device(new_engine.queue, x)
        plan = pg.plan("gemm", x, x, engine=new_engine)
        for _ in range(2):
            assert pg.sum(x, engine=new_engine) == pg.sum(on_device, engine=new_engine).get() == 25
        retained = pg.sum(on_device, engine=new_engine)
    assert new_engine.is_closed
    new_engine.close()
    for call in (
        lambda: pg.sum(x, engine=new_engine),
        lambda: pg.sum(on_device, engine=new_engine),
    ):
        with pytest.raises(ArgumentError, match="engine is closed; open another"):
            call()
    with pytest.raises(ArgumentError, match="the plan's engine is closed"):
        plan(x, x)
    assert retained.get() == 25
    assert pg.sum(on_device).get() == 25  # its queue serves calls that name no engine


def test_a_closed_engine_keeps_no_kernels(engine: Engine) -> None:
    """Neither plans nor programs, while the engine and an array of it exist."""
    kinds = (BoundKernel, cl.Program)
    gc.collect()
    x, before = np.ones((64, 70), np.float32), [alive(kind) for kind in kinds]
    new_engine = Engine(engine.device)
    retained = pg.asarray(x, engine=new_engine)
    for _ in range(3):
        assert pg.sum(retained, engine=new_engine).get() == pg.sum(x, engine=new_engine) == 64 * 70
    assert all(alive(kind) > count for kind, count in zip(kinds, before, strict=True))
    new_engine.close()
    gc.collect()
    assert [alive(kind) for kind in kinds] == before
    assert retained.get().sum() == 64 * 70


def test_the_default_engine_is_opened_anew(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_default", Engine(engine.device))
    first = pg.default_engine()
    x = cla.to_device(first.queue, np.ones(9, np.float32))
    assert pg.sum(x).get() == pg.sum(np.ones(9)) == 9
    first.close()
    assert pg.sum(x).get() == pg.sum(np.ones(9)) == 9
    assert pg.default_engine() is not first


def test_arrays_without_a_queue(engine: Engine) -> None:
    context = cl.Context([engine.device])
    queue = cl.CommandQueue(context)
    for _ in range(2):
        x = cla.to_device(queue, np.ones(9, np.float32))
        queue.finish()
        assert pg.sum(x.with_queue(None)).with_queue(queue).get() == 9


# -- forks

FORKS = """
with multiprocessing.get_context("fork").Pool(1) as pool:
    print("multiprocessing", pool.apply_async(work).get(60))

with concurrent.futures.ProcessPoolExecutor(
    1, mp_context=multiprocessing.get_context("fork")
) as pool:
    print("futures", pool.submit(work).result(60), flush=True)

child = os.fork()
if child == 0:
    print("os.fork", work(), flush=True)
    sys.exit(7)  # the interpreter ends as ever: destructors are run
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
SCRIPT = """
import concurrent.futures, multiprocessing, os, pickle, sys
import numpy as np
import portable_gpu as pg
from portable_gpu.errors import ForkError

x = np.ones((4, 4), np.float32)

def work():
    calls = [
        lambda: pg.sum(x), lambda: pg.gemv(x, x[0]), lambda: pg.matmul(x, x), lambda: plan(x, x),
        lambda: pg.sum(on_device), pg.devices, pg.Engine, lambda: pg.sum(x, engine=engine),
        lambda: pg.explain("sum", 10), lambda: pg.asnumpy(on_device), lambda: float(result),
        lambda: np.from_dlpack(result), lambda: ours.get(), lambda: ours + 1, lambda: ours == ours,
        lambda: ours[0], lambda: ours.T, lambda: repr(ours), lambda: ours.copy(),
        lambda: ours.sum(), lambda: ours.__setitem__(0, 1), lambda: ours.__iadd__(1),
        lambda: pickle.dumps(ours),
    ]
    raised = 0
    for call in calls:
        try:
            call()
        except ForkError as error:
            raised += "spawn" in str(error)
    return f"{raised} of {len(calls)}"
"""


def run(text: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True,
        timeout=120, check=False, **options,
    )  # fmt: skip


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@needs_fork
def test_a_forked_child_is_told() -> None:
    use = """
import pyopencl.array as cla
engine = pg.default_engine()
on_device = cla.to_device(engine.queue, x)
plan = pg.plan("gemm", x, x)
result = pg.sum(on_device)
ours = pg.asarray(x)
for _ in range(2):
    pg.sum(x), pg.gemv(x, x[0]), pg.matmul(x, x), plan(x, x), pg.sum(on_device)
"""
    done = run(SCRIPT + use + FORKS + "\nassert pg.sum(x) == 16\n")
    assert done.returncode == 0, done.stderr
    for method in ("multiprocessing", "futures", "os.fork"):
        assert f"{method} 23 of 23" in done.stdout


@needs_fork
def test_a_child_forked_before_the_first_use_works() -> None:
    text = """
child = os.fork()
assert pg.sum(x) == 16
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = run(SCRIPT + text)
    assert done.returncode == 0, done.stderr


def test_what_belongs_to_a_process_does_not_pickle(engine: Engine) -> None:
    """The messages say what to send in its place."""
    plan = pg.plan(pg.sum, np.ones(8, np.float32), engine=engine)
    for thing, text in (
        (engine, r"portable_gpu\.Engine\(name\)"),
        (plan, "in the other process"),
        (pg.devices()[0], "its index, 0:0"),
    ):
        with pytest.raises(UnsupportedError, match=text):
            pickle.dumps(thing)
