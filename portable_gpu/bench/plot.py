"""Pictures: throughput by size with roof and peers, and the roofline of a device."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from portable_gpu.bench.hunt import Trial
from portable_gpu.bench.measure import Row
from portable_gpu.bench.noise import Noise
from portable_gpu.bench.peers import Ours
from portable_gpu.bench.report import BenchReport
from portable_gpu.bench.roofs import Roofs
from portable_gpu.bench.statistics import Statistic
from portable_gpu.ops.case import Case
from portable_gpu.ops.registry import BENCHMARKS

#: Marker and colour of each contestant.
STYLES = {
    Ours.name: ("o", "C0"), "numpy": ("s", "C1"), "pyopencl": ("^", "C2"), "clblast": ("D", "C3"),
    "torch": ("v", "C4"), "cupy": ("P", "C5"), "scipy": ("X", "C6"), "pyfftw": ("d", "C7"),
    "pyvkfft": ("<", "C8"),
}  # fmt: skip


_DPI = 120
Point: TypeAlias = tuple[float, float]


def plot_throughput(report: BenchReport, path: Path) -> Any:
    """Draw a panel for each operation and dtype: throughputs by size, and the roof.

    The unit is GFLOP/s where arithmetic limits a case, otherwise GB/s.  Returns the figure.
    """
    from matplotlib.figure import Figure

    groups: dict[tuple[str, str], list[Row]] = {}
    for row in report.rows:
        groups.setdefault((row.case.operation, row.case.type), []).append(row)
    figure = Figure(figsize=(11, 1 + 3.6 * len(groups)), layout="constrained")
    for i, ((operation, dtype), rows) in enumerate(groups.items(), 1):
        axes = figure.add_subplot(len(groups), 1, i)
        _throughput(axes, rows, report.roofs)
        axes.set_title(f"{operation}, {dtype}", loc="left")
    entries = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries))
    entitle(figure, f"{_title(report)}: medians and quartiles", report.noise)
    figure.savefig(path, dpi=_DPI)
    return figure


def plot_roofline(report: BenchReport, path: Path) -> Any:
    """GFLOP/s by arithmetic intensity, under the measured roofs; the figure that was drawn."""
    from matplotlib.figure import Figure

    if report.roofs is None:
        raise ValueError("a roofline needs roofs")
    figure = Figure(figsize=(12, 7), layout="constrained", dpi=_DPI)
    axes = figure.add_subplot()
    result: dict[Case, dict[str, Point]] = {}
    for library, case, seconds in _points(report.rows):
        point = case.flop / case.bytes, case.flop / seconds.median / 1e9
        result.setdefault(case, {}).setdefault(library, point)
    every = [case.flop / case.bytes for case in result]
    limits = np.geomspace(min(every, default=0.1) / 3, max(every, default=100) * 3, 200)
    obstacles = _draw_roofs(axes, limits, report.roofs, result)
    colours = {name: f"C{i}" for i, name in enumerate(dict.fromkeys(c.operation for c in result))}
    styles = _styles(report.rows)
    for number, (case, points) in enumerate(result.items(), 1):
        colour, speeds = colours[case.operation], [speed for _, speed in points.values()]
        axes.plot([every[number - 1]] * 2, [min(speeds), max(speeds)], color=colour, linewidth=0.7)
        for library, point in points.items():
            full = library == Ours.name
            axes.plot(
                *point, marker=styles[library][0], color=colour, linestyle="",
                markerfacecolor=colour if full else "none", markersize=8 if full else 6,
                label=f"{number}  {case}" if full else None,
            )  # fmt: skip
        obstacles += points.values()
    axes.set(xscale="log", yscale="log", xlim=(limits[0], limits[-1]))
    axes.set_xlabel("Arithmetic intensity (flop/byte)")
    axes.set_ylabel("Throughput (GFLOP/s)")
    axes.grid(which="major", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small", ncols=-(-len(result) // 32))
    whose = [
        axes.plot([], [], marker=marker, linestyle="", color="grey", label=library,
                  markerfacecolor="grey" if library == Ours.name else "none")[0]
        for library, (marker, _) in styles.items()
    ]  # fmt: skip
    figure.legend(handles=whose, loc="outside lower center", ncols=len(whose))
    entitle(figure, f"{_title(report)}: medians", report.noise)
    figure.draw_without_rendering()  # places the axes, which must not move any more
    figure.set_layout_engine("none")
    _name_slope(axes, report.roofs.copy.median, limits[0])
    numbers = {points[Ours.name]: str(i) for i, points in enumerate(result.values(), 1)}
    _place_labels(axes, numbers, obstacles)
    figure.savefig(path, dpi=_DPI)
    return figure


def plot_ratios(report: BenchReport, path: Path) -> Any:
    """Draw a panel for each row of a hunt: the peer's time over ours, by the operations of a case.

    Returns the figure.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    groups: dict[str, list[Trial]] = {}
    for trial in report.trials:
        groups.setdefault(trial.kind, []).append(trial)
    columns = min(4, len(groups))
    lines = -(-len(groups) // columns)
    figure = Figure(figsize=(3.4 * columns, 0.8 + 2.6 * lines), layout="constrained")
    every = figure.subplots(lines, columns, sharey=True, squeeze=False).flat
    for (kind, trials), axes in zip(groups.items(), every, strict=False):
        for peer in dict.fromkeys(trial.peer for trial in trials):
            points = [(item.flop, item.ratio) for item in trials if item.peer == peer]
            marker, colour = STYLES.get(peer, ("x", "C6"))
            axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=3, label=peer)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set(xscale="log", yscale="log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_title(kind, fontsize="small")
        axes.grid(alpha=0.3)
    for axes in every:
        axes.set_axis_off()
    entries = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries))
    figure.supylabel("the peer's time over ours (above 1: ours is shorter)")
    entitle(
        figure, f"{_title(report)}: random work in line, by the operations of a case", report.noise
    )
    figure.savefig(path, dpi=_DPI)
    return figure


