"""Every error is of the library's base and of the built-in that NumPy users expect."""

from __future__ import annotations

import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from portable_gpu import dtypes, errors
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import BuildError, DTypeError, NumPyAxisError, PortableGPUError
from portable_gpu.ops.fft.call import dtype_of_transforms
from portable_gpu.runtime.build_message import build_message

if TYPE_CHECKING:
    import pyopencl as cl

    from portable_gpu.codegen.specialization import Specialization


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ArgumentError", ValueError),
        ("ShapeError", ValueError),
        ("ArgumentTypeError", TypeError),
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


@pytest.mark.parametrize(
    "log",
    [
        "error: /tmp/a b_1.cl:3:9: expected expression\nDevice x failed to build the program",
        "<kernel>:1:2: warning: no use\n<kernel>:3:9: error: expected expression\n    v = (v +);",
        "1:3:9: error: expected expression\n",
        "3:9: fatal error: expected expression\n",
    ],
    ids=["PoCL", "NVIDIA", "Intel", "no file"],
)
def test_a_build_error_ends_with_what_the_compiler_names(log: str) -> None:
    spec = cast(
        "Specialization", SimpleNamespace(name="a/b", text="void f()\n{\n  v = (v +);\n}\n")
    )
    device = cast("cl.Device", SimpleNamespace(name="a device"))
    *_, line, words = build_message(spec, log, device).splitlines()
    assert line == "line 3:  v = (v +);"
    assert words == "    expected expression"


def test_a_log_that_names_no_line() -> None:
    spec = cast("Specialization", SimpleNamespace(name="a/b", text="x"))
    device = cast("cl.Device", SimpleNamespace(name="a device"))
    message = build_message(spec, "\n".join(f"word {i}" for i in range(99)), device)
    assert message.endswith("word 98")
    assert len(message.splitlines()) < 15


def test_an_axis_error_is_numpys() -> None:
    with pytest.raises(IndexError):
        raise errors.AxisError("axis 3 is out of range")
    with pytest.raises(NumPyAxisError, match=r"^axis 3 is out of range$") as caught:
        raise errors.AxisError("axis 3 is out of range")
    assert isinstance(caught.value, errors.ShapeError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == "axis 3 is out of range"


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


def test_float64_is_no_bfloat16_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtypes, "bfloat16", lambda: None)
    assert not dtypes.is_bfloat16(np.dtype(np.float64))
    assert not dtypes.is_float16_like(np.dtype(np.float64))
    assert dtype_of_transforms(np.dtype(np.float64), "r2c") == np.float64
    assert dtype_of_transforms(np.dtype(np.float64), "c2r") == np.complex128


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    stored = element(ml_dtypes.bfloat16)
    assert (stored.storage, stored.value, stored.itemsize) == ("ushort", "float", 2)


def test_names_of_other_dtypes_do_not_import_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads and signal handlers that import a package hang on the locks of Python's imports."""
    monkeypatch.setattr(dtypes, "bfloat16", lambda: pytest.fail("bfloat16 was looked for"))
    found = [dtypes.dtype_of(name) for name in ("f32", "float64", "bool")]
    assert [str(dtype) for dtype in found] == ["float32", "float64", "bool"]
    assert element(np.float16).name == "f16"


def test_ml_dtypes_may_be_imported_later() -> None:
    """It is not there when this package is imported, and is installed afterwards."""
    pytest.importorskip("ml_dtypes")
    code = (
        "import sys\n"
        "sys.modules['ml_dtypes'] = None\n"
        "from portable_gpu.dtypes import as_dtype, bfloat16, dtype_of, element\n"
        "assert bfloat16() is None\n"
        "del sys.modules['ml_dtypes']\n"
        "assert dtype_of('bf16') == as_dtype('bfloat16') == bfloat16()\n"
        "import ml_dtypes\n"
        "assert element(ml_dtypes.bfloat16).name == 'bf16'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_complex_element() -> None:
    stored = element(np.complex64)
    assert (stored.value, stored.components, stored.itemsize) == ("float2", 2, 8)
    assert not stored.needs_fp64
    assert element(np.complex128).needs_fp64
