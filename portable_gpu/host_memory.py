"""Memory of the host: what there is, and the error before more of it is taken."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from portable_gpu.errors import HostMemoryError

#: The limit of a container, by the two versions of Linux's control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available() -> int | None:
    """Bytes that the process can take without a swap; None where the system does not say."""
    found = []
    with contextlib.suppress(OSError):
        match = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text("ascii"))
        found += [int(match[1]) * 1024] if match else []
    for limit in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no number
            found.append(int(Path(limit).read_text("ascii")))
    if not found:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def check_host(nbytes: int, what: str) -> None:
    """Refuse work for which the host has not the memory.

    Args:
        nbytes: What it takes, at least.
        what: The work, as the beginning of a sentence.

    Raises:
        HostMemoryError: There is less.
    """
    there = available()
    if there is not None and nbytes > there:
        raise HostMemoryError(
            f"{what} takes {nbytes / 2**30:,.1f} GiB of the host's memory, and {there / 2**30:,.1f}"
            " GiB are available"
        )
