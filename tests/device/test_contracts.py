"""The contract of every public function: arrays in and out, queues, events, threads, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from device_arrays import from_device, on_device
from sampling import FEW

import portable_gpu as pg
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    ContextMismatchError,
    DeviceMemoryError,
    DTypeError,
    HostMemoryError,
    OverlapError,
    ReadOnlyError,
)
from portable_gpu.ops.sampling import problem as sampling_problem
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.registry import default_engine

BFLOAT16 = bfloat16()

OUT_OF_ORDER = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
#: One of each family, on float32 vectors of one length, so that few kernels serve all tests.
UNARY: dict[str, Callable[[Any], Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "argmin": np.argmin,
    "std": np.std,
    "all": np.all,
    "count_nonzero": np.count_nonzero,
    "asum": lambda x: np.sum(np.abs(x)),
    "nrm2": np.linalg.norm,
}
N = 40_009


@pytest.fixture(scope="module")
def x() -> Any:
    return np.random.default_rng(0).uniform(0.99, 1.01, N).astype(np.float32)


@pytest.fixture(scope="module")
def slow(engine: Engine) -> Any:
    """Queues a copy of one array to another that takes about a tenth of a second."""
    text = """
    __kernel void slow(__global const float *a, __global float *b, int n, float one)
    {
        float factor = 1;
        for (int i = 0; i < 20000000; ++i) factor = factor * one + (one - 1.0f);
        for (int i = 0; i < n; ++i) b[i] = a[i] * factor;
    }
    """
    program = cl.Program(engine.context, text).build(cache_dir=False)
    kernel = cl.Kernel(program, "slow")

    def launch(queue: Any, source: Any, target: Any) -> Any:
        item = np.float32(1)
        kernel.set_args(source.base_data, target.base_data, np.int32(source.size), item)
        event = cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        queue.flush()  # OpenCL asks for it before another queue waits for the event
        return event

    return launch


# -- arrays in, arrays out


@pytest.mark.parametrize("name", UNARY)
def test_numpy_in_numpy_out_device_in_device_out(engine: Engine, x: Any, name: str) -> None:
    ours, expected = getattr(pg, name), UNARY[name](x.astype(np.float64))
    on_host = ours(x, engine=engine)
    assert isinstance(on_host, np.generic)
    np.testing.assert_allclose(on_host, expected, rtol=2e-3 if name == "prod" else 2e-5)
    for _ in range(3):  # the third takes the short path of repeated calls
        result = ours(on_device(engine, x))
        assert isinstance(result, pg.Array)
        assert result.shape == ()
        assert result.queue == engine.queue
        assert result.events
        result.events[-1].wait()
        np.testing.assert_array_equal(result.get(), on_host)


def test_one_device_array_makes_a_device_result(engine: Engine, x: Any) -> None:
    expected = pg.dot(x, x, engine=engine)
    data = on_device(engine, x)
    for a, b in ((data, x), (x, data), (data, data)):
        result = pg.dot(a, b)
        assert isinstance(result, pg.Array)
        np.testing.assert_array_equal(result.get(), expected)
    assert pg.dot(data, np.float32(2) * np.ones(N, np.float32)[::-1]).get() > 0


def test_dlpack(engine: Engine, x: Any) -> None:
    class Exporter:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    assert pg.sum(Exporter(x), engine=engine) == pg.sum(x, engine=engine)
    assert pg.sum(Exporter(x[::-3]), engine=engine) == pg.sum(x[::-3], engine=engine)

    class Broken(Exporter):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("not on this device")

    with pytest.raises(ArgumentTypeError, match=r"x is a Broken.*not on this device"):
        pg.sum(Broken(x), engine=engine)


def test_byte_swapped_and_unaligned(engine: Engine, x: Any) -> None:
    expected = pg.sum(x, engine=engine)
    assert pg.sum(x.astype(">f4"), engine=engine) == expected
    memory = np.zeros(4 * N + 1, np.uint8)
    unaligned = memory[1:].view(np.float32)
    unaligned[:] = x
    assert not unaligned.flags.aligned
    assert pg.sum(unaligned, engine=engine) == expected
    record = np.zeros(N, [("flag", np.uint8), ("value", np.float32)])
    record["value"] = x
    assert pg.sum(record["value"], engine=engine) == expected
    odd = cla.Array(
        engine.queue, (3,), np.float32, data=on_device(engine, memory[:64]).data, offset=1
    )
    with pytest.raises(ArgumentError, match="x has offset 1"):
        pg.sum(odd)


def test_read_only_input(engine: Engine, x: Any) -> None:
    frozen = x.copy()
    frozen.flags.writeable = False
    for _ in range(3):  # the first call plans, later ones repeat
        assert pg.sum(frozen, engine=engine) == pg.sum(x, engine=engine)
    assert pg.sum(np.broadcast_to(np.float32(2), 100), engine=engine) == 200


def test_memory_of_its_own(engine: Engine, x: Any) -> None:
    """As on a GPU: NumPy arrays travel to the device and back."""
    staging = Engine(queue=engine.queue)
    staging.maps_host_memory = staging.takes_host_pointers = False
    for data in (x, x[::-1], x[::3], x[:6].reshape(2, 3).T, np.float32(3), x[:0]):
        assert pg.sum(data, engine=staging) == pg.sum(data, engine=engine)
        wide = pg.sum(data, keepdims=True, engine=staging)
        assert np.shape(wide) == (1,) * np.ndim(data)
    rows = x[:400].reshape(20, 20)
    np.testing.assert_array_equal(pg.max(rows, axis=0, engine=staging), np.max(rows, axis=0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_storage(engine: Engine, dtype: str) -> None:
    kind = BFLOAT16 if dtype == "bfloat16" else np.dtype(np.float16)
    if kind is None:
        pytest.skip("needs ml_dtypes")
    x = np.arange(300).astype(kind)
    for data in (x, on_device(engine, x)):
        got = pg.sum(data, engine=engine)
        assert got.dtype == kind
        got = got if data is x else from_device(got)
        assert got == np.sum(x.astype(np.float32)).astype(kind)


def test_arguments_that_are_no_arrays(engine: Engine) -> None:
    for wrong in ("text", object(), [1, "a"], None, {1: 2}, np.array(["a"]), np.ones(2, "m8[s]")):
        with pytest.raises((DTypeError, ArgumentTypeError), match="x"):
            pg.sum(wrong, engine=engine)
    with pytest.raises(DTypeError, match=r"b.*longdouble|b.*float128"):
        pg.dot(np.ones(2), np.ones(2, np.longdouble), engine=engine)


# -- queues and events


@pytest.mark.parametrize("properties", [None, OUT_OF_ORDER], ids=["in order", "out of order"])
@pytest.mark.parametrize("name", ["sum", "std", "argmin"])
def test_another_queue(engine: Engine, x: Any, name: str, properties: Any) -> None:
    queue = cl.CommandQueue(engine.context, properties=properties or 0)
    ours, expected = getattr(pg, name), getattr(pg, name)(x, engine=engine)
    assert ours(x, queue=queue) == expected
    result = ours(on_device(engine, x), queue=queue)
    assert result.queue == queue
    np.testing.assert_array_equal(result.get(), expected)
    local = ours(on_device(engine, x, queue))
    assert local.queue == queue
    for _ in range(20):
        results = [ours(on_device(engine, x, queue)) for _ in range(5)]
        assert all(result.get() == expected for result in results)


def test_waits_for_given_events(engine: Engine, x: Any, slow: Any) -> None:
    other = cl.CommandQueue(engine.context)
    source, target = on_device(engine, x), on_device(engine, np.zeros_like(x))
    engine.queue.finish()
    event = slow(other, source, target)
    got = pg.sum(target, wait_for=[event])
    np.testing.assert_array_equal(got.get(), pg.sum(x, engine=engine))


def test_waits_for_what_writes_its_inputs(engine: Engine, x: Any, slow: Any) -> None:
    other = cl.CommandQueue(engine.context)
    expected = pg.sum(x, engine=engine)
    source = on_device(engine, x)
    for _ in range(2):
        pg.sum(source)  # the short path is known by now
    for queue in (None, cl.CommandQueue(engine.context, properties=OUT_OF_ORDER)):
        target = on_device(engine, np.zeros_like(x))
        engine.queue.finish()
        target.add_event(slow(other, source, target))
        got = pg.sum(target, queue=queue)
        repeated = pg.sum(got, queue=queue)
        np.testing.assert_array_equal(repeated.get(), expected)


def test_result_written_on_another_queue(engine: Engine, x: Any, slow: Any) -> None:
    other = cl.CommandQueue(engine.context)
    source, target = on_device(engine, x), on_device(engine, np.zeros_like(x))
    engine.queue.finish()
    busy = slow(other, source, target)
    out = on_device(engine, np.zeros((), np.float32))
    pg.sum(target, out=out, queue=other)  # behind the slow kernel, on a queue that is not out's
    got = pg.sum(out)
    np.testing.assert_array_equal(got.get(), pg.sum(x, engine=engine))
    busy.wait()


def test_only_enqueues_on_device_arrays(engine: Engine, x: Any) -> None:
    queue = cl.CommandQueue(engine.context)
    zeros = on_device(engine, np.zeros_like(x), queue)
    blocker = cl.UserEvent(engine.context)
    result = pg.std(zeros, wait_for=[blocker])
    event = result.events[-1]
    assert event.command_execution_status != cl.command_execution_status.COMPLETE
    blocker.set_status(cl.command_execution_status.COMPLETE)
    assert result.get() == 0


def test_dropped_result_is_not_overwritten(engine: Engine, x: Any) -> None:
    """Its memory returns to its queue's pool, but not before another queue has read it."""
    other = cl.CommandQueue(engine.context)
    columns = on_device(engine, np.stack([x[:500], x[:500]]))
    blocker = cl.UserEvent(engine.context)
    dropped = pg.sum(columns, axis=0)
    late = pg.max(dropped, queue=other, wait_for=[blocker])
    del dropped
    for _ in range(3):
        pg.prod(columns, axis=0)
    engine.queue.finish()
    blocker.set_status(cl.command_execution_status.COMPLETE)
    assert late.get() == 2 * x[:500].max()


