"""Compilers have no remarks on the texts, and calls print nothing that was not requested.

This test uses the compiler of the device, with its own warnings, and a sample of the texts;
``tests/front_end`` uses all texts, and more warnings.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from sampling import compile_fast, needs_fp64
from terminal import on_terminal

import portable_gpu as pg
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError
from portable_gpu.ops.registry import CATALOGUE
from portable_gpu.runtime.compiler import CompilerError, compiled
from portable_gpu.runtime.engine import Engine

#: Mesa 22.3 writes this once a process when it compiles a kernel that reads an argument in control
#: flow.  The offset of an argument is a constant, so the results are right.
_MESA = (
    r"MESA: warning: Treating load_kernel_arg in control flow as uniform, "
    r"results may be incorrect\.\s+"
)
#: What has vectors of 64 bytes, structs, indices, 16-bit floats, bools, matrix units among it.
_SAMPLE = (
    ("gemm", "float32"), ("gemm", "complex64"), ("gemm", "float16"), ("gemv", "float16"),
    ("sum", "float32"), ("argmax", "float16"), ("var", "bool"), ("reduce", "int8"),
    ("elementwise", "float32"),
)  # fmt: skip
_CALLS = """
from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.registry import FAMILIES
from portable_gpu.runtime.registry import default_engine

engine = default_engine()
for family in FAMILIES[FIRST::3]:
    firsts = {}
    for check in family.checks([dtype_of("float32")]):
        firsts.setdefault(check.operation, check)
    for check in list(firsts.values())[:2]:
        check.run(engine)
"""


@pytest.fixture
def strict(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine, where warnings of its compiler are errors."""
    compile_fast(monkeypatch, engine, exchanges=engine.target.exchange == "khr_subgroup")
    user_options = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", f"{user_options} -Werror")
    return engine


def remarks(engine: Engine, spec: Specialization) -> str:
    """The compiler's errors; its warnings, where it makes no errors of them."""
    try:
        program = compiled(engine.context, engine.device, spec.text, spec.options)
    except CompilerError as error:
        return str(error)
    log = program.get_build_info(engine.device, cl.program_build_info.LOG)
    return "\n".join(line for line in log.splitlines() if "warning" in line)


def skip_where_nothing_is_remarked(engine: Engine) -> None:
    if "NVIDIA" in engine.device.platform.name:
        pytest.skip("NVIDIA's driver 580 logs no warning of clang's, and does not know -Werror")


@pytest.mark.tiny
@pytest.mark.path
def test_a_text_with_a_flaw_is_remarked_on(strict: Engine) -> None:
    skip_where_nothing_is_remarked(strict)
    text = "int f(void) { } __kernel void k(__global int *p) { p[0] = f(); }"
    assert remarks(strict, Specialization("test/flaw", text, ()))


@pytest.mark.tiny
@pytest.mark.path
@pytest.mark.parametrize(("operation", "dtype"), _SAMPLE)
def test_texts_build_without_a_remark(strict: Engine, operation: str, dtype: str) -> None:
    if operation == "var":  # its sums of bools are of doubles
        needs_fp64(strict)
    specs = CATALOGUE[operation](strict.target, np.dtype(dtype))
    assert specs
    result = {spec.name: remarks(strict, spec) for spec in specs}
    assert not {name: text for name, text in result.items() if text}


@pytest.mark.path
@pytest.mark.parametrize("first", range(3))
def test_calls_print_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """On a terminal, with empty caches, except lines that say that compilation takes long."""
    compile_fast(monkeypatch, engine)
    for variable in ("PORTABLE_GPU_CACHE", "POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    line = r"portable_gpu is compiling for [^\n]+; programs are kept for the next time\s+"
    assert re.fullmatch(f"({line}|{_MESA})*", on_terminal(_CALLS.replace("FIRST", str(first))))


@pytest.mark.path
def test_what_a_compiler_doubts_in_a_users_text(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It is built in silence, unless warnings are asked for; then an error says what it is."""
    monkeypatch.setenv("PORTABLE_GPU_CACHE", str(tmp_path))
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    x = np.arange(16, dtype=np.int32)
    assert np.all(pg.elementwise("x == x", x=x, engine=engine))
    assert capfd.readouterr() == ("", "")
    skip_where_nothing_is_remarked(engine)
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-Werror")
    with pytest.raises(BuildError, match="self-comparison"):
        pg.elementwise("y == y", y=x, engine=engine)
