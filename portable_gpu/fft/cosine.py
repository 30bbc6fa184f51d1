"""Cosine and sine transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, of_kind, one_of, shown
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError
from portable_gpu.linalg.views import joined, parts
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.fft.api import check_for_scipy, one_axis, one_length
from portable_gpu.ops.fft.call import (
    NORMS,
    axes_and_lengths,
    dtype_of_transforms,
    placed,
    whole_numbers,
)
from portable_gpu.ops.fft.cosine import CosineProblem, make_cosine_plan
from portable_gpu.ops.operation import CallArguments, Invocation, Operation
from portable_gpu.ops.reduce.conversion import converter
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import Planning
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import View, as_array, check_output
from portable_gpu.typing import of_one


@of_one
def dct(
    x: Any,
    type: int = 2,  # noqa: A002  # SciPy's name
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The cosine transform of each line of ``x`` along ``axis``, of type 1 to 4.

    With N numbers along the axis (``norm="backward"``):

    * type 1: y[k] = x[0] + (-1)^k x[N-1] + 2 sum_j x[j] cos(pi j k / (N - 1)), 0 < j < N - 1;
    * type 2: y[k] = 2 sum_j x[j] cos(pi (2 j + 1) k / 2 N);
    * type 3: y[k] = x[0] + 2 sum_j x[j] cos(pi j (2 k + 1) / 2 N), j > 0;
    * type 4: y[k] = 2 sum_j x[j] cos(pi (2 j + 1) (2 k + 1) / 4 N).

    Args:
        x: Array of any shape and strides: float32, float64; float16 is computed as float32,
            integers and bool as float64; the real and imaginary parts of a complex array are
            transformed separately.
        type: 1, 2, 3 or 4.
        n: Length of the transform: ``x`` is truncated, or padded with zeros.  Default: the extent
            of ``x`` along ``axis``.
        axis: The axis.
        norm: The scaling.  ``"backward"`` (the default) scales the inverse transform by 1 / M;
            ``"forward"`` scales the forward transform by it; ``"ortho"`` scales both by 1 /
            sqrt(M).  M is 2 N, or 2 (N - 1) for type 1.
        overwrite_x: Whether ``x`` may be overwritten: if its shape and dtype are those of the
            result, the result is stored in its memory.
        workers: Accepted for compatibility with SciPy, and ignored.
        orthogonalize: Whether the first and last elements are scaled so that the matrix is
            orthogonal (except for a factor): x[0] of type 3 and x[0], x[N-1] of type 1 by sqrt(2),
            y[0] of type 2 and y[0], y[N-1] of type 1 by sqrt(1/2).  Default: whether ``norm`` is
            ``"ortho"``.
        out: The array for the result, of its shape and dtype; it may be ``x`` itself.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        Array of the shape of ``x``, with n elements along ``axis``; float32 for inputs in single
        or half precision, else float64 (complex64 and complex128 for complex inputs).  A NumPy
        array (finished) for NumPy inputs, a device array (enqueued) for device arrays.

    Raises:
        ArgumentError: n is below 1 (below 2 for type 1), or ``type`` or ``norm`` is unknown.
        AxisError: ``axis`` is out of range.
        ShapeError: ``out`` has another shape.
        DTypeError: The elements of ``x`` are not numbers, or are long doubles; ``out`` has another
            dtype.
        OverlapError: ``out`` shares memory with ``x``, and is not ``x``.
        UnsupportedError: The call needs double precision, which the device lacks.
        DeviceMemoryError: The result or the workspace cannot be allocated.

    Cost: a transform of n real numbers (2 n for type 1, 4 n for type 4 if n is odd), and two more
        passes over memory that permute its input and multiply its output by roots of unity; for
        type 2, one pass in all if scratch memory holds a line.
    Accuracy: relative error in the 2-norm of about 0.2 eps log2 n.
    Order: the same bits for one target, policy, shape and alignment.
    """
    check_for_scipy(None, workers)
    return _transform(
        x, type, one_length(n), one_axis(axis), norm, False, False, overwrite_x,
        orthogonalize, out, engine, queue, wait_for,
    )  # fmt: skip


