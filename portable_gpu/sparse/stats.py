"""Statistics of a sparse factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """The time, work and memory of a factor.

    Attributes:
        times: Seconds of each phase: the phases of the analysis, ``plan`` (kernels and tables) and
            ``factorise``.  The last one is that of the last factorisation for which a call waited;
            NaN if there was none.
        flop: Multiplications and additions: the sum of the squares of L's column counts.
        gflops: The rate of the last factorisation, in 1e9 operations a second.
        nnz: The number of elements of L.
        factor_bytes: Device memory of L, including the zeros that merged supernodes store.
        workspace_bytes: Device memory that a factorisation needs in addition to L and the tables.
        table_bytes: Device memory of the tables.
        fronts, subtrees: The number of supernodes, and of subtrees that one thread factorises.
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