def entitle(figure: Any, title: str, noise: Noise | None) -> None:
    """Write the title of a figure; in red, with the reason, where the machine was too busy."""
    lines = [] if noise is None else textwrap.wrap(noise.warning, 100)
    colour = "C3" if lines else "black"
    figure.suptitle("\n".join([title, *lines]), x=0.01, ha="left", color=colour)


def _draw_roofs(axes: Any, reach: Any, roofs: Roofs, cases: Iterable[Case]) -> list[Point]:
    """One line for each roof of arithmetic, named at its right end; points all along them."""
    peaks: dict[float, list[str]] = {}
    for case in cases:
        names = peaks.setdefault(roofs.flops(case), [])
        if case.type not in names:
            names.append(case.type)
    points: list[Point] = []
    for peak, names in peaks.items():
        roof = np.minimum(peak, reach * roofs.copy.median) / 1e9
        axes.plot(reach, roof, color="black", linewidth=1.5)
        rate = f"{peak / 1e12:.4g} TFLOP/s" if peak >= 1e13 else f"{peak / 1e9:.4g} GFLOP/s"
        axes.annotate(f" {', '.join(names)}:\n {rate}", (1, roof[-1]), fontsize="small",
                      xycoords=axes.get_yaxis_transform(), va="center")  # fmt: skip
        points += zip(reach.tolist(), roof.tolist(), strict=True)
    return points


def _name_slope(axes: Any, copy: float, start: float) -> None:
    """Name the roof of traffic, along its line."""
    ends = axes.transData.transform([(x, x * copy / 1e9) for x in (start, 2 * start)])
    angle = np.degrees(np.arctan2(*(ends[1] - ends[0])[::-1]))
    axes.annotate(
        f"copy: {copy / 1e9:.4g} GB/s", (1.1 * start, 1.1 * start * copy / 1e9), (-4, 5),
        textcoords="offset points", rotation=angle, rotation_mode="anchor",
    )  # fmt: skip


