"""A second thread that takes a part of launches on the calling thread."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.runtime import partner as partner_module
from portable_gpu.runtime import registry
from portable_gpu.runtime.engine import Engine


def stack(x: np.ndarray) -> np.ndarray:
    """Twelve matrices of 40 x 600."""
    return x[:480].reshape(12, 40, 600)


CALLS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sum": pg.sum,
    "sum along columns": lambda x: pg.sum(x, axis=0),
    "max along rows": lambda x: pg.max(x, axis=1),
    "std": lambda x: pg.std(x, axis=0),
    "gemv": lambda x: pg.gemv(x, x[0]),
    "gemv transposed": lambda x: pg.gemv(x.T, x[:, 0]),
    "elementwise": lambda x: pg.elementwise("2 * x + 1", x=x),
    "gemm": lambda x: pg.matmul(x[:200], x[:200].T),
    "batch": lambda x: pg.matmul(stack(x), stack(x).transpose(0, 2, 1)),
}  # fmt: skip


@pytest.fixture
def pair(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine of a pair, of the default engine for this test, with the second thread awake."""
    own = Engine(engine.device)
    if own.pair is None:
        pytest.skip("no second thread: PoCL on two processors has one")
    monkeypatch.setattr(registry, "_default", own)
    wake(numbers())
    return own.pair


def numbers() -> np.ndarray:
    """Integers, so that sums are exact; a few hundred microseconds of work for a thread."""
    return np.random.default_rng(5).integers(-9, 9, (900, 600)).astype(np.float64)


def wake(x: np.ndarray) -> None:
    """Call until the second thread has begun, which compiles first."""
    partner = registry.default_engine().pair.partner  # type: ignore[union-attr]
    end = time.monotonic() + 60
    while not partner._is_ready and time.monotonic() < end:
        pg.sum(x)
        time.sleep(0.01)
    assert partner._is_ready


def cuts(pair: Engine) -> list[int]:
    """Of the launches of remembered calls, at which group they were cut last."""
    calls = registry.default_engine().state().known.values()
    assert {call.state.engine for call in calls} == {pair}
    idle = [kernels for call in calls for kernels in call._idle]
    return [bound.share._cut for kernels in idle for bound, _ in kernels.launches if bound.share]


def test_middle_sizes_are_shared(pair: Engine) -> None:
    x = numbers()
    for _ in range(4):
        assert pg.sum(x) == x.sum()
    assert any(cuts(pair))


@pytest.mark.parametrize("name", CALLS)
def test_bits_do_not_depend_on_who_works(
    pair: Engine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = numbers() / 7
    first = CALLS[name](x)  # the caller's alone, for nothing is known of the launch
    for pause in (0, 0, 0, 0.01, 0, 0.01):  # after which the partner sleeps, and may come too late
        np.testing.assert_array_equal(CALLS[name](x), first)
        time.sleep(pause)
    monkeypatch.setattr(pair.partner, "_is_ready", False)
    np.testing.assert_array_equal(CALLS[name](x), first)


def test_results_are_numpys(pair: Engine) -> None:
    for seed in range(3):
        x = numbers() + seed
        for _ in range(3):
            assert pg.sum(x) == x.sum()
            np.testing.assert_array_equal(pg.sum(x, axis=0), x.sum(axis=0))
            np.testing.assert_array_equal(pg.gemv(x, x[0]), x @ x[0])
            np.testing.assert_array_equal(pg.matmul(x[:200], x[:200].T), x[:200] @ x[:200].T)
            np.testing.assert_array_equal(pg.elementwise("2 * x", x=x), 2 * x)


def test_from_many_threads(pair: Engine) -> None:
    arrays = [numbers() + n for n in range(4)]

    def work(x: np.ndarray) -> bool:
        along, all_of_it = x.sum(axis=0), x.sum()
        return all(pg.sum(x) == all_of_it and (pg.sum(x, axis=0) == along).all() for _ in range(40))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, arrays))


def test_a_thread_that_keeps_the_interpreter_busy(pair: Engine) -> None:
    x, done = numbers(), threading.Event()

    def busy() -> None:
        while not done.is_set():
            sum(range(1000))

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(20):
            assert pg.sum(x) == x.sum()
    finally:
        done.set()
        thread.join()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
@pytest.mark.parametrize("handlers", ["raise", "call"])
def test_signals_at_any_moment(pair: Engine, handlers: str) -> None:
    x, rng = numbers(), np.random.default_rng(1)
    total, along = x.sum(), x.sum(axis=0)
    raised = wrong = 0
    for _ in range(3):  # so that nothing is left to compile
        pg.sum(x), pg.sum(x, axis=0)

    def handle(_: int, __: FrameType | None) -> None:
        nonlocal wrong
        if handlers == "raise":
            raise KeyboardInterrupt
        wrong += pg.sum(x) != total

    before = signal.signal(signal.SIGALRM, handle)
    try:
        for _ in range(150):
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(20e-6, 600e-6))
            try:
                wrong += pg.sum(x) != total
                wrong += (pg.sum(x, axis=0) != along).any()
            except KeyboardInterrupt:
                raised += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:  # between the two lines above
        raised += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not wrong
    assert raised or handlers == "call"
    for _ in range(3):
        assert pg.sum(x) == total
        np.testing.assert_array_equal(pg.sum(x, axis=0), along)


ENDING = """
import time
import numpy as np
import portable_gpu as pg
x = np.ones((900, 600))
for pause in 30 * [0.01] + 30 * [0]:
    assert pg.sum(x) == 540000
    time.sleep(pause)
"""


def test_the_process_ends_while_the_second_thread_is_awake(pair: Engine) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("fails", [1, 2], ids=["the caller's", "either"])
def test_pieces_that_fail_are_enqueued_again(
    pair: Engine, fails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = numbers()
    for _ in range(3):
        assert pg.sum(x) == x.sum()
    real, left = partner_module.enqueue_without_event, [fails]

    def enqueue(*arguments: object) -> int:
        if left[0] and len(arguments) == 9 and arguments[0] in queues:
            left[0] -= 1
            return -6  # CL_OUT_OF_HOST_MEMORY
        return real(*arguments)

    state = pair.state()
    queues = (state.pointer, state.partners_pointer)
    monkeypatch.setattr(partner_module, "enqueue_without_event", enqueue)
    assert pg.sum(x) == x.sum()
    assert pg.sum(x) == x.sum()
    assert not left[0]
