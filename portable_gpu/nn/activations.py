"""Activation functions and their gradients, each as one elementwise expression.

All of them read each input once and write the result once, in one launch.  Exponentials are taken
of ``-|x|`` only, so that nothing overflows.  Elements are computed in float32 if they are stored in
16 bits.  What the functions share is described at :func:`relu` and :func:`relu_backward`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, one_of, real_number
from portable_gpu.errors import ArgumentError
from portable_gpu.nn.operands import computed, gradient
from portable_gpu.ops.floats import floating
from portable_gpu.runtime.engine import Engine
from portable_gpu.typing import of_one, of_two

_FORMS = ("none", "tanh")
#: x within bounds where a sigmoid is 0 or 1 in float64; its product with the lower bound is 0.
_FAR = "clip(x, -1000, 1000)"
#: x within bounds where the normal distribution is 0 or 1 in float64.
_NEAR = "clip(x, -100, 100)"
#: The exponent 2 u of the tanh form, whose tanh(u) is 2 sigmoid(2 u) - 1, divided by x.
_SLOPE = "(1.5957691216057307117 + 0.07135481627260024877 * c * c)"
_D_SLOPE = "(1.5957691216057307117 + 0.21406444881780074632 * c * c)"
#: Mills' ratio of the normal distribution, (1 - Phi(a)) / Phi'(a), divided by sqrt(2 pi), is
#: P(q) / (a + 4) with q = (a - 4) / (a + 4), |q| <= 1 (the variable of Shepherd and Laframboise,
#: 1981).  P from its highest power on was fitted to relative errors below 2^-24 for a <= 15, where
#: float32's results are not 0.
_MILLS = (
    -0.00013419751, 0.00017465712, 0.0015684082, -0.0035102095, -0.0075240037,
    0.060403489, -0.18652366, 0.38713691, -0.60789657, 0.75528514,
)  # fmt: skip


@of_one
def relu(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``max(x, 0)`` of each element; NaN stays NaN.

    Args:
        input: An array of any shape and strides, of float16, bfloat16, float32 or float64.
        out: The array for the result, with the shape and dtype of ``input``; it may be ``input``
            itself, which is then updated in place (torch's ``inplace=True``).
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array of the shape, dtype and order of axes of ``input``: a NumPy array
        (finished) for NumPy arrays, a device array (enqueued) for device arrays.

    Raises:
        DTypeError: ``input`` has no real floating dtype; ``out`` has another dtype.
        ShapeError: ``out`` has another shape.
        OverlapError: ``out`` shares memory with ``input`` and is not ``input`` itself.
        ReadOnlyError: ``out`` cannot be written.
        ArgumentTypeError, ArgumentError: An option is not a number, or not a finite one.
        UnsupportedError: The call needs double precision, which the device lacks.

    Cost: each element read once and written once, in one launch; a call with another value of an
        option builds no program.
    Accuracy: a few ulp of the type computed in (docs/nn.md), then one rounding to the dtype.
    Order: the same bits for one target, policy, shape and alignment.
    """
    return computed("x < 0 ? 0 : x", input, {}, out, engine, queue, wait_for)


