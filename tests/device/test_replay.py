"""Repeated calls on device arrays: what changes is set, whatever it is, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from device_arrays import on_device

import portable_gpu as pg
from portable_gpu.errors import ArgumentError, OverlapError
from portable_gpu.runtime import replay
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.recording import Kernels, Recording
from portable_gpu.runtime.views import memory_of

RNG = np.random.default_rng(0)


def values(*shape: int) -> Any:
    return RNG.integers(-9, 10, shape).astype(np.float32)


#: One or two launches, with and without workspace; each takes one or two arrays of 24 x 24.
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda a, b, **o: pg.sum(a, **o), lambda a, b: a.sum(dtype=np.float32)),
    "max": (lambda a, b, **o: pg.max(a, axis=0, **o), lambda a, b: a.max(axis=0)),
    "std": (
        lambda a, b, **o: pg.std(a, axis=1, **o),
        lambda a, b: a.astype(np.float64).std(axis=1).astype(np.float32),
    ),
    "gemv": (lambda a, b, out=None: pg.gemv(a, b[1], y=out), lambda a, b: a @ b[1]),
    "gemm": (lambda a, b, out=None: pg.gemm(a, b, alpha=2, c=out), lambda a, b: 2 * a @ b),
    "matmul": (lambda a, b, **o: pg.matmul(a, b, **o), lambda a, b: a @ b),
    "elementwise": (
        lambda a, b, **o: pg.elementwise("a - 2 * b", a=a, b=b, **o),
        lambda a, b: a - 2 * b,
    ),
}


@pytest.fixture(params=[True, False], ids=["events", "no events"])
def new_engine(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine with a queue of its own, whose launches ask for events or do not."""
    new_engine = Engine(queue=cl.CommandQueue(engine.context))
    new_engine.target = replace(new_engine.target, launch_events=request.param)
    yield new_engine
    new_engine.queue.finish()


