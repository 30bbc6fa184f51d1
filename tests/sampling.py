"""Which cases a forced device class runs: builds with many barriers take PoCL seconds each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

FORCED = bool(os.environ.get("PORTABLE_GPU_DEVICE_CLASS"))


def sample(every: Sequence[T], *few: str) -> list[T]:
    """All cases on the device's own class; where one is forced, those whose ``str`` is in ``few``.

    The text of elements and operators is the same for every class, so that a forced class needs
    one value of each size, and each way of moving it.
    """
    return [case for case in every if str(case) in few] if FORCED else list(every)
