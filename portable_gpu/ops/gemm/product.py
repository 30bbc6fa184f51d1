"""A product whose arguments are checked, and how it is bound to a queue and a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import shown
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import Element, is_float16_like
from portable_gpu.errors import DTypeError
from portable_gpu.ops.gemm.binding import bind, compute_element
from portable_gpu.ops.gemm.candidates import make_plan
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.repeat import Bound
from portable_gpu.runtime.views import Shape, View, as_array, check_no_overlap

#: What a CPU could do in the time that it takes to begin with another product of a stack.
_FLOP_OF_A_BEGINNING = 3000


@dataclass(frozen=True)
class Product:
    """What is multiplied, checked as far as that needs no device.

    Attributes:
        triangle: Of the result, that is computed; see :class:`GemmProblem`.
        same: Whether ``a`` and ``b`` begin at the same element of the same memory.
    """

    a: Any
    b: Any
    out: Any
    out_name: str
    shape: Shape
    dtype: np.dtype[Any]
    trans_a: str
    trans_b: str
    alpha: Any
    beta: Any
    epilogue: Epilogue
    precision: str | None = None
    triangle: str = ""
    same: bool = False

    @property
    def fills(self) -> str:
        """What a fresh result holds in the triangle that is not computed."""
        return "zeros" if self.triangle and self.out is None else ""

    @property
    def flop(self) -> int:
        """Operations."""
        inner = self.a.shape[-1 if self.trans_a == "N" else -2]
        elem = compute_element(self.a.dtype, self.b.dtype)
        flop = 2 * math.prod(self.shape) * int(inner) * elem.components**2
        return flop // 2 if self.triangle else flop


def bind_product(
    p: Product,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Bound:
    """Find the queue, make views of the arrays, and find or build the plan."""
    arrays = [as_array(x, "an array of the epilogue") for x in p.epilogue.arrays]
    if p.out is not None:
        inputs = [(p.a, "a"), (p.b, "b"), *((x, "epilogue") for x in arrays)]
        check_no_overlap(p.out, p.out_name, inputs)
    products = math.prod(p.shape[:-2])
    flop = p.flop + _FLOP_OF_A_BEGINNING * products
    call = Call((p.a, p.b, p.out, *arrays), engine, queue, wait_for, flop=flop)
    if p.out is None:
        call.engine.check_allocation(math.prod(p.shape) * p.dtype.itemsize)
    va, vb = call.input(p.a, "a"), call.input(p.b, "b")
    extras = [call.input(x, "epilogue") for x in arrays]
    vc = call.output(p.shape, p.dtype, p.out, p.out_name, read=p.beta != 0 or bool(p.triangle))
    views = (va, vb, *extras, vc)
    precision = p.precision or call.engine.precision
    key = (
        "gemm", precision, p.trans_a, p.trans_b, p.alpha == 0, p.beta == 0, p.epilogue.stages,
        p.triangle, p.fills, p.same, *((v.dtype, v.shape, v.strides, v.alignment) for v in views),
    )  # fmt: skip
    plan = None
    if vc.size:
        plan = call.engine.plan(key, lambda: _plan(call.engine, p, views, precision))
    return Bound(call, views, plan, (p.alpha, p.beta), p.out)


def _plan(engine: Engine, p: Product, views: tuple[View, ...], precision: str) -> Plan:
    """The plan of a product of views, whose C has elements."""
    a, b, *extras, c = views
    problem = bind(
        engine.target, a, b, c, trans_a=p.trans_a, trans_b=p.trans_b, stages=p.epilogue.stages,
        extras=extras, multiplies=p.alpha != 0, reads_c=p.beta != 0, triangle=p.triangle,
    )  # fmt: skip
    aligned = not engine.maps_host_memory
    problem = replace(problem, precision=precision, aligned=aligned, fills=p.fills)
    return make_plan(engine, replace(problem, symmetric=p.same and is_symmetric(problem)))


def is_symmetric(problem: GemmProblem) -> bool:
    """Whether a product of one memory by itself has to be symmetric: B is A's transpose.

    What is done to elements afterwards might tell a row from a column, so nothing is.
    """
    a, b = problem.a, problem.b
    ways = (a.row, a.col, a.batch, a.conj) == (b.col, b.row, b.batch, b.conj)
    plain = not problem.reads_c and not problem.epilogue and not problem.triangle
    return ways and plain and a.elem == b.elem and problem.m == problem.n and problem.k > 0


def out_dtype(dtype: np.dtype[Any], out: Any) -> np.dtype[Any]:
    """The result's dtype: of 16-bit floats, float32 if ``out`` is so."""
    wide = is_float16_like(dtype) and getattr(out, "dtype", None) == np.float32
    return np.dtype(np.float32) if wide else dtype


def factor(value: Any, name: str, compute: Element) -> Any:
    """``alpha`` or ``beta`` as a number of the product's kind."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.bool_):
        value = bool(value)
    if not isinstance(value, Number):
        raise DTypeError(f"{name} is a {type(value).__name__}; a number is needed")
    try:
        number = complex(value) + 0  # type: ignore[call-overload]  # -0.0 becomes 0.0
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"{name} is {shown(value)}: {error}") from None
    if compute.complex:
        return number
    if number.imag:
        raise DTypeError(f"{name} is {value}, and the product is real")
    return number.real
