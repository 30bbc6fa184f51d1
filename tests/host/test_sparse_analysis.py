"""The analysis of sparse matrices against elimination by the definition."""

from __future__ import annotations

import itertools
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_matrices import MATRICES, filled, grid, random_definite, read

from portable_gpu import host_memory
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    HostMemoryError,
    ShapeError,
)
from portable_gpu.sparse import Symbolic, analyze, compiled, plot_symbolic
from portable_gpu.sparse.elimination import eliminate, postorder
from portable_gpu.sparse.plot import pattern_image
from portable_gpu.sparse.supernodes import RELAX, backward, forward

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
TRIANGLES = ("lower", "upper", "full")
EXACT = ()  # nothing merged
needs_matrices = pytest.mark.skipif(not MATRICES.exists(), reason=f"{MATRICES} is not there")


@st.composite
def problems(draw: Any) -> tuple[Any, Any]:
    n = draw(st.integers(0, 30))
    seed = draw(st.integers(0, 10**6))
    A = random_definite(n, draw(st.sampled_from([0, 0.03, 0.1, 0.3, 1])), seed)
    return A, np.random.default_rng(seed).permutation(n)


def front(symbolic: Symbolic, s: int) -> tuple[Any, Any]:
    """Own columns and further rows of a supernode."""
    fronts = symbolic.fronts
    columns = np.arange(fronts.first[s], fronts.first[s + 1])
    return columns, fronts.row_index[fronts.row_start[s] : fronts.row_start[s + 1]]


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from([EXACT, None, ((8, 0.4),)]))
def test_elimination_and_fronts(problem: Any, relax: Any) -> None:
    A, perm = problem
    n = len(perm)
    symbolic = analyze(A, perm, relax=relax)
    L = filled(A.toarray() != 0, symbolic.perm)
    assert L.sum() == filled(A.toarray() != 0, perm).sum()  # renumbering adds nothing

    assert np.array_equal(symbolic.column_counts, L.sum(axis=0))
    below = [np.flatnonzero(L[k + 1 :, k]) + k + 1 for k in range(n)]
    assert symbolic.parent.tolist() == [rows[0] if len(rows) else -1 for rows in below]
    assert symbolic.nnz == L.sum()
    assert symbolic.flops == (L.sum(axis=0) ** 2).sum()

    fronts = symbolic.fronts
    stored = np.zeros((n, n), bool)
    for s in range(len(fronts)):
        columns, rows = front(symbolic, s)
        assert np.array_equal(rows, below[columns[-1]])
        stored[np.ix_([*columns, *rows], columns)] = True
        children = fronts.child[fronts.child_start[s] : fronts.child_start[s + 1]]
        assert children.tolist() == np.flatnonzero(fronts.parent == s).tolist()
        assert symbolic.level[s] == max((symbolic.level[c] + 1 for c in children), default=0)
        if len(rows):
            above, further = front(symbolic, fronts.parent[s])
            place = fronts.relative[fronts.row_start[s] : fronts.row_start[s + 1]]
            assert np.array_equal(np.concatenate([above, further])[place], rows)
            assert fronts.parent[s] > s
        else:
            assert fronts.parent[s] == -1
    stored = np.tril(stored)
    assert not (L & ~stored).any()
    assert symbolic.stored == stored.sum()
    if relax == EXACT:
        assert np.array_equal(stored, L)


