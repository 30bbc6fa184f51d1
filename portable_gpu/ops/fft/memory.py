"""Kernel arguments that all passes have: extents, and strides of source and target."""

from __future__ import annotations

from portable_gpu.ops.fft.passes import Pass, PassMultiplier, PassOperand
from portable_gpu.runtime.views import Shape

_RANK = 2


def rank_of(pass_: Pass) -> int:
    """The number of batch axes of the kernel: at least two, so that few programs are built."""
    return max(_RANK, len(pass_.batch))


def filled(values: Shape, rank: int, blank: int) -> Shape:
    """Pad the values of the batch axes in front, for axes that the arrays do not have."""
    return (blank,) * (rank - len(values)) + values


def side_names(name: str) -> list[str]:
    """The names of the extents and strides that every source and target has."""
    return [f"{name}_{field}" for field in ("rows", "row", "lane", "limit", "limit_row")]


def side_arguments(name: str, rows: PassOperand, rank: int) -> dict[str, int]:
    """The rows, strides and limits of a source or target."""
    values = (rows.rows, rows.row, rows.lane, rows.limit, rows.limit_row)
    return {
        **dict(zip(side_names(name), values, strict=True)),
        **({f"{name}_limit_batch": rows.limit_batch} if rows.limit_batch else {}),
        **{f"{name}_batch{d}": step for d, step in enumerate(filled(rows.batch, rank, 0))},
    }  # fmt: skip


def times_arguments(times: PassMultiplier | None, rank: int) -> dict[str, int]:
    """The strides of the array by which results are multiplied."""
    if times is None:
        return {}
    return {
        "t_row": times.row, "t_lane": times.lane, "t_conjugate": int(times.conjugate),
        **{f"t_batch{d}": step for d, step in enumerate(filled(times.batch, rank, 0))},
    }  # fmt: skip
