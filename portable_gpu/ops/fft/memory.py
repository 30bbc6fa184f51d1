"""Kernel arguments that all passes have: tables on the device, strides of their two sides."""

from __future__ import annotations

from portable_gpu.ops.fft.passes import Pass, Rows, Times
from portable_gpu.runtime.views import Shape

_RANK = 2


def rank_of(run: Pass) -> int:
    """How many batch axes the kernel has: those that most arrays need, so that programs are few."""
    return max(_RANK, len(run.batch))


def filled(values: Shape, rank: int, blank: int) -> Shape:
    """Values of the batch axes, behind those of axes that are not there."""
    return (blank,) * (rank - len(values)) + values


def side_arguments(name: str, rows: Rows, rank: int) -> dict[str, int]:
    """Rows, strides and limits of one side."""
    return {
        f"{name}_rows": rows.rows, f"{name}_row": rows.row, f"{name}_lane": rows.lane,
        f"{name}_limit": rows.limit, f"{name}_limit_row": rows.limit_row,
        **({f"{name}_limit_batch": rows.limit_batch} if rows.limit_batch else {}),
        **{f"{name}_batch{d}": step for d, step in enumerate(filled(rows.batch, rank, 0))},
    }  # fmt: skip


def times_arguments(times: Times | None, rank: int) -> dict[str, int]:
    """Strides of what results are multiplied by."""
    if times is None:
        return {}
    return {
        "t_row": times.row, "t_lane": times.lane, "t_conjugate": int(times.conjugate),
        **{f"t_batch{d}": step for d, step in enumerate(filled(times.batch, rank, 0))},
    }  # fmt: skip
