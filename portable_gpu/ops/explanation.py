"""Explanations of calls: the variant that a call takes, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np

from portable_gpu.arguments import of_kind, whole
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.variant import Variant, first_of_decisions, ranked
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.figures import by_origin, origins
from portable_gpu.tuning.table import TuningTable

#: Details that are shown for each variant: bytes of workspace, and bytes that kernels move.
_MEMORY = ("workspace", "moved")
_SHOWN = 5  # estimates, and names of rows of figures, that are printed


@dataclass(frozen=True)
class Explanation:
    """The variant that a call takes, and the reasons for the choice.

    Attributes:
        operation: The operation with its sizes: ``gemm 64 x 64 x 64 float32``.
        path: The name of the path (``tiled``, ``packed``, ``rows``, ``columns`` ...).
        kernels: The templates that it launches, in order (``gemm/gemm``).
        policy: The fields of the policy; empty if the path has none.
        origin: The source of the policy: a row of a table, or the name of a formula.
        why: The reason for this path, in a sentence or two.
        details: Values computed from the policy and the sizes (groups, splits ...).
        evidence: If the policy is a row of a table, the measurement behind the row.
        estimates: The estimated seconds of a call with each variant, launches included, in the
            order of preference; ``None`` for a variant that a rule puts after another one.
        memory: The bytes of workspace of each variant, and those that its kernels move, for
            operations whose variants differ in them.
        figures: Where each row of figures was measured, by which variants are chosen: on this
            device, or where it is inherited from.
    """

    operation: str
    path: str
    kernels: tuple[str, ...]
    policy: Mapping[str, Any]
    origin: str
    why: str
    details: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    estimates: Mapping[str, float | None] = field(default_factory=dict)
    memory: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        return f"<Explanation {self.operation}: {self.path}>"

    def __str__(self) -> str:
        """A few readable lines."""
        lines = [
            self.operation,
            f"  path     {self.path}: {self.why}",
            f"  kernels  {', '.join(self.kernels)}",
        ]
        if self.policy:
            lines += [f"  policy   {_pairs(self.policy)}", f"           from {self.origin}"]
        if self.evidence:
            lines.append(f"           measured: {_pairs(self.evidence)}")
        if self.details:
            lines.append(f"  so       {_pairs(self.details)}")
        if self.memory:
            for number, (name, seconds) in enumerate(self.estimates.items()):
                numbers = f"{_estimated(seconds)}, {_pairs(self.memory[name])}"
                lines.append(f"  {'' if number else 'variants':8} {name}: {numbers}")
        elif len(self.estimates) > 1:
            few = list(self.estimates.items())[:_SHOWN]
            shown = [f"{name} {_estimated(seconds)}" for name, seconds in few]
            lines.append(f"  variants {'; '.join(shown)}")
        for origin, names in by_origin(self.figures).items():
            rows = ", ".join(names) if len(names) <= _SHOWN else f"{len(names)} rows"
            lines.append(f"  figures  {origin}: {rows}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Question:
    """A call on C-ordered arrays that is to be explained, without a device.

    Attributes:
        operation: The name of the operation.
        sizes: The sizes, in the order of ``portable-gpu bench --sizes``.
        dtype: The dtype of the arrays.
        target, table: The device, and the table of policies.
    """

    operation: str
    sizes: Shape
    dtype: np.dtype[Any]
    target: Target
    table: TuningTable

    @property
    def elem(self) -> Element:
        """The element of the dtype."""
        return element(self.dtype)

    def answer(
        self, variants: Sequence[Variant], form: str | None = None, axis: object = None
    ) -> Explanation:
        """Explain the best of the variants that can compute the call.

        Args:
            variants: The variants.
            form: The sizes in words; by default with "x" between them.
            axis: The axis along which the operation works, if it has one.
        """
        form = (" x ".join(map(str, self.sizes)) or "a scalar") if form is None else form
        along = "" if axis is None else f" along axis {axis}"
        operation = f"{self.operation} of {form} {self.dtype}{along} on {self.target.facts.name}"
        return _explanation(operation, variants, self.target)


def _explanation(operation: str, variants: Sequence[Variant], target: Target) -> Explanation:
    """Explain the best of a problem's variants.

    Args:
        operation: The operation with its sizes.
        variants: The variants that can compute it.
        target: The target that they are for.
    """
    costs = DeviceCosts.of("device", target)
    first = first_of_decisions(variants)
    best, *others = ranked(variants, costs)
    return Explanation(
        operation=operation,
        path=best.path,
        kernels=tuple(spec.name for spec in best.texts()),
        policy=best.policy.to_dict() if best.policy else {},
        origin=best.row.origin if best.row else "",
        why=best.why,
        details=best.details,
        evidence=best.row.evidence if best.row else {},
        estimates={
            variant.name: (
                variant.seconds(costs) if first.get(variant.decision, variant) is variant else None
            )
            for variant in (best, *others)
        },
        memory={
            variant.name: {name: variant.details[name] for name in _MEMORY}
            for variant in (best, *others)
            if variant.details.keys() >= set(_MEMORY)
        },
        figures=origins(target),
    )


def batch_extents(batch: Shape, least: int) -> Shape:
    """Check the option ``batch``: the extents of batch axes.

    Raises:
        ArgumentTypeError: It is not a tuple of integers.
        ArgumentError: An extent is below the least one.
    """
    extents = tuple([whole(n, "an extent of batch") for n in of_kind(batch, tuple, "batch")])
    if min(extents, default=least) < least:
        raise ArgumentError(f"batch is {extents}; expected extents of at least {least}")
    return extents


#: A function that explains a call.  It takes a :class:`Question`; the options of the operation are
#: keywords.
Explainer: TypeAlias = Callable[..., Explanation]


def _estimated(seconds: float | None) -> str:
    return "rule" if seconds is None else f"estimate {1e6 * seconds:.3g} us"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
