"""``portable-gpu explain``: which path, policy and table row a call would take, and why."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from portable_gpu.dtypes import PRECISIONS
from portable_gpu.ops.explain import explain as explanation_of
from portable_gpu.targets import class_names

_TARGETS = f"Explain for a device class, with no device: {', '.join(class_names())}."


def explain(
    operation: Annotated[str, typer.Argument(help="gemm, gemv, sum ...")],
    sizes: Annotated[
        list[int] | None,
        typer.Argument(help="gemm: M N K; gemv: M N; reductions: the shape."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="NumPy name of the element type.")] = "float32",
    axis: Annotated[int | None, typer.Option(help="Of a reduction; all axes without it.")] = None,
    trans: Annotated[str | None, typer.Option(help="gemv: N, T or C; gemm: two of them.")] = None,
    precision: Annotated[
        str | None, typer.Option(help=f"gemm of float32: {', '.join(PRECISIONS)}.")
    ] = None,
    target: Annotated[str | None, typer.Option(help=_TARGETS)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say which path, policy and table row a call on C-ordered arrays would take, and why."""
    options: dict[str, Any] = {} if axis is None else {"axis": axis}
    if trans is not None and len(trans) == 2:
        options |= {"trans_a": trans[0], "trans_b": trans[1]}
    elif trans is not None:
        options["trans"] = trans
    if precision is not None:
        options["precision"] = precision
    found = explanation_of(operation, *(sizes or ()), dtype=dtype, target=target, **options)
    print(json.dumps(found.to_dict(), indent=2) if as_json else found)
