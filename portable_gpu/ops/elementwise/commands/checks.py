"""Checks of elementwise expressions, and what is timed: sums of two arrays, which are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check, Expected
from portable_gpu.checking.edges import VIEWS, Guarded, around, levels
from portable_gpu.checking.inputs import Input, View
from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.elementwise import api
from portable_gpu.ops.elementwise.commands import activations
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

_SUM = "x + y"


def variants(case: Case, variant: str, _alone: bool) -> Iterator[Case]:
    """A sum of two arrays, or the activation function of a name.

    Raises:
        ArgumentError: There is no such function.
    """
    if variant and variant not in activations.NAMES:
        known = ", ".join(activations.NAMES)
        raise ArgumentError(f"{case.operation} has no variant {variant!r}; there are {known}")
    yield replace(case, trans=variant)


def shapes(case: Case) -> tuple[Shape, ...]:
    """The shapes of the arrays that are read."""
    return (case.extents,) * (activations.inputs_of(case.trans) if case.trans else 2)


def call(case: Case, _on_host: bool) -> PublicCall:
    """A sum of two arrays, or an activation function."""
    if case.trans:
        return PublicCall(f"nn.{case.trans}")
    return PublicCall("elementwise", leading=(_SUM,), names=("x", "y"))


def warmed(x: Any, y: Any, engine: Engine) -> Any:
    """A sum of two arrays, and a function of them."""
    api.elementwise(_SUM, x=x, y=y, engine=engine)
    return api.elementwise("exp(x - y)", x=x, y=y, dtype=x.dtype, engine=engine)


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the expected values, by ``add`` or by PyTorch."""
    if case.trans:
        return activations.like_torch(case, arrays, library)
    return partial(library.add, *arrays)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """NumPy's own sum: each element is rounded once."""
    if case.trans:
        return activations.oracle(case, inputs)
    expected = inputs[0] + inputs[1]
    return lambda found: 0.0 if np.array_equal(found, expected) else np.inf


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Sums in every real dtype; an expression with a row, a column and a number in float32."""
    for dtype in dtypes:
        if dtype.kind not in "bc":
            yield _check(dtype, (1001,), "device" if dtype.itemsize == 4 else "numpy")
    for view in VIEWS:
        yield _check(np.dtype(np.float32), (130, 257), view)
    yield _broadcast(130, 257)


def edge_checks(
    tile: tuple[int, int, int], dtype: np.dtype[Any], _cases: Sequence[Case]
) -> Iterator[Check]:
    """Sums of matrices of all layouts."""
    rows, cols = around(tile[0], 97), around(tile[1], 1009)
    for m, n, view in levels(3):
        yield _check(dtype, (rows[m], cols[n]), VIEWS[view])


def _check(dtype: np.dtype[Any], shape: tuple[int, ...], view: View) -> Check:
    x, y = Input(dtype, shape, view), Input(dtype, shape, view, seed=1)

    def run(engine: Engine) -> Any:
        result = Guarded(engine, shape, dtype, view == "device")
        api.elementwise(_SUM, x=x.array(engine), y=y.array(engine), out=result.array, engine=engine)
        return result.checked()

    def expected() -> Expected:
        with np.errstate(over="ignore"):
            return Expected(x.host() + y.host(), None, dtype)

    return Check("elementwise", f"{x}, x + y", run, expected)


def _broadcast(m: int, n: int) -> Check:
    single = np.dtype(np.float32)
    x, row, column = Input(single, (m, n)), Input(single, (n,)), Input(single, (m, 1))

    def run(engine: Engine) -> Any:
        return api.elementwise(
            "x > row ? column : x * scale", x=x.array(engine), row=row.array(engine),
            column=column.array(engine), scale=0.5, engine=engine,
        )  # fmt: skip

    def expected() -> Expected:
        a, b, c = (item.host() for item in (x, row, column))
        return Expected(np.where(a > b, c, a * single.type(0.5)), None, single)

    return Check("elementwise", f"{x}, with a row, a column and a number", run, expected)
