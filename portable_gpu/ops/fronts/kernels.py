"""The parameters that several kernels of fronts have.

Offsets follow their operands, and sizes are declared before them.
"""

from __future__ import annotations

from portable_gpu.codegen.parameters import Parameter, buffer, operand
from portable_gpu.dtypes import Element

#: The tables of :class:`~portable_gpu.ops.fronts.device.DeviceFronts`, by their names in kernels,
#: and the C types of their elements.
TABLES = {
    "fronts": "long",
    "row_index": "int",
    "relative": "int",
    "child": "int",
    "entry_row": "int",
    "entry_column": "int",
    "entry_source": "long",
    "contribution_start": "long",
}
#: The counters of work-groups that wait for each other.
COUNTERS = buffer("uint", "counters", writes=True, shared=True, restrict=False)


def fronts_tables() -> list[Parameter]:
    """Declare the tables of the fronts."""
    return [buffer(ctype, name, restrict=False) for name, ctype in TABLES.items()]


def tables(ctype: str, *names: str) -> list[Parameter]:
    """Declare further tables, which are only read."""
    return [buffer(ctype, name, restrict=False) for name in names]


def read(elem: Element, *names: str, restrict: bool = False) -> list[Parameter]:
    """Declare operands with elements of L's type that a kernel reads."""
    return _operands(f"{elem.name}_t", names, writes=False, restrict=restrict)


def written(elem: Element, *names: str, restrict: bool = False) -> list[Parameter]:
    """Declare operands with elements of L's type that a kernel writes to."""
    return _operands(f"{elem.name}_t", names, writes=True, restrict=restrict)


def scratch(elem: Element) -> list[Parameter]:
    """Declare the workspace of all work-items."""
    return [buffer(f"{elem.name}_t", "scratch", writes=True, restrict=False)]


def _operands(
    ctype: str, names: tuple[str, ...], *, writes: bool, restrict: bool
) -> list[Parameter]:
    return [
        parameter
        for name in names
        for parameter in operand(ctype, name, writes=writes, restrict=restrict)
    ]
