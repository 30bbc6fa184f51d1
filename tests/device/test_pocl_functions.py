"""PoCL 3.0 compiles a kernel once, and without the header of all functions."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from device_arrays import launch

import portable_gpu as pg
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError
from portable_gpu.ops.registry import CATALOGUE
from portable_gpu.runtime import (
    opencl_functions,
    pocl,
    pocl_bodies,
    pocl_entries,
    pocl_functions,
    program,
)
from portable_gpu.runtime.compiler import compiled
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.pocl_bodies import wrapped
from portable_gpu.runtime.program import ProgramCache

pytestmark = pytest.mark.divided("functions of PoCL")

_SUM = """
import numpy as np
import portable_gpu as pg
print(pg.sum(np.ones(1000, "f4")))
"""
_FORCED = """
import numpy as np
import portable_gpu as pg
x = np.ones(500, "f4")
print(pg.elementwise("x + x", x=x, engine=pg.Engine(device_class="generic")).sum())
"""
_VARIABLE = "POCL_WORK_GROUP_SPECIALIZATION"


@pytest.fixture(autouse=True)
def _tried(engine: Engine) -> None:
    if not pocl_functions.is_tried(engine.device.platform):
        pytest.skip("is of PoCL 3.0")


def libraries(
    folder: Path, own: str, value: str | None = None, program: str = _SUM
) -> dict[str, set[int]]:
    """The kernels in PoCL's cache after a sum, and the different files of each."""
    environment = os.environ | {
        "POCL_CACHE_DIR": str(folder / "pocl"),
        "PORTABLE_GPU_CACHE": own,
        _VARIABLE: value or "",
    }
    environment.pop("PYOPENCL_BUILD_OPTIONS", None)
    if value is None:
        del environment[_VARIABLE]
    (folder / "pocl").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1000.0\n"
    result: dict[str, set[int]] = {}
    for file in folder.glob("pocl/*/*/*/*/*.so"):
        result.setdefault(file.stem, set()).add(file.stat().st_ino)
    return result


def test_one_library_a_kernel(tmp_path: Path) -> None:
    """PoCL inlines the kernel, which calls the body, in two others."""
    folder = str(tmp_path / "own")
    assert [len(files) for files in libraries(tmp_path, folder).values()] == [1]
    (library, *_) = tmp_path.glob("pocl/*/*/reduce_rows/0-0-0/reduce_rows.so")
    sizes = symbols(library.read_bytes())
    kernels = [size for name, size in sizes.items() if name.startswith("_pocl_kernel_")]
    assert len(kernels) == 3
    assert max(kernels) < 500
    assert library.stat().st_size > 2000
    shutil.rmtree(tmp_path / "pocl")  # the program is loaded from its binary now
    assert [len(files) for files in libraries(tmp_path, folder).values()] == [1]


def test_one_library_without_our_cache(tmp_path: Path) -> None:
    assert [len(files) for files in libraries(tmp_path, "off").values()] == [1]
    assert not [*tmp_path.glob("pocl/*/*/*/0-0-0")]  # of the program's binary


def test_one_library_a_kernel_of_a_forced_class(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    for _ in range(2):
        result = libraries(tmp_path, str(folder), program=_FORCED)
        assert [len(files) for files in result.values()] == [1]
    assert not [path for path in folder.glob("*") if b"poclbin" in path.read_bytes()]
    assert not [*tmp_path.glob("pocl/*/*/*/0-0-0")]


def test_the_variable_of_the_user_decides(tmp_path: Path) -> None:
    assert [len(files) for files in libraries(tmp_path, "off", "1").values()] == [1]
    assert [len(files) for files in libraries(tmp_path, str(tmp_path / "own"), "1").values()] == [2]


def symbols(library: bytes) -> dict[str, int]:
    """The sizes of what a library defines, in bytes."""
    (sections,) = struct.unpack_from("<Q", library, 40)
    width, count = struct.unpack_from("<2H", library, 58)
    rows = [struct.unpack_from("<2I4Q2I2Q", library, sections + width * k) for k in range(count)]
    result = {}
    for _, kind, _, _, offset, size, link, *_ in rows:
        names = rows[link][4]
        for at in range(offset, offset + size if kind == 11 else offset, 24):  # SHT_DYNSYM
            name, _, _, _, length = struct.unpack_from("<I2BH8xQ", library, at)
            end = library.index(b"\0", names + name)
            result[library[names + name : end].decode()] = length
    return result


def test_what_is_not_there_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_VARIABLE, raising=False)
    entry = tmp_path / "entry"
    monkeypatch.setattr(pocl_functions.pocl_entries, "entry_of", lambda _: entry)
    text = wrapped(
        "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\nvoid copy(int n)\n{\n}\n", 16
    )
    pocl_functions.share(b"", lambda: text)
    assert not entry.exists()
    (entry / "copy").mkdir(parents=True)
    pocl_functions.share(b"", lambda: text)
    library = entry / "copy" / "0-0-0" / "copy.so"
    library.parent.mkdir()
    library.write_bytes(b"code")
    pocl_functions.share(b"", lambda: text)
    links = [entry / "copy" / name / "copy.so" for name in pocl_functions._NAMES]
    assert all(link.samefile(library) for link in links)
    pocl_functions.share(b"", pytest.fail)  # it needs no text where the links are
    links[0].unlink()
    links[0].write_bytes(b"PoCL's own")
    pocl_functions.share(b"", lambda: text)
    assert links[0].read_bytes() == b"PoCL's own"


