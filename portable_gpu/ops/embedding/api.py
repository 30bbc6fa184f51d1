"""The public functions of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import flag, real_number, shown, whole
from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArrayIndexError,
    ArraysError,
    DTypeError,
    ShapeError,
)
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.embedding.plan import EmbeddingProblem, Norm, variants
from portable_gpu.ops.floats import floating
from portable_gpu.ops.operation import CallArguments, Invocation, Operation, check_one_context
from portable_gpu.ops.result import check_out, stored
from portable_gpu.ops.variant import bind_best
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.report import ReportSpec
from portable_gpu.runtime.views import View, as_array, check_no_overlap, contiguous_strides
from portable_gpu.typing import of_two

_MOST = (1 << 31) - 1


@of_two
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Gather rows of a matrix by indices: ``weight[input]``.

    Args:
        input: Indices of rows, from 0 on: integers of any shape and strides.
        weight: Shape (rows, columns): float16, bfloat16, float32 or float64, of any strides.
        padding_idx: A row without a gradient; it changes nothing here.  Negative numbers count from
            the end.
        max_norm: If given, rows of ``weight`` that indices name and whose norm is larger are
            multiplied first, in place, by ``max_norm / (norm + 1e-7)``.
        norm_type: The order p of these norms, ``(sum |x|^p)^(1/p)``, which may be infinite.
        out: The array for the result; a fresh one by default.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array of shape (*input.shape, columns): a NumPy array (finished) for
        NumPy arrays, a device array (enqueued) if an operand is on the device.

    Raises:
        ArrayIndexError: An index is not a row; the message has the first one.  For device arrays
            the error is raised when their values are copied to the host.
        DTypeError: ``input`` has no integers, or ``weight`` no real floating numbers.
        ShapeError: ``weight`` is not a matrix; ``out`` has another shape.
        ArgumentError: ``padding_idx`` is not a row; ``max_norm`` is negative; ``norm_type`` is 0 or
            less; there are 2^31 indices or more with ``max_norm``.
        ArgumentTypeError: With ``max_norm``, ``weight`` is not an array that can be changed.
        ReadOnlyError: With ``max_norm``, ``weight`` cannot be written.
        OverlapError: A C-ordered ``out`` shares memory with an operand.  Nothing has been changed
            after an error.

    Cost: one launch; each index and each gathered row read once, the result written once, and
        copied to an ``out`` of another order.  ``max_norm`` costs two launches and the workspace of
        :func:`embedding_backward`, and reads each named row by one work-item.
    Accuracy: exact; norms are summed in float32 (float64 for float64), in the order of columns.
    """
    indices, matrix = as_array(input, "input"), as_array(weight, "weight")
    _padding(padding_idx, matrix.shape[0] if matrix.ndim else 0)
    shape = (*indices.shape, *matrix.shape[1:])
    check_out(out, shape, matrix.dtype, indices, matrix)
    wait_for = events_of(wait_for)
    place: dict[str, Any] = {"engine": engine, "queue": queue, "wait_for": wait_for}
    limit = _limits(max_norm, norm_type, weight)
    if limit is not None:  # which changes the weight before rows are gathered
        check_no_overlap(out, "out", [(indices, "input"), (matrix, "weight")])
        check_one_context({"input": indices, "weight": matrix, "out": out}, engine, queue)
    indices = _flat(_integers(indices, "input"), "input", indices.size, place)
    if limit is not None and matrix.size and indices.size:
        norm, *numbers = limit
        _LIMIT.call((indices,), (norm,), matrix, tuple(numbers), engine, queue, wait_for)
    target = _target(out, (indices.size, shape[-1]))
    result = _GATHER.call((indices, matrix), (), target, (), engine, queue, wait_for)
    return out if target is not None else stored(result.reshape(shape), out, engine, queue)


