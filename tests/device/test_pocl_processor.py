"""A processor that PoCL's compiler does not know: what is built on an engine's device builds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from portable_gpu.runtime.engine import Engine

#: PoCL's device takes the name ``generic``, as it does on such a processor.
FORGET = r"""
import ctypes
import re
import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import portable_gpu as pg
from portable_gpu.runtime import pocl_processor
from portable_gpu.runtime.engine import Engine

platform = pg.devices()[0].device.platform
assert "PoCL" in platform.version
for device in platform.get_devices():
    name = device.version.rpartition("-")[2].encode()
    with open("/proc/self/mem", "rb") as memory:
        for at in range(device.int_ptr, device.int_ptr + 1024, 8):
            place = int.from_bytes(pocl_processor._read(memory.fileno(), at, 8), "little")
            if pocl_processor._read(memory.fileno(), place, len(name) + 1) == name + b"\0":
                ctypes.memmove(place, b"generic\0", 8)  # malloc's smallest piece has 24 bytes
                break
pocl_processor._OF_UNKNOWN = re.compile(r"(PoCL.*-)\w+$")
"""
FIRST = {
    "default engine": "a = pg.asarray(np.ones(5, 'f4'))",
    "given queue": """
device = platform.get_devices()[{which}]
queue = cl.CommandQueue(cl.Context([device]))
engine = Engine(queue=queue)
a = cla.to_device(queue, np.ones(5, "f4"))
""",
    "nothing": """
device = platform.get_devices()[0]
a = cla.to_device(cl.CommandQueue(cl.Context([device])), np.ones(5, "f4"))
""",
}
THEN = "a.fill(3)\nassert (a.get() == 3).all()\nprint('filled')"


def run(engine: Engine, first: str) -> subprocess.CompletedProcess[str]:
    facts = engine.target.facts
    if "PoCL 3" not in facts.platform_version or "-x86_64-" not in facts.version:
        pytest.skip("is of PoCL 3 on x86-64")
    return subprocess.run(
        [sys.executable, "-c", "\n".join((FORGET, first, THEN))],
        capture_output=True, text=True, timeout=120,
        env={**os.environ, "PORTABLE_GPU_DEVICE": "Portable Computing Language",
             "POCL_DEVICES": "pthread basic", "PYOPENCL_NO_CACHE": "1"},
    )  # fmt: skip


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.divided("the processor of PoCL")
def test_first_of_all_on_a_given_queue(engine: Engine, which: int) -> None:
    done = run(engine, FIRST["given queue"].format(which=which))
    assert done.stdout == "filled\n", done.stderr


@pytest.mark.divided("the processor of PoCL")
def test_first_of_all_on_the_default_engine(engine: Engine) -> None:
    done = run(engine, FIRST["default engine"])
    assert done.stdout == "filled\n", done.stderr


@pytest.mark.divided("the processor of PoCL")
def test_without_an_engine_it_fails(engine: Engine) -> None:
    assert "unknown target CPU 'generic'" in run(engine, FIRST["nothing"]).stderr
