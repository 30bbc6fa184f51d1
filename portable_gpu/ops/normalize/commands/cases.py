"""Cases of softmax: their oracles, checks, and the same calls of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check, Expected, rounding, unit
from portable_gpu.checking.inputs import Input
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import Oracle, within
from portable_gpu.dtypes import dtype_of, is_float16_like
from portable_gpu.ops.normalize import softmax as functions
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def reference(x: Array, *, is_log: bool) -> Array:
    """Softmax along the last axis, or its logarithm, in double precision."""
    wide = x.astype(np.float64)
    moved = wide - wide.max(axis=-1, keepdims=True)
    total = np.exp(moved).sum(axis=-1, keepdims=True)
    return np.asarray(moved - np.log(total) if is_log else np.exp(moved) / total)


def bound(dtype: np.dtype[Any], expected: Array, *, is_log: bool) -> Array:
    """The bound of the errors: the sum's, a few ulp of ``exp``, and one rounding."""
    terms = expected.shape[-1] + 16
    size = 1 + np.abs(expected) if is_log else np.abs(expected)
    return np.asarray(
        terms * unit(dtype) * size + rounding(dtype) * size + np.finfo(np.float32).tiny
    )


def oracle(case: Case, inputs: Operands) -> Oracle:
    """NumPy in double precision."""
    is_log = case.operation.startswith("log")
    expected = reference(inputs[0], is_log=is_log)
    return within(expected, bound(dtype_of(case.dtype), expected, is_log=is_log))


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """By the function of the name, which PyTorch has."""
    function = getattr(library, case.operation, None)
    return None if function is None else partial(function, *arrays, -1)


def layer_oracle(case: Case, inputs: Operands) -> Oracle:
    """NumPy in double precision."""
    x, dtype = inputs[0].astype(np.float64), dtype_of(case.dtype)
    centred = x - x.mean(axis=-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    size = 4 + np.abs(expected)
    return within(expected, (x.shape[-1] + 30) * unit(dtype) * size + rounding(dtype) * size)


def layer_like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """By PyTorch's function."""
    functional = getattr(getattr(library, "nn", None), "functional", None)
    if functional is None:
        return None
    return partial(functional.layer_norm, arrays[0], case.extents[-1:])


def entropy_operands(case: Case, inputs: Operands) -> Operands:
    """The logits, and a class for each row."""
    classes = case.extents[-1]
    place = (np.abs(inputs[1].astype(np.float64)) * classes).astype(np.int64) % classes
    return inputs[0], place


def entropy_oracle(case: Case, inputs: Operands) -> Oracle:
    """NumPy in double precision."""
    logs = reference(inputs[0], is_log=True)
    expected = np.asarray(-logs[np.arange(len(logs)), inputs[1]].mean())
    dtype = dtype_of(case.dtype)
    bound = sum(logs.shape) * unit(dtype) * 8 + rounding(dtype) * 16
    return within(expected, np.asarray(bound))


def entropy_like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """By PyTorch's function."""
    functional = getattr(getattr(library, "nn", None), "functional", None)
    return None if functional is None else partial(functional.cross_entropy, *arrays)


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Short, medium and long rows in float32; one shape in each other dtype."""
    for shape in ((300, 10), (70, 1000), (3, 70_001)):
        yield _check("softmax", shape, np.dtype(np.float32))
    for dtype in dtypes:
        if (dtype.kind == "f" or is_float16_like(dtype)) and dtype != np.float32:
            yield _check("log_softmax", (70, 1000), dtype)


def _check(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Check:
    x, is_log = Input(dtype, shape), name == "log_softmax"

    def run(engine: Engine) -> Any:
        return getattr(functions, name)(x.array(engine), engine=engine)

    def expected() -> Expected:
        value = reference(x.host(), is_log=is_log)
        return Expected(value, bound(dtype, value, is_log=is_log), dtype)

    return Check(name, str(x), run, expected)
