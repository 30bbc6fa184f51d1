"""Every error is of the library's base and of the built-in that NumPy users expect."""

import numpy as np
import pytest

from portable_gpu import errors
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import BuildError, DTypeError, PortableGPUError


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ArgumentError", ValueError),
        ("ShapeError", ValueError),
        ("DTypeError", TypeError),
        ("OverlapError", ValueError),
        ("ReadOnlyError", ValueError),
        ("ContextMismatchError", ValueError),
        ("DeviceNotFoundError", LookupError),
        ("UnsupportedError", NotImplementedError),
        ("DeviceMemoryError", MemoryError),
        ("PolicyError", ValueError),
        ("BuildError", RuntimeError),
    ],
)
def test_bases(name: str, builtin: type[Exception]) -> None:
    error = getattr(errors, name)
    assert issubclass(error, PortableGPUError)
    assert issubclass(error, builtin)


def test_build_error_keeps_source_and_log() -> None:
    error = BuildError("message", "source", "log")
    assert (str(error), error.source, error.log) == ("message", "source", "log")


@pytest.mark.parametrize("dtype", ["U3", "O", "datetime64[s]", ">f4", "V8", np.longdouble])
def test_dtype_without_an_opencl_form(dtype: object) -> None:
    with pytest.raises(DTypeError, match="supported are bool, int8"):
        element(np.dtype(dtype))  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["float32", "f32", "complex128", "bool", "float16"])
def test_dtype_by_name(name: str) -> None:
    dtype = dtype_of(name)
    assert name in (str(dtype), element(dtype).name)


def test_unknown_dtype_name() -> None:
    with pytest.raises(DTypeError, match="'float31' is not known; known are bool"):
        dtype_of("float31")


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    stored = element(ml_dtypes.bfloat16)
    assert (stored.storage, stored.value, stored.itemsize) == ("ushort", "float", 2)


def test_complex_element() -> None:
    stored = element(np.complex64)
    assert (stored.value, stored.components, stored.itemsize) == ("float2", 2, 8)
    assert not stored.needs_fp64
    assert element(np.complex128).needs_fp64
