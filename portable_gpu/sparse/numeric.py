"""The plans of one symbolic factorisation on one device: factorise, solve, gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from portable_gpu.dtypes import element
from portable_gpu.ops.fronts.cpu import SubtreesPlan
from portable_gpu.ops.fronts.device import DeviceFronts
from portable_gpu.ops.fronts.inverse import inverse_steps, square_sizes
from portable_gpu.ops.fronts.lower import lower_plan
from portable_gpu.ops.fronts.solve import permute_plan, substitution_steps, take_plan
from portable_gpu.ops.fronts.stages import last_step, stage_steps
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import View
from portable_gpu.sparse.matrix import ROUNDING
from portable_gpu.sparse.memory import memory_on
from portable_gpu.sparse.schedule import Chunk, Schedule, top_down_levels
from portable_gpu.sparse.symbolic import Symbolic

_Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: The values of ``system=``, each with the factors of its solution, in the order in which they are
#: applied: P, L for L^-1, H for L^-H, T for P^T.
SYSTEMS = {"A": "PLHT", "L": "L", "Lt": "H", "P": "P", "Pt": "T"}
#: The most numbers of columns of solves whose plans are cached.  A plan has lists of all fronts on
#: the device.
_MAX_SOLVES = 16


class Numeric:
    """Plans for one pattern, dtype and engine, each made when it is first used.

    Plans of solves are cached for at most 16 numbers of columns; before a further one, all are
    dropped.

    Attributes:
        engine, symbolic, dtype: The engine, the analysis, and the dtype of L.
        schedule: The order of the fronts.
        resident_chunks: The number of chunks of panels on the device at a time, except the last.
        memory: The memory of a factorisation.
        device: The fronts' tables and positions on the device.
    """

    def __init__(
        self,
        engine: Engine,
        symbolic: Symbolic,
        dtype: np.dtype[Any],
        schedule: Schedule,
        resident_chunks: int = 1,
    ) -> None:
        """Upload the tables; no kernel is built.

        Args:
            engine, symbolic, dtype, schedule, resident_chunks: As the attributes.

        Raises:
            DeviceMemoryError: The device is too small.
        """
        self.engine, self.symbolic, self.dtype = engine, symbolic, dtype
        self.schedule, self.resident_chunks = schedule, resident_chunks
        elem = element(dtype)
        target, fronts, s = engine.target, symbolic.fronts, schedule
        self.memory = memory_on(target, fronts, elem, symbolic.pattern.nnz, s, self.resident_chunks)
        self.memory.check()
        self.device = DeviceFronts(
            engine, symbolic.fronts, elem, s.update, s.arena, s.contribution_start
        )
        self._plans: dict[Any, Any] = {}
        self._solve_plans: dict[tuple[int, Any], Any] = {}

    def bounds(self, chunk: Chunk) -> tuple[int, int]:
        """Return the range of a chunk's panels in the factor."""
        ends = np.append(self.device.panel, self.device.size)
        return int(ends[chunk.first]), int(ends[chunk.end])

    def memory_of(self, plans: Sequence[Plan]) -> tuple[int, int]:
        """Return the bytes that a factorisation by some plans needs in addition to L.

        Returns:
            The workspace, and the tables, which stay on the device.
        """
        workspace = max((plan.workspace_bytes for plan in plans), default=0)
        tables = self.device.kept_bytes + sum(plan.kept_bytes for plan in plans)
        return workspace + self.device.arena_bytes + self.device.pivot_status_bytes, tables

    @property
    def factorisation(self) -> list[Steps]:
        """The plans of all chunks, in their order.

        Operands: the values, in L's dtype, the panels, the report, the arena and the pivot status.
        The offset of the panels is that of the whole factor, of which the buffer holds a chunk.
        """
        return [self._factorise_chunk(k) for k in range(len(self.schedule.chunks))]

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the cached object of ``key``; make it if there is none."""
        plan = self._plans.get(key)
        return self._plans.setdefault(key, make()) if plan is None else plan

    def cached_of_solves(self, count: int, key: Any, make: Callable[[], Any]) -> Any:
        """Return the cached plan of ``key`` for ``count`` columns; make it if there is none.

        If there are too many plans, all are dropped first; a call that uses one keeps it.
        """
        plan = self._solve_plans.get((count, key))
        if plan is None:
            plan = make()
            counts = {planned_count for planned_count, _ in list(self._solve_plans)} | {count}
            # Two substitutions with each chunk, two permutations and a residual.
            max_plans = _MAX_SOLVES * (2 * len(self.schedule.chunks) + 3)
            if len(counts) > _MAX_SOLVES or len(self._solve_plans) >= max_plans:
                self._solve_plans.clear()
            plan = self._solve_plans.setdefault((count, key), plan)
        return plan

    def converted(self, dtype: np.dtype[Any]) -> Any:
        """Convert the lower triangle's values to L's dtype; operands: source and result."""
        nnz, elem = self.symbolic.pattern.nnz, element(self.dtype)

        def make() -> Plan:
            return take_plan(self.engine, np.arange(nnz), nnz, element(dtype), elem)

        return self.cached(("converted", dtype), make) if nnz else None

    def lower(self, dtype: np.dtype[Any], triangle: str | None = None) -> Any:
        """Gather the lower triangle's values from the stored ones; operands: source and result.

        Args:
            dtype: The dtype of both.
            triangle: As for :meth:`Pattern.values`.
        """
        pattern, elem = self.symbolic.pattern, element(dtype)
        sources, is_mirrored = pattern.sources(triangle)

        def make() -> Plan:
            # An index out of range stands for 0, and ~i for the conjugate of element i.
            take = np.where(sources < 0, pattern.stored, sources)
            take = ~take if is_mirrored else take
            return take_plan(self.engine, take, pattern.stored, elem, elem)

        return self.cached(("lower", dtype, is_mirrored), make) if pattern.nnz else None

    def checked(self, dtype: np.dtype[Any], triangle: str | None = None) -> OneLaunch:
        """Gather with the checks of :func:`lower_plan`, at half the host's tolerance."""
        pattern = self.symbolic.pattern
        sources, is_mirrored = pattern.sources(triangle)
        mirror = pattern.mirror if triangle is None else None

        def make() -> OneLaunch:
            return lower_plan(
                engine=self.engine, elem=element(dtype), rows=(pattern.pointers, pattern.columns),
                take=sources, mirror=mirror, stored=pattern.stored, conjugates=is_mirrored,
                rounding=ROUNDING / 2 * float(np.finfo(dtype).eps),
            )  # fmt: skip

        plan: OneLaunch = self.cached(("checked", dtype, is_mirrored, mirror is None), make)
        return plan

    @property
    def inverse_bytes(self) -> int:
        """Bytes of the inverse blocks of all fronts."""
        return max(1, self._inverse_layout[2]) * self.dtype.itemsize

    def inverse(self, number: int) -> Plan:
        """Compute a chunk's part of the selected inverse; the later chunks are computed before.

        Operands: the chunk's panels, the inverse's diagonal, in L's dtype, and the inverse blocks.
        """
        stages, places, _ = self._inverse_layout

        def make() -> Plan:
            at = self.cached("squares' places", lambda: self.engine.upload(places))
            return Steps(
                [
                    step
                    for stage in stages[number]
                    if len(stage)
                    for step in inverse_steps(self.device, stage, places, at)
                ]
            )

        plan: Plan = self.cached(("inverse", number), make)
        return plan

    @property
    def _inverse_layout(self) -> tuple[list[list[_Int64]], _Int64, int]:
        """The stages of an inverse, the positions of its blocks, and their total size."""
        fronts, target = self.symbolic.fronts, self.engine.target

        def make() -> Any:
            sizes = square_sizes(fronts, target, self.device.elem)
            return top_down_levels(fronts, self.schedule.chunks, sizes)

        layout: tuple[list[list[_Int64]], _Int64, int] = self.cached("squares", make)
        return layout

    def diagonal(self) -> Any:
        """Gather the diagonal of L; operands: the factor and the diagonal."""
        elem = element(self.dtype)

        def make() -> Plan:
            return take_plan(self.engine, self.diagonal_places(), self.device.size, elem, elem)

        return self.cached("diagonal", make)

    def diagonal_places(self) -> _Int64:
        """Compute the positions of the diagonal's elements in the factor."""
        fronts, device = self.symbolic.fronts, self.device
        column = np.arange(self.symbolic.n) - np.repeat(fronts.first[:-1], fronts.columns)
        start = np.repeat(device.panel, fronts.columns)
        return start + column * np.repeat(device.leading + 1, fronts.columns)

    def positions(self) -> tuple[_Int64, _Int64, _Int64]:
        """Compute L in CSC form: row indices, column pointers, and positions in the factor."""
        fronts, device = self.symbolic.fronts, self.device
        front = np.repeat(np.arange(len(fronts)), fronts.columns)
        local_column = np.arange(self.symbolic.n) - fronts.first[front]
        heights = (fronts.columns + fronts.rows)[front] - local_column
        pointers = np.concatenate([[0], np.cumsum(heights)])
        column = np.repeat(np.arange(self.symbolic.n), heights)
        s = front[column]
        row = np.arange(pointers[-1]) - pointers[column] + local_column[column]
        below = row - fronts.columns[s]
        index = np.where(below < 0, 0, fronts.row_start[s] + below)
        indices = np.append(fronts.row_index, 0)[index]
        rows = np.where(below < 0, fronts.first[s] + row, indices)
        return rows, pointers, device.panel[s] + row * device.leading[s] + local_column[column]

    def solve(self, system: str, count: int, b: View, x: View) -> Any:
        """Return the plan of a solve; operands: the factor, b and x.

        Args:
            system: A key of :data:`SYSTEMS`.
            count: The number of columns.
            b, x: Views of shape (n,) or (n, count).
        """
        operands = operand_of(b), operand_of(x)
        return self.cached_of_solves(
            count, (system, *operands), partial(self._solve, system, count, *operands)
        )

    def _factorise_chunk(self, number: int) -> Steps:
        chunks = self.schedule.chunks
        if number < len(chunks) - 1 or not self.symbolic.n:
            return self.chunk(number)

        def make() -> Steps:
            return Steps([*self._chunk_steps(chunks[number]), last_step(self.device)])

        plan: Steps = self.cached(("factorise last", number), make)
        return plan

    def chunk(self, number: int) -> Steps:
        """Factorise the fronts of a chunk, without a report; operands: see `factorisation`."""
        chunk = self.schedule.chunks[number]
        plan: Steps = self.cached(("factorise", number), lambda: Steps(self._chunk_steps(chunk)))
        return plan

    def report(self) -> Plan:
        """Report the first column that failed; operands: see `factorisation`."""
        plan: Plan = self.cached("report", lambda: Steps([last_step(self.device)]))
        return plan

    def _chunk_steps(self, chunk: Chunk) -> list[Step]:
        device, s = self.device, self.schedule
        steps: list[Step] = []
        if len(chunk.subtrees):
            plan = SubtreesPlan(device, chunk.subtrees, s.stack, s.peak)
            steps.append(plan.step())
        for is_alone, stages in groupby(range(len(chunk.stages)), chunk.alone.__getitem__):
            lists = [chunk.stages[k] for k in stages]
            if is_alone:
                which = np.concatenate(lists)
                ranges = np.stack([which, which + 1], axis=1)
                steps.append(SubtreesPlan(device, ranges, s.stack, s.peak, True).step())
            else:
                steps.extend(step for stage in lists for step in stage_steps(device, stage))
        return steps

    def _solve(self, system: str, count: int, b: Operand, x: Operand) -> Plan:
        factor, rhs, result = 0, 1, 2
        itemsize = self.dtype.itemsize
        work = Temporary("permuted", self.symbolic.n * count * itemsize, itemsize)
        parts = SYSTEMS[system]
        steps = [Step(self.permute_rhs(system, count, b), (rhs, work))]
        rows, lists = self.schedule.rows, self._lists(self.schedule.chunks)
        arguments = self.device, lists, rows, count, factor, work
        if "L" in parts:
            steps += substitution_steps(*arguments, backward=False)
        if "H" in parts:
            steps += substitution_steps(*arguments, backward=True)
        return Steps([*steps, Step(self.unpermute_solution(system, count, x), (result, work))])

    def permute_rhs(self, system: str, count: int, b: Operand) -> Any:
        """Permute the right-hand side; operands: b and the permuted x."""
        return self._permute("P" in SYSTEMS[system], count, b, False)

    def unpermute_solution(self, system: str, count: int, x: Operand) -> Any:
        """Permute the solution back; operands: the result and the permuted x."""
        return self._permute("T" in SYSTEMS[system], count, x, True)

    def _permute(self, permutes: bool, count: int, operand: Operand, back: bool) -> Any:
        """Copy rows in the order of the fronts; ``back``: in the opposite direction.

        ``permutes`` is false for systems in L's own order, whose rows only the fronts permute.
        """
        perm = self._perm(permutes)
        n, elem = self.symbolic.n, element(self.dtype)
        return self.cached_of_solves(
            count,
            ("move", permutes, operand, back),
            lambda: permute_plan(self.engine, perm, n, count, elem, operand, back),
        )

    def permuted(self, system: str, b: View, dtype: np.dtype[Any]) -> Any:
        """Solve system ``P`` or ``Pt`` in ``dtype``; operands: b and x."""
        symbolic = self.symbolic
        n, count = symbolic.n, b.shape[1] if len(b.shape) == 2 else 1
        rows = self.cached(
            ("rows of", system),
            lambda: self.engine.upload(symbolic.perm if system == "P" else symbolic.iperm),
        )
        elem, operand = element(dtype), operand_of(b)
        return self.cached_of_solves(
            count,
            ("permuted", system, elem, operand),
            lambda: permute_plan(self.engine, rows, n, count, elem, operand, False),
        )

    def substitute_chunk(self, number: int, forward: bool, count: int) -> Any:
        """Substitute with one chunk in place; operands: its panels, X and the contributions."""

        def make() -> Plan:
            lists = self._lists(self.schedule.chunks[number : number + 1])
            rows = self.schedule.rows
            return Steps(
                substitution_steps(self.device, lists, rows, count, 0, 1, 2, backward=not forward)
            )

        return self.cached_of_solves(count, ("substitute", number, forward), make)

    def _lists(self, chunks: Sequence[Chunk]) -> list[list[Any]]:
        """Return for each stage of a solve its lists of fronts; a list is processed in order."""
        lists: list[list[Any]] = []
        for chunk in chunks:
            subtrees = [np.arange(low, end, dtype=np.int32) for low, end in chunk.subtrees]
            stages = list(chunk.stages)
            if self.engine.target.is_cpu and stages:
                stages = [np.concatenate(stages)]
            lists += [*([subtrees] if subtrees else []), *([stage] for stage in stages)]
        return lists

    def _perm(self, permutes: bool) -> Any:
        """Return, on the device, the row that each column of the fronts stands for.

        It is a row of the matrix if ``permutes``, and a row of L otherwise.
        """
        symbolic = self.symbolic
        perm = symbolic.front_perm if permutes else symbolic.front_columns
        return self.cached(("perm", permutes), lambda: self.engine.upload(perm))


def operand_of(view: View) -> Operand:
    """Describe the dtype and strides of a right-hand side."""
    return Operand(element(view.dtype), view.strides[0], view.strides[-1])
