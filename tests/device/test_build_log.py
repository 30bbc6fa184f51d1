"""Compilers have nothing to remark on the texts: neither in their log nor on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyopencl as cl
import pytest

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.ops.registry import CATALOGUE
from portable_gpu.runtime.compiler import compiled
from portable_gpu.runtime.engine import Engine

#: What has vectors of 64 bytes, structs, indices, 16-bit floats and bools among it.
_SAMPLE = (
    ("gemm", "float32"), ("gemm", "complex64"), ("gemv", "float16"),
    ("sum", "float32"), ("argmax", "float16"), ("var", "bool"),
)  # fmt: skip


def sample(engine: Engine) -> Iterator[Specialization]:
    entries = CATALOGUE
    for operation, dtype in _SAMPLE:
        yield from entries[operation](engine.target, np.dtype(dtype))


def remarks(engine: Engine, spec: Specialization, capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    program = compiled(engine.context, engine.device, spec.text, spec.options)
    log = program.get_build_info(engine.device, cl.program_build_info.LOG)
    return "\n".join(
        line for line in (log + capfd.readouterr().err).splitlines() if "warning" in line
    )


def test_a_text_with_a_flaw_is_remarked_on(
    engine: Engine, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "int f(void) { } __kernel void k(__global int *p) { p[0] = f(); }"
    if not remarks(engine, Specialization("test/flaw", text, ()), capfd):
        pytest.skip("this compiler never remarks on anything")


def test_texts_build_without_a_remark(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    specs = list(sample(engine))
    assert len(specs) > 10
    found = {spec.name: remarks(engine, spec, capfd) for spec in specs}
    assert not {name: text for name, text in found.items() if text}