def test_memory_that_a_queue_keeps_is_bounded(engine: Engine) -> None:
    state = engine.state(cl.CommandQueue(engine.context))
    state._max_unused = 1 << 16
    for power in range(8, 16):
        for buffer in [state.allocate(1 << power) for _ in range(4)]:
            assert buffer.size >= 1 << power
    assert state._pool.managed_bytes <= 1 << 18


@pytest.mark.parametrize("place", ["numpy", "device"])
def test_repeated_calls_with_out(engine: Engine, place: str) -> None:
    """The fast path of a repeated call checks ``out`` each time."""
    put = (lambda a: a) if place == "numpy" else (lambda a: on_device(engine, a))
    get = (lambda a: a) if place == "numpy" else from_device
    a = np.arange(20 * 20, dtype=np.float32).reshape(20, 20) % 7
    matrix, vector = put(a), put(a[1].copy())
    calls: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
        "sum": (lambda out: pg.sum(matrix, axis=0, out=out, engine=engine), a.sum(0), matrix[0]),
        "gemv": (lambda out: pg.gemv(matrix, vector, y=out, engine=engine), a @ a[1], matrix[0]),
        "gemm": (lambda out: pg.gemm(matrix, matrix, c=out, engine=engine), a @ a, matrix),
        "matmul": (lambda out: pg.matmul(matrix, matrix, out=out, engine=engine), a @ a, matrix),
    }
    for call, expected, part in calls.values():
        for _ in range(3):
            out = put(np.full_like(expected, np.nan))
            assert call(out) is out
            np.testing.assert_array_equal(get(out), expected)
        with pytest.raises(OverlapError):
            call(part)
    if place == "numpy":
        for call, expected, _ in calls.values():
            frozen = np.zeros_like(expected)
            frozen.flags.writeable = False
            with pytest.raises(ReadOnlyError):
                call(frozen)
            assert not frozen.any()
    else:
        np.testing.assert_array_equal(get(matrix), a)


