"""The linear layer and its gradients, as matrix products with an epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, of_kind, shown
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ArraysError, ShapeError
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.floats import floating
from portable_gpu.ops.gemm import gemm, matmul
from portable_gpu.ops.operation import check_one_context
from portable_gpu.ops.reduce import sum as summed
from portable_gpu.ops.result import check_out
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.layout import reshaped
from portable_gpu.typing import of_two

_NOTHING = Epilogue()


@of_two
def linear(
    input: Any,
    weight: Any,
    bias: Any = None,
    *,
    epilogue: Epilogue | None = None,
    out: Any = None,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``input @ weight.T + bias`` along the last axis.

    Args:
        input: Shape (..., in_features); any strides.  float16, bfloat16, float32 or float64.
        weight: Shape (out_features, in_features), of the dtype of ``input``.
        bias: Shape (out_features,); none by default.
        epilogue: The stages that each element passes, such as ``portable_gpu.Epilogue().gelu()``.
        out: The array for the result; a fresh one by default.
        precision: The precision of products of float32; see :func:`portable_gpu.gemm`.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array of shape (..., out_features): a NumPy array (finished) for NumPy
        arrays, a device array (enqueued) if an operand is on the device.

    Raises:
        ShapeError: The shapes do not fit each other.
        DTypeError: An operand has no real floating dtype.
        OverlapError: ``out`` shares memory with an operand.
        ArgumentTypeError, ArgumentError, UnsupportedError, DeviceMemoryError: See
            :func:`portable_gpu.gemm`.

    Cost: one product, which also adds the bias and applies ``epilogue``, without another pass over
        the result.  Leading axes are one axis of the product where strides allow.
    Accuracy: ``|error| <= (in_features + 2) eps (|input| @ |weight.T| + |bias|)``, then the
        rounding to the dtype; an epilogue's errors come on top.
    Order: fixed for one target, policy and shape; no atomics.
    """
    x, w = floating(input, "input"), floating(weight, "weight")
    if w.ndim != 2 or not x.ndim or x.shape[-1] != w.shape[1]:
        raise ShapeError(
            f"input has shape {x.shape} and weight {w.shape}; expected (..., n) and (m, n)"
        )
    whole = epilogue
    if epilogue is not None:
        of_kind(epilogue, Epilogue, "epilogue", "a portable_gpu.Epilogue or None")
    if bias is not None:
        b = floating(bias, "bias")
        if b.shape != w.shape[:1]:
            raise ShapeError(f"bias has shape {b.shape}; expected {w.shape[:1]}")
        whole = _NOTHING.bias(b)
        if epilogue is not None:
            whole = Epilogue(whole.stages + epilogue.stages, whole.arrays + epilogue.arrays)
    shape = (*x.shape[:-1], w.shape[0])
    options: dict[str, Any] = {
        "precision": precision, "epilogue": whole if whole and whole.stages else None,
        "engine": engine, "queue": queue, "wait_for": wait_for,
    }  # fmt: skip
    rows = merged(x)
    alone = epilogue is None or not epilogue.arrays  # arrays broadcast to the result's own shape
    try:
        if out is None and rows is not None and alone:
            result = gemm(rows, w, trans_b="T", **options)
            return result if rows is x else result.reshape(shape)
        if x.ndim == 1:
            check_out(out, shape, x.dtype, x, w)
            result = matmul(x[None], w.T, out=None if out is None else out[None], **options)
            return result[0] if out is None else out
        return matmul(x, w.T, out=out, **options)
    except ArraysError as error:
        following_name = "bias" if alone else "bias or epilogue"
        names = {"a": "input", "b": "weight", "epilogue": following_name}
        raise error.renamed(names) from None


