"""The timed variants of convolutions, remembered in the program cache on disk.

An answer is an entry of the folder of compiled programs (:mod:`portable_gpu.runtime.disk_cache`),
whose key is a hash of the device, its class and compute units, the driver, the version and the
kernels of the library, and the problem.  So an answer of another driver or version is not found.
Without a folder, answers are those of this process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from typing import NamedTuple

from portable_gpu.folders import warn_once
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.runtime.calibrated import versions
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.targets import Target

_FORMAT = "timed convolutions 1"
#: The answers of this process, by their keys.
_answers: dict[str, tuple[TimedAlgorithm, ...]] = {}


class TimedAlgorithm(NamedTuple):
    """A variant of a convolution that was timed on a device.

    Attributes:
        algo: Its name, as ``algo=`` takes it.
        seconds: The time of a call.
        workspace: Bytes of workspace.
    """

    algo: str
    seconds: float
    workspace: int


def store(problem: ConvProblem, target: Target, timed: Sequence[TimedAlgorithm]) -> None:
    """Remember the timed variants of a problem, fastest first, in place of an earlier answer."""
    key = _key(problem, target)
    _answers[key] = tuple(timed)
    DiskCache.default().write(key, json.dumps(timed).encode())


def recall(problem: ConvProblem, target: Target) -> tuple[TimedAlgorithm, ...]:
    """Return the timed variants of a problem, fastest first; none if it has no answer here.

    The file counts, which another process may have replaced.  One that is damaged causes a warning.
    """
    key = _key(problem, target)
    disk = DiskCache.default()
    stored = disk.read(key)
    timed = None if stored is None else _parsed(stored)
    if timed is not None:
        return timed
    if disk.folder is not None and os.path.exists(disk.folder / key):  # noqa: PTH110  # no errors
        warn_once(
            f"timed {key}",
            f"{disk.folder / key} ignored: it is damaged, or other users may write it; "
            "find_conv2d replaces it",
        )
    return _answers.get(key, ())


def _parsed(stored: bytes) -> tuple[TimedAlgorithm, ...] | None:
    """The timed variants of an entry; ``None`` if it is none that :func:`store` writes."""
    try:
        timed = tuple([TimedAlgorithm(*entry) for entry in json.loads(stored)])
    except (ValueError, TypeError, RecursionError):
        return None
    return timed if all(isinstance(entry.algo, str) for entry in timed) else None


def _key(problem: ConvProblem, target: Target) -> str:
    """The key of an answer.  A bias and the alignment of arrays make no difference to it."""
    x, w, y = (replace(array, aligned=1) for array in (problem.x, problem.w, problem.y))
    alone = replace(problem.without_epilogue, x=x, w=w, y=y, bias=None)
    asked = asdict(alone) | {
        "elem": problem.elem.name,
        "epilogue": [asdict(stage) for stage in problem.epilogue],
        "extras": [(extra.elem.name, asdict(extra.strides)) for extra in problem.extras],
    }
    facts = target.facts
    device = facts.name, target.device_class, facts.compute_units, versions(target)
    return sha256(json.dumps([_FORMAT, *device, asked]).encode()).hexdigest()
