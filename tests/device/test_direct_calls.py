"""Repeated calls on C-ordered arrays of NumPy: results, refusals, threads and exceptions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.runtime import registry
from portable_gpu.runtime.host_arrays import new_host_array
from portable_gpu.runtime.queue_state import QueueState

#: Calls of one to three arrays; with results of axes and of none; with several launches.
CALLS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, y: pg.sum(x),
    "sum of rows": lambda x, y: pg.sum(x, axis=1),
    "dot": lambda x, y: pg.dot(x[0], y[0]),
    "product": lambda x, y: pg.matmul(x, y),
    "expression": lambda x, y: pg.elementwise("a + 2 * b", a=x, b=y),
    "factor": lambda x, y: pg.linalg.cholesky(x),
    "three arrays": lambda x, y: nn.layer_norm(x, 24, y[0], y[1]),
}


@pytest.fixture
def arrays() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((24, 24)).astype(np.float32)
    return x @ x.T + 24 * np.eye(24, dtype=np.float32), rng.random((24, 24), np.float32)


@pytest.fixture(autouse=True)
def skip_elsewhere() -> None:
    if not registry.default_engine().takes_host_pointers:
        pytest.skip("the device takes no host addresses")


@pytest.mark.parametrize("name", CALLS)
def test_same_bits_as_the_first_call(name: str, arrays: tuple[Any, Any]) -> None:
    call = CALLS[name]
    first = call(*arrays)
    home = registry.default_engine().state()
    assert home.direct
    repeated, other = call(*arrays), call(*(array.copy() for array in arrays))
    for result in (repeated, other):
        assert type(result) is type(first)
        np.testing.assert_array_equal(result, first)
    assert isinstance(first, np.generic) or not np.shares_memory(first, repeated)


def test_arrays_of_other_kinds_take_the_general_way(arrays: tuple[Any, Any]) -> None:
    x, y = arrays
    expected = pg.sum(x, axis=1)
    read_only = x.copy()
    read_only.flags.writeable = False
    memory = np.zeros(x.nbytes + 1, np.uint8)
    misaligned = memory[1:].view(np.float32).reshape(x.shape)
    misaligned[...] = x
    strided = np.zeros((48, 24), np.float32)[::2]
    strided[...] = x
    for like_it in (read_only, misaligned, strided, np.asfortranarray(x)):
        for _ in range(2):
            np.testing.assert_allclose(pg.sum(like_it, axis=1), expected, rtol=1e-6)
    out = np.empty(24, np.float32)
    assert pg.sum(x, axis=1, out=out) is out
    np.testing.assert_array_equal(out, expected)
    # A symmetric product of one memory is another call than that of two arrays.
    for _ in range(2):
        product = pg.matmul(y, y.T)
        np.testing.assert_array_equal(product, product.T)
        np.testing.assert_allclose(pg.matmul(y, x), y @ x, rtol=1e-4)


def test_errors_of_values_come_at_each_call(arrays: tuple[Any, Any]) -> None:
    x, _ = arrays
    pg.linalg.cholesky(x)
    for _ in range(3):
        with pytest.raises(pg.errors.NotPositiveDefiniteError):
            pg.linalg.cholesky(-x)
        pg.linalg.cholesky(x)


def test_threads(arrays: tuple[Any, Any]) -> None:
    expected = {name: call(*arrays) for name, call in CALLS.items()}

    def work(turn: int) -> bool:
        names = list(CALLS)
        return all(
            np.array_equal(CALLS[name](*arrays), expected[name])
            for k in range(100)
            for name in [names[(turn + k) % len(names)]]
        )

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(8)))


@pytest.mark.parametrize("error", [KeyboardInterrupt, TypeError])
def test_memory_stays_until_the_kernel_has_ended(
    arrays: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """An exception in the wait leaves nothing behind, and the queue is finished first."""
    x, y = arrays
    home = registry.default_engine().state()
    home.forget_calls()  # of other tests, which multiply other arrays
    expected = pg.matmul(x, y)
    state = next(known.state for known in home.known.values() if hasattr(known, "state"))
    finished: list[int] = []
    finish = QueueState.finish

    def recorded(self: QueueState) -> None:
        finished.append(len(self.in_flight))
        finish(self)

    monkeypatch.setattr(QueueState, "finish", recorded)
    run = next(run for key, run in home.direct.items() if key[0] == "matmul")
    cell = next(
        cell
        for cell in run.__closure__ or ()
        if getattr(cell.cell_contents, "__name__", "") == "enqueue_nd_range_kernel"
    )
    enqueue = cell.cell_contents
    cell.cell_contents = lambda *_: (_ for _ in ()).throw(error)
    try:
        with pytest.raises(error):
            pg.matmul(x, y)
    finally:
        cell.cell_contents = enqueue
    assert finished == [1]
    assert not state.in_flight
    np.testing.assert_array_equal(pg.matmul(x, y), expected)


# -- exceptions of the memory of arrays, and those of signal handlers in their place


def closed_over(function: Callable[..., Any], name: str) -> Any:
    """The cell of a function's free variable."""
    names = function.__code__.co_freevars
    return (function.__closure__ or ())[names.index(name)]


