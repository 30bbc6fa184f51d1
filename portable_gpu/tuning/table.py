"""Measured policies: this machine's rows, then shipped device rows, then class rows.

A table file is JSON: ``{"format": 1, "rows": [...]}``; a row holds ``kernel``, ``device`` (a
device name, or ``class:<name>``), ``element``, ``shape_class``, ``policy`` and ``evidence``
(baseline, speed-up, driver, date, problem).  Only the tuner writes such files.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from platformdirs import user_config_path

from portable_gpu.dtypes import Element
from portable_gpu.errors import PolicyError
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy

P = TypeVar("P", bound=Policy)
FORMAT = 1


@dataclass(frozen=True)
class Choice(Generic[P]):
    """A policy and where it came from."""

    policy: P
    origin: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


class TuningTable:
    """Looks up the policy of a kernel; :meth:`choose` always has an answer."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Read the rows of ``files``, the most trusted first.  A bad file costs one warning."""
        self._rows: dict[tuple[str, str, str, str], tuple[Mapping[str, Any], str]] = {}
        for path in files:
            for row in _read(path):
                key = (row["kernel"], row["device"], row["element"], row["shape_class"])
                self._rows.setdefault(key, (row, str(path)))

    @classmethod
    def load(cls) -> TuningTable:
        """This user's table over the shipped ones.

        The user's file is ``$PORTABLE_GPU_TUNING``, or ``tuning.json`` in the user's
        configuration folder.
        """
        own = os.environ.get("PORTABLE_GPU_TUNING")
        user = Path(own) if own else user_config_path("portable_gpu") / "tuning.json"
        return cls([path for path in (user, *_shipped()) if path.is_file()])

    @classmethod
    def shipped(cls) -> TuningTable:
        """The shipped tables alone: what everyone has."""
        return cls(_shipped())

    def choose(
        self,
        kernel: str,
        policy_type: type[P],
        target: Target,
        elem: Element,
        shape_class: str = "any",
        default: P | None = None,
    ) -> Choice[P]:
        """The best known policy: device row, then class row, then the default.

        Args:
            kernel, policy_type, target, elem: What is to be chosen, and for what.
            shape_class: The kind of problem that the row was measured on.
            default: What to take without a row; ``policy_type.default`` unless it is given.
        """
        for device in (target.facts.name, f"class:{target.device_class}"):
            found = self._rows.get((kernel, device, elem.name, shape_class))
            if found is None:
                continue
            row, path = found
            try:
                policy = policy_type.from_dict(row["policy"])
                policy.check(target, elem)
            except PolicyError as error:
                warnings.warn(f"{path}: row for {kernel} ignored: {error}", stacklevel=2)
                continue
            return Choice(policy, f"row {device} of {path}", row.get("evidence", {}))
        if default is None:
            default = policy_type.default(target, elem)
        return Choice(default, f"{policy_type.__name__}.default")


def _shipped() -> list[Path]:
    return sorted((Path(__file__).parent / "data").glob("*.json"))


def _read(path: Path) -> list[Mapping[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, not {FORMAT}")
        rows = content["rows"]
        for row in rows:
            for name in ("kernel", "device", "element", "shape_class"):
                if not isinstance(row[name], str):
                    raise ValueError(f"{name} is not a string")
            if not isinstance(row["policy"], dict):
                raise ValueError("policy is not an object")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        warnings.warn(f"tuning file {path} ignored: {error!r}", stacklevel=3)
        return []
    return list(rows)
