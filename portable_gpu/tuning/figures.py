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
    """The figures of one kernel, of one rule, or of the device; subclasses name them.

    A field is a number, or numbers by name (of shape classes).
    """

    @classmethod
    def of(cls: type[F], name: str, target: Target) -> F:
        """The figures ``name`` of a target by its name, of its class, or else of any device."""
        result: F = cls._of_device(name, target.facts.name, target.device_class)
        return result

    @classmethod
    @cache
    def _of_device(cls: type[F], name: str, device: str, device_class: str) -> F:
        rows, devices = _rows(), (device, f"class:{device_class}", ANY)
        values = next(rows[name, item] for item in devices if (name, item) in rows)
        return cls(**{field.name: values[field.name] for field in fields(cls)})


@cache
def _rows() -> dict[tuple[str, str], Mapping[str, Any]]:
    result = {}
    for path in sorted(_DATA.glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            result[row["figures"], row["device"]] = row["values"]
    return result
