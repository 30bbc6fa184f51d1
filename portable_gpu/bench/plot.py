"""Pictures: throughput by size with roof and peers, and the roofline of a device."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from portable_gpu.bench.cases import Case
from portable_gpu.bench.measure import Row
from portable_gpu.bench.peers import Ours
from portable_gpu.bench.report import Report
from portable_gpu.bench.roofs import Roofs
from portable_gpu.bench.statistics import Statistic

#: Marker and colour of each contestant.
_STYLES = {
    Ours.name: ("o", "C0"), "numpy": ("s", "C1"), "pyopencl": ("^", "C2"), "clblast": ("D", "C3"),
    "torch": ("v", "C4"), "cupy": ("P", "C5"),
}  # fmt: skip


def plot_throughput(report: Report, path: Path) -> None:
    """One panel for each operation and dtype: everybody's throughput on every size, and the roof.

    Products of matrices are in GFLOP/s, everything else in GB/s.
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
    figure.suptitle(f"{_title(report)}: medians and quartiles")
    figure.savefig(path, dpi=120)


def plot_roofline(report: Report, path: Path) -> None:
    """GFLOP/s by arithmetic intensity, under the measured roofs."""
    from matplotlib.figure import Figure

    if report.roofs is None:
        raise ValueError("a roofline needs roofs")
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    axes = figure.add_subplot()
    every = [row.case.flop / row.case.bytes for row in report.rows]
    reach = np.geomspace(min(every, default=0.1) / 3, max(every, default=100) * 3, 200)
    for dtype in dict.fromkeys(row.case.dtype for row in report.rows):
        peak = report.roofs.flops(dtype)
        roof = np.minimum(peak, reach * report.roofs.copy.median) / 1e9
        axes.plot(reach, roof, color="black", linewidth=1.5)
        axes.annotate(f"{dtype}: {peak / 1e9:.4g} GFLOP/s", (reach[-1], peak / 1e9),
                      ha="right", va="bottom")  # fmt: skip
    speed = report.roofs.copy.median
    middle = np.sqrt(
        reach[0] * max(report.roofs.flops(row.case.dtype) for row in report.rows) / speed
    )
    axes.annotate(f"copy: {speed / 1e9:.4g} GB/s ", (middle, middle * speed / 1e9), ha="right",
                  va="bottom")  # fmt: skip
    colours: dict[str, str] = {}
    for who, case, seconds in _points(report.rows):
        colour = colours.setdefault(case.operation, f"C{len(colours)}")
        filled = who == Ours.name
        axes.plot(
            case.flop / case.bytes, case.flop / seconds.median / 1e9,
            marker=_STYLES[who][0], color=colour, linestyle="",
            markerfacecolor=colour if filled else "none", markersize=8 if filled else 6,
        )  # fmt: skip
    for operation, colour in colours.items():
        axes.plot([], [], marker="o", linestyle="", color=colour, label=operation)
    for who in dict.fromkeys(point[0] for point in _points(report.rows)):
        filled = who == Ours.name
        axes.plot([], [], marker=_STYLES[who][0], linestyle="", color="grey",
                  markerfacecolor="grey" if filled else "none", label=who)  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("Arithmetic intensity (flop/byte)")
    axes.set_ylabel("Throughput (GFLOP/s)")
    axes.grid(which="major", alpha=0.3)
    axes.legend(loc="lower right", ncols=2)
    figure.suptitle(f"{_title(report)}: medians")
    figure.savefig(path, dpi=120)


def _throughput(axes: Any, rows: Iterable[Row], roofs: Roofs | None) -> None:
    rows = list(rows)
    cases = list(dict.fromkeys(row.case for row in rows))
    products = cases[0].operation == "gemm"

    def rate(case: Case, seconds: float) -> float:
        return (case.flop if products else case.bytes) / seconds / 1e9

    if roofs is not None:
        for x, case in enumerate(cases):
            roof = rate(case, roofs.seconds(case))
            axes.plot([x - 0.4, x + 0.4], [roof, roof], color="black", linewidth=1.5,
                      label=None if x else "measured roof (copy, multiply-adds)")  # fmt: skip
    found: dict[str, dict[int, Statistic]] = {}
    for who, case, seconds in _points(rows):
        found.setdefault(who, {}).setdefault(cases.index(case), seconds)
    for i, (who, values) in enumerate(found.items()):
        places = np.array(list(values)) + 0.12 * (i - (len(found) - 1) / 2)
        case_of = [cases[place] for place in values]
        middle, low, high = (
            np.array([rate(c, getattr(s, name)) for c, s in zip(case_of, values.values(),
                                                                 strict=True)])
            for name in ("median", "high", "low")
        )  # fmt: skip
        marker, colour = _STYLES[who]
        errors = middle - low, high - middle
        axes.errorbar(places, middle, errors, fmt=marker, color=colour, capsize=2, label=who)
    axes.set_xticks(range(len(cases)), [case.size for case in cases], rotation=35, ha="right")
    form = {"gemm": "m x k x n / transposes", "gemv": "rows x columns / transpose"}
    axes.set_xlabel(f"Size ({form.get(cases[0].operation, 'elements, or shape / axis')})")
    axes.set_ylabel("GFLOP/s" if products else "GB/s")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)


def _points(rows: Iterable[Row]) -> list[tuple[str, Case, Statistic]]:
    """Who, on what, and its time."""
    points = []
    for row in rows:
        points.append((Ours.name, row.case, row.ours))
        if row.peer is not None and row.theirs is not None:
            points.append((row.peer, row.case, row.theirs))
    return points


def _title(report: Report) -> str:
    arrays = "NumPy arrays" if report.engine.maps_host_memory else "arrays on the device"
    return f"{report.engine.target.facts.name}, {arrays}"
