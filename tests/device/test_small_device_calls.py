"""Repeated small calls on device arrays: on the calling thread, where nothing is pending."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from interruptions import handler, interrupted, stop

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import (
    ArgumentError,
    BuildError,
    DeviceMemoryError,
    NotPositiveDefiniteError,
)
from portable_gpu.runtime import events, pocl_structures, registry, small_replay
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.events import marker
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.recording import KEPT
from portable_gpu.runtime.replay import Replay
from portable_gpu.runtime.small_replay import SmallReplay

RNG = np.random.default_rng(0)
_COMPLETE = cl.command_execution_status.COMPLETE
#: With one launch and several, without and with workspace, tables, a report and an output.
CALLS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, y: pg.sum(x),
    "std": lambda x, y: pg.std(x, axis=1),
    "product": lambda x, y: pg.matmul(x, y),
    "transform": lambda x, y: pg.fft.rfft(x),
    "factor": lambda x, y: pg.linalg.cholesky(x),
    "output": lambda x, y: pg.elementwise("a + 2 * b", a=x, b=y, out=y),
    "operator": lambda x, y: x - y,
}


class Counts:
    """The repeated calls that ran on the calling thread, and those that were enqueued."""

    def __init__(self) -> None:
        self.here = self.enqueued = 0

    def take(self) -> tuple[int, int]:
        """Return the counts since they were last taken."""
        selected = self.here, self.enqueued
        self.here = self.enqueued = 0
        return selected


@pytest.fixture
def new_engine(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The default engine of this test, whose small calls may run on the calling thread.

    They may although a runner of tests has threads of its own.
    """
    new_engine = Engine(engine.device)
    if not new_engine.is_small(0, 0):
        pytest.skip(f"{engine.device.platform.name} runs no calls on the calling thread")
    monkeypatch.setattr(registry, "_default", new_engine)
    of_runner = _thread._count()
    monkeypatch.setattr(small_replay, "_other_threads", lambda: _thread._count() - of_runner)
    with new_engine:
        yield new_engine


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    counts, run_on_caller, run = Counts(), SmallReplay._run_on_caller, Replay.run

    def counted_here(self: SmallReplay, *arguments: Any) -> Any:
        result = run_on_caller(self, *arguments)
        counts.here += result is not None
        return result

    def counted(self: Replay, *arguments: Any) -> Any:
        counts.enqueued += 1
        return run(self, *arguments)

    monkeypatch.setattr(SmallReplay, "_run_on_caller", counted_here)
    monkeypatch.setattr(Replay, "run", counted)
    return counts


def on_device(engine: Engine, values: Any) -> Any:
    array = pg.asarray(values, engine=engine)
    engine.queue.finish()
    return array


def repeat(engine: Engine, times: int, call: Callable[[], Any]) -> Any:
    """Return the last result of calls that each find an idle queue."""
    for _ in range(times):
        result = call()
        engine.queue.finish()
    return result


def pair(engine: Engine) -> tuple[Any, Any, Any, Any]:
    """Two arrays of integers, the first positive definite: on the host and on the device.

    Nothing is pending when they are returned.
    """
    x = RNG.integers(-3, 4, (24, 24)).astype(np.float32)
    x = x + x.T + 200 * np.eye(24, dtype=np.float32)
    y = RNG.integers(-9, 10, (24, 24)).astype(np.float32)
    return x, y, on_device(engine, x), on_device(engine, y)


@pytest.mark.parametrize(
    ("x", "w", "options", "here"),
    [
        ((3, 120, 6, 11), (2, 60, 3, 7), {"stride": 2, "groups": 2, "padding": (1, 3)}, False),
        ((1, 64, 12, 12), (64, 64, 1, 1), {}, True),
    ],
    ids=["272 kflop in slow sums", "1180 kflop in a fast product"],
)
def test_convolutions_run_where_their_estimate_says(
    new_engine: Engine, counts: Counts, x: Any, w: Any, options: dict[str, Any], here: bool
) -> None:
    image, weight = (on_device(new_engine, np.ones(s, np.float32)) for s in (x, w))
    repeat(new_engine, 4, lambda: nn.conv2d(image, weight, **options))
    assert counts.take() == ((3, 0) if here else (0, 3))


