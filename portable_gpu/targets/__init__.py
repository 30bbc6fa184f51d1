"""What the device is: facts in, Target out.  Imports no OpenCL."""

from __future__ import annotations

import re
from dataclasses import replace

from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.targets.cpu import CPU
from portable_gpu.targets.device_class import Derivation, DeviceClass
from portable_gpu.targets.gcn import GCN
from portable_gpu.targets.generic import GENERIC
from portable_gpu.targets.intel_gpu import INTEL_GPU
from portable_gpu.targets.nvidia import NVIDIA, with_sm
from portable_gpu.targets.rdna import RDNA
from portable_gpu.targets.target import DeviceFacts, Fact, Target

__all__ = [
    "DEVICE_CLASSES",
    "DeviceClass",
    "DeviceFacts",
    "Fact",
    "Target",
    "class_names",
    "detect",
    "example_target",
    "with_barriers",
]

#: Ordered rows: the first whose ``matches`` is true wins; ``generic`` takes the rest.
DEVICE_CLASSES: tuple[DeviceClass, ...] = (NVIDIA, RDNA, GCN, INTEL_GPU, CPU, GENERIC)


def detect(facts: DeviceFacts, device_class: str | None = None) -> Target:
    """The Target of a device.

    Args:
        facts: What the device reports.
        device_class: Take the path of this class whatever the device is: ``gcn``, ``generic``,
            ``nvidia-sm20`` ...  Lanes then exchange with barriers wherever the device at hand
            has no lock-step.

    Raises:
        ArgumentError: No such class.
        UnsupportedError: The class's instructions do not exist on the device at hand.
    """
    own = next(row for row in DEVICE_CLASSES if row.matches(facts))
    if device_class is None:
        return _derive(own, facts)
    row, sm = _parse(device_class)
    native = row is own and (sm is None or _runs_ptx_of(facts, sm))
    forced = row is not own or (sm is not None and with_sm(facts, sm) != facts)
    target = _derive(row, facts, sm, native, forced)
    if not native and target.exchange == "warp_shuffle":
        raise UnsupportedError(
            f"device class {device_class!r} shuffles by PTX, which {facts.name!r} does not run; "
            "'nvidia-sm20' (volatile local memory) runs anywhere"
        )
    return target


def with_barriers(target: Target, why: str) -> Target:
    """A Target for the same device that exchanges lanes in local memory, with barriers.

    Args:
        target: What turned out not to work.
        why: What was found, for ``info``.
    """
    facts = target.facts
    plain = replace(
        facts,
        extensions=frozenset(name for name in facts.extensions if "subgroup" not in name),
        max_num_sub_groups=0,
        preferred_multiple_probed=target.subgroup_size,
    )
    found = detect(plain, GENERIC.name)
    provenance = {**found.provenance, "exchange": Fact(found.exchange, "probed", why)}
    return replace(found, facts=facts, forced=target.forced, provenance=provenance)


def example_target(device_class: str) -> Target:
    """The Target of a typical device of a class, with no device at hand (for rendering)."""
    row, sm = _parse(device_class)
    return _derive(row, row.example if sm is None else with_sm(row.example, sm))


def class_names() -> tuple[str, ...]:
    """The names that ``device_class=`` takes, with ``nvidia-smNN`` for any NN besides."""
    return tuple(row.name for row in DEVICE_CLASSES)


def _derive(
    row: DeviceClass,
    facts: DeviceFacts,
    sm: int | None = None,
    native: bool = True,
    forced: bool = False,
) -> Target:
    out = Derivation(facts, native, forced)
    row.derive(facts if sm is None else with_sm(facts, sm), out)
    return out.target(facts, row)


def _runs_ptx_of(facts: DeviceFacts, sm: int) -> bool:
    major, minor = facts.compute_capability_nv or (0, 0)
    own = 10 * major + minor
    return own == sm or 70 <= sm <= own  # shfl without .sync is gone from SM 70 on


def _parse(device_class: str) -> tuple[DeviceClass, int | None]:
    name, _, variant = device_class.lower().partition("-")
    row = next((row for row in DEVICE_CLASSES if row.name == name), None)
    if row is not None and not variant:
        return row, None
    match = re.fullmatch(r"sm(\d{2,3})", variant)
    if row is NVIDIA and match:
        return row, int(match.group(1))
    known = ", ".join(class_names())
    raise ArgumentError(
        f"device class {device_class!r} is not known; known are {known} and nvidia-smNN"
    )
