"""Embeddings: the problems, their only variants, and the plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import pyopencl as cl

from portable_gpu.codegen.parameters import Parameter, buffer, operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.groups import group_size
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts

#: The kinds of norms of rows: those of order 1, 2 and infinity, and others.
Norm: TypeAlias = Literal["one", "two", "infinite", "power"]

#: The indices of a chunk at least, and the number of chunks at most, on a GPU.
_CHUNK, _MOST_CHUNKS = 256, 32
#: Work-items that fill a compute unit of a GPU.
_RESIDENT = 1024
#: Vectors that a work-item of a GPU copies, where there is enough work for all units.
_COPIED = 4
_MAX_UINT = (1 << 32) - 1


@dataclass(frozen=True)
class EmbeddingProblem:
    """The properties of a call that its plan depends on.

    Attributes:
        elem: The element type of the weight, or of the gradient.
        index: The element type of the indices.
        count: The number of indices.
        rows, columns: The shape of the weight.
        strides: The strides of the weight, or of its C-ordered gradient, in elements.
        vector: The elements of a vector that alignment and strides allow.
        backward: Whether rows are summed, and not gathered.
        by_count: Whether sums are divided by the numbers of their terms.
        norm: If rows are limited in place: the kind of their norm.
    """

    elem: Element
    index: Element
    count: int
    rows: int
    columns: int
    strides: tuple[int, int]
    vector: int
    backward: bool = False
    by_count: bool = False
    norm: Norm | None = None

    @property
    def nbytes(self) -> int:
        """The bytes that any kernel must read and write."""
        moved = (self.count + (self.rows if self.backward else self.count)) * self.columns
        return self.count * self.index.itemsize + moved * self.elem.itemsize


@dataclass(frozen=True)
class EmbeddingPartition:
    """The chunks of indices and the ranges of rows that work-items have.

    Attributes:
        chunks, chunk_size: The number of chunks, and the indices of each.
        ranges, rows_each: The number of ranges, and the rows of each.
    """

    chunks: int
    chunk_size: int
    ranges: int
    rows_each: int

    @classmethod
    def of(cls, p: EmbeddingProblem, target: Target) -> EmbeddingPartition:
        """A chunk and a range for each unit of a CPU; chunks and ranges that fill a GPU."""
        chunks, items = 1, target.compute_units
        if not target.is_cpu:
            chunks = max(1, min(_MOST_CHUNKS, p.count // _CHUNK))
            items = target.compute_units * _RESIDENT
        chunk_size = max(1, -(-p.count // chunks))
        rows_each = max(1, -(-p.rows * chunks // items))
        return cls(
            max(1, -(-p.count // chunk_size)), chunk_size, -(-p.rows // rows_each), rows_each
        )


def variants(problem: EmbeddingProblem, target: Target) -> list[Variant]:
    """The only variant of a problem with results."""
    costs, units = DeviceCosts.of("device", target), target.compute_units
    name = "lists" if problem.backward else "gather"
    why = "each vector of a row is copied by one work-item"
    make: Callable[..., Plan] = gather_plan
    if problem.backward:
        make = SumPlan
        why = "the positions of each row are listed, and one work-item adds up a vector of a row"
    if problem.norm is not None:
        make, name = LimitPlan, "limit"
        why = "the positions of each row are listed, and one work-item has a row"
    return [
        Variant(
            name=name,
            estimate=problem.nbytes / (costs.bandwidth * units),
            launches=1 if make is gather_plan else 2 + _joins(problem, target),
            why=why,
            texts=lambda: texts(problem, target),
            bind=partial(make, problem=problem),
        )
    ]


def texts(problem: EmbeddingProblem, target: Target) -> list[Specialization]:
    """The OpenCL texts of a problem's kernels, in the order of their launches."""
    if problem.norm is not None:
        return [_lists(problem, target), _limit(problem, target)]
    if problem.backward:
        joined = [_joined(target)] * _joins(problem, target)
        return [_lists(problem, target), *joined, _rows(problem, target)]
    return [_gather(problem, target)]


def _indices(p: EmbeddingProblem) -> list[Parameter]:
    return [
        *operand(f"{p.index.name}_t", "indices_data"),
        *operand("long", "report_data", writes=True),
        *scalars("long", "count", "rows"),
    ]


def _index(p: EmbeddingProblem, rows: int) -> str:
    """The C type of numbers of vectors; divisions of 32 bits are much cheaper on GPUs."""
    return "uint" if 2 * rows * p.columns // p.vector < _MAX_UINT else "long"


