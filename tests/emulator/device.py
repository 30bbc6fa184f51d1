"""An NVIDIA GPU to launch kernels on, without one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from emulator import asynchronous, scalar, tensor_map, warp
from emulator.machine import Grid, Group, Step
from emulator.memory import Memory
from emulator.text import Instruction, Kernel, read
from portable_gpu.codegen.arguments import arguments
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.isa.machines import Machine, machines
from portable_gpu.tuning.table import TuningTable

_DECODERS: tuple[Callable[[Instruction], Step | None], ...] = (
    asynchronous.proxy, scalar.nothing, scalar.compare, scalar.convert, scalar.access,
    scalar.atomic, asynchronous.barrier, asynchronous.copy, asynchronous.bulk_copy,
    tensor_map.change, warp.shuffle, warp.load_matrices, warp.multiply, warp.warpgroup,
    scalar.arithmetic,
)  # fmt: skip
_CONTROL = ("bra", "ret", "exit", "bar")


def decode(kernel: Kernel) -> list[Step]:
    """Each instruction, ready to execute."""
    steps = []
    for instruction in kernel.code:
        if instruction.name in _CONTROL and not instruction.text.startswith("bar.warp"):
            steps.append(_control)
            continue
        result = (make(instruction) for make in _DECODERS)
        step = next((item for item in result if item is not None), None)
        if step is None:
            raise NotImplementedError(f"not emulated: {instruction.text}")
        steps.append(step)
    return steps


def _control(group: Group, threads: Any) -> None:
    raise AssertionError("the machine itself takes branches")


@dataclass
class Emulator:
    """Stands in for an engine and for a queue's state.

    Attributes:
        machine: Which GPU.
        late: Whether asynchronous copies are done as late as can be, or at once.
        races: Whether to look for races between warps (not in kernels with ``mbarrier``).
        edit: What is changed in each kernel's PTX, to plant a bug.
        launches: Kernels launched so far, by name of their template.
        counters: What kernels leave at zero.
    """

    machine: Machine
    late: bool = True
    races: bool = False
    edit: Callable[[str], str] = str

    def __post_init__(self) -> None:
        self.target = self.machine.target
        self.table = TuningTable.shipped()
        self.memory = Memory()
        self.launches: list[str] = []
        self.programs = SimpleNamespace(launch=self._launch)
        self.maps_host_memory = False
        # What a queue has.
        self.in_order, self.queue, self.own_queue = True, None, None
        self.counters = np.zeros(1 << 16, np.uint32)

    def plan(self, key: Any, make: Callable[[], Any]) -> Any:
        """Tests of the device, which are not run: its kernels are taken."""
        assert key[0] == "matrix units work", key
        return True

    def upload(self, values: Any) -> Any:
        """A table that a plan keeps."""
        return np.resize(values, max(1, values.size))

    @classmethod
    def of(cls, name: str, late: bool = True, races: bool = False) -> Emulator:
        """A GPU by its name: ``sm_90``."""
        return cls(next(machine for machine in machines() if machine.name == name), late, races)

    def state(self, queue: None = None) -> Emulator:
        """The state of a queue: this object."""
        return self

    def event(self, event: None) -> SimpleNamespace:
        """The event of a launch, which has ended."""
        return SimpleNamespace(wait=lambda: None)

    def after(self, *launches: None) -> list[Any]:
        """The events to wait for: none."""
        return []

    def allocate(self, nbytes: int) -> Any:
        """A buffer of the caller's own."""
        return np.zeros(nbytes, np.uint8)

    def workspace(self, nbytes: int) -> Any:
        """Memory that starts as NaN."""
        return np.full(nbytes, 0xFF, np.uint8)

    def counters_and_partials(self, counters: int, nbytes: int) -> tuple[Any, Any]:
        """Counters that kernels leave at zero, and room."""
        assert not self.counters.any()
        return self.counters, self.workspace(max(nbytes, 4))

    def _launch(
        self,
        spec: Specialization,
        name: str,
        constants: Mapping[str, Any],
        buffers: Sequence[str],
        scalars: Sequence[str],
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
        as_bits: Sequence[str] = (),
        bound: Mapping[str, Any] | None = None,
    ) -> Callable[..., None]:
        places = arguments(spec, name, constants, buffers, scalars, as_bits, bound)
        kernel = read(self.edit(_ptx(spec, self.machine)), name)
        steps = decode(kernel)
        (size, *_), across = local_size, (*global_size[1:], 1)[0]

        def launch(
            state: Any, buffers: Sequence[Any], scalars: tuple[Any, ...] = (), wait_for: Any = None
        ) -> None:
            values = places.passed(scalars)
            inputs = [*zip(places.buffers, buffers, strict=True), *places.bound]
            for place, buffer in inputs:
                values[place] = np.uint64(self.memory.map(buffer.reshape(-1).view(np.uint8)))
            passed = {}
            for place, (argument, nbytes) in enumerate(kernel.parameters):
                bits = np.atleast_1d(values.pop(place)).view(np.uint8)
                assert bits.size == nbytes, (argument, nbytes)
                passed[argument] = bits
            assert not values
            self.launches.append(spec.name)
            groups = (global_size[0] // size, across)
            grid = Grid(kernel, steps, self.memory, passed, groups, size, self.late, self.races)
            with np.errstate(all="ignore"):
                for y in range(groups[1]):
                    for x in range(groups[0]):
                        Group(grid, (x, y)).run()

        return launch


def _ptx(spec: Specialization, machine: Machine) -> str:
    key = spec.key, machine.name
    result = _texts.get(key)
    if result is None:
        with tempfile.TemporaryDirectory() as folder:
            result = find_compilers().ptx(spec, machine, Path(folder))
        _texts[key] = result
    return result


_texts: dict[tuple[str, str], str] = {}
