"""Measured figures: the costs of estimates, and the thresholds and factors of rules.

The figures are rows of ``data/figures/*.json``, each for a device by its name, for a device class
or for any device, with their evidence.  A row for a class was measured on one device of that class.
The row for any device is used for classes without measurements: its costs order the variants of
one problem, and are poor estimates of seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from portable_gpu.targets import Target

F = TypeVar("F", bound="Figures")
_DATA = Path(__file__).parent / "data" / "figures"
#: The device of a row that serves every class without one.
ANY = "any"


@dataclass(frozen=True)
class Figures:
    """The figures of one kernel, of one rule, or of the device.

    The fields of a subclass are the figures: numbers, or mappings from shape classes to numbers.
    """

    @classmethod
    def of(cls: type[F], name: str, target: Target) -> F:
        """The figures ``name`` of a target.

        They were measured on this device, or are those of the row for its name, for its class, or
        for any device: the first of these that exist.
        """
        result: F = cls._of_device(name, target.facts.name, target.device_class, target.figures)
        return result

    @classmethod
    @cache
    def _of_device(
        cls: type[F],
        name: str,
        device: str,
        device_class: str,
        measured: tuple[tuple[str, str, str], ...],
    ) -> F:
        """Return the figures ``name``; ``measured`` is :attr:`Target.figures`."""
        calibrated = {row: text for row, text, _ in measured if row == name}
        if name in calibrated:
            values = json.loads(calibrated[name])
        else:
            values = _rows()[name, _row_of(name, device, device_class)]
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def origins(target: Target) -> dict[str, str]:
    """Map the name of each row to a text that says where a target's figures were measured."""
    result = {}
    for name in dict.fromkeys(name for name, _ in _rows()):
        device = _row_of(name, target.facts.name, target.device_class)
        shipped = device == target.facts.name
        result[name] = f"shipped for {device}" if shipped else f"inherited from {device}"
    return result | {name: origin for name, _, origin in target.figures}


def by_origin(figures: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of rows by their origin, those measured on the device first."""
    result: dict[str, list[str]] = {}
    for name, origin in figures.items():
        result.setdefault(origin, []).append(name)
    return dict(sorted(result.items(), reverse=True))


def _row_of(name: str, device: str, device_class: str) -> str:
    """Return the device of the shipped row that a device takes."""
    devices, rows = (device, f"class:{device_class}", ANY), _rows()
    return next(item for item in devices if (name, item) in rows)


def for_any(name: str) -> Mapping[str, Any]:
    """Return the values of the row for any device.

    Raises:
        KeyError: There is no such row.
    """
    return _rows()[name, ANY]


def shipped_files() -> list[Path]:
    """The files of the shipped figures."""
    return sorted(_DATA.glob("*.json"))


@cache
def _rows() -> dict[tuple[str, str], Mapping[str, Any]]:
    result = {}
    for path in shipped_files():
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            result[row["figures"], row["device"]] = row["values"]
    return result
