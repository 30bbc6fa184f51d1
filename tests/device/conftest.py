"""How the device tests compile.

Environment:
    PORTABLE_GPU_TEST_OPTIMISED: Set where PoCL's optimiser is to run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pyopencl.array as cla
import pytest
from sampling import compile_fast

from portable_gpu.runtime.engine import Engine


@pytest.fixture(autouse=True, scope="session")
def _fast() -> Iterator[None]:
    """Leave out PoCL's optimiser, which takes more than half of all the tests' time.

    The job pocl-cpu of tools/test_matrix.py runs one of each path with it.
    """
    from portable_gpu.runtime.pocl import drivers
    from portable_gpu.runtime.registry import default_engine

    with pytest.MonkeyPatch.context() as patch:
        leaves_out = {"PORTABLE_GPU_TEST_OPTIMISED", "PYOPENCL_BUILD_OPTIONS"}.isdisjoint(
            os.environ
        )
        if leaves_out and drivers(default_engine().device.platform) is not None:
            compile_fast(patch, default_engine())
        yield


@pytest.fixture(autouse=True, scope="session")
def _pyopencl_computes_nothing() -> Iterator[None]:
    """Refuse pyopencl's kernels of arrays to the library, whose methods they would make wrong.

    They take no account of strides.  Tests and ``bench`` may use them.
    """
    sizes = cla.Array._get_sizes  # each of them asks for it

    def refusing(self: Any, *args: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            folder = frame.f_globals.get("__name__", "").split(".")
            assert folder[0] != "portable_gpu" or folder[1] == "bench", "pyopencl's kernels"
            frame = frame.f_back
        return sizes(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cla.Array, "_get_sizes", refusing)
        yield


@pytest.fixture
def optimised(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine whose kernels are fast, for tests that take longer without the optimiser."""
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS", raising=False)
    return Engine(queue=engine.queue)