@pytest.mark.parametrize("name", CALLS)
def test_the_same_bits(new_engine: Engine, counts: Counts, name: str) -> None:
    """The first call is enqueued, others run here; buffers, offsets and results change."""
    call = CALLS[name]
    x, y, *_ = pair(new_engine)
    results, retained = [], []
    for _ in range(5):
        a, b = on_device(new_engine, x), on_device(new_engine, y)
        result = call(a, b)
        retained.append((a, b, result))
        new_engine.queue.finish()
        results.append(pg.asnumpy(result))
    assert counts.take() == (4, 0)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    for _, _, result in retained:  # no result shares memory with a later one
        np.testing.assert_array_equal(pg.asnumpy(result), results[0])
    both = on_device(new_engine, np.stack([y, x, x, x]))
    for k in (1, 2, 3):  # other offsets
        repeated = call(both[k], on_device(new_engine, y))
        new_engine.queue.finish()
        np.testing.assert_array_equal(pg.asnumpy(repeated), results[0])


def test_results_in_arrays_of_the_caller_have_no_events(new_engine: Engine, counts: Counts) -> None:
    """Nor have the fresh results of such a call: a marker would wake the worker threads."""
    x = on_device(new_engine, RNG.standard_normal((4, 3, 5, 2)).astype(np.float32))
    running = [on_device(new_engine, np.ones(3, np.float32)) for _ in range(2)]
    call = lambda: pg.nn.native_batch_norm(x, None, None, *running, True, 0.5, 1e-5)  # noqa: E731
    results = repeat(new_engine, 3, call)
    assert counts.take() == (2, 0)
    for array in (*results, *running):
        assert not array.events


def test_work_of_the_same_queue_precedes(new_engine: Engine, counts: Counts) -> None:
    """Also where it waits for an event that is set after the call."""
    x, y, a, _ = pair(new_engine)
    assert float(repeat(new_engine, 3, lambda: pg.sum(a))) == x.sum()
    assert counts.take() == (2, 0)
    new_engine.queue.finish()
    gate = cl.UserEvent(new_engine.context)
    try:
        copy = cl.enqueue_copy(new_engine.queue, a.base_data, y, wait_for=[gate], is_blocking=False)
        result = pg.sum(a)
        assert counts.take() == (0, 1)
        freed = a * 2  # the pool may give its memory to a later call
        del freed
        second = pg.sum(a)
        assert counts.take() == (0, 1)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    copy.wait()  # its event waits when it is dropped
    assert float(result) == float(second) == y.sum()
    new_engine.queue.finish()
    assert float(pg.sum(a)) == y.sum()
    assert counts.take() == (1, 0)


@pytest.mark.parametrize("how", ["events", "wait_for"])
def test_work_of_other_queues_precedes(new_engine: Engine, counts: Counts, how: str) -> None:
    _, y, a, _ = pair(new_engine)
    other = cl.CommandQueue(new_engine.context)
    repeat(new_engine, 3, lambda: pg.sum(a))
    assert counts.take() == (2, 0)
    gate = cl.UserEvent(new_engine.context)
    try:
        event = cl.enqueue_copy(other, a.base_data, y, wait_for=[gate], is_blocking=False)
        other.flush()
        if how == "events":
            a.add_event(event)
            result = pg.sum(a)
        else:
            result = pg.sum(a, wait_for=[event])
        assert counts.take()[0] == 0
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    assert float(result) == y.sum()
    new_engine.queue.finish()
    assert float(pg.sum(a)) == y.sum()  # the event is complete
    assert counts.take() == (1, 0)


def test_results_are_complete_for_other_queues(new_engine: Engine, counts: Counts) -> None:
    x, _, a, _ = pair(new_engine)
    other = cl.CommandQueue(new_engine.context)
    result = repeat(new_engine, 3, lambda: a + a)
    assert counts.take() == (2, 0)
    np.testing.assert_array_equal((result.with_queue(other) + 1).get(), 2 * x + 1)
    for event in result.events:
        event.wait()


