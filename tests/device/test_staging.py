"""Large copies through pinned pieces; here any device has them, and copies of all sizes."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from interruptions import handler, interrupted, stop

import portable_gpu as pg
from portable_gpu.runtime import staging
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.registry import state_for

#: Bytes of each of the 16 pieces, and the fewest that a thread moves at a time.
PIECE, SHARE = 1000, 256
MOST = staging._THREADS * staging._PIECES_OF_THREAD + staging._PIECES_OF_MOVES


@pytest.fixture
def pinned(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine all of whose copies go through pieces."""
    monkeypatch.setattr(staging, "LEAST", 1)
    monkeypatch.setattr(staging, "PIECE", PIECE)
    monkeypatch.setattr(staging, "_LEAST_SHARE", SHARE)
    monkeypatch.setattr(staging, "_ALIGNMENT", 8)
    monkeypatch.setattr(staging, "cores", lambda: 4)
    context = cl.Context([engine.device])  # which Intel's runtime does not keep for a queue
    queue = cl.CommandQueue(context)
    made = state_for([], None, queue).engine  # that of all arrays on this queue
    made.staging.pays = True
    yield made
    gc.collect()
    assert 1 <= len(made.staging._free) == MOST - len(made.staging._unmade)
    made.close()


def numbers(shape: Any, dtype: Any = np.float32) -> Any:
    count = int(np.prod(shape))
    return (np.arange(count) * 7919 % 251).astype(dtype).reshape(shape)


def test_there_and_back(pinned: Engine) -> None:
    for size in (1, 63, 250, 251, 1999, 2000, 70_001):
        x = numbers(size)
        there = pg.asarray(x, engine=pinned)
        np.testing.assert_array_equal(pg.asnumpy(there), x)
        host = np.empty_like(x)
        assert there.get(ary=host) is host
        np.testing.assert_array_equal(host, x)
        there.set(2 * x)
        np.testing.assert_array_equal(pg.asnumpy(there), 2 * x)


def test_layouts(pinned: Engine) -> None:
    x = numbers((37, 41, 3), np.complex64)
    for item in (x, x[::2, 3:], x.T, x[:, ::-1], np.broadcast_to(x[:1], x.shape)):
        there = pg.asarray(item, engine=pinned)
        np.testing.assert_array_equal(pg.asnumpy(there), item)
        for part in (np.s_[3:30], np.s_[::3, 1:], np.s_[:, 5]):
            np.testing.assert_array_equal(pg.asnumpy(there[part]), item[part])  # with an offset
    there = pg.asarray(x, engine=pinned)
    there[5:20].set(x[:15] + 1)
    transposed = np.asfortranarray(x)
    there.transpose().set(transposed.T + 2)  # in Fortran's order
    np.testing.assert_array_equal(pg.asnumpy(there), x + 2)
    for dtype in (np.uint8, np.int64, np.bool_, np.float16):
        y = numbers(3001, dtype)
        y.flags.writeable = False
        np.testing.assert_array_equal(pg.asnumpy(pg.asarray(y, engine=pinned)), y)
    assert pg.asnumpy(pg.asarray(np.zeros((0, 3)), engine=pinned)).shape == (0, 3)


def test_arrays_of_calls(pinned: Engine) -> None:
    """A GPU uploads NumPy's arrays and downloads its results through pieces."""
    pinned.maps_host_memory = pinned.takes_host_pointers = False
    x, y = numbers((60, 70)), numbers((60, 70)) + 1
    result = pg.elementwise("x + y", x=x, y=y[:, ::-1], engine=pinned)
    np.testing.assert_array_equal(result, x + y[:, ::-1])
    out = np.zeros((60, 140), np.float32)[:, ::2]
    pg.elementwise("x + y", x=pg.asarray(x, engine=pinned), y=y, engine=pinned)
    pg.elementwise("x + y", x=x, y=y, out=out, engine=pinned)
    np.testing.assert_array_equal(out, x + y)


def test_queues(pinned: Engine) -> None:
    """Copies come after the kernels before them, and before those that follow."""
    x = numbers(20_000)
    properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queues = [cl.CommandQueue(pinned.context), cl.CommandQueue(pinned.context)]
    if pinned.device.queue_properties & properties:
        queues.append(cl.CommandQueue(pinned.context, properties=properties))
    for queue in queues:
        there = pg.asarray(x, engine=pinned, queue=queue)
        result = pg.elementwise("2 * x", x=there, engine=pinned)
        np.testing.assert_array_equal(result.get(), 2 * x)
        np.testing.assert_array_equal(result.get(queue=queues[0]), 2 * x)


