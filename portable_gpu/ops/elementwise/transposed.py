"""Copies on GPUs between arrays whose adjacent elements are along different axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from portable_gpu.codegen.axes import Axis, merged, parameters
from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

#: Elements of a tile along each of its two axes, by bytes of an element: at most 17 KiB of local
#: memory.
_TILE = {1: 64, 2: 64, 4: 64, 8: 32, 16: 32}
_WORDS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "ulong2"}
#: Smaller elements are read and written as vectors of this many bytes.
_VECTOR_BYTES = 4
#: The least extent of both axes.  If one is shorter, the plain kernel reads and writes whole
#: sectors of memory, and needs no local memory.
_LEAST_EXTENT = 16
_GROUP = 256
_MAX_INT = (1 << 31) - 1


@dataclass(frozen=True)
class TransposedCopy:
    """A copy tile by tile.  This description needs no device.

    Attributes:
        rows: The axis along which the source is contiguous.
        columns: The axis along which the result is contiguous.
        outer: The other axes.
        itemsize: Bytes of an element.
        vector_sizes: Elements of a vector that is read, and of one that is written.
    """

    rows: Axis
    columns: Axis
    outer: tuple[Axis, ...]
    itemsize: int
    vector_sizes: tuple[int, int]

    @property
    def tiles(self) -> tuple[int, int]:
        """The numbers of tiles along the rows and along the columns."""
        size = _TILE[self.itemsize]
        return -(-self.rows.size // size), -(-self.columns.size // size)

    @property
    def groups(self) -> int:
        """The number of work-groups."""
        return prod(self.tiles) * prod(axis.size for axis in self.outer)

    @property
    def constants(self) -> dict[str, int]:
        """The integers of every launch."""
        row_tiles, column_tiles = self.tiles
        result = {
            "row_tiles": row_tiles, "column_tiles": column_tiles, "rows": self.rows.size,
            "columns": self.columns.size, "a0_column": self.columns.strides[0],
            "out_row": self.rows.strides[1],
        }  # fmt: skip
        for k, axis in enumerate(self.outer):
            result[f"outer{k}_size"] = axis.size
            result[f"a0_outer{k}"], result[f"out_outer{k}"] = axis.strides
        return result

    def specialization(self, target: Target) -> Specialization:
        """The OpenCL text."""
        size, word = _TILE[self.itemsize], _WORDS[self.itemsize]
        every = (*self.outer, self.rows, self.columns)
        extents = [sum(abs(axis.strides[k]) * (axis.size + size) for axis in every) for k in (0, 1)]
        index = "long" if max(*extents, self.groups) > _MAX_INT else "int"
        arguments = [
            buffer(word, "a0_data"),
            *scalars("long", "a0_offset"),
            buffer(word, "out_data", writes=True),
            *scalars("long", "out_offset"),
            *scalars(index, "row_tiles", "column_tiles", "rows", "columns", "a0_column", "out_row"),
            *parameters("outer", len(self.outer), ("a0", "out"), index),
        ]
        read, written = self.vector_sizes
        return specialize(
            "elementwise/transposed",
            target,
            {"elementwise": arguments},
            word=word,
            T=size,
            R=read,
            C=written,
            P=size + written,
            G=_GROUP,
            outer=len(self.outer),
            index=index,
        )


def transposed_copy(problem: ElementwiseProblem, target: Target) -> TransposedCopy | None:
    """Return the copy tile by tile that solves a problem, or ``None``.

    The expression must be the name of its only array, whose elements have the type of the result.
    The two arrays must be contiguous along different axes, which must be long enough.
    """
    p = problem
    plain = p.expression.strip() in p.names and p.inputs == (p.result,) and not p.updated
    if not plain or target.is_cpu or target.max_work_group_size < _GROUP or 0 in p.shape:
        return None
    unmerged = [Axis(n, (s, t)) for n, s, t in zip(p.shape, *p.strides, strict=True)]
    unmerged.sort(key=lambda axis: -abs(axis.strides[1]))
    axes = merged(unmerged)
    rows = next((axis for axis in axes if axis.strides[0] == 1), None)
    columns = next((axis for axis in axes if axis.strides[1] == 1), None)
    if rows is None or columns is None or rows is columns:
        return None
    if min(rows.size, columns.size) < _LEAST_EXTENT:
        return None
    outer = tuple(axis for axis in axes if axis is not rows and axis is not columns)
    itemsize = p.result.itemsize
    size = _TILE[itemsize]
    if size * (size + _VECTOR_BYTES) * itemsize > target.static_local_mem:
        return None
    read = _vector(p, rows.size, [a.strides[0] for a in (*outer, columns)])
    written = _vector(p, columns.size, [a.strides[1] for a in (*outer, rows)])
    return TransposedCopy(rows, columns, outer, itemsize, (read, written))


def _vector(p: ElementwiseProblem, extent: int, steps: list[int]) -> int:
    """The number of elements of a vector along an axis, given the steps along the other axes."""
    itemsize = p.result.itemsize
    vector = max(1, _VECTOR_BYTES // itemsize)
    while vector > 1 and (
        p.alignment < vector * itemsize or any(step % vector for step in (extent, *steps))
    ):
        vector //= 2
    return vector


def transposed_plan(engine: Engine, problem: ElementwiseProblem, copy: TransposedCopy) -> OneLaunch:
    """Return the plan of a copy tile by tile; the operands are source and result."""
    return OneLaunch(
        engine, copy.specialization(engine.target), "elementwise", copy.constants,
        ["a0_data", "out_data"], (copy.groups * _GROUP,), (_GROUP,),
        offsets=["a0_offset", "out_offset"], nbytes=problem.nbytes,
    )  # fmt: skip
