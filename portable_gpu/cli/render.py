"""``portable-gpu render``: the OpenCL text of a kernel for any device class; no device needed."""

from __future__ import annotations

from typing import Annotated

import typer

from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.registry import CATALOGUE
from portable_gpu.targets import class_names, example_target

_TARGETS = f"Device class: {', '.join(class_names())}, or a class with a generation."


def render(
    operation: Annotated[str | None, typer.Argument(help="Operation, as --list shows it.")] = None,
    target: Annotated[str, typer.Option(help=_TARGETS)] = "generic",
    dtype: Annotated[str, typer.Option(help="NumPy name of the element type.")] = "float32",
    list_names: Annotated[bool, typer.Option("--list", help="List the operations.")] = False,
) -> None:
    """Print the OpenCL text and the -D options of an operation's kernels."""
    if list_names:
        print("\n".join(sorted(CATALOGUE)))
        return
    if operation not in CATALOGUE:
        known = ", ".join(sorted(CATALOGUE)) or "none"
        asked = "no operation is named" if operation is None else f"no operation {operation!r}"
        raise ArgumentError(f"{asked}; there are: {known}")
    for spec in CATALOGUE[operation](example_target(target), dtype_of(dtype)):
        print(f"// {spec.name}\n// {' '.join(spec.options)}\n{spec.text}")
