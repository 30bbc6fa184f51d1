"""Plans of functions that make several calls."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portable_gpu as pg
from portable_gpu.errors import ArgumentError, NotPositiveDefiniteError
from portable_gpu.ops import composed
from portable_gpu.runtime.engine import Engine

RNG = np.random.default_rng(3)
N = 12


def definite() -> Any:
    a = RNG.standard_normal((N, N)).astype(np.float32)
    return a @ a.T + N * np.eye(N, dtype=np.float32)


def vector(n: int = N) -> Any:
    return RNG.standard_normal(n).astype(np.float32)


def on_device(*arrays: Any) -> list[Any]:
    return [pg.asarray(array) for array in arrays]


#: The function, and what makes its arrays.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any], Callable[[], list[Any]]]] = {
    "solve": (pg.linalg.solve, {"assume_a": "pos"}, lambda: [definite(), vector()]),
    "refined": (
        pg.linalg.solve,
        {"assume_a": "pos", "refine": 1},
        lambda: [definite().astype(float), vector().astype(float)],
    ),
    "lstsq": (
        pg.linalg.lstsq,
        {},
        lambda: [vector(3 * N * N).reshape(3 * N, N), vector(3 * N)],
    ),
    "logdet": (pg.linalg.logdet, {}, lambda: [definite()]),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_result_of_the_function(engine: Engine, name: str) -> None:
    """Other arrays, offsets and results; no result shares memory with another one."""
    if name == "refined" and not engine.target.fp64:
        pytest.skip("the device has no double precision")
    function, options, make = CALLS[name]
    plan = pg.plan(function, *on_device(*make()), **options)
    assert isinstance(plan._repetition, composed.ComposedCall)
    expected, results = [], []
    for _ in range(3):
        values = make()
        arrays = on_device(*(np.stack([x, x])[None] for x in values))
        arrays = [x[0, 1] for x in arrays]
        expected.append(function(*arrays, **options).get())
        results.append(plan(*arrays))
        results.append(plan(*on_device(*values)))
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result.get(), expected[number // 2])


def test_outputs_and_arrays_in_tuples(engine: Engine) -> None:
    a, v = definite(), vector()
    matrix, b, out, untouched = on_device(a, v, v, v)
    plan = pg.plan(pg.linalg.solve, matrix, b, assume_a="pos", out=out)
    np.testing.assert_array_equal(out.get(), untouched.get())  # a plan writes nothing
    expected = pg.linalg.solve(matrix, b, assume_a="pos").get()
    for _ in range(3):
        assert plan(matrix, b, out) is out
        np.testing.assert_array_equal(out.get(), expected)
    factor = pg.linalg.cho_factor(matrix)
    solved = pg.plan(pg.linalg.cho_solve, factor, b)
    expected = pg.linalg.cho_solve(factor, b).get()
    for _ in range(2):
        np.testing.assert_array_equal(solved(b).get(), expected)


def test_errors_of_values_come_late(engine: Engine) -> None:
    a, v = definite(), vector()
    good, bad, b, out = on_device(a, -a, v, v)
    plan = pg.plan(pg.linalg.solve, good, b, assume_a="pos")
    into = pg.plan(pg.linalg.solve, good, b, assume_a="pos", out=out)
    expected = plan(good, b).get()
    for _ in range(2):
        late = plan(bad, b)
        used = plan(good, late)
        for array in (late, used, late + 1):
            with pytest.raises(NotPositiveDefiniteError):
                array.get()
        np.testing.assert_array_equal(plan(good, b).get(), expected)
    with pytest.raises(NotPositiveDefiniteError):
        into(bad, b, out).get()


def test_calls_that_cannot_be_planned(engine: Engine) -> None:
    a, v = definite(), vector()
    matrix, b = on_device(a, v)
    for function, arrays, options in (
        (pg.linalg.solve, (matrix, b), {"assume_a": "pos", "check": "now"}),
        (pg.linalg.lstsq, (matrix, b), {"check": "now"}),
    ):
        with pytest.raises(ArgumentError, match="in the middle of its work it reads values"):
            pg.plan(function, *arrays, **options)
    with pytest.raises(ArgumentError, match=r"a is a NumPy array .* takes arrays on the device"):
        pg.plan(pg.linalg.lstsq, a, v)
    with pytest.raises(ArgumentError, match="b is a NumPy array"):
        pg.plan(pg.linalg.lstsq, matrix, v)
    if engine.target.fp64:
        double = on_device(a.astype(float), v.astype(float))
        with pytest.raises(ArgumentError, match="refine='auto'"):
            pg.plan(pg.linalg.solve, *double, assume_a="pos", refine="auto")


def test_order_with_other_work(engine: Engine) -> None:
    """A call of a plan waits for the events of its arrays, as the function does."""
    a, v = definite(), vector()
    matrix, b = on_device(a, v)
    plan = pg.plan(pg.linalg.solve, matrix, b, assume_a="pos")
    expected = plan(matrix, b * 2).get()
    other, gate = cl.CommandQueue(b.context), cl.UserEvent(b.context)
    twice = 2 * v
    try:
        copy = cl.enqueue_copy(other, b.base_data, twice, wait_for=[gate], is_blocking=False)
        other.flush()
        b.add_event(copy)
        result = plan(matrix, b)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    np.testing.assert_array_equal(result.get(), expected)


def test_threads(engine: Engine) -> None:
    matrix, b = on_device(definite(), vector())
    plan = pg.plan(pg.linalg.solve, matrix, b, assume_a="pos")
    cases = [(on_device(definite(), vector())) for _ in range(4)]
    expected = [pg.linalg.solve(*case, assume_a="pos").get() for case in cases]

    def work(k: int) -> None:
        for _ in range(20):
            np.testing.assert_array_equal(plan(*cases[k]).get(), expected[k])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_lifetimes(engine: Engine) -> None:
    """A plan holds no array of the call that it was made of, and its memory goes with it."""
    other_engine = Engine(engine.device)
    with other_engine:
        matrix, b = (pg.asarray(x, engine=other_engine) for x in (definite(), vector()))
        plan = pg.plan(pg.linalg.solve, matrix, b, assume_a="pos", engine=other_engine)
        for _ in range(3):
            result = plan(matrix, b)
        values = result.get()
        gone = [weakref.ref(matrix), weakref.ref(b), weakref.ref(plan)]
        del matrix, b
        gc.collect()
        assert [ref() is None for ref in gone] == [True, True, False]
        del plan
        gc.collect()
        assert gone[2]() is None
        np.testing.assert_array_equal(result.get(), values)
        state = other_engine.state()
        del result
        gc.collect()
        assert not state._pool.active_blocks
    plan = pg.plan(pg.linalg.lstsq, *(x := on_device(definite(), vector())))
    assert plan(*x).shape == (N,)


def test_a_closed_engine(engine: Engine) -> None:
    other_engine = Engine(engine.device)
    matrix, b = (pg.asarray(x, engine=other_engine) for x in (definite(), vector()))
    plan = pg.plan(pg.linalg.solve, matrix, b, assume_a="pos", engine=other_engine)
    other_engine.close()
    with pytest.raises(ArgumentError, match="closed"):
        plan(matrix, b)


def test_arrays_of_any_name_are_operands(engine: Engine) -> None:
    x, y = on_device(vector(), vector())
    plan = pg.plan(pg.nn.relu, x)
    np.testing.assert_array_equal(plan(y).get(), np.maximum(y.get(), 0))