@of_two
def embedding_backward(
    grad_output: Any,
    indices: Any,
    num_weights: int,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
    *,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of the weight of :func:`embedding`: sums of rows by indices.

    Args:
        grad_output: The gradient of the output, of any strides: shape (*indices.shape, columns).
        indices: The indices that were gathered.
        num_weights: The number of rows of the weight.
        padding_idx: A row whose gradient is 0; negative numbers count from the end.
        scale_grad_by_freq: Whether the sum of a row is divided by the number of its positions.
        out, engine, queue, wait_for: See :func:`embedding`.

    Returns:
        ``out``, or a fresh array of shape (num_weights, columns).

    Raises:
        ArgumentError: ``num_weights`` is negative; there are 2^31 indices or more.
        Others: As :func:`embedding`.

    Cost: two launches and a workspace of 4 bytes for each index, and for each row and chunk of the
        indices (one on a CPU, up to 32 on a GPU); the gradient read once, all rows written once.
    Accuracy: one rounding for each addition, in float32 for 16-bit elements.
    Order: a row's gradients are added in the order of their positions, without atomics: the same
        bits on every run.
    """
    grad, given = as_array(grad_output, "grad_output"), as_array(indices, "indices")
    if not grad.ndim or grad.shape[:-1] != given.shape:
        raise ShapeError(
            f"grad_output has shape {grad.shape} and indices {given.shape}; expected "
            f"{given.shape} and one axis more"
        )
    rows = whole(num_weights, "num_weights")
    if not 0 <= rows <= _MOST or given.size > _MOST:
        raise ArgumentError(
            f"num_weights is {shown(rows)}, and there are {given.size} indices; "
            "expected at least 0 and less than 2^31"
        )
    padding = _padding(padding_idx, rows)
    shape = rows, grad.shape[-1]
    check_out(out, shape, grad.dtype, grad, given)
    place: dict[str, Any] = {"engine": engine, "queue": queue, "wait_for": wait_for}
    flat = _flat(_integers(given, "indices"), "indices", given.size, place)
    matrix = _flat(grad, "grad_output", given.size, place, grad.shape[-1])
    arrays, options = (flat, matrix), (rows, flag(scale_grad_by_freq, "scale_grad_by_freq"))
    target = _target(out, shape)
    result = _SUM.call(arrays, options, target, (padding,), engine, queue, wait_for)
    return out if target is not None else stored(result, out, engine, queue)


def _padding(padding_idx: Any, rows: int) -> int:
    """The row of padding, or -1."""
    if padding_idx is None:
        return -1
    row = whole(padding_idx, "padding_idx")
    if not -rows <= row < rows:
        raise ArgumentError(f"padding_idx is {row}, and there are {rows} rows")
    return row % rows


def _limits(max_norm: Any, norm_type: Any, weight: Any) -> tuple[Norm, float, float] | None:
    """The kind of the norm of rows, its limit and its order; ``None`` without a limit."""
    order = real_number(norm_type, "norm_type")
    if order <= 0:
        raise ArgumentError(f"norm_type is {order}; expected a number above 0")
    if max_norm is None:
        return None
    limit = real_number(max_norm, "max_norm")
    if limit < 0:
        raise ArgumentError(f"max_norm is {limit}; expected a number of at least 0")
    if not isinstance(weight, (np.ndarray, *DEVICE_KINDS)):
        raise ArgumentTypeError(
            f"weight is {shown(weight)}, and max_norm changes it in place; expected an array"
        )
    kinds: dict[float, Norm] = {1.0: "one", 2.0: "two", inf: "infinite"}
    return kinds.get(order, "power"), limit, order


def _integers(array: Any, name: str) -> Any:
    if array.dtype.kind not in "iu":
        raise DTypeError(f"{name} is {array.dtype}; expected integers")
    return array


def _is_plain(array: Any) -> bool:
    """Whether an array is C-ordered."""
    steps = [step * array.dtype.itemsize for step in contiguous_strides(array.shape)]
    pairs = zip(array.shape, array.strides, steps, strict=True)
    return all(n == 1 or stride == step for n, stride, step in pairs)


def _target(out: Any, shape: tuple[int, int]) -> Any:
    """The caller's array as a matrix that kernels write; ``None`` if it needs a copy."""
    return None if out is None or not _is_plain(out) else out.reshape(shape)


def _flat(
    array: Any, name: str, count: int, place: dict[str, Any], columns: int | None = None
) -> Any:
    """The array in C order, as a vector or a matrix: a copy if it has another order."""
    if not _is_plain(array):
        try:
            array = elementwise("x", x=array, **place)
        except ArraysError as error:
            raise error.renamed({"x": name}) from None
    return array.reshape(count if columns is None else (count, columns))


def _vector(columns: int, strides: tuple[int, int], views: Sequence[View]) -> int:
    """The largest number of elements that 16 bytes, rows, strides and addresses allow."""
    itemsize = views[0].dtype.itemsize
    vector = 16 // itemsize if strides[1] == 1 else 1
    while vector > 1 and (
        columns % vector
        or strides[0] % vector
        or any(view.alignment < vector * itemsize for view in views)
    ):
        vector //= 2
    return vector


def _report(rows: int, name: str) -> ReportSpec:
    def check(values: np.ndarray[Any, Any]) -> None:
        position, index = (int(value) for value in values.reshape(-1)[:2])
        if position >= 0:
            raise ArrayIndexError(
                f"{name} has index {index} at position {position} (in C order), which is "
                f"not a row; there are {rows}"
            )

    return ReportSpec((2,), np.dtype(np.int64), check)


def _normalise_gather(arguments: CallArguments) -> Invocation:
    indices, weight = arguments.inputs
    if floating(weight, "weight").ndim != 2:
        raise ShapeError(f"weight has shape {weight.shape}; expected a matrix")
    rows, columns = weight.shape

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        strides = views[1].strides[0], views[1].strides[1]
        problem = EmbeddingProblem(
            element(weight.dtype), element(indices.dtype), indices.size, rows, columns, strides,
            _vector(columns, strides, views[1:]),
        )  # fmt: skip
        return engine.plan(problem, lambda: bind_best(engine, variants(problem, engine.target)))

    return Invocation(
        inputs=(indices, weight),
        names=("input", "weight"),
        shape=(indices.size, columns),
        dtype=weight.dtype,
        plan=plan,
        flop=indices.size * columns,
        out=arguments.out,
        report=_report(rows, "input"),
    )


def _normalise_sum(arguments: CallArguments) -> Invocation:
    indices, grad = arguments.inputs
    rows, by_count = arguments.options
    columns = floating(grad, "grad_output").shape[1]

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        problem = EmbeddingProblem(
            elem=element(grad.dtype), index=element(indices.dtype), count=prod(indices.shape),
            rows=rows, columns=columns, strides=(columns, 1),
            vector=_vector(columns, (columns, 1), views[1:]), backward=True, by_count=by_count,
        )  # fmt: skip
        return engine.plan(problem, lambda: bind_best(engine, variants(problem, engine.target)))

    return Invocation(
        inputs=(indices, grad),
        names=("indices", "grad_output"),
        shape=(rows, columns),
        dtype=grad.dtype,
        plan=plan,
        flop=grad.size,
        scalars=arguments.scalars,
        out=arguments.out,
        report=_report(rows, "indices"),
    )


def _normalise_limit(arguments: CallArguments) -> Invocation:
    (indices,), (norm,), weight = arguments.inputs, arguments.options, arguments.out
    if floating(weight, "weight").ndim != 2:
        raise ShapeError(f"weight has shape {weight.shape}; expected a matrix")
    if indices.size > _MOST:
        raise ArgumentError(f"there are {indices.size} indices; expected less than 2^31")
    rows, columns = weight.shape

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        strides = views[1].strides[0], views[1].strides[1]
        problem = EmbeddingProblem(
            element(weight.dtype), element(indices.dtype), indices.size, rows, columns, strides, 1,
            norm=norm,
        )  # fmt: skip
        return engine.plan(problem, lambda: bind_best(engine, variants(problem, engine.target)))

    return Invocation(
        inputs=(indices,),
        names=("input",),
        shape=weight.shape,
        dtype=weight.dtype,
        plan=plan,
        flop=4 * weight.size,
        scalars=arguments.scalars,
        out=weight,
        out_name="weight",
        reads_out=True,
    )


_GATHER = Operation("embedding", _normalise_gather)
_SUM = Operation("embedding backward", _normalise_sum)
_LIMIT = Operation("embedding limit", _normalise_limit)
