"""Plots of an analysis: the pattern of the permuted matrix and of L, and the supernodal tree."""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike
from typing import Any

import numpy as np

from portable_gpu.arguments import of_kind, shown
from portable_gpu.errors import ArgumentTypeError, UnsupportedError, how_to_install
from portable_gpu.sparse.elimination import inverse
from portable_gpu.sparse.symbolic import Symbolic

#: The maximum number of dots along each side of the pattern's image.
_DOTS = 800
#: Colours of: no element, L in even supernodes, L in odd supernodes, the permuted matrix.
_COLOURS = ("#ffffff", "#f3c98b", "#9ecae1", "#1f2a44")
_LABELS = ("L, a supernode", "L, the next supernode", "the permuted matrix")


def plot_symbolic(symbolic: Symbolic, picture: str | PathLike[str] | None = None) -> Any:
    """Draw the pattern of the permuted matrix with L's supernodes, and the supernodes' tree.

    The upper triangle of the pattern shows the permuted matrix, the lower one L, in two colours
    that alternate between supernodes.  A dot of a large matrix stands for many elements; it is
    drawn if one of them is stored.  In the tree, the height of a node is its level, its area grows
    with its share of the arithmetic, and its colour gives its number of columns.

    Args:
        symbolic: The result of :func:`analyze`.
        picture: The file to write: .png, .pdf or .svg; None for none.

    Returns:
        The ``matplotlib.figure.Figure``.

    Raises:
        ArgumentTypeError: `symbolic` is not an analysis, or `picture` no path.
        UnsupportedError: matplotlib is not installed.

    Cost: O(n + nnz + the rows of all fronts).
    """
    of_kind(symbolic, Symbolic, "symbolic", "what analyze() returned")
    if picture is not None and not isinstance(picture, (str, PathLike)):
        raise ArgumentTypeError(f"picture is {shown(picture)}; expected the path of a file")
    if find_spec("matplotlib") is None:
        raise UnsupportedError(f"plots need matplotlib: {how_to_install('bench')}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 6.5), layout="constrained", dpi=120)
    left, right = figure.subplots(1, 2)
    _draw_pattern(left, symbolic)
    _draw_tree(right, symbolic)
    figure.suptitle(
        f"n = {symbolic.n:,}, ordering {symbolic.ordering}, nnz(L) = {symbolic.nnz:,}, "
        f"{symbolic.flops:.3g} flop"
    )
    if picture is not None:
        figure.savefig(picture)
    return figure


def _draw_pattern(axes: Any, symbolic: Symbolic) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    n = symbolic.n
    image = pattern_image(symbolic, min(max(n, 1), _DOTS))
    axes.imshow(
        image,
        cmap=ListedColormap(_COLOURS),
        vmin=0,
        vmax=len(_COLOURS) - 1,
        interpolation="nearest",
        extent=(-0.5, max(n, 1) - 0.5, max(n, 1) - 0.5, -0.5),
    )
    axes.set_title(f"the matrix, permuted, and L: {len(symbolic.fronts):,} supernodes", loc="left")
    patches = [Patch(color=c, label=label) for c, label in zip(_COLOURS[1:], _LABELS, strict=True)]
    axes.legend(
        handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=3, fontsize="small"
    )


def pattern_image(symbolic: Symbolic, dots: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Compute an image, dots x dots: 0 empty, 1 L in odd supernodes, 2 in even ones, 3 A."""
    fronts, n = symbolic.fronts, symbolic.n
    image = np.zeros((dots, dots), np.uint8)
    if n == 0:
        return image
    owner = np.repeat(np.arange(len(fronts)), fronts.columns)
    rows = np.concatenate([np.arange(n), fronts.row_index])
    supernode = np.concatenate([owner, np.repeat(np.arange(len(fronts)), fronts.rows)])
    begin = fronts.first[supernode]
    end = np.minimum(
        fronts.first[supernode + 1] - 1, rows
    )  # a row of the diagonal block ends at itself
    for parity, value in ((1, 1), (0, 2)):
        chosen = supernode % 2 == parity
        # Each row of L is an interval: +1 at its start, -1 behind its end; the sum gives the dots.
        step = np.zeros((dots, dots + 1), np.int64)
        line = rows[chosen] * dots // n
        np.add.at(step, (line, begin[chosen] * dots // n), 1)
        np.add.at(step, (line, end[chosen] * dots // n + 1), -1)
        image[step.cumsum(axis=1)[:, :-1] > 0] = value
    pattern = symbolic.pattern
    place = inverse(symbolic.front_perm).astype(np.int64)
    row, column = place[np.repeat(np.arange(n), np.diff(pattern.pointers))], place[pattern.columns]
    image[np.minimum(row, column) * dots // n, np.maximum(row, column) * dots // n] = 3
    return image


def _draw_tree(axes: Any, symbolic: Symbolic) -> None:
    from matplotlib.collections import LineCollection

    fronts, level = symbolic.fronts, symbolic.level
    across = _places(fronts.parent)
    child = np.flatnonzero(fronts.parent >= 0)
    above = fronts.parent[child]
    ends = [(across[child], level[child]), (across[above], level[above])]
    lines = np.stack([np.stack(end, axis=1) for end in ends], axis=1)
    axes.add_collection(LineCollection(list(lines), colors="#b0b0b0", linewidths=0.4, zorder=1))
    work = fronts.columns * (fronts.columns + fronts.rows) ** 2.0
    area = 2 + 600 * np.sqrt(work / max(float(work.sum()), 1.0))
    dots = axes.scatter(across, level, area, np.log2(np.maximum(fronts.columns, 1)), zorder=2)
    if len(fronts):
        axes.figure.colorbar(dots, ax=axes, label="columns, logarithm to base 2")
    axes.set_xticks([])
    axes.set_ylabel("level")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title("supernodes: area by arithmetic", loc="left")


def _places(parent: np.ndarray[Any, np.dtype[np.int32]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Place leaves next to each other, and every other node in the middle of its children."""
    count = len(parent)
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    leaves = 0
    for s, above in enumerate(parent.tolist()):
        if low[s] > high[s]:
            low[s] = high[s] = leaves
            leaves += 1
        if above >= 0:
            middle = (low[s] + high[s]) / 2
            low[above], high[above] = min(low[above], middle), max(high[above], middle)
    middles: np.ndarray[Any, np.dtype[np.float64]] = (low + high) / 2
    return middles
