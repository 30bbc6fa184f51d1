"""The figures that ``portable-gpu calibrate`` measured on this user's devices.

They are rows of one JSON file next to the user's tuning table.  A row holds for one device as one
class, with the driver, the version of the library and the texts of kernels with which it was
measured.  With any other of these it is ignored, because its figures may no longer be true.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from portable_gpu import folders
from portable_gpu.errors import PortableGPUError, TuningFileError, reraise_of_signal
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import for_any
from portable_gpu.tuning.store import replace_json
from portable_gpu.tuning.table import user_file

_FORMAT = 1
_NAME, _LOCK = "calibration.json", ".calibration.lock"
_MAX_BYTES = 16 << 20
#: The conditions of a calibration, in addition to the device and its class.
_VERSIONS = ("platform", "driver", "library", "texts")


@dataclass(frozen=True)
class Calibration:
    """The measured figures of one device.

    Attributes:
        device, device_class: The name of the device, and the class of its kernels.
        platform, driver, library: The versions with which they were measured.
        texts: A hash of the kernels' templates and of the shipped figures.
        date: The day of the measurement.
        figures: The values by the name of the row.
        evidence: What was measured.
    """

    device: str
    device_class: str
    platform: str
    driver: str
    library: str
    texts: str
    date: str
    figures: Mapping[str, Mapping[str, Any]]
    evidence: str

    @property
    def key(self) -> tuple[str, str]:
        """The device and its class: a file has one calibration of each."""
        return self.device, self.device_class

    def changes(self, versions: Mapping[str, str]) -> list[str]:
        """Return what has changed since the measurement; an empty list if the figures hold."""
        now = [(name, getattr(self, name), versions[name]) for name in _VERSIONS]
        return [
            "the kernels' texts" if name == "texts" else f"the {name} (was {old}, is {new})"
            for name, old, new in now
            if old != new
        ]

    def check_fields(self) -> None:
        """Raise ValueError unless the figures have the fields that this version reads."""
        for name, values in self.figures.items():
            try:
                expected = for_any(name)
            except KeyError:
                raise ValueError(f"there are no figures {name}") from None
            kinds = {field: isinstance(value, dict) for field, value in expected.items()}
            if kinds != {field: isinstance(value, dict) for field, value in values.items()}:
                raise ValueError(f"{name} has other fields than {', '.join(kinds)}")

    def for_target(self) -> tuple[tuple[str, str, str], ...]:
        """The figures as :attr:`Target.figures` has them."""
        return tuple(
            (name, json.dumps(values), f"measured on this device, {self.date}")
            for name, values in self.figures.items()
        )


def versions_of(target: Target, library: str, texts: str) -> dict[str, str]:
    """The conditions of a target's calibration, in addition to the device and its class."""
    facts = target.facts
    return {
        "platform": facts.platform_version,
        "driver": facts.driver_version,
        "library": library,
        "texts": texts,
    }


def calibration_file() -> Path | None:
    """The file of calibrations, next to the user's tuning table; ``None`` if there is none."""
    path = user_file()
    return None if path is None else path.with_name(_NAME)


def calibrations() -> dict[tuple[str, str], Calibration]:
    """All calibrations of this user.  A file that cannot be used causes a warning."""
    path = calibration_file()
    try:
        return {} if path is None else _read(path)
    except FileNotFoundError:
        return {}
    except TuningFileError as error:
        warn_ignored(error)
        return {}


def warn_ignored(error: Exception) -> None:
    """Warn that the file cannot be used."""
    warnings.warn(f"calibration file {calibration_file()} ignored: {error}", stacklevel=3)


def store(calibration: Calibration) -> Path:
    """Write a calibration in place of an earlier one of the same device.

    The caller has the lock of :func:`exclusive`.

    Raises:
        TuningFileError: The file cannot be read, or other users may write it; it stays unchanged.
    """
    path = _existing_file()
    _write(path, _present(path) | {calibration.key: calibration})
    return path


def clear(device: str, device_class: str) -> bool:
    """Remove the calibration of a device, and return whether there was one.

    The caller has the lock of :func:`exclusive`.
    """
    path = _existing_file()
    known = _present(path)
    existed = known.pop((device, device_class), None) is not None
    if existed:
        _write(path, known)
    return existed


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Hold the lock of calibrations; the system releases it if the process dies.

    Raises:
        PortableGPUError: Another process holds it, or there is no folder for the file.
    """
    path = _existing_file().with_name(_LOCK)
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        reraise_of_signal(error)
        raise PortableGPUError(f"{path} cannot be written: {error.strerror}") from error
    with file:
        try:
            _lock(file.fileno())
        except (BlockingIOError, PermissionError) as error:
            raise PortableGPUError("another calibration is running; try again later") from error
        except OSError as error:  # a file system without locks
            reraise_of_signal(error)
        yield


def _lock(file: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _existing_file() -> Path:
    path = calibration_file()
    if path is None:
        raise PortableGPUError("this user has no home folder, so no place for a calibration")
    try:
        folders.make_private(path.parent)
    except OSError as error:
        reraise_of_signal(error)
        raise PortableGPUError(f"{path.parent} cannot be made: {error.strerror}") from error
    return path


def _write(path: Path, known: Mapping[Any, Calibration]) -> None:
    rows = [asdict(calibration) for calibration in known.values()]
    replace_json(path, {"format": _FORMAT, "calibrations": rows})


def _present(path: Path) -> dict[tuple[str, str], Calibration]:
    """The calibrations of a file; none if it is missing or damaged."""
    try:
        return _read(path)
    except FileNotFoundError:
        return {}
    except TuningFileError as error:
        if isinstance(error.__cause__, OSError):
            raise
        return {}


def _read(path: Path) -> dict[tuple[str, str], Calibration]:
    try:
        content = json.loads(folders.read_own(path, _MAX_BYTES))
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']}, not {_FORMAT}")
        read = [Calibration(**row) for row in content["calibrations"]]
        for calibration in read:
            _check(calibration)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reraise_of_signal(error)
        raise TuningFileError(repr(error)) from error
    return {calibration.key: calibration for calibration in read}


def _check(calibration: Calibration) -> None:
    """Raise ValueError if a field is not a string, or a figure not a number that estimates can use.

    The names of the figures may be those of another version of the library.
    """
    for name, value in vars(calibration).items():
        if name != "figures" and not isinstance(value, str):
            raise ValueError(f"{name} is not a string")
    for values in calibration.figures.values():
        for value in values.values():
            for number in value.values() if isinstance(value, dict) else (value,):
                if not isinstance(number, (int, float)) or not 0 < number < math.inf:
                    raise ValueError(f"{number!r} is not a positive finite number")
