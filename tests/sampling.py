"""Which cases a job runs: of a forced device class, of a device without double precision."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

from portable_gpu.runtime.engine import Engine

T = TypeVar("T")

FORCED = bool(os.environ.get("PORTABLE_GPU_DEVICE_CLASS"))


def sample(every: Sequence[T], *few: str) -> list[T]:
    """All cases on the device's own class; where one is forced, those whose ``str`` is in ``few``.

    Builds with many barriers take PoCL seconds each.  The text of elements and operators is the
    same for every class, so that a forced class needs one value of each size, and each way of
    moving it.
    """
    return [case for case in every if str(case) in few] if FORCED else list(every)


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
