"""The parts of a device class, and the steps that all classes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.targets.target import DeviceFacts, Exchange, Fact, Source, Target


@dataclass(frozen=True)
class DeviceClass:
    """One row of :data:`portable_gpu.targets.DEVICE_CLASSES`.

    Attributes:
        name: As users type it (``gcn``).
        define: The value of ``-DDEVICE=`` (``GCN_DEVICE``).
        summary: One line for ``info`` and the docs.
        matches: Whether a device with these facts is of this class.
        derive: Fills the ``Derivation`` from the facts.
        example: Facts of a typical device, for rendering without one.
    """

    name: str
    define: str
    summary: str
    matches: Callable[[DeviceFacts], bool]
    derive: Callable[[DeviceFacts, Derivation], None]
    example: DeviceFacts


class Derivation:
    """Collects derived facts, each with its source, and turns them into a Target.

    Attributes:
        native: Whether the device is of the class and runs its instructions.
        forced: Whether the class, or its generation, was requested and is not the device's own.
    """

    def __init__(self, facts: DeviceFacts, native: bool, forced: bool) -> None:
        self.native = native
        self.forced = forced
        self._facts: dict[str, Fact] = {}
        self.set("fp64", *_fp64(facts))
        self.set("double_rate", 16, "assumed", "that of GPUs for games")
        self.set("fp16", "cl_khr_fp16" in facts.extensions, "queried", "cl_khr_fp16")
        self.set("compute_units", max(1, facts.compute_units), "queried", "MAX_COMPUTE_UNITS")
        self.set("local_mem_size", facts.local_mem_size, "queried", "LOCAL_MEM_SIZE")
        self.set("max_work_group_size", facts.max_work_group_size, "queried", "MAX_WORK_GROUP_SIZE")
        self.set("registers", 64, "assumed", "few enough for any GPU")
        self.set("resident_registers", 64, "assumed", "few enough for any GPU")
        self.set("local_mem_per_unit", facts.local_mem_size, "assumed", "LOCAL_MEM_SIZE")
        self.set("static_local_mem", facts.local_mem_size, "queried", "LOCAL_MEM_SIZE")
        self.set("unbound_group", 0, "assumed", "compilers use the size of a group well")
        self.set("matrix_units", "", "assumed", "none that kernels can reach")
        self.set("matrix_instructions", (), "derived", "none is asked for by name")
        self.set("dot2", False, "assumed", "no such instruction that kernels can reach")
        self.set("tensor_maps", False, "assumed", "none that kernels can reach")
        self.set("forward_progress", False, "assumed", "OpenCL promises no progress of groups")
        self.set("shared_cache", 0, "assumed", "no larger than what groups hold")
        self.set("volatile_is_shared", False, "assumed", "OpenCL promises it of atomics alone")
        self.set("launch_events", True, "assumed", "events cost nothing worth mentioning")
        self.set("memory_channels", 0, "assumed", "not known, or addresses are hashed")
        self.set("channel_bytes", 0, "assumed", "as memory_channels")
        self.set("sector_bytes", 32, "assumed", "that of NVIDIA's GPUs")
        self.set("local_banks", 32, "assumed", "usual for GPUs")
        self.set("simds", 4, "assumed", "usual for GPUs")
        self.set("vector_bytes", 16, "assumed", "128-bit accesses")
        self.set("rows_in_place", 6, "assumed", "their addresses fit 16 registers")
        self.set("cuda_sm", 0, "derived", "not an NVIDIA device")
        self.set("cl_std", "CL1.2", "derived", "the least that every path needs")
        self.set("requires_subgroup_size", False, "derived", "the width is fixed")
        self.set("builtins_inline", *_builtins_inline(facts))

    def set(self, name: str, value: object, source: Source, why: str) -> None:
        """Record one fact, replacing an earlier value."""
        self._facts[name] = Fact(value, source, why)

    def exchange(self, exchange: Exchange, size: int, source: Source, why: str) -> None:
        """Record the lane-exchange mechanism and the sub-group size that it works on."""
        self.set("exchange", exchange, "derived", why)
        self.set("subgroup_size", size, source, why)

    def use_subgroup_functions(self, facts: DeviceFacts) -> bool:
        """Use OpenCL's sub-group functions, if the device has all that they need."""
        size = usable_subgroup_size(facts)
        if size is None:
            return False
        self.exchange("khr_subgroup", size, "probed", "a probe kernel's sub-group size")
        # A device of OpenCL 3 may report an older OpenCL C, but accepts 3.0.
        version = "CL3.0" if facts.version >= "OpenCL 3.0" else "CL2.0"
        self.set("cl_std", version, "queried", facts.version)
        has_attribute = "cl_intel_required_subgroup_size" in facts.extensions
        self.set(
            "requires_subgroup_size",
            has_attribute,
            "queried",
            "cl_intel_required_subgroup_size" if has_attribute else "the width is fixed",
        )
        self.set("lockstep", False, "derived", "sub-group functions synchronise by themselves")
        return True

    def target(self, facts: DeviceFacts, row: DeviceClass) -> Target:
        """The finished Target."""
        values = {name: fact.value for name, fact in self._facts.items()}
        return Target(
            facts=facts,
            device_class=row.name,
            device_define=row.define,
            forced=self.forced,
            provenance=dict(self._facts),
            **values,  # type: ignore[arg-type]  # values are typed by the setters above
        )


def has_subgroup_shuffle(facts: DeviceFacts) -> bool:
    """Whether lanes can exchange values by sub-group functions (Khronos's or Intel's)."""
    has_subgroups = (
        "cl_khr_subgroups" in facts.extensions
        or "cl_intel_subgroups" in facts.extensions
        or facts.max_num_sub_groups > 0
    )
    has_shuffle = (
        "cl_khr_subgroup_shuffle" in facts.extensions or "cl_intel_subgroups" in facts.extensions
    )
    return has_subgroups and has_shuffle


def usable_subgroup_size(facts: DeviceFacts) -> int | None:
    """The width at which sub-group functions exchange lanes; ``None`` where they cannot."""
    size = facts.sub_group_size_probed
    if not has_subgroup_shuffle(facts) or size is None or size & (size - 1):
        return None
    return size if 4 <= size <= 64 else None


def power_of_two_in(value: int | None, low: int, high: int, default: int) -> int:
    """``value`` rounded down to a power of two and clamped; ``default`` where it is unknown."""
    if not value:
        return default
    return max(low, min(high, floor_power_of_two(value)))


def _fp64(facts: DeviceFacts) -> tuple[bool, Source, str]:
    return "cl_khr_fp64" in facts.extensions, "queried", "cl_khr_fp64"


def _builtins_inline(facts: DeviceFacts) -> tuple[bool, Source, str]:
    # Measured: PoCL's CPU driver calls its built-in library out of line in hot loops.
    slow = facts.type == "cpu" and facts.platform_name == "Portable Computing Language"
    return not slow, "derived", "known of this OpenCL implementation" if slow else "usual"
