"""Policies within their limits give right results, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.dtypes import element
from portable_gpu.errors import PolicyError
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemv.policy import ColumnPolicy, RowPolicy
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, _hints
from portable_gpu.tuning.table import LookUp, PolicyRow, RevisedTable, TuningTable

A = np.random.default_rng(4).integers(-3, 4, (130, 517)).astype(np.float32)
X = np.random.default_rng(5).integers(-3, 4, 517).astype(np.float32)
B = np.random.default_rng(6).integers(-3, 4, (517, 70)).astype(np.float32)
CASES = (ReducePolicy, RowPolicy, ColumnPolicy, PackedPolicy)


class Only(RevisedTable):
    """A table with one policy for its kernel, whatever the problem."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(TuningTable([]))
        self.policy, self.used = policy, False

    def revise(self, asked: LookUp, row: PolicyRow[Any]) -> PolicyRow[Any]:
        if asked.policy_type is not type(self.policy):
            return row
        self.used = True
        return PolicyRow(self.policy, "a test")


def extremes(cls: type[Policy], target: Target) -> Iterator[Policy]:
    """The default with one field at an end of its range, or at an odd number; what fits."""
    default = cls.default(target, element(np.float32))
    for name, hint in _hints(cls).items():
        (bounds,) = hint.__metadata__
        for value in {bounds.minimum, 7, bounds.maximum}:
            policy = replace(default, **{name: value})
            try:
                policy.check(target, element(np.float32))
            except PolicyError:
                continue
            yield policy


def results(cls: type[Policy], engine: Engine) -> Iterator[tuple[Any, Any]]:
    if cls is ReducePolicy:
        yield pg.sum(A, axis=0, engine=engine), A.sum(axis=0)
        yield pg.sum(A, axis=1, engine=engine), A.sum(axis=1)
    elif cls is RowPolicy:
        yield pg.gemv(A, X, engine=engine), A @ X
    elif cls is ColumnPolicy:
        yield pg.gemv(A.T, X[:130], engine=engine), A.T @ X[:130]
    else:
        yield pg.matmul(A, B, engine=engine), A @ B


@pytest.mark.parametrize("cls", CASES, ids=lambda cls: cls.__name__)
def test_extremes(cls: type[Policy], engine: Engine) -> None:
    if not engine.target.is_cpu:
        pytest.skip("a sample for the CPU's kernels")
    count = 0
    for policy in extremes(cls, engine.target):
        table = Only(policy)
        new_engine = Engine(engine.device, table=table, caller=False)
        begin = time.monotonic()
        for result, expected in results(cls, new_engine):
            np.testing.assert_array_equal(result, expected, err_msg=str(policy))
        assert table.used
        assert time.monotonic() - begin < 60, policy
        count += 1
    assert count >= 5
