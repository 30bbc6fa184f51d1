"""Memory of the host: how much is available, and an error for work that needs more."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from portable_gpu.errors import HostMemoryError

#: The limit of a container, by the two versions of Linux's control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

#: Less memory is not checked: to read what is available takes 0.1 ms.
_LEAST_CHECKED = 1 << 20


def available() -> int | None:
    """Bytes that the process can allocate without swapping; ``None`` if this is not known."""
    limits = []
    with contextlib.suppress(OSError):
        match = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text("ascii"))
        limits += [int(match[1]) * 1024] if match else []
    for limit in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is not a number
            limits.append(int(Path(limit).read_text("ascii")))
    if not limits:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def check_host(nbytes: int, what: str) -> None:
    """Check that the host has the memory for some work.

    Args:
        nbytes: The least number of bytes that the work takes.
        what: The work, as the subject of a sentence.

    Raises:
        HostMemoryError: Less memory is available.
    """
    limit = available() if nbytes >= _LEAST_CHECKED else None
    if limit is not None and nbytes > limit:
        raise HostMemoryError(
            f"{what} takes {nbytes / 2**30:,.1f} GiB of the host's memory, and {limit / 2**30:,.1f}"
            " GiB are available"
        )