@of_one
def idct(
    x: Any,
    type: int = 2,  # noqa: A002  # SciPy's name
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The inverse of :func:`dct`: type 3 undoes type 2, and the others undo themselves.

    Arguments, result, errors, cost and accuracy: see :func:`dct`.
    """
    check_for_scipy(None, workers)
    return _transform(
        x, type, one_length(n), one_axis(axis), norm, False, True, overwrite_x,
        orthogonalize, out, engine, queue, wait_for,
    )  # fmt: skip


@of_one
def dst(
    x: Any,
    type: int = 2,  # noqa: A002  # SciPy's name
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The sine transform of each line of ``x`` along ``axis``, of type 1 to 4.

    With N numbers along the axis (``norm="backward"``):

    * type 1: y[k] = 2 sum_j x[j] sin(pi (j + 1) (k + 1) / (N + 1));
    * type 2: y[k] = 2 sum_j x[j] sin(pi (2 j + 1) (k + 1) / 2 N);
    * type 3: y[k] = (-1)^k x[N-1] + 2 sum_j x[j] sin(pi (j + 1) (2 k + 1) / 2 N), j < N - 1;
    * type 4: y[k] = 2 sum_j x[j] sin(pi (2 j + 1) (2 k + 1) / 4 N).

    M is 2 N, or 2 (N + 1) for type 1; ``orthogonalize`` scales x[N-1] of type 3 and y[N-1] of type
    2.  Other arguments, result, errors, cost and accuracy: see :func:`dct`.
    """
    check_for_scipy(None, workers)
    return _transform(
        x, type, one_length(n), one_axis(axis), norm, True, False, overwrite_x,
        orthogonalize, out, engine, queue, wait_for,
    )  # fmt: skip


@of_one
def idst(
    x: Any,
    type: int = 2,  # noqa: A002  # SciPy's name
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    orthogonalize: bool | None = None,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The inverse of :func:`dst`: type 3 undoes type 2, and the others undo themselves.

    Arguments, result, errors, cost and accuracy: see :func:`dst`.
    """
    check_for_scipy(None, workers)
    return _transform(
        x, type, one_length(n), one_axis(axis), norm, True, True, overwrite_x,
        orthogonalize, out, engine, queue, wait_for,
    )  # fmt: skip


@of_one
def dctn(
    x: Any,
    type: int = 2,  # noqa: A002  # SciPy's name
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    orthogonalize: bool | None = None,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The cosine transform along several axes: :func:`dct` along one after the other.

    Args:
        x, type: See :func:`dct`.
        s: Length of the transform along each of the axes.  Default: the extent of ``x``.
        axes: The axes.  Default: the last ``len(s)``, or all without ``s``.
        norm, overwrite_x, workers, orthogonalize, out, engine, queue, wait_for: See
            :func:`dct`.

    Returns:
        See :func:`dct`.

    Raises:
        ShapeError: ``s`` and ``axes`` differ in length, or ``s`` is longer than ``x`` has axes.
        ArgumentError, AxisError, DTypeError, UnsupportedError, DeviceMemoryError: See :func:`dct`.

    Cost, accuracy, order: the axes are transformed one after another, each as by :func:`dct`.
    """
    check_for_scipy(None, workers)
    return _transform(
        x, type, s, axes, norm, False, False, overwrite_x, orthogonalize,
        out, engine, queue, wait_for,
    )  # fmt: skip


@of_one
def idctn(
    x: Any,
    type: int = 2,  # noqa: A002  # SciPy's name
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    orthogonalize: bool | None = None,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The inverse of :func:`dctn`.

    Arguments, result, errors, cost and accuracy: see :func:`dctn`.
    """
    check_for_scipy(None, workers)
    return _transform(
        x, type, s, axes, norm, False, True, overwrite_x, orthogonalize,
        out, engine, queue, wait_for,
    )  # fmt: skip


@of_one
def dstn(
    x: Any,
    type: int = 2,  # noqa: A002  # SciPy's name
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    orthogonalize: bool | None = None,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The sine transform along several axes: :func:`dst` along one after the other.

    Arguments, result, errors, cost and accuracy: see :func:`dctn`.
    """
    check_for_scipy(None, workers)
    return _transform(
        x, type, s, axes, norm, True, False, overwrite_x, orthogonalize,
        out, engine, queue, wait_for,
    )  # fmt: skip


@of_one
def idstn(
    x: Any,
    type: int = 2,  # noqa: A002  # SciPy's name
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
    *,
    orthogonalize: bool | None = None,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """The inverse of :func:`dstn`.

    Arguments, result, errors, cost and accuracy: see :func:`dctn`.
    """
    check_for_scipy(None, workers)
    return _transform(
        x, type, s, axes, norm, True, True, overwrite_x, orthogonalize,
        out, engine, queue, wait_for,
    )  # fmt: skip


def _transform(
    x: Any,
    kind: int,
    s: Any,
    axes: Any,
    norm: str | None,
    sine: bool,
    inverse: bool,
    overwrite_x: bool,
    orthogonalize: bool | None,
    out: Any,
    engine: Engine | Planning | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    requested_lengths, requested_axes = whole_numbers(s, "s"), whole_numbers(axes, "axes")
    options = (
        kind,
        requested_lengths,
        requested_axes,
        norm,
        sine,
        inverse,
        orthogonalize,
        flag(overwrite_x, "overwrite_x"),
    )
    if type(x) not in (np.ndarray, *DEVICE_KINDS):
        x = as_array(x, "x")
    if requested_axes == () or not x.shape:  # there is nothing to transform
        _normalise(CallArguments((x,), options, None, ()))
        if out is None:
            return x
        place: dict[str, Any] = {"engine": engine, "queue": queue, "wait_for": wait_for}
        return elementwise("x", x=x, dtype=x.dtype, out=out, **place)
    if x.dtype.kind == "c":
        places, lengths = axes_and_lengths(
            as_array(x, "x"), requested_lengths, requested_axes, "c2c"
        )
        options = kind, lengths, places, norm, sine, inverse, orthogonalize, False
        if out is None:
            return joined(_COSINE.call((parts(x),), options, None, (), engine, queue, wait_for))
        shape = list(x.shape)
        for axis, n in zip(places, lengths, strict=True):
            shape[axis] = n
        check_output(out, tuple(shape), x.dtype, "out", isinstance(x, np.ndarray))
        pairs = parts(x)
        result = pairs if out is x else parts(out)
        _COSINE.call((pairs,), options, result, (), engine, queue, wait_for)
        return out
    return _COSINE.call((x,), options, out, (), engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    kind, requested_lengths, requested_axes, norm, sine, inverse, orthogonalize, overwrite_x = (
        arguments.options
    )
    array = as_array(arguments.inputs[0], "x")
    dtype = dtype_of_transforms(array.dtype, "c2c")
    places, lengths = axes_and_lengths(array, requested_lengths, requested_axes, "c2c")
    computed_type = _type(kind, inverse)
    mode = one_of("backward" if norm is None else norm, NORMS, "norm")
    orthogonal = mode == "ortho" if orthogonalize is None else flag(orthogonalize, "orthogonalize")
    scale = _scale(mode, computed_type, sine, inverse, lengths)
    shape = list(array.shape)
    for axis, n in zip(places, lengths, strict=True):
        shape[axis] = n

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        view, result = views
        count = [min(n, shape[a]) if a in places else n for a, n in enumerate(view.shape)]
        problem = CosineProblem(
            type=computed_type, sine=sine, orthogonal=orthogonal, real=element(dtype), axes=places,
            lengths=lengths, shape_in=tuple(count), strides_in=view.strides,
            strides_out=result.strides,
        )  # fmt: skip
        return engine.plan(problem, lambda: make_cosine_plan(engine, problem))

    out, out_name, overwritten = placed(arguments, array, tuple(shape), dtype, overwrite_x)
    return Invocation(
        inputs=(array,),
        names=("x",),
        shape=tuple(shape),
        dtype=dtype,
        plan=plan,
        flop=8 * prod(shape) * 20,
        scalars=(scale,),
        out=out,
        out_name=out_name,
        reads_out=overwritten,
        in_place=overwritten,
        convert=None if array.dtype == dtype else converter(dtype),
    )


_COSINE = Operation("cosine transform", _normalise)


def _type(kind: Any, inverse: bool) -> int:
    """Return the type that is computed: the inverse of type 2 is type 3, and vice versa.

    Raises:
        ArgumentTypeError: It is not an integer.
        ArgumentError: There is no such type.
    """
    of_kind(kind, (int, np.integer), "type", "1, 2, 3 or 4")
    if kind not in (1, 2, 3, 4):
        raise ArgumentError(f"type is {shown(kind)}; types are 1, 2, 3 and 4")
    return {2: 3, 3: 2}.get(int(kind), int(kind)) if inverse else int(kind)


def _scale(mode: str, kind: int, sine: bool, inverse: bool, lengths: Sequence[int]) -> float:
    """Return the factor of a transform's results.

    Raises:
        ArgumentError: A transform of type 1 has too few numbers.
    """
    extra = 0 if kind != 1 else 1 if sine else -1
    points = prod(2 * (n + extra) for n in lengths)
    if not points:
        raise ArgumentError(f"the lengths are {tuple(lengths)}; type 1 of cosines wants 2 or more")
    if mode == "ortho":
        return 1 / sqrt(points)
    return 1 / points if (mode == "backward") == inverse else 1.0
