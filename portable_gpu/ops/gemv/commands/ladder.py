"""The ladder of gemv: a sub-group a row, vectors, several rows of a sub-group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from portable_gpu.ops.gemv.api import gemv
from portable_gpu.ops.gemv.policy import RowPolicy
from portable_gpu.ops.ladder import Ladder, Rung, climbing_engine
from portable_gpu.runtime.engine import Engine
from portable_gpu.tuning.table import LookUp, PolicyRow, RevisedTable, TuningTable


class _Table(RevisedTable):
    """Gives one policy for rows."""

    def __init__(self, policy: RowPolicy) -> None:
        super().__init__(TuningTable([]))
        self._policy = policy

    def revise(self, asked: LookUp, row: PolicyRow[Any]) -> PolicyRow[Any]:
        """The policy, if it is of the type."""
        if not isinstance(self._policy, asked.policy_type):
            return row
        self._policy.check(asked.target, asked.elem)
        return PolicyRow(self._policy, "a rung of the ladder")


def ladders(engine: Engine) -> list[Ladder]:
    """Tall matrices: vectors from 128 columns on, several rows of a sub-group below 32."""
    target = climbing_engine(engine).target
    lanes = target.subgroup_size
    group = max(lanes, min(256, target.max_work_group_size))
    plain = RowPolicy(
        group_size=group, long_group_size=group, vector=1, lanes=lanes, rows=1, unroll=1,
        groups_per_unit=4, grain=1 << 14,
    )  # fmt: skip
    vectors, narrow = replace(plain, vector=4), replace(plain, lanes=max(1, lanes // 2))
    rungs = [
        _rung(engine, "v0: a sub-group a row", plain, lambda columns: columns >= 32),
        _rung(engine, "v1: the same, float4", vectors, lambda columns: columns >= 128),
        _rung(engine, "v2: several rows", narrow, lambda columns: columns <= 16),
    ]
    sizes = "16384x16/N,16384x32/N,16384x128/N"
    return [Ladder(f"sgemv, sub-groups of {lanes}", "gemv", "float32", sizes, rungs)]


def _rung(engine: Engine, name: str, policy: RowPolicy, takes: Callable[[int], bool]) -> Rung:
    climbing = climbing_engine(engine, _Table(policy))

    def bind(arrays: Sequence[Any]) -> Callable[[], Any]:
        return lambda: gemv(*arrays, engine=climbing)

    return Rung(name, climbing, bind, lambda case: takes(case.extents[1]))
