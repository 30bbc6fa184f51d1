"""The GPUs that kernels are compiled for offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from portable_gpu.errors import ArgumentError
from portable_gpu.isa.architectures import ARCHITECTURES, Architecture
from portable_gpu.targets import Target, detect, example_target

#: AMD's architectures, and the class of each.
_AMD = {
    "gfx803": "gcn",
    "gfx900": "gcn",
    "gfx906": "gcn",
    "gfx908": "gcn",
    "gfx90a": "gcn",
    "gfx942": "gcn",
    "gfx1030": "rdna",
    "gfx1100": "rdna",
}
#: Compiled also with exchange by local memory, as for a driver without DPP.
_ALSO_LDS = ("gfx803", "gfx900", "gfx90a", "gfx1030")
_SM = (60, 70, 80, 90)


@dataclass(frozen=True)
class Machine:
    """A GPU to compile for.

    Attributes:
        name: ``gfx900-dpp``, ``gfx900-lds``, ``sm_90``.
        architecture: Its limits, and its name for compilers.
        target: Its target.
    """

    name: str
    architecture: Architecture
    target: Target

    @property
    def family(self) -> str:
        """``AMD`` or ``NVIDIA``: whose compilers are used."""
        return "AMD" if self.architecture.is_amd else "NVIDIA"


def machines() -> tuple[Machine, ...]:
    """All machines."""
    result = []
    for architecture, device_class in _AMD.items():
        facts = example_target(device_class).facts
        # With these names, detect() chooses DPP if the name begins with gfx, else local memory.
        names = {"dpp": architecture}
        if architecture in _ALSO_LDS:
            names["lds"] = f"AMD {architecture}"
        for exchange, name in names.items():
            target = detect(replace(facts, name=name))
            result.append(
                Machine(f"{architecture}-{exchange}", ARCHITECTURES[architecture], target)
            )
    for sm in _SM:
        target = example_target(f"nvidia-sm{sm}")
        result.append(Machine(f"sm_{sm}", ARCHITECTURES[f"sm_{sm}"], target))
    return tuple(result)


def select(names: Sequence[str]) -> tuple[Machine, ...]:
    """The machines of the given names (of machines or of architectures); all if none is given.

    Raises:
        ArgumentError: There is no such machine.
    """
    every = machines()
    known = {machine.name for machine in every} | {m.architecture.name for m in every}
    if unknown := sorted(set(names) - known):
        raise ArgumentError(
            f"no target {', '.join(map(repr, unknown))}; there are: "
            f"{', '.join(machine.name for machine in every)}"
        )
    return tuple(m for m in every if not names or m.name in names or m.architecture.name in names)
