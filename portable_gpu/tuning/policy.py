"""The base of every kernel's policy: a frozen set of sizes with limits that can be checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from portable_gpu.dtypes import Element
from portable_gpu.errors import PolicyError
from portable_gpu.targets import Target

P = TypeVar("P", bound="Policy")


@dataclass(frozen=True)
class Policy(ABC):
    """How one kernel uses a target: tile sizes, vector widths, unrolling.

    Subclasses are frozen dataclasses whose fields are ints, bools or short strings, so that a
    policy can be a dictionary key and a JSON row.
    """

    @classmethod
    @abstractmethod
    def default(cls: type[P], target: Target, elem: Element) -> P:
        """A good policy by formula over the target's facts; never looks at a device's name."""

    @classmethod
    @abstractmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """The values worth trying for each field, for the tuner."""

    @abstractmethod
    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """Every condition that the kernel relies on: its text, and whether it holds."""

    def check(self, target: Target, elem: Element) -> None:
        """Raise PolicyError naming every limit that this policy breaks on ``target``."""
        broken = [text for text, holds in self.limits(target, elem).items() if not holds]
        if broken:
            raise PolicyError(f"{self} does not fit {target.facts.name}: " + "; ".join(broken))

    def to_dict(self) -> dict[str, Any]:
        """The fields as a plain dictionary, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls: type[P], row: Mapping[str, Any]) -> P:
        """The policy of a dictionary; rows from before a field was added lack it.

        Raises:
            PolicyError: A field that has no default is missing, or one is unknown, or of the wrong
                type.
        """
        known = {field.name for field in fields(cls)}
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        odd = sorted((needed - set(row)) | (set(row) - known))
        if odd:
            raise PolicyError(f"{cls.__name__}: fields missing or unknown: {', '.join(odd)}")
        types = get_type_hints(cls)
        wrong = [name for name, value in row.items() if not _is_of_type(value, types[name])]
        if wrong:
            raise PolicyError(f"{cls.__name__}: fields of the wrong type: {', '.join(wrong)}")
        return cls(**row)


def _is_of_type(value: object, annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return value in get_args(annotation)
    return type(value) is annotation
