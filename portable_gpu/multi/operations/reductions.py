"""Reductions of arrays on a group: each device reduces its blocks, and the host folds the results.

The results of the blocks, which are small, are copied to the host in one piece from each device,
and are folded there by a binary tree over the numbers of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.codegen.reductions import Request
from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.multi import collectives, failures, moments, transfers
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.member import Member
from portable_gpu.multi.merge_tree import merged
from portable_gpu.multi.merging import in_double, merged_extremes, merged_moments, merged_norms
from portable_gpu.multi.operations.operands import (
    Cut,
    blocks_of,
    compute_on_one,
    cut_of,
    on_device,
    operand,
    recorded_kernels,
)
from portable_gpu.ops.reduce import call
from portable_gpu.ops.reduce.call import Axes, Rule, normalise_axes, run
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.layout import Shape
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.runtime.views import check_output

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup
    from portable_gpu.runtime.engine import Engine

_Values = np.ndarray[Any, Any]
#: How the results of two blocks are folded.
_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
    "count_nonzero": np.add,
    "asum": np.add,
    "mean": np.add,
    "nrm2": merged_norms,
    "dot": np.add,
    "vdot": np.add,
}
#: Reductions that are computed of the means and variances of blocks.
_MOMENTS = ("var", "std")
_POSITIONS = {"argmin": (call.minimum, np.less), "argmax": (call.maximum, np.greater)}


def reduction(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Compute a reduction; the arguments are those of :func:`portable_gpu.ops.reduce.call.run`.

    Returns:
        For arrays of the group a :class:`GroupArray`: replicated, if the axis of the blocks is
        reduced, else in the same blocks.  For arrays of NumPy one of NumPy.
    """
    name, names, out = arguments["name"], arguments["names"], arguments["out"]
    if name not in (*_FOLDS, *_POSITIONS, *_MOMENTS):
        raise UnsupportedError(f"{name} is not computed by a DeviceGroup; sum and mean are")
    inputs = [operand(group, x, n) for x, n in zip(arguments["inputs"], names, strict=True)]
    shape = inputs[0].shape
    dtype = arguments["rule"](*[x.dtype for x in inputs])[1]
    on_host = all(isinstance(x, np.ndarray) for x in inputs)
    reduced = normalise_axes(arguments["axis"], len(shape))
    job = _Job(group, name, names, arguments["rule"], reduced, arguments["keepdims"], on_host)
    if out is not None and not on_host:
        raise ArgumentError("out is given with arrays of a group; the result is a fresh array")
    if out is not None:
        check_output(out, job.result_shape(shape), dtype, "out", True)
    result = job.run(inputs, shape, dtype) if prod(shape) and shape else job.single(inputs)
    if not on_host:
        return result if isinstance(result, GroupArray) else _replicated(group, result)
    if out is not None:
        out[...] = result
        return out
    return result if result.shape else result[()]


