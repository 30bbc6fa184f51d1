"""Element types: how a NumPy dtype is stored on the device, and in which type it is computed.

``float16`` and ``bfloat16`` are storage types: they are read as 16-bit integers, computed in
``float`` and rounded to nearest even when they are stored.  ``bool`` is stored as ``uchar``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from portable_gpu.arguments import one_of, shown
from portable_gpu.errors import DTypeError, reraise_of_signal


@dataclass(frozen=True)
class Element:
    """One element type of kernels.

    Attributes:
        name: Short name, used in the names of C functions (``f32``, ``c64`` ...).
        storage: OpenCL C type of one stored *component* (complex numbers have two).
        real: OpenCL C type in which one component is computed.
        complex: Whether an element is a pair (re, im).
        itemsize: Bytes of one stored element.
    """

    name: str
    storage: str
    real: str
    complex: bool
    itemsize: int

    @property
    def value(self) -> str:
        """OpenCL C type in which one element is computed (``float2`` for complex64)."""
        return f"{self.real}2" if self.complex else self.real

    @property
    def components(self) -> int:
        """Stored components of one element: 2 for complex, else 1."""
        return 2 if self.complex else 1

    @property
    def boolean(self) -> bool:
        """Whether an element is a truth value."""
        return self.name == "b8"

    @property
    def floating(self) -> bool:
        """Whether the components are floating point."""
        return self.real in ("float", "double")

    @property
    def needs_fp64(self) -> bool:
        """Whether kernels on this element need ``cl_khr_fp64``."""
        return self.real == "double"


#: How products of float32 may be computed: in float32 (``ieee``); or by matrix units, with values
#: rounded to tf32, or with each value split into 2 or 3 parts, by 3 or 6 products.
PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


def check_precision(precision: str) -> str:
    """Return ``precision`` if it is one of :data:`PRECISIONS`.

    Raises:
        ArgumentError: It is not.
    """
    return one_of(precision, PRECISIONS, "precision")


def requested_precision(precision: str | None) -> str | None:
    """Return the precision of a call, which :func:`check_precision` accepts, or ``None``."""
    return None if precision is None else check_precision(precision)


_ELEMENTS: dict[np.dtype[Any], Element] = {
    np.dtype(np.bool_): Element("b8", "uchar", "uchar", False, 1),
    np.dtype(np.int8): Element("i8", "char", "char", False, 1),
    np.dtype(np.int16): Element("i16", "short", "short", False, 2),
    np.dtype(np.int32): Element("i32", "int", "int", False, 4),
    np.dtype(np.int64): Element("i64", "long", "long", False, 8),
    np.dtype(np.uint8): Element("u8", "uchar", "uchar", False, 1),
    np.dtype(np.uint16): Element("u16", "ushort", "ushort", False, 2),
    np.dtype(np.uint32): Element("u32", "uint", "uint", False, 4),
    np.dtype(np.uint64): Element("u64", "ulong", "ulong", False, 8),
    np.dtype(np.float16): Element("f16", "ushort", "float", False, 2),
    np.dtype(np.float32): Element("f32", "float", "float", False, 4),
    np.dtype(np.float64): Element("f64", "double", "double", False, 8),
    np.dtype(np.complex64): Element("c64", "float", "float", True, 8),
    np.dtype(np.complex128): Element("c128", "double", "double", True, 16),
}
#: bfloat16, whose NumPy dtype needs ml_dtypes: no table has it before an array does.
BF16 = Element("bf16", "ushort", "float", False, 2)


def as_dtype(dtype: Any, name: str = "dtype") -> np.dtype[Any]:
    """Convert a dtype, its name or a type to a NumPy dtype.

    Raises:
        DTypeError: NumPy does not know such a dtype.
    """
    if isinstance(dtype, str) and dtype == "bfloat16":
        known = bfloat16()
        dtype = dtype if known is None else known
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except Exception as error:  # NumPy raises several types
        reraise_of_signal(error)
        raise DTypeError(f"{name} is {shown(dtype)}, which is not a dtype: {error}") from error
    return result


def element(dtype: Any) -> Element:
    """The :class:`Element` of a NumPy dtype.

    Raises:
        DTypeError: The dtype has no OpenCL form here (strings, objects, long double ...).
    """
    return _element(dtype if isinstance(dtype, np.dtype) else as_dtype(dtype))


@lru_cache(maxsize=256)
def _element(dtype: np.dtype[Any]) -> Element:
    if is_bfloat16(dtype):
        return BF16
    result = _ELEMENTS.get(dtype.newbyteorder("=") if dtype.byteorder not in "=|" else dtype)
    if result is None or not dtype.isnative:
        names = ", ".join(str(known) for known in _elements())
        raise DTypeError(f"dtype {dtype} is not supported; supported are {names}")
    return result


def _elements() -> dict[np.dtype[Any], Element]:
    """Return the elements of the dtypes that arrays can have."""
    dtype = bfloat16()
    return _ELEMENTS if dtype is None else {**_ELEMENTS, dtype: BF16}


@lru_cache(maxsize=64)
def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an :attr:`Element.name` or of a NumPy name (``"f32"``, ``"float32"``)."""
    for dtype, elem in _ELEMENTS.items():
        if name in (elem.name, str(dtype)):
            return dtype
    brain = bfloat16() if name in (BF16.name, "bfloat16") else None
    if brain is not None:
        return brain
    names = ", ".join(str(known) for known in _elements())
    raise DTypeError(f"dtype {name!r} is not known; known are {names}")


def is_float16_like(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is a 16-bit floating storage type (float16 or bfloat16)."""
    return dtype == np.float16 or is_bfloat16(dtype)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is bfloat16.

    Never compare with :func:`bfloat16`: NumPy takes ``None`` for float64.
    """
    return dtype.kind == "V" and dtype.type.__name__ == "bfloat16"


def bfloat16() -> np.dtype[Any] | None:
    """Return bfloat16, or ``None`` without ml_dtypes (the extra ``bfloat16``).

    The package is looked for in each call: it may be installed after this one was imported.  It is
    imported once, and only where bfloat16 is named: signal handlers that import hang on the locks
    of Python's imports.
    """
    kind = getattr(sys.modules.get("ml_dtypes"), "bfloat16", None)
    if kind is None:
        try:
            from ml_dtypes import bfloat16 as kind
        except ImportError:
            return None
    return np.dtype(kind)
