"""Plans of every operation: the function's results, and refusal of what they were not made for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    NotPositiveDefiniteError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)
from portable_gpu.ops import planned
from portable_gpu.ops.registry import OPERATIONS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch

RNG = np.random.default_rng(0)


def values(*shape: int) -> Any:
    return RNG.integers(-4, 5, shape).astype(np.float32)


def placed(engine: Engine, where: str) -> Callable[[Any], Any]:
    return (lambda x: x) if where == "numpy" else (lambda x: cla.to_device(engine.queue, x))


def read(x: Any) -> Any:
    return pg.asnumpy(x)


LARGEST = pg.BinaryOp("largest", "0", "a > b ? a : b")
#: For each operation its arrays' shapes, its options, and NumPy's same call.
CALLS: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any], Callable[..., Any]]] = {
    **{
        name: (((7, 33),), {"axis": 1}, lambda x, f=name: getattr(np, f)(x, axis=1))
        for name in ("sum", "prod", "mean", "min", "max", "argmin", "argmax", "any", "all")
    },
    "std": (((7, 33),), {"ddof": 1}, lambda x: np.std(x.astype(float), ddof=1)),
    "var": (((7, 33),), {"axis": 0}, lambda x: np.var(x.astype(float), axis=0)),
    "count_nonzero": (((7, 33),), {}, np.count_nonzero),
    "asum": (((7, 33),), {"axis": 0}, lambda x: np.abs(x).sum(axis=0)),
    "nrm2": (((7, 33),), {"axis": 0}, lambda x: np.linalg.norm(x, axis=0)),
    "dot": (((33,), (33,)), {}, np.dot),
    "vdot": (((7, 33), (7, 33)), {}, np.vdot),
    "reduce": (((7, 33),), {"op": LARGEST, "map": "fabs(x)"}, lambda x: np.abs(x).max()),
    "gemv": (((7, 33), (33,)), {"alpha": 2}, lambda a, x: 2 * a @ x),
    "gemm": (((7, 33), (20, 33)), {"trans_b": "T"}, lambda a, b: a @ b.T),
    "matmul": (((3, 7, 33), (33, 5)), {}, np.matmul),
    "elementwise": (((7, 33), (33,)), {"expression": "x * s - y", "s": 3}, lambda x, y: 3 * x - y),
    "fft": (((7, 33),), {"axis": 0}, lambda x: np.fft.fft(x, axis=0)),
    "rfft": (((7, 33),), {"n": 40}, lambda x: np.fft.rfft(x, n=40)),
    "softmax": (((7, 33),), {"dim": 0}, lambda x: np.exp(x) / np.exp(x).sum(axis=0)),
    "dropout": (((7, 33),), {"p": 0.0, "seed": 1}, lambda x: x),
    "pad": (((7, 33),), {"pad": (1, 2)}, lambda x: np.pad(x, ((0, 0), (1, 2)))),
    "layer_norm": (
        ((7, 33),),
        {"normalized_shape": 33, "eps": 0.5},
        lambda x: (x - x.mean(1)[:, None]) / np.sqrt(x.var(axis=1)[:, None] + 0.5),
    ),
    "cross_entropy": (
        ((7, 33), (7, 33)),
        {"reduction": "sum"},
        lambda x, p: (p * (np.log(np.exp(x).sum(axis=1, keepdims=True)) - x)).sum(),
    ),
    "log_softmax": (((7, 33),), {}, lambda x: x - np.log(np.exp(x).sum(axis=1, keepdims=True))),
}
#: Those that have an output of the caller's, and what they call it.
OUTPUTS = dict.fromkeys(CALLS, "out") | {"gemv": "y", "gemm": "c"}
for _name in ("count_nonzero", "asum", "nrm2", "vdot", "fft", "rfft"):
    del OUTPUTS[_name]


def test_every_operation_is_here() -> None:
    of_nn = {name for name in OPERATIONS if name in pg.nn.__all__}
    assert CALLS.keys() - of_nn | {"cholesky", "solve_triangular"} == OPERATIONS.keys() - of_nn


@pytest.mark.parametrize("where", ["numpy", "device"])
def test_plans_of_factors(engine: Engine, where: str) -> None:
    """A plan reads no report before it ran, and the right one then."""
    place = placed(engine, where)
    rows = values(3, 9, 9)
    a = rows @ rows.transpose(0, 2, 1) + 9 * np.eye(9, dtype=np.float32)
    bad = a.copy()
    bad[1, 4, 4] = -1
    factor = pg.plan("cholesky", place(bad), lower=True, engine=engine)
    solve = pg.plan("solve_triangular", place(a), place(rows), lower=True, engine=engine)
    for _ in range(3):
        np.testing.assert_allclose(read(factor(place(a))), np.linalg.cholesky(a), rtol=1e-4)
        with pytest.raises(NotPositiveDefiniteError) as raised:
            read(factor(place(bad)))
        assert (raised.value.index, raised.value.column) == ((1,), 4)
        expected = np.linalg.solve(np.tril(a), rows)
        got = read(solve(place(a), place(rows)))
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def make(name: str, arrays: Any, **more: Any) -> Any:
    options = {**CALLS[name][1], **more}
    if name == "elementwise":
        x, y = arrays
        return pg.plan(name, options.pop("expression"), x=x, y=y, **options)
    return pg.plan(name, *arrays, **options)


@pytest.mark.parametrize("where", ["numpy", "device"])
@pytest.mark.parametrize("name", CALLS)
def test_as_the_function(
    engine: Engine, name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes, _, numpys = CALLS[name]
    place, launched, plain = placed(engine, where), [], Launch.__call__
    data = [[values(*shape) for shape in shapes] for _ in range(3)]
    tolerance = {"rtol": 3e-6} if name in ("std", "var", "nrm2", "mean", "prod") else {"rtol": 0}
    inexact = pg.nn.softmax, pg.nn.log_softmax, pg.nn.layer_norm, pg.nn.cross_entropy
    if OPERATIONS[name].function in (pg.fft.fft, pg.fft.rfft, *inexact):
        tolerance = {"rtol": 1e-5, "atol": 1e-4}
    with monkeypatch.context() as planted:
        planted.setattr(Launch, "__call__", lambda *_: launched.append(_) or plain(*_))
        plan = make(name, [place(x) for x in data[0]], engine=engine)
    assert not launched
    for arrays in data:
        got = plan(*(place(x) for x in arrays))
        np.testing.assert_allclose(read(got), numpys(*arrays), **tolerance)
    if name not in OUTPUTS:
        return
    out = place(np.full_like(read(got), 77))
    into = make(name, [place(x) for x in data[0]], engine=engine, **{OUTPUTS[name]: out})
    np.testing.assert_array_equal(read(out), np.full_like(read(got), 77))
    for arrays in data:
        assert into(*(place(x) for x in arrays), out) is out
        np.testing.assert_allclose(read(out), numpys(*arrays), **tolerance)


@pytest.mark.parametrize("where", ["numpy", "device"])
def test_calls_take_the_short_way(
    engine: Engine, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of the functions is called again."""
    if where == "numpy" and not (engine.target.is_cpu and engine.maps_host_memory):
        pytest.skip("NumPy arrays are copied to the device at each call")
    place = placed(engine, where)
    bias = place(values(5))
    plans = []
    for name, (shapes, _, _) in CALLS.items():
        arrays = [place(values(*shape)) for shape in shapes]
        plans.append((make(name, arrays, engine=engine), arrays))
    vector, matrix = place(values(33)), place(values(33, 5))
    for arrays in ([vector, matrix], [place(values(7, 33)), vector]):
        plans.append((pg.plan("matmul", *arrays, engine=engine), arrays))
    epilogue = pg.Epilogue().bias(bias)
    arrays = [place(values(7, 33)), matrix]
    plans.append((pg.plan("matmul", *arrays, epilogue=epilogue, engine=engine), arrays))
    x, y = place(values(33)), place(values(33))
    update = pg.plan("elementwise", "x - y * s", x=x, y=y, s=2.0, out=x, engine=engine)
    plans.append((update, [y, x]))
    weighed = pg.plan("reduce", x, LARGEST, "x * w", w=y, engine=engine)
    plans.append((weighed, [x, y]))
    want = [read(plan(*arrays)).copy() for plan, arrays in plans[:-2]]

    def refused(*_: Any) -> None:
        raise AssertionError("the function is called")

    monkeypatch.setattr(planned.PlannedCall, "_call", refused)
    for (plan, arrays), result in zip(plans, want, strict=False):
        np.testing.assert_array_equal(read(plan(*arrays)), result)
    before = read(x).copy()
    assert update(y, x) is x
    np.testing.assert_array_equal(read(x), before - 2 * read(y))
    assert read(weighed(x, y)) == max(0, (read(x) * read(y)).max())


