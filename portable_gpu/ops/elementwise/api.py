"""The public function: an expression of arrays, element by element."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.expression import check_expression, check_name
from portable_gpu.codegen.functions import Function
from portable_gpu.codegen.names import inlined
from portable_gpu.dtypes import Element, as_dtype, element
from portable_gpu.errors import OverlapError
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import make_plan
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.broadcast import NUMBERS, broadcast, common_dtype, spread
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import EngineGroup
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import View, as_array, overlap

_NUMBERS = (*NUMBERS, np.generic)
_ARRAYS = frozenset((np.ndarray, *DEVICE_KINDS))
_KNOWN = _ARRAYS | set(NUMBERS)
_ARRAY, _OUT = "array", "out"  # the kinds of inputs that are arrays
# A call of a function such as sin takes a CPU about as long as 60 operations, one that is inlined
# as 8, and one of _CHEAP none.
_CALL, _CALL_FLOP, _INLINED_FLOP = re.compile(r"\b([A-Za-z_]\w*)\s*\("), 60, 8
_CHEAP = frozenset((
    "abs", "clip", "copysign", "fabs", "floor", "fmax", "fmin", "isfinite", "isinf", "isnan", "max",
    "min", "select", "where",
))  # fmt: skip


def elementwise(
    expression: str,
    /,
    *,
    out: Any = None,
    dtype: Any = None,
    engine: Engine | EngineGroup | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
    **inputs: Any,
) -> Any:
    """Compute an expression of arrays, element by element, in one launch.

    Args:
        expression: An expression of one element of each input, such as ``"exp(x - m) / s"``,
            ``"x > lo ? x : lo"`` or ``"where(x > lo, x, lo)"``.  It may use the operators of C and
            of Python, OpenCL's functions, and NumPy's names.
        out: The array for the result; it must have its shape and dtype.  It may be one of the
            inputs itself, which is then updated in place.
        dtype: The dtype of the result, to which values are converted as in C: floats lose their
            fraction when they become integers, a bool is true for any value but 0, and complex
            numbers lose their imaginary part.  Default: the inputs' common dtype.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.
        inputs: Numbers, and arrays of any strides and offsets, whose shapes broadcast as in NumPy.
            A name must be an identifier of C without another meaning in OpenCL C.

    Returns:
        An array of the shape that the inputs broadcast to, in C order: NumPy for NumPy inputs
        (done), ``portable_gpu.Array`` for device inputs (enqueued and not waited for).

    **Dtypes.**  First every input is converted to the inputs' common dtype, as in NumPy.  Then the
    expression is computed in that dtype, whatever ``dtype`` is.

    * A Python number takes the dtype of the arrays, if that dtype has numbers of its kind (NEP 50).
      A NumPy scalar keeps its dtype.  Numbers are arguments of the kernel, so a call with another
      value does not build a program.
    * 16-bit floats are computed as float32; the result is rounded once.
    * Integers wrap around in their own width after each operation.
    * For bool, ``+`` is "or" and ``*`` is "and".  Other arithmetic, and expressions with literals,
      are computed as ``int``.
    * Literals such as ``2``, ``0.5`` or ``2j`` and constants such as ``M_PI`` have the common
      dtype; so ``1 / 2`` is 0.5 if the inputs are floats.  With integer inputs, a floating literal
      changes the computation to float64 if the result is float64, else to float32.  A comparison
      with an integer literal outside the range of the dtype is exact.
    * Comparisons, ``and``, ``or``, ``not`` and tests such as ``isnan`` give masks.  A mask can be
      an operand of ``& | ^ ~`` and the condition of ``where(c, p, q)``, ``c ? p : q`` and
      ``p if c else q``.  In arithmetic a mask is 0 or 1.

    **Operators.**  The precedence is that of C, where ``==`` binds closer than ``&``; parentheses
    make it clear.  Chained comparisons (``a < b < c``) are refused.

    * ``/`` of integers rounds towards 0, as in C.
    * ``//`` and ``%`` of integers and floats round down, as in NumPy, so a remainder has the sign
      of the divisor.  The result of ``fmod`` has the sign of the dividend.
    * An integer divided by 0 gives 0.  The smallest integer divided by -1 gives itself.
    * A shift by the width of the integer or more gives 0; of a negative number to the right, -1.
    * ``x ** n`` of integers with a negative ``n`` is 0, unless ``x`` is 1 or -1.
    * A complex 0 to a power is 0 if the real part of the exponent is positive, 1 if the exponent is
      0, and else NaN.

    **Functions.**  OpenCL's functions take floats.  For integers write ``sqrt((float)x)``, or
    request a floating ``dtype``.

    * ``min`` and ``max`` (or ``minimum`` and ``maximum``) take two or more values, and give NaN if
      one of these is NaN; ``fmin`` and ``fmax`` ignore NaN.
    * These take numbers of any kind: ``abs sign where clip square reciprocal power floor_divide
      mod``, and NumPy's names of operators and functions, such as ``logical_and`` or ``arctan2``.
    * ``round`` (halves away from 0) and ``remainder`` (of floats, IEEE's) are those of OpenCL.
    * Complex numbers have ``+ - * / **``, comparisons, ``abs angle real imag conj sign square
      reciprocal sqrt exp log sin cos tan sinh cosh tanh``, and ``isnan isinf isfinite``.
    * An expression with other parts of C (``x.s0``, other functions of OpenCL) is passed to the
      compiler unchanged, and has C's types.

    Example::

        pg.elementwise("exp(x - m) / s", x=x, m=pg.max(x, axis=1, keepdims=True), s=2.0)
        pg.elementwise("x > 0", x=x, dtype=bool)
        pg.elementwise("x + rate * d", x=x, d=step, rate=0.1, out=x)

    Raises:
        ArgumentError: ``expression`` is not a single expression, or one of its operators or
            functions does not take the common dtype; the name of an input has another meaning; a
            Python number is outside the range of the common dtype.
        BuildError: The expression does not compile, for instance because a name in it is not that
            of an input.  The message has the expression and the compiler's reason.
        ShapeError: The inputs do not broadcast, or ``out`` has another shape.
        DTypeError: A dtype is not supported, or there is no common one; ``out`` has another dtype.
        OverlapError: ``out`` shares memory with an input that is not ``out`` itself, or with
            itself.
        ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: The call needs double precision, which the device lacks; a function that
            complex numbers do not have here.
        DeviceMemoryError: The device lacks memory.

    Cost: about one operation for each element and name, in one launch without workspace.  Each
        input is read once (broadcast inputs again from caches), and the result is written once.
    Accuracy: that of OpenCL's functions in the common dtype (docs/accuracy.md), and one rounding to
        the result's dtype.  A compiler may compute ``a * b + c`` with one rounding, also in complex
        products.  Complex quotients use Smith's method.  A complex power ``a ** b`` has an error
        that grows with ``|b log a|``, unless ``b`` is an integer below 100.
    Order: elements do not depend on each other; the bits are the same for one target, policy, shape
        and alignment.
    """
    if engine is not None and isinstance(engine, EngineGroup):
        return engine.compute("elementwise", locals())
    if type(dtype) is not type and dtype is not None:
        dtype = as_dtype(dtype)
    arrays, kinds, numbers = _sorted(inputs, out)
    options = expression, tuple(inputs), kinds, dtype, None, True
    return _ELEMENTWISE.call(arrays, options, out, numbers, engine, queue, wait_for)


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
    """Compute an expression of arrays in a given dtype; the operators of arrays call this.

    Args:
        expression: As for :func:`elementwise`; it is not checked again.
        inputs: Arrays and numbers, by their names in the expression.
        compute: The dtype in which the expression is computed.  All inputs are converted to it, as
            by NumPy's unsafe casts.  Default: their common dtype.
        dtype: The dtype of the result.  Default: bool for a comparison or another mask; the real
            dtype for ``abs``, ``real``, ``imag`` and ``angle`` of complex numbers; else
            ``compute``.
        out, engine, queue, wait_for: As for :func:`elementwise`.  ``out`` has the result's shape
            and dtype.  It may be an input, or a view of the same elements; other overlap is
            refused.

    Returns, Raises: As :func:`elementwise`.

    A repeated call costs no more than a launch if ``compute`` and ``dtype`` are ``numpy.dtype``
    objects.  The caller chooses the dtypes, and must itself care for the following cases:

    * Comparisons of int64 with uint64, for which no ``compute`` is exact.
    * Python integers outside the range of ``compute``, which raise ArgumentError here.  NumPy 2
      raises OverflowError in arithmetic, and compares them exactly.
    * Operators that NumPy refuses, such as ``-`` of bool and ``//`` of complex numbers.
    * Negative powers of integers, which are 0 here unless the base is 1 or -1.
    * Arrays that overlap ``out``.
    * Host arrays together with device arrays; they are copied at each call.

    NumPy scalars are converted like arrays.
    """
    arrays, kinds, numbers = _sorted(inputs, out)
    options = expression, tuple(inputs), kinds, dtype, compute, False
    return _ELEMENTWISE.call(arrays, options, out, numbers, engine, queue, wait_for)


def _sorted(
    inputs: Mapping[str, Any], out: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...] | None, tuple[Any, ...]]:
    """Return the inputs that are arrays, the kinds of all inputs, and the numbers.

    The kinds are ``None`` if all inputs are arrays and none of them is ``out``.  Else the kind of
    an input is ``_OUT`` if it is ``out``, ``_ARRAY`` if it is another array, and else the type
    of the number.  Numbers are those of Python and NumPy, and NumPy arrays without axes.
    """
    values = tuple(inputs.values())
    for value in values:
        if type(value) not in _ARRAYS or value is out or not value.shape:
            break
    else:
        return values, None, ()
    arrays: list[Any] = []
    kinds: list[Any] = []
    numbers: list[Any] = []
    for name, value in inputs.items():
        kind = type(value)
        if kind not in _KNOWN:
            value = value if isinstance(value, _NUMBERS) else as_array(value, name)
            kind = type(value)
        if kind is np.ndarray and not value.shape:
            value = as_array(value, name)[()]
            kind = type(value)
        if issubclass(kind, _NUMBERS):
            kinds.append(kind)
            numbers.append(value)
        elif value is out:
            kinds.append(_OUT)
        else:
            kinds.append(_ARRAY)
            arrays.append(value)
    return tuple(arrays), tuple(kinds), tuple(numbers)


def _normalise(arguments: CallArguments) -> Invocation:
    out = arguments.out
    expression, names, kinds, dtype, compute, is_checked = arguments.options
    if is_checked:
        check_expression(expression, "expression", python=True)
        for name in names:
            check_name(name, "the name of an input")
    kinds = (_ARRAY,) * len(names) if kinds is None else kinds
    remaining_arrays, remaining_numbers = iter(arguments.inputs), iter(arguments.scalars)
    arrays: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for name, kind in zip(names, kinds, strict=True):
        if kind is _ARRAY:
            arrays[name] = as_array(next(remaining_arrays), name)
        elif kind is _OUT:
            arrays[name] = as_array(out, name)
        else:
            numbers[name] = next(remaining_numbers)
    compute_dtype = common_of(arrays, numbers) if compute is None else as_dtype(compute, "compute")
    if dtype is not None:
        result_dtype = as_dtype(dtype)
    elif is_checked:
        result_dtype = compute_dtype
    else:
        result_dtype = _dtype_of_outcome(expression, names, compute_dtype)
    shape = broadcast({name: array.shape for name, array in arrays.items()})
    updated = [] if out is None else updated_inputs(out, arrays)
    fresh = {name: array for name, array in arrays.items() if name not in updated}

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        problem = ElementwiseProblem(
            expression=expression, names=tuple(fresh),
            inputs=tuple(element(view.dtype) for view in views[:-1]), updated=tuple(updated),
            scalars=tuple(numbers), compute=element(compute_dtype), result=element(result_dtype),
            shape=shape, strides=tuple(spread(view, shape) for view in views),
            alignment=1 if engine.target.is_cpu else min(16, *(view.alignment for view in views)),
        )  # fmt: skip
        return engine.plan(problem, lambda: make_plan(engine, problem))

    return Invocation(
        inputs=tuple(fresh.values()),
        names=tuple(fresh),
        shape=shape,
        dtype=result_dtype,
        plan=plan,
        flop=prod(shape) * (len(names) + _flop_of_calls(expression, compute_dtype)),
        scalars=arguments.scalars,
        out=out,
        reads_out=bool(updated),
        in_place=True,
        computes=(compute_dtype,),
    )


@lru_cache(maxsize=1024)
def _flop_of_calls(expression: str, compute_dtype: np.dtype[Any]) -> int:
    """Return the cost of the calls for each element; a compiler makes equal ones once."""
    cheaper, calls = inlined(expression, element(compute_dtype).value), {}
    for call in _CALL.finditer(expression):
        end, depth = call.end(), 1
        while depth and end < len(expression):
            depth += {"(": 1, ")": -1}.get(expression[end], 0)
            end += 1
        if call[1] not in _CHEAP:
            cost = _INLINED_FLOP if call[1] in cheaper else _CALL_FLOP
            calls[expression[call.start() : end]] = cost
    return sum(calls.values())


_ELEMENTWISE = Operation("elementwise", _normalise)


def _dtype_of_outcome(
    expression: str, names: tuple[str, ...], compute_dtype: np.dtype[Any]
) -> np.dtype[Any]:
    """Return the dtype of an expression that is computed in ``compute_dtype``."""
    kind = _outcome(expression, names, element(compute_dtype))
    if kind == "mask":
        return np.dtype(bool)
    return (
        compute_dtype
        if kind == "complex" or compute_dtype.kind != "c"
        else np.empty(0, compute_dtype).real.dtype
    )


@lru_cache(maxsize=1024)
def _outcome(expression: str, names: tuple[str, ...], compute: Element) -> str | None:
    """Return the kind of a result: ``mask``, ``complex``, or ``None`` for other numbers."""
    of = "int" if compute.boolean else compute.value
    parameters = tuple((name, of) for name in names)
    return Function("f", expression, parameters, of, of, boolean=compute.boolean).kind


def common_of(arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> np.dtype[Any]:
    """Return the dtype in which an expression is computed."""
    return common_dtype(
        {name: array.dtype for name, array in arrays.items()}
        | {name: getattr(value, "dtype", type(value)) for name, value in numbers.items()}
    )


def updated_inputs(out: Any, arrays: dict[str, Any]) -> list[str]:
    """Return the names of the inputs that are the output array itself.

    Raises:
        OverlapError: An input shares some of its memory.
    """
    updated = [name for name, array in arrays.items() if _is_same(array, out)]
    others = {name: array for name, array in arrays.items() if name not in updated}
    shared = overlap(out, list(others.values()))
    if shared:
        raise OverlapError(
            "out shares memory with {0}, and is not the same array; pass {0} itself, or a separate "
            "array",
            list(others)[shared - 1],
        )
    return updated


def _is_same(array: Any, out: Any) -> bool:
    """Whether two arrays have the same memory, offset, strides, shape and dtype."""
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
