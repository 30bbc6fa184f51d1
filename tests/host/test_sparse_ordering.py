"""Orderings of sparse matrices against the elimination game, and against published figures."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.csgraph
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_matrices import MATRICES, grid, read

from portable_gpu.bench.sparse_problems import elasticity
from portable_gpu.errors import ArgumentError, ShapeError, UnsupportedError
from portable_gpu.sparse import analyze
from portable_gpu.sparse.elimination import eliminate
from portable_gpu.sparse.graph import Graph
from portable_gpu.sparse.ordering import amd, choice, dissection, md, mmd, nd, order, rcm
from portable_gpu.sparse.ordering.coarsening import WeightedGraph, allocate_levels
from portable_gpu.sparse.ordering.compression import NONE, compressed
from portable_gpu.sparse.ordering.minimum_degree import elements
from portable_gpu.sparse.ordering.moves import allocate_moves
from portable_gpu.sparse.ordering.separator import SEPARATOR, separate

METHODS = (amd, md, mmd, nd, rcm)
DEGREE = (amd, md, mmd)
needs_matrices = pytest.mark.skipif(not MATRICES.exists(), reason=f"{MATRICES} is not there")


def graph_of(pattern: Any) -> Graph:
    return Graph.from_matrix(sp.csr_array(pattern))


def arrow(n: int, point: int) -> Graph:
    """A vertex that is everyone's neighbour."""
    dense = np.eye(n, dtype=bool)
    dense[point] = dense[:, point] = True
    return graph_of(dense)


@st.composite
def graphs(draw: Any, most: int = 40) -> Graph:
    n = draw(st.integers(0, most))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return graph_of(rng.random((n, n)) < draw(st.sampled_from([0, 0.02, 0.05, 0.1, 0.3, 1])))


def is_permutation(perm: Any, graph: Graph) -> bool:
    return perm.dtype == np.int32 and np.array_equal(np.sort(perm), np.arange(graph.vertices))


def factor(graph: Graph, perm: Any) -> tuple[int, float]:
    """nnz(L) and flops."""
    result = eliminate(graph.indptr, graph.indices, perm)
    return result.nnz, result.flops


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_graph_of_any_pattern(data: Any) -> None:
    n = data.draw(st.integers(1, 12))
    index = st.integers(0, n - 1)
    entries = data.draw(st.lists(st.tuples(index, index), max_size=40))  # duplicates too
    rows = np.array(sorted(entries), np.int64).reshape(-1, 2)
    indptr = np.searchsorted(rows[:, 0], np.arange(n + 1))
    graph = Graph.from_pattern(indptr.astype(np.int32), rows[:, 1])
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for a, b in entries:
        if a != b:
            neighbours[a].add(b)
            neighbours[b].add(a)
    result = np.split(graph.indices, graph.indptr[1:-1])
    assert [row.tolist() for row in result] == [sorted(row) for row in neighbours]
    assert graph.edges == sum(map(len, neighbours)) // 2
    assert not graph.indptr.flags.writeable
    assert not graph.indices.flags.writeable


def test_graph_of_a_rectangle() -> None:
    with pytest.raises(ShapeError, match="2 x 3"):
        Graph.from_matrix(sp.csr_array(np.ones((2, 3))))


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_every_ordering_is_a_permutation(graph: Graph) -> None:
    for method in METHODS:
        assert is_permutation(method(graph), graph)


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_minimum_degree_is_the_elimination_game(graph: Graph) -> None:
    adjacent = [set(row.tolist()) for row in np.split(graph.indices, graph.indptr[1:-1])]
    left = set(range(graph.vertices))
    game = []
    while left:
        pivot = min(left, key=lambda v: (len(adjacent[v]), v))
        left.remove(pivot)
        game.append(pivot)
        for v in adjacent[pivot]:
            adjacent[v] = (adjacent[v] | adjacent[pivot]) - {v, pivot}
    assert md(graph).tolist() == game


def test_threads_keep_their_workspace() -> None:
    sizes = (1, 17, 60, 5, 60, 0)
    matrices = [graph_of(np.random.default_rng(n).random((n, n)) < 0.1) for n in sizes]
    space = elements(60, max(len(g.indices) for g in matrices))
    for method in (md, mmd):
        for graph in matrices:
            assert np.array_equal(method(graph, space), method(graph))


