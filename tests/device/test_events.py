"""Launches without an event: a result's events have one when they are read."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from device_arrays import on_device

import portable_gpu as pg
from portable_gpu.codegen.arguments import Arguments
from portable_gpu.runtime import events as events_module
from portable_gpu.runtime import queue_state
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.events import enqueue_without_event
from portable_gpu.runtime.launch import Launch

KINDS = cl.command_queue_properties
X = np.arange(40.0, dtype=np.float32).reshape(5, 8)
SUMS = X.sum(axis=0)


class Held:
    """An engine that launches without events, on an in-order queue that can be held up."""

    def __init__(self, like: Engine) -> None:
        self.engine = Engine(queue=cl.CommandQueue(like.context))
        self.engine.target = replace(self.engine.target, launch_events=False)
        self.queue = self.engine.queue
        self._gate: Any = None
        self.x = on_device(self.engine, X)
        self.zeros = on_device(self.engine, np.zeros_like(X))
        self.queue.finish()

    def gate(self) -> Any:
        """An event that is set by :meth:`open`, or when the test is over."""
        self._gate = cl.UserEvent(self.engine.context)
        return self._gate

    def close(self) -> None:
        """Hold up what the queue is given from now on, until it is opened."""
        cl.enqueue_barrier(self.queue, wait_for=[self.gate()])

    def open(self) -> None:
        """Let go what waits."""
        if self._gate is not None:
            self._gate.set_status(cl.command_execution_status.COMPLETE)
            self._gate = None

    def sum(self, x: Any = None, **options: Any) -> Any:
        """The sums of columns."""
        return pg.sum(self.x if x is None else x, axis=0, engine=self.engine, **options)

    def check(self, reader: Any, expected: Any) -> None:
        """The values that another queue has read, enqueued while this one is blocked."""
        reader.queue.flush()
        time.sleep(0.05)  # space for calls that wait for nothing
        self.open()
        np.testing.assert_array_equal(reader.get(), expected)


@pytest.fixture
def blocked(engine: Engine) -> Iterator[Held]:
    if enqueue_without_event is None:
        pytest.skip("the OpenCL loader does not show its functions")
    blocked = Held(engine)
    yield blocked
    blocked.open()
    blocked.queue.finish()


@pytest.fixture
def markers(blocked: Held, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The markers that are made."""
    made: list[Any] = []
    marker = events_module.marker

    def counted(queue: Any) -> Any:
        made.append(marker(queue))
        return made[-1]

    monkeypatch.setattr(events_module, "marker", counted)
    monkeypatch.setattr(queue_state, "marker", counted)
    return made


@pytest.fixture(params=[0, KINDS.OUT_OF_ORDER_EXEC_MODE_ENABLE], ids=["in order", "out of order"])
def other(blocked: Held, request: pytest.FixtureRequest) -> Any:
    """Another queue."""
    return cl.CommandQueue(blocked.engine.context, properties=request.param)


# -- no event is made until events are read


def test_a_chain_of_calls_makes_no_event(blocked: Held, markers: list[Any]) -> None:
    def chain() -> Any:
        sums = blocked.sum(keepdims=True)
        product = pg.matmul(blocked.x, sums.T, engine=blocked.engine)
        out = pg.gemv(blocked.x, sums.reshape(8), engine=blocked.engine)
        for _ in range(3):
            pg.max(product, axis=1, out=out, engine=blocked.engine)
        return pg.var(out, engine=blocked.engine)

    for _ in range(3):  # the first call plans, later ones repeat
        result = chain()
        assert not markers
    assert result.events == result.events == list(result.events) == markers
    assert len(markers) == 1
    np.testing.assert_allclose(result.get(), np.var(X @ SUMS), rtol=1e-5)


def test_an_array_of_the_caller_s_own(blocked: Held, markers: list[Any], other: Any) -> None:
    out = cla.empty(blocked.queue, 8, np.float32)
    for _ in range(3):
        blocked.sum(out=out)
    assert not markers
    blocked.close()
    blocked.sum(blocked.zeros, out=out)
    blocked.sum(out=out)
    blocked.check(pg.sum(out, queue=other, engine=blocked.engine), SUMS.sum())


def test_a_view_that_was_there_before(blocked: Held, markers: list[Any], other: Any) -> None:
    """It shares the list of events, which must stay the array's."""
    out = cla.zeros(blocked.queue, 8, np.float32)
    view = out[:4]
    for _ in range(2):
        blocked.sum(blocked.zeros, out=out)
    blocked.close()
    blocked.sum(out=out)
    assert len(markers) == 3
    blocked.check(pg.sum(view, queue=other, engine=blocked.engine), SUMS[:4].sum())


def test_a_look_is_no_bar_to_the_queue_itself(blocked: Held, markers: list[Any]) -> None:
    sums = blocked.sum()
    assert len(sums.events) == 1
    for _ in range(3):
        np.testing.assert_array_equal(pg.max(sums, engine=blocked.engine).get(), SUMS.max())
    assert sums.events == markers[:1]


