"""The partition of a factorisation's fronts into parts, and their assignment to devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_matrices import grid, random_definite

from portable_gpu.sparse import analyze, partition
from portable_gpu.sparse.partition import Partition
from portable_gpu.sparse.schedule import costs, summed


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small matrices have several parts."""
    monkeypatch.setattr(partition, "_LEAST_LIMIT", 300.0)


def fronts_of(A: Any, ordering: Any = "amd") -> Any:
    return analyze(A, ordering, relax=()).fronts


def check(fronts: Any) -> Partition:
    """Check what holds for every partition."""
    parts = Partition.of(fronts)
    count, parent = len(fronts), fronts.parent
    assert len(parts.outer) == len(parts.targets) == len(parts.work) == len(parts)
    ends = [0, *parts.ends.tolist()]
    assert ends[-1] == count
    assert ends == sorted(set(ends))
    part = np.repeat(np.arange(len(parts)), np.diff(ends))
    for k in range(len(parts)):
        inside = np.flatnonzero(part == k)
        outer = [s for s in inside if parent[s] >= 0 and part[parent[s]] != k]
        assert parts.outer[k].tolist() == outer
        targets = sorted({int(part[parent[s]]) for s in outer})
        assert list(parts.targets[k]) == targets
        assert all(target > k for target in targets)
        ancestors = set()  # by the definition, front by front
        for s in inside:
            while s >= 0:
                ancestors.add(int(part[s]))
                s = parent[s]
        assert parts.ancestors(k) == sorted(ancestors - {k})
        assert parts.sources(k) == [j for j in range(k) if k in parts.targets[j]]
    level = {number: k for k, level in enumerate(parts.levels) for number in level}
    assert sorted(level) == list(range(len(parts)))
    assert all(level[k] < level[t] for k in range(len(parts)) for t in parts.targets[k])
    cost = costs(fronts)
    limit = max(cost.sum() / 32, 300.0)
    below = [s for s, work in enumerate(summed(parent, cost)) if work <= limit]
    assert all(part[s] == part[parent[s]] for s in below if parent[s] in set(below))
    assert np.isclose(sum(parts.work), cost.sum())
    return parts


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 60), st.sampled_from([0, 0.01, 0.05, 0.2, 1]), st.integers(0, 10**6),
    st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any),
)  # fmt: skip
def test_random_matrices(n: int, density: float, seed: int, weights: list[int]) -> None:
    parts = check(fronts_of(random_definite(n, density, seed)))
    owners = parts.owners([weight / sum(weights) for weight in weights], 50.0)
    assert len(owners) == len(parts)
    assert all(weights[owner] for owner in owners)  # a device without a share computes nothing


def test_chains_and_stars_and_diagonals() -> None:
    """Trees without branches have few parts, and so have many small trees."""
    n = 600
    band = sp.diags([-1.0, 4.0, -1.0], [-1, 0, 1], shape=(n, n)).tocsr()
    assert len(check(fronts_of(band, "natural"))) <= 40
    arrow = sp.lil_matrix(sp.eye(n) * n)
    arrow[-1] = arrow[:, -1] = 1.0
    assert len(check(fronts_of(arrow.tocsr(), "natural"))) <= 40
    assert 8 <= len(check(fronts_of(sp.eye_array(n, format="csr")))) <= 40
    assert len(check(fronts_of(sp.csr_array((0, 0))))) == 0


def test_assignments_to_devices() -> None:
    """They are better than proportional mapping and than one device for all parts."""
    parts = check(fronts_of(grid(24, 24), "nd"))
    for count in (2, 3, 4):
        shares = [1 / count] * count
        owners = parts.owners(shares, 1.0)
        time = parts._time(owners, shares, 1.0)
        assert time <= parts._time(parts._mapped(shares), shares, 1.0)
        work = np.bincount(owners, parts.work, count)
        assert time >= work.max() * (1 - 1e-12)
        assert time <= sum(parts.work) / (1 + 0.3 * count)
        # Moves of elements that take too long leave all parts on one device.
        assert len(set(parts.owners(shares, 1e9))) == 1
    uneven = parts.owners([0.8, 0.2], 1.0)
    work = np.bincount(uneven, parts.work, 2)
    assert work[0] > 2 * work[1]
    assert set(parts.owners([1.0], 1.0)) == {0}
    assert 0 not in parts.owners([0.0, 0.4, 0.6], 1.0)


def test_the_estimated_time() -> None:
    """Two sources of 2 and 3 on two devices; 4 elements of the second one are moved to a root."""
    parts = Partition(
        np.array([1, 2, 3]), (np.array([0]), np.array([1]), np.array([], int)), ((2,), (2,), ()),
        (2.0, 3.0, 5.0), (4.0, 4.0, 0.0), ((0, 1), (2,)),
    )  # fmt: skip
    assert parts._time([0, 1, 0], [0.5, 0.5], 0.5) == 3 + 2 + 5
    assert parts._time([0, 1, 0], [0.25, 0.75], 0.5) == max(2 / 0.5, 3 / 1.5 + 2) + 5 / 0.5
    assert parts._time([0, 0, 0], [0.5, 0.5], 0.5) == 10