def linear_backward(
    grad_output: Any,
    input: Any,
    weight: Any,
    *,
    output_mask: Sequence[bool] = (True, True, True),
    out: tuple[Any, Any, Any] | None = None,
    precision: str | None = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any, Any]:
    """Compute the gradients of :func:`linear` with respect to its input, weight and bias.

    Args:
        grad_output: The gradient of the output: shape (..., out_features).
        input, weight: The operands of :func:`linear`.
        output_mask: For each of the three gradients, whether it is computed.
        out: The arrays for them, or ``None`` for each that is to be fresh.
        precision, engine, queue, wait_for: See :func:`linear`.

    Returns:
        The gradients of ``input``, ``weight`` and the bias: ``grad_output @ weight``,
        ``grad_output.T @ input`` and the sum of ``grad_output``, both over all leading axes;
        ``None`` where ``output_mask`` is false.

    Raises:
        ArgumentTypeError, ArgumentError: ``output_mask`` or ``out`` has not three elements.
        Others: See :func:`linear`.

    Cost: two products and one sum.  An operand whose leading axes do not merge to one is copied.
    Accuracy: the bound of :func:`linear`, with the number of summed elements.
    Order: fixed for one target, policy and shape; no atomics.
    """
    g, x, w = (
        floating(array, name)
        for array, name in ((grad_output, "grad_output"), (input, "input"), (weight, "weight"))
    )
    if w.ndim != 2 or not x.ndim or x.shape[-1] != w.shape[1]:
        raise ShapeError(
            f"input has shape {x.shape} and weight {w.shape}; expected (..., n) and (m, n)"
        )
    if g.shape != (*x.shape[:-1], w.shape[0]):
        raise ShapeError(
            f"grad_output has shape {g.shape}; expected "
            f"{(*x.shape[:-1], w.shape[0])} for input {x.shape} and weight {w.shape}"
        )
    is_needed = [
        flag(item, "an element of output_mask") for item in _three(output_mask, "output_mask")
    ]
    outs = (None, None, None) if out is None else _three(out, "out")
    shapes = (x.shape, w.shape, w.shape[:1])
    for item, shape in zip(outs, shapes, strict=True):
        check_out(item, shape, x.dtype, g, x, w)
    # Each product alone may have arrays of one context.
    check_one_context({"grad_output": g, "input": x, "weight": w}, engine, queue)
    place: dict[str, Any] = {"engine": engine, "queue": queue, "wait_for": wait_for}
    options = {"precision": precision, **place}
    by_input = by_weight = by_bias = None
    names = {"x": "grad_output", "a": "grad_output", "b": "weight"}
    try:
        rows = as_rows(g, place)
        if is_needed[0]:
            by_input = outs[0]
            target = None if by_input is None else merged(by_input)
            if by_input is None or target is not None:
                result = matmul(rows, w, out=target, **options)
                by_input = result.reshape(x.shape) if by_input is None else by_input
            else:
                matmul(g, w, out=by_input, **options)
        if is_needed[1]:
            names = {"x": "input", "a": "grad_output", "b": "input"}
            by_weight = matmul(rows.T, as_rows(x, place), out=outs[1], **options)
        if is_needed[2]:
            names = {"x": "grad_output"}
            by_bias = summed(rows, axis=0, out=outs[2], **place)
    except ArraysError as error:
        raise error.renamed(names) from None
    return by_input, by_weight, by_bias


def one_gradient(which: int, grad_output: Any, input: Any, weight: Any, out: Any) -> Any:
    """Compute one gradient of :func:`linear`: that of the input (0), weight (1) or bias (2)."""
    mask = [k == which for k in range(3)]
    outs: Any = tuple(out if is_computed else None for is_computed in mask)
    return linear_backward(grad_output, input, weight, output_mask=mask, out=outs)[which]


def _three(values: Any, name: str) -> Any:
    """Return ``values``, a tuple or a list of three.

    Raises:
        ArgumentTypeError, ArgumentError: It is not.
    """
    if not isinstance(values, (tuple, list)):
        raise ArgumentTypeError(f"{name} is {shown(values)}; expected a tuple of three")
    if len(values) != 3:
        raise ArgumentError(f"{name} has {len(values)} elements; expected three")
    return values


def merged(array: Any) -> Any:
    """Return a view of an array as a matrix of its last axis; ``None`` if strides do not allow."""
    if array.ndim == 2:
        return array
    shape = prod(array.shape[:-1]), array.shape[-1]
    if reshaped(array.shape, array.strides, shape, array.dtype.itemsize) is None:
        return None
    return (array if isinstance(array, (np.ndarray, Array)) else Array.of(array)).reshape(shape)


def as_rows(array: Any, place: dict[str, Any]) -> Any:
    """Return an array as a matrix of its last axis, a copy if strides do not allow a view."""
    rows = merged(array)
    if rows is None:
        rows = merged(elementwise("x", x=array, **place))
    return rows
