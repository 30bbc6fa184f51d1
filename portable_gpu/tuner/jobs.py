"""The jobs of the tuner: the rows of the tuning table that some problems would use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from portable_gpu.bench.cases import EVERY, cases
from portable_gpu.bench.explained import explained
from portable_gpu.dtypes import Element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.case import Case
from portable_gpu.ops.family import Tuning
from portable_gpu.ops.registry import FAMILIES
from portable_gpu.ops.sizes import parse_sizes
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import TunedPolicy
from portable_gpu.tuning.table import (
    LookUp,
    PolicyRow,
    RevisedTable,
    RowKey,
    TuningTable,
    tuned_key,
)

#: What can be tuned, and how: the families that have policies.
TUNED: dict[str, Tuning] = {
    family.name: family.tuning
    for family in sorted(FAMILIES, key=lambda family: family.name)
    if family.tuning is not None
}


@dataclass(frozen=True)
class TuningJob:
    """One row to find.

    Attributes:
        key: Where it goes in the table.
        elem: The element that policies are checked for.
        default: The policy by formula.
        current: The policy that is in use, perhaps measured earlier.
        cases: The problems for which the policy is optimised.
        grid: Other problems that may use the policy, for which it must not be slower.
    """

    key: RowKey
    elem: Element
    default: TunedPolicy
    current: TunedPolicy
    cases: tuple[Case, ...]
    grid: tuple[Case, ...] = ()

    @property
    def name(self) -> str:
        """``gemm_packed f32 tall``."""
        return f"{self.key.kernel} {self.key.element} {self.key.shape_class}"

    def space(self, target: Target) -> dict[str, tuple[Any, ...]]:
        """The values to try for each field that has more than one; the default's are among them."""
        space = type(self.default).search_space(target, self.elem)
        start = self.default.to_dict()
        full = {name: tuple(dict.fromkeys((start[name], *tried))) for name, tried in space.items()}
        return {name: values for name, values in full.items() if len(values) > 1}

    def policy(self, values: dict[str, Any]) -> TunedPolicy:
        """The default with other values."""
        return type(self.default).from_dict(self.default.to_dict() | values)


def jobs(
    operation: str,
    dtypes: Sequence[str],
    shapes: str | None,
    target: Target,
    table: TuningTable,
    on_cpu: bool,
) -> list[TuningJob]:
    """The rows that the problems of an operation take on a target.

    Args:
        operation: A key of :data:`TUNED`, or ``all``.
        dtypes: NumPy names.
        shapes: Problems as ``--sizes`` of the benchmark takes them.  Default: a selection of all
            kinds.
        target, table: The device, and the policies in use.
        on_cpu: Whether the default shapes are those of a CPU.

    Raises:
        ArgumentError: The operation is unknown, or there are shapes or dtypes that it does not
            take.
        UnsupportedError: A dtype that the device lacks.
    """
    if operation != EVERY and operation not in TUNED:
        known = ", ".join((*TUNED, EVERY))
        raise ArgumentError(f"no operation {operation!r} to tune; there are: {known}")
    if operation == EVERY and shapes is not None:
        raise ArgumentError("--shapes needs an operation, not all")
    result: dict[RowKey, TuningJob] = {}
    grid = list(_grid(dtypes, target, table, on_cpu))
    for name in TUNED if operation == EVERY else (operation,):
        sizes = parse_sizes(shapes or TUNED[name].shapes.of(on_cpu), "--shapes", names=False)
        for case in cases(TUNED[name].operation, dtypes, sizes, on_cpu):
            job = _job(case, target, table)
            if job is None:
                continue
            known_job = result.setdefault(job.key, job)
            if known_job is not job:
                result[job.key] = replace(known_job, cases=(*known_job.cases, *job.cases))
    return [
        replace(job, grid=tuple(case for case, asks in grid if (key.kernel, key.element) in asks))
        for key, job in result.items()
    ]


def _grid(
    dtypes: Sequence[str], target: Target, table: TuningTable, on_cpu: bool
) -> Iterator[tuple[Case, set[tuple[str, str]]]]:
    """The problems of the grid, and the kernels and elements that each asks policies for."""
    for tuning in TUNED.values():
        for operation, sizes in tuning.grid.items():
            for case in cases(operation, dtypes, parse_sizes(sizes.of(on_cpu)), on_cpu):
                asked, _ = _ask(case, target, table)
                yield case, {(key.kernel, key.element) for key, *_ in asked.keys}


class _Asked(RevisedTable):
    """A table that records its look-ups; the origin of each result is the look-up's number."""

    def __init__(self, table: TuningTable) -> None:
        super().__init__(table)
        self.keys: list[tuple[RowKey, Element, TunedPolicy, TunedPolicy]] = []

    def revise(self, asked: LookUp, row: PolicyRow[Any]) -> PolicyRow[Any]:
        """See :class:`RevisedTable`."""
        target, elem, formula = asked.target, asked.elem, asked.default
        key = RowKey(asked.kernel, tuned_key(target), elem.name, asked.shape_class)
        formula = asked.policy_type.default(target, elem) if formula is None else formula
        self.keys.append((key, elem, formula, row.policy))
        return PolicyRow(row.policy, str(len(self.keys) - 1))


def _job(case: Case, target: Target, table: TuningTable) -> TuningJob | None:
    """The job of the row that a problem's explanation names; ``None`` if it has no policy."""
    asked, origin = _ask(case, target, table)
    if not origin.isdigit():
        return None
    key, elem, default, current = asked.keys[int(origin)]
    return TuningJob(key, elem, default, current, (case,))


def _ask(case: Case, target: Target, table: TuningTable) -> tuple[_Asked, str]:
    """Return a table with the look-ups of a problem's explanation, and the explanation's origin."""
    asked = _Asked(table)
    return asked, explained(case, target, asked).origin
