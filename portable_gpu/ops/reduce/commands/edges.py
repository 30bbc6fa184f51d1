"""Checks of reductions at the edges of a policy's tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check
from portable_gpu.checking.edges import VIEWS, Guarded, around, levels
from portable_gpu.checking.inputs import Input
from portable_gpu.dtypes import element
from portable_gpu.ops.reduce import api
from portable_gpu.ops.reduce.commands import checks
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def edge_checks(
    tile: tuple[int, int, int], dtype: np.dtype[Any], cases: Sequence[Case]
) -> Iterator[Check]:
    """A row of the table serves every reduction: sums at all edges, the others at some."""
    rows, cols = around(tile[0], 211), around(tile[1], 223)
    for m, n, axis, view in levels(4):
        where = (None, 0, 1, 0, 1)[axis]
        yield _reduction("sum", Input(dtype, (rows[m], cols[n]), VIEWS[view]), where)
    for size in (*rows, 100_003, 1 << 20):
        yield _reduction("sum", Input(dtype, (size,)), None)
    others = ["prod", "mean", "var", "nrm2", "asum", "count_nonzero"]
    others += [] if element(dtype).complex else ["max", "argmin"]
    for operation in others:
        for shape, where in (((10_007,), None), ((130, 257), 0), ((130, 257), 1)):
            x = Input(dtype, shape, near_one=operation == "prod")
            yield _reduction(operation, x, where)
    yield checks.inner("dot", Input(dtype, (10_007,)), Input(dtype, (10_007,), seed=1))


def _reduction(operation: str, x: Input, axis: int | None) -> Check:
    plain = checks.reduction(operation, x, axis, keepdims=True)
    if operation != "sum":
        return plain
    shape = tuple(1 if axis in (None, i) else extent for i, extent in enumerate(x.shape))

    def run(engine: Engine) -> Any:
        result = Guarded(engine, shape, x.dtype, x.view == "device")
        api.sum(x.array(engine), axis, out=result.array, keepdims=True, engine=engine)
        return result.checked()

    return Check(operation, plain.case, run, plain.expected)