def _copied(p: EmbeddingProblem, target: Target) -> int:
    """Vectors that a work-item copies; 0 on a CPU."""
    if target.is_cpu:
        return 0
    pieces = p.count * p.columns // p.vector
    return _COPIED if pieces >= _COPIED * _RESIDENT * target.compute_units else 1


def _gather(p: EmbeddingProblem, target: Target) -> Specialization:
    name, index = f"{p.elem.name}_t", _index(p, p.count)
    parameters = [
        *_indices(p),
        *operand(name, "weight_data", "weight_row", "weight_column"),
        *operand(name, "out_data", writes=True),
        *scalars("long", "columns"),
        *scalars(index, "pieces", "pieces_each", "row_pieces"),
    ]
    return specialize(
        "embedding/gather",
        target,
        {"gather": parameters},
        elem=p.elem,
        idx=p.index,
        V=p.vector,
        step=p.strides[1] != 1,
        index=index,
        G=group_size(target),
        U=_copied(p, target),
    )


def _lists(p: EmbeddingProblem, target: Target) -> Specialization:
    parameters = [
        *_indices(p),
        buffer("int", "positions", writes=True),
        *scalars("long", "padding", "chunks", "chunk_size", "ranges", "rows_each"),
    ]
    parts = {"lists": parameters}
    return specialize("embedding/lists", target, parts, idx=p.index, G=group_size(target))


def _joins(p: EmbeddingProblem, target: Target) -> bool:
    """Whether lists of several chunks become one list for each row."""
    return p.backward and EmbeddingPartition.of(p, target).chunks > 1


def _joined(target: Target) -> Specialization:
    parameters = [
        buffer("int", "positions", writes=True),
        *scalars("long", "rows", "chunks"),
    ]
    return specialize("embedding/joined", target, {"joined": parameters}, G=group_size(target))


def _rows(p: EmbeddingProblem, target: Target) -> Specialization:
    name, index = f"{p.elem.name}_t", _index(p, p.rows)
    parameters = [
        *operand(name, "grad_data"),
        *operand(name, "out_data", writes=True),
        buffer("int", "positions"),
        *scalars("long", "columns", "chunks", "row_count"),
        *scalars(index, "pieces", "pieces_each", "row_pieces"),
    ]
    parts = {"rows": parameters}
    return specialize(
        "embedding/rows", target, parts, elem=p.elem, V=p.vector, by_count=p.by_count,
        index=index, G=group_size(target),
    )  # fmt: skip


def _limit(p: EmbeddingProblem, target: Target) -> Specialization:
    parameters = [
        *operand(f"{p.elem.name}_t", "weight_data", "weight_row", "weight_column", writes=True),
        *operand("long", "report_data", restrict=False),
        buffer("int", "positions", restrict=False),
        *scalars(p.elem.real, "max_norm", "p"),
        *scalars("long", "rows", "columns", "chunks", "rows_each"),
    ]
    parts = {"limit": parameters}
    return specialize(
        "embedding/limit", target, parts, elem=p.elem, norm=p.norm, G=group_size(target)
    )


