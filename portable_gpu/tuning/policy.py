"""The base of every kernel's policy: a frozen set of sizes with limits that can be checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from portable_gpu.dtypes import Element
from portable_gpu.errors import PolicyError
from portable_gpu.targets import Target

P = TypeVar("P", bound="Policy")


class Range(NamedTuple):
    """The least and the greatest value that a field may have on any target.

    It bounds the length of the kernel's text and the time of its compilation.
    :meth:`Policy.limits` checks whether the value fits a target.
    """

    minimum: int
    maximum: int

    def __str__(self) -> str:
        return f"from {self.minimum} to {self.maximum}"


@dataclass(frozen=True)
class Policy(ABC):
    """How one kernel uses a target: tile sizes, vector widths, unrolling.

    Subclasses are frozen dataclasses, so a policy can be a dictionary key and a JSON row.  Fields
    are ``Annotated[int, Range(...)]``, ``bool`` or a ``Literal``.
    """

    @classmethod
    @abstractmethod
    def default(cls: type[P], target: Target, elem: Element) -> P:
        """A good policy by formula over the target's facts, but never over a device's name."""

    @abstractmethod
    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """Every condition that the kernel relies on: its text, and whether it holds.

        It is called after the types and ranges of the fields have been checked.
        """

    def check(self, target: Target, elem: Element) -> None:
        """Raise PolicyError naming every range or limit that this policy breaks on ``target``."""
        broken = [
            f"{name} is {getattr(self, name)!r}, not {requested}"
            for name, (requested, holds) in _rules(type(self)).items()
            if not holds(getattr(self, name))
        ]
        if not broken:
            broken = [text for text, holds in self.limits(target, elem).items() if not holds]
        if broken:
            raise PolicyError(f"{self} does not fit {target.facts.name}: " + "; ".join(broken))

    def to_dict(self) -> dict[str, Any]:
        """The fields as a plain dictionary, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls: type[P], row: Mapping[str, Any]) -> P:
        """The policy of a dictionary; a field that an older row lacks takes its default.

        Raises:
            PolicyError: A field that has no default is missing, or one is unknown, or of the wrong
                type.
        """
        known = {field.name for field in fields(cls)}
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        odd = sorted((needed - set(row)) | (set(row) - known))
        if odd:
            raise PolicyError(f"{cls.__name__}: fields missing or unknown: {', '.join(odd)}")
        types = _types(cls)
        wrong = [name for name, value in row.items() if not _is_of_type(value, types[name])]
        if wrong:
            raise PolicyError(f"{cls.__name__}: fields of the wrong type: {', '.join(wrong)}")
        return cls(**row)


@dataclass(frozen=True)
class TunedPolicy(Policy):
    """A policy of a family that the tuner tunes."""

    @classmethod
    @abstractmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """The values that the tuner tries for each field."""

    @abstractmethod
    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """The extents of tiles of elements of a size: along rows, columns and the summed axis.

        The tuner checks sizes near them.  For a product with a vector, the rows are outputs; for a
        reduction, rows are folded and columns are results.
        """


@cache
def _types(cls: type[Policy]) -> dict[str, Any]:
    return get_type_hints(cls)


def _is_of_type(value: object, annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return value in get_args(annotation)
    return type(value) is annotation


@cache
def _rules(cls: type[Policy]) -> dict[str, tuple[str, Callable[[Any], bool]]]:
    """The requirement on each field: in words, and as a function.

    Raises:
        TypeError: A field has no bounds.
    """
    return {name: _rule(cls, name, hint) for name, hint in _hints(cls).items()}


def _hints(cls: type[Policy]) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields(cls)}


def _rule(cls: type[Policy], name: str, hint: Any) -> tuple[str, Callable[[Any], bool]]:
    if hint is bool:
        return "True or False", lambda value: type(value) is bool
    if get_origin(hint) is Literal:
        return f"one of {get_args(hint)}", lambda value: value in get_args(hint)
    if get_origin(hint) is Annotated:
        kind, bounds = get_args(hint)
        if kind is int and isinstance(bounds, Range):
            minimum, maximum = bounds
            return str(bounds), lambda value: type(value) is int and minimum <= value <= maximum
    raise TypeError(f"{cls.__name__}.{name}: int fields are Annotated[int, Range(...)]")
