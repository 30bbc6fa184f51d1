"""Compare random calls of every family with NumPy and SciPy, on the default device.

    python tools/random_calls.py SEED COUNT [--family fft,reduce] [--seconds 600] [--jobs 8]
    python tools/random_calls.py SEED COUNT --call fft:123

It prints how many calls were right, wrong, and refused with an error of the library's, and for each
wrong one the command that makes it again.  It exits with 1 if any is wrong.  Functions, dtypes,
shapes, strides, offsets, axes, result dtypes and numbers are drawn; arrays are NumPy's or on the
device (``tests/random_functions.py``).  Calls whose numbers differ by a multiple of ``--programs``
have the same functions and dtypes, so most of them build no program.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import random_functions

from portable_gpu.errors import PortableGPUError
from portable_gpu.runtime.engine import Engine

_SHOWN = 300  # letters of an error


@dataclass
class Outcome:
    """The outcome of some calls.

    Attributes:
        right, wrong, refused: How many, by family.
        told: A text for each wrong call.
        reasons: Of refusals.
    """

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        """Put those of another process with these."""
        for mine, theirs in (
            (self.right, other.right), (self.wrong, other.wrong), (self.refused, other.refused),
            (self.reasons, other.reasons),
        ):  # fmt: skip
            mine.update(theirs)
        self.told += other.told


def made(options: argparse.Namespace, families: list[str], job: int) -> Outcome:
    """The calls of one process: those whose programs no other process builds."""
    warnings.simplefilter("ignore")
    engine, end = Engine(), time.monotonic() + options.seconds
    outcome = Outcome()
    for turn in range(options.count):
        number, place = divmod(turn, len(families))
        if number % options.programs % options.jobs != job:
            continue
        if time.monotonic() > end:
            break
        make(options, engine, families[place], number, outcome)
    return outcome


def make(
    options: argparse.Namespace, engine: Engine, family: str, number: int, outcome: Outcome
) -> None:
    """Make a call and count it."""
    call = random_functions.drawn(family, options.seed, number, options.programs, engine)
    try:
        random_functions.check(family, call)
    except PortableGPUError as error:
        outcome.refused[family] += 1
        outcome.reasons[f"{family}: {type(error).__name__}: {shown(error)[:90]}"] += 1
    except Exception as error:  # whatever comes of a call that ought to give numbers
        outcome.wrong[family] += 1
        repeated = f"{options.seed} {options.count} --call {family}:{number}"
        repeated += f" --programs {options.programs}"
        outcome.told.append(
            f"{type(error).__name__}: {shown(error)}\n    {'; '.join(call.told)}\n"
            f"    python tools/random_calls.py {repeated}"
        )
    else:
        outcome.right[family] += 1


def shown(error: Exception) -> str:
    """An error in a line."""
    return " ".join(str(error).split())[:_SHOWN]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="Compare random calls with NumPy's and SciPy's.")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    known = ",".join(random_functions.FAMILIES)
    parser.add_argument("--family", default=known, help="comma list; without it all")
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so many")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--programs", type=int, default=60, help="kinds of calls in a family")
    parser.add_argument("--call", help="FAMILY:NUMBER of one call; an error is not caught")
    options = parser.parse_args()
    if options.call:
        family, _, number = options.call.partition(":")
        call = random_functions.drawn(family, options.seed, int(number), options.programs, Engine())
        random_functions.check(family, call)
        print("right:", "; ".join(call.told))
        return
    families = options.family.split(",")
    for family in list(families):
        if missing := random_functions.lacking(family):
            print(f"{family} is left out, for there is no {' and no '.join(missing)}")
            families.remove(family)
    begin, outcome = time.monotonic(), Outcome()
    if options.jobs == 1:
        outcome = made(options, families, 0)
    else:
        context = multiprocessing.get_context("spawn")  # OpenCL does not survive a fork
        with ProcessPoolExecutor(options.jobs, context) as pool:
            jobs = [pool.submit(made, options, families, job) for job in range(options.jobs)]
            for job in jobs:
                outcome.add(job.result())
    report(outcome, families, time.monotonic() - begin)


def report(outcome: Outcome, families: list[str], seconds: float) -> None:
    """Print it; exit with 1 if anything is wrong."""
    for text in outcome.told:
        print(f"wrong: {text}")
    for reason, count in outcome.reasons.most_common():
        print(f"refused {count} times: {reason}")
    for family in families:
        parts = (outcome.right[family], outcome.wrong[family], outcome.refused[family])
        print("{:12} {} right, {} wrong, {} refused".format(family, *parts))
    every = [sum(item.values()) for item in (outcome.right, outcome.wrong, outcome.refused)]
    print("{} calls: {} right, {} wrong, {} refused".format(sum(every), *every), end="; ")
    print(f"{sum(every) / seconds:.1f} calls a second")
    sys.exit(every[1] > 0)


if __name__ == "__main__":
    main()
