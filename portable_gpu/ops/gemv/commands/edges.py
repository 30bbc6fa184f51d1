"""Checks of matrix-vector products at the edges of a policy's tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import Check
from portable_gpu.checking.edges import VIEWS, Guarded, around, levels
from portable_gpu.checking.inputs import Input, View
from portable_gpu.dtypes import element
from portable_gpu.ops.gemv import api
from portable_gpu.ops.gemv.commands import checks
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def edge_checks(
    tile: tuple[int, int, int], dtype: np.dtype[Any], cases: Sequence[Case]
) -> Iterator[Check]:
    """All transposes and layouts; few long rows, and many short ones."""
    rows, cols = around(tile[0], 1009), around(tile[1], 997)
    every = ("N", "T", "N", "T", "C" if element(dtype).complex else "T")
    for m, n, trans, view in levels(4):
        yield _gemv(rows[m], cols[n], dtype, every[trans], VIEWS[view])
    for m, n in ((7, 40_009), (20_011, 31)):  # work-groups that share an output, or have many
        for letter in ("N", "T"):
            yield _gemv(m, n, dtype, letter, "numpy")


def _gemv(m: int, n: int, dtype: np.dtype[Any], trans: str, view: View) -> Check:
    plain = checks.gemv(m, n, dtype, trans, view=view)
    a = Input(dtype, (m, n), view)
    x = Input(dtype, (n if trans == "N" else m,), view, seed=1)

    def run(engine: Engine) -> Any:
        outputs = m if trans == "N" else n
        result = Guarded(engine, (outputs,), dtype, view == "device")
        api.gemv(a.array(engine), x.array(engine), y=result.array, trans=trans, engine=engine)
        return result.checked()

    return Check("gemv", plain.case, run, plain.expected)
