"""Cases of softmax and cross entropy: oracles, checks, and equivalent calls of other libraries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check, Expected, rounding, rounding_errors, unit
from portable_gpu.checking.inputs import Input
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import Oracle, within
from portable_gpu.dtypes import dtype_of, is_float16_like
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.normalize import softmax as functions
from portable_gpu.ops.normalize.commands.norms import by_autograd, is_backward
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size, random_extents
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def reference(x: Array, *, is_log: bool) -> Array:
    """Return softmax along the last axis, or its logarithm, in double precision."""
    wide = x.astype(np.float64)
    moved = wide - wide.max(axis=-1, keepdims=True)
    total = np.exp(moved).sum(axis=-1, keepdims=True)
    return np.asarray(moved - np.log(total) if is_log else np.exp(moved) / total)


def bound(dtype: np.dtype[Any], expected: Array, *, is_log: bool) -> Array:
    """Return the bound of the errors of the sum, of ``exp`` (a few ulp) and of one rounding."""
    terms = expected.shape[-1] + 16
    size = 1 + np.abs(expected) if is_log else np.abs(expected)
    return np.asarray(terms * unit(dtype) * size + rounding_errors(dtype, size))


def shapes(case: Case) -> tuple[Shape, ...]:
    """Return the shape of the array; for a gradient that of both arrays."""
    return (case.extents,) * (2 if is_backward(case) else 1)


def operands(case: Case, inputs: Operands) -> Operands:
    """Return the array; for a gradient, the gradient of the result, and the result."""
    if not is_backward(case):
        return inputs
    grad, x = inputs
    return grad, reference(x, is_log=_is_log(case)).astype(x.dtype)


def _is_log(case: Case) -> bool:
    return case.operation.startswith("log")


def call(case: Case, on_host: bool) -> PublicCall:
    """Return the call of the public function."""
    return PublicCall(f"nn.{case.operation}{'_backward' * is_backward(case)}")


def oracle(case: Case, inputs: Operands) -> Oracle:
    """Return the oracle, by NumPy in double precision."""
    is_log, dtype = _is_log(case), dtype_of(case.dtype)
    if is_backward(case):
        grad, output = (item.astype(np.float64) for item in inputs)
        powers = np.exp(output) if is_log else output
        total = (grad if is_log else grad * output).sum(axis=-1, keepdims=True)
        size = np.abs(grad if is_log else grad * output).sum(axis=-1, keepdims=True)
        expected = grad - powers * total if is_log else output * (grad - total)
        scale = np.abs(grad) * (1 if is_log else powers) + powers * size
        terms = output.shape[-1] + 16
        return within(expected, terms * unit(dtype) * scale + rounding_errors(dtype, expected))
    expected = reference(inputs[0], is_log=is_log)
    return within(expected, bound(dtype, expected, is_log=is_log))


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the call of the function of that name, if the library (PyTorch) has one."""
    function = getattr(library, case.operation, None)
    if function is None or not is_backward(case):
        return None if function is None else partial(function, *arrays, -1)
    function = getattr(library.ops.aten, f"_{case.operation}_backward_data")
    return partial(function, *arrays, -1, arrays[0].dtype)


def entropy_shapes(case: Case) -> tuple[Shape, ...]:
    """Return the shapes of the logits, and of the numbers from which classes are made."""
    return case.extents, case.extents[:1]


def entropy_operands(case: Case, inputs: Operands) -> Operands:
    """Return the logits and a class for each row; for a gradient, after the result's gradient."""
    classes = case.extents[-1]
    place = (np.abs(inputs[1].astype(np.float64)) * classes).astype(np.int64) % classes
    if is_backward(case):
        return np.ones((), inputs[0].dtype), inputs[0], place
    return inputs[0], place


def entropy_oracle(case: Case, inputs: Operands) -> Oracle:
    """Return the oracle, by NumPy in double precision."""
    x, target = inputs[-2:]
    logs, dtype, rows = reference(x, is_log=True), dtype_of(case.dtype), np.arange(len(x))
    if is_backward(case):
        expected = np.exp(logs)
        size = expected.copy()
        expected[rows, target] -= 1
        size[rows, target] += 1
        expected, size = expected / len(x), size / len(x)
        terms = sum(x.shape[1:]) + 16
        return within(expected, terms * unit(dtype) * size + 2 * rounding_errors(dtype, size))
    expected = np.asarray(-logs[rows, target].mean())
    bound = sum(logs.shape) * unit(dtype) * 8 + rounding(dtype) * 16
    return within(expected, np.asarray(bound))


def entropy_like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the call of PyTorch's function."""
    functional = getattr(getattr(library, "nn", None), "functional", None)
    if functional is None or not is_backward(case):
        return None if functional is None else partial(functional.cross_entropy, *arrays)
    grad, x, target = arrays
    return by_autograd(library, partial(functional.cross_entropy, target=target), grad, x)


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Yield checks of short, medium and long rows in float32, and one in each other dtype."""
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


_MOST_ELEMENTS = {True: 1 << 22, False: 1 << 25}  # by whether the device is a CPU


def _direction(rng: random.Random) -> str:
    return rng.choice(("", "backward"))


def rows(rng: random.Random, on_cpu: bool) -> Size:
    """Rows of two elements or more, forward or backward."""
    extents = random_extents(rng, ((1 << 18, 1), (1 << 17, 2)), _MOST_ELEMENTS[on_cpu])
    return Size(extents, variant=_direction(rng))


def images(rng: random.Random, on_cpu: bool) -> Size:
    """A batch of images with channels, forward or backward."""
    limits = ((64, 2), (1024, 1), (256, 1), (256, 1))
    extents = random_extents(rng, limits, _MOST_ELEMENTS[on_cpu])
    return Size(extents, variant=_direction(rng))


_DTYPES = ("float32", "float16")
ROWS = (RandomSizes("rows", _DTYPES, rows),)
IMAGES = (RandomSizes("images", _DTYPES, images),)