def test_other_arrays_are_refused(engine: Engine) -> None:
    x, y = values(8, 9), np.zeros(8, np.float32)
    sums, into = pg.plan("sum", x, axis=1), pg.plan("sum", x, axis=1, out=y)
    for wrong in (
        lambda: sums(x[:4]),
        lambda: sums(x.astype(np.float64)),
        lambda: sums(np.asfortranarray(x)),
        lambda: sums(x, y),
        lambda: sums(),
        lambda: sums(cla.to_device(engine.queue, x)),
        lambda: into(x),
        lambda: into(x, y[:4]),
    ):
        with pytest.raises(ArgumentError, match="the plan is for"):
            wrong()
    with pytest.raises(ArgumentTypeError, match="x is a list; the plan is for"):
        sums(x.tolist())
    other = cl.CommandQueue(engine.context)
    on_device = pg.plan("sum", cla.to_device(engine.queue, x), axis=1)
    with pytest.raises(ArgumentError, match=r"x is .* on another queue; the plan is for a device"):
        on_device(cla.to_device(other, x))
    with pytest.raises(ArgumentError, match=r"out is a NumPy array .*\[4\].* is for .*\[8\]"):
        into(x, y[:4])
    with pytest.raises(ArgumentError, match="2 arrays are given; the plan is for x"):
        sums(x, y)
    y.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        into(x, y)
    assert not y.any()


