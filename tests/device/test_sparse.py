"""Sparse Cholesky factors against LAPACK's, and against the bounds of Higham's book."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import pickle
import threading
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
import scipy.io
import scipy.linalg
import scipy.sparse as sp
from device_arrays import on_device
from hypothesis import given, settings
from hypothesis import strategies as st
from interruptions import handler, interrupted, stop
from sparse_matrices import MATRICES, grid, random_definite, read

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    ContextMismatchError,
    DeviceMemoryError,
    DTypeError,
    NotPositiveDefiniteError,
    ShapeError,
    SpillError,
    UnsupportedError,
)
from portable_gpu.ops.factor.cpu import CpuPolicy
from portable_gpu.ops.fronts import cpu
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor, analyze, cholesky, schedule
from portable_gpu.sparse.out_of_core import SpilledFactor
from portable_gpu.sparse.spill import Spill

#: The logarithms of determinants that CHOLMOD found; digits that two orderings agree on.
LOGDETS = {
    "bcsstk01.tri": 818.977529944,
    "494_bus.mtx": 1628.40603261,
    "bcsstk34.mtx": 7290.83001332,
    "1138_bus.mtx": 4240.8211845,
    "bcsstk13.mtx": 38330.0446165,
    "ex9.mtx": 22765.7514,
    "crystm01.mtx": -137117.213746,
    "bcsstk16.tri": 96826.2928451,
    "cvxbqp1.mtx": 498089.217095,
}
needs_matrices = pytest.mark.skipif(not MATRICES.exists(), reason=f"{MATRICES} is not there")


def arrow(n: int, first: bool) -> Any:
    """A full row and column, the first or the last, and a diagonal."""
    dense = np.diag(np.arange(2.0, n + 2))
    tip = 0 if first else n - 1
    dense[tip], dense[:, tip] = 0.1, 0.1
    dense[tip, tip] = n
    return sp.csr_array(dense)


def elastic(*shape: int) -> Any:
    """Three unknowns at each place of a grid, all of which act on their neighbours'."""
    coupling = np.array([[4.0, 1, -1], [1, 3, 0.5], [-1, 0.5, 5]])
    return sp.csr_array(sp.kron(grid(*shape), coupling))


PROBLEMS = {
    "empty": sp.csr_array((0, 0)),
    "one": sp.csr_array([[4.0]]),
    "diagonal": sp.csr_array(np.diag(np.arange(1.0, 30))),
    "dense": random_definite(70, 1, 1),
    "arrow, first": arrow(40, True),
    "arrow, last": arrow(40, False),
    "disconnected": sp.block_diag([grid(5, 4), random_definite(9, 0.4, 2), grid(3)]).tocsr(),
    "2-D": grid(23, 19),
    "3-D": grid(9, 8, 7),
    "elastic": elastic(6, 5, 4),
    "chain": grid(300),
}


def backward_error(A: Any, x: Any, b: Any) -> float:
    """The error of the worst column, in the largest elements and A's row sums."""
    if not b.size:
        return 0.0
    wide = np.result_type(A.dtype, x.dtype, np.float64)
    A, x, b = A.astype(wide), x.astype(wide), b.astype(wide)
    norm = float(abs(A).sum(axis=1).max())
    scale = norm * abs(x).max(axis=0) + abs(b).max(axis=0)
    return float((abs(A @ x - b).max(axis=0) / scale).max())


def check_factor(factor: Factor, A: Any) -> None:
    """``|A - L L^H| <= (m + 1) eps |L| |L^H|``, m the most elements of a row of L."""
    L, perm = factor.L(), factor.perm
    assert abs(sp.triu(L, 1)).sum() == 0
    if not A.shape[0]:
        return
    wide = np.complex128 if L.dtype.kind == "c" else np.float64
    L = L.astype(wide).toarray()
    permuted = A.toarray()[np.ix_(perm, perm)]
    m = int((L != 0).sum(axis=1).max())
    bound = (m + 1) * np.finfo(factor.dtype).eps * (abs(L) @ abs(L.conj().T))
    if L.dtype.kind == "c":
        bound *= 2**1.5  # of a complex product
    assert (abs(L @ L.conj().T - permuted) <= bound).all()


