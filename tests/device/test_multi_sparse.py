"""Sparse factors on groups of devices: the same bits for any number of devices."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy.sparse")
pytest.importorskip("portable_gpu.sparse")

import random_sparse
import scipy.sparse as sp
from sparse_matrices import grid, random_definite

import portable_gpu as pg
from portable_gpu import sparse
from portable_gpu.errors import (
    ArgumentError,
    DeviceFailedError,
    DeviceMemoryError,
    NotPositiveDefiniteError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.multi import DeviceGroup, GroupArray
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.sparse_factors import GroupFactor
from portable_gpu.runtime.launch import Launch
from portable_gpu.sparse import partition


@pytest.fixture(scope="module")
def groups() -> Iterator[list[DeviceGroup]]:
    """A group of the first of two sub-devices of this CPU, and one of both."""
    device = pg.default_engine().device
    if device.max_compute_units < 2 or "cpu" not in str(pg.default_engine().target.facts.type):
        pytest.skip("the device has no two sub-devices")
    try:
        two = DeviceGroup(2)
    except UnsupportedError as error:
        pytest.skip(str(error))
    with two, DeviceGroup([two.engines[0].device]) as one:
        yield [one, two]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small matrices have several parts."""
    monkeypatch.setattr(partition, "_LEAST_LIMIT", 500.0)


def same_bits(results: list[Any]) -> Any:
    """Return one of the results of several groups, which have the same bits."""
    for other in results[1:]:
        assert (other.shape, other.dtype) == (results[0].shape, results[0].dtype)
        assert other.tobytes() == results[0].tobytes()
    return results[0]


@pytest.mark.parametrize(("dtype", "count"), [("float64", 7), ("complex64", 4)])
def test_random_systems(groups: list[DeviceGroup], dtype: str, count: int) -> None:
    """The bound of the backward error is that of one device: see ``random_sparse.solve``."""
    draw, rng = random.Random(dtype), np.random.default_rng(0)
    for _ in range(count):
        random_sparse.solve_on_groups(groups, np.dtype(dtype), draw, rng, 300)


def test_all_that_a_factor_has(groups: list[DeviceGroup]) -> None:
    """Parts of the solution, right-hand sides of every kind, L, determinants, new values."""
    A = grid(14, 13)
    n = A.shape[0]
    rng = np.random.default_rng(1)
    before = [[member.used for member in group.members] for group in groups]
    factors = [sparse.cholesky(A, "nd", engine=group) for group in groups]
    alone = sparse.cholesky(A, "nd", engine=groups[0].engines[0])
    assert all(member.used for member in groups[1].members)  # both devices have parts
    symbolic, b = factors[0].symbolic, rng.standard_normal((n, 3))
    lower = same_bits([factor.L().toarray() for factor in factors])
    assert np.allclose(lower, alone.L().toarray(), rtol=1e-13, atol=1e-13)
    dense = A.toarray()[symbolic.perm][:, symbolic.perm]
    assert np.allclose(lower @ lower.T, dense, atol=1e-13)
    x = {
        system: same_bits([factor.solve(b, system) for factor in factors])
        for system in ("A", "L", "Lt", "P", "Pt")
    }
    assert np.allclose(A @ x["A"], b, atol=1e-12)
    assert np.allclose(lower @ x["L"], b, atol=1e-13)
    assert np.allclose(lower.T @ x["Lt"], b, atol=1e-13)
    assert (x["P"] == b[symbolic.perm]).all()
    assert (x["Pt"][symbolic.perm] == b).all()
    assert np.isclose(factors[1].logdet(), np.linalg.slogdet(dense)[1], rtol=1e-12)
    assert factors[1].stats.factor_bytes == alone.stats.factor_bytes
    both = same_bits([factor.solve(b[:, 0] + 1j * b[:, 1]) for factor in factors])
    assert np.allclose(A @ both, b[:, 0] + 1j * b[:, 1], atol=1e-12)
    sparse_b = sp.csc_array(np.where(rng.random((n, 4)) < 0.1, 1.0, 0.0))
    thin = same_bits([factor.solve(sparse_b).toarray() for factor in factors])
    assert np.allclose(A @ thin, sparse_b.toarray(), atol=1e-12)
    of_groups = [f.solve(g.asarray(b), "A") for f, g in zip(factors, groups, strict=True)]
    assert isinstance(of_groups[1], GroupArray)
    assert same_bits([result.asnumpy() for result in of_groups]).tobytes() == x["A"].tobytes()
    on_device = pg.asarray(b, engine=groups[1].engines[0])
    assert pg.asnumpy(factors[1].solve(on_device)).tobytes() == x["A"].tobytes()
    for shift in (3, 5, 2):  # the second call records kernels, and the third one repeats them
        shifted = A + shift * sp.eye_array(n, format="csr")
        for factor in factors:
            factor.refactorize(shifted)
        for right in (b, -b):
            x_of_shifted = same_bits([factor.solve(right) for factor in factors])
            assert np.allclose(shifted @ x_of_shifted, right, atol=1e-12)
    for columns in (1, 4, 5, 6, 2):  # recorded substitutions stay for the last two numbers alone
        same_bits([factor.solve(rng.standard_normal((n, columns))) for factor in factors[1:]])
    assert len({key[-1] for key in factors[1]._parts._repeated if key[0] == "substitute"}) == 2
    del of_groups
    for factor in factors:
        factor.close()
    assert [[member.used for member in group.members] for group in groups] == before


