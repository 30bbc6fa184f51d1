"""The plans of one symbolic factorisation on one device: factorise, solve, take."""

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
from portable_gpu.ops.fronts.lower import LowerPlan
from portable_gpu.ops.fronts.solve import PermutePlan, TakePlan, backward_steps, forward_steps
from portable_gpu.ops.fronts.stages import last_step, stage_steps
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import View
from portable_gpu.sparse.matrix import ROUNDING
from portable_gpu.sparse.memory import memory_on, scheduled
from portable_gpu.sparse.schedule import Chunk, from_the_roots
from portable_gpu.sparse.symbolic import Symbolic

_Int64 = np.ndarray[Any, np.dtype[np.int64]]

#: What ``system=`` takes: which of P, L^-1, L^-H and P^T make up the solution.
SYSTEMS = {"A": "PLHT", "L": "L", "Lt": "H", "P": "P", "Pt": "T"}


class Numeric:
    """Plans for one pattern, dtype and engine, each made when it is first used.

    Attributes:
        engine, symbolic, dtype: For what.
        schedule: The order of the fronts.
        rooms: How many chunks of panels are on the device at a time, the last one apart.
        memory: What a factorisation holds.
        device: Their tables and places.
    """

    def __init__(
        self,
        engine: Engine,
        symbolic: Symbolic,
        dtype: np.dtype[Any],
        limit: int | None = None,
    ) -> None:
        """Bring the tables; nothing is built.

        Args:
            engine, symbolic, dtype: As the attributes.
            limit: Bytes of the device's memory that parts of L may take while it is made.

        Raises:
            DeviceMemoryError: The limit is too low, or the device is too small.
        """
        self.engine, self.symbolic, self.dtype = engine, symbolic, dtype
        elem = element(dtype)
        target, fronts = engine.target, symbolic.fronts
        self.schedule, self.rooms = scheduled(fronts, target, elem, limit)
        s = self.schedule
        self.memory = memory_on(target, fronts, elem, symbolic.pattern.nnz, s, self.rooms)
        self.memory.check()
        self.device = DeviceFronts(engine, symbolic.fronts, elem, s.update, s.arena, s.started)
        self._plans: dict[Any, Any] = {}

    def bounds(self, chunk: Chunk) -> tuple[int, int]:
        """Where the panels of a chunk begin in the factor, and where they end."""
        ends = np.append(self.device.panel, self.device.size)
        return int(ends[chunk.first]), int(ends[chunk.end])

    @property
    def workspace_bytes(self) -> int:
        """Memory that a factorisation takes besides L and the tables."""
        most = max(plan.workspace_bytes for plan in self.factorisation)
        return most + self.device.arena_bytes + self.device.told_bytes

    @property
    def table_bytes(self) -> int:
        """Tables of a factorisation that stay on the device."""
        return self.device.kept_bytes + sum(plan.kept_bytes for plan in self.factorisation)

    @property
    def factorisation(self) -> list[Steps]:
        """The plans of all chunks, one after the other.

        Operands: the values, in L's dtype, the panels, the report, the arena and what fronts tell.
        The panels' offset is counted from where the whole factor would begin.
        """
        return [self._factorise_chunk(k) for k in range(len(self.schedule.chunks))]

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made for ``key`` before, or is made now."""
        found = self._plans.get(key)
        return self._plans.setdefault(key, make()) if found is None else found

    def converted(self, dtype: np.dtype[Any]) -> Any:
        """The lower triangle's values in L's dtype; operands: these of ``dtype``, and those."""
        nnz, elem = self.symbolic.pattern.nnz, element(self.dtype)

        def make() -> Plan:
            return TakePlan(self.engine, np.arange(nnz), nnz, element(dtype), elem)

        return self.kept(("converted", dtype), make) if nnz else None

    def lower(self, dtype: np.dtype[Any], triangle: str | None = None) -> Any:
        """The lower triangle's values out of those that the matrix stores; operands: these two.

        Args:
            dtype: Of both.
            triangle: As :meth:`Pattern.values` takes it.
        """
        pattern, elem = self.symbolic.pattern, element(dtype)
        sources, is_mirrored = pattern.sources(triangle)

        def make() -> Plan:
            take = np.where(sources < 0, pattern.stored, sources)
            return TakePlan(self.engine, ~take if is_mirrored else take, pattern.stored, elem, elem)

        return self.kept(("lower", dtype, is_mirrored), make) if pattern.nnz else None

    def checked(self, dtype: np.dtype[Any], triangle: str | None = None) -> LowerPlan:
        """The same, checked as :class:`LowerPlan` does; the host bears twice the rounding."""
        pattern = self.symbolic.pattern
        sources, is_mirrored = pattern.sources(triangle)
        mirror = pattern.mirror if triangle is None else None

        def make() -> LowerPlan:
            return LowerPlan(
                self.engine, element(dtype), (pattern.pointers, pattern.columns), sources, mirror,
                pattern.stored, is_mirrored, ROUNDING / 2 * float(np.finfo(dtype).eps),
            )  # fmt: skip

        found: LowerPlan = self.kept(("checked", dtype, is_mirrored, mirror is None), make)
        return found

    @property
    def inverse_bytes(self) -> int:
        """Bytes of the squares of an inverse."""
        return max(1, self._squares[2]) * self.dtype.itemsize

    def inverse(self, number: int) -> Plan:
        """The inverse where a chunk has elements, after those of the chunks behind it.

        Operands: the chunk's panels, the inverse's diagonal, in L's dtype, and its squares.
        """
        stages, places, _ = self._squares

        def make() -> Plan:
            at = self.kept("squares' places", lambda: self.engine.bring(places))
            return Steps(
                [
                    step
                    for stage in stages[number]
                    if len(stage)
                    for step in inverse_steps(self.device, stage, places, at)
                ]
            )

        found: Plan = self.kept(("inverse", number), make)
        return found

    @property
    def _squares(self) -> tuple[list[list[_Int64]], _Int64, int]:
        """Stages of an inverse, places of its squares, and their room."""
        fronts, target = self.symbolic.fronts, self.engine.target

        def make() -> Any:
            sizes = square_sizes(fronts, target, self.device.elem)
            return from_the_roots(fronts, self.schedule.chunks, sizes)

        found: tuple[list[list[_Int64]], _Int64, int] = self.kept("squares", make)
        return found

    def diagonal(self) -> Any:
        """The diagonal of L; operands: the factor and that."""
        elem = element(self.dtype)

        def make() -> Plan:
            return TakePlan(self.engine, self.diagonal_places(), self.device.size, elem, elem)

        return self.kept("diagonal", make)

    def diagonal_places(self) -> _Int64:
        """Where the diagonal's elements lie in the factor."""
        fronts, device = self.symbolic.fronts, self.device
        own = np.arange(self.symbolic.n) - np.repeat(fronts.first[:-1], fronts.columns)
        start = np.repeat(device.panel, fronts.columns)
        return start + own * np.repeat(device.leading + 1, fronts.columns)

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
        lie = lies(b), lies(x)
        return self.kept((system, count, *lie), partial(self._solve, system, count, *lie))

    def _factorise_chunk(self, number: int) -> Steps:
        chunks = self.schedule.chunks

        def make() -> Steps:
            is_last = number == len(chunks) - 1 and self.symbolic.n > 0
            last = [last_step(self.device)] if is_last else []
            return Steps([*self._chunk_steps(chunks[number]), *last])

        found: Steps = self.kept(("factorise", number), make)
        return found

    def _chunk_steps(self, chunk: Chunk) -> list[Step]:
        device, s = self.device, self.schedule
        steps: list[Step] = []
        if len(chunk.subtrees):
            plan = SubtreesPlan(device, chunk.subtrees, s.stack, s.peak)
            steps.append(plan.step())
        for is_alone, stages in groupby(range(len(chunk.stages)), chunk.alone.__getitem__):
            found = [chunk.stages[k] for k in stages]
            if is_alone:
                which = np.concatenate(found)
                each = np.stack([which, which + 1], axis=1)
                steps.append(SubtreesPlan(device, each, s.stack, s.peak, True).step())
            else:
                steps.extend(step for stage in found for step in stage_steps(device, stage))
        return steps

    def _solve(self, system: str, count: int, b: Operand, x: Operand) -> Plan:
        factor, given, result = 0, 1, 2
        itemsize = self.dtype.itemsize
        work = Temporary("permuted", self.symbolic.n * count * itemsize, itemsize)
        parts = SYSTEMS[system]
        steps = [Step(self.come(system, count, b), (given, work))]
        rows, lists = self.schedule.rows, self._lists(self.schedule.chunks)
        if "L" in parts:
            steps += forward_steps(self.device, lists, rows, count, factor, work)
        if "H" in parts:
            steps += backward_steps(self.device, lists, rows, count, factor, work)
        return Steps([*steps, Step(self.go(system, count, x), (result, work))])

    def come(self, system: str, count: int, b: Operand) -> Any:
        """B into the permuted numbering; operands: b and x."""
        return self._moved("P" in SYSTEMS[system], count, b, False)

    def go(self, system: str, count: int, x: Operand) -> Any:
        """X out of it; operands: the result and x."""
        return self._moved("T" in SYSTEMS[system], count, x, True)

    def _moved(self, permutes: bool, count: int, other: Operand, back: bool) -> Any:
        perm = self._perm(permutes)
        n, elem = self.symbolic.n, element(self.dtype)
        return self.kept(
            ("move", permutes, count, other, back),
            lambda: PermutePlan(self.engine, perm, n, count, elem, other, back),
        )

    def permuted(self, system: str, b: View, dtype: np.dtype[Any]) -> Any:
        """The solution of system ``P`` or ``Pt``, in ``dtype``; operands: b and x."""
        symbolic = self.symbolic
        n, count = symbolic.n, b.shape[1] if len(b.shape) == 2 else 1
        rows = self.kept(
            ("rows of", system),
            lambda: self.engine.bring(symbolic.perm if system == "P" else symbolic.iperm),
        )
        elem, lie = element(dtype), lies(b)
        return self.kept(
            ("permuted", system, count, elem, lie),
            lambda: PermutePlan(self.engine, rows, n, count, elem, lie, False),
        )

    def substitute_chunk(self, number: int, forward: bool, count: int) -> Any:
        """A substitution in place; operands: a chunk's panels, X and the contributions."""
        direction = forward_steps if forward else backward_steps

        def make() -> Plan:
            lists = self._lists(self.schedule.chunks[number : number + 1])
            return Steps(direction(self.device, lists, self.schedule.rows, count, 0, 1, 2))

        return self.kept(("substitute", number, forward, count), make)

    def _lists(self, chunks: Sequence[Chunk]) -> list[list[Any]]:
        """Of each stage of a solve the lists of fronts that are gone through in order."""
        found: list[list[Any]] = []
        for chunk in chunks:
            subtrees = [np.arange(low, end, dtype=np.int32) for low, end in chunk.subtrees]
            stages = list(chunk.stages)
            if self.engine.target.is_cpu and stages:
                stages = [np.concatenate(stages)]
            found += [*([subtrees] if subtrees else []), *([stage] for stage in stages)]
        return found

    def _perm(self, permutes: bool) -> Any:
        """Which row of the matrix, or of L, each column of the fronts is; on the device."""
        symbolic = self.symbolic
        perm = symbolic.front_perm if permutes else symbolic.front_columns
        return self.kept(("perm", permutes), lambda: self.engine.bring(perm))


def lies(view: View) -> Operand:
    """How a right-hand side lies."""
    return Operand(element(view.dtype), view.strides[0], view.strides[-1])