@settings(max_examples=40, deadline=None)
@given(
    problems(), st.sampled_from(["lower", "upper", "full"]), st.sampled_from(FORMATS), st.booleans()
)
def test_entries_rebuild_the_permuted_matrix(
    problem: Any, triangle: str, kind: str, hermitian: bool
) -> None:
    A, perm = problem
    if hermitian:
        A = random_definite(len(perm), 0.2, len(perm), np.complex128)
    stored = {"lower": sp.tril(A), "upper": sp.triu(A), "full": A}[triangle].asformat(kind)
    symbolic = analyze(stored, perm)
    values = symbolic.pattern.values(stored)
    fronts, n = symbolic.fronts, len(perm)
    rebuilt = np.zeros((n, n), A.dtype)
    for s in range(len(fronts)):
        entries = slice(fronts.entry_start[s], fronts.entry_start[s + 1])
        columns, rows = front(symbolic, s)
        places = list(zip(fronts.entry_row[entries], fronts.entry_column[entries], strict=True))
        assert places == sorted(set(places))
        these = values[fronts.entry_source[entries]]
        these = np.where(fronts.entry_conj[entries], these.conj(), these)
        row = np.concatenate([columns, rows])[fronts.entry_row[entries]]
        np.add.at(rebuilt, (row, columns[fronts.entry_column[entries]]), these)
    expected = A.toarray()[np.ix_(symbolic.perm, symbolic.perm)]
    assert np.array_equal(rebuilt, np.tril(expected))
    if kind in ("csr", "csc", "coo"):
        assert np.array_equal(symbolic.pattern.values(stored.data), values)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_both_searches_find_equally_few_chains(problem: Any) -> None:
    A, perm = problem
    n = len(perm)
    result = eliminate(A.indptr.astype(np.int64), A.indices.astype(np.int32), perm.astype(np.int32))
    eligible = {
        p
        for k, p in enumerate(result.parent)
        if p >= 0 and result.counts[k] == result.counts[p] + 1
    }
    for search in (backward, forward):
        columns, begin = search(result.parent, result.counts)
        assert sorted(columns) == list(range(n))
        assert len(begin) - 1 == n - len(eligible)  # each of them continues one chain
        for s in range(len(begin) - 1):
            chain = columns[begin[s] : begin[s + 1]]
            assert result.parent[chain[:-1]].tolist() == chain[1:].tolist()
            assert (np.diff(result.counts[chain]) == -1).all()


def test_static_and_dynamic_supernodes() -> None:
    """Columns 0 and 2 form a chain around column 1, as 1 and 3 do; the last four are contiguous."""
    pattern = np.eye(8, dtype=bool)
    for rows in ((0, 2, 4, 5), (1, 3, 6, 7), (4, 5, 6, 7)):
        pattern[np.ix_(rows, rows)] = True
    symbolic = analyze(sp.csr_array(pattern), np.arange(8), relax=EXACT)
    groups = np.split(symbolic.perm, symbolic.supernodes[1:-1])
    assert sorted(map(tuple, groups)) == [(0, 2), (1, 3), (4, 5, 6, 7)]
    assert [len(g) == 4 for g in groups] == symbolic.static_mask.tolist()


def test_merging_makes_fewer_and_keeps_the_share_of_zeros() -> None:
    A = grid(30, 30)
    exact = analyze(A, "rcm", relax=EXACT)
    relaxed = analyze(A, "rcm", relax=[(1e9, 0.05)])
    assert relaxed.fundamental == exact.fundamental == len(exact.fronts)
    assert len(relaxed.fronts) < len(exact.fronts) / 2
    assert exact.stored == exact.nnz == relaxed.nnz
    assert exact.nnz < relaxed.stored <= exact.nnz / 0.95


def test_thin_chains_are_shortened() -> None:
    """A band, eliminated from one end to the other, is one chain."""
    band = sp.csr_array(
        sp.diags([1.0] * 21, range(-10, 11), shape=(2000, 2000)) + 30 * sp.eye(2000)
    )
    thresholds = analyze(band, "natural", relax=RELAX)
    chains = analyze(band, "natural")
    assert chains.levels == len(chains.fronts) < 0.8 * thresholds.levels
    assert chains.stored < 2.1 * chains.nnz


