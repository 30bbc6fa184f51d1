"""A product whose arguments are checked, and its call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import is_float16_like
from portable_gpu.ops.gemm.binding import bind, compute_element
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import make_plan
from portable_gpu.ops.operation import Invocation, complete
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import Shape, View, as_array

#: Operations that a CPU could do in the time that it takes to begin another product of a stack.
_FLOP_OF_A_BEGINNING = 3000


@dataclass(frozen=True)
class Product:
    """The operands of a product, checked as far as that needs no device.

    Attributes:
        triangle: The triangle of the result to compute; see :class:`GemmProblem`.
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
        """The values of a new result in the triangle that is not computed."""
        return "zeros" if self.triangle and self.out is None else ""

    @property
    def flop(self) -> int:
        """Operations."""
        inner = self.a.shape[-1 if self.trans_a == "N" else -2]
        elem = compute_element(self.a.dtype, self.b.dtype)
        flop = 2 * math.prod(self.shape) * int(inner) * elem.components**2
        return flop // 2 if self.triangle else flop


def invocation(p: Product) -> Invocation:
    """Return the call of a product."""
    extras = tuple([as_array(x, "an array of the epilogue") for x in p.epilogue.arrays])

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        precision = p.precision or engine.precision
        key = (
            "gemm", precision, p.trans_a, p.trans_b, p.alpha == 0, p.beta == 0, p.epilogue.stages,
            p.triangle, p.fills, p.same,
            *((v.dtype, v.shape, v.strides, v.alignment) for v in views),
        )  # fmt: skip
        return engine.plan(key, lambda: _plan(engine, p, views, precision))

    return Invocation(
        inputs=(p.a, p.b, *extras),
        names=("a", "b", *["epilogue"] * len(extras)),
        shape=p.shape,
        dtype=p.dtype,
        plan=plan,
        flop=p.flop + _FLOP_OF_A_BEGINNING * math.prod(p.shape[:-2]),
        scalars=(p.alpha, p.beta),
        out=p.out,
        out_name=p.out_name,
        reads_out=p.beta != 0 or bool(p.triangle),
    )


def multiply(
    p: Product,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    """Compute a product once; the call is not remembered."""
    return complete(invocation(p), None, (), engine, queue, wait_for)


def _plan(engine: Engine, p: Product, views: Sequence[View], precision: str) -> Plan:
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
    """Whether a product is symmetric: B is A's transpose in the same memory.

    No operation on the elements follows, because it may distinguish rows from columns.
    """
    a, b = problem.a, problem.b
    ways = (a.row, a.col, a.batch, a.conj) == (b.col, b.row, b.batch, b.conj)
    plain = not problem.reads_c and not problem.epilogue and not problem.triangle
    return ways and plain and a.elem == b.elem and problem.m == problem.n and problem.k > 0


def out_dtype(dtype: np.dtype[Any], out: Any) -> np.dtype[Any]:
    """The result's dtype; for 16-bit floats it is float32 if ``out`` has this dtype."""
    wide = is_float16_like(dtype) and getattr(out, "dtype", None) == np.float32
    return np.dtype(np.float32) if wide else dtype
