"""The public function: an expression of arrays, element by element."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.codegen.expression import check_expression, check_name
from portable_gpu.dtypes import as_dtype, element
from portable_gpu.errors import OverlapError, UnsupportedError
from portable_gpu.ops.elementwise.candidates import make_plan
from portable_gpu.ops.elementwise.plan import Problem
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.broadcast import NUMBERS, broadcast, common_dtype, is_number, spread
from portable_gpu.runtime.call import Call, Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.repeat import Key, again, remember
from portable_gpu.runtime.views import as_array, overlap

# A function such as exp takes a CPU about as long as so many operations.
_CALL, _CALL_FLOP = re.compile(r"\w\s*\("), 60


def elementwise(
    expression: str,
    /,
    *,
    out: Any = None,
    dtype: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
    **inputs: Any,
) -> Any:
    """Compute an expression of arrays, written in OpenCL C, element by element in one launch.

    Args:
        expression: One expression of single values, by the names of ``inputs``:
            ``"exp(x - m) / s"``, ``"x > lo ? x : lo"``.  Functions are OpenCL's.
        out: Where to put the result; must have its shape and dtype.  It may be one of the inputs
            itself, which is then updated in place.
        dtype: Dtype of the result, to which values are converted as C does (floats to integers:
            cut off; to bool: whether they differ from 0).  Default: the inputs' common dtype.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.
        inputs: Arrays of any shapes that broadcast as in NumPy, of any strides and offsets, and
            numbers.  A name is an identifier of C that means nothing else in OpenCL C.

    Returns:
        An array of the shape that the inputs broadcast to, in C order: NumPy for NumPy inputs
        (done), ``pyopencl.array.Array`` for device inputs (enqueued and not waited for).

    The expression is computed in the inputs' common dtype, NumPy's: every input is converted to it
    first.  A number of Python's takes the dtype of the arrays, if that can hold its kind (NEP 50);
    a NumPy scalar has its own.  Numbers are arguments of the kernel: another value builds no
    program.  16-bit floats are computed as float32 and rounded once.  bool and integers of 8 and 16
    bits are computed as 32-bit ``int``, as in C, and wrap around in the result.  A literal such as
    ``0.5``, and a constant such as ``M_PI``, is of the type computed in.  OpenCL's functions of
    floats want floats: of integers write ``sqrt((float)x)``.  Integers that are divided by 0, or
    shifted too far, are undefined as in C.

    Example::

        pg.elementwise("exp(x - m) / s", x=x, m=pg.max(x, axis=1, keepdims=True), s=2.0)
        pg.elementwise("x > 0", x=x, dtype=bool)
        pg.elementwise("x + rate * d", x=x, d=step, rate=0.1, out=x)

    Raises:
        ArgumentError: ``expression`` is no single expression; a name means something else; a number
            of Python's that the common dtype cannot hold.
        BuildError: The C text does not compile, for instance because of a name that is no input;
            the message ends with it and the compiler's words.
        ShapeError: The inputs do not broadcast, or ``out`` has another shape.
        DTypeError: Unsupported dtype, or no common one; ``out`` has another dtype.
        OverlapError: ``out`` shares memory with an input that is not ``out`` itself, or with
            itself.
        ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: A dtype is complex (``x.view("float32")`` shows the parts); double
            precision on a device without it.
        DeviceMemoryError: The device lacks room.

    Cost: about one operation for each element and name; each input read once, and the result
        written once, in one launch without workspace.  What is broadcast is read from caches.
    Accuracy: that of OpenCL's functions in the type computed in (docs/accuracy.md), and a rounding
        to the result's dtype.  A compiler may contract ``a * b + c`` to one rounding.
    Order: elements do not depend on each other; the same bits for one target, policy, shape and
        alignment.
    """
    if wait_for is not None:
        wait_for = events_of(wait_for)
    arrays: list[Any] = []
    numbers: tuple[Any, ...] = ()
    others: tuple[Any, ...] = ()  # which inputs are no arrays of their own, and what they are
    known = queue is None and not wait_for
    for name, value in inputs.items():
        kind = type(value)
        if kind in DEVICE_KINDS or (kind is np.ndarray and value.shape):
            if value is out:
                others += (name, None)
            else:
                arrays.append(value)
        elif kind in NUMBERS:
            others += (name, kind)
            numbers += (value,)
        else:
            known = False
    key: Key | Planning | None = None
    if known and (arrays or out is not None):
        head = ("elementwise", expression, dtype, tuple(inputs), others)
        result, key = again(head, arrays, out, engine, numbers)
        if result is not None:
            return result
    return _checked(expression, inputs, out, dtype, engine, queue, wait_for, key)


def _checked(
    expression: str,
    inputs: dict[str, Any],
    out: Any,
    dtype: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
    key: Key | Planning | None,
) -> Any:
    check_expression(expression, "expression")
    for name in inputs:
        check_name(name, "the name of an input")
    result_dtype = None if dtype is None else as_dtype(dtype)
    arrays, numbers = _sorted(inputs)
    compute = common_dtype(
        {name: array.dtype for name, array in arrays.items()}
        | {name: getattr(value, "dtype", type(value)) for name, value in numbers.items()}
    )
    result_dtype = compute if result_dtype is None else result_dtype
    elements = element(compute), element(result_dtype)
    for what, one in (("the inputs' common dtype", compute), ("dtype", result_dtype)):
        if one.kind == "c":
            raise UnsupportedError(
                f"elementwise takes real arrays; {what} is {one}. Views of real numbers would do, "
                "such as x.view('float32')"
            )
    shape = broadcast({name: array.shape for name, array in arrays.items()})
    flop = prod(shape) * (len(inputs) + _CALL_FLOP * len(_CALL.findall(expression)))
    call = Call([*arrays.values(), out], engine, queue, wait_for, flop=flop)
    updated = [] if out is None else _updated(out, arrays)
    fresh = {name: array for name, array in arrays.items() if name not in updated}
    views = [call.input(array, name) for name, array in fresh.items()]
    view_out = call.output(shape, result_dtype, out, read=bool(updated))
    views.append(view_out)
    problem = Problem(
        expression,
        tuple(fresh),
        tuple(element(view.dtype) for view in views[:-1]),
        tuple(updated),
        tuple(numbers),
        *elements,
        shape,
        tuple(spread(view, shape) for view in views),
        1 if call.engine.target.is_cpu else min(16, *(view.alignment for view in views)),
    )
    if not view_out.size:
        return call.run()
    plan = call.engine.plan(problem, lambda: make_plan(call.engine, problem))
    values = tuple(numbers.values())
    result = call.run(plan, views, values)
    if all(arrays[name] is out for name in updated):  # or else the key counts more arrays
        remember(key, [inputs[name] for name in fresh], call, views, plan, values, out)
    return result[()] if call.host and out is None and not shape else result


def _sorted(inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs that are arrays, and those that are numbers: Python's, or NumPy's of no axes."""
    arrays: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for name, value in inputs.items():
        if is_number(value):
            numbers[name] = value
            continue
        array = as_array(value, name)
        if isinstance(array, cla.Array) or array.shape:
            arrays[name] = array
        else:
            numbers[name] = array[()]
    return arrays, numbers


def _updated(out: Any, arrays: dict[str, Any]) -> list[str]:
    """The inputs that are the output itself, by name.

    Raises:
        OverlapError: An input shares some of its memory.
    """
    found = [name for name, array in arrays.items() if _is_same(array, out)]
    others = {name: array for name, array in arrays.items() if name not in found}
    shared = overlap(out, list(others.values()))
    if shared:
        name = list(others)[shared - 1]
        raise OverlapError(
            f"out shares memory with {name}, and is not the same array; pass {name} itself, or a "
            "separate array"
        )
    return found


def _is_same(array: Any, out: Any) -> bool:
    """Whether two arrays show the same memory in the same way."""
    if array is out:
        return True
    if isinstance(array, np.ndarray) and isinstance(out, np.ndarray):
        return (array.ctypes.data, array.strides, array.shape, array.dtype) == (
            out.ctypes.data, out.strides, out.shape, out.dtype
        )  # fmt: skip
    if not isinstance(array, cla.Array) or not isinstance(out, cla.Array):
        return False
    return array.base_data is out.base_data and (
        array.offset, array.strides, array.shape, array.dtype
    ) == (out.offset, out.strides, out.shape, out.dtype)  # fmt: skip
