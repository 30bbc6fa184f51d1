"""The figures of a device that ``portable-gpu calibrate`` measured for this user."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from hashlib import sha256

from portable_gpu.codegen.source import kernel_folder
from portable_gpu.targets import Target
from portable_gpu.tuning.calibration import (
    Calibration,
    calibrations,
    versions_of,
    warn_ignored,
)
from portable_gpu.tuning.figures import shipped_files
from portable_gpu.version import __version__


def calibrated(target: Target) -> Target:
    """Return the target with the figures of its calibration, if a valid one is stored."""
    stored = calibration_of(target)
    if stored is None or stored[1]:
        return target
    return replace(target, figures=stored[0].for_target())


def calibration_of(target: Target) -> tuple[Calibration, list[str]] | None:
    """Return the stored calibration of a target, and the changes since it was measured."""
    calibration = calibrations().get((target.facts.name, target.device_class))
    if calibration is None:
        return None
    changes = calibration.changes(versions(target))
    if not changes:
        try:
            calibration.check_fields()
        except ValueError as error:
            warn_ignored(error)
            return None
    return calibration, changes


def versions(target: Target) -> dict[str, str]:
    """Return the versions for which a calibration of a target holds."""
    return versions_of(target, __version__, _texts())


@cache
def _texts() -> str:
    """A hash of the kernels' templates and of the shipped figures, to which corrections belong."""
    digest = sha256()
    for path in [*sorted(kernel_folder().rglob("*.mako")), *shipped_files()]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