def _place_labels(axes: Any, names: Mapping[Point, str], obstacles: Sequence[Point]) -> None:
    """Write each name near its point, where it covers neither another one nor an obstacle.

    It takes the nearest free place, and a thin line leads to its point.
    """
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    frame, scale = axes.get_window_extent(), axes.figure.dpi / 72  # pixels a point
    radius = 5 * scale
    occupied = [text.get_window_extent() for text in axes.texts]
    for x, y in axes.transData.transform(obstacles):
        occupied.append(Bbox.from_extents(x - radius, y - radius, x + radius, y + radius))
    for point, name in sorted(names.items()):
        label = axes.annotate(
            name, point, (0, 0), textcoords="offset points", fontsize="small", ha="center",
            va="center", in_layout=False, bbox={"pad": 0.5, "alpha": 0},
            arrowprops={"arrowstyle": "-", "color": "grey", "linewidth": 0.5, "shrinkB": 0},
        )  # fmt: skip
        width, height = Text.get_window_extent(label).size
        x, y = axes.transData.transform(point)
        for dx, dy in _spiral(width / 2, height / 2, 8 * scale):
            box = Bbox.from_bounds(x + dx - width / 2, y + dy - height / 2, width, height)
            inside = frame.contains(*box.min) and frame.contains(*box.max)
            if inside and not any(box.overlaps(other) for other in occupied):
                break
        label.set_position((dx / scale, dy / scale))
        occupied.append(box)


def _spiral(width: float, height: float, step: float) -> Iterator[Point]:
    """Places around a point, nearer ones first, for the middle of a box of twice that size."""
    for distance in np.arange(1, 40) * step:
        for angle in np.radians(range(0, 360, 15)):
            yield (width + distance) * np.cos(angle), (height + distance) * np.sin(angle)


def _throughput(axes: Any, rows: Iterable[Row], roofs: Roofs | None) -> None:
    rows = list(rows)
    cases = list(dict.fromkeys(row.case for row in rows))
    benchmark = BENCHMARKS[cases[0].operation]

    def rate(case: Case, seconds: float) -> float:
        return (case.flop if benchmark.by_flop else case.bytes) / seconds / 1e9

    if roofs is not None:
        for x, case in enumerate(cases):
            roof = rate(case, roofs.seconds(case))
            axes.plot([x - 0.4, x + 0.4], [roof, roof], color="black", linewidth=1.5,
                      label=None if x else "measured roof")  # fmt: skip
    styles = _styles(rows)
    result: dict[str, dict[int, Statistic]] = {}
    for library, case, seconds in _points(rows):
        result.setdefault(library, {}).setdefault(cases.index(case), seconds)
    for i, (library, values) in enumerate(result.items()):
        places = np.array(list(values)) + 0.12 * (i - (len(result) - 1) / 2)
        case_of = [cases[place] for place in values]
        middle, low, high = (
            np.array([rate(c, getattr(s, name)) for c, s in zip(case_of, values.values(),
                                                                 strict=True)])
            for name in ("median", "high", "low")
        )  # fmt: skip
        marker, colour = styles[library]
        errors = middle - low, high - middle
        axes.errorbar(places, middle, errors, fmt=marker, color=colour, capsize=2, label=library,
                      clip_on=False)  # fmt: skip
    axes.set_xticks(range(len(cases)), [case.size for case in cases], rotation=35, ha="right")
    axes.set_xlabel(f"Size ({benchmark.label})")
    axes.set_ylabel("GFLOP/s" if benchmark.by_flop else "GB/s")
    axes.set(ylim=(0, None), xlim=(-0.6, len(cases) - 0.4))
    axes.grid(axis="y", alpha=0.3)


def _styles(rows: Iterable[Row]) -> dict[str, tuple[str, str]]:
    """The marker and the colour of each library."""
    spare = zip("ph<>*", ("C8", "C9", "C6", "C7", "C8"), strict=True)
    every = dict.fromkeys(library for library, *_ in _points(rows))
    return {
        library: STYLES[library] if library in STYLES else next(spare, ("x", "C6"))
        for library in every
    }


def _points(rows: Iterable[Row]) -> list[tuple[str, Case, Statistic]]:
    """The name of the library, the case and the time of each point."""
    points = []
    for row in rows:
        points.append((Ours.name, row.case, row.ours))
        if row.peer is not None and row.theirs is not None:
            points.append((row.peer, row.case, row.theirs))
    return points


def _title(report: BenchReport) -> str:
    arrays = "NumPy arrays" if report.engine.maps_host_memory else "arrays on the device"
    return f"{report.engine.target.facts.name}, {arrays}"
