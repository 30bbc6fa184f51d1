"""Pictures of the times of sparse factors and solves, ours and the peers'."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from portable_gpu.bench.noise import Noise
from portable_gpu.bench.peers import Ours
from portable_gpu.bench.plot import STYLES, entitle
from portable_gpu.bench.sparse import REFACTORISE, SparseRow


def plot_sparse(rows: Sequence[SparseRow], device: str, path: Path, noise: Noise | None) -> None:
    """Draw a panel for each phase, with the GFLOP/s of each library on each system.

    This library has a bar for each peer, because it was timed by turns with each.

    Args:
        rows: The timings.
        device: The name of the device.
        path: The file to write.
        noise: The part of the machine's time that other processes took; the title shows it.
    """
    from matplotlib.figure import Figure

    rows = [row for row in rows if row.phase != REFACTORISE]
    phases = list(dict.fromkeys(row.phase for row in rows))
    problems = list(dict.fromkeys(row.problem for row in rows))
    peers = list(dict.fromkeys(row.peer for row in rows))
    figure = Figure(figsize=(11, 1 + 3.2 * len(phases)), layout="constrained", dpi=120)
    bars = [(peer, is_peer) for peer in peers for is_peer in ((False, True) if peer else (False,))]
    width = 0.8 / len(bars)
    for number, phase in enumerate(phases, 1):
        axes = figure.add_subplot(len(phases), 1, number)
        for k, (peer, is_peer) in enumerate(bars):
            speeds = [_speed(rows, problem, phase, peer, is_peer) for problem in problems]
            ours = f"{Ours.name}, in turns with {peer}" if peer else Ours.name
            colour = STYLES.get(str(peer) if is_peer else Ours.name, ("", "C3"))[1]
            axes.bar(
                np.arange(len(problems)) + (k - (len(bars) - 1) / 2) * width,
                speeds,
                width,
                label=peer if is_peer else ours,
                color=colour,
                alpha=1 if is_peer else 1 - 0.5 * peers.index(peer) / len(peers),
            )
        axes.set_xticks(np.arange(len(problems)), problems)
        axes.set_ylabel("GFLOP/s")
        axes.set_title(phase, loc="left")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    entitle(figure, f"Sparse Cholesky factors on {device}: medians", noise)
    figure.savefig(path)


def _speed(
    rows: Sequence[SparseRow], problem: str, phase: str, peer: str | None, is_peer: bool
) -> float:
    """Return the GFLOP/s of a peer, or of this library in turns with it; NaN if not timed."""
    for row in rows:
        if (row.problem, row.phase, row.peer) == (problem, phase, peer):
            if is_peer and row.theirs is not None:
                return row.gflops * row.ours.median / row.theirs.median
            return row.gflops
    return float("nan")
