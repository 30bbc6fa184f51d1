"""Large products of NumPy's matrices on devices with memory of their own.

One operand is cut into blocks, of which each device has some.  The other is cut into panels, which
all devices need.  Blocks and panels are copied by turns, and a tile of the result is computed as
soon as its block and its panel are on the device, so that both operands are copied under kernels::

             | panel 0 | panel 1 |       copies: panel 0, block 0, block 1, panel 1, block 2, ...
    block 0  |    1    |    3    |
    block 1  |    2    |    4    |       The numbers are the order of the tiles.
    block 2  |    5    |    6    |

Each byte of an operand is copied to pinned memory once, and crosses the link of a device once.  The
operands and the result stay on the devices until the call ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.errors import DeviceMemoryError
from portable_gpu.multi import failures, transfers
from portable_gpu.multi.copying import Copies, PendingCopy, copies
from portable_gpu.multi.member import DEVICE_ERRORS, Member
from portable_gpu.multi.operations.operands import Cut, recorded_kernels
from portable_gpu.runtime.array import Array
from portable_gpu.side_by_side import NoThreadError

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

#: The largest number of panels, and the least bytes of one.
_MOST_PANELS, _LEAST_PANEL = 8, 32 << 20
#: Panels begin at multiples of it, which are whole tiles of kernels.
_UNIT = 64
#: Operands and result take at most a half of the memory of a device.
_MEMORY_DIVISOR = 2

_Values = np.ndarray[Any, Any]


class HostProduct(NamedTuple):
    """A product of two matrices of NumPy.

    Attributes:
        blocks: The operand that is cut into blocks, and ``axis_of_blocks`` the axis.
        panels: The operand that all devices need, and ``axis_of_panels`` the axis that is cut.
        result: The matrix for the result, whose axis ``cut.axis`` is that of the blocks.
        cut: The blocks with their devices.
        compute: Enqueues the kernels of a tile, given its block, its panel, the array of the tile,
            and the engine.
    """

    blocks: _Values
    axis_of_blocks: int
    panels: _Values
    axis_of_panels: int
    result: _Values
    cut: Cut
    compute: Callable[[Any, Any, Any, Any], Any]


def fits(group: DeviceGroup, product: HostProduct) -> bool:
    """Return whether a product is computed in tiles.

    It is large enough for pinned memory, and each device has memory of its own for all of it.
    """
    arrays = product.blocks, product.panels, product.result
    nbytes = sum(x.nbytes for x in arrays)
    has_memory = all(
        not member.engine.maps_host_memory and nbytes <= member.limit // _MEMORY_DIVISOR
        for member in group.members
    )
    if not has_memory:
        return False
    extent = product.cut.bounds[-1]
    widest = max(stop - start for start, stop in product.cut.ranges)
    buffers = [x.nbytes * widest // extent for x in (product.blocks, product.result)]
    buffers.append(product.panels.nbytes // panel_count(product.panels))
    max_buffer = min(member.engine.target.facts.max_alloc_size for member in group.members)
    return min(x.nbytes for x in arrays) >= _LEAST_PANEL and max(buffers) <= max_buffer // 2


def panel_count(values: _Values) -> int:
    """Return the number of panels of an operand."""
    count: int = min(_MOST_PANELS, values.nbytes // _LEAST_PANEL, min(values.shape))
    return max(1, count)


def compute_in_tiles(group: DeviceGroup, product: HostProduct) -> bool:
    """Compute a product, and wait.

    Returns:
        Whether the devices had the memory, and the system the threads.  If not, or if a device
        failed and the group retries, the result has unspecified values.

    Raises:
        DeviceMemoryError, DeviceFailedError: A device lacks memory for a workspace, or fails, and
            the group does not retry; the message names the device and the block.
    """
    # A group that is closed meanwhile has no states, and the error of the call is to be raised.
    states = [member.engine.state() for member in dict.fromkeys(product.cut.members)]
    try:
        return _compute(group, product)
    finally:  # the memory of the parts is unused now
        for state in states:
            state.trim_pool()


def _compute(group: DeviceGroup, product: HostProduct) -> bool:
    """See :func:`compute_in_tiles`; memory stays in the pools."""
    extent = product.panels.shape[product.axis_of_panels]
    count = panel_count(product.panels)
    unit = _UNIT if extent >= 8 * _UNIT * count else 1
    bounds = [k * extent // count // unit * unit for k in range(count)] + [extent]
    members = list(dict.fromkeys(product.cut.members))
    try:
        parts = {member: _DevicePart(product, bounds, member) for member in members}
    except DeviceMemoryError:
        return False
    try:
        with copies(members) as running:
            _begin_uploads(running, product, bounds, parts)
            tasks = []
            for part in parts.values():
                computed = running.queue()
                tasks += [partial(part.enqueue, computed), partial(part.store, computed, running)]
            running.side_by_side(tasks)
    except NoThreadError:
        return False
    except DEVICE_ERRORS:
        if group.on_failure == "raise":
            raise
        failures.drain(group.members)
        return False
    return True


class _Upload(NamedTuple):
    """An operand's part on the way to a device: a block or, if ``is_panel``, a panel."""

    is_panel: bool
    number: int
    copy: PendingCopy