@pytest.mark.parametrize("where", ["numpy", "device"])
def test_overlap_is_looked_for_at_each_call(engine: Engine, where: str) -> None:
    place = placed(engine, where)
    a, b, c = place(values(6, 6)), place(values(6, 6)), place(values(6, 6))
    products = pg.plan("matmul", a, b, out=c, engine=engine)
    for _ in range(2):
        products(a, b, c)
        with pytest.raises(OverlapError):
            products(a, c, c)


def test_what_a_plan_is_refused(engine: Engine) -> None:
    x = values(5, 7)
    for wrong, message in (
        (lambda: pg.plan("no such", x), r"no operation 'no such'; there are: .*all, any"),
        (lambda: pg.plan("sum"), "a plan of sum: missing a required argument: 'x'"),
        (lambda: pg.plan("sum", x, colour=1), "a plan of sum: got an unexpected.*colour"),
        (lambda: pg.plan("sum", x, wait_for=None), "wait_for is for calls"),
    ):
        with pytest.raises(ArgumentError, match=message):
            wrong()
    with pytest.raises(ShapeError):
        pg.plan("matmul", x, x)
    with pytest.raises(DTypeError):
        pg.plan("gemv", x > 0, x[0] > 0)
    with pytest.raises(ArgumentTypeError, match="engine"):
        pg.plan("sum", x, engine="no engine")


def test_public_functions_and_methods_as_objects() -> None:
    """Every public function with a place and events is an operation, bound methods too."""
    found = []
    for module in (pg, pg.fft, pg.linalg, pg.nn, pg.signal, pg.sparse):
        for name in module.__all__:
            function = getattr(module, name)
            if isinstance(function, type) or not callable(function):
                continue
            parameters = signature(function).parameters
            if {"engine", "queue", "wait_for"} <= set(parameters):
                with pytest.raises(ArgumentError, match=r"a plan of .*: missing a required arg"):
                    pg.plan(function)
                found.append(name)
    assert {"sum", "rfft", "cho_solve", "conv2d", "max_pool2d", "dropout2d"} <= {*found}
    assert len(found) > 150
    with pytest.raises(ArgumentTypeError, match="no operation of type"):
        pg.plan([].append)  # type: ignore[arg-type]


