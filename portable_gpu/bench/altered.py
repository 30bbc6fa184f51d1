"""This library with other policies, as a peer: what a change of a policy's fields is worth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from portable_gpu.bench.explained import explained
from portable_gpu.bench.peers import Ours
from portable_gpu.bench.timing import Prepared
from portable_gpu.checking.operands import Operands
from portable_gpu.errors import ArgumentError, PolicyError, PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine
from portable_gpu.tuning.table import LookUp, PolicyRow, RevisedTable, TuningTable


def parse_changes(text: str) -> dict[str, Any]:
    """Fields and their values: ``bulk=true,stages=5``.

    Raises:
        ArgumentError: It is of another form.
    """
    changes = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        try:
            changes[name] = json.loads(value)
        except ValueError:
            changes[name] = value
        if not (name.isidentifier() and equals and value):
            raise ArgumentError(f"--policy has {part!r}; it takes field=value, as in bulk=true")
    return changes


class AlteredTable(RevisedTable):
    """A table whose policies have some fields changed, where they have them."""

    def __init__(self, table: TuningTable, changes: Mapping[str, Any]) -> None:
        super().__init__(table)
        self._changes = changes
        #: Whether any policy was changed; the fields of all that were asked for.
        self.used = False
        self.fields: dict[str, None] = {}

    def revise(self, asked: LookUp, row: PolicyRow[Any]) -> PolicyRow[Any]:
        """See :class:`RevisedTable`.

        Raises:
            PolicyError: A policy does not accept the values of the fields.
        """
        names = dict.fromkeys(field.name for field in fields(asked.policy_type))
        self.fields |= names
        if not set(self._changes) <= set(names):
            return row
        policy = asked.policy_type.from_dict({**row.policy.to_dict(), **self._changes})
        policy.check(asked.target, asked.elem)
        self.used = True
        return replace(row, policy=policy, origin="changed by hand", evidence={})


def check_changes(text: str, cases: Sequence[Case], engine: Engine) -> None:
    """Refuse changes that fit the policy of no case; nothing is built.

    Raises:
        ArgumentError: No policy has such fields, or none accepts their values.
    """
    changes = parse_changes(text)
    reasons, known = [], dict[str, None]()
    for case in cases:
        table = AlteredTable(engine.table, changes)
        try:
            explained(case, engine.target, table)
        except PortableGPUError as error:
            reasons.append(str(error))
        if table.used:
            return
        known |= table.fields
    if not reasons:
        unknown = ", ".join(name for name in changes if name not in known) or text
        reasons = [f"no policy in this run has {unknown}; there are: {', '.join(known) or 'none'}"]
    raise ArgumentError(f"--policy has {text!r}; {reasons[0]}")


class Altered(Ours):
    """This library with fields of its policies changed."""

    def __init__(self, engine: Engine, text: str) -> None:
        """``text`` as :func:`parse_changes` takes it."""
        super().__init__(engine)
        self.name = text  # type: ignore[misc]  # of this instance
        self._changes = parse_changes(text)

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared:
        """See :class:`Peer`.

        Raises:
            PolicyError: No policy that the case takes has these fields, or one does not accept
                their values.
        """
        engine = self._engine
        table = AlteredTable(engine.table, self._changes)
        device_class = engine.target.device_class if engine.target.forced else None
        if engine.maps_host_memory:
            own_engine = Engine(engine.device, device_class=device_class, table=table)
        else:
            own_engine = Engine(queue=engine.queue, device_class=device_class, table=table)
        prepared = Ours(own_engine).prepare(case, inputs)
        prepared.result()
        if not table.used:
            raise PolicyError("no policy that it takes has such fields")
        return prepared
