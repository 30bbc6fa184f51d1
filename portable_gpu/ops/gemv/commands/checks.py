"""Checks of gemv, each within gamma(k) |A| |x|; also at the edges of a policy's tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check, Expected
from portable_gpu.checking.edges import VIEWS, Guarded, around, levels
from portable_gpu.checking.inputs import Input, View
from portable_gpu.checking.products import product, transposed
from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.ops.gemv import api
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def gemv(
    m: int,
    n: int,
    dtype: Any,
    trans: str = "N",
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    view: View = "numpy",
) -> Check:
    """A check of ``gemv`` of an (m, n) array; with ``beta == 0`` y is full of NaN."""
    dtype = np.dtype(dtype)
    a = Input(dtype, (m, n), view)
    x = Input(dtype, (n if trans == "N" else m,), view, seed=1)
    y = Input(dtype, (m if trans == "N" else n,), seed=2)

    def run(engine: Engine) -> Any:
        result = Guarded(engine, y.shape, dtype, view == "device", y.host() if beta else None)
        api.gemv(
            a.array(engine), x.array(engine), alpha=alpha, beta=beta, y=result.array, trans=trans,
            engine=engine,
        )  # fmt: skip
        return result.checked()

    def expected() -> Expected:
        initial_y = y.host() if beta else None
        return product(transposed(a.host(), trans), x.host(), dtype, alpha, beta, initial_y)

    scale = f", alpha {alpha:g}, beta {beta:g}" if (alpha, beta) != (1, 0) else ""
    where = "" if view == "numpy" else f", {view}"
    return Check("gemv", f"{dtype} {m} x {n} {trans}{scale}{where}", run, expected)


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Every path and transpose in float32; one in each other floating dtype."""
    for m, n in ((3000, 31), (600, 1000), (7, 40_000)):
        for trans in ("N", "T"):
            yield gemv(m, n, "float32", trans)
    yield gemv(257, 130, "float32", alpha=2, beta=-1, view="device")
    yield gemv(257, 130, "float32", view="stepped")
    for dtype in dtypes:
        if (dtype.kind in "fc" or is_float16_like(dtype)) and dtype != np.float32:
            yield gemv(600, 300, dtype, "C" if dtype.kind == "c" else "N")


def edge_checks(
    tile: tuple[int, int, int], dtype: np.dtype[Any], _cases: Sequence[Case]
) -> Iterator[Check]:
    """All transposes and layouts; few long rows, and many short ones."""
    rows, cols = around(tile[0], 1009), around(tile[1], 997)
    every = ("N", "T", "N", "T", "C" if element(dtype).complex else "T")
    for m, n, trans, view in levels(4):
        yield gemv(rows[m], cols[n], dtype, every[trans], view=VIEWS[view])
    for m, n in ((7, 40_009), (20_011, 31)):  # work-groups that share an output, or have many
        for letter in ("N", "T"):
            yield gemv(m, n, dtype, letter)