def test_threads_share_the_pieces(pinned: Engine) -> None:
    errors: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for turn in range(8):
                x = numbers(5000 + k) + turn
                np.testing.assert_array_equal(pg.asnumpy(pg.asarray(x, engine=pinned)), x)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_no_piece_to_be_had(pinned: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers(9000)
    with monkeypatch.context() as patch:
        patch.setattr(staging, "_Piece", refuse)
        np.testing.assert_array_equal(pg.asnumpy(pg.asarray(x, engine=pinned)), x)
    unmade, pinned.staging._unmade = pinned.staging._unmade, deque([0])  # one for all threads
    np.testing.assert_array_equal(pg.asnumpy(pg.asarray(x, engine=pinned)), x)
    unmade.pop()
    pinned.staging._unmade = unmade


def refuse(*_: Any) -> Any:
    raise cl.Error("planted")


@pytest.mark.parametrize("writes", [True, False])
def test_a_failing_command(pinned: Engine, monkeypatch: pytest.MonkeyPatch, writes: bool) -> None:
    x = numbers(9000)
    there, copy, calls = pg.asarray(x, engine=pinned), cl.enqueue_copy, count()

    def failing(*arguments: Any, **options: Any) -> Any:
        return refuse() if next(calls) == 7 else copy(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(staging.cl, "enqueue_copy", failing)
        with pytest.raises(cl.Error, match="planted"):
            there.set(x) if writes else there.get()
    assert next(calls) < 37
    np.testing.assert_array_equal(there.get(), x)


def test_a_copy_that_fails_on_the_device(pinned: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers(9000)
    there, copy = pg.asarray(x, engine=pinned), cl.enqueue_copy

    def failing(*arguments: Any, **options: Any) -> Any:
        copy(*arguments, **options).wait()
        return SimpleNamespace(wait=refuse)

    with monkeypatch.context() as patch:
        patch.setattr(staging.cl, "enqueue_copy", failing)
        with pytest.raises(cl.Error, match="planted"):
            there.get()
    np.testing.assert_array_equal(there.get(), x)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that raises a signal")
def test_interrupts_leave_nothing_in_flight(pinned: Engine) -> None:
    x = numbers(100_000)
    there, rng, left = pg.asarray(x, engine=pinned), np.random.default_rng(0), 0
    begin = time.perf_counter()
    there.set(x)
    spent = time.perf_counter() - begin
    into, source = np.empty_like(x), x.copy()
    with handler(stop):
        for turn in range(120):
            after = rng.uniform(1e-5, spent)
            if turn % 2:
                result = interrupted(lambda: there.get(ary=into), after)
                if result:  # no thread writes there any more
                    into[...] = -1
                    time.sleep(2e-4)
                    assert (into == -1).all()
            else:
                result = interrupted(lambda: there.set(source), after)
                if result:  # and none reads there
                    source[...] = -1
                    there.set(x)
                    np.testing.assert_array_equal(there.get(), x)
                    source[...] = x
            left += result
    assert left > 10


def test_pieces_go_with_their_engine(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "LEAST", 1)
    made = Engine(engine.device, device_class=engine.target.device_class)
    assert made.staging.pays == (
        made.target.facts.type == "gpu" and not made.target.facts.host_unified_memory
    )
    made.staging.pays = True
    pg.asarray(numbers(1 << 20), engine=made)
    [piece, *_] = [weakref.ref(piece) for piece in made.staging._free]
    del made
    gc.collect()
    assert piece() is None


def test_a_matrix_keeps_two_axes(pinned: Engine) -> None:
    x = numbers((40, 30)).view(np.matrix)
    np.testing.assert_array_equal(pg.asnumpy(pg.asarray(x, engine=pinned)), np.asarray(x))


def test_without_threads_the_driver_copies(pinned: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    x = numbers(9000)
    pg.asarray(x, engine=pinned)  # which makes pieces
    monkeypatch.setattr("portable_gpu.side_by_side._thread.start_new_thread", none)
    np.testing.assert_array_equal(pg.asnumpy(pg.asarray(x, engine=pinned)), x)


def test_arrays_with_other_strides(pinned: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """``copy_strided`` copies in C order, with pieces and without."""
    rng = np.random.default_rng(0)
    queue = pinned.queue

    def check(values: Any) -> None:
        device = cl.Buffer(pinned.context, cl.mem_flags.READ_WRITE, values.nbytes + 16)
        copy = pinned.staging.copy_strided
        copy(queue, device, values, 16, writes=True)
        packed = np.empty(values.shape, values.dtype)
        cl.enqueue_copy(queue, packed, device, src_offset=16)
        np.testing.assert_array_equal(packed, values)
        base = np.full((*values.shape[:-1], 2 * values.shape[-1]), 7, values.dtype)
        copy(queue, device, base[..., ::2], 16, writes=False)
        np.testing.assert_array_equal(base[..., ::2], values)
        assert (base[..., 1::2] == 7).all()

    for _ in range(30):
        shape = tuple(rng.integers(1, 40, rng.integers(1, 4)))
        dtype = rng.choice([np.float32, np.float16, np.complex128, np.int8])
        values = numbers((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
        check(values if rng.integers(2) else values.T)
    with monkeypatch.context() as patch:
        patch.setattr(pinned.staging, "take", lambda: None)
        check(numbers((30, 70))[:, 3:])
    check(numbers((300, 70))[:, 3:])
