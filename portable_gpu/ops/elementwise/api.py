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
# A call of a function such as exp takes a CPU about as long as 60 operations.
_CALL, _CALL_FLOP = re.compile(r"\w\s*\("), 60


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
    arrays, kinds, numbers = _sorted(inputs, out)
    options = expression, tuple(inputs), kinds, dtype, compute, False
    return _ELEMENTWISE.call(arrays, options, out, numbers, engine, queue, wait_for)


def _sorted(
    inputs: Mapping[str, Any], out: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...] | None, tuple[Any, ...]]:
    """Return the inputs that are arrays, the kinds of all inputs, and the numbers.

    The kinds are ``None`` where all inputs are arrays, none of which is ``out``.
    A kind is ``_ARRAY``, ``_OUT`` of an input that is ``out`` itself, or the type of a number.
    Numbers are Python's, NumPy's, or arrays of NumPy without axes.
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
    updated = [] if out is None else inputs_that_are(out, arrays)
    fresh = {name: array for name, array in arrays.items() if name not in updated}

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        problem = ElementwiseProblem(
            expression,
            tuple(fresh),
            tuple(element(view.dtype) for view in views[:-1]),
            tuple(updated),
            tuple(numbers),
            element(compute_dtype),
            element(result_dtype),
            shape,
            tuple(spread(view, shape) for view in views),
            1 if engine.target.is_cpu else min(16, *(view.alignment for view in views)),
        )
        return engine.plan(problem, lambda: make_plan(engine, problem))

    return Invocation(
        inputs=tuple(fresh.values()),
        names=tuple(fresh),
        shape=shape,
        dtype=result_dtype,
        plan=plan,
        flop=prod(shape) * (len(names) + _CALL_FLOP * len(_CALL.findall(expression))),
        scalars=arguments.scalars,
        out=out,
        reads_out=bool(updated),
        in_place=True,
        computes=(compute_dtype,),
    )


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
    """The kind of an expression's result: ``mask``, ``complex``, or None for other numbers."""
    of = "int" if compute.boolean else compute.value
    parameters = tuple((name, of) for name in names)
    return Function("f", expression, parameters, of, of, boolean=compute.boolean).kind


def common_of(arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> np.dtype[Any]:
    """Return the dtype in which an expression is computed."""
    return common_dtype(
        {name: array.dtype for name, array in arrays.items()}
        | {name: getattr(value, "dtype", type(value)) for name, value in numbers.items()}
    )


def inputs_that_are(out: Any, arrays: dict[str, Any]) -> list[str]:
    """Return the names of the inputs that are the output array itself.

    Raises:
        OverlapError: An input shares some of its memory.
    """
    updated = [name for name, array in arrays.items() if _is_same(array, out)]
    others = {name: array for name, array in arrays.items() if name not in updated}
    shared = overlap(out, list(others.values()))
    if shared:
        name = list(others)[shared - 1]
        raise OverlapError(
            f"out shares memory with {name}, and is not the same array; pass {name} itself, or a "
            "separate array"
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
