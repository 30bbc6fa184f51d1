"""Measure first calls: in a process with empty caches, and in one after it.

The two processes make the same calls on the same folder of caches: the library's, the drivers'
and pyopencl's.  The folder is empty at the beginning, and is removed at the end.  Each call of a
layer has two processes and a folder of its own.
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
from portable_gpu.bench.first_calls_process import DENSE, IMPORT, IMPORT_LAYERS, LAYER, SPARSE
from portable_gpu.errors import PortableGPUError

_ROOT = str(Path(__file__).resolve().parents[2])
#: Variables that name folders of caches, and their folders.
_CACHES = {
    "PORTABLE_GPU_CACHE": "programs",
    "POCL_CACHE_DIR": "pocl",
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
        names: Names of calls: of ``DENSE``, ``SPARSE`` and, after ``LAYER``, of
            ``first_calls_layers``.
        device: As ``PORTABLE_GPU_DEVICE`` takes it.

    Returns:
        A row for each call, and before it one for each import.

    Raises:
        PortableGPUError: A call failed.
    """
    layers = [name for name in names if name.startswith(LAYER)]
    others = [name for name in names if name not in layers]
    calls: dict[str, FirstCall] = {}
    processes = [others] if others else []
    processes += [["engine", name] for name in layers]
    for process_names in processes:
        for call in _from_empty_caches(process_names, device):
            calls.setdefault(call.name, call)
    return [*calls.values()]


def _from_empty_caches(names: Sequence[str], device: str | None) -> list[FirstCall]:
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
    """Sums: of the import and the dense calls, of the sparse ones, and of the layers."""
    parts: dict[str, list[FirstCall]] = defaultdict(list)
    for call in calls:
        parts[part_of(call.name)].append(call)
    return {
        part: FirstCall(
            part,
            sum((call.cold for call in same_part), Cost()),
            sum((call.warm for call in same_part), Cost()),
        )
        for part, same_part in parts.items()
    }


def part_of(name: str) -> str:
    """The sum to which a row belongs."""
    if name == IMPORT_LAYERS or name.startswith(LAYER):
        return "nn"
    return "sparse" if name in SPARSE else "dense"


def _run(names: Sequence[str], environment: dict[str, str]) -> Iterator[tuple[str, Cost]]:
    command = [sys.executable, first_calls_process.__file__, *names]
    ran = subprocess.run(
        command, env=environment, text=True, stdin=subprocess.DEVNULL, capture_output=True,
        check=False,
    )  # fmt: skip
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode != 0:
        # The process prints a line for each import and call, in this order; the next one failed.
        last = (ran.stderr.strip() or f"exit status {ran.returncode}").splitlines()[-1]
        imports = [IMPORT, *(IMPORT_LAYERS for name in names[-1:] if name.startswith(LAYER))]
        order = dict.fromkeys((*DENSE, *SPARSE, *names))
        made = [*imports, *(name for name in order if name in names), "exit"]
        raise PortableGPUError(f"the first call of {made[len(lines)]!r} failed: {last}")
    for line in lines:
        fields = json.loads(line)
        yield fields.pop("name"), Cost(**fields)