@pytest.mark.parametrize("method", METHODS)
def test_trees_fill_nothing(method: Callable[[Graph], Any]) -> None:
    """A vertex of least degree is a leaf, and goes without a fill."""
    n = 3000
    rng = np.random.default_rng(4)
    above = (rng.random(n - 1) * np.arange(1, n)).astype(int)
    tree = graph_of(sp.coo_array((np.ones(n - 1), (np.arange(1, n), above)), shape=(n, n)))
    nnz, _ = factor(tree, method(tree))
    if method in DEGREE:
        assert nnz == 2 * n - 1
    elif method is nd:
        assert nnz < 1.5 * (2 * n - 1)


@pytest.mark.parametrize("point", [0, 2999])
def test_arrows_fill_nothing(point: int) -> None:
    graph = arrow(3000, point)
    for method in (amd, nd, mmd):
        assert factor(graph, method(graph))[0] == 2 * 3000 - 1


@pytest.mark.parametrize(
    "graph",
    [
        graph_of(np.zeros((0, 0))),
        graph_of(np.ones((1, 1))),
        graph_of(np.zeros((700, 700))),
        graph_of(np.ones((300, 300))),
        graph_of(sp.block_diag([grid(12, 12), np.ones((1, 1)), grid(300), np.ones((40, 40))])),
        graph_of(sp.kron(sp.eye(400), np.ones((3, 3)))),
    ],
    ids=["empty", "one", "no edges", "dense", "pieces", "triangles"],
)
def test_special_graphs(graph: Graph) -> None:
    for method in METHODS:
        assert is_permutation(method(graph), graph)
    auto, name = order(graph)
    assert name in ("amd", "rcm")
    assert is_permutation(auto, graph)


def published() -> dict[str, int]:
    """nnz(L) of AMD as the SuiteSparse collection has them."""
    if not MATRICES.exists():
        return {}
    text = (MATRICES / "README.md").read_text()
    rows = re.findall(r"^\| (\w+\.(?:mtx|tri)) \|(?:[^|]*\|){4} (\d+) \|", text, re.MULTILINE)
    return {name: int(nnz) for name, nnz in rows}


@needs_matrices
def test_approximate_minimum_degree_is_as_good_as_published() -> None:
    known = published()
    assert len(known) == 8
    for name, expected in known.items():
        graph = graph_of(read(name))
        nnz, _ = factor(graph, amd(graph))
        assert abs(nnz / expected - 1) < 0.03, name
        if name != "cvxbqp1.mtx":
            assert factor(graph, mmd(graph))[0] < 1.15 * expected, name  # other ties


def test_reverse_cuthill_mckee_is_as_narrow_as_scipys() -> None:
    A = grid(13, 40)
    shuffle = np.random.default_rng(0).permutation(A.shape[0])
    A = A[shuffle][:, shuffle]

    def bandwidth(perm: Any) -> int:
        rows, columns = A[perm][:, perm].nonzero()
        return int(abs(rows - columns).max())

    theirs = scipy.sparse.csgraph.reverse_cuthill_mckee(A, symmetric_mode=True)
    assert bandwidth(rcm(graph_of(A))) <= 1.1 * bandwidth(theirs)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(210, 700), st.sampled_from([1.5, 3, 8]))
def test_separators_separate(seed: int, n: int, degree: float) -> None:
    graph = graph_of(sp.random_array((n, n), density=degree / n, rng=seed))
    entries = len(graph.indices)
    g = WeightedGraph(
        graph.indptr.copy(),
        graph.indices.copy(),
        np.ones(entries, np.int32),
        np.random.default_rng(seed).integers(1, 4, n).astype(np.int32),
    )
    side = separate(g, allocate_levels(n, entries), allocate_moves(n))
    assert set(side.tolist()) <= {0, 1, SEPARATOR}
    tails = np.repeat(np.arange(n), np.diff(graph.indptr))
    assert not np.any((side[tails] == 0) & (side[graph.indices] == 1))
    total = int(g.weight.sum())
    assert max(g.weight[side == s].sum() for s in (0, 1)) <= 0.75 * total


