"""From the facts that a device reports to its Target.  Imports no OpenCL."""

from __future__ import annotations

import re
from dataclasses import replace

from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.targets.cpu import CPU
from portable_gpu.targets.device_class import Derivation, DeviceClass
from portable_gpu.targets.gcn import GCN, GENERATIONS, with_generation
from portable_gpu.targets.generic import GENERIC
from portable_gpu.targets.intel_gpu import INTEL_GPU
from portable_gpu.targets.nvidia import NVIDIA, with_sm
from portable_gpu.targets.rdna import RDNA
from portable_gpu.targets.target import DeviceFacts, Exchange, Fact, Target

__all__ = [
    "DEVICE_CLASSES",
    "DeviceClass",
    "DeviceFacts",
    "Exchange",
    "Fact",
    "Target",
    "class_names",
    "detect",
    "example_target",
    "with_barriers",
]

#: Ordered rows: the first whose ``matches`` is true wins; ``generic`` takes the rest.
DEVICE_CLASSES: tuple[DeviceClass, ...] = (NVIDIA, RDNA, GCN, INTEL_GPU, CPU, GENERIC)


def detect(
    facts: DeviceFacts, device_class: str | None = None, name: str = "device_class"
) -> Target:
    """The Target of a device.

    Args:
        facts: What the device reports.
        device_class: The class whose path is forced, on any device: ``gcn``, ``generic``,
            ``nvidia-sm20``, ``gcn-gfx90a`` ...  If the device has no lock-step, its lanes then
            exchange values with barriers.  Instructions for products that it lacks are emulated.
        name: The name of the argument in messages.

    Raises:
        ArgumentError: There is no such class.
        UnsupportedError: The device does not have the instructions of the class.
    """
    own_class = next(row for row in DEVICE_CLASSES if row.matches(facts))
    if device_class is None:
        return _derive(own_class, facts)
    row, generation = _parse(device_class, name)
    native = row is own_class and _runs(facts, generation)
    forced = row is not own_class or _of(facts, generation) != facts
    target = _derive(row, facts, generation, native, forced)
    if not native and target.exchange == "warp_shuffle":
        raise UnsupportedError(
            f"{name} is {device_class!r}, which shuffles by PTX, and {facts.name!r} runs none; "
            "'nvidia-sm20' (volatile local memory) runs anywhere"
        )
    return target


def with_barriers(target: Target, why: str) -> Target:
    """A Target for the same device that exchanges lanes in local memory, with barriers.

    Args:
        target: A target whose own lane exchange does not work.
        why: The result of the check, for ``info``.
    """
    facts = target.facts
    plain = replace(
        facts,
        extensions=frozenset(name for name in facts.extensions if "subgroup" not in name),
        max_num_sub_groups=0,
        preferred_multiple_probed=target.subgroup_size,
    )
    result = detect(plain, GENERIC.name)
    provenance = {**result.provenance, "exchange": Fact(result.exchange, "probed", why)}
    return replace(result, facts=facts, forced=target.forced, provenance=provenance)


def example_target(device_class: str) -> Target:
    """The Target of a typical device of a class, for rendering without a device."""
    row, generation = _parse(device_class, "target")
    facts = _of(row.example, generation)
    if facts.name == row.example.name and facts != row.example:
        # Tuning rows measured on the example device are not for another generation.
        facts = replace(facts, name=f"{facts.vendor} sm_{generation[2:]}")
    return _derive(row, facts)


def class_names() -> tuple[str, ...]:
    """The names of classes that ``device_class=`` accepts, without those of generations."""
    return tuple(row.name for row in DEVICE_CLASSES)


def _derive(
    row: DeviceClass,
    facts: DeviceFacts,
    generation: str = "",
    native: bool = True,
    forced: bool = False,
) -> Target:
    out = Derivation(facts, native, forced)
    row.derive(_of(facts, generation), out)
    return out.target(facts, row)


def _of(facts: DeviceFacts, generation: str) -> DeviceFacts:
    """Return the facts for a device of the generation (``sm90``, ``gfx90a``), if one is given."""
    if generation.startswith("sm"):
        return with_sm(facts, int(generation[2:]))
    return with_generation(facts, generation) if generation else facts


def _runs(facts: DeviceFacts, generation: str) -> bool:
    """Whether a device of the class runs the instructions of the generation."""
    if not generation.startswith("sm"):
        return _of(facts, generation) == facts
    sm = int(generation[2:])
    major, minor = facts.compute_capability_nv or (0, 0)
    capability = 10 * major + minor
    return capability == sm or 70 <= sm <= capability  # SM 70 and later have no shfl without .sync


def _parse(device_class: str, argument: str) -> tuple[DeviceClass, str]:
    """The row of a class's name, and the generation that it names, if any."""
    name, _, generation = device_class.lower().partition("-")
    row = next((row for row in DEVICE_CLASSES if row.name == name), None)
    known_generation = (
        not generation
        or (row is NVIDIA and re.fullmatch(r"sm\d{2,3}", generation))
        or (row is GCN and generation in GENERATIONS)
    )
    if row is not None and known_generation:
        return row, generation
    generations = ", ".join(f"{GCN.name}-{name}" for name in GENERATIONS)
    raise ArgumentError(
        f"{argument} is {device_class!r}; known are {', '.join(class_names())}, "
        f"{generations} and nvidia-smNN"
    )
