"""The policies of the kernels of small matrices.

The constants were measured: docs/experiments/linalg.md, "Constants".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from portable_gpu.dtypes import Element
from portable_gpu.powers_of_two import ceil_power_of_two, floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range

#: Rows and columns of a tile of the kernels that compute all tiles in one launch.
TILE = 64
#: Work-items of a group that has several small matrices.
_GROUP = 128
#: The least number of work-items along B: more of them load a triangle faster.  A large triangle
#: with one column takes twice as many.
_LOADERS = 4
#: Registers of pointers, indices and counts, in addition to those of elements.
_INDEX_REGISTERS = 27


@dataclass(frozen=True)
class CholeskyPolicy(Policy):
    """One small factorisation by a square of work-items; see ``cl_kernels/factor/cholesky``.

    Attributes:
        side: Work-items along each side of the square.
        item: Rows, and columns, of a work-item's square of elements.
        together: Matrices of a work-group.
    """

    side: Annotated[int, Range(2, 16)]
    item: Annotated[int, Range(1, 8)]
    together: Annotated[int, Range(1, 16)] = 1

    @classmethod
    def default(cls, target: Target, elem: Element) -> CholeskyPolicy:
        """Return the policy for the largest matrices that one work-group can factorise."""
        return cls.for_size(largest(target, elem), target, elem)

    @classmethod
    def for_size(cls, n: int, target: Target, elem: Element) -> CholeskyPolicy:
        """Return the policy for n columns: 4 x 4 elements a work-item up to n = 64, then 8 x 8."""
        item = 2 if n <= 8 else 4 if n <= 64 else 8
        item = min(item, _most_items(target, elem))
        side = max(2, ceil_power_of_two(-(-n // item)))
        items, max_group = side**2, min(_GROUP, target.max_work_group_size)
        together = max(1, min(16, max_group // items)) if items <= target.subgroup_size else 1
        return cls(side, item, together)

    @property
    def size(self) -> int:
        """Columns of the largest matrix."""
        return self.side * self.item

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return self.side**2 * self.together

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        registers = _registers(self.item, elem)
        columns = 2 * self.together * self.size * elem.itemsize
        return {
            f"{self.group_size} work-items are a work-group": (
                self.group_size <= target.max_work_group_size
            ),
            f"a work-item has about {registers} registers": registers <= target.registers,
            f"{columns} bytes of columns are in local memory": columns <= target.local_mem_size,
        }


@dataclass(frozen=True)
class SolvePolicy(Policy):
    """Solves with small triangles in local memory; see ``cl_kernels/factor/solve``.

    Attributes:
        side_m, side_n: Work-items along the rows and columns of a group's part of B.
        item_m, item_n: Rows and columns of a work-item's part of B.
        together: Matrices of a work-group.
    """

    side_m: Annotated[int, Range(1, 16)]
    item_m: Annotated[int, Range(1, 8)]
    side_n: Annotated[int, Range(1, 64)]
    item_n: Annotated[int, Range(1, 8)]
    together: Annotated[int, Range(1, 16)] = 1

    @classmethod
    def default(cls, target: Target, elem: Element) -> SolvePolicy:
        """Return the policy for the largest triangles that local memory holds, up to 64 columns."""
        rows = 64
        while rows > 8 and _solve_bytes(rows, rows, elem) > target.local_mem_size:
            rows //= 2
        return cls.for_size(rows, rows, target, elem, rows)

    @classmethod
    def for_size(
        cls, n: int, m: int, target: Target, elem: Element, max_rows: int | None = None
    ) -> SolvePolicy:
        """Return the policy for triangles of n columns, up to ``max_rows``, and m columns of B."""
        max_rows = cls.default(target, elem).rows if max_rows is None else max_rows
        rows = max(4, min(ceil_power_of_two(n), max_rows))
        columns = max(1, min(ceil_power_of_two(m), 64))
        item_m, item_n = _items(rows), _items(columns)
        if rows == columns == 16 and elem.itemsize == 4:
            item_m = 4
        side_m = rows // item_m
        # Work-items beyond the columns help to load L.
        loaders = 2 * _LOADERS if rows == 64 and columns == 1 else _LOADERS
        side_n = max(columns // item_n, loaders if rows > 4 else 1)
        items = side_m * side_n
        in_local_memory = target.local_mem_size // _solve_bytes(rows, columns, elem)
        in_group = min(_GROUP, target.max_work_group_size) // items
        together = max(1, min(16, in_group, in_local_memory))
        return cls(side_m, item_m, side_n, item_n, together)

    @property
    def rows(self) -> int:
        """Columns of the largest triangle."""
        return self.side_m * self.item_m

    @property
    def columns(self) -> int:
        """Columns of B that a group solves for."""
        return self.side_n * self.item_n

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return self.side_m * self.side_n * self.together

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        nbytes = self.together * _solve_bytes(self.rows, self.columns, elem)
        return {
            f"{self.group_size} work-items are a work-group": (
                self.group_size <= target.max_work_group_size
            ),
            f"{nbytes} bytes are in local memory": nbytes <= target.local_mem_size,
        }


def _items(extent: int) -> int:
    """Rows or columns of a small solve for each work-item."""
    return 4 if extent >= 32 else 2 if extent >= 8 else 1


def largest(target: Target, elem: Element) -> int:
    """Columns of the largest matrix that one work-group factorises."""
    side = min(16, floor_power_of_two(int(target.max_work_group_size**0.5)))
    return side * _most_items(target, elem)


def tile_registers(elem: Element) -> int:
    """Registers of a work-item of the tile kernels, with AMD's and NVIDIA's compilers."""
    return 128 if elem.itemsize == 4 else 255


def on_matrix_units(elem: Element, target: Target) -> bool:
    """Whether tiles compute products by matrix instructions."""
    return elem.name == "f64" and target.matrix_units in ("mma", "wgmma") and not target.forced


def panels(elem: Element, target: Target) -> int:
    """Panels of each operand in local memory: with two (double buffering), one barrier less."""
    return 2 if elem.itemsize == 4 or on_matrix_units(elem, target) else 1


def _most_items(target: Target, elem: Element) -> int:
    """Rows and columns of elements that the registers of a work-item hold.

    8 x 8 take 73 to 80 registers for float32 and 124 to 168 for elements of 8 bytes; for complex128
    4 x 4 take 94 to 116.
    """
    item = 8 if elem.itemsize <= 8 else 4
    while item > 1 and _registers(item, elem) > _available(target):
        item //= 2
    return item


def _registers(item: int, elem: Element) -> int:
    """An estimate of the registers of ``cl_kernels/factor/cholesky``: elements, row, column."""
    elements = item * (item + 1) // 2 + 2 * item
    return elements * _words(elem) + _INDEX_REGISTERS


def _available(target: Target) -> int:
    """Registers with which two sub-groups fit a SIMD; on a CPU there is no such limit."""
    return 256 if target.is_cpu else target.resident_registers


def _words(elem: Element) -> int:
    return elem.components * (2 if elem.needs_fp64 else 1)


def _solve_bytes(rows: int, columns: int, elem: Element) -> int:
    return (rows * (rows + 1) + 2 * columns + 1) * elem.itemsize