@pytest.mark.parametrize("name", CALLS)
def test_other_buffers_offsets_and_outputs(new_engine: Engine, name: str) -> None:
    """Each argument changes by itself, comes back, and is the same as another."""
    ours, numpys = CALLS[name]
    data = [values(3, 24, 24) for _ in range(3)]
    arrays = [on_device(new_engine, x) for x in data]
    shape = np.shape(numpys(data[0][0], data[0][0]))
    outs = [on_device(new_engine, np.zeros((2, *shape), np.float32)) for _ in range(2)]
    for turn in range(60):
        (i, k), (j, m) = ((int(RNG.integers(3)), int(RNG.integers(3))) for _ in range(2))
        want = numpys(data[i][k], data[j][m])
        options = {}
        if turn % 2:
            options["out"] = outs[turn // 2 % 2][turn // 4 % 2]
        got = ours(arrays[i][k], arrays[j][m], **options)
        assert not options or got is options["out"]
        np.testing.assert_allclose(got.get(), want, rtol=1e-5, err_msg=f"turn {turn}")


def test_launches_are_recorded_once(new_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []
    plain = Recording.of

    def counted(*arguments: Any) -> Any:
        recorded.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(replay.Recording, "of", counted)
    x, y = on_device(new_engine, values(50, 40)), on_device(new_engine, values(50, 40))
    for turn in range(5):
        pg.sum(y if turn % 2 else x, axis=0, engine=new_engine)
        pg.elementwise("x * s", x=x, s=2.0, engine=new_engine)
        pg.gemv(x, y[turn], engine=new_engine)  # another offset
    assert len(recorded) == 1 + 1 + 4


def test_numbers_that_compare_equal(new_engine: Engine) -> None:
    """Zeros of both signs, NaN, and numbers of other types."""
    x = on_device(new_engine, np.ones(5, np.float32))
    for number in (0.0, -0.0, 0.0, 2.0, -0.0, -0.0, float("nan"), 0.0, 1.0, 1, True):
        got = pg.elementwise("copysign(x, s)", x=x, s=number, engine=new_engine).get()
        np.testing.assert_array_equal(got, np.copysign(np.float32(1), np.full(5, number, "f4")))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="s is 10"):
            pg.elementwise(
                "x + s", x=on_device(new_engine, np.ones(5, np.int32)), s=10**12, engine=new_engine
            )


def test_overlap_is_found_after_a_call_that_was_refused(new_engine: Engine) -> None:
    """Buffers are checked when they change; a call may end before that check."""
    a, b, c = (on_device(new_engine, values(24, 24)) for _ in range(3))
    for _ in range(3):
        pg.gemm(a, b, c=c, engine=new_engine)
    for _ in range(2):
        with pytest.raises(OverlapError):
            pg.gemm(c, b, c=c, engine=new_engine)
    other = cl.CommandQueue(new_engine.context)
    pg.gemm(a, b, c=c, engine=new_engine)
    b.events.append(cl.enqueue_marker(other))
    with pytest.raises(OverlapError):
        pg.gemm(c, b, c=c, engine=new_engine)
    del b.events[-1]
    with pytest.raises(OverlapError):
        pg.gemm(c, b, c=c, engine=new_engine)
    half = on_device(new_engine, values(2, 24, 24))
    for _ in range(3):
        pg.gemm(half[0], b, c=half[1], engine=new_engine)
    whole = pg.asarray(values(49, 24), engine=new_engine)
    pg.gemm(whole[:24], b, c=whole[24:48], engine=new_engine)
    with pytest.raises(OverlapError):
        pg.gemm(whole[:24], b, c=whole[16:40], engine=new_engine)


def test_buffers_are_not_kept(new_engine: Engine) -> None:
    """A kernel object with its arguments does not keep their memory."""
    state = new_engine.state()
    rows, out = (
        pg.asarray(values(30, 40), engine=new_engine),
        on_device(new_engine, np.zeros(40, np.float32)),
    )
    for _ in range(3):
        pg.sum(rows, axis=0, out=out, engine=new_engine)
        pg.sum(rows, axis=0, engine=new_engine)
    before = state._pool.active_blocks
    del rows
    assert state._pool.active_blocks < before


def test_room_to_fold_in_that_gives_way_to_larger(new_engine: Engine) -> None:
    """The counters that a kernel has are kept for it, and zero."""
    state = new_engine.state()
    data = values(300_000)
    x = on_device(new_engine, data)
    for turn in range(6):
        assert pg.sum(x, engine=new_engine).get() == data.sum()
        state.counters_and_partials(4096 << turn, 1 << 16 + turn)
        for _ in range(4):  # what was released is given to others
            filled = np.full(1 << 14, 0x01010101, np.uint32)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            cl.Buffer(new_engine.context, flags, hostbuf=filled)


def test_what_is_known_of_a_buffer(new_engine: Engine) -> None:
    item, two = (cl.Buffer(new_engine.context, cl.mem_flags.READ_WRITE, 640) for _ in range(2))
    assert memory_of(item) is memory_of(item)
    assert memory_of(item) is not memory_of(two)
    assert memory_of(item).size == 640


def test_calls_that_were_made_on_another_queue(new_engine: Engine) -> None:
    """Calls of one shape on two queues of an engine: kernels of each, events of the other."""
    queues = [
        new_engine.queue,
        cl.CommandQueue(new_engine.context),
        cl.CommandQueue(new_engine.context),
    ]
    data = [values(30, 40) for _ in queues]
    arrays = [on_device(new_engine, x, queue) for x, queue in zip(data, queues, strict=True)]
    for turn in range(12):
        k = turn % 3
        first = pg.sum(arrays[k], axis=0, engine=new_engine)
        moved = first.with_queue(queues[(turn + 1) % 3])
        assert moved.queue is not first.queue
        np.testing.assert_allclose(
            pg.max(moved, engine=new_engine).get(), data[k].sum(axis=0).max()
        )


def test_small_workspace_stays_with_kernel_objects(engine: Engine) -> None:
    """Calls in the middle of each other have kernel objects, so workspace, of their own."""
    state, retained = engine.state(), 16 << 10
    result = []
    for nbytes in (retained, retained + 1):
        recorded = Recording(state)
        recorded.recording = []
        recorded.workspace(nbytes)
        result.append([Kernels(state, recorded, [], ()) for _ in range(2)])
    small, large = result
    assert [kernels.workspaces for kernels in small] == [[], []]
    assert [kernels.workspaces for kernels in large] == [[(retained + 1, [])]] * 2
    (item,), (other,) = (kernels._staying for kernels in small)
    assert item.int_ptr != other.int_ptr