def right(n: int, k: int | None, dtype: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    shape = (n,) if k is None else (n, k)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


@pytest.fixture(params=["as it is", "cut"])
def cuts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """CPUs: how the tree is cut; small ones would not have fronts above their subtrees."""
    if request.param == "cut":
        monkeypatch.setattr(schedule, "_LAUNCH_FLOPS", 0.0)
    return str(request.param)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.usefixtures("cuts")
def test_factor_and_solve(name: str) -> None:
    A = PROBLEMS[name]
    n = A.shape[0]
    factor = cholesky(A)
    check_factor(factor, A)
    for k in (None, 1, 21, 0):
        b = right(n, k, np.float64)
        for given_b in (b, np.asfortranarray(b), b[::-1].copy()[::-1]):
            before = given_b.copy()
            x = factor.solve(given_b)
            assert x.shape == b.shape
            assert np.array_equal(given_b, before)
            assert backward_error(A, x, b) <= 1e-14
    sign, log = np.linalg.slogdet(A.toarray())
    assert factor.slogdet() == (sign, pytest.approx(log, rel=1e-12, abs=1e-12))


@pytest.mark.tiny
@pytest.mark.usefixtures("cuts")
def test_tiny(unoptimised: Engine) -> None:
    A = random_definite(13, 0.3, 4, "float32")
    factor = cholesky(A, engine=unoptimised)
    b = right(13, 2, "float32")
    assert backward_error(A, factor.solve(b), b) <= 1e-6
    assert backward_error(A, factor.solve(b[:, 0]), b[:, 0]) <= 1e-6


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
@pytest.mark.usefixtures("cuts")
def test_dtypes(engine: Engine, dtype: str) -> None:
    A = random_definite(150, 0.05, 3, dtype)
    tolerance = 1e-14 if dtype == "complex128" else 1e-6
    factor = cholesky(A)
    assert factor.dtype == dtype
    check_factor(factor, A)
    b = right(150, 19, dtype)
    x = factor.solve(b)
    assert x.dtype == dtype
    assert backward_error(A, x, b) <= tolerance
    for triangle in (sp.tril(A), sp.triu(A)):
        of_one = cholesky(triangle, factor.perm).solve(b)
        assert backward_error(A, of_one, b) <= tolerance
    x = factor.solve(b.astype("complex64" if dtype == "complex64" else "complex128"))
    assert x.dtype.kind == "c"
    assert backward_error(A, x, b) <= tolerance
    L, p = factor.L().toarray(), factor.perm
    for system, matrix in (("L", L), ("Lt", L.conj().T), ("P", None), ("Pt", None)):
        y = factor.solve(b, system)
        if matrix is None:
            assert np.array_equal(y if system == "P" else b, b[p] if system == "P" else y[p])
        else:
            want = scipy.linalg.solve_triangular(matrix, b, lower=system == "L")
            np.testing.assert_allclose(y, want, atol=300 * tolerance)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(0, 60),
    density=st.sampled_from([0, 0.03, 0.1, 0.3, 1]),
    seed=st.integers(0, 10**6),
    merged=st.booleans(),
)
def test_random(n: int, density: float, seed: int, merged: bool) -> None:
    A = random_definite(n, density, seed)
    perm = np.random.default_rng(seed).permutation(n)
    symbolic = analyze(
        A, perm, relax=((4, 1.0), (16, 0.8), (48, 0.1), (1e9, 0.05)) if merged else ()
    )
    factor = Factor(symbolic).refactorize(A)
    check_factor(factor, A)
    b = right(n, 2, np.float64, seed)
    assert backward_error(A, factor.solve(b), b) <= 1e-14


@needs_matrices
@pytest.mark.parametrize("name", LOGDETS)
def test_matrices(optimised: Engine, name: str) -> None:
    A = read(name)
    target = optimised.target
    if target.facts.type == "cpu" and not target.is_cpu and A.shape[0] > 1200:
        pytest.skip("a GPU's way, forced on a CPU, takes minutes")
    factor = cholesky(A, "amd", engine=optimised)
    b = right(A.shape[0], 2, np.float64)
    assert backward_error(A, factor.solve(b), b) <= 1e-14
    digits = 8 if name != "ex9.mtx" else 7
    assert factor.logdet() == pytest.approx(LOGDETS[name], rel=10.0**-digits)


