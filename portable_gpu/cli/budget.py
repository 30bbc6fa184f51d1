"""The value of ``--budget``: a time such as ``1h30m``."""

from __future__ import annotations

import re

from portable_gpu.errors import ArgumentError

_BUDGET = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seconds_of(budget: str) -> float:
    """The seconds of ``1h30m``.

    Raises:
        ArgumentError: It is not a time, or 0.
    """
    match = _BUDGET.fullmatch(budget)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if not total:
        raise ArgumentError(f"--budget has {budget!r}; a time is like 90s, 10m or 1h30m")
    return total