@of_two
def relu_backward(
    grad_output: Any,
    output: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`relu`: ``grad_output`` where the output is not 0, else 0.

    Args:
        grad_output: The gradient of the output; an array as ``input``.
        output: The result of :func:`relu`, or its input: an array of the same shape.  Functions
            with an argument ``input`` need the input itself.
        out: See :func:`relu`; it may be ``grad_output`` or ``output`` itself.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns, Raises, Cost: As :func:`relu`; a gradient of another shape is a ShapeError.
    """
    expression = "x <= 0 ? 0 : g"
    return gradient(expression, grad_output, output, {}, out, engine, queue, wait_for, "output")


@of_one
def leaky_relu(
    input: Any,
    negative_slope: float = 0.01,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``x`` where ``x > 0``, else ``negative_slope * x``.

    Arguments, result, errors, cost: see :func:`relu`.
    """
    expression, options = "x > 0 ? x : x * negative_slope", {"negative_slope": negative_slope}
    return computed(expression, input, options, out, engine, queue, wait_for)


@of_two
def leaky_relu_backward(
    grad_output: Any,
    input: Any,
    negative_slope: float = 0.01,
    self_is_result: bool = False,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`leaky_relu`.

    Args:
        grad_output: The gradient of the output.
        input: The input of :func:`leaky_relu`, or its result if ``self_is_result`` is true.
        negative_slope: As in :func:`leaky_relu`; not negative if ``self_is_result`` is true,
            because the sign of the result would not be that of the input.
        self_is_result: Whether ``input`` is the result, as after a call in place.
        out, engine, queue, wait_for: See :func:`relu_backward`.

    Returns, Raises, Cost: As :func:`relu_backward`; ArgumentError for such a negative slope.
    """
    slope = real_number(negative_slope, "negative_slope")
    if flag(self_is_result, "self_is_result") and slope < 0:
        raise ArgumentError(
            f"negative_slope is {slope} and self_is_result is true; expected at least 0, or the "
            "input in place of the result"
        )
    expression, options = "x > 0 ? g : g * negative_slope", {"negative_slope": slope}
    return gradient(expression, grad_output, input, options, out, engine, queue, wait_for)


@of_one
def hardtanh(
    input: Any,
    min_val: float = -1.0,
    max_val: float = 1.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``x`` between ``min_val`` and ``max_val``, and these numbers beyond; NaN stays NaN.

    Arguments, result, errors, cost: see :func:`relu`.
    ArgumentError where ``min_val`` is not below ``max_val``.
    """
    options = ends(min_val, max_val)
    expression = "x < min_val ? min_val : x > max_val ? max_val : x"
    return computed(expression, input, options, out, engine, queue, wait_for)


@of_two
def hardtanh_backward(
    grad_output: Any,
    input: Any,
    min_val: float = -1.0,
    max_val: float = 1.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`hardtanh`: ``grad_output`` between the ends, else 0.

    Arguments, result, errors, cost: see :func:`relu_backward`.
    """
    expression = "x <= min_val ? 0 : x >= max_val ? 0 : g"
    options = ends(min_val, max_val)
    return gradient(expression, grad_output, input, options, out, engine, queue, wait_for)


@of_one
def relu6(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``min(max(x, 0), 6)``: :func:`hardtanh` from 0 to 6.

    Arguments, result, errors, cost: see :func:`relu`.
    """
    return hardtanh(input, 0.0, 6.0, out=out, engine=engine, queue=queue, wait_for=wait_for)


@of_two
def relu6_backward(
    grad_output: Any,
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`relu6`: ``grad_output`` between 0 and 6, else 0.

    ``input`` may be the result of :func:`relu6` as well.

    Arguments, result, errors, cost: see :func:`relu_backward`.
    """
    return hardtanh_backward(
        grad_output, input, 0.0, 6.0, out=out, engine=engine, queue=queue, wait_for=wait_for
    )


@of_one
def hardsigmoid(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute 0 up to -3, 1 from 3 on, and ``(x + 3) / 6`` between.

    Arguments, result, errors, cost: see :func:`relu`.
    """
    expression = "x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6"
    return computed(expression, input, {}, out, engine, queue, wait_for)


@of_two
def hardsigmoid_backward(
    grad_output: Any,
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`hardsigmoid`: ``grad_output / 6`` between -3 and 3, else 0.

    Arguments, result, errors, cost: see :func:`relu_backward`.
    """
    expression = "x <= -3 ? 0 : x >= 3 ? 0 : g / 6"
    return gradient(expression, grad_output, input, {}, out, engine, queue, wait_for)


@of_one
def hardswish(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute 0 up to -3, ``x`` from 3 on, and ``x * (x + 3) / 6`` between.

    Arguments, result, errors, cost: see :func:`relu`.
    Howard et al., arXiv:1905.02244.
    """
    return computed(
        "x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6", input, {}, out, engine, queue, wait_for
    )


@of_two
def hardswish_backward(
    grad_output: Any,
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`hardswish`: that of each of its three parts.

    Arguments, result, errors, cost: see :func:`relu_backward`.
    """
    expression = "x <= -3 ? 0 : x >= 3 ? g : g * ((2 * x + 3) / 6)"
    return gradient(expression, grad_output, input, {}, out, engine, queue, wait_for)


@of_one
def elu(
    input: Any,
    alpha: float = 1.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``x`` where ``x > 0``, else ``alpha * (exp(x) - 1)``.

    Arguments, result, errors, cost: see :func:`relu`.  Clevert et al., arXiv:1511.07289.
    """
    return computed(
        "x > 0 ? x : alpha * expm1(x)", input, {"alpha": alpha}, out, engine, queue, wait_for
    )


@of_two
def elu_backward(
    grad_output: Any,
    input: Any,
    alpha: float = 1.0,
    is_result: bool = False,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`elu`.

    Args:
        grad_output: The gradient of the output.
        input: The input of :func:`elu`, or its result if ``is_result`` is true.
        alpha: As in :func:`elu`; not negative if ``is_result`` is true, because the sign of the
            result would not be that of the input.
        is_result: Whether ``input`` is the result, as after a call in place.
        out, engine, queue, wait_for: See :func:`relu_backward`.

    Returns, Raises, Cost: As :func:`relu_backward`; ArgumentError for such a negative ``alpha``.
    """
    factor, expression = real_number(alpha, "alpha"), "x > 0 ? g : g * (alpha * exp(x))"
    if flag(is_result, "is_result"):
        expression = "x > 0 ? g : g * (x + alpha)"
        if factor < 0:
            raise ArgumentError(
                f"alpha is {factor} and is_result is true; expected at least 0, or the input in "
                "place of the result"
            )
    return gradient(expression, grad_output, input, {"alpha": factor}, out, engine, queue, wait_for)


@of_one
def sigmoid(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``1 / (1 + exp(-x))``.

    Arguments, result, errors, cost: see :func:`relu`.
    """
    return computed(
        "(x < 0 ? exp(-abs(x)) : 1) / (1 + exp(-abs(x)))", input, {}, out, engine, queue, wait_for
    )


@of_two
def sigmoid_backward(
    grad_output: Any,
    output: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`sigmoid` from its result y: ``grad_output * y * (1 - y)``.

    Arguments, result, errors, cost: see :func:`relu_backward`.
    """
    return gradient(
        "g * x * (1 - x)", grad_output, output, {}, out, engine, queue, wait_for, "output"
    )


@of_one
def tanh(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the hyperbolic tangent.

    Arguments, result, errors, cost: see :func:`relu`.
    """
    return computed("tanh(x)", input, {}, out, engine, queue, wait_for)


@of_two
def tanh_backward(
    grad_output: Any,
    output: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`tanh` from its result y: ``grad_output * (1 - y * y)``.

    Arguments, result, errors, cost: see :func:`relu_backward`.
    """
    return gradient(
        "g * (1 - x * x)", grad_output, output, {}, out, engine, queue, wait_for, "output"
    )


@of_one
def gelu(
    input: Any,
    approximate: str = "none",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``x * Phi(x)``, with the standard normal distribution Phi.

    Args:
        input, out, engine, queue, wait_for: See :func:`relu`.
        approximate: ``"none"``: Phi by the error function; ``"tanh"``: an approximation of Phi, the
            logistic function of ``2 sqrt(2 / pi) (x + 0.044715 x^3)``, which is written with tanh
            by Hendrycks & Gimpel, arXiv:1606.08415.

    Returns, Raises, Cost: As :func:`relu`; ArgumentError for another ``approximate``.
    Accuracy: relative to the exact result, (16 + x^2) eps of the type computed in (docs/nn.md):
        small results of negative x lose no digits by cancellation.
    """
    expression = _gelu(one_of(approximate, _FORMS, "approximate"), _is_double(input))
    return computed(expression, input, {}, out, engine, queue, wait_for)


@of_two
def gelu_backward(
    grad_output: Any,
    input: Any,
    approximate: str = "none",
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`gelu`: ``grad_output * (Phi(x) + x * Phi'(x))``.

    Arguments, result, errors, cost: see :func:`gelu` and :func:`relu_backward`.
    """
    expression = _d_gelu(one_of(approximate, _FORMS, "approximate"), _is_double(input))
    return gradient(expression, grad_output, input, {}, out, engine, queue, wait_for)


@of_one
def silu(
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``x * sigmoid(x)``.

    Arguments, result, errors, cost: see :func:`relu`.
    """
    expression = _with_c("c * (c < 0 ? E : 1) / (1 + E)", "max(x, -1000)", "c")
    return computed(expression, input, {}, out, engine, queue, wait_for)


@of_two
def silu_backward(
    grad_output: Any,
    input: Any,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`silu`: ``g * s * (1 + x * (1 - s))``, s = sigmoid(x).

    Arguments, result, errors, cost: see :func:`relu_backward`.
    """
    expression = "g * (c < 0 ? E : 1) / (1 + E) * (1 + c * (c < 0 ? 1 : E) / (1 + E))"
    return gradient(
        _with_c(expression, _FAR, "c"), grad_output, input, {}, out, engine, queue, wait_for
    )


@of_one
def softplus(
    input: Any,
    beta: float = 1.0,
    threshold: float = 20.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``log(1 + exp(beta * x)) / beta``; ``x`` where ``beta * x > threshold``.

    Args:
        input, out, engine, queue, wait_for: See :func:`relu`.
        beta: The sharpness; not 0.
        threshold: The value of ``beta * x`` above which the result is ``x``.  The result does not
            overflow for any threshold.

    Returns, Raises, Cost: As :func:`relu`; ArgumentError where ``beta`` is 0.
    """
    rest = "log1p(exp(-abs(x * beta)))"
    expression = f"x * beta > threshold ? x : (max(x * beta, 0) + {rest}) / beta"
    return computed(expression, input, sharpness(beta, threshold), out, engine, queue, wait_for)


@of_two
def softplus_backward(
    grad_output: Any,
    input: Any,
    beta: float = 1.0,
    threshold: float = 20.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`softplus`: ``grad_output * sigmoid(beta * x)``.

    Arguments, result, errors, cost: see :func:`softplus` and :func:`relu_backward`.
    """
    e = "exp(-abs(x * beta))"
    expression = f"x * beta > threshold ? g : g * (x * beta < 0 ? {e} : 1) / (1 + {e})"
    return gradient(
        expression, grad_output, input, sharpness(beta, threshold), out, engine, queue, wait_for
    )


@cache
def _with_c(expression: str, c: str, exponent: str) -> str:
    """Replace ``E`` by ``exp(-|exponent|)``, then ``c`` by its expression of x.

    A compiler computes an expression once that occurs more than once.
    """
    text = re.sub(r"\bE\b", f"exp(-abs({exponent}))", expression)
    return re.sub(r"\bc\b", c, text)


def _is_double(input: Any) -> bool:
    return bool(floating(input, "input").dtype == np.float64)


@cache
def _gelu(form: str, is_double: bool) -> str:
    """Return the expression of :func:`gelu` for arrays of float64, or of others."""
    if form == "tanh":
        return _with_c("c * (c < 0 ? E : 1) / (1 + E)", "max(x, -100)", f"c * {_SLOPE}")
    return _with_c(f"c * {_normal(is_double)}", "max(x, -100)", "")


@cache
def _d_gelu(form: str, is_double: bool) -> str:
    """Return the expression of the gradient of :func:`gelu`, as :func:`_gelu`."""
    if form == "tanh":
        tangent = f"g * (((c < 0 ? E : 1) + c * {_D_SLOPE} * E / (1 + E)) / (1 + E))"
        return _with_c(tangent, _NEAR, f"c * {_SLOPE}")
    normal = f"{_normal(is_double)} + c * 0.39894228040143267794 * exp(-0.5 * c * c)"
    return _with_c(f"g * ({normal})", _NEAR, "")


def _normal(is_double: bool) -> str:
    """Return the text of Phi(c): in float64 by erfc, else by a polynomial for Mills' ratio."""
    if is_double:
        return "(0.5 * erfc(-0.70710678118654752440 * c))"
    ratio = str(_MILLS[0])
    for coefficient in _MILLS[1:]:
        ratio = f"({ratio} * (1 - 8 / (abs(c) + 4)) + {coefficient})"
    tail = f"exp(-0.5 * c * c) * ({ratio} / (abs(c) + 4))"
    return f"(c < 0 ? {tail} : 1 - {tail})"


def ends(min_val: Any, max_val: Any) -> dict[str, Any]:
    """The options of :func:`hardtanh`.

    Raises:
        ArgumentTypeError, ArgumentError: One is not a number; the first is not below the second.
    """
    low, high = real_number(min_val, "min_val"), real_number(max_val, "max_val")
    if not low < high:
        raise ArgumentError(f"min_val is {low} and max_val {high}; expected a smaller min_val")
    return {"min_val": low, "max_val": high}


def sharpness(beta: Any, threshold: Any) -> dict[str, Any]:
    """The options of :func:`softplus`.

    Raises:
        ArgumentTypeError, ArgumentError: One is not a number; ``beta`` is 0.
    """
    options = {"beta": real_number(beta, "beta"), "threshold": real_number(threshold, "threshold")}
    if not options["beta"]:
        raise ArgumentError("beta is 0; expected another number")
    return options
