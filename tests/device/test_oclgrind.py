"""Oclgrind's reports reach the tests: each planted bug is seen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from conftest import OclgrindReports

_PLANTED = {
    "Invalid write": "if (get_global_id(0) == 0) x[1 << 20] = 1;",
    "data race": "x[0] = get_global_id(0);",
    "Uninitialized value": "__local volatile float t[4]; x[get_global_id(0)] = t[get_local_id(0)];",
}


@pytest.mark.tiny
@pytest.mark.oclgrind_expected
@pytest.mark.parametrize("report", _PLANTED)
def test_planted_bug_is_reported(
    engine: Engine, oclgrind_reports: OclgrindReports, report: str
) -> None:
    import pyopencl as cl

    if report.startswith("Uninitialized") and "OCLGRIND_UNINITIALIZED" not in os.environ:
        pytest.skip("this job does not look for uninitialised values")
    text = f"__kernel void planted(__global float *x) {{ {_PLANTED[report]} }}"
    program = cl.Program(engine.context, text).build()
    buffer = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, 4 * np.dtype(np.float32).itemsize)
    cl.Kernel(program, "planted")(engine.queue, (4,), (4,), buffer).wait()
    assert any(report in result for result in oclgrind_reports.new())
