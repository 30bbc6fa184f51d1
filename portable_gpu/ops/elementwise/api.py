"""The public function: an expression of arrays, element by element."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.expression import check_expression, check_name
from portable_gpu.codegen.functions import Function
from portable_gpu.dtypes import Element, as_dtype, element
from portable_gpu.errors import OverlapError
from portable_gpu.ops.elementwise.candidates import make_plan
from portable_gpu.ops.elementwise.plan import Problem
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.broadcast import NUMBERS, broadcast, common_dtype, is_number, spread
from portable_gpu.runtime.call import Call, Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.repeat import Key, again, remember
from portable_gpu.runtime.views import as_array, overlap

_NUMBERS = (*NUMBERS, np.number, np.bool_)
_COMPLEX = (complex, np.complexfloating)
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
    """Compute an expression of arrays, element by element, in one launch.

    Args:
        expression: One expression of single values, by the names of ``inputs``:
            ``"exp(x - m) / s"``, ``"x > lo ? x : lo"``, ``"where(x > lo, x, lo)"``.  It has the
            operators of C and of Python, OpenCL's functions, and NumPy's names.
        out: Where to put the result; must have its shape and dtype.  It may be one of the inputs
            itself, which is then updated in place.
        dtype: Dtype of the result, to which values are converted as C does (floats to integers:
            cut off; to bool: whether they differ from 0; complex to real: the real part).  Default:
            the inputs' common dtype.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.
        inputs: Arrays of any shapes that broadcast as in NumPy, of any strides and offsets, and
            numbers.  A name is an identifier of C that means nothing else in OpenCL C.

    Returns:
        An array of the shape that the inputs broadcast to, in C order: NumPy for NumPy inputs
        (done), ``portable_gpu.Array`` for device inputs (enqueued and not waited for).

    **Dtypes.**  The expression is computed in the inputs' common dtype, NumPy's: every input is
    converted to it first, whatever ``dtype`` is.  A number of Python's takes the dtype of the
    arrays, if that can hold its kind (NEP 50); a NumPy scalar has its own.  Numbers are arguments
    of the kernel: another value builds no program.  16-bit floats are computed as float32 and
    rounded once.  Integers wrap around in their own width after each operation.  Of bool, ``+`` is
    or, ``*`` is and; other arithmetic, and what has literals, is computed as ``int``.  A literal
    such as ``2``, ``0.5`` or ``2j``, and a constant such as ``M_PI``, is of the type computed in,
    so ``1 / 2`` is 0.5 of floats; a floating one with integers makes floats (float64 if the
    result is so, else float32), and an integer that a comparison's dtype cannot hold compares
    exactly.  Comparisons, ``and``, ``or``, ``not`` and tests such as ``isnan`` give masks, which
    ``& | ^ ~``, ``where(c, p, q)``, ``c ? p : q`` and ``p if c else q`` take; in arithmetic a mask
    is 0 or 1.

    **Operators.**  The precedence is C's, where ``&`` binds less closely than ``==``; brackets make
    it clear.  Comparisons in a row (``a < b < c``) are refused.  ``/`` of integers cuts off as C
    does; ``//`` and ``%`` are NumPy's, floats included: they round down, and a remainder has the
    divisor's sign (``fmod`` has the dividend's).  Integers divided by 0 give 0, the least one by -1
    itself; shifts by the width or more give 0, or -1 of a negative number to the right.  ``x ** n``
    of integers is 0 for negative ``n``, unless ``x`` is 1 or -1.  A complex 0 to a power is NaN,
    unless the exponent's real part is positive (0) or the exponent is 0 (1).

    **Functions.**  OpenCL's of floats; of integers write ``sqrt((float)x)``, or ask for a floating
    ``dtype``.  ``min`` and ``max`` (``minimum``, ``maximum``, of two or more values) give NaN where
    one is NaN, ``fmin`` and ``fmax`` do not.  Of any numbers: ``abs sign where clip square
    reciprocal power floor_divide mod``, and NumPy's names of operators and functions, such as
    ``logical_and``, ``arctan2``.  OpenCL's ``round`` (halves away from 0) and ``remainder``
    (IEEE's, of floats) keep their meaning.  Complex numbers have ``+ - * / **``, comparisons,
    ``abs angle real imag conj sign square reciprocal sqrt exp log sin cos tan sinh cosh tanh``,
    ``isnan isinf isfinite``.  A text that uses more of C (``x.s0``, other functions of OpenCL) goes
    to the compiler as it is, and has C's types.

    Example::

        pg.elementwise("exp(x - m) / s", x=x, m=pg.max(x, axis=1, keepdims=True), s=2.0)
        pg.elementwise("x > 0", x=x, dtype=bool)
        pg.elementwise("x + rate * d", x=x, d=step, rate=0.1, out=x)

    Raises:
        ArgumentError: ``expression`` is no single expression, or an operator or function in it does
            not take the dtype computed in; a name means something else; a number of Python's that
            the common dtype cannot hold.
        BuildError: The C text does not compile, for instance because of a name that is no input;
            the message has the expression and the compiler's reason.
        ShapeError: The inputs do not broadcast, or ``out`` has another shape.
        DTypeError: Unsupported dtype, or no common one; ``out`` has another dtype.
        OverlapError: ``out`` shares memory with an input that is not ``out`` itself, or with
            itself.
        ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: Double precision on a device without it; a function that complex numbers
            do not have here.
        DeviceMemoryError: The device lacks memory.

    Cost: about one operation for each element and name; each input read once, and the result
        written once, in one launch without workspace.  What is broadcast is read from caches.
    Accuracy: that of OpenCL's functions in the type computed in (docs/accuracy.md), and a rounding
        to the result's dtype.  A compiler may contract ``a * b + c`` to one rounding, also in
        complex products.  Complex quotients are Smith's; complex powers by other than whole
        exponents below 100 have an error that grows with ``|b log a|``.
    Order: elements do not depend on each other; the same bits for one target, policy, shape and
        alignment.
    """
    if wait_for is not None:
        wait_for = events_of(wait_for)
    head = ("elementwise", expression, dtype)
    result, key = _again(head, inputs, out, engine, queue, wait_for)
    if result is not None:
        return result
    check_expression(expression, "expression", python=True)
    for name in inputs:
        check_name(name, "the name of an input")
    result_dtype = None if dtype is None else as_dtype(dtype)
    arrays, numbers = _sorted(inputs)
    compute = _common(arrays, numbers)
    result_dtype = compute if result_dtype is None else result_dtype
    asked = _Asked(expression, inputs, arrays, numbers, compute, result_dtype)
    return _computed(asked, out, engine, queue, wait_for, key)


def evaluate(
    expression: str,
    inputs: Mapping[str, Any],
    *,
    compute: Any = None,
    dtype: Any = None,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute an expression of arrays in a given dtype: what the operators of arrays call.

    Args:
        expression: As of :func:`elementwise`; it is not checked again.
        inputs: Arrays and numbers by the names that the expression has for them.
        compute: Dtype that all inputs are converted to, as NumPy's unsafe casts do, and that the
            expression is computed in; default: their common dtype.
        dtype: Dtype of the result.  Default: bool of a comparison or another mask, of a complex
            expression's ``abs``, ``real``, ``imag`` and ``angle`` the real dtype, else ``compute``.
        out, engine, queue, wait_for: As of :func:`elementwise`: ``out`` has the result's shape and
            dtype, and may be an input itself or a view that shows the same; other overlap is
            refused.

    Returns, Raises: As :func:`elementwise`.

    This function converts, computes, wraps around, and repeats a call like one before at the cost
    of a launch; ``compute`` and ``dtype`` are best given as ``numpy.dtype`` then.  Its caller
    chooses the dtypes, and sees to what no single ``compute`` says exactly: comparisons of int64
    with uint64; Python's integers that ``compute`` cannot hold, an ArgumentError here (NumPy 2: an
    OverflowError of arithmetic, an exact answer of comparisons); operators that NumPy refuses
    (``-`` of bool, ``//`` of complex); negative powers of integers, which are 0 here unless the
    base is 1 or -1; arrays that overlap ``out``; host arrays with device arrays, which are
    copied at each call.  NumPy's scalars are converted as arrays are.
    """
    if wait_for is not None:
        wait_for = events_of(wait_for)
    head = ("evaluate", expression, compute, dtype)
    result, key = _again(head, inputs, out, engine, queue, wait_for)
    if result is not None:
        return result
    arrays, numbers = _sorted(inputs)
    inside = _common(arrays, numbers) if compute is None else as_dtype(compute, "compute")
    if dtype is None:
        kind = _outcome(expression, tuple(inputs), element(inside))
        inside_real = np.empty(0, inside).real.dtype if inside.kind == "c" else inside
        result_dtype = {"mask": np.dtype(bool), "complex": inside}.get(kind or "", inside_real)
    else:
        result_dtype = as_dtype(dtype)
    asked = _Asked(expression, inputs, arrays, numbers, inside, result_dtype)
    return _computed(asked, out, engine, queue, wait_for, key)


@lru_cache(maxsize=1024)
def _outcome(expression: str, names: tuple[str, ...], compute: Element) -> str | None:
    """The kind of an expression's result: ``mask``, ``complex``, or numbers."""
    of = "int" if compute.boolean else compute.value
    parameters = tuple((name, of) for name in names)
    return Function("f", expression, parameters, of, of, boolean=compute.boolean).kind


def _common(arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> np.dtype[Any]:
    return common_dtype(
        {name: array.dtype for name, array in arrays.items()}
        | {name: getattr(value, "dtype", type(value)) for name, value in numbers.items()}
    )


def _again(
    head: Key,
    inputs: Mapping[str, Any],
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> tuple[Any, Key | Planning | None]:
    """The result of a call met before, or else its key, as :func:`again` gives them."""
    arrays: list[Any] = []
    numbers: tuple[Any, ...] = ()
    others: tuple[Any, ...] = ()  # which inputs are no arrays of their own, and what they are
    if queue is not None or wait_for:
        return None, None
    for name, value in inputs.items():
        kind = type(value)
        if kind in DEVICE_KINDS or (kind is np.ndarray and value.shape):
            if value is out:
                others += (name, None)
            else:
                arrays.append(value)
        elif isinstance(value, _NUMBERS):
            if isinstance(value, _COMPLEX) and not (value.real and value.imag):
                return None, None  # for equal zeros may have other signs
            others += (name, kind)
            numbers += (value,)
        else:
            return None, None
    if not arrays and out is None:
        return None, None
    return again((*head, tuple(inputs), others), arrays, out, engine, numbers)


@dataclass(frozen=True)
class _Asked:
    """What a call is to compute.

    Attributes:
        expression, inputs: As given.
        arrays, numbers: The inputs.
        compute, dtype: Dtypes that it is computed in, and of the result.
    """

    expression: str
    inputs: Mapping[str, Any]
    arrays: dict[str, Any]
    numbers: dict[str, Any]
    compute: np.dtype[Any]
    dtype: np.dtype[Any]


def _computed(
    asked: _Asked,
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
    key: Key | Planning | None,
) -> Any:
    """The result of a call with everything to be found."""
    expression, arrays, numbers = asked.expression, asked.arrays, asked.numbers
    elements = element(asked.compute), element(asked.dtype)
    shape = broadcast({name: array.shape for name, array in arrays.items()})
    flop = prod(shape) * (len(asked.inputs) + _CALL_FLOP * len(_CALL.findall(expression)))
    call = Call([*arrays.values(), out], engine, queue, wait_for, flop=flop)
    updated = [] if out is None else _updated(out, arrays)
    fresh = {name: array for name, array in arrays.items() if name not in updated}
    views = [call.input(array, name) for name, array in fresh.items()]
    view_out = call.output(shape, asked.dtype, out, read=bool(updated))
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
        remember(key, [asked.inputs[name] for name in fresh], call, views, plan, values, out)
    return result[()] if call.host and out is None and not shape else result


def _sorted(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs that are arrays, and those that are numbers: Python's, or NumPy's of no axes."""
    arrays: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for name, value in inputs.items():
        if is_number(value):
            numbers[name] = value
            continue
        array = as_array(value, name)
        if isinstance(array, DEVICE_KINDS) or array.shape:
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
    if not isinstance(array, DEVICE_KINDS) or not isinstance(out, DEVICE_KINDS):
        return False
    return array.base_data is out.base_data and (
        array.offset, array.strides, array.shape, array.dtype
    ) == (out.offset, out.strides, out.shape, out.dtype)  # fmt: skip