class Builds:
    """The texts and options that a program cache compiles."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[tuple[str | bytes, tuple[str, ...]]] = []
        monkeypatch.setattr(program, "compiled", self._compiled)

    def _compiled(
        self, context: Any, device: Any, content: str | bytes, options: Sequence[str]
    ) -> Any:
        self.found.append((content, tuple(options)))
        return compiled(context, device, content, options)


@pytest.mark.parametrize(
    ("operation", "dtype"),
    [("gemv", "float64"), ("sum", "float16"), ("gemm", "float32"), ("elementwise", "complex64")],
)
def test_machine_code_is_that_with_the_header(
    optimised: Engine, monkeypatch: pytest.MonkeyPatch, operation: str, dtype: str
) -> None:
    (spec, *_) = CATALOGUE[operation](optimised.target, np.dtype(dtype))
    context, device, builds = optimised.context, optimised.device, Builds(monkeypatch)
    spec = replace(spec, text=spec.text + of_this_test())
    program = ProgramCache(context, device, DiskCache(None)).program(spec)
    (content, options) = builds.found[0]
    assert len(builds.found) == 1  # without the header
    assert opencl_functions.NO_HEADER in options
    _, _, text = str(content).partition("#line 1\n")
    more = pocl_bodies.options(text)
    assert set(more) < set(options)
    with_header = compiled(context, device, text, (*spec.options, *more))
    libraries = [machine_code(each) for each in (program, with_header)]
    assert libraries[0] == libraries[1] != {}


def of_this_test() -> str:
    """A declaration that adds no code, so that PoCL's cache has libraries of this test alone.

    Those of other builds may have been linked by another linker, or in another way.
    """
    script, linker = Path(pocl.__file__).parent / "linker" / "ld", shutil.which("ld")
    facts = script.read_bytes() + str(linker and Path(linker).stat().st_mtime_ns).encode()
    return f"typedef int linked_{sha256(facts).hexdigest()};\n"


def test_only_pocl_optimises_a_text(optimised: Engine) -> None:
    (spec, *_) = CATALOGUE["sum"](optimised.target, np.dtype("float32"))
    context, device = optimised.context, optimised.device
    text = wrapped(spec.text, 256)
    (option,) = pocl_bodies.options(text)
    sizes = []
    for more in ((), (option,)):
        entry = pocl_entries.entry_of(
            compiled(context, device, text, (*spec.options, *more)).binaries[0]
        )
        assert entry is not None
        sizes.append(sum(file.stat().st_size for file in entry.glob("program.bc")))
    assert 0 < 1.2 * sizes[0] < sizes[1]


def machine_code(built: cl.Program) -> dict[str, bytes]:
    """The libraries of a program's kernels."""
    entry = pocl_entries.entry_of(built.binaries[0])
    assert entry is not None
    return {file.stem: file.read_bytes() for file in entry.glob("*/0-0-0/*.so")}


def test_other_functions_come_from_the_header(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "__kernel void f(__global int4 *x) { *x = shuffle(*x, (uint4)(3, 2, 1, 0)); }\n"
    spec = Specialization("f", text, engine.target.options)
    builds = Builds(monkeypatch)
    programs = ProgramCache(engine.context, engine.device, DiskCache(None))
    kernel = programs.kernel(spec, "f")
    assert builds.found == [(text, spec.options)]
    values = np.arange(4, dtype=np.int32)
    buffer = cl.Buffer(engine.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
    launch(engine.queue, kernel, (1,), buffer)
    cl.enqueue_copy(engine.queue, values, buffer)
    assert values.tolist() == [3, 2, 1, 0]


def test_errors_are_those_with_the_header(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = Builds(monkeypatch)
    with pytest.raises(BuildError, match="'sqrtt\\(x\\)' does not compile: implicit") as caught:
        pg.elementwise("sqrtt(x)", x=np.ones(3, "f4"), engine=engine)
    # The engine of the calling thread may have been tried first, in the same way.
    (content, options), (last, options_of_the_last) = builds.found[-2:]
    assert opencl_functions.NO_HEADER in options
    assert opencl_functions.NO_HEADER not in options_of_the_last
    assert "implicit declaration of function 'sqrtt'" in caught.value.log
    assert str(last) in str(content)