def test_ways_to_look(blocked: Held) -> None:
    user_event = cl.UserEvent(blocked.engine.context)
    ways: dict[str, Callable[[Any], Any]] = {
        "list": list,
        "tuple": lambda e: [*tuple(e)],
        "star": lambda e: [*e],
        "slice": lambda e: e[:],
        "copy": lambda e: e.copy(),
        "copy.copy": lambda e: list(copy.copy(e)),
        "reversed": lambda e: list(reversed(e)),
        "sum": lambda e: e + [],  # noqa: RUF005
        "right sum": lambda e: [] + e,  # noqa: RUF005
        "both": lambda e: (e + blocked.sum().events)[:1],
        "extend": lambda e: (result := [], result.extend(e))[0],
        "in place": lambda e: [].__iadd__(e),
        "assigned": lambda e: (result := [user_event], result.__setitem__(slice(None), e))[0],
        "times": lambda e: e * 1,
        "pop": lambda e: [e.pop()],
        "len": lambda e: [e[i] for i in range(len(e))],
        "sorted": lambda e: sorted(e, key=id),
    }
    for name, look in ways.items():
        result = look(blocked.sum().events)
        assert result, name
        assert all(event.command_queue == blocked.queue for event in result), name
    events = blocked.sum().events
    assert events
    assert user_event not in events
    assert events != []
    assert events == [events[0]]
    assert events.index(events[-1]) == 0
    assert "Event" in repr(blocked.sum().events)
    assert blocked.sum().events != blocked.sum().events


def test_events_that_are_deleted_stay_away(blocked: Held, markers: list[Any]) -> None:
    result = blocked.sum()
    result.finish()
    assert result.events == []
    result.add_event(marker := cl.enqueue_marker(blocked.queue))
    assert result.events == [marker]
    early = blocked.sum()
    early.events.append(marker)
    assert early.events[-1] == marker
    assert len(early.events) == 2
    blocked.sum(out=early)
    assert marker not in early.events


# -- another queue waits


def test_result_used_on_another_queue(blocked: Held, other: Any) -> None:
    for _ in range(3):
        blocked.close()
        sums = blocked.sum()
        blocked.check(pg.max(sums, queue=other), SUMS.max())


def test_result_with_another_queue(blocked: Held, other: Any) -> None:
    for _ in range(3):
        blocked.close()
        sums = blocked.sum().with_queue(other)
        blocked.check(pg.max(sums), SUMS.max())


def test_input_of_a_call_seen_before(blocked: Held, other: Any) -> None:
    """The short way of repeated calls looks whose events they are, too."""
    for _ in range(3):
        ready = on_device(blocked.engine, SUMS, other)
        ready.finish()
        assert pg.max(ready).get() == SUMS.max()
    blocked.close()
    blocked.check(pg.max(blocked.sum().with_queue(other)), SUMS.max())


def test_pyopencl_on_another_queue(blocked: Held, other: Any) -> None:
    blocked.close()
    sums, result = blocked.sum(), np.zeros_like(SUMS)
    copied = cl.enqueue_copy(other, result, sums.base_data, wait_for=sums.events, is_blocking=False)
    other.flush()
    time.sleep(0.05)
    blocked.open()
    copied.wait()
    np.testing.assert_array_equal(result, SUMS)


def test_written_again_after_a_look(blocked: Held, other: Any) -> None:
    sums = blocked.sum(blocked.zeros)
    for _ in range(3):
        blocked.sum(blocked.zeros, out=sums)
        cl.wait_for_events(sums.events)
        blocked.close()
        blocked.sum(out=sums)
        blocked.check(pg.max(sums, queue=other), SUMS.max())


def test_views_share_their_events(blocked: Held, other: Any) -> None:
    whole = blocked.sum(blocked.zeros)
    part = whole[2:6]
    cl.wait_for_events(part.events)
    for _ in range(3):
        blocked.close()
        blocked.sum(blocked.x[:, 2:6], out=part)
        assert part.events is whole.events
        blocked.check(pg.max(whole, queue=other), SUMS[2:6].max())
        blocked.sum(blocked.zeros, out=whole)
        cl.wait_for_events(whole.events)


def test_out_of_the_callers_own(blocked: Held, other: Any) -> None:
    out = on_device(blocked.engine, np.zeros_like(SUMS))
    assert type(out.events) is list
    for _ in range(3):
        blocked.close()
        blocked.sum(out=out)
        (event,) = out.events
        assert event.command_execution_status != cl.command_execution_status.COMPLETE
        blocked.check(pg.max(out, queue=other), SUMS.max())


def test_out_that_another_queue_writes(blocked: Held, other: Any) -> None:
    for _ in range(3):
        out = on_device(blocked.engine, np.zeros_like(SUMS), other)
        blocked.close()
        blocked.sum(out=out, queue=blocked.queue)
        blocked.check(pg.max(out), SUMS.max())


def test_result_that_another_queue_has_written(blocked: Held, engine: Engine) -> None:
    writer = Held(engine)  # of the same context
    sums = blocked.sum(blocked.zeros)
    for _ in range(3):
        writer.close()
        writer.sum(out=sums, queue=writer.queue)
        reader = pg.max(sums, engine=blocked.engine)
        writer.check(reader, SUMS.max())
        blocked.sum(blocked.zeros, out=sums)


