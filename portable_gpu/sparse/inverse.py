"""The diagonal of the inverse of a factorised matrix, from L's own elements.

Parents come before children.  Of a front with the own columns 1 and the further rows 2, the inverse
Z of the whole matrix has Z22 among the parent's elements, and the others follow::

    W = L21 L11^-1,    Z21 = -Z22 W,    Z11 = L11^-H L11^-1 + W^H Z22 W

So no element is ever made that L has no place for.

Source: Takahashi, Fagan and Chin, 8th PICA Conference, 1973; Erisman and Tinney, Communications of
the ACM 18(3), 1975, with fronts for columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.sparse.graph import Int64

_Values = np.ndarray[Any, np.dtype[Any]]


def inverse_diagonal(fronts: Fronts, factor: _Values, panel: Int64, leading: Int64) -> _Values:
    """The diagonal of the inverse, column by column of the permuted matrix, in double precision.

    Args:
        fronts: The structure.
        factor: L's panels.
        panel, leading: Where each panel begins, and elements from row to row of each.
    """
    wide = np.result_type(factor.dtype, np.float64)
    diagonal = np.empty(int(fronts.first[-1]))
    inverted = scipy.linalg.get_lapack_funcs("trtri", dtype=wide)
    waiting = np.diff(fronts.child_start)
    inverses: dict[int, _Values] = {}  # of fronts with children that are to come
    for s in range(len(fronts) - 1, -1, -1):
        first, end = int(fronts.first[s]), int(fronts.first[s + 1])
        c, u = end - first, int(fronts.row_start[s + 1] - fronts.row_start[s])
        lines = factor[panel[s] : panel[s] + (c + u) * leading[s]].reshape(c + u, leading[s])
        lower = np.tril(lines[:, :c]).astype(wide)
        own = inverted(lower[:c], lower=1)[0]
        diagonal[first:end] = (np.abs(own) ** 2).sum(axis=0)
        parent = int(fronts.parent[s])
        further = np.empty((0, 0), wide)
        product = across = np.empty((0, c), wide)
        if u:
            places = fronts.relative[fronts.row_start[s] : fronts.row_start[s + 1]]
            further = inverses[parent][np.ix_(places, places)]
            across = lower[c:] @ own
            product = further @ across
            diagonal[first:end] += (across.conj() * product).real.sum(axis=0)
        if parent >= 0:
            waiting[parent] -= 1
            if not waiting[parent]:
                del inverses[parent]
        if waiting[s]:
            whole = np.empty((c + u, c + u), wide)
            whole[:c, :c] = own.conj().T @ own + across.conj().T @ product
            whole[c:, :c], whole[:c, c:] = -product, -product.conj().T
            whole[c:, c:] = further
            inverses[s] = whole
    return diagonal
