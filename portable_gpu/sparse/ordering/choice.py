"""Select an ordering by name, or the best of several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from portable_gpu.arguments import one_of, shown
from portable_gpu.errors import ArgumentError, UnsupportedError, reraise_of_signal
from portable_gpu.side_by_side import Task, run_tasks
from portable_gpu.sparse.elimination import eliminate, levels
from portable_gpu.sparse.graph import Graph, Int32
from portable_gpu.sparse.ordering.approximate_degree import amd
from portable_gpu.sparse.ordering.cuthill_mckee import rcm
from portable_gpu.sparse.ordering.dissection import nd
from portable_gpu.sparse.ordering.minimum_degree import md, mmd
from portable_gpu.sparse.supernodes import supernodes

#: "auto" also tries nested dissection for graphs with more vertices than this: on any device, and
#: on devices that synchronise at each level of the tree.
MIN_ND_VERTICES, MIN_ND_VERTICES_WITH_LEVELS = 4000, 500
#: The cost of a level of the tree on a GPU, in flops: some 20 us for the launches of a
#: factorisation and of a solve, in which a large GPU does 1e8 flops of a medium-sized problem
#: (7e12 a second, for 7 points on 60^3).
LEVEL_FLOPS = 1e8


def natural(graph: Graph) -> Int32:
    """Return the identity permutation, 0 .. n-1."""
    return np.arange(graph.vertices, dtype=np.int32)


def metis(graph: Graph) -> Int32:
    """Compute METIS's nested dissection ordering, by the package pymetis.

    Raises:
        UnsupportedError: pymetis is not installed.
    """
    try:
        import pymetis
    except ImportError:
        raise UnsupportedError(
            "ordering is 'metis', which needs the package pymetis; without it use 'nd'"
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


def order(
    graph: Graph, ordering: Any = "auto", synchronises_levels: bool = False
) -> tuple[Int32, str]:
    """Compute a fill-reducing permutation.

    Args:
        graph: The adjacency structure of the matrix.
        ordering: ``"amd"``, ``"nd"``, ``"rcm"``, ``"mmd"``, ``"md"``, ``"metis"`` (by the package
            pymetis) or ``"natural"``.  ``"auto"`` takes the ordering with the fewest flops of
            ``"amd"``, ``"rcm"`` and, for more than 4000 vertices, ``"nd"``.  Or a permutation: n
            integers, the k-th of which is the vertex to eliminate k-th.
        synchronises_levels: Whether the device synchronises at each level of the supernodal tree,
            as a GPU does.  Then ``"auto"`` adds a cost per level, and tries ``"nd"``, whose trees
            have the fewest levels, for more than 500 vertices.

    Returns:
        The permutation, int32, and the name of the method; ``"given"`` for a given permutation.

    Raises:
        ArgumentError: There is no such method, or the array is not a permutation of 0 .. n-1.
        UnsupportedError: The ordering is ``"metis"``, and pymetis is not installed.
    """
    if not isinstance(ordering, str):
        return _checked(ordering, graph.vertices), "given"
    if one_of(ordering, ("auto", *METHODS), "ordering") != "auto":
        return METHODS[ordering](graph), ordering
    names = ["amd", "rcm"] + ["nd"] * (
        graph.vertices > (MIN_ND_VERTICES_WITH_LEVELS if synchronises_levels else MIN_ND_VERTICES)
    )
    results: dict[str, tuple[Int32, float]] = {}

    def attempt(name: str) -> tuple[Task, ...]:
        results[name] = _with_cost(graph, name, synchronises_levels)
        return ()

    run_tasks([partial(attempt, name) for name in names], len(names))
    best = min(names, key=lambda name: results[name][1])
    return results[best][0], best


def _with_cost(graph: Graph, name: str, synchronises_levels: bool) -> tuple[Int32, float]:
    """Compute an ordering, and its cost: flops of the factorisation, plus flops per level."""
    perm = METHODS[name](graph)
    elimination = eliminate(graph.indptr, graph.indices, perm)
    if not synchronises_levels:
        return perm, elimination.flops
    height = int(levels(supernodes(elimination).parent).max(initial=-1)) + 1
    return perm, elimination.flops + LEVEL_FLOPS * height


def _checked(ordering: Any, n: int) -> Int32:
    """Return the permutation that the user gave as int32; raise if it is none."""
    try:
        perm = np.asarray(ordering)
    except Exception as error:  # NumPy raises several types; so do the value's own methods
        reraise_of_signal(error)
        perm = np.empty(0)
    if perm.shape != (n,) or perm.dtype.kind not in "iu":
        raise ArgumentError(
            f"ordering is {shown(ordering)}; expected the name of a method or {n} integers"
        )
    if n and (perm.min() < 0 or perm.max() >= n or np.bincount(perm, minlength=n).max() > 1):
        raise ArgumentError(f"ordering is not a permutation of 0 .. {n - 1}")
    return perm.astype(np.int32)