def test_events_that_users_append(blocked: Held, other: Any) -> None:
    for _ in range(3):
        sums = blocked.sum()
        zeros, size = blocked.zeros.base_data, SUMS.nbytes
        copied = cl.enqueue_copy(
            other, sums.base_data, zeros, byte_count=size, wait_for=[blocked.gate()]
        )
        other.flush()
        sums.add_event(copied)
        blocked.check(pg.max(sums, engine=blocked.engine), 0)


def test_events_given_to_a_call(blocked: Held) -> None:
    largest = pg.max(blocked.x, engine=blocked.engine, wait_for=[blocked.gate()])
    assert largest.events[-1].command_execution_status != cl.command_execution_status.COMPLETE
    blocked.check(largest, X.max())


# -- pyopencl's own functions


def test_pyopencl_arithmetic(blocked: Held) -> None:
    a, b = blocked.sum(), blocked.sum(blocked.zeros)
    np.testing.assert_array_equal((a + b).get(), SUMS)
    np.testing.assert_array_equal((b - 2 * a).get(), -2 * SUMS)
    b += a
    np.testing.assert_array_equal(b.get(), SUMS)
    np.testing.assert_array_equal(a.copy().get(), SUMS)
    np.testing.assert_array_equal(a[2:6].get(), SUMS[2:6])
    theirs = a.to_pyopencl()
    assert cla.sum(theirs).get() == SUMS.sum()
    assert cla.dot(theirs, b.to_pyopencl()).get() == SUMS @ SUMS
    assert cla.max(theirs).get() == SUMS.max()
    both = cla.concatenate([theirs, b.to_pyopencl()]).get()
    np.testing.assert_array_equal(both, np.tile(SUMS, 2))
    a[1:3] = b[3:5]
    a.fill(3)
    a.finish()
    blocked.sum(out=a)
    np.testing.assert_array_equal(pg.max(a + b, engine=blocked.engine).get(), 2 * SUMS.max())


# -- queues, errors, NumPy arrays, threads


@pytest.mark.parametrize("kind", ["PROFILING_ENABLE", "OUT_OF_ORDER_EXEC_MODE_ENABLE"])
def test_queues_that_keep_their_events(blocked: Held, kind: str) -> None:
    queue = cl.CommandQueue(blocked.engine.context, properties=getattr(KINDS, kind))
    for _ in range(3):
        sums = blocked.sum(queue=queue)
        assert type(sums.events) is list
        (event,) = sums.events
        event.wait()
        if kind == "PROFILING_ENABLE":
            assert event.command_type == cl.command_type.NDRANGE_KERNEL
            assert event.profile.end >= event.profile.start
        np.testing.assert_array_equal(sums.get(queue), SUMS)


def test_devices_whose_events_are_free(engine: Engine) -> None:
    free = Engine(queue=engine.queue)
    free.target = replace(engine.target, launch_events=True)
    sums = pg.sum(on_device(free, X), axis=0, engine=free)
    assert type(sums.events) is list
    (event,) = sums.events
    assert event.command_type == cl.command_type.NDRANGE_KERNEL


def test_a_launch_that_fails(blocked: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    state = blocked.engine.state()
    text = "__kernel void nothing(__global float *p) { if (!p) p[0] = 1; }"
    kernel = cl.Kernel(cl.Program(blocked.engine.context, text).build(), "nothing")
    size = (2 * blocked.engine.device.max_work_group_size,)
    with pytest.raises(cl.LogicError, match="WORK_GROUP_SIZE"):
        Launch(lambda: kernel, Arguments((), (0,), ()), (size, size))(state, [blocked.x.base_data])
    monkeypatch.setattr(state, "enqueue_without_event", lambda *_: -4)
    for _ in range(3):  # pyopencl frees what it can, and tries again
        np.testing.assert_array_equal(blocked.sum().get(), SUMS)


def test_numpy_arrays(blocked: Held) -> None:
    staging = Engine(queue=blocked.queue)
    staging.target = blocked.engine.target
    staging.maps_host_memory = staging.takes_host_pointers = False
    for engine in (blocked.engine, staging):
        for _ in range(3):
            np.testing.assert_array_equal(pg.sum(X, axis=0, engine=engine), SUMS)
            out = np.zeros((8, 2), np.float32)
            pg.sum(X, axis=0, out=out[:, 1], engine=engine)
            np.testing.assert_array_equal(out[:, 1], SUMS)


def test_threads_share_a_result(blocked: Held) -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        try:
            queue = cl.CommandQueue(blocked.engine.context)
            for turn in range(30):
                largest = pg.max(results[turn], queue=queue if seed % 2 else blocked.queue)
                if largest.get() != SUMS.max() or not results[turn].events:
                    wrong.append((seed, turn))
                repeated = blocked.sum()
                blocked.sum(out=repeated)
                if (repeated.get() != SUMS).any():
                    wrong.append((seed, turn, "own"))
        except Exception as error:
            wrong.append(error)

    blocked.close()
    results = [blocked.sum() for _ in range(30)]
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    blocked.open()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:5]