# -- contexts and engines


def test_two_contexts(engine: Engine, x: Any) -> None:
    other = Engine(engine.device)
    here, there = on_device(engine, x), on_device(other, x)
    assert pg.sum(there).get() == pg.sum(here).get()
    assert pg.sum(there, engine=other).queue == other.queue
    assert pg.sum(x, engine=other) == pg.sum(x, engine=engine)
    assert pg.sum(x, queue=other.queue) == pg.sum(x, engine=engine)
    for call in (
        lambda: pg.dot(here, there),
        lambda: pg.sum(here, engine=other),
        lambda: pg.sum(here, queue=other.queue),
        lambda: pg.sum(x, engine=engine, queue=other.queue),
        lambda: pg.sum(here, out=on_device(other, np.zeros((), np.float32))),
    ):
        with pytest.raises(ContextMismatchError, match="context"):
            call()
    with pytest.raises(ContextMismatchError, match="a, b: arrays of two OpenCL contexts"):
        pg.matmul(here, there)
    assert pg.sum(here).get() == pg.sum(x, engine=engine)


def test_the_default_engine(engine: Engine) -> None:
    assert default_engine() is engine
    assert pg.default_engine() is engine
    assert pg.sum(np.arange(10)) == 45


@pytest.mark.parametrize("request_", ["no such device", "77:5", "Portable:no such device"])
def test_an_absent_device(request_: str) -> None:
    script = "import numpy, portable_gpu; portable_gpu.sum(numpy.ones(3))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "PORTABLE_GPU_DEVICE": request_,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "DeviceNotFoundError" in last
    assert request_ in last
    assert default_engine().device.name.strip() in last


