"""Compare random calls of every family with NumPy and SciPy, on the default device.

    python tools/random_calls.py SEED COUNT [--family fft,reduce] [--seconds 600] [--jobs 8]
    python tools/random_calls.py SEED COUNT --call fft:123

It prints how many calls were right, wrong, and refused with an error of the library's, and for each
wrong one the command that makes it again.  It exits with 1 if any is wrong.  Functions, dtypes,
shapes, strides, offsets, axes, result dtypes and numbers are drawn; arrays are NumPy's or on the
device (``tests/random_functions.py`` and what it imports).  Calls whose numbers differ by a
multiple of ``--programs`` have the same functions and dtypes, so most of them build no program.
``--repeats`` makes each call again with other values, after other calls, so that it finds what the
first one remembered; ``--engines`` and ``--threads`` are how many make calls in turns.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import random
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
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
        right, wrong, refused: The numbers of such calls by family.
        descriptions: A text for each wrong call.
        reasons: The numbers of refusals by reason.
    """

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    descriptions: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        """Add the outcome of another process."""
        for mine, theirs in (
            (self.right, other.right), (self.wrong, other.wrong), (self.refused, other.refused),
            (self.reasons, other.reasons),
        ):  # fmt: skip
            mine.update(theirs)
        self.descriptions += other.descriptions


@dataclass(frozen=True)
class Turn:
    """A call, with the engine that makes it.

    Attributes:
        family, number: Which call it is.
        values: Which of its values.
        engine: The number of the engine.
    """

    family: str
    number: int
    values: int
    engine: int


def made(options: argparse.Namespace, families: list[str], job: int) -> Outcome:
    """The calls of one process: those whose programs no other process builds."""
    warnings.simplefilter("ignore")
    engines, end = [Engine() for _ in range(options.engines)], time.monotonic() + options.seconds
    share, outcome = turns(options, families, job), Outcome()

    def work(thread: int) -> Outcome:
        one = Outcome()
        for turn in itertools.islice(share, thread, None, options.threads):
            if time.monotonic() > end:
                break
            make(options, engines[turn.engine], turn, one)
        return one

    with ThreadPoolExecutor(options.threads) as pool:
        for one in pool.map(work, range(options.threads)):
            outcome.add(one)
    return outcome


def turns(options: argparse.Namespace, families: list[str], job: int) -> list[Turn]:
    """The calls in order; those of eight numbers are mixed with their repetitions."""
    order, every = random.Random(options.seed), []
    numbers = [
        k
        for k in range(options.count)
        if k // len(families) % options.programs % options.jobs == job
    ]
    for start in range(0, len(numbers), 8):
        few = [
            Turn(
                families[k % len(families)],
                k // len(families),
                values,
                order.randrange(options.engines),
            )
            for k in numbers[start : start + 8]
            for values in range(options.repeats)
        ]
        if options.repeats > 1:
            order.shuffle(few)
        every += few
    return every


def make(options: argparse.Namespace, engine: Engine, turn: Turn, outcome: Outcome) -> None:
    """Make a call and count it."""
    family = turn.family
    call = random_functions.drawn(
        family, options.seed, turn.number, options.programs, engine, turn.values
    )
    try:
        random_functions.check(family, call)
    except PortableGPUError as error:
        outcome.refused[family] += 1
        outcome.reasons[f"{family}: {type(error).__name__}: {shown(error)[:90]}"] += 1
    except Exception as error:  # any error of a call that should give numbers is a fault
        outcome.wrong[family] += 1
        repeated = f"{options.seed} {options.count} --call {family}:{turn.number}:{turn.values}"
        repeated += f" --programs {options.programs}"
        outcome.descriptions.append(
            f"{type(error).__name__}: {shown(error)}\n    {'; '.join(call.descriptions)}\n"
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
    layers = ",".join(random_functions.LAYERS)
    parser.add_argument(
        "--family", default=known, help=f"comma list, 'layers' for {layers}; without it all"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so many")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--engines", type=int, default=1, help="of each process")
    parser.add_argument("--repeats", type=int, default=1, help="how often a call is made")
    parser.add_argument("--programs", type=int, default=60, help="kinds of calls in a family")
    parser.add_argument("--call", help="FAMILY:NUMBER:VALUES of one call; an error is not caught")
    options = parser.parse_args()
    if options.call:
        family, number, *which = options.call.split(":")
        turn = Turn(family, int(number), int(which[0]) if which else 0, 0)
        call = random_functions.drawn(
            family, options.seed, turn.number, options.programs, Engine(), turn.values
        )
        random_functions.check(family, call)
        print("right:", "; ".join(call.descriptions))
        return
    families = options.family.replace("layers", layers).split(",")
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
    for text in outcome.descriptions:
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
