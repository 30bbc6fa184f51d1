"""Work for several threads, which the calling one may leave."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time
import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pytest
from interruptions import Interrupted, handler, interrupted, stop
from sparse_matrices import grid

from portable_gpu import side_by_side
from portable_gpu.side_by_side import Task, run_tasks
from portable_gpu.sparse import analyze


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_task_is_done_once(threads: int) -> None:
    done: list[tuple[int, ...]] = []
    callers: set[int] = set()

    def task(name: tuple[int, ...]) -> list[Task]:
        done.append(name)
        callers.add(threading.get_ident())
        return [partial(task, (*name, k)) for k in range(3)] if len(name) < 4 else []

    run_tasks([partial(task, (k,)) for k in range(2)], threads)
    assert len(done) == len(set(done)) == 2 * (1 + 3 + 9 + 27)
    assert threading.get_ident() not in callers
    run_tasks([], threads)


def test_errors_of_tasks() -> None:
    def fail() -> list[Task]:
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        run_tasks([fail, lambda: [fail]], 3)


def test_the_calling_thread_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for a thread that works; nothing starts afterwards."""
    gate, begun = threading.Event(), []

    def wait() -> list[Task]:
        begun.append(0)
        gate.wait(60)
        return [wait]

    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if begun:
            raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(side_by_side.time, "sleep", sleep)
        with pytest.raises(Interrupted):
            run_tasks([wait], 1)
    gate.set()
    time.sleep(0.05)
    assert len(begun) == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that raises a signal")
@pytest.mark.parametrize("ordering", ["nd", "auto"])
def test_interrupted_analyses(ordering: str) -> None:
    A: Any = grid(23, 21)
    want = analyze(A, ordering).perm
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        analyze(A, ordering)
        times.append(time.perf_counter() - begin)
    spent, rng = min(times), np.random.default_rng(0)  # other load must not make it larger
    left = 0
    with handler(stop):
        for _ in range(60):
            left += interrupted(lambda: analyze(A, ordering), rng.uniform(1e-6, spent))
            np.testing.assert_array_equal(analyze(A, ordering).perm, want)
    assert left > 8


def test_what_a_failed_task_holds_is_freed_with_its_error() -> None:
    class Held:
        pass

    references: list[weakref.ref[Held]] = []

    def fail() -> Iterable[Task]:
        live = Held()
        references.append(weakref.ref(live))
        raise ZeroDivisionError

    gc.disable()
    try:
        with contextlib.suppress(ZeroDivisionError):
            run_tasks([fail], 2)
        assert references[0]() is None
    finally:
        gc.enable()
