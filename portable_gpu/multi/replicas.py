"""Replicas of a network on the devices of a group, and the state that they take over from it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from portable_gpu.multi import moves
from portable_gpu.multi.member import Member
from portable_gpu.nn import Module
from portable_gpu.nn.modules.base import Buffer
from portable_gpu.nn.parameter import Flat, ModuleParameter, as_parameters, clear
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray, asnumpy

#: The number of the random masks of a micro-batch starts at a multiple of this.
_MASKS = 1 << 40


class HostState(NamedTuple):
    """The state of a network that is on the host.

    Attributes:
        calls: The counters of random masks.
        buffers: The values of buffers in NumPy, such as counters of batches.
    """

    calls: list[int]
    buffers: list[np.ndarray[Any, Any]]


class NetworkState:
    """The state of the network at the start of a batch.

    Attributes:
        parts: Its parts.
        arrays: The values of its parameters and its statistics, in flat arrays.
        on_host: Its state on the host.
    """

    def __init__(
        self,
        parts: NetworkParts,
        arrays: list[Array],
        on_host: HostState,
        members: Sequence[Member],
    ) -> None:
        """Note where the arrays are; those on devices of no member are copied to NumPy."""
        self.parts, self.arrays, self.on_host = parts, arrays, on_host
        by_queue = {member.engine.queue: member for member in members}
        self._owners = [by_queue.get(array.queue) for array in arrays]
        self._values: dict[int, np.ndarray[Any, Any]] = {}
        for number, (array, owner) in enumerate(zip(arrays, self._owners, strict=True)):
            if owner is None:
                self._values[number] = asnumpy(array)
            else:
                # Reading the events enqueues a marker now: a copy waits for the kernels before it,
                # and not for those of the batch.
                list(array.events)

    def copy_to(self, member: Member, targets: Sequence[Array]) -> None:
        """Copy the arrays to those of a device, and wait for the copies between devices."""
        boxes: dict[Member, list[moves.Box]] = {}
        for number, (array, owner, target) in enumerate(
            zip(self.arrays, self._owners, targets, strict=True)
        ):
            part = target[: array.size]
            if owner is member:
                elementwise("x", x=array, out=part)
            elif owner is None:
                part.set(self._values[number])
            else:
                boxes.setdefault(owner, []).append(moves.all_bytes(array, part))
        if boxes:  # the kernels so far may read the targets
            member.copies_after_kernels()
        for owner, owned in boxes.items():
            moves.move_boxes(owner, owned, member)


class NetworkParts:
    """The modules and the buffers of a network, which are looked up once.

    The buffers on a device become views of flat arrays, one for each queue and dtype, so that a
    copy of them is one call.

    Attributes:
        modules: The network, and all modules in it.
    """

    def __init__(self, module: Module) -> None:
        """Look up the parts of a network."""
        self.modules = list(_modules(module))
        self._counting: list[Any] = [layer for layer in self.modules if hasattr(layer, "calls")]
        values = [
            value for layer in self.modules for value in vars(layer).values()
            if isinstance(value, Buffer)
        ]  # fmt: skip
        buffers = list({id(buffer): buffer for buffer in values}.values())
        self._on_host = [buffer for buffer in buffers if isinstance(buffer.data, np.ndarray)]
        self._on_device = [buffer for buffer in buffers if isinstance(buffer.data, DEVICE_KINDS)]
        self._flat: list[Array] = []
        self._views: list[Array] = []

    def statistics(self) -> list[Array]:
        """Return the flat arrays of which the buffers on a device are views."""
        data = [buffer.data for buffer in self._on_device]
        if len(data) != len(self._views) or not all(map(is_, data, self._views)):
            self._flatten()
        return self._flat

    def _flatten(self) -> None:
        """Move the buffers on a device into new flat arrays."""
        groups: dict[Any, list[Buffer]] = {}
        for buffer in self._on_device:
            groups.setdefault((buffer.data.queue, buffer.data.dtype), []).append(buffer)
        self._flat, self._on_device, views = [], [], []
        for (queue, _), buffers in groups.items():
            values = [np.ravel(asnumpy(buffer.data)) for buffer in buffers]
            flat = asarray(np.concatenate(values), queue=queue)
            ends = np.cumsum([array.size for array in values]).tolist()
            for buffer, values_of_buffer, end in zip(buffers, values, ends, strict=True):
                views.append(flat[end - values_of_buffer.size : end].reshape(buffer.data.shape))
            self._flat.append(flat)
            self._on_device += buffers
        for buffer, view in zip(self._on_device, views, strict=True):
            buffer.data = view
        self._views = views

    def host_state(self) -> HostState:
        """Return the state on the host."""
        return HostState(
            [module.calls for module in self._counting],
            [buffer.data.copy() for buffer in self._on_host],
        )

    def restore(self, state: HostState, masks: int = 0) -> None:
        """Set the state on the host, with counters of random masks that are larger by a number."""
        for module, calls in zip(self._counting, state.calls, strict=True):
            module.calls = calls + masks
        for buffer, value in zip(self._on_host, state.buffers, strict=True):
            buffer.set(value)

    def move_to(self, engine: Engine) -> None:
        """Copy the buffers on a device to another one."""
        for buffer in self._on_device:
            buffer.data = asarray(buffer.data, engine=engine)


class Replica:
    """A copy of the network on a device.

    Attributes:
        module: The copy.
        parts: Its parts.
    """

    def __init__(
        self,
        module: Module,
        pairs: list[tuple[Array, Array, list[ModuleParameter]]],
        member: Member,
    ) -> None:
        """Copy a network whose parameters are in pairs of flat arrays."""
        self._member = member
        self.module = copy.deepcopy(module)
        self._parameters = as_parameters(self.module.parameters())
        copies = dict(
            zip(map(id, as_parameters(module.parameters())), self._parameters, strict=True)
        )
        for parameter in self._parameters:
            data = asarray(parameter.data, engine=member.engine)
            parameter.bind(data, None, None)
            parameter.has_grad = False
        self._flats = [Flat([copies[id(p)] for p in parameters]) for *_, parameters in pairs]
        self.parts = NetworkParts(self.module)
        self.parts.move_to(member.engine)
        self._starts = [values.copy() for values in self.parts.statistics()]
        self._host_start = self.parts.host_state()

    def refresh(self, state: NetworkState) -> None:
        """Take over the state of the network."""
        state.copy_to(self._member, [flat.data for flat in self._flats] + self._starts)
        for mine, theirs in zip(self.parts.modules, state.parts.modules, strict=True):
            mine.training = theirs.training
        self._host_start = state.on_host

    def begin(self, number: int) -> None:
        """Return to the state at the start of the batch, with random masks of a micro-batch."""
        for parameter in self._parameters:
            parameter.zero_grad()
        for values, start in zip(self.parts.statistics(), self._starts, strict=True):
            elementwise("x", x=start, out=values)
        self.parts.restore(self._host_start, number * _MASKS)

    def have_gradients(self) -> list[bool]:
        """Return for each parameter of the pairs whether the micro-batch gave it a gradient."""
        return [parameter.has_grad for flat in self._flats for parameter in flat.parameters]

    def changes(self) -> list[Array]:
        """Return copies of the gradients, and how much the statistics have changed."""
        grads = []
        for flat in self._flats:
            clear(flat.parameters)
            grads.append(flat.grad.copy())
        return grads + [
            elementwise("x - s", x=values, s=start)
            for values, start in zip(self.parts.statistics(), self._starts, strict=True)
        ]


def _modules(module: Module) -> Iterator[Module]:
    """A module and all modules in it."""
    yield module
    for _, child in module.named_children():
        yield from _modules(child)
