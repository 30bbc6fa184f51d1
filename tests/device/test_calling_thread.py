"""Small problems in NumPy arrays, where an engine runs them on the calling thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.ops.conv import variants as conv_variants
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.runtime import registry
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target


@pytest.fixture
def both(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine with worker threads and the calling thread, and the default for this test."""
    with_caller = Engine(engine.device)
    if with_caller.caller is None:
        pytest.skip(f"{engine.device.platform.name} has no device that runs on the calling thread")
    monkeypatch.setattr(registry, "_default", with_caller)
    return with_caller


def states(both: Engine) -> set[Engine]:
    """The engines whose calls are remembered."""
    return {known.state.engine for known in both.state().known.values()}


def test_results_first_and_repeated(both: Engine) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.integers(-100, 100, (30, 40)).astype(np.float64)
        v = rng.integers(-9, 9, 40).astype(np.float64)
        assert pg.sum(x) == x.sum()
        np.testing.assert_array_equal(pg.max(x, axis=0), x.max(axis=0))
        np.testing.assert_array_equal(pg.max(np.asfortranarray(x), axis=1), x.max(axis=1))
        np.testing.assert_array_equal(pg.gemv(x, v, alpha=2), 2 * x @ v)
        np.testing.assert_array_equal(pg.matmul(x, x.T), x @ x.T)
        np.testing.assert_array_equal(pg.matmul(x[::2, ::3], v[::3]), x[::2, ::3] @ v[::3])
        np.testing.assert_allclose(pg.var(x, axis=1), x.var(axis=1), rtol=1e-14)
    assert states(both) == {both.caller}


def test_more_work_goes_to_the_workers(both: Engine) -> None:
    np.testing.assert_array_equal(pg.matmul(np.ones((700, 700)), np.ones((700, 700))), 700)
    assert states(both) == {both}


def test_plans_are_forgotten_by_who_remembers_their_calls(
    both: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, their tables would stay."""
    monkeypatch.setattr("portable_gpu.runtime.engine._MAX_PLANS", 2)
    for n in range(1, 6):
        assert pg.sum(np.ones(n)) == n
        assert len(both.state().known) <= 2


def test_a_queue_or_events_keep_the_call_where_they_are(both: Engine) -> None:
    x = np.arange(10.0)
    for place in ({"queue": both.queue}, {"queue": both.queue, "engine": both}):
        assert pg.sum(x, **place) == 45
    assert not states(both)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x.astype(x.dtype.newbyteorder()),
        lambda x: np.frombuffer(b"." + x.tobytes(), x.dtype, offset=1),
        lambda x: np.repeat(x, 2)[::2],
        lambda x: x[:0],
        lambda x: x.view(np.recarray),
    ],
    ids=["byte order", "odd address", "strided", "empty", "subclass"],
)
def test_uncommon_arrays_repeat_as_they_began(both: Engine, spoil: object) -> None:
    for start in range(3):
        x = spoil(np.arange(start, start + 50, dtype=np.float32))  # type: ignore[operator]
        assert pg.sum(x) == np.sum(x)


def test_an_array_at_an_odd_address_after_one_at_an_even_one(both: Engine) -> None:
    x = np.arange(50, dtype=np.float32)
    odd = np.frombuffer(b"." + x.tobytes(), x.dtype, offset=1)
    assert pg.sum(x) == pg.sum(x) == pg.sum(odd) == pg.sum(odd) == 1225


def test_read_only_inputs(both: Engine) -> None:
    x = np.arange(50, dtype=np.float32)
    x.flags.writeable = False
    assert pg.sum(x) == pg.sum(x) == 1225


def test_from_many_threads(both: Engine) -> None:
    arrays = [np.arange(n, n + 100, dtype=np.float64) for n in range(8)]

    def work(x: np.ndarray) -> bool:
        return all(
            pg.sum(x) == x.sum() and pg.nrm2(np.stack([x, x]), axis=0)[0] == np.sqrt(2 * x[0] ** 2)
            for _ in range(300)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, arrays))


def test_only_when_asked_for(engine: Engine) -> None:
    assert Engine(engine.device, caller=False).caller is None


@pytest.mark.parametrize(
    ("x", "w", "options", "alone"),
    [
        ((25, 120, 6, 11), (2, 60, 3, 7), {"stride": 2, "groups": 2}, False),
        ((3, 120, 6, 11), (2, 60, 3, 7), {"stride": 2, "groups": 2, "padding": (1, 3)}, False),
        ((1, 16, 28, 28), (42, 16, 3, 3), {"padding": 1}, True),
    ],
    ids=["2 Mflop in slow sums", "120 us in one launch", "70 us in four launches"],
)
def test_convolutions_are_placed_by_their_estimate(
    both: Engine, x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], alone: bool
) -> None:
    image, weight = np.ones(x, np.float32), np.ones(w, np.float32)
    for algo in ("auto", "direct"):
        pg.nn.conv2d(image, weight, **options, algo=algo)
    assert states(both) == {both.caller if alone else both}


@pytest.mark.parametrize(
    ("x", "w", "here"),
    [((1, 3, 9, 10), (5, 3, 3, 2), True), ((2, 60, 64, 70), (90, 60, 3, 3), False)],
    ids=["on the calling thread", "on the workers"],
)
def test_a_convolution_lists_its_variants_once(
    both: Engine, monkeypatch: pytest.MonkeyPatch, x: Shape, w: Shape, here: bool
) -> None:
    """The plan takes the list of the estimate, or a bound says where the call runs."""
    listed: list[Target] = []
    make = conv_variants.variants

    def counted(problem: ConvProblem, target: Target, *others: Any) -> Any:
        listed.append(target)
        return make(problem, target, *others)

    monkeypatch.setattr(conv_variants, "variants", counted)
    pg.nn.conv2d(np.ones(x, np.float32), np.ones(w, np.float32))
    engine = both.caller if here else both
    assert engine is not None
    assert states(both) == {engine}
    assert listed == [engine.target]


def test_small_convolutions_of_device_arrays_take_the_variant_of_one_thread(
    both: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated call runs on the calling thread, for which another variant may be the fastest."""
    bound: list[str] = []
    bind = conv_variants.bind_best

    def recorded(engine: Engine, every: Any) -> Any:
        bound.extend(variant.name for variant in every)
        return bind(engine, every)

    monkeypatch.setattr(conv_variants, "bind_best", recorded)
    x, w = (
        pg.asarray(np.ones(shape, np.float32), engine=both)
        for shape in ((2, 8, 8, 8), (8, 8, 1, 1))
    )
    y = pg.nn.conv2d(x, w)
    assert len(bound) == 1
    np.testing.assert_array_equal(y.get(), np.full((2, 8, 8, 8), 8, np.float32))
    bound.clear()
    pg.nn.conv2d(np.ones((8, 64, 28, 28), np.float32), np.ones((64, 64, 3, 3), np.float32))
    assert len(bound) > 1  # all variants of work for several threads