def remembered(name: str, arrays: tuple[Any, Any]) -> tuple[Any, Any, list[Callable[[], Any]]]:
    """The repeated call as a function of its arrays, the general one, and what runs each."""
    home = registry.default_engine().state()
    home.forget_calls()
    CALLS[name](*arrays)
    (key, direct), (general,) = *home.direct.items(), tuple(home.known.values())
    inputs = arrays[: len(key[2:]) // 2]
    return direct, general, [lambda: direct(*inputs), lambda: general.run(home, inputs)]


@pytest.mark.parametrize("name", ["sum of rows", "product", "factor"])
def test_results_without_memory(
    name: str, arrays: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's error becomes this library's; a signal handler's own stays as it is."""
    direct, general, calls = remembered(name, arrays)
    shape, empty = closed_over(direct, "shape"), closed_over(direct, "empty")

    def of_a_handler(*_: Any) -> Any:
        raise MemoryError("of a handler")

    monkeypatch.setattr(shape, "cell_contents", (1 << 59,))
    monkeypatch.setattr(general, "_shape", (1 << 59,))
    for call in calls:
        with pytest.raises(pg.errors.DeviceMemoryError, match="no memory for a result of shape"):
            call()
    monkeypatch.undo()
    monkeypatch.setattr(empty, "cell_contents", of_a_handler)
    monkeypatch.setattr(np, "empty", of_a_handler)
    for call in calls:
        with pytest.raises(MemoryError, match="of a handler") as caught:
            call()
        assert not isinstance(caught.value, pg.errors.DeviceMemoryError)
    monkeypatch.undo()
    for call in calls:
        assert call() is not None


@pytest.mark.parametrize("name", ["sum", "sum of rows", "product", "factor"])
@pytest.mark.parametrize("kind", [ValueError, FutureWarning])
def test_a_handler_in_the_search_of_an_address(
    name: str, kind: type[Exception], arrays: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exception is not that of read-only memory, for which the call takes another way."""
    direct, _, calls = remembered(name, arrays)

    def of_a_handler(*_: Any) -> Any:
        raise kind("of a handler")

    monkeypatch.setattr(closed_over(direct, "svm"), "cell_contents", of_a_handler)
    monkeypatch.setattr(cl, "SVM", of_a_handler)
    for call in calls:
        with pytest.raises(kind, match="of a handler"):
            call()
    monkeypatch.undo()
    for call in calls:
        assert call() is not None


def test_a_handler_in_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_a_handler(*_: Any) -> Any:
        raise ValueError("of a handler")

    monkeypatch.setattr(np, "empty", of_a_handler)
    with pytest.raises(ValueError, match="of a handler") as caught:
        new_host_array((2,), np.dtype("f"))
    assert not isinstance(caught.value, pg.errors.DeviceMemoryError)
    monkeypatch.undo()
    with pytest.raises(pg.errors.DeviceMemoryError, match="shape"):
        new_host_array((1 << 62,), np.dtype("b"))
