"""Norms of windows, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import finite
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.factors import plain_number
from portable_gpu.ops.floats import statistics_dtype
from portable_gpu.ops.operation import check_one_context
from portable_gpu.ops.sampling.call import check_result, floating, spatial
from portable_gpu.ops.sampling.pooling_calls import (
    WINDOW_POWERS,
    WINDOW_SUMS,
    WINDOW_SUMS_BACKWARD,
    window_of,
    window_rules,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import AnyArray, as_array

#: The p whose powers are products.
_PRODUCTS = range(1, 9)


class LpPooling:
    """The public functions of norms along a number of spatial axes, as methods."""

    def __init__(self, axes: int) -> None:
        """Take the number of spatial axes."""
        self._axes = axes

    def lp_pool(
        self,
        input: AnyArray,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        ceil_mode: bool = False,
        *,
        padding: int | Sequence[Any] = 0,
        dilation: int | Sequence[int] = 1,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the p-norm of each window: ``(sum |x|^p)^(1/p)``.

        Args:
            input: As in :func:`avg_pool2d`.
            norm_type: p, above 0.
            kernel_size, stride, ceil_mode: As in :func:`max_pool2d`.
            padding, dilation: As in :func:`max_pool2d`; padded places are 0.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns:
            ``out``, or a fresh array of the dtype of ``input``.

        Raises: As :func:`avg_pool2d`; a p that is not above 0 and finite is an ArgumentError.

        Cost: one launch for p = 2; two and a temporary array for other whole p up to 8 with 32 and
            64 bits: sums of powers, roots; else three, and two temporary arrays.
        Accuracy: a few ulp of the powers, which are products for whole p up to 8, and of the root;
            16-bit floats are computed in float32, and rounded once.
            torch takes x to the power p instead of ``|x|``, which differs for odd p.
        """
        p = _norm_type(norm_type)
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        x = floating(spatial(as_array(input, "input"), "input", self._axes), "input")
        window_rules(x.shape, self._axes, window)
        options = self._axes, window
        if p == 2:
            return WINDOW_POWERS[2].call((x,), options, out, engine, queue, wait_for)
        check_one_context({"input": x, "out": out}, engine, queue)
        place: dict[str, Any] = {"engine": engine, "queue": queue}
        wide = statistics_dtype(x.dtype)  # neither exponents nor powers are rounded to 16 bits
        if p in WINDOW_POWERS and wide == x.dtype:
            sums = WINDOW_POWERS[int(p)].call((x,), options, None, engine, queue, wait_for)
            return elementwise(_root(int(p)), x=sums, out=out, **place)
        if p in _PRODUCTS:
            power, root = _product("abs(x)", int(p)), _root(int(p))
            exponents: list[dict[str, Any]] = [{}, {}]
        else:
            power, root = "pow(abs(x), p)", "pow(x, q)"
            exponents = [{"p": wide.type(p)}, {"q": wide.type(1 / p)}]
        powers = elementwise(power, x=x, dtype=wide, wait_for=wait_for, **exponents[0], **place)
        sums = WINDOW_SUMS.call((powers,), options, None, engine, queue, None)
        return elementwise(root, x=sums, out=out, dtype=x.dtype, **exponents[1], **place)

    def lp_pool_backward(
        self,
        grad_output: AnyArray,
        input: AnyArray,
        output: AnyArray,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        ceil_mode: bool = False,
        *,
        padding: int | Sequence[Any] = 0,
        dilation: int | Sequence[int] = 1,
        out: AnyArray | None = None,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Return the gradient of :func:`lp_pool2d` with respect to its input; 0 where a norm is 0.

        Args:
            grad_output: The gradient of the result.
            input, output: The input and the result of the forward call.
            norm_type, kernel_size, stride, ceil_mode, padding, dilation: As in the forward call.
            out, engine, queue, wait_for: As in :func:`max_pool2d`.

        Returns, Raises, Accuracy: As :func:`lp_pool2d`.

        Cost: three launches, and two temporary arrays.
        """
        p = _norm_type(norm_type)
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        named = (grad_output, "grad_output"), (input, "input"), (output, "output")
        g, x, y = (floating(spatial(as_array(a, n), n, self._axes), n) for a, n in named)
        rules = window_rules(x.shape, self._axes, window)
        check_result(g, "grad_output", rules, x.shape)
        check_result(y, "output", rules, x.shape)
        arrays = {"grad_output": g, "input": x, "output": y, "out": out}
        check_one_context(arrays, engine, queue)
        place: dict[str, Any] = {"engine": engine, "queue": queue, "wait_for": wait_for}
        by_norm, by_input = "g * pow(y, q)", "s * copysign(pow(fabs(x), r), x)"
        wide = statistics_dtype(x.dtype)
        exponents: list[dict[str, Any]] = [{"q": wide.type(1 - p)}, {"r": wide.type(p - 1)}]
        if p in _PRODUCTS:
            by_norm = f"g / ({_product('y', int(p) - 1)})"
            by_input = f"s * copysign({_product('abs(x)', int(p) - 1)}, x)"
            exponents = [{}, {}]
        scaled = elementwise(
            f"y == 0 ? 0 : {by_norm}", g=g, y=y, dtype=wide, **exponents[0], **place
        )
        options = self._axes, tuple(x.shape), window
        sums = WINDOW_SUMS_BACKWARD.call((scaled,), options, None, engine, queue, None)
        return elementwise(
            f"x == 0 ? 0 : {by_input}", s=sums, x=x, out=out, dtype=x.dtype, **exponents[1], **place
        )


def _product(base: str, count: int) -> str:
    """Return the text of a power as a product, or of 1."""
    return " * ".join([base] * count) or "1"


def _root(p: int) -> str:
    """Return the text of the root of x: exp2(log2(x) / p), and one step of Newton's method.

    Zeros, infinities and NaN are their own roots.
    """
    if p == 1:
        return "x"
    near = f"exp2(log2(x) / {p})"
    return f"x > 0 && x - x == 0 ? {near} - ({near} - x / ({_product(near, p - 1)})) / {p} : x"


def _norm_type(value: Any) -> float:
    number = finite(plain_number(value, "norm_type"), "norm_type")
    if number <= 0:
        raise ArgumentError(f"norm_type is {number}; expected a finite number above 0")
    return number


_AXES = LpPooling(1), LpPooling(2), LpPooling(3)
lp_pool1d, lp_pool2d, lp_pool3d = [functions.lp_pool for functions in _AXES]
lp_pool1d_backward, lp_pool2d_backward, lp_pool3d_backward = [
    functions.lp_pool_backward for functions in _AXES
]
