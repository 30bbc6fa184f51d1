"""Measured policies: this machine's rows, then shipped device rows, then class rows.

A table file is JSON: ``{"format": 1, "rows": [...]}``; a row holds ``kernel``, ``device`` (one of
:func:`device_keys`), ``element``, ``shape_class``, ``policy`` and ``evidence`` (baseline, speed-up,
driver, date, problem; from the tuner also the spread).  The tuner writes such files; some shipped
rows of gemm were entered by hand from measured times.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from portable_gpu import folders
from portable_gpu.dtypes import Element
from portable_gpu.errors import PolicyError, TuningFileError, reraise_of_signal
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy

P = TypeVar("P", bound=Policy)
FORMAT = 1

VARIABLE = "PORTABLE_GPU_TUNING"
_DATA = Path(__file__).parent / "data"
_MAX_BYTES = 16 << 20  # of a table; a row has about 600


@dataclass(frozen=True)
class RowKey:
    """The key of a row.

    Attributes:
        kernel: The kernel's name in the table.
        device: One of :func:`device_keys`.
        element: Name of the element type.
        shape_class: The kind of problem, in the kernel's own terms; ``any`` for all.
    """

    kernel: str
    device: str
    element: str
    shape_class: str = "any"

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> RowKey:
        """The key of a row of a file."""
        return cls(row["kernel"], row["device"], row["element"], row["shape_class"])


def device_keys(target: Target) -> tuple[str, ...]:
    """The names under which a target's rows are looked up: of the device, its kind, its class.

    A CPU's kind is its runtime, vector width and cache size, because its name does not give them.
    If a class is forced on a device, its rows have another name, because the kernels differ.
    """
    facts, group = target.facts, f"class:{target.device_class}"
    name = f"{facts.name} as {target.device_class}" if target.forced else facts.name
    if not target.is_cpu:
        return name, group
    kind = f"{target.vector_bytes}-byte vectors, {_cache_class(facts.cache_size)}"
    return name, f"{group}, {facts.platform_name}, {kind}", group


def _cache_class(nbytes: int) -> str:
    """A cache's size rounded down to a power of two: ``32-MiB cache`` is from 32 to 63 MiB."""
    if nbytes < 1 << 20:
        return "cache below 1 MiB"
    return f"{1 << (nbytes.bit_length() - 21)}-MiB cache"


def tuned_key(target: Target) -> str:
    """The one of :func:`device_keys` under which rows measured on a target are stored."""
    return device_keys(target)[1 if target.is_cpu else 0]


def user_file() -> Path | None:
    """``$PORTABLE_GPU_TUNING``, or ``tuning.json`` in the user's configuration folder, if any."""
    path = os.environ.get(VARIABLE)
    if path:
        return Path(path)
    folder = folders.config_folder()
    return None if folder is None else folder / "tuning.json"


@dataclass(frozen=True)
class PolicyRow(Generic[P]):
    """A policy, its origin, and the measurements that it rests on."""

    policy: P
    origin: str
    evidence: Mapping[str, Any] = field(default_factory=dict, compare=False)


class TuningTable:
    """Looks up the policy of a kernel; :meth:`choose` always has an answer."""

    def __init__(self, files: Iterable[Path]) -> None:
        """Read the rows of ``files``, the most trusted first.  A bad file causes one warning."""
        self._rows: dict[RowKey, tuple[Mapping[str, Any], str]] = {}
        for path in files:
            try:
                rows = read_rows(path)
            except TuningFileError as error:
                warnings.warn(f"tuning file {path} ignored: {error}", stacklevel=2)
                continue
            for row in rows:
                self._rows.setdefault(RowKey.of(row), (row, str(path)))

    def __repr__(self) -> str:
        return f"<TuningTable of {len(self._rows)} rows>"

    @classmethod
    def load(cls) -> TuningTable:
        """The user's table (:func:`user_file`), then the shipped ones."""
        user_path = user_file()
        return cls(
            [*([user_path] if user_path is not None and _may_exist(user_path) else []), *_shipped()]
        )

    @classmethod
    def shipped(cls) -> TuningTable:
        """The shipped tables alone."""
        return cls(_shipped())

    def choose(
        self,
        kernel: str,
        policy_type: type[P],
        target: Target,
        elem: Element,
        shape_class: str = "any",
        default: P | None = None,
    ) -> PolicyRow[P]:
        """The best known policy: the row of the device, of its kind, of its class, or the default.

        A row of the shape class precedes a row for ``any`` shape.

        Args:
            kernel, policy_type, target, elem: What the policy is for.
            shape_class: The kind of problem that the row was measured on.
            default: The policy without a row; ``policy_type.default`` if it is not given.
        """
        for device, shapes in product(device_keys(target), dict.fromkeys((shape_class, "any"))):
            result = self._rows.get(RowKey(kernel, device, elem.name, shapes))
            if result is None:
                continue
            row, path = result
            try:
                policy = policy_type.from_dict(row["policy"])
                policy.check(target, elem)
            except PolicyError as error:
                warnings.warn(f"{path}: row for {kernel} ignored: {error}", stacklevel=2)
                continue
            return PolicyRow(policy, f"row {device} of {path}", row.get("evidence", {}))
        if default is None:
            default = policy_type.default(target, elem)
        return PolicyRow(default, f"{policy_type.__name__}.default")


class LookUp(NamedTuple):
    """The arguments of a call of :meth:`TuningTable.choose`."""

    kernel: str
    policy_type: type[Any]
    target: Target
    elem: Element
    shape_class: str = "any"
    default: Any = None


class RevisedTable(TuningTable):
    """Another table, whose answers :meth:`revise` may replace."""

    def __init__(self, table: TuningTable) -> None:
        """Take the other table."""
        super().__init__([])
        self._table = table

    def choose(self, *asked: Any, **named: Any) -> PolicyRow[Any]:
        """See :meth:`TuningTable.choose`."""
        return self.revise(LookUp(*asked, **named), self._table.choose(*asked, **named))

    def revise(self, asked: LookUp, row: PolicyRow[Any]) -> PolicyRow[Any]:
        """Return ``row``, the answer of the other table, or a row in its place."""
        raise NotImplementedError


def _shipped() -> list[Path]:
    return sorted(_DATA.glob("*.json"))


def _may_exist(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:  # the folder cannot be searched: reading reports why
        reraise_of_signal(error)
        return True
    return True


def read_rows(path: Path) -> list[Mapping[str, Any]]:
    """The rows of a table file.

    Raises:
        TuningFileError: It cannot be read, other users may write it (not checked for shipped files,
            which are trusted like the code), or it has another format or content.
    """
    try:
        shipped = path.parent == _DATA
        content = json.loads(path.read_bytes() if shipped else folders.read_own(path, _MAX_BYTES))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, not {FORMAT}")
        rows = content["rows"]
        for row in rows:
            for name in ("kernel", "device", "element", "shape_class"):
                if not isinstance(row[name], str):
                    raise ValueError(f"{name} is not a string")
            for name, value in (("policy", row["policy"]), ("evidence", row.get("evidence", {}))):
                if not isinstance(value, dict):
                    raise ValueError(f"{name} is not an object")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reraise_of_signal(error)
        raise TuningFileError(repr(error)) from error
    return list(rows)