@pytest.mark.parametrize("name", ["operator", "output", "several"])
def test_results_need_no_marker(
    new_engine: Engine, counts: Counts, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Waiting for a result that is complete enqueues nothing; a later command is waited for."""
    calls = {**CALLS, "several": lambda x, y: pg.nn.native_layer_norm(x, 24)[1]}
    *_, a, b = pair(new_engine)
    result = repeat(new_engine, 3, lambda: calls[name](a, b))
    markers = []
    monkeypatch.setattr(events, "marker", lambda queue: markers.append(queue) or marker(queue))
    counts.take()
    for _ in range(3):
        result = calls[name](a, b)
        result.finish()
    assert counts.take() == (3, 0)
    assert not markers
    assert not list(result.events)
    gate = cl.UserEvent(new_engine.context)
    cl.enqueue_marker(new_engine.queue, wait_for=[gate])
    pg.elementwise("x + 1", x=result, out=result)
    assert counts.take()[0] == 0
    written = list(result.events)
    assert [event.command_execution_status for event in written] != [_COMPLETE]
    gate.set_status(_COMPLETE)
    result.finish()


def test_memory_of_users(new_engine: Engine, counts: Counts) -> None:
    """Parts of buffers have no address of their own here; memory of the host has."""
    x, y, *_ = pair(new_engine)
    flags = cl.mem_flags.READ_WRITE
    whole = cl.Buffer(
        new_engine.context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.stack([y, x])
    )
    part = whole.get_sub_region(x.nbytes, x.nbytes)
    memory = x.copy()
    over = cl.Buffer(new_engine.context, flags | cl.mem_flags.USE_HOST_PTR, hostbuf=memory)
    for buffer, here in ((part, False), (over, True), (whole, True)):
        offset = x.nbytes if buffer is whole else 0
        for kind in (cla.Array, pg.Array):
            array = kind(new_engine.queue, x.shape, x.dtype, data=buffer, offset=offset)
            result = repeat(new_engine, 3, lambda a=array: pg.sum(a))  # type: ignore[misc]
            assert float(result.get()) == x.sum()
            new_engine.queue.finish()
            assert (counts.take()[0] > 0) == here


def test_reports_and_refusals(new_engine: Engine, counts: Counts) -> None:
    x, y, a, _ = pair(new_engine)
    bad = on_device(new_engine, -x)
    repeat(new_engine, 2, lambda: pg.linalg.cholesky(a))
    late = repeat(new_engine, 1, lambda: pg.linalg.cholesky(bad))
    used = repeat(new_engine, 2, lambda: pg.matmul(late, late))
    assert counts.take() == (3, 0)
    for array in (late, used):
        with pytest.raises(NotPositiveDefiniteError):
            array.get()
    with pytest.raises(pg.errors.OverlapError):
        pg.matmul(a, a, out=a)
    out = on_device(new_engine, y)
    repeat(new_engine, 3, lambda: pg.matmul(a, a, out=out))
    with pytest.raises(pg.errors.OverlapError):
        pg.matmul(a, out, out=out)
    np.testing.assert_array_equal(out.get(), x @ x)


def test_more_work_and_unknown_structures_are_enqueued(
    new_engine: Engine, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = on_device(new_engine, np.ones(1 << 20, np.float32))
    repeat(new_engine, 3, lambda: pg.sum(large))
    assert counts.take() == (0, 2)
    monkeypatch.setattr(small_replay, "structures_of", lambda *_: None)
    _, _, a, b = pair(new_engine)
    repeat(new_engine, 3, lambda: pg.matmul(a, b))
    assert counts.take() == (0, 2)


@pytest.mark.parametrize("words", [(), (0,) * 64, tuple(range(64))])
def test_structures_that_are_not_found(
    new_engine: Engine, words: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pocl_structures._find(new_engine.context, new_engine.device) is not None
    monkeypatch.setattr(pocl_structures, "_words", lambda _: words)
    assert pocl_structures._find(new_engine.context, new_engine.device) is None


@pytest.mark.parametrize("is_run", ["late", "never"])
def test_a_count_of_waiting_commands_is_not_taken(
    new_engine: Engine, is_run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is running has to be counted, and is where native kernels are refused."""

    def run(queue: cl.CommandQueue, function: Callable[[], object]) -> None:
        if is_run == "late":
            queue.finish()
            function()

    monkeypatch.setattr(pocl_structures, "run_on_device", run)
    assert pocl_structures._find(new_engine.context, new_engine.device) is None


def test_an_address_that_only_memory_of_the_host_has_is_not_taken(
    new_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffers of users need not be in the host's memory."""
    words, read = pocl_structures._words, []

    def of_host_memory(place: int) -> tuple[int, ...]:
        read.append(place)
        return words(place) if len(read) <= 6 else (0,) * 64  # twice for each of three buffers

    monkeypatch.setattr(pocl_structures, "_words", of_host_memory)
    queue = cl.CommandQueue(new_engine.context)
    assert not list(pocl_structures._positions_of_address(new_engine.context, queue))
    assert len(read) == 12


def test_errors_of_the_experiment_are_not_those_of_calls(
    new_engine: Engine, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise cl.MemoryError("no memory", 0, "")

    monkeypatch.setattr(pocl_structures, "_known_structures", {})
    monkeypatch.setattr(pocl_structures, "_positions_of_address", failing)
    x, y, a, b = pair(new_engine)
    result = repeat(new_engine, 3, lambda: pg.matmul(a, b))
    np.testing.assert_array_equal(result.get(), x @ y)
    assert counts.take() == (0, 2)


def test_queues_of_users(new_engine: Engine, counts: Counts) -> None:
    """One with profiling has the events of kernels; a queue that is freed takes its calls along."""
    x = RNG.integers(-9, 10, (24, 24)).astype(np.float32)
    properties = cl.command_queue_properties
    out_of_order = properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    for kind, here in ((0, 2), (properties.PROFILING_ENABLE, 0), (out_of_order, 0), (0, 2)):
        queue = cl.CommandQueue(new_engine.context, new_engine.device, kind)
        a = pg.asarray(x, queue=queue)
        plan = pg.plan("sum", a)
        for _ in range(3):
            queue.finish()
            result = pg.sum(a)
            queue.finish()
            assert float(plan(a).get()) == float(result.get()) == x.sum()
        assert counts.here >= here
        assert counts.here == 0 or here
        counts.take()
        if kind == properties.PROFILING_ENABLE:
            (event,) = result.events
            assert event.command_type == cl.command_type.NDRANGE_KERNEL
            assert event.profile.end > event.profile.start
        del queue, a, result
        other = pg.asarray(x, engine=new_engine)
        with pytest.raises(ArgumentError, match="another queue"):
            plan(other)


def test_plans_and_closed_engines(new_engine: Engine, counts: Counts) -> None:
    x, y, a, b = pair(new_engine)
    plan = pg.plan("matmul", a, b)
    for _ in range(3):
        new_engine.queue.finish()
        np.testing.assert_array_equal(plan(a, b).get(), x @ y)
    assert counts.take() == (3, 0)
    result = plan(a, b)
    new_engine.close()
    with pytest.raises(ArgumentError, match="closed"):
        plan(a, b)
    np.testing.assert_array_equal(result.get(), x @ y)


def test_threads(new_engine: Engine, counts: Counts) -> None:
    """Calls in a process of several threads are enqueued."""
    x = np.arange(600, dtype=np.float32)

    def work(k: int) -> None:
        for step in range(60):
            a = on_device(new_engine, x + k)
            b = a + step
            assert float(pg.sum(b - a)) == 600 * step
            np.testing.assert_array_equal(b.get(), x + k + step)

    alone = on_device(new_engine, x)
    repeat(new_engine, 3, lambda: pg.sum(alone))
    assert counts.take() == (2, 0)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert counts.here == 0


def test_commands_of_other_threads_are_not_beside_a_call(
    new_engine: Engine, counts: Counts
) -> None:
    """Another thread reads all elements from before a call or all from after it."""
    sources = [on_device(new_engine, np.full(16384, k, np.float32)) for k in range(2)]
    out = on_device(new_engine, np.zeros(16384, np.float32))

    def call(k: int) -> None:
        pg.elementwise("a", a=sources[k % 2], out=out)

    repeat(new_engine, 3, lambda: call(0))
    assert counts.take() == (2, 0)
    has_read, may_end, mixed = threading.Event(), threading.Event(), []

    def read() -> None:
        values = np.empty(16384, np.float32)
        for _ in range(100):
            cl.enqueue_copy(new_engine.queue, values, out.base_data)
            if values.min() != values.max():
                mixed.append(values.copy())
        has_read.set()
        may_end.wait()

    reader = threading.Thread(target=read)
    reader.start()
    calls = 0
    while not has_read.is_set():
        call(calls)
        calls += 1
        new_engine.queue.finish()
    assert counts.take() == (0, calls)
    may_end.set()
    reader.join()
    assert not mixed
    new_engine.queue.finish()
    repeat(new_engine, 2, lambda: call(0))
    assert counts.take() == (2, 0)


@pytest.mark.parametrize("error", [BuildError, DeviceMemoryError])
def test_a_second_device_that_cannot_build(
    new_engine: Engine, counts: Counts, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The call is enqueued, and so are later ones."""

    def failing(*_: Any, **__: Any) -> Any:
        raise error("of the second device")

    x, y, a, b = pair(new_engine)
    repeat(new_engine, 1, lambda: pg.matmul(a, b))
    with monkeypatch.context() as patch:
        patch.setattr(small_replay, "Kernels", failing)
        np.testing.assert_array_equal(repeat(new_engine, 1, lambda: pg.matmul(a, b)).get(), x @ y)
    repeat(new_engine, 2, lambda: pg.matmul(a, b))
    assert counts.take() == (0, 3)


def test_memory_of_dropped_results(
    new_engine: Engine, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call takes it again, unless anything refers to it; only small pieces stay."""
    x, y, a, b = pair(new_engine)
    allocated: list[int] = []
    allocate = QueueState.allocate

    def counted(self: QueueState, nbytes: int) -> Any:
        allocated.append(nbytes)
        return allocate(self, nbytes)

    monkeypatch.setattr(QueueState, "allocate", counted)

    def difference(first: Any, second: Any) -> Any:
        return repeat(new_engine, 1, lambda: pg.elementwise("p - q", p=first, q=second))

    difference(a, b)
    last = [difference(a, b), difference(b, a)]  # both pieces of memory are in use
    allocated.clear()
    for _ in range(3):
        last[0] = last[1]
        last[1] = difference(a, b)
    assert not allocated
    view = last[1][3:]
    last.clear()
    for _ in range(3):  # a view, a buffer and a list of results refer to their memory
        last.append(difference(b, a))
        buffer = last[-1].base_data
        np.testing.assert_array_equal(view.get(), (x - y)[3:])
    assert len({id(each.base_data) for each in last} | {id(view.base_data)}) == 4
    del last
    difference(a, b)
    copy = np.empty_like(x)
    cl.enqueue_copy(new_engine.queue, copy, buffer)
    np.testing.assert_array_equal(copy, y - x)
    large = on_device(new_engine, np.ones(KEPT // 4 + 1, np.float32))
    repeat(new_engine, 2, lambda: nn.relu(large))
    allocated.clear()
    repeat(new_engine, 2, lambda: nn.relu(large))
    assert allocated == [large.nbytes] * 2
    assert not counts.enqueued


def test_memory_of_several_results(new_engine: Engine, counts: Counts) -> None:
    """Each result, and each report, has memory of its own that is taken again."""
    x, y, a, b = pair(new_engine)
    repeat(new_engine, 1, lambda: nn.native_layer_norm(a, 24))
    retained = [
        (k, repeat(new_engine, 1, lambda k=k: nn.native_layer_norm((a, b)[k % 2], 24)))
        for k in range(5)
    ]
    for k, (result, mean, _) in retained:
        values = (x, y)[k % 2]
        np.testing.assert_allclose(mean.get(), values.mean(1, keepdims=True), atol=1e-5)
        scaled = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
        np.testing.assert_allclose(result.get(), scaled, atol=1e-4)
    del retained, result, mean
    memory = [
        {id(each.base_data) for each in repeat(new_engine, 1, lambda: nn.native_layer_norm(a, 24))}
        for _ in range(6)
    ]
    assert len(set.union(*memory)) <= 6
    factors = [repeat(new_engine, 1, lambda: pg.linalg.cholesky(a)) for _ in range(4)]
    wrong = repeat(new_engine, 1, lambda: pg.linalg.cholesky(b))
    for factor in factors:
        upper = factor.get()
        np.testing.assert_allclose(upper.T @ upper, x, rtol=1e-4, atol=1e-3)
    with pytest.raises(NotPositiveDefiniteError):
        wrong.get()
    assert not counts.enqueued


@pytest.mark.parametrize("error", [KeyboardInterrupt, TypeError, cl.MemoryError])
def test_an_exception_leaves_nothing_behind(
    new_engine: Engine, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """The queue is finished before the memory of the call may be freed."""
    x, y, a, b = pair(new_engine)
    repeat(new_engine, 2, lambda: pg.matmul(a, b))
    assert new_engine.caller is not None
    caller = new_engine.caller.state()
    finished: list[int] = []
    finish = caller.finish

    def recorded() -> None:
        finished.append(len(caller.in_flight))
        finish()

    def failing(*_: Any) -> Any:
        raise error("of a handler", 0, "") if error is cl.MemoryError else error

    monkeypatch.setattr(caller, "finish", recorded)
    monkeypatch.setattr(small_replay, "_enqueue", failing)
    new_engine.queue.finish()
    expected = pg.errors.DeviceMemoryError if error is cl.MemoryError else error
    with pytest.raises(expected):
        pg.matmul(a, b)
    assert finished == [1]
    assert not caller.in_flight
    monkeypatch.undo()
    np.testing.assert_array_equal(pg.matmul(a, b).get(), x @ y)


def test_interrupts(new_engine: Engine) -> None:
    x, y, a, b = pair(new_engine)
    repeat(new_engine, 2, lambda: pg.matmul(a, b))
    assert new_engine.caller is not None
    caller, count = new_engine.caller.state(), 0

    def work() -> None:
        for _ in range(50):
            pg.matmul(a, b)

    with handler(stop):
        for after in np.linspace(2e-6, 3e-4, 150):
            count += interrupted(work, float(after))
            assert not caller.in_flight
    assert count > 50
    np.testing.assert_array_equal(pg.matmul(a, b).get(), x @ y)


def test_activations_of_some_thousand_elements(new_engine: Engine, counts: Counts) -> None:
    """Functions that are inlined as vectors take the calling thread less time than workers wake."""
    small, large = (on_device(new_engine, np.ones(size, np.float32)) for size in (30_000, 10**7))
    for function in (nn.gelu, nn.silu, nn.tanh):
        repeat(new_engine, 3, lambda function=function: function(small))
        assert counts.take() == (2, 0), function
        repeat(new_engine, 3, lambda function=function: function(large))
        assert counts.take() == (0, 2), function


def test_time_on_one_thread(new_engine: Engine, counts: Counts) -> None:
    """Cached arrays are read faster than memory; results and the taps of windows count, too."""
    shape = (1, 330, 32, 32)  # of 1.35 MB
    if new_engine.target.facts.cache_size < 4 << 20:
        pytest.skip("the arrays may be larger than the last cache")
    x = on_device(new_engine, np.ones(shape, np.float32))
    images = on_device(new_engine, np.ones((1, 80, 32, 32), np.float32))
    repeat(new_engine, 3, lambda: nn.adaptive_avg_pool2d(x, 1))
    repeat(new_engine, 3, lambda: nn.avg_pool2d(images, 2))
    assert counts.take() == (4, 0)
    repeat(new_engine, 3, lambda: nn.relu(x))
    repeat(new_engine, 3, lambda: nn.avg_pool2d(images, 3, 1, 1))
    assert counts.take() == (0, 4)