def _pieces(p: EmbeddingProblem, target: Target, rows: int) -> tuple[dict[str, int], int]:
    """The constants of a kernel of vectors of rows, and the number of its work-items."""
    row_pieces = p.columns // p.vector
    pieces = rows * row_pieces
    pieces_each = max(1, -(-pieces // target.compute_units)) if target.is_cpu else 1
    constants = {
        "columns": p.columns, "pieces": pieces, "pieces_each": pieces_each,
        "row_pieces": row_pieces,
    }  # fmt: skip
    return constants, -(-pieces // pieces_each)


def _grid(items: int, group: int, extra: int = 0) -> tuple[tuple[int], tuple[int]]:
    """The sizes of a launch, with ``extra`` groups after those of the items."""
    return ((-(-items // group) + extra) * group,), (group,)


def gather_plan(engine: Engine, problem: EmbeddingProblem) -> OneLaunch:
    """Return the plan of a gather; the operands are indices, weight, out and report."""
    p, target = problem, engine.target
    constants, items = _pieces(p, target, p.count)
    items = -(-items // max(1, _copied(p, target)))
    row, column = p.strides
    constants |= {"count": p.count, "rows": p.rows, "weight_row": row, "weight_column": column}
    return OneLaunch(
        engine, _gather(p, target), "gather", constants,
        ["indices_data", "weight_data", "out_data", "report_data"],
        *_grid(items, group_size(target), 1),
        nbytes=p.nbytes,
    )  # fmt: skip


def _positions(p: EmbeddingProblem, part: EmbeddingPartition) -> int:
    """The number of integers of the lists: heads and tails of each chunk, and what follows each."""
    return 2 * part.chunks * p.rows + p.count


def _lists_launch(engine: Engine, p: EmbeddingProblem, part: EmbeddingPartition) -> Launch:
    """The lists of positions; varying scalars: the row of padding, the offsets of the operands."""
    constants: dict[str, int] = {
        "count": p.count, "rows": p.rows, "chunks": part.chunks,
        "chunk_size": part.chunk_size, "ranges": part.ranges, "rows_each": part.rows_each,
    }  # fmt: skip
    group = group_size(engine.target)
    return engine.programs.launch(
        _lists(p, engine.target),
        "lists",
        constants,
        ["indices_data", "report_data", "positions"],
        ["padding", "indices_data_offset", "report_data_offset"],
        *_grid(part.chunks * -(-part.ranges // group) * group, group, 1),
    )


class SumPlan(Plan):
    """Sums of rows bound to shapes; the operands are indices, gradient, out and report."""

    def __init__(self, engine: Engine, problem: EmbeddingProblem) -> None:
        """Build the kernels.

        Raises:
            BuildError: The driver refused a kernel.
        """
        p, target = problem, engine.target
        part, group = EmbeddingPartition.of(p, target), group_size(target)
        self.flop, self.bytes = p.count * p.columns, p.nbytes
        self.workspace_bytes = 4 * _positions(p, part)
        self._lists = _lists_launch(engine, p, part)
        self._joined = None
        if part.chunks > 1:
            self._joined = engine.programs.launch(
                _joined(target),
                "joined",
                {"rows": p.rows, "chunks": part.chunks},
                ["positions"],
                [],
                *_grid(p.rows, group),
            )
        constants, items = _pieces(p, target, p.rows)
        self._rows = engine.programs.launch(
            _rows(p, target),
            "rows",
            constants | {"chunks": part.chunks, "row_count": p.rows},
            ["grad_data", "out_data", "positions"],
            ["grad_data_offset", "out_data_offset"],
            *_grid(items, group),
        )

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`; the scalar is the row of padding, or -1."""
        indices, grad, out, report = buffers
        positions = state.workspace(self.workspace_bytes)
        numbers = (*scalars, offsets[0], offsets[3])
        event = self._lists(state, (indices, report, positions), numbers, wait_for)
        if self._joined:
            event = self._joined(state, (positions,), (), state.after(event))
        after = state.after(event)
        return self._rows(state, (grad, out, positions), (offsets[1], offsets[2]), after)


class LimitPlan(Plan):
    """Rows that are scaled in place; the operands are indices and the weight."""

    def __init__(self, engine: Engine, problem: EmbeddingProblem) -> None:
        """Build the kernels.

        Raises:
            BuildError: The driver refused a kernel.
        """
        p, target = problem, engine.target
        part, group = EmbeddingPartition.of(p, target), group_size(target)
        self.flop, self.bytes = 4 * p.rows * p.columns, p.nbytes
        # The report of the lists is behind them: two long integers.
        self._report = -(-_positions(p, part) // 2)
        self.workspace_bytes = 8 * (self._report + 2)
        self._lists = _lists_launch(engine, p, part)
        rows_each = max(1, -(-p.rows // target.compute_units)) if target.is_cpu else 1
        row, column = p.strides
        constants = {
            "rows": p.rows, "columns": p.columns, "chunks": part.chunks, "rows_each": rows_each,
            "weight_row": row, "weight_column": column,
        }  # fmt: skip
        self._limit = engine.programs.launch(
            _limit(p, target),
            "limit",
            constants,
            ["weight_data", "report_data", "positions"],
            ["max_norm", "p", "weight_data_offset", "report_data_offset"],
            *_grid(-(-p.rows // rows_each), group),
        )

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`; the scalars are the limit and the order of the norm."""
        indices, weight = buffers
        lists = state.workspace(self.workspace_bytes)
        event = self._lists(
            state, (indices, lists, lists), (-1, offsets[0], self._report), wait_for
        )
        numbers = (*scalars, offsets[1], self._report)
        return self._limit(state, (weight, lists, lists), numbers, state.after(event))
