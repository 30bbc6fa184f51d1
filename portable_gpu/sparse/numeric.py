"""The plans of one symbolic factorisation on one device: factorise, solve, take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from portable_gpu.dtypes import element
from portable_gpu.ops.fronts.cpu import SubtreesPlan
from portable_gpu.ops.fronts.device import DeviceFronts
from portable_gpu.ops.fronts.solve import PermutePlan, TakePlan, backward_steps, forward_steps
from portable_gpu.ops.fronts.stages import last_step, stage_steps
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import View
from portable_gpu.sparse.schedule import by_levels, by_subtrees
from portable_gpu.sparse.symbolic import Symbolic

_Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: What ``system=`` takes: which of P, L^-1, L^-H and P^T make up the solution.
SYSTEMS = {"A": "PLHT", "L": "L", "Lt": "H", "P": "P", "Pt": "T"}


class Numeric:
    """Plans for one pattern, dtype and engine, each made when it is first used.

    Attributes:
        engine, symbolic, dtype: For what.
        schedule: The order of the fronts.
        device: Their tables and places.
    """

    def __init__(self, engine: Engine, symbolic: Symbolic, dtype: np.dtype[Any]) -> None:
        """Bring the tables; nothing is built."""
        self.engine, self.symbolic, self.dtype = engine, symbolic, dtype
        target, fronts = engine.target, symbolic.fronts
        self.schedule = s = (
            by_subtrees(fronts, target.compute_units, dtype.itemsize)
            if target.is_cpu
            else by_levels(fronts)
        )
        self.device = DeviceFronts(engine, fronts, element(dtype), s.update, s.arena, s.started)
        self._plans: dict[Any, Any] = {}

    @property
    def workspace_bytes(self) -> int:
        """Memory that a factorisation takes."""
        plan: Plan = self.factorise()
        return plan.workspace_bytes

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made for ``key`` before, or is made now."""
        found = self._plans.get(key)
        return self._plans.setdefault(key, make()) if found is None else found

    def factorise(self) -> Any:
        """Operands: the values, in L's dtype, the factor and the report."""
        return self.kept("factorise", self._factorise)

    def converted(self, dtype: np.dtype[Any]) -> Any:
        """The lower triangle's values in L's dtype; operands: these of ``dtype``, and those."""
        nnz, elem = self.symbolic.pattern.nnz, element(self.dtype)

        def make() -> Plan:
            return TakePlan(self.engine, np.arange(nnz), nnz, element(dtype), elem)

        return self.kept(("converted", dtype), make) if nnz else None

    def lower(self, dtype: np.dtype[Any]) -> Any:
        """The lower triangle's values out of those that the matrix stores; operands: these two."""
        pattern, elem = self.symbolic.pattern, element(dtype)

        def make() -> Plan:
            take = np.where(pattern.take < 0, pattern.stored, pattern.take)
            if pattern.triangle == "upper":
                take = ~take
            return TakePlan(self.engine, take, pattern.stored, elem, elem)

        return self.kept(("lower", dtype), make) if pattern.nnz else None

    def diagonal(self) -> Any:
        """The diagonal of L; operands: the factor and that."""
        elem = element(self.dtype)

        def make() -> Plan:
            fronts, device = self.symbolic.fronts, self.device
            own = np.arange(self.symbolic.n) - np.repeat(fronts.first[:-1], fronts.columns)
            start, step = (
                np.repeat(one, fronts.columns) for one in (device.panel, device.leading + 1)
            )
            return TakePlan(self.engine, start + own * step, device.size, elem, elem)

        return self.kept("diagonal", make)

    def positions(self) -> tuple[_Int64, _Int64, _Int64]:
        """L by columns: the rows, the columns' pointers, and where in the factor elements lie."""
        fronts, device = self.symbolic.fronts, self.device
        front = np.repeat(np.arange(len(fronts)), fronts.columns)
        own = np.arange(self.symbolic.n) - fronts.first[front]
        heights = (fronts.columns + fronts.rows)[front] - own
        pointers = np.concatenate([[0], np.cumsum(heights)])
        column = np.repeat(np.arange(self.symbolic.n), heights)
        s = front[column]
        row = np.arange(pointers[-1]) - pointers[column] + own[column]
        below = row - fronts.columns[s]
        index = np.where(below < 0, 0, fronts.row_start[s] + below)
        found = np.append(fronts.row_index, 0)[index]
        rows = np.where(below < 0, fronts.first[s] + row, found)
        return rows, pointers, device.panel[s] + row * device.leading[s] + own[column]

    def solve(self, system: str, count: int, b: View, x: View) -> Any:
        """Operands: the factor, b and x; n x count each.

        Args:
            system: A key of :data:`SYSTEMS`.
            count: Columns.
            b, x: How they lie.
        """
        lies = [Operand(element(one.dtype), one.strides[0], one.strides[-1]) for one in (b, x)]
        return self.kept((system, count, *lies), partial(self._solve, system, count, *lies))

    def _factorise(self) -> Plan:
        schedule, device = self.schedule, self.device
        if not len(device.fronts):
            return Steps([])
        steps: list[Step] = []
        if len(schedule.subtrees):
            plan = SubtreesPlan(device, schedule.subtrees, schedule.stack, schedule.peak)
            steps.append(plan.step(device))
        for stage in schedule.stages:
            steps.extend(stage_steps(device, stage))
        return Steps([*steps, last_step(device)])

    def _solve(self, system: str, count: int, b: Operand, x: Operand) -> Plan:
        factor, given, result = 0, 1, 2
        n, elem, rows = self.symbolic.n, element(self.dtype), self.schedule.rows
        work = Temporary("permuted", n * count * elem.itemsize, elem.itemsize)
        parts = SYSTEMS[system]
        permute = partial(PermutePlan, self.engine, n=n, count=count, elem=elem)
        come = permute(perm=self._perm("P" in parts), b=b, back=False)
        steps = [Step(come, (given, work))]
        lists = self._lists()
        if "L" in parts:
            steps += forward_steps(self.device, lists, rows, count, factor, work)
        if "H" in parts:
            steps += backward_steps(self.device, lists, rows, count, factor, work)
        go = permute(perm=self._perm("T" in parts), b=x, back=True)
        return Steps([*steps, Step(go, (result, work))])

    def _lists(self) -> list[list[Any]]:
        """Of each stage of a solve the lists of fronts that are gone through in order."""
        subtrees = [np.arange(low, end, dtype=np.int32) for low, end in self.schedule.subtrees]
        stages = list(self.schedule.stages)
        if self.engine.target.is_cpu and stages:
            stages = [np.concatenate(stages)]
        return [*([subtrees] if subtrees else []), *([stage] for stage in stages)]

    def _perm(self, permutes: bool) -> Any:
        """The permutation, or the one that changes nothing, on the device."""
        perm = self.symbolic.perm if permutes else np.arange(self.symbolic.n)
        return self.kept(("perm", permutes), lambda: self.engine.bring(perm.astype(np.int32)))