def test_siblings_come_in_the_order_that_keeps_the_stack_low() -> None:
    """Against every order of the children of every front, on small trees."""

    def lowest(s: int, children: list[list[int]], update: Any) -> int:
        peaks = {c: lowest(c, children, update) for c in children[s]}
        best = None
        for sequence in itertools.permutations(children[s]):
            left = peak = 0
            for c in sequence:
                peak = max(peak, left + peaks[c])
                left += update[c]
            peak = max(peak, left + update[s])
            best = peak if best is None else min(best, peak)
        return int(best or 0)

    for seed in range(30):
        A = random_definite(24, 0.08, seed)
        symbolic = analyze(A, np.arange(24), relax=EXACT)
        fronts = symbolic.fronts
        update = fronts.rows * (fronts.rows + 1) // 2
        children = [np.flatnonzero(fronts.parent == s).tolist() for s in range(len(fronts))]
        roots = np.flatnonzero(fronts.parent == -1)
        best = max(lowest(root, children, update) for root in roots)
        assert symbolic.memory_estimate(np.float64).stack == best * 8


@needs_matrices
def test_the_factor_of_ani4() -> None:
    symbolic = analyze(read("extra/ani4_amd.mtx"), "natural")
    assert symbolic.nnz == 70217
    factor = read("extra/ani4_amd_chol.mtx").tocsc()
    # Renumbered columns keep their counts.
    assert np.array_equal(symbolic.column_counts[symbolic.iperm], np.diff(factor.indptr))


def test_postorder_keeps_subtrees_together() -> None:
    A = random_definite(40, 0.05, 3)
    parent = analyze(A, np.random.default_rng(0).permutation(40)).parent
    order = postorder(parent)
    place = np.empty(40, int)
    place[order] = np.arange(40)
    size = np.ones(40, int)
    for k in range(40):
        if parent[k] >= 0:
            size[parent[k]] += size[k]
    for k in range(40):
        under = {k}
        for j in range(k - 1, -1, -1):
            if parent[j] in under:
                under.add(j)
        assert sorted(place[list(under)]) == list(range(place[k] - size[k] + 1, place[k] + 1))


