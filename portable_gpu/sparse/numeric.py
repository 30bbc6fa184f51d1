"""The plans of one symbolic factorisation on one device: factorise, solve, permute."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from portable_gpu.dtypes import element
from portable_gpu.ops.fronts.cpu import SubtreesPlan
from portable_gpu.ops.fronts.device import FACTOR, DeviceFronts
from portable_gpu.ops.fronts.solve import PermutePlan, backward_steps, forward_steps
from portable_gpu.ops.fronts.stages import last_step, stage_steps
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.sparse.schedule import by_levels, by_subtrees

#: What ``system=`` takes: which of P, L^-1, L^-H and P^T make up the solution.
SYSTEMS = {"A": "PLHT", "L": "L", "Lt": "H", "P": "P", "Pt": "T"}


class Numeric:
    """Plans for one pattern, dtype and engine, each made when it is first used.

    Attributes:
        engine, fronts, dtype: For what.
        schedule: The order of the fronts.
        device: Their tables and places.
    """

    def __init__(self, engine: Engine, fronts: Fronts, perm: Any, dtype: np.dtype[Any]) -> None:
        """Bring the tables; nothing is built."""
        self.engine, self.fronts, self.dtype = engine, fronts, dtype
        target = engine.target
        self.schedule = s = (
            by_subtrees(fronts, target.compute_units, dtype.itemsize)
            if target.is_cpu
            else by_levels(fronts)
        )
        self.device = DeviceFronts(engine, fronts, element(dtype), s.update, s.arena, s.started)
        self._perm = engine.bring(np.ascontiguousarray(perm, np.int32))
        self._n = len(perm)
        self._plans: dict[Any, Plan] = {}

    def factorise(self) -> Plan:
        """Operands: the values, the factor and the report."""
        return self._plan("factorise", self._factorise)

    def solve(self, system: str, count: int, b: Operand, x: Operand) -> Plan:
        """Operands: the factor, b and x; n x count each.

        Args:
            system: A key of :data:`SYSTEMS`.
            count: Columns.
            b, x: How they lie.
        """
        return self._plan((system, count, b, x), partial(self._solve, system, count, b, x))

    def _plan(self, key: Any, make: Any) -> Plan:
        found = self._plans.get(key)
        return self._plans.setdefault(key, make()) if found is None else found

    def _factorise(self) -> Plan:
        steps: list[Step] = []
        schedule = self.schedule
        if len(schedule.subtrees):
            plan = SubtreesPlan(self.device, schedule.subtrees, schedule.stack, schedule.peak)
            steps.append(plan.step(self.device))
        for stage in schedule.stages:
            steps.extend(stage_steps(self.device, stage))
        return Steps([*steps, last_step(self.device)])

    def _solve(self, system: str, count: int, b: Operand, x: Operand) -> Plan:
        factor, given, result = 0, 1, 2
        device, s, itemsize = self.device, self.schedule, self.dtype.itemsize
        work = Temporary("permuted", self._n * count * itemsize, itemsize)
        parts = SYSTEMS[system]
        permute = partial(PermutePlan, self.engine, n=self._n, count=count)
        perm, own = self._perm, self._own
        steps = [Step(permute(perm=perm if "P" in parts else own, b=b, back=False), (given, work))]
        lists = self._lists()
        if "L" in parts:
            steps += forward_steps(device, lists, s.rows, count, factor, work)
        if "H" in parts:
            steps += backward_steps(device, lists, s.rows, count, factor, work)
        to = perm if "T" in parts else own
        return Steps([*steps, Step(permute(perm=to, b=x, back=True), (result, work))])

    def _lists(self) -> list[list[Any]]:
        """Of each stage of a solve the lists of fronts that are gone through in order."""
        subtrees = [np.arange(low, end, dtype=np.int32) for low, end in self.schedule.subtrees]
        stages = list(self.schedule.stages)
        if self.engine.target.is_cpu and stages:
            stages = [np.concatenate(stages)]
        return [subtrees, *([stage] for stage in stages)] if subtrees else [[s] for s in stages]

    @property
    def _own(self) -> Any:
        """The permutation that changes nothing."""
        numbers = np.arange(self._n, dtype=np.int32)
        return self._plan("own", lambda: self.engine.bring(numbers))


__all__ = ["FACTOR", "SYSTEMS", "Numeric"]
