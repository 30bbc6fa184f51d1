"""Which path and policy a product takes, and why: a small cost model over the shape classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from portable_gpu.ops.gemm.matrix_policy import MatrixPolicy
from portable_gpu.ops.gemm.policy import SHAPE_CLASSES, GemmPolicy, value_bytes, value_words
from portable_gpu.ops.gemm.problem import GemmProblem, step
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


@dataclass(frozen=True)
class GemmChoice:
    """A path, its policy, and the reasons.

    Attributes:
        path: ``wgmma``, ``mma`` or ``mfma`` (matrix units; ``wgmma, split-k``), ``tiled``,
            ``split-k``, ``direct`` (a work-item per element), or ``packed`` (CPU).
        policy: Tile sizes; ``None`` for the direct path.
        splits: Parts that k is cut into, each computed by groups of its own.
        transposed: Whether ``C' = B' A'`` is computed.
        shape_class: Of :data:`SHAPE_CLASSES`; what rows of the tuning table go by.
        origin: Where the policy came from.
        why: A sentence.
        evidence: Of a measured policy.
    """

    path: str
    policy: GemmPolicy | MatrixPolicy | None = None
    splits: int = 1
    transposed: bool = False
    shape_class: str = "any"
    origin: str = ""
    why: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def fit(self, k: int) -> GemmChoice:
        """The same with as few splits as its parts need: none is empty."""
        if not isinstance(self.policy, GemmPolicy) or self.splits == 1:
            return self
        return replace(self, splits=-(-k // split_length(k, self.splits, self.policy.tile_k)))


#: Bytes of partial sums of one launch, unless one product of a batch needs more.
WORKSPACE = 64 << 20

# Fitted to 590 times of 23 shapes in float32 on one H200 (driver 580, November 2026): with these
# the choice takes 1.06 of the time of the best of all classes and splits, and 1.16 at most.
_LATENCY = 140_000  # a tile's way through local memory: some 1100 cycles of 128 multiply-adds
_LAUNCH = 4_000_000  # a second kernel, as the host enqueues it
_SUM = 28_000  # one partial sum, waited for
_TRAVEL = 22  # the same, as traffic of one element


def choose(problem: GemmProblem, target: Target, table: TuningTable) -> GemmChoice:
    """The path of ``problem`` by least estimated time.

    The unit of time is one multiply-add of one compute unit at the rate of the large tile.  The
    groups of a compute unit take turns: a step of k costs their tiles' area over the efficiency
    of the shape class.  However few they are, it costs the latency of bringing a tile.
    """
    p, units = problem, target.compute_units
    if target.is_cpu:
        return GemmChoice("packed", why="a CPU: panels packed in memory, no local memory")
    if p.k == 0:
        return GemmChoice("direct", why="k is 0: nothing is multiplied")
    if p.m * p.n <= 64 and p.k <= 64:
        return GemmChoice("direct", why="each product is smaller than a tile")
    # C's rows should lie along its unit stride; the other way costs a little, not much.
    upright = step(p.c.col, p.n) <= step(p.c.row, p.m)
    best: tuple[float, GemmChoice] | None = None
    tried: list[GemmPolicy] = []
    for shape_class, efficiency in SHAPE_CLASSES.items():
        default = GemmPolicy.for_shape_class(target, p.compute, shape_class)
        row = table.choose("gemm", GemmPolicy, target, p.compute, shape_class, default)
        policy = row.policy
        if policy in tried:
            continue
        tried.append(policy)
        latency = _LATENCY / (policy.tile_k * value_words(p.compute))
        for transposed in (False, True):
            m, n = (p.n, p.m) if transposed else (p.m, p.n)
            groups = p.batch_size * -(-m // policy.tile_m) * -(-n // policy.tile_n)
            work = policy.tile_m * policy.tile_n / efficiency
            turned = 1.0 if transposed != upright else 1.02
            for splits in _splits(p, policy, groups, units):
                busy = -(-groups * splits // units) * work
                step_time = max(busy, latency) + 0.01 * busy  # of equals, the smaller tile
                time = step_time * turned * -(-p.k // splits)
                if splits > 1:  # partial sums travel and are added in turn by a second kernel
                    time += _LAUNCH + splits * (_SUM + _TRAVEL * p.batch_size * m * n / units)
                choice = GemmChoice(
                    path="tiled" if splits == 1 else "split-k",
                    policy=policy,
                    splits=splits,
                    transposed=transposed,
                    shape_class=shape_class,
                    origin=row.origin,
                    why=f"{groups * splits} groups on {units} compute units: the least estimate",
                    evidence=row.evidence,
                )
                if best is None or time < best[0]:
                    best = time, choice
    assert best is not None  # SHAPE_CLASSES is not empty
    return best[1].fit(p.k)


def _splits(problem: GemmProblem, policy: GemmPolicy, groups: int, units: int) -> list[int]:
    """Ways to cut k that give idle compute units work and leave each part deep."""
    splits = [1]
    one = problem.m * problem.n * value_bytes(problem.compute)
    while True:
        more = 2 * splits[-1]
        deep = problem.k >= more * max(256, 8 * policy.tile_k)
        if not deep or groups * splits[-1] >= 16 * units or more * one > WORKSPACE:
            return splits
        splits.append(more)


def split_length(k: int, splits: int, tile_k: int) -> int:
    """Steps of k in each split: equal, in whole tiles; the last split takes what is left."""
    if splits == 1:
        return k
    tiles = -(-k // tile_k)
    return -(-tiles // splits) * tile_k