@pytest.mark.parametrize(
    "policy",
    [CpuPolicy(8, 8, 3, 120), CpuPolicy(2, 3, 3, 6), CpuPolicy(4, 4, 1, 4), CpuPolicy(2, 1, 1, 4)],
    ids=lambda policy: f"{policy.rows} rows of {policy.vectors} x {policy.vector}",
)
def test_other_vectors(engine: Engine, policy: CpuPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedules for wider and narrower vectors than this processor's."""
    if not engine.target.is_cpu:
        pytest.skip("a CPU's kernel")
    monkeypatch.setattr(cpu, "front_policy", lambda target, elem: policy)
    A = PROBLEMS["elastic"]
    factor = cholesky(A, "amd")
    check_factor(factor, A)
    broken = A.copy()
    broken[100, 100] = -5
    with pytest.raises(NotPositiveDefiniteError) as info:
        factor.refactorize(broken)
    assert info.value.variable == 100


@needs_matrices
def test_a_known_factor() -> None:
    A = read("extra/ani4_amd.mtx")
    known = sp.csc_array(scipy.io.mmread(MATRICES / "extra" / "ani4_amd_chol.mtx"))
    factor = cholesky(A, "natural")
    p, L = factor.perm, factor.L().tocsr()
    place = np.empty(len(p), int)
    place[p] = np.arange(len(p))  # the tree's postorder renumbers, and adds nothing
    L = L[place][:, place]
    assert L.nnz == known.nnz == 70217
    assert abs(L - known).max() <= 1e-14 * abs(known).max()


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_refinement(kind: str) -> None:
    A = grid(12, 11) + sp.eye(132) * 1e-3
    if kind == "complex":
        A = sp.csr_array(A + 0.2j * sp.tril(A, -1) - 0.2j * sp.triu(A, 1) + sp.eye(132))
    A = sp.csr_array(A)
    factor = cholesky(A, dtype="float32" if kind == "real" else "complex64")
    for k in (None, 3):
        b = right(132, k, A.dtype)
        plain, twice = factor.solve(b), factor.solve(b, refine=2)
        assert plain.dtype == twice.dtype == A.dtype
        assert 1e-14 < backward_error(A, plain, b) < 1e-6
        assert backward_error(A, twice, b) < 1e-12
        assert backward_error(A, factor.solve(b, refine="auto"), b) <= 1e-15
    on = pg.asarray(b, queue=factor.queue)
    np.testing.assert_array_equal(factor.solve(on, refine=2).get(), twice)


def test_values_on_the_device(engine: Engine) -> None:
    A = grid(9, 8)
    symbolic = analyze(A)
    factor = Factor(symbolic)
    values = pg.asarray(A.data, queue=factor.queue)
    b = right(72, 3, np.float64)
    factor.refactorize(values)
    want = factor.solve(b)
    assert backward_error(A, want, b) <= 1e-14
    np.testing.assert_array_equal(Factor(symbolic).refactorize(A).solve(b), want)

    strided = on_device(engine, np.asfortranarray(b), queue=factor.queue)
    x = factor.solve(strided)
    np.testing.assert_array_equal(x.get(), want)
    out = on_device(engine, np.zeros_like(b, order="F"), queue=factor.queue)
    assert factor.solve(strided, out=out) is out
    np.testing.assert_array_equal(pg.asnumpy(out), want)
    host = np.zeros((3, 72)).T
    assert factor.solve(b, out=host) is host
    np.testing.assert_array_equal(host, want)

    bad = A.data.copy()
    bad[0] = -7
    lazily = factor.refactorize(pg.asarray(bad, queue=factor.queue)).solve(strided)
    with pytest.raises(NotPositiveDefiniteError):
        lazily.get()
    with pytest.raises(NotPositiveDefiniteError):
        factor.refactorize(pg.asarray(bad, queue=factor.queue), check="now")
    np.testing.assert_array_equal(factor.refactorize(values).solve(b), want)


@pytest.mark.usefixtures("cuts")
def test_a_matrix_without_a_factor() -> None:
    A = sp.lil_array(grid(9, 8, 4))
    symbolic = analyze(A.tocsr())
    factor = Factor(symbolic)
    for variable in (0, 17, 150, 287):
        broken = A.copy()
        broken[variable, variable] = -3.5
        with pytest.raises(NotPositiveDefiniteError) as info:
            factor.refactorize(broken.tocsr())
        assert info.value.variable == variable
        assert symbolic.perm[info.value.column] == variable
        assert -20 < info.value.pivot <= -3.5
        assert pickle.loads(pickle.dumps(info.value)).variable == variable
        with pytest.raises(NotPositiveDefiniteError):
            factor.solve(np.ones(288))
        with pytest.raises(NotPositiveDefiniteError):
            factor.logdet()
    b = right(288, None, np.float64)
    assert backward_error(A, factor.refactorize(A.tocsr()).solve(b), b) <= 1e-14
    singular = grid(4, 4).toarray()
    np.fill_diagonal(singular, 0)
    np.fill_diagonal(singular, -singular.sum(axis=1))  # of a graph without borders
    singular[0, 0] -= 1e-3
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(sp.csr_array(singular))


@needs_matrices
def test_numbers_too_small_for_float32() -> None:
    A = read("crystm01.mtx")
    b = right(A.shape[0], None, np.float64)
    factor = cholesky(A, "amd", dtype=np.float32)
    assert backward_error(A, factor.solve(b, refine="auto"), b) <= 1e-14


def test_what_is_refused() -> None:
    A = grid(4, 4)
    factor = cholesky(A)
    x = factor.solve(np.ones(16))
    nan = A.copy()
    nan.data[3] = np.nan
    other = sp.lil_array(A)
    other[0, 9] = other[9, 0] = 0.1
    for values, error in (
        (nan, ArgumentError), (other.tocsr(), ArgumentError), (grid(4, 5), ShapeError),
        (A.data[:-1], ShapeError), (A.data + 0j, DTypeError), ("text", ArgumentTypeError),
        (pg.asarray(A.data[:-1]), ShapeError), (pg.asarray(A.data.astype("i4")), DTypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            factor.refactorize(values)
        np.testing.assert_array_equal(factor.solve(np.ones(16)), x)  # it is as it was
    for b, options, error in (
        (np.ones(15), {}, ShapeError), (np.ones((16, 2, 2)), {}, ShapeError),
        (np.ones(16, np.float16), {}, DTypeError), (np.ones(16), {"system": "LL"}, ArgumentError),
        (np.ones(16), {"refine": -1}, ArgumentError),
        (np.ones(16), {"out": np.ones(15)}, ShapeError),
        (np.ones(16), {"refine": 1, "system": "L"}, ArgumentError),
        (np.ones(16), {"out": np.ones(16, "f4")}, DTypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            factor.solve(b, **options)
    with pg.Engine() as other, pytest.raises(ContextMismatchError, match="b is of"):
        factor.solve(pg.asarray(np.ones(16), engine=other))
    with pytest.raises(UnsupportedError, match="pickle its symbolic"):
        pickle.dumps(factor)
    with pytest.raises(ArgumentError, match="no values"):
        Factor(factor.symbolic).solve(np.ones(16))
    with factor:
        assert "float64" in repr(factor)
    with pytest.raises(ArgumentError, match="closed"):
        factor.solve(np.ones(16))


def test_views_of_a_factor() -> None:
    A = grid(7, 6)
    factor = cholesky(A)
    b = right(42, 2, np.float64)
    operator = factor.as_linear_operator()
    np.testing.assert_array_equal(operator @ b, factor(b))
    np.testing.assert_array_equal(operator.T @ b[:, 0], factor(b[:, 0]))
    stats = factor.stats
    assert stats.nnz == factor.symbolic.nnz
    assert stats.flop == factor.symbolic.flops
    assert stats.gflops > 0
    assert set(stats.times) > {"ordering", "plan", "factorise"}
    assert stats.factor_bytes >= 8 * stats.nnz


def test_equal_bits(engine: Engine) -> None:
    A = elastic(5, 5, 4)
    b = right(A.shape[0], 3, np.float64)
    result = []
    for _ in range(3):
        factor = cholesky(A, "amd")
        result.append((factor.L().data.tobytes(), factor.solve(b).tobytes()))
        result.append((factor.refactorize(A).L().data.tobytes(), factor.solve(b).tobytes()))
    assert len(set(result)) == 1


def test_memory_does_not_grow(engine: Engine) -> None:
    A = grid(8, 8)
    factor = cholesky(A)
    values = pg.asarray(A.data, queue=factor.queue)
    b = np.ones(64)

    def managed_bytes() -> int:
        gc.collect()
        return int(engine.state(factor.queue)._pool.managed_bytes)

    for _ in range(5):
        factor.refactorize(values).solve(b)
    before = managed_bytes()
    for turn in range(200):
        factor.refactorize(values if turn % 2 else A)
        factor.solve(b)
    assert managed_bytes() <= before
    assert not engine.state().in_flight


def test_a_quarter_of_a_factor_of_three_dimensions(engine: Engine) -> None:
    if not (engine.target.fp64 and engine.target.is_cpu):
        pytest.skip("large fronts take minutes by forced classes")
    for n in (12, 24):
        A = grid(n, n, n)
        whole = cholesky(A, "nd")
        limit = whole.stats.factor_bytes // 4
        b = right(A.shape[0], 2, "float64")
        with cholesky(A, "nd", memory_limit=limit) as factor:
            np.testing.assert_array_equal(factor.solve(b), whole.solve(b))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_out_of_core(tmp_path: Any, dtype: str) -> None:
    """The bits are the same, and the folder is empty at all times."""
    A = grid(37, 29)
    if dtype == "complex64":
        A = A + 0.3j * sp.tril(A, -1) - 0.3j * sp.triu(A, 1) + sp.eye(A.shape[0])
    A = sp.csr_array(A, dtype=dtype)
    symbolic = analyze(A, "amd")
    b = right(A.shape[0], 3, dtype)
    whole = Factor(symbolic, dtype).refactorize(A)
    L, x = whole.L(), whole.solve(b)
    for share in (0.5, 0.25, 0.15):
        limit = int(share * whole.stats.factor_bytes)
        factor = Factor(symbolic, dtype, memory_limit=limit, spill_dir=tmp_path)
        assert len(factor._numeric.schedule.chunks) > 1
        for _ in range(2):
            factor.refactorize(A)
            assert factor.L().data.tobytes() == L.data.tobytes()
        assert not list(tmp_path.iterdir())
        np.testing.assert_array_equal(factor.solve(b), x)
        np.testing.assert_array_equal(factor.solve(b[:, 0], "L"), whole.solve(b[:, 0], "L"))
        assert factor.logdet() == pytest.approx(whole.logdet(), rel=1e-12)
        np.testing.assert_array_equal(factor.inv_diag(), whole.inv_diag())
        on = pg.asarray(b, queue=factor.queue)
        np.testing.assert_array_equal(factor.solve(on, refine=1).get(), whole.solve(b, refine=1))
        broken = A.copy()
        broken[7, 7] = -1
        with pytest.raises(NotPositiveDefiniteError) as info:
            factor.refactorize(broken)
        assert info.value.variable == 7
        np.testing.assert_array_equal(factor.refactorize(A).solve(b), x)
        factor.close()


@pytest.mark.parametrize("kind", ["OUT_OF_ORDER_EXEC_MODE_ENABLE", "PROFILING_ENABLE"])
def test_queues(engine: Engine, kind: str) -> None:
    A = grid(20, 11)
    values = getattr(cl.command_queue_properties, kind)
    queue = cl.CommandQueue(engine.context, engine.device, values)
    b = right(220, 7, np.float64)
    usual = cholesky(A, "amd")
    want, inverse = usual.solve(b, refine=1), usual.inv_diag()
    reported: list[float] = []
    factor = cholesky(A, "amd", queue=queue)
    limit = factor.stats.factor_bytes // 3
    for item in (factor, cholesky(A, "amd", queue=queue, memory_limit=limit)):
        for _ in range(5):
            item.refactorize(pg.asarray(A.data, queue=queue))
            x = item.solve(pg.asarray(b, queue=queue), refine=1)
            np.testing.assert_array_equal(x.get(), want)
            np.testing.assert_array_equal(item.inv_diag(), inverse)
        item.refactorize(A, progress=lambda done, total: reported.append(done / total))
        assert reported[-1] == 1
        x = item.solve(pg.asarray(b), refine=1)  # of another queue
        assert x.queue == queue
        np.testing.assert_array_equal(x.get(), want)


def test_disks_that_are_full(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    A = grid(23, 23)
    with pytest.raises(DeviceMemoryError, match="largest supernode"):
        cholesky(A, "amd", memory_limit=1000)
    limit = cholesky(A, "amd").stats.factor_bytes // 3
    with pytest.raises(ArgumentError, match="not a folder"):
        cholesky(A, "amd", memory_limit=limit, spill_dir=tmp_path / "none")
    factor = cholesky(A, "amd", memory_limit=limit, spill_dir=tmp_path)
    b = np.ones(A.shape[0])
    x = factor.solve(b)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for module, name in ((os, "posix_fallocate"), (Spill, "write")):
        if not hasattr(module, name):
            continue
        with monkeypatch.context() as patch:
            patch.setattr(module, name, full)
            with pytest.raises(OSError, match="No space") as info:
                factor.refactorize(A)
        assert info.value.errno == errno.ENOSPC
        with pytest.raises(ArgumentError, match="no values"):
            factor.solve(b)
        np.testing.assert_array_equal(factor.refactorize(A).solve(b), x)


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_disk_that_gives_nothing_back(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever part it is, nothing is left behind, and the factor is as it was."""
    A = grid(23, 23)
    whole = cholesky(A, "amd")
    factor = cholesky(A, "amd", memory_limit=whole.stats.factor_bytes // 5)
    assert len(factor._numeric.schedule.chunks) > 4
    b = np.ones(A.shape[0])
    original, calls = Spill.read, []

    def broken(self: Spill, *arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) > at:
            raise SpillError(errno.EIO, "Input/output error")
        original(self, *arguments)

    for use in (lambda: factor.solve(b), factor.inv_diag, factor.L):
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Spill, "read", broken)
            if use != factor.L or not at:
                with pytest.raises(SpillError):
                    use()
    np.testing.assert_array_equal(factor.solve(b), whole.solve(b))
    np.testing.assert_array_equal(factor.inv_diag(), whole.inv_diag())


def test_chunks_are_copied_while_the_device_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of a chunk waits only for the chunk that had the same buffer before."""
    A = grid(23, 23)
    factor = cholesky(A, "amd", memory_limit=cholesky(A, "amd").stats.factor_bytes // 3)
    chunks, resident_chunks = len(factor._numeric.schedule.chunks), factor._numeric.resident_chunks
    assert chunks > 3
    assert resident_chunks == 2
    copies: list[int] = []
    original = SpilledFactor._copy

    def copy(self: SpilledFactor, to: Any, source: Any, *after: Any) -> Any:
        copies.append(len(after))
        assert self._state.engine.own_queue != self._state.queue
        return original(self, to, source, *after)

    monkeypatch.setattr(SpilledFactor, "_copy", copy)
    factor.solve(np.ones(A.shape[0]), "L")
    assert copies == [0] * resident_chunks + [1] * (chunks - 1 - resident_chunks)


def test_threads() -> None:
    """One factorises anew, others solve: each with one factor or with the other."""
    A = grid(8, 7)
    factor = cholesky(A)
    b = np.ones(56)
    expected = {
        factor.solve(b).tobytes(),
        Factor(factor.symbolic).refactorize(2 * A).solve(b).tobytes(),
    }
    result: list[bytes] = []

    def solve() -> None:
        for _ in range(30):
            result.append(factor.solve(b).tobytes())

    threads = [threading.Thread(target=solve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(30):
        factor.refactorize(A if turn % 2 else 2 * A)
    for thread in threads:
        thread.join()
    assert len(result) == 90
    assert set(result) <= expected


def test_interrupted_calls() -> None:
    A = grid(15, 15)
    factor = cholesky(A)
    b = right(225, 2, np.float64)
    want = factor.solve(b)
    rng = np.random.default_rng(5)
    with handler(stop):
        for _ in range(60):
            interrupted(lambda: factor.refactorize(A), 10 ** rng.uniform(-5, -2.7))
            with contextlib.suppress(ArgumentError):  # it has no values
                interrupted(lambda: factor.solve(b), 10 ** rng.uniform(-5, -2.7))
    np.testing.assert_array_equal(factor.refactorize(A).solve(b), want)
