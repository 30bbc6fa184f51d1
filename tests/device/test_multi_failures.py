"""Operations of groups whose devices fail at random points, and interrupts at random times."""

from __future__ import annotations

import gc
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from device_groups import one_and_two
from failing_devices import failing
from interruptions import handler, interrupted, stop

import portable_gpu as pg
from portable_gpu import nn, sparse
from portable_gpu.errors import ArgumentError, DeviceFailedError, DeviceMemoryError
from portable_gpu.multi import DataParallel, DeviceGroup, GroupArray, partition, streaming
from portable_gpu.multi.failures import run_with_retry, working
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations import runs
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import partition as sparse_partition


def normal(*shape: int, seed: int = 0) -> Any:
    """Return normal random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


A, B, VECTOR = normal(40, 30), normal(30, 20, seed=1), normal(30, seed=2)
IMAGES, WEIGHT, BIAS = normal(8, 3, 9, 9), normal(4, 3, 3, 3, seed=1), normal(4, seed=2)
COMPLEX = (normal(24, 18) + 1j * normal(24, 18, seed=1)).astype(np.complex64)
DEFINITE = normal(36, 36) @ normal(36, 36).T + 40 * np.eye(36, dtype=np.float32)
LARGE = normal(130, 80)


def training(group: DeviceGroup) -> list[Any]:
    """Return the gradients and the state after a step."""
    nn.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 10)
    )
    parallel = DataParallel(net, group, micro_batches=3)
    loss = parallel.backward(normal(6, 1, 8, 8), np.arange(6), nn.CrossEntropyLoss())
    gradients: list[Any] = [parameter.grad for parameter in net.parameters()]
    return [np.float64(loss), *[each.get() for each in gradients], *net.state_dict().values()]


def cholesky(group: DeviceGroup) -> list[Any]:
    """Return a factor and a solution."""
    factor = pg.linalg.cholesky(group.asarray(DEFINITE, 1, blocks=3), engine=group)
    return [factor, pg.linalg.cho_solve((factor, True), A[:36, :2].copy(), engine=group)]


OPERATIONS: dict[str, Callable[[DeviceGroup], list[Any]]] = {
    "sum": lambda g: [pg.sum(A, axis=0, engine=g)],
    "sum of blocks": lambda g: [
        pg.sum(g.asarray(A, blocks=4), axis=axis, engine=g) for axis in (0, 1)
    ],
    "argmax of blocks": lambda g: [pg.argmax(g.asarray(A, blocks=4), engine=g)],
    "expression": lambda g: [pg.elementwise("x * y + r", x=A, y=A[:, ::-1], r=A[0], engine=g)],
    "expression of blocks": lambda g: [
        pg.elementwise("x * y + r", x=g.asarray(A, blocks=4), y=A[:, ::-1], r=A[0], engine=g)
    ],
    "product": lambda g: [pg.gemm(A, B, engine=g)],
    "product of blocks": lambda g: [pg.gemm(g.asarray(A, blocks=4), B, engine=g)],
    "sum of 16-bit products": lambda g: [
        pg.gemm(g.asarray(A.astype("f2"), 1, blocks=3), B.astype("f2"), engine=g)
    ],
    "sum of products": lambda g: [pg.gemv(g.asarray(A, 1, blocks=3), VECTOR, engine=g)],
    "convolution": lambda g: [nn.conv2d(IMAGES, WEIGHT, BIAS, engine=g)],
    "convolution of blocks": lambda g: [
        nn.conv2d(g.asarray(IMAGES, blocks=4), WEIGHT, BIAS, engine=g)
    ],
    "transform": lambda g: [pg.fft.fftn(COMPLEX, engine=g)],
    "transform of blocks": lambda g: [pg.fft.fftn(g.asarray(COMPLEX, blocks=3), engine=g)],
    "calls without blocks": lambda g: [
        pg.sum(A[:0], axis=0, engine=g), pg.gemm(A[:, :0], B[:0], engine=g),
        pg.matmul(VECTOR, VECTOR, engine=g), pg.fft.fftn(COMPLEX, axes=(), engine=g),
    ],
    "factor": lambda g: [pg.linalg.cholesky(DEFINITE, lower=False, engine=g)],
    "factor of blocks": cholesky,
    "training": training,
    "copies": lambda g: [
        g.broadcast(g.asarray(A, 1, blocks=3)), g.all_reduce(g.asarray(A, blocks=5)),
        g.scatter([A, A[:3]]),
    ],
    "streamed product": lambda g: [
        streaming.gemm(LARGE, LARGE.T, memory_limit=100_000, engine=g)
    ],
    "streamed sum": lambda g: [
        streaming.sum(LARGE, axis=axis, memory_limit=8_000, engine=g) for axis in (0, 1)
    ],
    "streamed transform": lambda g: [streaming.fftn(LARGE[:30], memory_limit=12_000, engine=g)],
}  # fmt: skip


@pytest.fixture(scope="module")
def group() -> Iterator[DeviceGroup]:
    """Two devices, whose small arrays have several blocks."""
    with one_and_two() as (_, two), pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "LEAST_BLOCK", 1 << 10)
        patch.setattr(runs, "LEAST_ROWS_ON_CPUS", 1)
        yield two


def bits_of(results: list[Any]) -> bytes:
    """Return the bits of all results."""
    arrays = [x.asnumpy() if isinstance(x, GroupArray) else np.asarray(x) for x in results]
    return b"".join(array.tobytes() for array in arrays)


def used(group: DeviceGroup) -> list[int]:
    """Return the bytes of arrays that exist on each device."""
    gc.collect()
    return [member.used for member in group.members]


@pytest.mark.parametrize("name", OPERATIONS)
def test_devices_that_fail_at_random(
    group: DeviceGroup, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The result has the same bits, or the error names the device; memory is as before."""
    operation, draw = OPERATIONS[name], random.Random(name)
    expected, before = bits_of(operation(group)), used(group)
    for what, maps in [("allocations", True), ("copies", False), ("allocations", False)]:
        for engine in group.engines:
            monkeypatch.setattr(engine, "maps_host_memory", maps and engine.target.is_cpu)
        number, lasts = draw.randrange(2), draw.random() < 0.4
        with failing(group.engines[number], what, 10**9, lasts=False) as left:
            operation(group)
        at = draw.randrange(max(10**9 - left[0], 1))
        monkeypatch.setattr(group, "on_failure", draw.choice(("raise", "retry")))
        message = None
        with failing(group.engines[number], what, at, lasts=lasts) as left:
            try:
                assert bits_of(operation(group)) == expected
            except (DeviceMemoryError, DeviceFailedError) as error:
                message = str(error)
        if message is not None:
            assert left[0] < 0
            assert re.search(rf"device {number} \(", message), message
        assert used(group) == before
    assert bits_of(operation(group)) == expected