class _Tile(NamedTuple):
    """A tile of the result, whose kernels are enqueued.

    Attributes:
        done: The end of its kernels.
        array, target: The tile on the device, and its place in NumPy's array.
    """

    done: cl.Event
    array: Array
    target: _Values


class _DevicePart:
    """The blocks of one device, the panels, and the tiles of the result.

    Attributes:
        blocks: The array of each of its blocks, by the number of the block.
        panels: The array of each panel.
        uploads: The copies of these, in the order in which they end.
    """

    def __init__(self, product: HostProduct, bounds: Sequence[int], member: Member) -> None:
        """Allocate the arrays."""
        self._product, self._bounds, self._member = product, bounds, member
        cut = product.cut

        def empty(values: _Values, axis: int, start: int, stop: int) -> Array:
            return member.pooled(transfers.part(values, axis, start, stop).shape, values.dtype)

        numbers = [k for k, owner in enumerate(cut.members) if owner is member]
        self.blocks = {
            k: empty(product.blocks, product.axis_of_blocks, *cut.range(k)) for k in numbers
        }
        self.panels = [
            empty(product.panels, product.axis_of_panels, *pair) for pair in pairwise(bounds)
        ]
        self._results = {k: empty(product.result, cut.axis, *cut.range(k)) for k in numbers}
        member.copies_after_kernels()  # kernels so far may use the memory of the pool
        self.uploads: list[_Upload] = []

    def enqueue(self, computed: SimpleQueue[_Tile | None]) -> None:
        """Enqueue the kernels of each tile when its block and its panel are on the device.

        Args:
            computed: Gets the tiles, and ``None`` at the end.
        """
        blocks: list[int] = []
        panels: list[int] = []
        member, count = self._member, len(self._product.cut.members)
        number = 0
        try:
            for upload in self.uploads:
                upload.copy.wait()
                (panels if upload.is_panel else blocks).append(upload.number)
                member.kernels_after_copies()
                for number in [*blocks] if upload.is_panel else [upload.number]:
                    for panel in [upload.number] if upload.is_panel else panels:
                        computed.put(self._compute(number, panel))
        except DEVICE_ERRORS as error:
            raise failures.block_error(error, member, number, count) from error
        finally:
            computed.put(None)

    def _compute(self, number: int, panel: int) -> _Tile:
        """Enqueue the kernels of a tile."""
        product, member = self._product, self._member
        start, stop = self._bounds[panel : panel + 2]
        whole, other = self._results[number], 1 - product.cut.axis
        of_block = transfers.part(product.result, product.cut.axis, *product.cut.range(number))
        target = transfers.part(of_block, other, start, stop)
        # The tiles of a block follow each other in its memory, each in C order.
        before = whole.nbytes // max(1, whole.shape[other]) * start
        tile = Array(
            member.engine.queue, target.shape, target.dtype, data=whole.base_data, offset=before
        )
        with recorded_kernels(member, number), member.engine.staging.enqueue_lock:
            product.compute(self.blocks[number], self.panels[panel], tile, member.engine)
            done = cl.enqueue_marker(member.engine.queue)
            member.engine.queue.flush()
        return _Tile(done, tile, target)

    def store(self, computed: SimpleQueue[_Tile | None], running: Copies) -> None:
        """Copy each tile to NumPy when it is computed, and wait for the copies."""
        downloads = []
        while (tile := computed.get()) is not None:
            with self._member.named_errors():
                tile.done.wait()
            downloads.append(running.download(self._member, tile.array, tile.target))
        for copy in downloads:
            copy.wait()


def _begin_uploads(
    running: Copies,
    product: HostProduct,
    bounds: Sequence[int],
    parts: dict[Member, _DevicePart],
) -> None:
    """Begin all copies to the devices: each device gets its blocks and the panels by turns."""
    last = len(bounds) - 1
    order: list[tuple[float, int, Member | None]] = [
        ((k + 0.5) / last, k, None) for k in range(last)
    ]
    for member, part in parts.items():
        share = len(part.blocks)
        order += [((at + 0.5) / share, k, member) for at, k in enumerate(part.blocks)]
    order.sort(key=lambda entry: entry[:2])
    for _, number, owner in order:
        if owner is None:
            pair = bounds[number : number + 2]
            values = transfers.part(product.panels, product.axis_of_panels, *pair)
            copy = running.upload(values, [(m, part.panels[number]) for m, part in parts.items()])
            for part in parts.values():
                part.uploads.append(_Upload(True, number, copy))
        else:
            part = parts[owner]
            pair = product.cut.range(number)
            values = transfers.part(product.blocks, product.axis_of_blocks, *pair)
            copy = running.upload(values, [(owner, part.blocks[number])])
            part.uploads.append(_Upload(False, number, copy))
