"""What a sparse factor took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """What a factor took.

    Attributes:
        times: Seconds of the phases: those of the analysis, ``plan`` (kernels and tables) and
            ``factorise``, the last one that was waited for, NaN if none was.
        flop: Multiplications and additions: the sum of the squares of L's column counts.
        gflops: A second's, in 1e9, of the last factorisation.
        nnz: Elements of L.
        factor_bytes: Memory of L on the device, with what merged supernodes store besides.
        workspace_bytes: Memory of the device that a factorisation takes besides.
        table_bytes: Tables that stay on the device.
        fronts, subtrees: Supernodes, and how many subtrees of them one thread takes as a whole.
    """

    times: Mapping[str, float]
    flop: float
    gflops: float
    nnz: int
    factor_bytes: int
    workspace_bytes: int
    table_bytes: int
    fronts: int
    subtrees: int

    def __repr__(self) -> str:
        seconds = ", ".join(f"{phase} {taken:.3g}" for phase, taken in self.times.items())
        figures = f"nnz={self.nnz} flop={self.flop:.3g} gflops={self.gflops:.3g}"
        return f"<Stats {figures}; seconds: {seconds}>"
