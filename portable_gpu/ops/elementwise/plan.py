"""Elementwise plans: an expression bound to shapes and strides."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import copysign, inf, prod
from typing import Any

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.dtypes import Element, dtype_of
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.ops.elementwise.kernels import ElementwiseKernel, render
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine


def elementwise_plan(
    engine: Engine, problem: ElementwiseProblem, kernel: ElementwiseKernel
) -> OneLaunch:
    """Return the plan of an expression bound to shapes and strides.

    The operands are the input arrays, then the output.  Its calls raise ArgumentError if a scalar
    does not fit the dtype computed in.

    Raises:
        UnsupportedError: Double precision is needed and the device has none.
        BuildError: The driver refused the kernel; mostly the cause is in the expression.
    """
    target = engine.target
    if problem.needs_fp64 and not target.fp64:
        raise UnsupportedError(
            f"elementwise needs double precision, which {target.facts.name} lacks (no "
            "cl_khr_fp64); use arrays of float32, or Python scalars"
        )
    form, axes = kernel.form, kernel.axes
    names = [*(f"a{k}" for k in range(len(problem.inputs))), "out"]
    constants = {
        "parts": kernel.parts,
        "rows_each": kernel.rows_each, "columns_each": kernel.columns_each,
        "rows": kernel.rows, "columns": axes[-1].size,
    }  # fmt: skip
    for k, axis in enumerate(axes[:-1]):
        constants[f"outer{k}_size"] = axis.size
        for name, step in zip(names, axis.strides, strict=True):
            constants[f"{name}_outer{k}"] = step
    for name, step in zip(names, axes[-1].strides, strict=True):
        constants[f"{name}_stride"] = step
    return OneLaunch(
        engine, render(problem, target, kernel), "elementwise", constants,
        [f"{name}_data" for name in names], (kernel.groups * form.group_size,), (form.group_size,),
        offsets=[f"{name}_offset" for name in names], scalars=dict.fromkeys(problem.parts, 0),
        convert=Packing(problem.compute, problem.scalars), as_bits=problem.parts,
        flop=prod(problem.shape) * max(1, problem.names_read - 1), nbytes=problem.nbytes,
    )  # fmt: skip


_ORDER: Any = "little" if np.little_endian else "big"
_REFUSALS = (OverflowError, TypeError, ValueError)


# -- scalars: a launch takes their bits, which tell -0.0 from 0.0


class Packing:
    """Converts the scalars of a call to unsigned integers that have the same bits."""

    def __init__(self, compute: Element, names: tuple[str, ...]) -> None:
        """Keep the dtype that scalars are converted to, and their names for error messages."""
        self._names, self._dtype = names, dtype_of(compute.name)
        self._parts = _parts(compute)

    def __call__(self, values: tuple[Any, ...]) -> tuple[int, ...]:
        """The bits of each scalar; a complex one gives two integers.

        Raises:
            ArgumentError: A Python number is outside the dtype's range.
        """
        bits: tuple[int, ...] = ()
        for k, value in enumerate(values):
            if isinstance(value, np.generic):
                with np.errstate(all="ignore"):  # as NumPy's casts
                    value = value.astype(self._dtype)
            try:
                bits += self._parts(value)
            except _REFUSALS:
                raise ArgumentError(
                    f"{self._names[k]} is {shown(value)}; expected a number {_range(self._dtype)}"
                ) from None
        return bits


def _range(dtype: np.dtype[Any]) -> str:
    """The range of numbers that a dtype holds, for messages."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return f"from {info.min} to {info.max}, which the arrays' dtype can hold"
    return f"that {dtype}, the arrays' dtype, can hold"


def _parts(compute: Element) -> Callable[[Any], tuple[int, ...]]:
    """Make the function that returns a number's bits; it raises for a number out of range."""
    of_real = _of_double if compute.real == "double" else _of_float
    if compute.complex:

        def of_complex(value: Any) -> tuple[int, ...]:
            value = complex(value)
            return of_real(value.real), of_real(value.imag)

        return of_complex
    if compute.floating and compute.itemsize == 2:
        narrow = dtype_of(compute.name).type

        def of_narrow(value: Any) -> tuple[int, ...]:
            with np.errstate(over="ignore"):
                return (of_real(float(narrow(float(value)))),)

        return of_narrow
    if compute.floating:
        return lambda value: (of_real(float(value)),)
    if compute.boolean:
        return lambda value: (int(bool(value)),)
    width = 8 * compute.itemsize
    span = 1 << width
    minimum = 0 if compute.real[0] == "u" else -span // 2
    mask = (1 << max(width, 32)) - 1

    def of_integer(value: Any) -> tuple[int, ...]:
        whole = int(value)
        if not minimum <= whole < minimum + span:
            raise OverflowError
        return (whole & mask,)

    return of_integer


def _of_float(value: float) -> int:
    try:
        packed = struct.pack("=f", value)
    except OverflowError:  # beyond float's range
        packed = struct.pack("=f", copysign(inf, value))
    return int.from_bytes(packed, _ORDER)


def _of_double(value: float) -> int:
    return int.from_bytes(struct.pack("=d", value), _ORDER)
