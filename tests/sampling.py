"""Which cases a job runs: a sample where all would take too long, and what the device can do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations, product
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl
import pytest

from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.pocl import drivers

T = TypeVar("T")
#: Turns in which all cases of a test run.
SHARES = 4

FORCED = bool(os.environ.get("PORTABLE_GPU_DEVICE_CLASS"))
#: A job of the matrix, which has the same code built by another compiler: fewer sizes will do.
FEW = FORCED or bool(os.environ.get("PORTABLE_GPU_TEST_FEW"))
#: It builds fast, runs tiny tests only, and is there to see every kernel.
OCLGRIND = bool(os.environ.get("PORTABLE_GPU_OCLGRIND_LOG"))


def sample(every: Sequence[T], *few: str) -> list[T]:
    """All cases on the device's own class; where one is forced, those whose ``str`` is in ``few``.

    Builds with many barriers take PoCL seconds each.  The text of elements and operators is the
    same for every class, so that a forced class needs one value of each size, and each way of
    moving it.
    """
    return [case for case in every if str(case) in few] if FORCED else list(every)


def in_pairs(*every: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Few of all combinations, in which every two values of two parameters meet; always the same.

    A kernel to build costs half a second, and hardly a fault needs three parameters at once.
    """
    places = [range(len(values)) for values in every]
    cases = np.array(list(product(*places)), np.int64).reshape(-1, len(every))
    # Each pair of values has a number: a column for each pair of parameters.
    starts = np.cumsum([0, *(len(a) * len(b) for a, b in combinations(places, 2))])
    pairs = np.stack(
        [
            start + cases[:, a] * len(places[b]) + cases[:, b]
            for start, (a, b) in zip(starts, combinations(range(len(every)), 2), strict=False)
        ],
        axis=1,
    )
    missing = np.ones(starts[-1], bool)
    like_others, chosen = np.zeros(len(cases), np.int64), []
    while missing.any():
        # Most of what is missing; then what is least like those before; then the first.
        worth = missing[pairs].sum(1) * len(cases) - like_others
        best = int(worth.argmax())
        chosen.append(tuple(cases[best]))
        missing[pairs[best]] = False
        like_others += (cases[:, 1:] == cases[best, 1:]).all(1)
    return [tuple(values[i] for values, i in zip(every, case, strict=True)) for case in chosen]


def dealt(every: Sequence[T], turn: int, count: int) -> list[T]:
    """``count`` of all cases, which the next turn goes on from: all of them occur as often."""
    return [every[(turn * count + i) % len(every)] for i in range(count)]


def share(cases: Sequence[str], turn: int) -> list[str]:
    """Return a quarter of the names of cases, at least one.

    Four turns have each case once.  Names are shuffled, anew after four turns: else all cases of
    one turn might have the same value of a parameter.
    """
    turns = min(len(cases), SHARES)
    period, place = divmod(turn, turns)
    shuffled = sorted(cases, key=lambda name: sha256(f"{period} {name}".encode()).digest())
    return shuffled[place::turns]


def computes(engine: Engine, dtype: Any) -> bool:
    """Whether the device has what ``dtype`` is computed with."""
    return engine.target.fp64 or np.dtype(dtype).name not in ("float64", "complex128")


def needs_fp64(engine: Engine) -> None:
    """Skip the test on a device without double precision."""
    if not engine.target.fp64:
        facts = engine.target.facts
        pytest.skip(f"{facts.name} ({facts.driver_version}) has no double precision")


def needs(engine: Engine, dtype: Any) -> None:
    """Skip the test on a device that lacks what ``dtype`` is computed with."""
    if not computes(engine, dtype):
        needs_fp64(engine)


def compile_fast(patch: pytest.MonkeyPatch, engine: Engine, exchanges: bool = True) -> None:
    """Leave out a CPU's optimiser: PoCL's takes seconds for a kernel with barriers.

    Intel's takes minutes for a large one, but without it no kernel has the sub-groups that it asks
    for: ``exchanges`` says whether kernels exchange lanes.  Without NVIDIA's no kernel of
    pyopencl's for complex numbers links.
    """
    is_cpu = bool(engine.device.type & cl.device_type.CPU)
    if drivers(engine.device.platform) is not None or (is_cpu and not exchanges):
        patch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
