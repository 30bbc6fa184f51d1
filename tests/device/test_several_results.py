"""Operations with several results: fresh ones, the caller's, repeated calls, plans and reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, ArgumentTypeError, OverlapError, ShapeError
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import make_plan
from portable_gpu.ops.operation import CallArguments, Invocation, Operation, Result
from portable_gpu.runtime.broadcast import spread
from portable_gpu.runtime.call import Call, Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps
from portable_gpu.runtime.report import ReportSpec
from portable_gpu.runtime.views import View

FLOAT, LONG = np.dtype(np.float32), np.dtype(np.int64)


def step(engine: Engine, text: str, views: Sequence[View], places: tuple[int, ...]) -> Step:
    """A step that computes an expression of operand 0, x, and of what else it reads, y."""
    *inputs, result = [views[place] for place in places]
    problem = ElementwiseProblem(
        text, ("x",), tuple(element(view.dtype) for view in inputs), ("y",) if "y" in text else (),
        (), element(FLOAT), element(result.dtype), result.shape,
        tuple(spread(view, result.shape) for view in (*inputs, result)), 1,
    )  # fmt: skip
    return Step(engine.plan(problem, lambda: make_plan(engine, problem)), places)


def check(values: np.ndarray[Any, Any]) -> None:
    if (values < 0).any():
        raise ValueError(f"element {int(np.argmin(values))} is negative")


def normalise(arguments: CallArguments) -> Invocation:
    """Twice x; its sum with the caller's second array, in place; x + 1; a report of x."""
    (x,), (is_reported,) = arguments.inputs, arguments.options

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        values = View(views[0].buffer, 0, x.shape, (1,), LONG)
        views, texts = [*views, values], ["x * 2", "x + y", "x + 1", "x"]
        count = len(texts) if is_reported else len(texts) - 1
        return Steps([step(engine, texts[k], views, (0, k + 1)) for k in range(count)])

    return Invocation(
        inputs=(x,),
        names=("x",),
        shape=x.shape,
        dtype=FLOAT,
        plan=plan,
        out=arguments.out,
        out_name="out (doubled)",
        more=(Result(x.shape, FLOAT, "total", True), Result(x.shape, FLOAT, "out (next)")),
        report=ReportSpec(x.shape, LONG, check) if is_reported else None,
    )


OPERATION = Operation("several", normalise)


def several(x: Any, out: Any, engine: Any, is_reported: bool = False) -> Any:
    return OPERATION.call((x,), (is_reported,), out, (), engine)


def placed(engine: Engine, where: str) -> Callable[[Any], Any]:
    return (
        (lambda x: x)
        if where == "numpy"
        else (lambda x: pg.Array.of(cla.to_device(engine.queue, x)))
    )


def is_repeated(engine: Engine, where: str) -> bool:
    """Whether calls on such arrays are remembered: not if arrays of the host are copied."""
    return where == "device" or engine.maps_host_memory


@pytest.mark.parametrize("where", ["numpy", "device"])
def test_several_results(engine: Engine, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated calls write the caller's arrays or fresh ones, and never return old memory."""
    place = placed(engine, where)
    first_calls = []
    plain = Call.__init__
    monkeypatch.setattr(Call, "__init__", lambda *a, **k: first_calls.append(a) or plain(*a, **k))
    retained = []
    for turn in range(4):
        x = np.arange(9, dtype=np.float32) + turn
        for outs in ("total", "all"):
            total = place(np.full(9, 10, np.float32))
            doubled = None if outs == "total" else place(np.zeros(9, np.float32))
            following = None if outs == "total" else place(np.zeros(9, np.float32))
            out = doubled, total, following
            results = several(place(x), out, engine)
            assert [a is b for a, b in zip(results, out, strict=True)] == [
                array is not None for array in out
            ]
            retained.append((results, (2 * x, x + 10, x + 1)))
        assert len(first_calls) == (0 if turn and is_repeated(engine, where) else 2)
        first_calls.clear()
    for results, expected in retained:
        for got, want in zip(results, expected, strict=True):
            np.testing.assert_array_equal(pg.asnumpy(got), want)


@pytest.mark.parametrize("where", ["numpy", "device"])
def test_wrong_results(engine: Engine, where: str) -> None:
    """Misfits are refused by name; overlaps also in repeated calls; reports are read."""
    place = placed(engine, where)
    x = place(np.arange(9, dtype=np.float32))
    memory = place(np.zeros(18, np.float32))
    several(x, (memory[:9], memory[9:], None), engine)
    for out, error, words in (
        ((memory[:9], memory[8:17], None), OverlapError, r"total shares memory with out \(doubled"),
        ((None, x, None), OverlapError, "total shares memory with x"),
        ((memory[:9], memory[9:]), ArgumentError, "out is 2 arrays; expected a tuple of 3"),
        (memory[:9], ArgumentTypeError, "expected a tuple of 3, arrays or None"),
        ((None, None, memory[:8]), ShapeError, r"out \(next\) has shape"),
    ):
        with pytest.raises(error, match=words):
            several(x, out, engine)
    bad = np.arange(9, dtype=np.float32)
    bad[4] = -5
    total = place(np.zeros(9, np.float32))
    for _ in range(2):
        with pytest.raises(ValueError, match="element 4 is negative"):
            pg.asnumpy(several(place(bad), (None, total, None), engine, True)[2])
    if where == "device":
        late = several(place(bad), None, engine, True)[0]
        for _ in range(2):  # the reports of inputs reach all arrays that a repeated call writes
            outs = place(bad), place(bad), None
            for array in several(late, outs, engine):
                assert len(array.reports) == 1
                with pytest.raises(ValueError, match="element 4 is negative"):
                    array.get()
    planning = Planning(engine, None)
    several(x, (None, total, None), planning)
    assert (planning.repetition is not None) == is_repeated(engine, where)
