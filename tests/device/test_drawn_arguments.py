"""A sample of ``tools/wrong_arguments.py``: wrong arguments give this library's errors."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.errors import PortableGPUError
from portable_gpu.runtime.engine import Engine

TOOL = Path(__file__).parents[2] / "tools" / "wrong_arguments.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location(TOOL.stem, TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[TOOL.stem] = module  # which its dataclass looks up
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_a_sample(tool: Any, engine: Engine, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)  # a text may be the name of a file
    ended, faults = tool.draw(1, 150, sparse=False)
    assert not faults, "\n".join(faults)
    assert ended["an error"] > 75


@pytest.mark.parametrize(
    "value",
    [np.ones(4, np.float32), np.zeros(0), np.ones((4, 4), np.float32), 3, [None], object()],
    ids=lambda value: type(value).__name__,
)
def test_wait_for_is_a_list_of_events(tool: Any, value: Any, engine: Engine) -> None:
    x = np.eye(4, dtype=np.float32)
    empty = isinstance(value, np.ndarray) and not value.size
    for function, arguments in (
        (pg.sum, (x,)), (pg.fft.dctn, (x,)), (pg.linalg.cholesky, (x,)), (pg.linalg.syrk, (x,)),
        (pg.linalg.solve_triangular, (x, x)), (pg.signal.convolve, (x, x)), (pg.gemv, (x, x[0])),
    ):  # fmt: skip
        for given in (value, tool.Raises()):
            if empty and given is value:
                function(*arguments, wait_for=given, engine=engine)
                continue
            with pytest.raises(PortableGPUError, match="wait_for"):
                function(*arguments, wait_for=given, engine=engine)


@pytest.mark.parametrize("value", ["4", (0,), [], -1, 2.5, None])
def test_packed_size(value: Any) -> None:
    with pytest.raises(PortableGPUError, match=r"^n is "):
        pg.linalg.packed.packed_size(value)
    assert pg.linalg.packed.packed_size(np.int32(4)) == 10


def test_precision_of_least_squares(engine: Engine) -> None:
    x = np.eye(4, dtype=np.float32)
    with pytest.raises(PortableGPUError, match="precision"):
        pg.linalg.lstsq(x, x, precision=x, engine=engine)  # type: ignore[arg-type]