@pytest.mark.parametrize("name", ["sum of 16-bit products", "calls without blocks", "copies"])
def test_errors_at_each_point_name_the_device(group: DeviceGroup, name: str) -> None:
    operation = OPERATIONS[name]
    with failing(group.engines[0], "allocations", 10**9, lasts=False) as left:
        operation(group)
    messages = []
    for at in range(10**9 - left[0]):
        with failing(group.engines[0], "allocations", at, lasts=True):
            try:
                operation(group)
            except DeviceMemoryError as error:
                messages.append(str(error))
    assert messages
    assert all(re.search(r"device 0 \(", message) for message in messages), messages


RETRIED = (
    "sum of blocks", "sum of 16-bit products", "product of blocks", "factor", "factor of blocks",
    "copies", "streamed product", "streamed sum", "streamed transform",
)  # fmt: skip


@pytest.mark.parametrize("what", ["allocations", "copies"])
@pytest.mark.parametrize("name", RETRIED)
def test_one_failure_at_each_point_changes_no_bit(
    group: DeviceGroup, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    """A group that retries gives the right result wherever a device fails once."""
    operation = OPERATIONS[name]
    for engine in group.engines:
        monkeypatch.setattr(engine, "maps_host_memory", False)
    expected, before = bits_of(operation(group)), used(group)
    monkeypatch.setattr(group, "on_failure", "retry")
    for engine in group.engines:
        with failing(engine, what, 10**9, lasts=False) as left:
            operation(group)
        for at in range(10**9 - left[0]):
            with failing(engine, what, at, lasts=False):
                assert bits_of(operation(group)) == expected, at
        assert used(group) == before


@pytest.mark.parametrize("what", ["allocations", "copies"])
@pytest.mark.parametrize("name", ["factor", "solve", "streamed product", "streamed transform"])
def test_another_device_does_the_work_of_one_that_fails_for_good(
    group: DeviceGroup, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    factor = np.linalg.cholesky(DEFINITE)

    def operation(g: DeviceGroup) -> list[Any]:
        if name == "solve":
            return [pg.linalg.cho_solve((factor, True), A[:36, :2].copy(), engine=g)]
        return OPERATIONS[name](g)

    for engine in group.engines:
        monkeypatch.setattr(engine, "maps_host_memory", False)
    expected = bits_of(operation(group))
    monkeypatch.setattr(group, "on_failure", "retry")
    for engine in group.engines:
        with failing(engine, what, 10**9, lasts=True) as left:
            operation(group)
        count = 10**9 - left[0]
        for at in range(0, count, max(1, count // 6)):
            with failing(engine, what, at, lasts=True):
                assert bits_of(operation(group)) == expected, at


@pytest.fixture(scope="module")
def four(group: DeviceGroup) -> Iterator[DeviceGroup]:
    """Four devices of one kind: each of two has two engines."""
    with DeviceGroup([engine.device for engine in group.engines], on_failure="retry") as result:
        for member in result.members:
            engine = Engine(member.engine.device)
            result.members += (Member(result.size, engine, member.limit),)
        for engine in result.engines:
            engine.caller = None
        yield result


def cube() -> Any:
    """Return the Laplacian of a cube, whose factor has several parts."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(6, 6))
    return sp.csr_array(sp.kronsum(sp.kronsum(line, line), line))


@pytest.mark.parametrize("what", ["allocations", "copies"])
@pytest.mark.parametrize(
    "name", [*(each for each in OPERATIONS if each != "training"), "sparse solve"]
)
def test_one_of_four_devices_that_works_gives_the_result(
    four: DeviceGroup, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    """Three devices fail for good, from the start or later, and the fourth one has their work."""
    draw = random.Random(name)
    operation = OPERATIONS.get(name, lambda g: [sparse.spsolve(cube(), A.ravel()[:216], engine=g)])
    monkeypatch.setattr(sparse_partition, "_LEAST_LIMIT", 500.0)  # of small parts
    for engine in four.engines:
        monkeypatch.setattr(engine, "maps_host_memory", False)
    expected, before = bits_of(operation(four)), used(four)
    for number in range(4):
        others = [engine for engine in four.engines if engine is not four.engines[number]]
        # Values on a device that makes no copies are lost, so it has to fail before it has some.
        at = 0 if what == "copies" or number < 2 else draw.randrange(5)
        with ExitStack() as stack:
            for engine in others:
                stack.enter_context(failing(engine, what, at, lasts=True))
            assert bits_of(operation(four)) == expected, number
        assert used(four) == before


def test_calls_are_repeated_as_long_as_other_devices_fail(four: DeviceGroup) -> None:
    """Each device may fail once, and one of all that failed once more."""

    def fails(failures: list[int], calls: list[int]) -> int:
        calls.append(len(failures))
        if failures:
            member = four.members[failures.pop()]
            raise member.named(DeviceMemoryError("it fails on purpose"))
        return len(working(four))

    cases = [([], 1, 4), ([2], 2, 3), ([3, 0, 1], 4, 1), ([3, 0, 1, 2], 5, 4)]
    for failures, count, able in cases:
        calls: list[int] = []
        assert run_with_retry(four, partial(fails, [*failures], calls)) == able
        assert len(calls) == count
    for failures, count in [([2, 2], 2), ([0, 3, 0, 1, 2], 5), ([1, 0, 2, 1], 4)]:
        calls = []
        with pytest.raises(DeviceMemoryError, match="on purpose"):
            run_with_retry(four, partial(fails, [*failures], calls))
        assert len(calls) == count


@pytest.mark.parametrize("seed", range(4))
def test_threads_whose_group_fails_and_is_closed(four: DeviceGroup, seed: int) -> None:
    """Calls of several threads, and interrupts, while a device fails; then close() under calls.

    Each call gives the right bits, or raises the error of the device or of the closed group.
    """
    draw = random.Random(seed)
    devices = [engine.device for engine in four.engines[:2]]
    names = [name for name in OPERATIONS if name != "training"]  # it sets the seed of all threads
    with DeviceGroup(devices, on_failure=draw.choice(("raise", "retry"))) as group:
        for engine in group.engines:
            engine.caller, engine.maps_host_memory = None, False
        expected = {name: bits_of(OPERATIONS[name](group)) for name in names}
        before, wrong = used(group), list[str]()

        def calls(allowed: type[Exception], *, closes: bool = False) -> None:
            for number in range(3):
                if closes and number == 1:
                    group.close()
                name = draw.choice(names)
                try:
                    if bits_of(OPERATIONS[name](group)) != expected[name]:
                        wrong.append(name)
                except (DeviceMemoryError, DeviceFailedError, allowed) as error:
                    if allowed is ArgumentError and "closed" not in str(error):
                        wrong.append(f"{name}: {error!r}")
                except Exception as error:
                    wrong.append(f"{name}: {error!r}")

        def run_threads(meanwhile: Callable[[], Any], *allowed: Any) -> None:
            threads = [threading.Thread(target=calls, args=allowed) for _ in range(2)]
            for thread in threads:
                thread.start()
            meanwhile()
            for thread in threads:
                thread.join()

        what, at = draw.choice(("allocations", "copies")), draw.randrange(30)
        with failing(group.engines[1], what, at, lasts=seed % 2 == 0), handler(stop):
            after = draw.uniform(1e-3, 3e-2)
            run_threads(
                lambda: interrupted(lambda: calls(DeviceMemoryError), after), DeviceMemoryError
            )
        assert used(group) == before
        run_threads(lambda: calls(ArgumentError, closes=True), ArgumentError)
    assert not wrong


@pytest.mark.parametrize("name", OPERATIONS)
def test_interrupts_at_random(group: DeviceGroup, name: str) -> None:
    """An exception of a signal handler leaves no memory in use, and later calls are right."""
    operation, draw = OPERATIONS[name], random.Random(name)
    expected, before = bits_of(operation(group)), used(group)
    begin = time.perf_counter()
    operation(group)
    duration = time.perf_counter() - begin
    with handler(stop):
        for _ in range(4):
            interrupted(lambda: operation(group), draw.uniform(1e-5, duration))
    assert used(group) == before
    assert bits_of(operation(group)) == expected