def test_pickle_and_frozen() -> None:
    symbolic = analyze(grid(6, 5), "natural")
    repeated = pickle.loads(pickle.dumps(symbolic))
    assert repr(repeated) == repr(symbolic)
    for item in (symbolic, repeated):
        with pytest.raises(ValueError, match="read-only"):
            item.perm[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            item.fronts.relative[0] = 1
        with pytest.raises(AttributeError):
            item.perm = None  # type: ignore[misc]
    assert np.array_equal(repeated.fronts.entry_source, symbolic.fronts.entry_source)
    assert "n=30" in repr(symbolic)
    assert "natural" in repr(symbolic)


def test_the_users_matrix_is_left_alone() -> None:
    A = grid(5, 5)
    before = A.copy()
    analyze(A)
    A.data[:] = 0  # and nothing of it is kept
    A.indices.flags.writeable = True
    assert np.array_equal(A.indices, before.indices)


def test_duplicates_are_summed_and_zeros_kept() -> None:
    rows, columns = [0, 1, 1, 1, 2, 2, 0], [0, 0, 0, 1, 2, 2, 1]
    values = [4.0, 0.5, 0.5, 5.0, 1.0, 2.0, 1.0]
    A = sp.coo_array((values, (rows, columns)), shape=(4, 4))
    symbolic = analyze(A, "natural")
    assert symbolic.pattern.values(A).tolist() == [4, 1, 5, 3]
    assert symbolic.pattern.values(np.array(values) * 2).tolist() == [8, 2, 10, 6]
    assert symbolic.n == 4  # the last row is empty
    zero = sp.csr_array(([1.0, 0.0, 1.0], ([0, 1, 1], [0, 0, 1])))
    assert analyze(zero, "natural").nnz == 3


def test_values_of_a_matrix_within_the_pattern() -> None:
    A = random_definite(20, 0.2, 1)
    pattern = analyze(A, "natural").pattern
    for other in (A * 2, sp.tril(A) * 2, sp.triu(A).tocsc() * 2, (A * 2).tocoo()):
        assert np.array_equal(pattern.values(other), 2 * pattern.values(A))
    diagonal = pattern.values(sp.eye(20).tocsr())
    assert diagonal.sum() == 20
    assert pattern.values((A * 2).astype(np.float32)).dtype == np.float32
    assert pattern.values(sp.eye(20, dtype=int).tocsr()).dtype == np.float64


def test_a_matrix_outside_of_the_pattern() -> None:
    pattern = analyze(grid(4, 4), "natural").pattern
    wrong = grid(4, 4).tolil()
    wrong[9, 2] = wrong[2, 9] = 1
    with pytest.raises(ArgumentError, match=re.escape("(9, 2) where the matrix analysed has none")):
        pattern.values(wrong)
    with pytest.raises(ShapeError, match=re.escape("(9, 9); (16, 16) was analysed")):
        pattern.values(grid(3, 3))
    with pytest.raises(ShapeError, match="stores 64 values"):
        pattern.values(np.ones(63))


def bad(row: int, column: int, value: Any, dtype: Any = np.float64) -> Any:
    A = grid(3, 3).astype(dtype).tolil()
    A[row, column] = value
    return A.tocsr()


@pytest.mark.parametrize(
    ("A", "error", "message"),
    [
        (np.eye(3), ArgumentTypeError, "A is ndarray; expected a scipy.sparse array or matrix"),
        (None, ArgumentTypeError, "A is NoneType"),
        (sp.csr_array((3, 4)), ShapeError, "(3, 4); expected a square matrix"),
        (sp.coo_array(np.ones(3)), ShapeError, "(3,); expected a square matrix"),
        (bad(4, 1, np.nan), ArgumentError, "A[4, 1] is nan; all elements must be finite"),
        (bad(2, 2, np.inf), ArgumentError, "A[2, 2] is inf"),
        (bad(5, 2, -3.0), ArgumentError, "not symmetric: A[5, 2] is -3.0, and A[2, 5] is -1.0"),
        (bad(0, 7, 2.0), ArgumentError, "not symmetric: A[7, 0] is 0.0, and A[0, 7] is 2.0"),
        (bad(3, 3, 4 + 1j, complex), ArgumentError, "A[3, 3] is (4+1j); the diagonal"),
        (bad(8, 5, -1j, complex), ArgumentError, "not its conjugate"),
        (grid(3, 3).astype(np.longdouble), DTypeError, "float32, float64, complex64, complex128"),
    ],
)
def test_wrong_matrices(A: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        analyze(A)


def test_an_index_out_of_range() -> None:
    A = grid(3, 3)
    A.indices[5] = 77
    with pytest.raises(ArgumentError, match=re.escape("element in column 77; its shape is (9, 9)")):
        analyze(A)


def damaged(**arrays: Any) -> Any:
    """Compressed rows, one of whose arrays was put in place of the right one."""
    A = grid(3, 3)
    for name, array in arrays.items():
        setattr(A, name, array)
    return A


def changed(array: Any, at: int, value: int) -> Any:
    array = array.copy()
    array[at] = value
    return array


POINTERS, INDICES = grid(3, 3).indptr, grid(3, 3).indices


def coordinates(**arrays: Any) -> Any:
    A = grid(3, 3).tocoo()
    for name, array in arrays.items():
        setattr(A, name, array)
    return A


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (damaged(indptr=POINTERS[:-1]), "indptr has 9 numbers; 10 are needed"),
        (damaged(indptr=POINTERS[:0]), "indptr has 0 numbers"),
        (damaged(indptr=changed(POINTERS, 0, 1)), "indptr begins with 0"),
        (damaged(indptr=changed(POINTERS, 4, 99)), "its numbers never fall"),
        (damaged(indptr=changed(POINTERS, 9, 99)), "indptr ends with 99, and there are 33"),
        (damaged(indices=INDICES[:20]), "there are 20 indices and 33 values"),
        (damaged(data=np.ones(20)), "there are 33 indices and 20 values"),
        (damaged(indices=INDICES.astype(float)), "indices are float64; both are integers"),
        (damaged(data=np.ones((33, 1))), "have one axis each"),
        (damaged(indices=changed(INDICES, 3, -1)), "element in column -1"),
        (coordinates(row=np.zeros(3, int)), "indices of the shape (3,)"),
    ],
)
def test_damaged_matrices(A: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        analyze(A)
    with pytest.raises(ArgumentError, match=re.escape(message)):
        analyze(grid(3, 3)).pattern.values(A)


@pytest.mark.parametrize("form", ["bsr", "dia", "lil"])
def test_damaged_matrices_of_other_formats(form: str) -> None:
    A = grid(4, 4).asformat(form)
    A.data = A.data[:1]
    with pytest.raises(ArgumentError, match=f"damaged matrix of the format {form}"):
        analyze(A)
    lists = grid(4, 4).tolil()
    lists.data[3] = lists.data[3][:1]
    with pytest.raises(ArgumentError, match="damaged matrix of the format lil"):
        analyze(lists)


def test_rows_beyond_the_memory_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in proportion to them is allocated."""
    n = 2_000_000_000
    A = sp.coo_array((np.ones(1), (np.array([n - 1]), np.array([n - 1]))), shape=(n, n))
    monkeypatch.setattr(host_memory, "available", lambda: 64 << 30)
    tracemalloc.start()
    with pytest.raises(HostMemoryError, match=r"of 2,000,000,000 rows takes .* 64\.0 GiB are"):
        analyze(A)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    monkeypatch.undo()
    assert host_memory.available() is None or host_memory.available() > 1 << 26


def test_zeros_outside_of_the_pattern() -> None:
    pattern = analyze(grid(4, 4), "natural").pattern
    more = sp.csr_array(grid(4, 4) + sp.csr_array(([1.0, 1.0], ([9, 2], [2, 9])), shape=(16, 16)))
    more[9, 2] = more[2, 9] = 0
    assert more.nnz == 66
    for A in (more, sp.tril(more), more.tocsc()):
        assert np.array_equal(pattern.values(A), pattern.values(grid(4, 4)))


def test_one_triangle_of_two() -> None:
    A = random_definite(20, 0.2, 1, np.complex128)
    expected = analyze(A).pattern.values(A)
    wrong = sp.csr_array(sp.tril(A) + sp.csr_array(sp.triu(A, 1) * np.nan))
    twice = sp.coo_array(wrong)
    twice = sp.coo_array(
        (np.append(twice.data, twice.data) / 2, (np.append(twice.row, twice.row),
         np.append(twice.col, twice.col))), shape=A.shape,
    )  # fmt: skip
    for triangle, item in (
        ("lower", wrong), ("lower", twice), ("upper", sp.csr_array(wrong.conj().T)),
        ("lower", sp.tril(A)), ("upper", sp.triu(A)),
    ):  # fmt: skip
        pattern = analyze(item, triangle=triangle).pattern
        assert pattern.triangle == triangle
        assert np.array_equal(pattern.values(item), expected)
        assert np.array_equal(pattern.values(item.data), expected)
        assert np.array_equal(pattern.values(item.tocsc()), expected)
        with pytest.raises(ArgumentError, match="of the matrix analysed the"):
            pattern.values(item.data, "upper" if triangle == "lower" else "lower")
    both = analyze(A).pattern
    assert np.array_equal(both.values(wrong, "lower"), expected)
    assert np.array_equal(both.values(wrong.data, "lower"), expected)
    with pytest.raises(ArgumentError, match=r"A\[\d+, \d+\] is .*nan"):
        both.values(wrong.data, "upper")
    with pytest.raises(ArgumentError, match="A has elements in its upper triangle alone"):
        analyze(sp.triu(A), triangle="lower")
    assert analyze(sp.eye(5), triangle="upper").nnz == 5
    assert np.array_equal(both.whole(expected).toarray(), A.toarray())


def test_rounding_is_no_asymmetry() -> None:
    """Finite elements of high order leave some hundred units of rounding."""
    A = grid(3, 3)
    A.data[1] *= 1 + 1000 * np.finfo(float).eps
    analyze(A)
    A.data[1] *= 1 + 6000 * np.finfo(float).eps
    with pytest.raises(ArgumentError, match="triangle='lower' or 'upper' takes one triangle"):
        analyze(A)
    complex_symmetric = random_definite(5, 0.5, 0, np.complex64)
    analyze(complex_symmetric)
    with pytest.raises(ArgumentError, match="not its conjugate"):
        analyze(sp.tril(complex_symmetric) + sp.tril(complex_symmetric, -1).T)


@pytest.mark.parametrize("relax", ["auto", 3, [(1, 2, 3)], [(4, -0.1)], [(4, 1.1)], [("a", 1)]])
def test_wrong_relaxation(relax: Any) -> None:
    with pytest.raises(ArgumentError, match="relax is"):
        analyze(grid(3, 3), relax=relax)


def test_64_bit_indices() -> None:
    A = grid(6, 6)
    wide = A.copy()
    wide.indices, wide.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    assert np.array_equal(analyze(wide).perm, analyze(A).perm)


@pytest.mark.parametrize("n", [0, 1])
def test_the_smallest(n: int) -> None:
    symbolic = analyze(sp.csr_array(np.eye(n)))
    assert (symbolic.nnz, symbolic.levels, len(symbolic.fronts)) == (n, n, n)
    estimate = symbolic.memory_estimate(np.float32)
    assert estimate.factor == 4 * n


@given(problems())
@settings(max_examples=20, deadline=None)
def test_the_picture_of_the_pattern(problem: Any) -> None:
    A, perm = problem
    n = len(perm)
    symbolic = analyze(A, perm, relax=EXACT)
    image = pattern_image(symbolic, n)
    pattern = A.toarray()[np.ix_(symbolic.perm, symbolic.perm)] != 0
    assert np.array_equal(np.triu(image == 3), np.triu(pattern))
    assert np.array_equal(np.tril(image != 0), filled(pattern, np.arange(n)))


def test_plot(tmp_path: Path) -> None:
    picture = tmp_path / "analysis.png"
    figure = plot_symbolic(analyze(grid(12, 12)), picture)
    assert picture.stat().st_size > 10_000
    assert "n = 144" in figure.get_suptitle()
    plot_symbolic(analyze(sp.csr_array((0, 0))))


def test_memory_estimate() -> None:
    symbolic = analyze(grid(8, 8), "natural", relax=EXACT)
    fronts = symbolic.fronts
    panels = ((fronts.columns + fronts.rows) * fronts.columns).sum()
    for dtype in (np.float32, "float64", np.complex64, complex):
        estimate = symbolic.memory_estimate(dtype)
        assert estimate.factor == panels * np.dtype(dtype).itemsize
        assert 0 < estimate.stack <= estimate.updates < estimate.total
    with pytest.raises(DTypeError, match="int"):
        symbolic.memory_estimate(int)


def test_sparse_and_nn_are_imported_at_their_first_use() -> None:
    code = (
        "import sys, portable_gpu as pg\n"
        "assert not {'portable_gpu.nn', 'portable_gpu.sparse'} & set(sys.modules)\n"
        "assert pg.nn is sys.modules['portable_gpu.nn']\n"
        "assert not {'llvmlite', 'scipy', 'portable_gpu.sparse'} & set(sys.modules)\n"
        "assert pg.sparse is sys.modules['portable_gpu.sparse']\n"
        "assert not hasattr(pg, 'spares')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_an_extra_that_is_not_installed_is_named() -> None:
    code = (
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'llvmlite' else found(name, *more)\n"
        "import portable_gpu as pg\n"
        "pg.sparse"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "needs the package llvmlite: pip install '.[sparse]'" in run.stderr


def test_a_small_matrix_needs_no_compiler() -> None:
    code = (
        "import sys, numpy as np, portable_gpu as pg, scipy.sparse as sp\n"
        "pg.sparse.compiled.PATIENCE = 60\n"
        "chain = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(200, 200))\n"
        "small, more = pg.sparse.analyze(chain), pg.sparse.analyze(chain, 'nd')\n"
        "assert 'llvmlite' not in sys.modules\n"
        "assert small.nnz == 399 and sorted(more.perm) == list(range(200))\n"
        "assert type(small.memory_estimate().stack) is int"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=ROOT)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Loops as in a process that has not analysed yet, with a stand-in for their compilation."""
    monkeypatch.setattr(compiled, "_spent", 0.0)
    monkeypatch.setattr(compiled, "_had_long_array", False)
    monkeypatch.setattr(compiled, "_machine_code", lambda *_: lambda _: "compiled")
    return monkeypatch


@pytest.mark.parametrize("why", ["a long array", "much time"])
def test_loops_are_compiled_when_they_have_much_to_do(fresh: pytest.MonkeyPatch, why: str) -> None:
    loop = compiled.compiled(lambda *_: "interpreted")
    short, long = np.zeros(compiled.LONGEST), np.zeros(compiled.LONGEST + 1)
    assert loop((short, 1)) == loop(short) == "interpreted"
    if why == "much time":
        fresh.setattr(compiled, "_spent", compiled.PATIENCE)
    else:
        assert loop((short, (long,))) == "compiled"
    assert loop(short) == compiled.compiled(lambda _: "interpreted")(short) == "compiled"


@pytest.mark.usefixtures("fresh")
def test_a_loop_compiled_at_once_leaves_the_others_interpreted() -> None:
    assert compiled.compiled_at_once(lambda *_: "interpreted")() == "compiled"
    assert compiled.compiled_at_once(lambda *_: "interpreted")(np.zeros(3)) == "compiled"
    assert compiled.compiled(lambda *_: "interpreted")(np.zeros(3)) == "interpreted"


def test_threads_note_times_and_long_arrays_of_each_other(fresh: pytest.MonkeyPatch) -> None:
    """The second reading of the clock stands for a thread between a sum's load and its store."""
    loop, other = (compiled.compiled(lambda *_: "interpreted") for _ in range(2))
    readings = iter([0.0, 1.0])

    def clock() -> float:
        reading = next(readings, 2.0)
        if reading == 1.0:
            assert other(np.zeros(compiled.LONGEST + 1)) == "compiled"
        return reading

    fresh.setattr(compiled.time, "thread_time", clock)
    assert loop(np.zeros(3)) == "interpreted"
    assert compiled._spent == 1.0
    assert loop(np.zeros(3)) == "compiled"


def test_threads_compile_a_loop_once(fresh: pytest.MonkeyPatch) -> None:
    begun = []

    def machine_code(function: Any, types: Any) -> Any:
        begun.append((function, types))
        time.sleep(0.1)
        return lambda arguments: function(*arguments)

    fresh.setattr(compiled, "_machine_code", machine_code)
    loop = compiled.compiled_at_once(lambda: "compiled")
    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_while_another_thread_compiles() -> None:
    code = (
        "import os, threading, time\n"
        "from portable_gpu.sparse import compiled\n"
        "begun = threading.Event()\n"
        "def machine_code(function, types):\n"
        "    begun.set()\n"
        "    time.sleep(0.5)\n"
        "    return lambda arguments: function(*arguments)\n"
        "compiled._machine_code = machine_code\n"
        "loop = compiled.compiled_at_once(lambda: 0)\n"
        "threading.Thread(target=loop).start()\n"
        "begun.wait()\n"
        "compiled._FORK_WAITS = WAITS\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(7 + compiled.compiled_at_once(lambda: 0)())\n"
        "compiled.compiled_at_once(lambda: 0)()\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7"
    )
    for waits in ("20", "0"):
        script = code.replace("WAITS", waits)
        subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, timeout=60)
