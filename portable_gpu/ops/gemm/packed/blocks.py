"""The blocks of a packed product: slabs that fit the workspace, and shares of k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portable_gpu.ops.caches import PAGE_BYTES
from portable_gpu.ops.gemm.packed.forms import PackedForm
from portable_gpu.ops.gemm.problem import GemmProblem

#: Bytes of scratch that one call may use: a third each for A, B and unfinished sums.
WORKSPACE = 192 << 20
#: If B is not packed: the steps of k for which a work-item computes one tile before the next.
VISIT = 64
#: If B is not packed: the least bytes of a row of B that a work-item reads.
RUN_BYTES = 4 << 10
#: The least flop of a work-item, compared with which a work-group starts in little time (0.1 us).
ITEM_FLOP = 2_000_000
#: The least flop of a compute unit, compared with which a launch takes little time (40 us).
LAUNCH_FLOP = 80_000_000


@dataclass(frozen=True)
class Slab:
    """The parts of A and B that are packed and multiplied at once.

    Attributes:
        first, products: The first product of the slab in the batch, and the slab's products.
        row, rows: The first row of A of the slab, and the number of its rows.
        col, cols: The first column of B of the slab, and the number of its columns.
        step, steps: The first step of k of the slab, and the number of its steps.
    """

    first: int
    products: int
    row: int
    rows: int
    col: int
    cols: int
    step: int
    steps: int


class Blocks:
    """The blocks of a product that is computed in slabs.

    A third of the workspace is for packed parts of A, one for those of B, and one for sums of
    tiles.  k is divided as follows::

        share_steps   steps of a share, the part of k that a work-item adds to a tile in a launch
        splits        shares of a tile that work-items add at the same time, each to its own sums
        rounds        how often they do so, in sequence: splits x rounds x share_steps >= k
        shares        shares of k in a slab, which one launch packs

    Attributes:
        splits, share_steps, shares: See above.
        visit_steps: The steps of k that a work-item adds to one tile before it goes to the next.
        slabs: The slabs, which are computed one after the other.
        common_a, common_b: Whether the operand is the same for every product, and packed once.
        pack_sizes: The pair (steps, panels) of A that a work-item packs, and that of B.
        sizes: The bytes of the packed parts of ``"a"`` and ``"b"``, and of the sums (``""``).
        panels_each: The number of panels of B that a work-item multiplies.
    """

    def __init__(self, core: GemmProblem, form: PackedForm, units: int) -> None:
        """Cut a product, as it is computed, for a number of compute units."""
        self._core = core
        self.common_a, self.common_b = not any(core.a.batch), not any(core.b.batch)
        policy = form.policy
        itemsize = core.compute.itemsize
        tiles = core.tiles(policy.item_m, policy.item_n) * core.batch_size
        target_splits = -(-4 * units // tiles)
        self.splits = splits = max(1, min(target_splits, core.k // 512)) if target_splits > 1 else 1
        third = WORKSPACE // 3
        if form.b_packed:
            launch_steps = LAUNCH_FLOP * units * core.k // max(1, core.flop)  # steps of a launch
            max_depth = max(64, third // (itemsize * max(policy.item_m, policy.item_n)))
            depth = min(max_depth, max(policy.depth, min(4 * policy.depth, launch_steps)))
        else:
            # No panels of B limit a share, which a work-item reads in many visits of a tile.
            depth = max_depth = max(policy.depth, VISIT << 10)
        is_one_round = core.k <= splits * min(max_depth, 2 * depth)
        rounds = 1 if is_one_round else -(-core.k // (splits * depth))
        self.share_steps = share_steps = max(1, -(-core.k // (splits * rounds)))
        self.visit_steps = share_steps if form.b_packed else min(share_steps, VISIT)
        slab_shares = max_depth // share_steps
        if core.m * core.n * itemsize <= third:
            # Whole rows and columns: fewer, larger launches than of deep, small slabs.
            packed_extents = (core.m * form.a_packed, core.n * form.b_packed)
            slab_shares = third // max(1, itemsize * max(packed_extents)) // share_steps
        self.shares = shares = splits if splits > 1 else max(1, min(rounds, slab_shares))
        slab_k = share_steps * shares
        # Sums are in memory where a tile is computed in several visits.
        keeps_sums = share_steps < core.k or self.visit_steps < share_steps
        rows = max(1, third // (slab_k * itemsize * policy.item_m)) * policy.item_m
        cols = max(1, third // (slab_k * itemsize * policy.item_n)) * policy.item_n
        rows = core.m if not form.a_packed else min(rows, core.m)
        cols = core.n if not form.b_packed else min(cols, core.n)
        if keeps_sums:
            panels = third // (splits * itemsize * policy.item_m * policy.item_n)
            cols = min(cols, max(1, panels) * policy.item_n)
            max_rows = third // (splits * itemsize * -(-cols // policy.item_n) * policy.item_n)
            rows = min(rows, max(1, max_rows // policy.item_m) * policy.item_m)
        rows, cols = _even(core.m, rows, policy.item_m), _even(core.n, cols, policy.item_n)
        bytes_of_product = slab_k * itemsize * max(rows * form.a_packed, cols * form.b_packed)
        if keeps_sums:
            bytes_of_product = max(bytes_of_product, splits * itemsize * rows * cols)
        is_whole = (rows, cols) == (core.m, core.n)
        products = max(1, third // max(1, bytes_of_product)) if is_whole else 1
        products = min(products, core.batch_size)
        self.pack_sizes = (
            grain(core.a.row, policy.item_m * core.a.elem.itemsize, policy.chunk),
            grain(core.b.col, policy.item_n * core.b.elem.itemsize, policy.chunk),
        )
        self.slabs = list(self._cut(products, rows, cols, slab_k))
        panels_a, panels_b = -(-rows // policy.item_m), -(-cols // policy.item_n)
        copies_a, copies_b = (
            1 if is_common else products for is_common in (self.common_a, self.common_b)
        )
        slab_bytes = slab_k * itemsize
        tile_bytes = policy.item_m * policy.item_n * itemsize
        self.sizes = {
            "a": form.a_packed * copies_a * panels_a * policy.item_m * slab_bytes,
            "b": form.b_packed * copies_b * panels_b * policy.item_n * slab_bytes,
            "": keeps_sums * splits * products * panels_a * panels_b * tile_bytes,
        }
        flop_of_tile = 2 * policy.item_m * policy.item_n * core.compute.components * share_steps
        panels_each = max(1, ITEM_FLOP // max(1, flop_of_tile))
        if not form.b_packed:
            panels_each = max(panels_each, RUN_BYTES // (policy.item_n * itemsize))
        panels_each = min(
            panels_each, max(1, panels_a * panels_b * products // (8 * units)), panels_b
        )
        # Work-items have nearly the same number of panels, so that threads end at the same time.
        items = -(-panels_b // panels_each)
        self.panels_each = -(-panels_b // items)

    def _cut(self, products: int, rows: int, cols: int, steps: int) -> Iterator[Slab]:
        """Yield the slabs of at most these extents, without those outside of a triangle of C."""
        core = self._core
        for first in range(0, core.batch_size, products):
            for col in range(0, core.n, cols):
                for row in range(0, core.m, rows):
                    block = self._in_triangle(
                        row, min(row + rows, core.m), col, min(col + cols, core.n)
                    )
                    if block is None:
                        continue
                    top, bottom, left, right = block
                    for step in range(0, max(1, core.k), steps):
                        yield Slab(
                            first=first, products=min(products, core.batch_size - first), row=top,
                            rows=bottom - top, col=left, cols=right - left, step=step,
                            steps=min(steps, core.k - step),
                        )  # fmt: skip

    def _in_triangle(
        self, top: int, bottom: int, left: int, right: int
    ) -> tuple[int, int, int, int] | None:
        """The rows and columns of a block of C that have elements to compute, if there are any."""
        if self._core.triangle == "lower":
            top, right = max(top, left), min(right, bottom)
        elif self._core.triangle == "upper":
            left, bottom = max(left, top), min(bottom, right)
        return (top, bottom, left, right) if top < bottom and left < right else None


def _even(extent: int, most: int, multiple: int) -> int:
    """The size of the pieces, at most ``most``, into which an extent is cut most evenly."""
    if extent <= most:
        return extent
    return -(-extent // (-(-extent // most) * multiple)) * multiple


def grain(lane_stride: int, bytes_across: int, chunk: int) -> tuple[int, int]:
    """Steps and panels that one work-item packs: long runs of the source, one after the other."""
    return (16, max(1, PAGE_BYTES // bytes_across)) if lane_stride == 1 else (chunk, 1)
