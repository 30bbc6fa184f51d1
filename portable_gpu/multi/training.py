"""Data-parallel training: the gradients of a batch, computed in micro-batches by several devices.

Each device has a replica of the network.  The gradients of micro-batches are added by a binary tree
over their numbers, and the sum is added to the gradients of the network, whose optimiser makes the
step::

    micro-batch | 0   1 | 2   3 |      each device computes its micro-batches
    gradients   | +---+ | +---+ |      neighbours in pairs
                |   +-------+   |      then these sums in pairs
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from math import fsum
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import of_kind, whole
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.multi import transfers
from portable_gpu.multi.collectives import added
from portable_gpu.multi.copying import copies
from portable_gpu.multi.group import DeviceGroup
from portable_gpu.multi.issue import LEAST_BYTES_FOR_THREADS
from portable_gpu.multi.member import DEVICE_ERRORS, Member
from portable_gpu.multi.merge_tree import MergeTree
from portable_gpu.multi.replicas import HostState, NetworkParts, NetworkState, Replica
from portable_gpu.nn import Module
from portable_gpu.nn.modules.base import Buffer
from portable_gpu.nn.parameter import as_parameters, clear, flattened
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.runtime.views import as_array
from portable_gpu.side_by_side import NoThreadError

_Values = np.ndarray[Any, Any]
#: The least bytes of the first micro-batches that are copied before kernels are enqueued: the
#: threads of the copies take about 2 ms to start.
_LEAST_BYTES_BEFORE = 32 << 20


class DataParallel:
    """Computes the gradients of a network by the devices of a group.

    Example::

        parallel = DataParallel(net, group)
        optimizer = nn.AdamW(net.parameters())
        loss_of = nn.CrossEntropyLoss()
        for images, targets in batches:
            optimizer.zero_grad()
            loss = parallel.backward(images, targets, loss_of)
            optimizer.step()

    The network itself stays where it is, with its optimiser, and is used as without a group.

    Attributes:
        module: The network.
        group: The group.
        micro_batches: The number of parts of a batch.
    """

    def __init__(self, module: Module, group: DeviceGroup, *, micro_batches: int = 8) -> None:
        """Copy the network to each device.

        Args:
            module: The network, on any device.  Its layers and parameters must not be replaced
                afterwards.
            group: The devices.
            micro_batches: The maximum number of parts of a batch.  It decides the order of sums,
                and so their rounding.

        Raises:
            ArgumentTypeError, ArgumentError: An argument is of another kind, ``micro_batches`` is
                below 1, or the network has no parameters.
            DeviceMemoryError: A device lacks memory.

        Memory: on each device, the parameters and their gradients, at most
            ``3 + log2(micro_batches)`` further gradients, the activations of a micro-batch, and the
            examples of all its micro-batches.  Only examples are counted for ``memory_limit`` of
            the group; if it does not admit all of them, those of earlier micro-batches are freed,
            which waits for kernels.
        Threads: one call at a time.
        """
        self.module = of_kind(module, Module, "module", "a portable_gpu.nn.Module")
        self.group = of_kind(group, DeviceGroup, "group", "a DeviceGroup")
        group.check_open()
        if whole(micro_batches, "micro_batches") < 1:
            raise ArgumentError(f"micro_batches is {micro_batches}; expected 1 or more")
        self.micro_batches = micro_batches
        self._pairs = flattened(as_parameters(module.parameters(), "module.parameters()"))
        self._parts = NetworkParts(module)
        self._replicas: dict[Member, Replica] = {}
        for member in group.members:
            with member.named_errors():
                self._replicas[member] = Replica(module, self._pairs, member)

    def backward(self, input: Any, target: Any, loss: Module) -> float:
        """Add the gradients of the loss of a batch to those of the network.

        Args:
            input: The batch: an array of NumPy, or on a device, from which it is copied to NumPy
                first; axis 0 counts its examples.
            target: The targets, with the same number of examples.
            loss: A loss such as ``nn.CrossEntropyLoss()``, with ``reduction="mean"`` or ``"sum"``.
                Means of micro-batches are weighted by their numbers of examples.  For a loss whose
                mean divides by something else (weights of classes, ``ignore_index``) this is not
                the mean of the whole batch, which is not checked: use ``"sum"`` for it.

        Returns:
            The loss.

        Raises:
            ArgumentTypeError, ArgumentError, ShapeError: An argument does not fit, the batch is
                empty, or a target is not a class.  The network is as it was.
            DeviceMemoryError, DeviceFailedError: A device lacks memory or fails.  The network is
                as it was, unless its own device fails while it adds the sums.

        Batch normalisation: each micro-batch is normalised by its own statistics; the running
            statistics change by the mean of their changes.
        Cost: parameters are copied to the replica of each device that has a micro-batch, and one
            gradient comes back.  The host enqueues each micro-batch separately.
        Order: the micro-batches follow from the batch alone, and gradients are added by a binary
            tree over their numbers.  So gradients have the same bits for any number of devices of
            one kind.
        """
        examples, targets = _on_host(input, "input"), _on_host(target, "target")
        if examples.ndim < 1 or targets.shape[:1] != examples.shape[:1]:
            raise ShapeError(
                f"input has shape {examples.shape}, and target has {targets.shape}; axis 0 of both "
                "counts the examples"
            )
        total = len(examples)
        if not total:
            raise ArgumentError("input is a batch without examples; expected one or more")
        reduction = getattr(of_kind(loss, Module, "loss", "a module of a loss"), "reduction", None)
        if reduction not in ("mean", "sum"):
            raise ArgumentError("loss has no reduction 'mean' or 'sum'; expected one of these")
        count = min(self.micro_batches, total)
        bounds = [k * total // count for k in range(count + 1)]
        owners = self.group.owners(count)
        state = [data.reshape(-1) for data, *_ in self._pairs] + self._parts.statistics()
        host_state = self._parts.host_state()
        of_network = NetworkState(self._parts, state, host_state, self.group.members)
        loss_on: dict[Member, Any] = {}
        parts = [(examples[i:j], targets[i:j]) for i, j in pairwise(bounds)]
        fresh: set[Member] = set()  # whose replicas have the state of the network

        def refresh_all() -> None:
            for member in dict.fromkeys(owners):
                with suppress(*DEVICE_ERRORS):  # ``work`` repeats what failed
                    self._replicas[member].refresh(of_network)
                    fresh.add(member)
                    loss_on[member] = _moved(loss, member)

        on_devices = _copy_first(parts, owners, refresh_all)
        # Arrays that kernels read.  NVIDIA's driver waits for all kernels of a device before it
        # frees a buffer, and blocks other threads meanwhile.
        in_use: dict[Member, list[Array]] = {member: [] for member in self.group.members}
        # Sums of one device are added as soon as both exist, so that few are kept.
        tree = MergeTree(added, lambda left, right: left[0] is right[0])

        def work(member: Member, number: int) -> _MicroBatchResult:
            weight = len(parts[number][0]) / total if reduction == "mean" else 1.0
            replica = self._replicas[member]
            if member not in fresh:
                replica.refresh(of_network)
                fresh.add(member)
            if member not in loss_on:
                loss_on[member] = _moved(loss, member)
            replica.begin(number)
            inputs = on_devices.pop((member, number), None)
            if inputs is None:
                if member.free < 2 * sum(values.nbytes for values in parts[number]):
                    in_use[member].clear()
                inputs = [_on_device(member, values) for values in parts[number]]
            x, wanted = inputs
            result = loss_on[member].forward(replica.module(x), wanted)
            scale = member.empty(result.shape, result.dtype).fill(weight)
            replica.module.backward(loss_on[member].backward(scale))
            tree.add(number, (member, replica.changes()))
            in_use[member] += x, wanted, scale
            return _MicroBatchResult(
                member, result, weight, replica.parts.host_state(), replica.have_gradients()
            )

        waits = examples.nbytes >= LEAST_BYTES_FOR_THREADS
        results = self.group.for_blocks(owners, work, waits=waits)
        # A repeated merge goes on where the failed one ended.
        [(member, sums)] = self.group.for_blocks(owners[:1], lambda *_: tree.whole())
        losses = []
        for result in results:
            with result.member.named_errors():
                losses.append(float(result.loss.get()) * result.weight)
        first_state = results[0].state
        has_grads = [
            any(flags) for flags in zip(*(result.has_grads for result in results), strict=True)
        ]
        del result, results
        in_use.clear()  # no kernel runs now: each loss was waited for
        with member.named_errors():
            moved = [_on_queue(total, own.queue) for total, own in zip(sums, state, strict=True)]
        self._add(moved, count, has_grads)
        self._parts.restore(first_state)
        return fsum(losses)

    def _add(self, sums: list[Array], count: int, has_grads: list[bool]) -> None:
        """Add gradients and changes of statistics to the network's own.

        Args:
            sums: The gradient of each pair of flat arrays, and the changes of the statistics.
            count: The number of micro-batches.
            has_grads: For each parameter of the pairs, whether a micro-batch gave it a gradient.
        """
        grads, changes = sums[: len(self._pairs)], sums[len(self._pairs) :]
        for (_, grad, parameters), total in zip(self._pairs, grads, strict=True):
            own_gradient = total[: grad.size].reshape(grad.shape)
            if any(parameter.has_grad for parameter in parameters):
                clear(parameters)
                elementwise("g + d", g=grad, d=own_gradient, out=grad)
            else:
                elementwise("x", x=own_gradient, out=grad)
        every = [parameter for *_, parameters in self._pairs for parameter in parameters]
        for parameter, has_grad in zip(every, has_grads, strict=True):
            parameter.has_grad |= has_grad
        for values, change in zip(self._parts.statistics(), changes, strict=True):
            elementwise("x + d / n", x=values, d=change, n=float(count), out=values)


def _copy_first(
    parts: Sequence[Sequence[_Values]], owners: Sequence[Member], meanwhile: Callable[[], None]
) -> dict[tuple[Member, int], list[Array]]:
    """Copy the first micro-batch of each device, if it is large, before kernels are enqueued.

    A thread that copies needs Python's lock after each piece, and a thread that enqueues kernels
    keeps the lock for 5 ms at a time.

    Args:
        parts: The arrays of each micro-batch.
        owners: The device of each micro-batch.
        meanwhile: A function that is called during the copies.

    Returns:
        The arrays by device and number; none after an error of a device, when ``meanwhile`` may not
        have been called.
    """
    members = list(dict.fromkeys(owners))
    firsts = [(member, owners.index(member)) for member in members]
    nbytes = sum(values.nbytes for _, number in firsts for values in parts[number])
    if nbytes < _LEAST_BYTES_BEFORE or any(member.engine.maps_host_memory for member in members):
        meanwhile()
        return {}
    arrays = {}
    try:
        with copies(members) as running:
            for member, number in firsts:
                uploaded = [member.empty(values.shape, values.dtype) for values in parts[number]]
                arrays[member, number] = uploaded
                for values, array in zip(parts[number], uploaded, strict=True):
                    if values.size:
                        running.upload(values, [(member, array)])
            meanwhile()
        for member in members:
            member.kernels_after_copies()
    except (NoThreadError, *DEVICE_ERRORS):
        return {}
    return arrays


class _MicroBatchResult(NamedTuple):
    """The results of a device for a micro-batch, except the gradients.

    Attributes:
        member: The device.
        loss: The loss on the device.
        weight: The weight of this loss in the loss of the batch.
        state: The state of the replica afterwards.
        has_grads: For each parameter, whether it has a gradient.
    """

    member: Member
    loss: Array
    weight: float
    state: HostState
    has_grads: list[bool]


def _moved(loss: Module, member: Member) -> Any:
    """Return a copy of a loss on a device."""
    result = copy.copy(loss)
    for name, value in vars(loss).items():
        if isinstance(value, Buffer):
            setattr(result, name, Buffer(asnumpy(value.data), member.engine))
    return result


def _on_host(value: Any, name: str) -> _Values:
    array = as_array(value, name)
    return asnumpy(array)


def _on_device(member: Member, values: _Values) -> Array:
    array = member.empty(values.shape, values.dtype)
    transfers.upload(member, values, array)
    return array


def _on_queue(array: Array, queue: cl.CommandQueue) -> Array:
    """Return an array on the device of a queue."""
    return array if array.queue == queue else asarray(array.get(), queue=queue)