def test_threads_of_devices_drop_the_oldest_recordings_alone(
    groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both devices look up a new number of right-hand sides at the same time."""

    class Slow(list[int]):
        def __contains__(self, count: object) -> bool:
            is_found = super().__contains__(count)
            time.sleep(0.01)
            return is_found

    A = grid(14, 13)
    monkeypatch.setattr(groups[1], "threads", "each")
    with sparse.cholesky(A, "nd", engine=groups[1]) as factor:
        assert isinstance(factor, GroupFactor)
        plans = factor._parts
        for columns in (1, 2, 1, 3):  # the last one replaces 2
            plans._counts = Slow(plans._counts)
            b = np.random.default_rng(columns).standard_normal((A.shape[0], columns))
            assert np.allclose(A @ factor.solve(b), b, atol=1e-12)
        recorded = {key[-1] for key in plans._repeated if key[0] == "substitute"}
        assert recorded == {1, 3}


def test_solutions_in_one_call(groups: list[DeviceGroup]) -> None:
    """A factor in float32 with refinement has the accuracy of float64."""
    A, b = random_definite(150, 0.03, 2), np.random.default_rng(3).standard_normal(150)
    out = np.empty(150)
    x = same_bits([sparse.spsolve(A, b, engine=group, out=out.copy()) for group in groups])
    assert random_sparse.backward_error(A, x, b) <= 4
    options: Any = {"dtype": "float32", "refine": "auto"}
    x = same_bits([sparse.spsolve(A, b, engine=group, **options) for group in groups])
    assert x.dtype == np.float64
    assert random_sparse.backward_error(A, x, b) <= 4
    for empty in (sp.csr_array((0, 0)), sp.csr_array((3, 3)) + sp.eye_array(3, format="csr")):
        n = empty.shape[0]
        assert (sparse.spsolve(empty, np.ones(n), engine=groups[1]) == np.ones(n)).all()


def test_matrices_without_a_factor(groups: list[DeviceGroup]) -> None:
    """The error names the same variable as that of one device, and the factor stays usable."""
    A = grid(14, 13)
    for group in groups:
        factor = sparse.cholesky(A, "nd", engine=group)
        for variable in (5, 90, 181):  # in parts of both devices
            broken = A.copy()
            broken[variable, variable] = -1.0
            with pytest.raises(NotPositiveDefiniteError) as expected:
                sparse.cholesky(broken, symbolic=factor.symbolic, engine=group.engines[0])
            with pytest.raises(NotPositiveDefiniteError) as found:
                factor.refactorize(broken)
            assert found.value.column == expected.value.column
            assert found.value.variable == expected.value.variable
            assert np.isclose(found.value.pivot, expected.value.pivot, rtol=1e-12)
        x = factor.refactorize(A).solve(np.ones(A.shape[0]))
        assert np.allclose(A @ x, 1, atol=1e-12)
        factor.close()


def test_what_is_refused(groups: list[DeviceGroup]) -> None:
    group, A = groups[1], grid(6, 5)
    for options in ({"memory_limit": 100}, {"spill_dir": "."}, {"progress": True}):
        with pytest.raises(UnsupportedError, match=next(iter(options))):
            sparse.cholesky(A, engine=group, **options)
    with pytest.raises(UnsupportedError, match="queue"):
        sparse.cholesky(A, engine=group, queue=group.engines[0].queue)
    with sparse.cholesky(A, engine=group) as factor:
        with pytest.raises(UnsupportedError, match="inv_diag"):
            factor.inv_diag()
        with pytest.raises(ShapeError):
            factor.solve(np.ones(7))
        with pytest.raises(UnsupportedError, match="out"):
            factor.solve(group.broadcast(np.ones(30)), out=np.ones(30))
        with pytest.raises(ArgumentError, match="another group"):
            factor.solve(groups[0].broadcast(np.ones(30)))
    with pytest.raises(ArgumentError, match="closed"):
        factor.solve(np.ones(30))
    with pytest.raises(UnsupportedError, match="DeviceGroup"):
        sparse.FactorStack(factor.symbolic, 2, engine=group)


@pytest.mark.parametrize("failing", [1, 3])
def test_a_device_that_lacks_memory(
    groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """The error names the device; with ``on_failure="retry"`` another device computes the part."""
    A, b = grid(14, 13), np.ones(182)
    expected = sparse.spsolve(A, b, ordering="nd", engine=groups[0])
    empty, count = Member.empty, 0

    def limited(self: Member, shape: Any, dtype: Any) -> Any:
        nonlocal count
        if self.index == 1 and len(shape) == 1 and np.dtype(dtype) == np.float64:
            count += 1
            if count == failing + 1:  # the values are the first
                raise DeviceMemoryError("an allocation fails on purpose")
        return empty(self, shape, dtype)

    for policy in ("raise", "retry"):
        with DeviceGroup([e.device for e in groups[1].engines], on_failure=policy) as group:
            factor = sparse.cholesky(A, "nd", engine=group)
            used, count = [member.used for member in group.members], 0
            factor.close()
            with monkeypatch.context() as patch:
                patch.setattr(Member, "empty", limited)
                if policy == "raise":
                    with pytest.raises((DeviceMemoryError, DeviceFailedError), match="device 1"):
                        sparse.cholesky(A, "nd", engine=group)
                else:
                    with sparse.cholesky(A, "nd", engine=group) as other:
                        assert other.solve(b).tobytes() == expected.tobytes()
                assert count > failing
            assert [member.used for member in group.members] == [0, 0]
            repeated = sparse.cholesky(A, "nd", engine=group)
            assert [member.used for member in group.members] == used
            assert repeated.solve(b).tobytes() == expected.tobytes()
            repeated.close()


def test_values_that_a_device_still_computes(groups: list[DeviceGroup]) -> None:
    """Copies to other devices wait for the kernels that compute the values."""
    A, b, group = grid(14, 13), np.ones(182), groups[1]
    engine = group.engines[0]
    expected = sparse.spsolve(2 * A, b, ordering="nd", engine=group)
    large = pg.asarray(np.ones((900, 900), np.float32), engine=engine)
    values = pg.asarray(A.data, engine=engine)
    with sparse.cholesky(A, "nd", engine=group) as factor:
        for _ in range(2):
            pg.gemm(large, large, engine=engine)  # it takes a while
            factor.refactorize(pg.elementwise("x + x", x=values, engine=engine))
            assert factor.solve(b).tobytes() == expected.tobytes()


def test_plans_of_solves_are_dropped(groups: list[DeviceGroup]) -> None:
    """On a group the plans for at most 16 numbers of columns are cached, as on one device."""
    A = grid(14, 13)
    with sparse.cholesky(A, "nd", engine=groups[1]) as factor:
        gc.collect()
        largest, before = 0, len(permutations())
        for count in range(1, 19):
            b = np.ones((A.shape[0], count))
            assert np.abs(A @ factor.solve(b) - b).max() <= 1e-12
            largest = max(largest, len(permutations()) - before)
        assert 2 <= largest <= 2 * 16


def permutations() -> list[Any]:
    """Return the plans of permutations of right-hand sides."""
    return [x for x in gc.get_objects() if isinstance(x, Launch) and x._source[1] == "permute"]
