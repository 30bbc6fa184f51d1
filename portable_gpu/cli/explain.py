"""``portable-gpu explain``: which path, policy and table row a call would take, and why."""

from __future__ import annotations

import json
from inspect import signature
from typing import Annotated, Any

import typer

from portable_gpu.cli.console import Console
from portable_gpu.cli.options import DeviceOption
from portable_gpu.dtypes import PRECISIONS
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.case import Case
from portable_gpu.ops.explain import explain as explanation_of
from portable_gpu.ops.registry import BENCHMARKS, OPERATIONS
from portable_gpu.ops.sizes import Size, parse_size
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import class_names

_TARGETS = f"Explain for a device class, with no device: {', '.join(class_names())}."


def explain(
    operation: Annotated[str, typer.Argument(help="gemm, gemv, sum ...")],
    size: Annotated[
        list[str] | None,
        typer.Argument(
            help="As --sizes of bench. gemm: MxKxN (8x3200x3200, 512x512x512/NT); gemv: MxN; "
            "reductions: the shape (4096x4096/0); conv2d: N C H W K R S (8x64x56x56x64x3x3/s2).  "
            "Numbers alone will do too: 8 3200 3200.",
            metavar="SIZE",
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="NumPy name of the element type.")] = "float32",
    axis: Annotated[int | None, typer.Option(help="Of a reduction; all axes without it.")] = None,
    trans: Annotated[str | None, typer.Option(help="gemv: N, T or C; gemm: two of them.")] = None,
    precision: Annotated[
        str | None, typer.Option(help=f"gemm of float32: {', '.join(PRECISIONS)}.")
    ] = None,
    device: DeviceOption = None,
    target: Annotated[str | None, typer.Option(help=_TARGETS)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which path, policy and table row a call on C-ordered arrays would take, and why."""
    if device is not None and target is not None:
        raise ArgumentError("--device and --target exclude each other")
    asked = parse_size("x".join(size), "SIZE") if size else Size(())
    options = _of_size(operation, asked, dtype) if axis is None and trans is None else {}
    options = options or _options(operation, asked.variant, axis, trans)
    if asked.batch is not None:
        options["batch"] = (asked.batch,)
    if precision is not None:
        options["precision"] = precision
    engine = None if device is None else Engine(device)
    result = explanation_of(
        operation, *asked.extents, dtype=dtype, target=target, engine=engine, **options
    )
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
    else:
        Console().write(str(result), indent=11)


def _of_size(operation: str, size: Size, dtype: str) -> dict[str, Any]:
    """The options that a size of ``bench`` stands for, as stride and padding of convolutions.

    Operations with an axis or transposed operands have none here: see :func:`_options`.
    """
    record, benchmark = OPERATIONS.get(operation), BENCHMARKS.get(operation)
    if record is None or benchmark is None or not size.extents or record.transposes:
        return {}
    if signature(record.explain).parameters.keys() & {"axis", "trans"}:
        return {}
    case = Case(operation, size.extents, dtype, batch=size.batch)
    *_, case = benchmark.variants(case, size.variant, True)
    return record.options(case)


def _options(operation: str, variant: str, axis: int | None, trans: str | None) -> dict[str, Any]:
    """The options of the function: from the size's variant, or from ``--axis`` and ``--trans``."""
    if variant and (axis is not None or trans is not None):
        raise ArgumentError(f"SIZE ends in /{variant}; leave that or --axis and --trans out")
    if variant.isdigit():
        axis = int(variant)
    elif variant:
        trans = variant
    options: dict[str, Any] = {} if axis is None else {"axis": axis}
    if trans is None:
        return options
    known = OPERATIONS.get(operation)
    if known is None or len(known.transposes) < 2:
        return options | {"trans": trans}
    if len(trans) != len(known.transposes):
        raise ArgumentError(f"--trans is {trans!r}; {operation} takes two of N, T and C")
    return options | dict(zip(known.transposes, trans, strict=True))
