"""Fit the figures that estimates rest on to what ``portable-gpu bench dispatch --json`` measured.

    python tools/fit_costs.py wgmma dispatch.json [more.json ...]

It prints the figures of one row of ``portable_gpu/tuning/data/figures`` by which the estimates of
that row's ways come nearest to their times, and what the choices would lose by them: the time of
the way with the least estimate over that of the fastest way.  Nothing is written.  Needs SciPy.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from portable_gpu.ops.case import Case
from portable_gpu.ops.gemm.commands.contested import product_of
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import variants
from portable_gpu.ops.variant import Variant
from portable_gpu.targets import Target, example_target
from portable_gpu.tuning import costs, figures
from portable_gpu.tuning.table import TuningTable

#: What the names of a row's ways begin with.
WAYS = {
    "direct": ("direct",), "wgmma": ("wgmma",), "mma": ("mma",), "tiles": ("tiled", "split-k"),
}  # fmt: skip
#: Figures that no fit changes.
_KEPT = {"resident", "latency", "alone", "cut", "shallow", "turned"}
_SIZE = re.compile(r"(?:(\d+):)?(\d+)x(\d+)x(\d+)/(\w)(\w)")
Measured = tuple[GemmProblem, Mapping[str, float]]


def main(row: str, files: Sequence[str]) -> None:
    """Print the fit of one row."""
    target, values = example_target("nvidia-sm90"), figures._rows()[row, figures.ANY]
    measured = [item for file in files for item in _read(Path(file))]
    places = list(_figures(values))
    start = np.array([_get(values, place) for place in places])
    scale = np.where(start == 0, 1.0, start)

    def errors(changes: np.ndarray) -> np.ndarray:
        for place, figure in zip(places, np.maximum(changes, 1e-3) * scale, strict=True):
            _put(values, place, float(figure))
        return _errors(measured, WAYS[row], target)

    first = np.where(start == 0, 0.01, 1.0)
    before = errors(first)
    result = least_squares(
        errors, first, loss="soft_l1", f_scale=0.2, max_nfev=12, diff_step=0.05, bounds=(1e-3, 30)
    )
    after = errors(result.x)
    for title, e in (("before", before), ("after", after)):
        print(f"{title}: {len(e)} times, half of them within {np.median(np.abs(e)):.0%}")
    for place, figure in zip(places, result.x * scale, strict=True):
        print(f"  {'.'.join(place)}: {figure:.3g}")
    print(f"choices take {_lost(measured, target):.3f} of the time of the fastest ways")


def _read(file: Path) -> list[Measured]:
    result = []
    for item in json.loads(file.read_text(encoding="utf-8"))["dispatch"]["products"]:
        match = _SIZE.fullmatch(item["size"])
        assert match is not None, item["size"]
        batch, m, k, n, a, b = match.groups()
        count = None if batch is None else int(batch)
        case = Case("gemm", (int(m), int(k), int(n)), item["dtype"], trans=a + b, batch=count)
        result.append((product_of(case), item["ways"]))
    return result


def _estimates(problem: GemmProblem, target: Target) -> dict[str, tuple[Variant, float]]:
    """Each way's seconds in line."""
    device = costs.DeviceCosts.of("device", target)
    every = variants(problem, target, TuningTable.shipped())
    return {item.name: (item, item.estimate + item.launches * device.launch) for item in every}


def _errors(measured: Sequence[Measured], ways: tuple[str, ...], target: Target) -> np.ndarray:
    """Logarithms of estimate over time."""
    result = []
    for problem, times in measured:
        estimated = _estimates(problem, target)
        result += [
            math.log(estimated[way][1] / seconds)
            for way, seconds in times.items()
            if way.startswith(ways) and way in estimated
        ]
    return np.array(result)


def _lost(measured: Sequence[Measured], target: Target) -> float:
    device, result = costs.DeviceCosts.of("device", target), []
    for problem, times in measured:
        estimated = _estimates(problem, target)
        known = [way for way in times if way in estimated]
        if len(known) > 1:
            own = min(known, key=lambda way: estimated[way][0].seconds(device))
            result.append(math.log(times[own] / min(times[way] for way in known)))
    return math.exp(sum(result) / len(result))


def _figures(values: Mapping[str, Any]) -> list[tuple[str, ...]]:
    places: list[tuple[str, ...]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            places += [(name, key) for key in value if key != "large"]
        elif name not in _KEPT:
            places.append((name,))
    return places


def _get(values: Mapping[str, Any], place: tuple[str, ...]) -> float:
    for name in place:
        values = values[name]
    return values  # type: ignore[return-value]


def _put(values: Any, place: tuple[str, ...], figure: float) -> None:
    for name in place[:-1]:
        values = values[name]
    values[place[-1]] = figure


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in WAYS:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
