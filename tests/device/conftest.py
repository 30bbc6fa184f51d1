"""How the device tests compile.

Environment:
    PORTABLE_GPU_TEST_OPTIMISED: Set where PoCL's optimiser is to run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

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
        wanted = {"PORTABLE_GPU_TEST_OPTIMISED", "PYOPENCL_BUILD_OPTIONS"}.isdisjoint(os.environ)
        if wanted and drivers(default_engine().device.platform) is not None:
            compile_fast(patch, default_engine())
        yield


@pytest.fixture
def optimised(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine whose kernels are fast, for tests that take longer without the optimiser."""
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS", raising=False)
    return Engine(queue=engine.queue)
