"""Checks of transforms: the error of each transform, relative to its norm, is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from portable_gpu.checking.check import Check, Condition
from portable_gpu.checking.inputs import Input, View
from portable_gpu.checking.oracle import by_norm, wide_dtype
from portable_gpu.ops.fft.call import transform
from portable_gpu.ops.fft.commands.cases import bound_of, transformed
from portable_gpu.runtime.engine import Engine

#: Small lengths for each decomposition that need few kernels: length 1, each set of butterflies, a
#: prime without a butterfly, and two passes.
_LENGTHS = (1, 16, 60, 143, 17, 512)


def forward(
    shape: tuple[int, ...],
    dtype: Any,
    axes: tuple[int, ...] = (-1,),
    *,
    real: bool = False,
    view: View = "numpy",
) -> Check:
    """A check of ``fft`` or ``rfft`` along some axes."""
    dtype = np.dtype(dtype)
    x = Input(dtype, shape, view)
    name = "rfft" if real else "fft"

    def run(engine: Engine) -> Any:
        return transform("r2c" if real else "c2c", x.array(engine), None, axes, None, engine=engine)

    def expected() -> Condition:
        values = transformed(x.host(), axes, real)
        bound = bound_of(dtype, [shape[axis] for axis in axes])
        result_dtype = np.result_type(dtype, np.complex64)
        return Condition(by_norm(values, bound, axes), values.shape, result_dtype)

    return Check(name, f"{x}, {_along(axes)}", run, expected)


def back(
    shape: tuple[int, ...], dtype: Any, axes: tuple[int, ...] = (-1,), *, view: View = "numpy"
) -> Check:
    """A check of the inverse of ``rfft``, whose result has shape ``shape``."""
    dtype = np.dtype(dtype)
    half = list(shape)
    half[axes[-1]] = shape[axes[-1]] // 2 + 1
    lengths = [shape[axis] for axis in axes]
    x = Input(np.result_type(dtype, np.complex64), tuple(half), view)

    def run(engine: Engine) -> Any:
        return transform(
            "c2r", x.array(engine), lengths, axes, None, inverse=True, engine=engine
        )  # fmt: skip

    def expected() -> Condition:
        wide = x.host().astype(wide_dtype(x.dtype))
        values = np.asarray(np.fft.irfftn(wide, lengths, axes))
        return Condition(by_norm(values, bound_of(dtype, lengths), axes), shape, dtype)

    return Check(
        "rfft", f"{x}, back to {' x '.join(map(str, shape))}, {_along(axes)}", run, expected
    )


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Yield checks of all decompositions in single precision, some in double, axes and layouts."""
    for n in _LENGTHS:
        yield forward((5, n), "complex64")
        yield forward((5, n), "float32", real=True)
        yield back((5, n), "float32")
    yield forward((40, 60), "complex64", view="device")
    yield forward((30, 70), "complex64", (0,), view="fortran")
    yield forward((21, 50, 9), "complex64", (1,), view="stepped")
    yield forward((12, 64), "float32", (0,), view="reversed")
    yield forward((24, 35, 18), "complex64", (0, 1, 2), view="device")
    yield forward((24, 36), "float32", (0, 1), real=True)
    yield back((24, 35), "float32", (0, 1), view="device")
    if np.dtype(np.complex128) in dtypes:
        yield forward((5, 17), "complex128")
        yield forward((5, 60), "complex128")
        yield forward((5, 60), "float64", real=True)
        yield back((5, 60), "float64")


def _along(axes: tuple[int, ...]) -> str:
    return f"ax{'i' if len(axes) == 1 else 'e'}s {', '.join(map(str, axes))}"
