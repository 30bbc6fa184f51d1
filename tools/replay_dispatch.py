"""Show what the library would choose today among variants that were timed before, without a device.

    portable-gpu bench dispatch --rows conv --seed 77 --json times.json  # on the device
    python tools/replay_dispatch.py times.json ...                       # after a change

A case of a report has the times of variants of all kinds.  The choice is that of the code on the
device's record in tests/recorded_devices.py, which has the device's name.  With ``--estimates``
each line has the estimated microseconds of a variant after the measured ones, in brackets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from random_problems import TABLE  # noqa: E402  # found by the line above
from recorded_devices import RECORDED  # noqa: E402

from portable_gpu.bench.cases import cases  # noqa: E402
from portable_gpu.bench.dispatch import CONTESTED, Distribution, Standing  # noqa: E402
from portable_gpu.ops.sizes import parse_sizes  # noqa: E402
from portable_gpu.ops.variant import ranked  # noqa: E402
from portable_gpu.targets import Target, detect  # noqa: E402
from portable_gpu.tuning.costs import DeviceCosts  # noqa: E402


@dataclass(frozen=True)
class Replayed:
    """A timed case with today's choice, and the estimated seconds of each timed variant."""

    standing: Standing
    estimates: dict[str, float]


def target_named(name: str) -> Target:
    """The target of the recorded device with a name.

    Raises:
        SystemExit: There is none.
    """
    for facts, _ in RECORDED.values():
        if facts.name == name:
            return detect(facts)
    raise SystemExit(f"tests/recorded_devices.py has no device named {name!r}")


def replay(report: dict[str, Any]) -> Iterator[Replayed]:
    """The cases of a report, without those whose present choice was not timed."""
    target = target_named(report["device"]["name"])
    costs = DeviceCosts.of("device", target)
    for timed in report["dispatch"]["products"]:
        sizes = parse_sizes(timed["size"])
        (case,) = cases(timed["operation"], [timed["dtype"]], sizes, target.is_cpu)
        contested, ways = CONTESTED[case.operation], timed["ways"]
        every = contested.variants(contested.problem(case), target, TABLE)
        choice = ranked(every, costs)[0].name
        if choice in ways:
            standing = Standing(case, choice, ways[choice], ways, timed["left_out"])
            estimates = {one.name: one.seconds(costs) for one in every if one.name in ways}
            yield Replayed(standing, estimates)


def main() -> None:
    """Print the distribution of choice / best of each report, and its worst cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=20, help="cases that are shown")
    parser.add_argument("--estimates", action="store_true", help="show estimates too")
    asked = parser.parse_args()
    for path in asked.reports:
        report = json.loads(path.read_text(encoding="utf-8"))
        replayed = list(replay(report))
        left_out = len(report["dispatch"]["products"]) - len(replayed)
        print(
            f"{path}: {Distribution.of([item.standing for item in replayed])}, left out {left_out}"
        )
        for item in sorted(replayed, key=lambda one: one.standing.ratio, reverse=True)[
            : asked.most
        ]:
            standing = item.standing
            times = ", ".join(
                f"{name} {seconds * 1e6:.1f}"
                + (f" ({item.estimates[name] * 1e6:.1f})" if asked.estimates else "")
                for name, seconds in standing.ways.items()
                if name in item.estimates
            )
            print(f"{standing.ratio:6.2f} {standing.case}: {standing.chosen}, of {times} us")


if __name__ == "__main__":
    main()