def test_too_little_memory(engine: Engine) -> None:
    data = on_device(engine, np.ones(16, np.float32))
    shape = (engine.target.facts.max_alloc_size, 1)  # four times as many bytes
    wide = cla.Array(engine.queue, shape, np.float32, data=data.data, strides=(0, 4))
    with pytest.raises(DeviceMemoryError, match=r"\d+ bytes"):
        pg.sum(wide, axis=1)
    small = Engine(queue=engine.queue)
    small.maps_host_memory = small.takes_host_pointers = False
    facts = replace(engine.target.facts, max_alloc_size=1 << 20)
    small.target = replace(engine.target, facts=facts)
    with pytest.raises(DeviceMemoryError, match=r"\d+ bytes.*1048576"):
        pg.sum(np.zeros(1 << 19, np.float64), engine=small)
    assert pg.sum(np.ones(10), engine=small) == 10
    assert pg.sum(data).get() == 16


def test_shapes_that_no_memory_holds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors name what was asked for, and the largest buffer of the device."""
    largest = engine.device.max_mem_alloc_size
    limit = engine.target.facts.max_alloc_size
    for shape in ((1 << 40,), (1 << 64,), (1 << 32, 1 << 32)):
        with pytest.raises(DeviceMemoryError, match=rf"shape is \(.* of float32.* has {largest}"):
            pg.Array(engine.queue, shape, np.float32)
    enormous = np.broadcast_to(np.float32(1), (1 << 20, 1 << 20))
    for order in ("K", "C"):
        with pytest.raises(DeviceMemoryError, match=rf"\(1048576, 1048576\) and float32.* {limit}"):
            pg.asarray(enormous, order=order, engine=engine)
    column, row = (
        on_device(engine, np.ones(shape, np.int8)) for shape in ((1 << 20, 1), (1, 1 << 20))
    )
    with pytest.raises(DeviceMemoryError, match=rf"\(1048576, 1048576\) and int8.* {limit}"):
        pg.elementwise("x + y", x=column, y=row)
    image = np.ones((1, 1, 4, 4), np.float32)
    with pytest.raises(DeviceMemoryError, match=r"\(1, 1, 4, 1099511627780\)"):
        pg.nn.pad(image, (1 << 40, 0), engine=engine)
    with pytest.raises(ArgumentError, match=f"from 1 to {(1 << 31) - 1}"):
        pg.nn.interpolate(image, (1 << 40, 1), engine=engine)
    with pytest.raises(HostMemoryError, match=r"no memory for values of shape \(2147483647, 2"):
        pg.nn.Linear((1 << 31) - 1, (1 << 31) - 1, engine=engine)

    def without_memory(*arguments: Any, **options: Any) -> Any:
        raise MemoryError("none")

    monkeypatch.setattr(sampling_problem, "table_of", without_memory)
    with pytest.raises(HostMemoryError, match=r"shape \(1, 1, 4, 11\) and the tables.*none"):
        pg.nn.pad(image, (3, 4), engine=engine)
    monkeypatch.setattr(np, "require", without_memory)
    with pytest.raises(HostMemoryError, match=r"x has shape \(4,\).* none"):
        pg.asarray(np.ones(8)[::2], engine=engine)


# -- threads and repetition


@pytest.mark.path
def test_repeats_bit_by_bit(engine: Engine) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1 << 18) + 7).astype(np.float32)
    grid = on_device(engine, x[: 511 * 513].reshape(511, 513))
    data = on_device(engine, x)
    calls: dict[str, Callable[[], Any]] = {
        name: lambda n=name: getattr(pg, n)(data) for name in UNARY
    }
    calls["dot"] = lambda: pg.dot(data, data)
    calls["columns"] = lambda: pg.sum(grid, axis=0)
    calls["rows"] = lambda: pg.mean(grid, axis=1)
    calls["columns' moments"] = lambda: pg.var(grid, axis=0)
    for name, call in calls.items():
        first = call().get().tobytes()
        results = [call() for _ in range(30 if FEW else 100)]
        assert {result.get().tobytes() for result in results} == {first}, name


@pytest.mark.path
def test_eight_threads(engine: Engine) -> None:
    """Each its own data, of shapes and operations that they share; on the host and the device."""
    wrong: list[str] = []

    def work(seed: int) -> None:
        sizes = (1000, 1000 + seed, 30_000)
        arrays = [np.random.default_rng(seed).integers(0, 99, n).astype(np.int32) for n in sizes]
        try:
            on_devices = [on_device(engine, array) for array in arrays]
            for call in range(120 if FEW else 500):
                k = (call + seed) % 3
                name = ("sum", "argmax", "max", "count_nonzero")[call % 4]
                expected = getattr(np, name)(arrays[k])
                if call % 5:
                    got = getattr(pg, name)(on_devices[k]).get()
                else:
                    got = getattr(pg, name)(arrays[k])
                if got != expected:
                    wrong.append(f"thread {seed}, call {call}: {name} is {got}, not {expected}")
        except Exception as error:
            wrong.append(f"thread {seed}: {error!r}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:5]


def test_threads_on_queues_of_their_own(engine: Engine) -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        queue = cl.CommandQueue(engine.context, properties=OUT_OF_ORDER if seed % 2 else 0)
        x = np.random.default_rng(seed).standard_normal(30_000)
        data = on_device(engine, x, queue)
        expected = pg.var(x, engine=engine)
        wrong.extend(seed for _ in range(50) if pg.var(data).get() != expected)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.path
def test_threads_that_need_room_at_once(engine: Engine) -> None:
    """No thread gets a smaller workspace that another thread allocated."""
    state, interval = QueueState(engine, engine.queue), sys.getswitchinterval()
    small: list[tuple[int, int]] = []

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            counters, nbytes = (int(n) for n in rng.integers(1, 1 << 16, 2))
            if rng.integers(8) == 0:  # begin anew, with little
                state._counters, state._partials = state._zeroed(1), state._zeroed(1)
            buffer, partials = state.counters_and_partials(counters, nbytes)
            if buffer.size < 4 * counters or partials.size < nbytes:
                small.append((counters, nbytes))

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not small


def test_stays_usable_after_errors(engine: Engine, x: Any) -> None:
    data = on_device(engine, x)
    expected = pg.sum(x, engine=engine)
    for _ in range(3):
        for wrong in (
            lambda: pg.sum(data, axis=4),
            lambda: pg.sum(data, dtype="bad"),
            lambda: pg.sum(data, out=np.zeros(3)),
            lambda: pg.reduce(data, pg.BinaryOp("f", "0", "a +")),
            lambda: pg.dot(data, data[1:]),
            lambda: pg.max(data[:0]),
        ):
            with pytest.raises(pg_errors()):
                wrong()
        assert pg.sum(data).get() == expected


def pg_errors() -> type[Exception]:
    from portable_gpu.errors import PortableGPUError

    return PortableGPUError
