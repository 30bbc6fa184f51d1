"""More than 2^31 elements: index arithmetic, and memory beyond the device's largest buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.runtime.engine import Engine

pytestmark = [pytest.mark.large, pytest.mark.divided("large arrays")]
N = (1 << 31) + (1 << 20) + 13
#: The elements that are not 1.
OTHERS = {5: -100, 1 << 30: 100, (1 << 31) - 1: -128, 1 << 31: 127, N - 1: 99}


@pytest.fixture(scope="module")
def ones() -> Any:
    """2 GiB of int8, all 1 except a few: 2.1 GB of host memory, which kernels read in place."""
    x = np.ones(N, np.int8)
    x[list(OTHERS)] = list(OTHERS.values())
    return x


def total(*part: int | None) -> int:
    """The sum of a slice of the ones; NumPy takes seconds for it."""
    places = range(N)[slice(*part)]
    return len(places) + sum(value - 1 for place, value in OTHERS.items() if place in places)


def in_place(engine: Engine) -> Engine:
    if not engine.maps_host_memory:
        pytest.skip("this device has memory of its own")
    if engine.target.facts.max_alloc_size < N and not engine.takes_host_pointers:
        pytest.skip("neither a buffer of this size nor host pointers")
    return engine


def test_sum_of_numpy_memory(optimised: Engine, ones: Any) -> None:
    assert pg.sum(ones, engine=in_place(optimised)) == total(N)
    assert pg.sum(ones[:: -(1 << 10)], engine=optimised) == total(None, None, -(1 << 10))
    assert pg.count_nonzero(ones, engine=optimised) == N


def test_places_past_2_to_the_31(optimised: Engine, ones: Any) -> None:
    assert pg.argmin(ones, engine=in_place(optimised)) == (1 << 31) - 1
    assert pg.argmax(ones, engine=optimised) == 1 << 31
    assert pg.max(ones[:-20], engine=optimised) == 127


def test_axes_of_large_arrays(optimised: Engine, ones: Any) -> None:
    x = ones[: N - N % 3].reshape(3, -1)
    columns = x.shape[1]
    expected = [total(row * columns, (row + 1) * columns) for row in range(3)]
    np.testing.assert_array_equal(pg.sum(x, axis=1, engine=in_place(optimised)), expected)
    tall = ones[: N - N % 5].reshape(-1, 5)
    got = pg.sum(tall, axis=0, engine=optimised)
    assert list(got) == [total(column, N - N % 5, 5) for column in range(5)]
    shorter = pg.sum(ones[1::2], engine=optimised)  # a stride of two
    assert shorter == total(1, None, 2)


def broadcast(engine: Engine, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    memory = cla.to_device(engine.queue, (np.arange(1 << 20) % 3).astype(np.int8))
    return cla.Array(engine.queue, shape, np.int8, data=memory.base_data, strides=strides)


def test_device_arrays_that_repeat_their_memory(optimised: Engine) -> None:
    """Counts past 2^31 with no memory to match: zero strides."""
    row = int(np.sum(np.arange(1 << 20) % 3))
    rows = (1 << 11) + 3
    x = broadcast(optimised, (rows, 1 << 20), (0, 1))
    assert pg.sum(x, engine=optimised).get() == rows * row
    assert pg.argmax(x, engine=optimised).get() == 2
    assert pg.count_nonzero(x, engine=optimised).get() == rows * np.count_nonzero(
        np.arange(1 << 20) % 3
    )
    np.testing.assert_array_equal(pg.sum(x, axis=1, engine=optimised).get(), np.full(rows, row))
    transposed = broadcast(optimised, (1 << 20, rows), (1, 0))
    assert pg.sum(transposed, engine=optimised).get() == rows * row


def test_largest_device_array(optimised: Engine) -> None:
    """A device array as large as the device gives."""
    n = min(N, optimised.target.facts.max_alloc_size) // 128 * 128
    memory = optimised.allocate(n)
    cl.enqueue_fill_buffer(optimised.queue, memory, np.ones(128, np.int8), 0, n)
    x = cla.Array(optimised.queue, (n,), np.int8, data=memory)
    assert pg.sum(x, engine=optimised).get() == n
