"""A stand-in for an engine, which records what plans would launch on a missing device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
from canonical_text import defined_by, digest
from random_problems import TABLE, Problem, drawn
from recorded_devices import RECORDED
from records import Pair, Record

from portable_gpu.codegen.arguments import arguments
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.targets import Target, detect

#: Problems of each of the 13 families for each device: 3000 pairs or so of some 30 devices.
EACH = 9
#: Launches of a pair that a record has; of the others it has a hash.
_SHOWN = 12
_KERNEL = re.compile(r"\b(?:__)?kernel\b[^;{]*?\bvoid\s+(\w+)\s*\(")


@dataclass(frozen=True)
class Launched:
    """A launch: its text, which of the text's kernels, the grid, and the arguments that stay."""

    spec: Specialization
    kernel: int
    grid: tuple[int, ...]
    group: tuple[int, ...]
    passed: bytes


class Recorder:
    """The part of an engine that plans use.

    Attributes:
        launches: What was bound since :meth:`begin`, in order; a plan that is there already counts
            as bound again.
        tables: Hashes of the tables that plans keep, likewise.
    """

    own_queue = context = None
    precision = "ieee"

    def __init__(self, target: Target) -> None:
        self.target, self.table = target, TABLE
        self.maps_host_memory = target.facts.type == "cpu"
        self.programs = SimpleNamespace(launch=self._launch)
        self._plans: dict[Any, tuple[Any, list[Launched], list[bytes]]] = {}
        self.begin()

    def begin(self) -> None:
        """Forget what was bound."""
        self.launches: list[Launched] = []
        self.tables: list[bytes] = []

    def plan(self, key: Any, make: Callable[[], Any]) -> Any:
        """A plan of a part; or what is asked of a device: that its units work, which they do."""
        if isinstance(key, tuple) and isinstance(key[0], str) and "work" in key[0]:
            return True
        if key not in self._plans:
            first, table = len(self.launches), len(self.tables)
            plan = make()
            self._plans[key] = plan, self.launches[first:], self.tables[table:]
            return plan
        plan, launches, tables = self._plans[key]
        self.launches += launches
        self.tables += tables
        return plan

    def upload(self, values: Any) -> Any:
        """A table; the values of floating-point ones are left out, for a libm's last bits vary."""
        result = np.ascontiguousarray(values)
        parts = [f"{result.dtype.str} {result.shape}".encode()]
        if result.dtype.kind in "iub":
            parts.append(result.tobytes())
        self.tables.append(sha256(b"".join(parts)).digest())
        return SimpleNamespace(nbytes=result.nbytes, size=result.nbytes)

    def allocate(self, nbytes: int) -> None:
        """Memory for a tensor map."""

    def state(self, queue: None) -> Any:
        """The stand-in for a tensor map."""
        return SimpleNamespace(event=lambda _: SimpleNamespace(wait=lambda: None))

    def _launch(
        self, spec: Specialization, kernel: str, constants: Any, buffers: Any, scalars: Any,
        grid: tuple[int, ...], group: tuple[int, ...], as_bits: Any = (), bound: Any = None,
    ) -> Any:  # fmt: skip
        result = arguments(spec, kernel, constants, buffers, scalars, as_bits, bound)
        passed = [
            f"{place} {'' if value is None else np.asarray(value).tobytes().hex()}"
            for place, value in sorted(result.passed([0] * len(result.scalars)).items())
        ]
        number = _KERNEL.findall(spec.text).index(kernel)
        sizes = tuple(map(int, grid)), tuple(map(int, group))
        self.launches.append(Launched(spec, number, *sizes, "\n".join(passed).encode()))
        return lambda *_: None


def target_of(device: str) -> Target:
    """The target of a recorded device."""
    return detect(RECORDED[device][0])


def recorded(device: str, each: int = EACH) -> Record:
    """The record of a device."""
    target = target_of(device)
    recorder = Recorder(target)
    pairs = {str(problem): noted(recorder, problem) for problem in drawn(device, target, each)}
    return Record(device, " ".join(target.options), pairs)


def noted(recorder: Recorder, problem: Problem) -> Pair:
    """The record of what an engine would do with a problem."""
    recorder.begin()
    path, variant_name, policy = problem.bind(recorder)
    defined = defined_by(recorder.target.options)
    launches, texts = recorder.launches, dict[str, int]()
    for item in launches:
        texts.setdefault(item.spec.key, len(texts))
    specs = {item.spec.key: item.spec for item in launches}
    every = []
    for key in texts:
        spec = specs[key]
        policy_fields = spec.policy.to_dict() if spec.policy is not None else {}
        every.append(
            [
                spec.name,
                digest(spec.text, defined),
                *([policy_fields] if policy_fields not in ({}, policy) else []),
            ]
        )
    shown = [_shown(texts[item.spec.key], item) for item in launches]
    passed = sha256(b"\0".join([*(item.passed for item in launches), *recorder.tables]))
    full = "" if variant_name == path else variant_name
    return Pair(path, _runs(shown), passed.hexdigest()[:12], every, full, policy)


def texts_of(device: str, problems: Sequence[Problem]) -> Iterator[tuple[str, str, str]]:
    """Digest, name and text of all that problems launch on a device."""
    recorder = Recorder(target_of(device))
    defined = defined_by(recorder.target.options)
    for problem in problems:
        recorder.begin()
        problem.bind(recorder)
        for spec in {item.spec.key: item.spec for item in recorder.launches}.values():
            yield digest(spec.text, defined), spec.name, spec.text


def _shown(number: int, launch: Launched) -> str:
    """``1.0 4096,8/64,1``: which text, which of its kernels, the grid and the group."""
    grid, group = (",".join(map(str, sizes)) for sizes in (launch.grid, launch.group))
    return f"{number}.{launch.kernel} {grid}/{group}"


def _runs(shown: list[str]) -> list[str]:
    """Launches with runs of equal ones as one, and a hash in place of those beyond some."""
    result = [
        item if count == 1 else f"{item} *{count}"
        for item, count in ((item, len(list(same))) for item, same in groupby(shown))
    ]
    rest = result[_SHOWN:]
    if not rest:
        return result
    return [*result[:_SHOWN], f"+{len(rest)} {sha256(' '.join(rest).encode()).hexdigest()[:12]}"]
