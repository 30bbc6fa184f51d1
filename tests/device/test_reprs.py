"""``print`` shows a line of each public object, with its distinguishing fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.runtime.engine import Engine
from portable_gpu.tuning.table import TuningTable

LONGEST = 200


def objects(engine: Engine) -> Iterator[tuple[Any, str]]:
    """Objects, and a part of what is shown."""
    x = np.ones((4, 4), np.float32)
    device, name = pg.devices()[0], engine.target.facts.name
    yield device, device.index
    yield device.target, device.device.name.strip()
    yield device.target.facts, device.platform
    yield engine, name
    yield engine.target, engine.target.device_class
    yield engine.target.facts, name
    yield TuningTable.shipped(), "rows"
    yield pg.plan("matmul", x, x, engine=engine), "matmul of a NumPy array float32[4, 4]"
    yield pg.plan("elementwise", "x + 1", x=pg.asarray(x), engine=engine), "a device array"
    yield pg.plan("fft", x, engine=engine), "fft"
    yield pg.explain("gemm", 4, 4, 4, engine=engine), "gemm of (4 x 4 by 4 x 4) float32"
    yield pg.Epilogue().bias(x[0]).apply("fmax(v, 0)"), "fmax(v, 0)"
    yield pg.BinaryOp("largest", "0", "max(a, b)"), "largest"
    yield pg.Map(), "x"


def sparse_objects(engine: Engine) -> Iterator[tuple[Any, str]]:
    sparse = pytest.importorskip("scipy.sparse")
    pytest.importorskip("llvmlite")
    matrix = 3 * sparse.eye(50, format="csc")
    factor = pg.sparse.cholesky(matrix, engine=engine)
    yield factor, "nnz(L)=50"
    yield factor.stats, "nnz=50"
    yield factor.symbolic, "n=50"
    yield factor.symbolic.pattern, "nnz=50"
    yield factor.symbolic.fronts, "n=50"
    yield factor.symbolic.memory_estimate(devices=[engine]), engine.target.facts.name


def check(shown: Iterator[tuple[Any, str]]) -> None:
    for thing, part in shown:
        text = repr(thing)
        assert part in text
        assert len(text) <= LONGEST, text
        assert "\n" not in text
        assert " at 0x" not in text


def test_one_line_each(engine: Engine) -> None:
    check(objects(engine))


def test_one_line_of_sparse_ones(engine: Engine) -> None:
    if not engine.target.fp64:
        pytest.skip("is in double precision")
    check(sparse_objects(engine))
