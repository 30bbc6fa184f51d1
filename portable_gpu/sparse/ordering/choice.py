"""An ordering by name, or the best of several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from portable_gpu.arguments import one_of, shown
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.side_by_side import Task, work_off
from portable_gpu.sparse.elimination import eliminate, levels
from portable_gpu.sparse.graph import Graph, Int32
from portable_gpu.sparse.ordering.approximate_degree import amd
from portable_gpu.sparse.ordering.cuthill_mckee import rcm
from portable_gpu.sparse.ordering.dissection import nd
from portable_gpu.sparse.ordering.minimum_degree import md, mmd
from portable_gpu.sparse.supernodes import supernodes

#: Graphs of more vertices are dissected by "auto" too: anywhere, and for devices that wait.
DISSECTED, DISSECTED_IF_WAITING = 4000, 500
#: What a level of the tree costs a GPU, in flops: some 20 us for the launches of a factorisation
#: and of a solve; an H200 does 1e8 of a middle-sized problem meanwhile (7 points, 60^3: 7e12 a
#: second).
LEVEL = 1e8


def natural(graph: Graph) -> Int32:
    """The ordering that the matrix has: 0 .. n-1."""
    return np.arange(graph.vertices, dtype=np.int32)


def metis(graph: Graph) -> Int32:
    """METIS's nested dissection, by the package pymetis.

    Raises:
        UnsupportedError: pymetis is not installed.
    """
    try:
        import pymetis
    except ImportError:
        raise UnsupportedError(
            "ordering is 'metis', which needs the package pymetis; 'nd' would do without"
        ) from None
    if not len(graph.indices):
        return natural(graph)
    perm, _ = pymetis.nested_dissection(pymetis.CSRAdjacency(graph.indptr, graph.indices))
    return np.array(perm, np.int32)


METHODS: dict[str, Callable[[Graph], Int32]] = {
    "amd": amd,
    "nd": nd,
    "rcm": rcm,
    "mmd": mmd,
    "md": md,
    "metis": metis,
    "natural": natural,
}


def order(graph: Graph, ordering: Any = "auto", waits: bool = False) -> tuple[Int32, str]:
    """A permutation that keeps the factor sparse.

    Args:
        graph: The adjacency structure of the matrix.
        ordering: ``"amd"``, ``"nd"``, ``"rcm"``, ``"mmd"``, ``"md"``, ``"metis"`` (by the package
            pymetis) or ``"natural"``; ``"auto"``: of ``"amd"``, ``"rcm"`` and, beyond 4000
            vertices, ``"nd"``, the one with the fewest flops; or a permutation: n integers, the
            k-th of which is the vertex to eliminate k-th.
        waits: Whether the device waits at each level of the supernodes' tree, as a GPU does.  Then
            ``"auto"`` counts levels too, and ``"nd"``, whose trees are the lowest, is tried beyond
            500 vertices.

    Returns:
        The permutation, int32, and the name of the method: ``"given"`` of a permutation.

    Raises:
        ArgumentError: No such method; or it is no permutation of 0 .. n-1.
        UnsupportedError: ``"metis"`` without the package pymetis.
    """
    if not isinstance(ordering, str):
        return _checked(ordering, graph.vertices), "given"
    if one_of(ordering, ("auto", *METHODS), "ordering") != "auto":
        return METHODS[ordering](graph), ordering
    names = ["amd", "rcm"] + ["nd"] * (
        graph.vertices > (DISSECTED_IF_WAITING if waits else DISSECTED)
    )
    found: dict[str, tuple[Int32, float]] = {}

    def attempt(name: str) -> tuple[Task, ...]:
        found[name] = _with_cost(graph, name, waits)
        return ()

    work_off([partial(attempt, name) for name in names], len(names))
    best = min(names, key=lambda name: found[name][1])
    return found[best][0], best


def _with_cost(graph: Graph, name: str, waits: bool) -> tuple[Int32, float]:
    """The ordering of that name, and the flops of the factorisation, with those of its levels."""
    perm = METHODS[name](graph)
    elimination = eliminate(graph.indptr, graph.indices, perm)
    if not waits:
        return perm, elimination.flops
    height = int(levels(supernodes(elimination).parent).max(initial=-1)) + 1
    return perm, elimination.flops + LEVEL * height


def _checked(ordering: Any, n: int) -> Int32:
    """A user's permutation as int32, if it is one."""
    try:
        given = np.asarray(ordering)
    except Exception:  # NumPy raises several types; so do the value's own methods
        given = np.empty(0)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise ArgumentError(
            f"ordering is {shown(ordering)}; the name of a method or {n} integers would do"
        )
    if n and (given.min() < 0 or given.max() >= n or np.bincount(given, minlength=n).max() > 1):
        raise ArgumentError(f"ordering is no permutation of 0 .. {n - 1}")
    return given.astype(np.int32)