def test_methods_return_what_they_do_alone(engine: Engine) -> None:
    x, w = values(2, 4, 6, 6), values(4, 4, 3, 3)
    for place in (placed(engine, "numpy"), placed(engine, "device")):
        images, filters = place(x), place(w)
        plan = pg.plan(pg.nn.conv2d, images, filters, padding=1)
        expected = read(pg.nn.conv2d(images, filters, padding=1))
        for _ in range(2):
            np.testing.assert_array_equal(read(plan(images, filters)), expected)
        pooled = pg.plan(pg.nn.max_pool2d, images, 2)
        windows = x.reshape(2, 4, 3, 2, 3, 2)
        np.testing.assert_array_equal(read(pooled(images)), windows.max((3, 5)))
        with pytest.raises(ArgumentError, match="times variants"):
            pg.plan(pg.nn.find_conv2d, images, filters)


def test_a_plan_waits_for_its_arrays(engine: Engine) -> None:
    x = cla.zeros(engine.queue, 6, np.float32)
    plan = pg.plan("sum", x, engine=engine)
    other = cl.CommandQueue(engine.context, engine.device)
    for _ in range(2):
        gate = cl.UserEvent(engine.context)
        ones = np.ones(6, np.float32)
        written = cl.enqueue_copy(other, x.base_data, ones, wait_for=[gate], is_blocking=False)
        x.events.append(written)
        other.flush()
        result = plan(x)
        gate.set_status(cl.command_execution_status.COMPLETE)
        assert result.get() == 6


def test_arrays_that_lie_otherwise(engine: Engine) -> None:
    """Another alignment is no other kind: such a call looks up its own way."""
    memory = cla.to_device(engine.queue, values(100))
    plan = pg.plan("max", memory[:40], engine=engine)
    for start in (0, 4, 1, 3, 16, 60):
        assert plan(memory[start : start + 40]).get() == memory.get()[start : start + 40].max()


def test_a_queue_of_the_callers(engine: Engine) -> None:
    queue = cl.CommandQueue(engine.context)
    x = values(5, 7)
    for array in (x, cla.to_device(queue, x)):
        plan = pg.plan("sum", array, axis=0, queue=queue)
        for _ in range(3):
            np.testing.assert_array_equal(read(plan(array)), x.sum(axis=0))


def test_arrays_of_both_kinds(engine: Engine) -> None:
    x, y = values(5, 7), values(7, 4)
    for a, b in ((x, cla.to_device(engine.queue, y)), (cla.to_device(engine.queue, x), y)):
        plan = pg.plan("matmul", a, b, engine=engine)
        for _ in range(2):
            np.testing.assert_array_equal(plan(a, b).get(), x @ y)


def test_empty_arrays(engine: Engine) -> None:
    empty = np.empty((0, 20), np.float32)
    assert pg.plan("sum", empty, axis=1)(empty).shape == (0,)
    assert pg.plan("gemv", empty, empty.sum(axis=0))(empty, empty.sum(axis=0)).shape == (0,)
    assert pg.plan("sum", empty)(empty) == 0


def test_arrays_are_not_kept(engine: Engine) -> None:
    x, out = (pg.asarray(values(9, 9), engine=engine) for _ in range(2))
    gone = weakref.ref(x), weakref.ref(out)
    plan = pg.plan("matmul", x, x, out=out)
    plan(x, x, out)
    del x, out
    gc.collect()
    assert gone[0]() is gone[1]() is None


def test_numbers_stay_as_they_are_given(engine: Engine) -> None:
    """NumPy's too, and arrays of no axes by their value; an input may be called anything."""
    x = np.arange(8, dtype=np.float32)
    for number in (2, 2.5, np.float32(3), np.array(4, np.float32)):
        plan = pg.plan("elementwise", "x * s", x=x, s=number, engine=engine)
        for _ in range(2):
            np.testing.assert_array_equal(plan(x), x * np.float32(number))
    plan = pg.plan("elementwise", "2 * expression", expression=x, engine=engine)
    np.testing.assert_array_equal(plan(x), 2 * x)
