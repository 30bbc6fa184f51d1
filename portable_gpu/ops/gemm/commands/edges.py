"""Checks of products at the edges of a policy's tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check
from portable_gpu.checking.edges import VIEWS, Guarded, around, levels
from portable_gpu.checking.inputs import Input, View
from portable_gpu.dtypes import element
from portable_gpu.ops.gemm import api
from portable_gpu.ops.gemm.commands import checks
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def edge_checks(
    tile: tuple[int, int, int], dtype: np.dtype[Any], cases: Sequence[Case]
) -> Iterator[Check]:
    """Single products; batches of small ones too where some of ``cases`` are batches."""
    yield from _singles(tile, dtype)
    if any(case.batch is not None for case in cases):
        yield from _stacks(tile, dtype)


def _singles(tile: tuple[int, int, int], dtype: np.dtype[Any]) -> Iterator[Check]:
    rows, cols, depths = around(tile[0], 97), around(tile[1], 101), around(tile[2], 131)
    conjugate = "C" if element(dtype).complex else "T"
    every = ("NN", "NT", "TN", "TT", f"N{conjugate}")
    # Numbers of values: each value of a factor meets each value of every other factor once.
    for m, n, k, trans, view in levels(5):
        beta = 0.0 if (m + n) % 3 else 0.5
        yield _gemm(rows[m], cols[n], depths[k], dtype, every[trans], beta, VIEWS[view])


def _gemm(
    m: int, n: int, k: int, dtype: np.dtype[Any], trans: str, beta: float, view: View
) -> Check:
    plain = checks.gemm(m, n, k, dtype, trans, alpha=-0.5, beta=beta, view=view)
    a = Input(dtype, (m, k) if trans[0] == "N" else (k, m), view)
    b = Input(dtype, (k, n) if trans[1] == "N" else (n, k), view, seed=1)
    c = Input(dtype, (m, n), seed=2)

    def run(engine: Engine) -> Any:
        result = Guarded(engine, (m, n), dtype, view == "device", c.host() if beta else None)
        api.gemm(
            a.array(engine), b.array(engine), alpha=-0.5, beta=beta, c=result.array,
            trans_a=trans[0], trans_b=trans[1], engine=engine,
        )  # fmt: skip
        return result.checked()

    return Check("gemm", plain.case, run, plain.expected)


def _stacks(tile: tuple[int, int, int], dtype: np.dtype[Any]) -> Iterator[Check]:
    """Batches of small products."""
    for m, n, k in (tile, (1, 1, 1), (tile[0] + 1, tile[1] - 1 or 1, 37), (31, 37, tile[2] + 1)):
        yield checks.matmul(Input(dtype, (5, m, k)), Input(dtype, (5, k, n), seed=1))