class _Job:
    """A reduction, without its arrays.

    Attributes:
        group, name, names, rule, keepdims: The arguments of the call.
        reduced: The axes that are reduced.
        on_host: Whether all arrays are NumPy's.
        axes: The argument ``axis`` of the reduction of a block.
    """

    def __init__(
        self,
        group: DeviceGroup,
        name: str,
        names: tuple[str, ...],
        rule: Rule,
        reduced: frozenset[int],
        keepdims: bool,
        on_host: bool,
    ) -> None:
        self.group, self.name, self.names, self.rule = group, name, names, rule
        self.reduced, self.keepdims, self.on_host = reduced, keepdims, on_host
        self.axes: Axes = tuple(sorted(reduced))
        if name in _POSITIONS:  # which take one axis, or all
            self.axes = self.axes[0] if len(self.axes) == 1 else None

    def result_shape(self, shape: Shape) -> Shape:
        """Return the shape of the result of arrays of a shape."""
        axes = [at for at in range(len(shape)) if self.keepdims or at not in self.reduced]
        return tuple(1 if at in self.reduced else shape[at] for at in axes)

    def single(self, inputs: Sequence[Any]) -> _Values:
        """Reduce arrays without axes or without elements, on one device."""
        values = tuple(x.asnumpy() if isinstance(x, GroupArray) else x for x in inputs)

        def compute(engine: Engine) -> Any:
            return run(
                self.name, values, self.names, self.rule, self.axes, self.keepdims, None,
                engine, None, None,
            )  # fmt: skip

        return np.asarray(compute_on_one(self.group, compute))

    def run(self, inputs: Sequence[Any], shape: Shape, dtype: np.dtype[Any]) -> Any:
        """Reduce arrays with elements."""
        group = self.group
        cut = cut_of(inputs, len(shape), shape)
        if cut is None:
            bounds = group.bounds(shape[0], inputs[0].nbytes)
            cut = Cut(0, bounds, group.owners(len(bounds) - 1))
        operands = [blocks_of(x, cut) for x in inputs]
        if cut.axis not in self.reduced:
            return self._apart(operands, shape, dtype, cut)
        # Blocks without elements, as of parts that were given, have no largest or smallest one.
        filled = [number for number, (start, stop) in enumerate(cut.ranges) if start < stop]
        operands = [[blocks[number] for number in filled] for blocks in operands]
        starts = [cut.bounds[number] for number in filled]
        cut = Cut(cut.axis, (*starts, cut.bounds[-1]), [cut.members[number] for number in filled])
        if self.name in _POSITIONS:
            return self._position(operands[0], shape, cut)
        if self.name in _MOMENTS:
            return self._moment(operands[0], shape, dtype, cut)
        rule = self._of_blocks(dtype)
        parts = self._partials(operands, rule, shape, cut)
        with np.errstate(all="ignore"):
            total = np.asarray(merged(parts, _FOLDS[self.name]))
        if self.name == "mean":
            total = total / total.dtype.type(prod(shape[at] for at in self.reduced))
        return np.asarray(total, dtype)

    def _apart(
        self, operands: Sequence[Sequence[Any]], shape: Shape, dtype: np.dtype[Any], cut: Cut
    ) -> GroupArray | _Values:
        """Reduce other axes than that of the blocks, each block by itself."""
        axis = cut.axis
        at = axis if self.keepdims else axis - sum(other < axis for other in self.reduced)
        whole = self.result_shape(shape)
        host = np.empty(whole, dtype) if self.on_host else None

        def work(member: Member, number: int) -> GroupBlock:
            start, stop = cut.range(number)
            if host is not None:
                result: Any = transfers.part(host, at, start, stop)
            else:
                result = member.empty((*whole[:at], stop - start, *whole[at + 1 :]), dtype)
            with recorded_kernels(member, number, on_host=self.on_host):
                self._block(member, [x[number] for x in operands], self.rule, result)
            return GroupBlock(start, stop, member, result)

        blocks = self.group.for_blocks(cut.members, work, waits=self.on_host)
        return GroupArray(self.group, whole, dtype, at, blocks) if host is None else host

    def _partials(
        self, operands: Sequence[Sequence[Any]], rule: Rule, shape: Shape, cut: Cut
    ) -> list[_Values]:
        """Return the result of each block in NumPy."""
        if self.on_host:

            def compute(member: Member, number: int) -> _Values:
                arrays = [x[number] for x in operands]
                with recorded_kernels(member, number, on_host=True):
                    return np.asarray(self._block(member, arrays, rule, None))

            return self.group.for_blocks(cut.members, compute, waits=True)
        dtype = rule(*[x[0].dtype for x in operands])[1]
        single = self.result_shape(shape)
        numbers: dict[Member, list[int]] = {}
        for number, member in enumerate(cut.members):
            numbers.setdefault(member, []).append(number)
        memory = {
            member: member.pooled((len(listed), *single), dtype)
            for member, listed in numbers.items()
        }

        # The place of each block's result in the memory of its device.
        places = {number: at for listed in numbers.values() for at, number in enumerate(listed)}
        nbytes = prod(single) * dtype.itemsize

        def enqueue(member: Member, number: int) -> tuple[Member, Array] | None:
            is_local = member is cut.members[number]
            result = None
            if is_local:
                result = Array(
                    member.engine.queue, single, dtype, data=memory[member].base_data,
                    offset=places[number] * nbytes,
                )  # fmt: skip
            with recorded_kernels(member, number):
                arrays = [x[number] for x in operands]
                result = self._block(member, arrays, rule, result)
            return None if is_local else (member, member.count(result))

        results = self.group.for_blocks(cut.members, enqueue)
        parts: dict[int, _Values] = {}
        copies = []
        for member, listed in numbers.items():
            with member.named_errors():
                copies.append((listed, member, memory[member].get_async()))
        for listed, member, (values, event) in copies:
            with member.named_errors():
                event.wait()
            parts |= dict(zip(listed, values, strict=True))
        for number, moved in enumerate(results):
            if moved is not None:  # the block's device failed
                member, part = moved
                with member.named_errors():
                    parts[number] = part.get()
        return [np.asarray(parts[number]) for number in range(len(cut.members))]

    def _block(self, member: Member, arrays: Sequence[Any], rule: Rule, out: Any) -> Any:
        """Reduce one block on its device."""
        if not self.on_host:
            arrays = [on_device(self.group, member, array) for array in arrays]
        return run(
            self.name, tuple(arrays), self.names, rule, self.axes, self.keepdims, out,
            member.engine, None, None,
        )  # fmt: skip

    def _of_blocks(self, dtype: np.dtype[Any]) -> Rule:
        """Return the rule of a block: sums of 16-bit floats have results in float32."""
        if self.name == "mean":
            wide = np.dtype(np.float32) if is_float16_like(dtype) else dtype
            return call.sum_like("sum", wide)
        if is_float16_like(dtype) and self.name not in ("min", "max"):
            return _in_float32(self.rule)
        return self.rule

    def _moment(
        self, blocks: Sequence[Any], shape: Shape, dtype: np.dtype[Any], cut: Cut
    ) -> _Values:
        """Return the variances, or their square roots, of arrays of real numbers.

        Raises:
            UnsupportedError: The numbers are complex.
        """
        rule = self.rule(blocks[0].dtype)[0]
        if "c" in (blocks[0].dtype.kind, dtype.kind):
            raise UnsupportedError(
                f"{self.name} of complex numbers by a DeviceGroup does not reduce axis "
                f"{cut.axis}, which is cut; expected real numbers or other axes"
            )
        wide = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)

        def work(member: Member, number: int) -> tuple[Any, ...]:
            array = blocks[number]
            if not self.on_host:
                array = on_device(self.group, member, array)
            with recorded_kernels(member, number, on_host=self.on_host):
                return moments.on_device(array, self.reduced, wide, member.engine)

        results = self.group.for_blocks(cut.members, work, waits=self.on_host)
        parts = []
        for member, block, arrays in zip(cut.members, blocks, results, strict=True):
            count = prod(block.shape[at] for at in self.reduced)
            with member.named_errors():
                parts.append(moments.from_device(count, *[asnumpy(array) for array in arrays]))
        with np.errstate(all="ignore"):
            count, _, _, squares = merged(parts, merged_moments)
            variance = squares / max(0.0, float(count) - rule.ddof)
            result = np.sqrt(variance) if rule.root else variance
        return np.asarray(result, dtype).reshape(self.result_shape(shape))

    def _position(self, blocks: Sequence[Any], shape: Shape, cut: Cut) -> _Values:
        """Return the indices of the largest or smallest elements."""
        rule, is_better = _POSITIONS[self.name]
        every = frozenset(range(len(shape)))
        extreme = _Job(
            self.group, self.name[3:], self.names, rule,
            every if self.axes is None else self.reduced, self.keepdims, self.on_host,
        )  # fmt: skip
        in_blocks = self._partials([blocks], self.rule, shape, cut)
        values = extreme._partials([blocks], rule, shape, cut)
        positions = [
            _moved(position, blocks[number].shape, cut, number, shape, self.axes)
            for number, position in enumerate(in_blocks)
        ]
        pairs = zip(positions, map(in_double, values), strict=True)
        index, _ = merged(pairs, partial(merged_extremes, is_better))
        return np.asarray(index)


def _replicated(group: DeviceGroup, result: _Values) -> GroupArray:
    """Return copies on all devices, whose kernels have ended, in memory of their queues' pools."""
    copies = []
    for member in failures.working(group):
        with member.named_errors():
            copies.append((member, member.count(asarray(result, engine=member.engine))))
    return collectives.replicated(group, copies)


def _moved(
    position: _Values, block: Shape, cut: Cut, number: int, shape: Shape, axes: Axes
) -> _Values:
    """Return positions in a block as positions in the whole array."""
    start = cut.bounds[number]
    if axes is not None:
        return position + start
    index = list(np.unravel_index(position, block))
    index[cut.axis] = index[cut.axis] + start
    return np.asarray(np.ravel_multi_index(tuple(index), shape))


@lru_cache(maxsize=128)
def _in_float32(rule: Rule) -> Rule:
    """Return the rule of a reduction of 16-bit floats with its result in float32."""

    def make(*dtypes: np.dtype[Any]) -> tuple[Request, np.dtype[Any]]:
        what, _ = rule(*dtypes)
        wide = element(np.float32)
        return replace(what, acc=wide, result=wide), np.dtype(np.float32)

    return make
