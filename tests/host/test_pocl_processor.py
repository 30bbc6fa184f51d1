"""The processor's name that PoCL compiles for."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from portable_gpu.runtime import pocl_processor
from portable_gpu.runtime.pocl import NAME
from portable_gpu.runtime.pocl_binary import Driver
from portable_gpu.runtime.pocl_processor import name_processor, rename, version

ZEN5 = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"
AVX2 = "flags\t\t: fpu avx avx2 bmi1 bmi2 f16c fma movbe"


class Structure:
    """A device's structure: small numbers, addresses of nothing, other names, and the name."""

    def __init__(self, name: bytes = b"generic") -> None:
        self.strings = [ctypes.create_string_buffer(text) for text in (b"generics", b"", name)]
        places = [ctypes.addressof(string) for string in self.strings]
        self.words = (ctypes.c_uint64 * 128)(3, 2**64 - 1, 8, 1 << 46, *places)
        self.int_ptr = ctypes.addressof(self.words)

    @property
    def name(self) -> bytes:
        return self.strings[-1].value


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets what /proc/cpuinfo says."""

    def put(line: str) -> None:
        monkeypatch.setattr(pocl_processor.Path, "read_text", lambda self: f"a : b\n{line}\n")
        pocl_processor._name.cache_clear()

    yield put
    pocl_processor._name.cache_clear()


@pytest.mark.parametrize("name", ["skx", "haswell", "x86-64"])
def test_renamed_in_place(name: str) -> None:
    device = Structure()
    rename(device.int_ptr, name)
    assert device.name == name.encode()
    assert [string.value for string in device.strings[:2]] == [b"generics", b""]


def test_other_names_stay() -> None:
    device = Structure(b"znver3")
    rename(device.int_ptr, "skx")
    assert device.name == b"znver3"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"{AVX2} avx512f avx512bw avx512cd avx512dq avx512vl", "skx"),
        (f"{AVX2} avx512f", "haswell"),
        (AVX2, "haswell"),
        ("flags : fpu sse2", "x86-64"),
        ("no such line", "x86-64"),
    ],
)
def test_the_name_is_of_what_the_processor_has(flags: Any, line: str, name: str) -> None:
    flags(line)
    device: Any = Structure()
    device.version = ZEN5
    assert version(device) == ZEN5.replace("generic", name)
    name_processor(device)
    assert device.name == name.encode()


@pytest.mark.parametrize(
    "text",
    [
        "OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-znver3",
        "OpenCL 3.0 PoCL HSTR: cpu-x86_64-pc-linux-gnu-generic",  # PoCL 4 takes care of it
        "OpenCL 3.0 PoCL HSTR: pthread-aarch64-unknown-linux-gnu-generic",  # clang knows that
        "OpenCL 3.1 (Build 0)",
    ],
)
def test_devices_that_need_no_name(text: str) -> None:
    device: Any = SimpleNamespace(version=text)  # nothing else of it is read
    assert version(device) == text
    name_processor(device)


def test_binaries_have_the_hash_of_the_name_that_pocl_reports(flags: Any) -> None:
    flags(f"{AVX2} avx512f")
    platform = SimpleNamespace(name=NAME, version="OpenCL 3.0 PoCL 3.0-rc2  Linux, LLVM 14.0.6")
    device: Any = SimpleNamespace(version=ZEN5, name="pthread-AMD EPYC", platform=platform)
    driver = Driver.of(device)
    assert driver is not None
    assert driver.device == ("-AMD EPYC", "-x86_64-unknown-linux-gnu-haswell")
    assert driver.hash.hex() == "c0db09e49c56aa49"  # as in the header of a binary that PoCL made
