"""What a call would do, and what tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from portable_gpu.ops.variant import Variant, first_of_decisions, ranked
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts

_SHOWN = 5  # estimates that are printed


@dataclass(frozen=True)
class Explanation:
    """What a call would do.

    Attributes:
        operation: What was asked about, with its sizes: ``gemm 64 x 64 x 64 float32``.
        path: The path's name (``tiled``, ``packed``, ``rows``, ``columns`` ...).
        kernels: The templates it launches, in order (``gemm/gemm``).
        policy: The policy's fields; empty where the path has none.
        origin: Where the policy came from: a row of a table, or a formula by name.
        why: Why this path, in a sentence or two.
        details: What follows from policy and sizes (groups, splits ...).
        evidence: Of a row: what it was measured against, where and when.
        estimates: The estimated seconds of a call by each variant, launches included, the first
            choice first; ``None`` for a variant that a rule puts after another one.
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
        if len(self.estimates) > 1:
            few = list(self.estimates.items())[:_SHOWN]
            shown = [f"{name} {_estimated(seconds)}" for name, seconds in few]
            lines.append(f"  variants {'; '.join(shown)}")
        return "\n".join(lines)


def explanation(operation: str, variants: Sequence[Variant], target: Target) -> Explanation:
    """What the best of a problem's variants is.

    Args:
        operation: What was asked about.
        variants: Every way to compute it.
        target: For what device.
    """
    costs = DeviceCosts.of("device", target)
    first = first_of_decisions(variants)
    best, *others = ranked(variants, costs)
    return Explanation(
        operation=operation,
        path=best.path,
        kernels=tuple(spec.name for spec in best.texts()),
        policy=best.policy.to_dict() if best.policy else {},
        origin=best.origin,
        why=best.why,
        details=best.details,
        evidence=best.evidence,
        estimates={
            one.name: one.seconds(costs) if first.get(one.decision, one) is one else None
            for one in (best, *others)
        },
    )


#: What a family of operations gives: an explanation for C-ordered arrays, with no device.
#: Called with the operation's name, the sizes, a dtype, a target and a tuning table, and the
#: function's own options by keyword.
Explainer: TypeAlias = Callable[..., Explanation]


def _estimated(seconds: float | None) -> str:
    return "rule" if seconds is None else f"estimate {1e6 * seconds:.3g} us"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
