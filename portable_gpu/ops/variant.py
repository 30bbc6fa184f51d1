"""Variants: every way to compute a problem, and which of them a call takes.

A family lists the variants of a problem on a target.  ``explain`` prints them, a call takes the
first one that works on the device, ``bench dispatch`` forces each, and the tuner changes the policy
of the first.

Variants compete by estimated seconds.  Where a rule decides between some of them, they share the
name of a decision: the one that the rule prefers is listed first and has the estimate, and
:func:`ranked` puts the others directly after it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, distinct
from portable_gpu.errors import (
    BuildError,
    DeviceMemoryError,
    PortableGPUError,
    UnsupportedError,
)
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.policy import Policy
from portable_gpu.tuning.table import PolicyRow

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine


@dataclass(frozen=True)
class Variant:
    """One way to compute a problem on a target.

    Attributes:
        name: The name, unique within the problem: ``tiled, medium, transposed``.
        estimate: The estimated seconds of its kernels, without their launches.
        launches: The number of its kernels.
        why: A sentence that says why it applies.
        texts: Renders its kernels, in the order of their launches.
        bind: Builds its plan.
        works: Tests on the device, by a small problem, that the kernels compute what they should;
            ``None`` if no device is known to fail.
        row: The policy, where it comes from, and its measurements; ``None`` without a policy.
        details: Further values that follow from the policy and the sizes.
        decision: The name of the rule's decision, if a rule orders this variant and others.
        path: The group of kernels that it launches (``tiled``, ``wgmma, split-k``, ``rows`` ...).
            Without a value it is the name, and so is the kind.
        kind: Variants of one kind differ only in the partition of the work.
    """

    name: str
    estimate: float
    launches: int
    why: str
    texts: Callable[[], Sequence[Specialization]]
    bind: Callable[[Engine], Plan]
    works: Callable[[Engine], bool] | None = None
    row: PolicyRow[Any] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    decision: str = ""
    path: str = ""
    kind: str = ""

    def __post_init__(self) -> None:
        """Set the path and the kind where they have no value."""
        object.__setattr__(self, "path", self.path or self.name)
        object.__setattr__(self, "kind", self.kind or self.name)

    @property
    def policy(self) -> Policy | None:
        """The policy of the kernels, if they have one."""
        return self.row.policy if self.row else None

    def seconds(self, costs: DeviceCosts) -> float:
        """Return the estimated seconds of a call, launches included."""
        return costs.seconds(self.estimate, self.launches, self.kind)


def by_rule(
    decision: str, preferred: Iterable[Variant], others: Iterable[Variant], costs: DeviceCosts
) -> list[Variant]:
    """Return the variants of a decision: the best preferred one precedes all others.

    Args:
        decision: The name of the decision.
        preferred: Variants that compete by their estimates, at least one.
        others: Those that come after the best of them.
        costs: The costs of the device.
    """
    best, *rest = ranked(preferred, costs)
    after = [replace(variant, decision=decision) for variant in others]
    return [replace(best, decision=decision), *rest, *after]


def first_of_decisions(variants: Iterable[Variant]) -> dict[str, Variant]:
    """Map each decision by a rule to its first variant, which has the estimate."""
    first: dict[str, Variant] = {}
    for variant in variants:
        if variant.decision:
            first.setdefault(variant.decision, variant)
    return first


def ranked(variants: Iterable[Variant], costs: DeviceCosts) -> list[Variant]:
    """Return the variants in the order in which a call would take them.

    The least estimate is the first; of equal ones, the first listed.  Those that a rule puts after
    another one follow it.
    """
    variants = list(variants)
    first = first_of_decisions(variants)

    heads = [first.get(variant.decision, variant) for variant in variants]
    listed = {id(head): index for index, head in reversed(list(enumerate(heads)))}

    def place(index: int) -> tuple[float, float, int, int]:
        head = heads[index]
        return head.seconds(costs), head.estimate, listed[id(head)], index

    return [variants[index] for index in sorted(range(len(variants)), key=place)]


def best_of(variants: Iterable[Variant], target: Target) -> Variant:
    """Return the variant that a call would take if all of them work."""
    return ranked(variants, DeviceCosts.of("device", target))[0]


def best_texts(problems: Iterable[Iterable[Variant]], target: Target) -> list[Specialization]:
    """Return the texts of the best variant of each problem, without repetitions."""
    return distinct(spec for variants in problems for spec in best_of(variants, target).texts())


def bind_best(engine: Engine, variants: Iterable[Variant]) -> Plan:
    """Return the plan that :func:`chosen` returns."""
    return chosen(engine, variants)[1]


def chosen(engine: Engine, variants: Iterable[Variant]) -> tuple[Variant, Plan]:
    """Return the first variant that works on the engine's device, and its plan.

    A variant whose kernels the driver refuses to build is passed over with a warning if it has a
    test of its own (``works``).

    Raises:
        UnsupportedError: There is no variant, or none works.
        BuildError: The driver refused a kernel of a variant without such a test.
        DeviceMemoryError: The device has no memory for a kernel or its test.  The next call may
            find it, so no slower variant is taken.
    """
    costs = DeviceCosts.of("device", engine.target)
    for variant in ranked(variants, costs):
        if variant.works is None:
            return variant, variant.bind(engine)
        try:
            if variant.works(engine):
                return variant, variant.bind(engine)
        except (BuildError, cl.Error) as error:
            if lacks_memory(error):
                raise DeviceMemoryError(f"the device is out of memory: {error}") from error
            warnings.warn(f"{variant.name} is not used: {error}", stacklevel=2)
    raise UnsupportedError(f"{engine.target.facts.name} has no way to compute this")


def lacks_memory(error: Exception) -> bool:
    """Return whether an error says that memory is in use, which a later call may find free.

    The error of a kernel that needs more registers or local memory than the device has is another
    one (``OUT_OF_RESOURCES``).
    """
    if isinstance(error, DeviceMemoryError):
        return error.__cause__ is None or lacks_memory(error.__cause__)  # type: ignore[arg-type]
    return isinstance(error, cl.MemoryError) and error.code != cl.status_code.OUT_OF_RESOURCES


def passes(engine: Engine, test: Callable[[], str], what: str) -> bool:
    """Return whether a test of kernels finds no fault; warn if it does.

    Args:
        engine: The engine on which the test runs.
        test: Returns what is wrong, or an empty text.
        what: What is not used if something is wrong, in the plural.

    Raises:
        DeviceMemoryError: Memory is in use, which says nothing of the kernels.
    """
    try:
        trouble = test()
    except (PortableGPUError, cl.Error) as error:
        if lacks_memory(error):
            raise
        trouble = str(error).splitlines()[0]
    if trouble:
        name = engine.target.facts.name
        warnings.warn(f"the {what} of {name} are not used: {trouble}", stacklevel=2)
    return not trouble


def sample_of_kinds(variants: Sequence[Variant]) -> list[Variant]:
    """Return up to three variants of each kind: the least estimate, the first and the last."""
    kinds: dict[str, list[Variant]] = {}
    for variant in variants:
        kinds.setdefault(variant.kind, []).append(variant)
    samples = []
    for same in kinds.values():
        few = (same[0], min(same, key=lambda variant: variant.estimate), same[-1])
        samples += list({variant.name: variant for variant in few}.values())
    return samples