def test_alike_vertices_are_one() -> None:
    A = elasticity(4)
    graph = graph_of(A)
    indptr, indices, weight, into = compressed(graph.indptr, graph.indices)
    nodes = A.shape[0] // 3
    assert weight.tolist() == [3] * nodes
    assert into.tolist() == np.repeat(np.arange(nodes), 3).tolist()
    small = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(nodes, nodes))
    of_nodes = sp.csr_array((abs(A) > 0)[::3][:, ::3])
    of_nodes.setdiag(0)
    assert abs(small - (of_nodes > 0)).sum() == 0

    star = arrow(500, 7)
    assert compressed(star.indptr, star.indices)[3][7] == NONE


#: Flops of METIS 5's nested dissection (pymetis 2025.2.2), as the sum of squared column counts.
METIS = {"30^3": 2.5537e9, "150^2": 3.1057e7, "elasticity 12": 6.2023e8, "4elt": 1.3231e7}


@pytest.mark.parametrize("name", ["30^3", "150^2", "elasticity 12"])
def test_nested_dissection_is_as_good_as_metis(name: str) -> None:
    A = {"30^3": lambda: grid(30, 30, 30), "150^2": lambda: grid(150, 150)}.get(
        name, lambda: elasticity(12)
    )()
    graph = graph_of(A)
    assert factor(graph, nd(graph))[1] < 1.1 * METIS[name]


@needs_matrices
def test_a_mesh() -> None:
    with (MATRICES / "extra" / "4elt.graph").open() as lines:
        n, edges = map(int, next(lines).split()[:2])
        rows = [np.array(line.split(), np.int32) - 1 for line in lines][:n]
    graph = Graph.from_pattern(np.cumsum([0, *map(len, rows)]), np.concatenate(rows))
    assert (graph.vertices, graph.edges) == (n, edges)
    perm, name = order(graph)
    assert name == "nd"
    flops = factor(graph, perm)[1]
    assert flops < 1.2 * METIS["4elt"]
    assert flops <= min(factor(graph, method(graph))[1] for method in (amd, rcm))


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(grid(35, 30, 25))  # of more vertices than one task takes
    assert graph.vertices > dissection._MAX_SERIAL
    result = []
    for cores in (1, 4, 4):
        monkeypatch.setattr(dissection, "cores", lambda cores=cores: cores)
        result.append(nd(graph))
    assert np.array_equal(result[0], result[1])
    assert np.array_equal(result[1], result[2])


def test_ones_own_ordering() -> None:
    graph = graph_of(grid(5, 4))
    permutation = np.random.default_rng(1).permutation(20)
    for same in (permutation, permutation.tolist(), permutation.astype(np.uint8)):
        perm, name = order(graph, same)
        assert name == "given"
        assert perm.tolist() == permutation.tolist()
    assert order(graph, "natural")[0].tolist() == list(range(20))
    for wrong in (
        permutation[:-1],
        permutation + 1,
        permutation - 1,
        np.zeros(20, int),
        permutation.astype(float),
        None,
    ):
        with pytest.raises(ArgumentError, match="ordering is"):
            order(graph, wrong)
    with pytest.raises(ArgumentError, match=r"known are auto, amd, nd"):
        order(graph, "colamd")


def test_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pymetis")
    for graph in (graph_of(grid(9, 9)), graph_of(np.zeros((0, 0))), graph_of(np.zeros((3, 3)))):
        perm, name = order(graph, "metis")
        assert name == "metis"
        assert is_permutation(perm, graph)


def test_without_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(UnsupportedError, match="package pymetis"):
        order(graph_of(grid(3, 3)), "metis")


@pytest.mark.parametrize(("shape", "usual"), [((300, 3, 3), "amd"), ((60, 60), "amd")])
def test_auto_counts_levels_where_the_device_waits(shape: tuple[int, ...], usual: str) -> None:
    """The estimate of what was chosen is the least, with levels and without."""
    A = grid(*shape)
    graph = graph_of(A)
    assert order(graph)[1] == usual
    _, name = order(graph, synchronises_levels=True)
    result = {item: analyze(A, item) for item in ("amd", "rcm", "nd")}
    cost = {item: s.flops + choice.LEVEL_FLOPS * s.levels for item, s in result.items()}
    assert cost[name] == min(cost.values())
    assert result["nd"].levels < result[usual].levels
    assert name == "nd"
    assert order(graph_of(grid(20, 20)), synchronises_levels=True)[1] != "nd"
