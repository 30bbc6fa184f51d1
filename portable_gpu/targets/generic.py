"""Any other device: sub-group functions where it has them, else local memory with barriers."""

from __future__ import annotations

from portable_gpu.targets.device_class import Derivation, DeviceClass, power_of_two_in
from portable_gpu.targets.target import DeviceFacts, Source


def _matches(_facts: DeviceFacts) -> bool:
    return True


def _derive(facts: DeviceFacts, out: Derivation) -> None:
    if out.use_subgroup_functions(facts):
        return
    out.set("lockstep", False, "assumed", "barriers between the lanes")
    size = power_of_two_in(facts.preferred_multiple_probed, 8, 64, 32)
    why = "no lane exchange is known: local memory with barriers"
    source: Source = "probed" if facts.preferred_multiple_probed else "assumed"
    out.exchange("wavefront_lds", size, source, why)


GENERIC = DeviceClass(
    name="generic",
    define="GENERIC_DEVICE",
    summary="any other device: sub-group functions, or local memory with barriers",
    matches=_matches,
    derive=_derive,
    example=DeviceFacts(preferred_multiple_probed=32, compute_units=16),
)
