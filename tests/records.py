"""Golden records: what the library does with random problems on a device, and how two differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Pair:
    """The record of one problem on one device.

    Attributes:
        path: The chosen way.
        launches: ``1.0 4096/64``: the second text's first kernel, its grid and its group; ``*3``
            stands for three of them, and ``+5 HASH`` for further launches.
        passed: A hash of the arguments and tables that stay.
        texts: Of each text the template, a hash of the normal form, and the policy that it was
            rendered with, where that is another one.
        way: The way in full, where ``path`` does not say all.
        policy: Its configuration by the names of the fields.
    """

    path: str
    launches: list[str]
    passed: str
    texts: list[list[Any]]
    way: str = ""
    policy: dict[str, Any] = field(default_factory=dict)

    def changes(self, other: Pair) -> list[str]:
        """The differences from another record of the problem: some of :data:`KINDS`."""
        alike = {
            "way": (self.path, self.way) == (other.path, other.way),
            "configuration": self.policy == other.policy
            and [item[2:] for item in self.texts] == [item[2:] for item in other.texts],
            "launches": (self.launches, self.passed) == (other.launches, other.passed),
            "text": [item[:2] for item in self.texts] == [item[:2] for item in other.texts],
        }
        return [kind for kind in KINDS if not alike[kind]]


KINDS = ("way", "configuration", "launches", "text")


@dataclass(frozen=True)
class Record:
    """All pairs of a device.

    Attributes:
        device: As ``recorded_devices`` names it.
        options: What its texts are compiled with.
        pairs: By the problem, as a text.
    """

    device: str
    options: str
    pairs: Mapping[str, Pair]

    def written(self) -> str:
        """JSON, a line for each pair."""
        lines = [
            f'{{"device":{_json(self.device)},',
            f'"options":{_json(self.options)},',
            '"pairs":[',
        ]
        each = []
        for problem, pair in self.pairs.items():
            family, data = problem.split(" ", 1)
            fields = {name: value for name, value in vars(pair).items() if value not in ("", {})}
            each.append(_json([family, json.loads(data), fields]))
        return "\n".join([*lines, ",\n".join(each), "]}", ""])

    @classmethod
    def read(cls, text: str) -> Record:
        """The record that :meth:`written` wrote."""
        result = json.loads(text)
        pairs = {
            f"{family} {json.dumps(data)}": Pair(**pair) for family, data, pair in result["pairs"]
        }
        return cls(result["device"], result["options"], pairs)


@dataclass(frozen=True)
class Change:
    """A difference of two records.

    Attributes:
        device, problem: Of which pair; no problem: of the device's options.
        kinds: What changed; ``new`` or ``gone`` of a pair that one record lacks.
        old, new: The pairs.
    """

    device: str
    problem: str
    kinds: tuple[str, ...]
    old: Pair | None = None
    new: Pair | None = None

    @property
    def texts(self) -> Iterator[tuple[str, str, str]]:
        """Template, old and new hash of the texts that changed; of one in their order."""
        if self.old is None or self.new is None or "text" not in self.kinds:
            return
        common = {item[1] for item in self.old.texts} & {item[1] for item in self.new.texts}
        before, after = (
            [item for item in pair.texts if item[1] not in common] for pair in (self.old, self.new)
        )
        for name in dict.fromkeys(item[0] for item in (*before, *after)):
            left = [item[1] for item in before if item[0] == name]
            right = [item[1] for item in after if item[0] == name]
            for k in range(max(len(left), len(right))):
                yield name, "".join(left[k : k + 1]), "".join(right[k : k + 1])


def compared(old: Record, new: Record) -> list[Change]:
    """All differences of two records of a device."""
    device = new.device
    result = [] if old.options == new.options else [Change(device, "", ("options",))]
    for problem in dict.fromkeys((*old.pairs, *new.pairs)):
        before, after = old.pairs.get(problem), new.pairs.get(problem)
        if before is None or after is None:
            kinds = ["new" if before is None else "gone"]
        else:
            kinds = before.changes(after)
        if kinds:
            result.append(Change(device, problem, tuple(kinds), before, after))
    return result


def file_name(device: str) -> str:
    """The file of a device's record."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
