"""Measure first calls: in a process with empty caches, and in one after it.

The two processes make the same calls on the same folder of caches: the library's, the drivers',
pyopencl's and numba's.  The folder is empty at the beginning, and is removed at the end.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from portable_gpu.bench import first_calls_process
from portable_gpu.bench.first_calls_process import DENSE, IMPORT, SPARSE
from portable_gpu.errors import PortableGPUError

_ROOT = str(Path(__file__).resolve().parents[2])
#: Variables that name folders of caches, and their folders.
_CACHES = {
    "PORTABLE_GPU_CACHE": "programs",
    "POCL_CACHE_DIR": "pocl",
    "NUMBA_CACHE_DIR": "numba",
    "XDG_CACHE_HOME": "others",
    "HOME": "home",  # where the other drivers keep theirs
}


@dataclass(frozen=True)
class Cost:
    """The figures of one call.

    Attributes:
        cpu: Seconds of the processor, on all threads and in ended child processes.
        wall: Seconds.
        programs, kernels, text: What was compiled: numbers, and bytes of OpenCL text.
    """

    cpu: float = 0.0
    wall: float = 0.0
    programs: int = 0
    kernels: int = 0
    text: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.cpu + other.cpu, self.wall + other.wall, self.programs + other.programs,
            self.kernels + other.kernels, self.text + other.text,
        )  # fmt: skip


@dataclass(frozen=True)
class FirstCall:
    """A call in the process with empty caches (``cold``), and in the next one (``warm``)."""

    name: str
    cold: Cost
    warm: Cost


def first_calls(names: Sequence[str], device: str | None) -> list[FirstCall]:
    """Make calls in two processes, after the import of the package.

    Args:
        names: Of calls of ``DENSE`` and ``SPARSE``.
        device: As ``PORTABLE_GPU_DEVICE`` takes it.

    Raises:
        PortableGPUError: A call failed.
    """
    with TemporaryDirectory(prefix="portable_gpu-first-") as folder:
        caches = {variable: Path(folder, part) for variable, part in _CACHES.items()}
        for cache in caches.values():
            cache.mkdir()
        environment = os.environ | {name: str(cache) for name, cache in caches.items()}
        environment["PYTHONUSERBASE"] = site.getuserbase()
        searched = [_ROOT, *filter(None, (environment.get("PYTHONPATH"),))]
        environment["PYTHONPATH"] = os.pathsep.join(searched)
        if device is not None:
            environment["PORTABLE_GPU_DEVICE"] = device
        cold, warm = (dict(_run(names, environment)) for _ in range(2))
    return [FirstCall(name, cost, warm[name]) for name, cost in cold.items()]


def totals(calls: Sequence[FirstCall]) -> dict[str, FirstCall]:
    """Sums: of the import and the dense calls, and of the sparse ones."""
    parts: dict[str, list[FirstCall]] = defaultdict(list)
    for call in calls:
        parts["sparse" if call.name in SPARSE else "dense"].append(call)
    return {
        part: FirstCall(
            part,
            sum((call.cold for call in result), Cost()),
            sum((call.warm for call in result), Cost()),
        )
        for part, result in parts.items()
    }


def _run(names: Sequence[str], environment: dict[str, str]) -> Iterator[tuple[str, Cost]]:
    command = [sys.executable, first_calls_process.__file__, *names]
    ran = subprocess.run(
        command, env=environment, text=True, stdin=subprocess.DEVNULL, capture_output=True,
        check=False,
    )  # fmt: skip
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode != 0:
        last = (ran.stderr.strip() or f"exit status {ran.returncode}").splitlines()[-1]
        made = [IMPORT, *(name for name in (*DENSE, *SPARSE) if name in names), "exit"]
        raise PortableGPUError(f"the first call of {made[len(lines)]!r} failed: {last}")
    for line in lines:
        fields = json.loads(line)
        yield fields.pop("name"), Cost(**fields)
