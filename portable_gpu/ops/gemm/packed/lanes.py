"""Many small products on a CPU: each has a lane of every vector."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.caches import L1_BYTES
from portable_gpu.ops.gemm.operands import (
    batch_parameters,
    extents,
    factors,
    matrix_parameters,
    strides,
)
from portable_gpu.ops.gemm.packed.forms import PackedForm, in_place
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures

#: Work-items for each compute unit, where there are several; rows and columns of a tile.
ITEMS, TILE = 16, 4
#: The least estimated gain of products side by side: the median error of the estimates is a tenth.
LEAST_GAIN = 1.15


def specialization(problem: GemmProblem, policy: PackedPolicy, target: Target) -> Specialization:
    """The kernel for a problem."""
    e = problem.compute
    parameters = [
        buffer(f"{e.name}_t", "scratch", writes=True, restrict=False),
        *scalars("long", "m", "n", "steps", "blocks_each", "count"),
        *scalars("int", "common_a", "common_b"),
        *factors(e),
        *matrix_parameters("a", e, 1),
        *matrix_parameters("b", e, 1),
        *matrix_parameters("c", e, 1, writes=True),
        *batch_parameters(1),
    ]
    kernels = {"lanes": parameters}
    return specialize("gemm/packed_lanes", target, kernels, problem=problem, V=policy.vector)


def takes(problem: GemmProblem, policy: PackedPolicy) -> bool:
    """Whether the kernel can compute the products: no epilogue, and a block fits the cache."""
    p = problem
    return (
        len(p.batch) == 1
        and p.batch_size >= policy.vector
        and not (p.epilogue or p.triangle or p.compute.boolean or p.compute.complex)
        and in_place(p.a, p.compute)
        and in_place(p.b, p.compute)
        and p.c.elem == p.compute
        and p.compute.itemsize in (4, 8)
        and _elements(p) * policy.vector * p.compute.itemsize <= 2 * L1_BYTES
    )


@dataclass(frozen=True)
class SmallCosts(Figures):
    """Seconds of the parts of many small products on one thread.

    Products are computed side by side, one in each lane of the vectors, or one after the other.

    Attributes:
        moved, byte: Side by side: the seconds of an element that is copied to scratch memory or
            back, and of each of its bytes.
        tile: Side by side: the seconds of a tile of V products, in addition to the copies.
        product: One after the other: the seconds of a product.
        step: The seconds of a vector of a tile of C in a step of k.
        row: The seconds of a vector of C that is stored.
        packed: The seconds of an element of B that is packed.
    """

    moved: float
    byte: float
    tile: float
    product: float
    step: float
    row: float
    packed: float

    def side_by_side(self, p: GemmProblem, vector: int) -> float:
        """Return the seconds of the products side by side."""
        # Along each axis, tiles of TILE, and then tiles of one row or column for the rest.
        tiles = sum(divmod(p.m, TILE)) * sum(divmod(p.n, TILE))
        per_element = self.moved + self.byte * p.compute.itemsize
        blocks = -(-p.batch_size // vector)
        return blocks * (_elements(p) * vector * per_element + tiles * self.tile)

    def one_by_one(self, p: GemmProblem, form: PackedForm) -> float:
        """Return the seconds of the products one after the other, by ``gemm/packed_whole``."""
        computed, policy = p.transpose() if form.transposed else p, form.policy
        vectors = policy.item_m * policy.item_n // policy.vector
        steps = computed.k * computed.tiles(policy.item_m, policy.item_n) * vectors * self.step
        stored = computed.m * -(-computed.n // policy.vector) * self.row
        packed = form.b_packed * computed.k * computed.n * self.packed
        return p.batch_size * (self.product + steps + stored + packed)


def gain(problem: GemmProblem, policy: PackedPolicy, other: PackedForm, target: Target) -> float:
    """Return the estimated gain of products side by side over those one after the other."""
    costs = SmallCosts.of("gemm_small", target)
    one_by_one = costs.one_by_one(problem, other)
    return one_by_one / costs.side_by_side(problem, policy.vector)


def lanes_plan(engine: Engine, problem: GemmProblem, policy: PackedPolicy) -> OneLaunch:
    """Return the plan of small products.

    Operands: a, b and c; scalars: alpha and beta.
    Workspace: V products' operands for each work-item.
    Order: along k, one step after the other.
    """
    p, units = problem, engine.target.compute_units
    blocks = -(-p.batch_size // policy.vector)
    blocks_each = -(-blocks // (1 if units == 1 else ITEMS * units))
    items = -(-blocks // blocks_each)
    operands = {"a": p.a, "b": p.b, "c": p.c}
    constants = {
        "m": p.m, "n": p.n, "steps": p.k, "blocks_each": blocks_each, "count": p.batch_size,
        "common_a": not any(p.a.batch), "common_b": not any(p.b.batch),
        **strides(operands), **extents(p.batch),
    }  # fmt: skip
    return OneLaunch(
        engine, specialization(p, policy, engine.target), "lanes", constants,
        list(operands), (items, 1, 1), (1, 1, 1), scalars={"alpha": 1, "beta": 0},
        workspaces={"scratch": items * _elements(p) * policy.vector * p.compute.itemsize},
        flop=p.flop, nbytes=p.bytes,
    )  # fmt: skip


def _elements(p: GemmProblem) -> int:
    """The elements of all operands of a product."""
    return p.m * p.k + p.k * p.n + p.m * p.n
