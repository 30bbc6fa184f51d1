"""Candidates: every way to compute a problem, with what it is estimated to take.

A family lists the candidates of a problem on a target.  ``explain`` prints them, a plan is the best
of them, ``bench dispatch`` forces each, and the tuner varies the policy of the best.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError, UnsupportedError
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.policy import Policy

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine


@dataclass(frozen=True)
class Candidate:
    """One way to compute a problem.

    Attributes:
        path: Which kernels (``tiled``, ``wgmma, split-k``, ``rows`` ...).
        way: What tells it apart from the problem's other candidates:
            ``tiled, medium, transposed``.
        kind: Candidates of one kind differ in how the work is cut, and in nothing else.
        device: Seconds of its kernels, estimated.
        launches: How many kernels.
        why: Why one would take it, in a sentence.
        texts: Renders its kernels, in the order of their launches.
        bind: Builds the plan.
        works: Whether the device does it as it should, found out by a small problem; ``None``
            where nothing is in doubt.
        policy, origin, evidence: The policy, if any, where it came from, and what it rests on.
        details: What follows from the policy and the sizes.
    """

    path: str
    way: str
    kind: str
    device: float
    launches: int
    why: str
    texts: Callable[[], Sequence[Specialization]]
    bind: Callable[[Engine], Plan]
    works: Callable[[Engine], bool] | None = None
    policy: Policy | None = None
    origin: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def seconds(self, costs: DeviceCosts) -> float:
        """The time of a call, launches included."""
        return costs.seconds(self.device, self.launches)


def ranked(candidates: Iterable[Candidate], costs: DeviceCosts) -> list[Candidate]:
    """The candidates by their estimates, the best first; of equals, the first one listed."""
    return sorted(candidates, key=lambda one: (one.seconds(costs), one.device))


def best_of(candidates: Iterable[Candidate], target: Target) -> Candidate:
    """The candidate with the least estimate."""
    return ranked(candidates, DeviceCosts.of("device", target))[0]


def bind_best(engine: Engine, candidates: Iterable[Candidate]) -> Plan:
    """The plan of :func:`chosen`."""
    return chosen(engine, candidates)[1]


def chosen(engine: Engine, candidates: Iterable[Candidate]) -> tuple[Candidate, Plan]:
    """The best candidate that works on the engine's device, and its plan.

    One that the driver refuses to build is passed over with a warning, if it was in doubt.

    Raises:
        UnsupportedError: There is no candidate.
        BuildError: The driver refused a kernel of one that was in no doubt.
    """
    costs = DeviceCosts.of("device", engine.target)
    for candidate in ranked(candidates, costs):
        if candidate.works is None:
            return candidate, candidate.bind(engine)
        if not candidate.works(engine):
            continue
        try:
            return candidate, candidate.bind(engine)
        except (BuildError, cl.Error) as error:
            warnings.warn(
                f"{candidate.path} by {candidate.policy} is not used: {error}", stacklevel=2
            )
    raise UnsupportedError(f"{engine.target.facts.name} has no way to compute this")


def spread(candidates: Sequence[Candidate]) -> list[Candidate]:
    """A few of each kind that show its range: the least estimate, the first and the last listed."""
    kinds: dict[str, list[Candidate]] = {}
    for one in candidates:
        kinds.setdefault(one.kind, []).append(one)
    found = []
    for same in kinds.values():
        few = (same[0], min(same, key=lambda one: one.device), same[-1])
        found += list({one.way: one for one in few}.values())
    return found
