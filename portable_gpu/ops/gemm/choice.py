"""Which path and policy a product takes, and why: a small cost model over the shape classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from portable_gpu.dtypes import Element
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
        whole: Tiles of each product whose k is not cut: they fill the compute units anyway.
        transposed: Whether ``C' = B' A'`` is computed.
        shape_class: Of :data:`SHAPE_CLASSES`; what rows of the tuning table go by.
        origin: Where the policy came from.
        why: A sentence.
        evidence: Of a measured policy.
    """

    path: str
    policy: GemmPolicy | MatrixPolicy | None = None
    splits: int = 1
    whole: int = 0
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

# Fitted to 1286 times of 47 shapes in float32 on one H200 (driver 580, November 2026): with these
# the choice takes 1.012 of the time of the best of all classes and cuts, and 1.05 at most but for
# 1536, where groups of 64 make poor company for parts of k (1.31).
_LATENCY = 137_000  # a tile's way through local memory: some 1070 cycles of 128 multiply-adds
_ALONE = 0.267  # of the time, that four sub-groups lose which have a compute unit for themselves
_CUT = 1.016  # a kernel that can cut k takes more registers
_SHALLOW = 1.051  # panels of half the depth, where registers are short; its latency is in this
_SUM = 24.1  # a partial sum, written and read
_LEAST_DEPTH = 128  # of a part
_MOST_ROUNDS = 4  # of parts on a compute unit: no more of some tiles are resident
_PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def choose(problem: GemmProblem, target: Target, table: TuningTable) -> GemmChoice:
    """The path of ``problem`` by least estimated time.

    The unit of time is one multiply-add of one compute unit at the rate of the large tile.  The
    groups of a compute unit take turns: a step of k costs their tiles' area over the efficiency
    of the shape class.  However few they are, it costs the latency of bringing a tile; where the
    two are alike, more than either.  Of equals, the smaller tile.
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
        taken = partial(_taken, policy, target, p.compute)
        for transposed in (False, True):
            m, n = (p.n, p.m) if transposed else (p.m, p.n)
            groups = p.batch_size * -(-m // policy.tile_m) * -(-n // policy.tile_n)
            work = policy.tile_m * policy.tile_n / efficiency
            turned = 1.0 if transposed != upright else 1.02
            for splits, whole in _cuts(p, policy, groups, units):
                used = policy.at_edges(target, p.compute, p.k, splits)
                rounds, steps = -(-(groups - whole) * splits // units), -(-p.k // splits)
                busy = work * (steps * taken(rounds) + p.k * taken(whole // units))
                waits = latency * (p.k if whole else steps)
                time = turned * ((busy**3 + waits**3) ** (1 / 3) + 0.01 * busy)
                time *= _SHALLOW if used != policy else _CUT if splits > 1 else 1.0
                if splits > 1:
                    sums = (splits + rounds) * policy.tile_m * policy.tile_n
                    time += _SUM * sums * value_words(p.compute)
                choice = GemmChoice(
                    path="tiled" if splits == 1 else "split-k",
                    policy=used,
                    splits=splits,
                    whole=whole,
                    transposed=transposed,
                    shape_class=shape_class,
                    origin=row.origin + (", panels of half the depth" if used != policy else ""),
                    why=f"{whole + (groups - whole) * splits} groups on {units} compute units: "
                    "the least estimate",
                    evidence=row.evidence,
                )
                if best is None or time < best[0]:
                    best = time, choice
    assert best is not None  # SHAPE_CLASSES is not empty
    return best[1].fit(p.k)


def _taken(policy: GemmPolicy, target: Target, elem: Element, groups: int) -> float:
    """What ``groups`` one after the other take on a compute unit, in groups at the full rate.

    As many as are resident run side by side.  The fewer they are, the less they hide of what each
    waits for.
    """
    most, lost = policy.resident(target, elem), _ALONE * 4 * target.subgroup_size
    rounds = -(-groups // most)
    return groups + rounds * lost / policy.group_size


def _cuts(
    problem: GemmProblem, policy: GemmPolicy, groups: int, units: int
) -> Iterator[tuple[int, int]]:
    """Ways to cut k, ``(splits, whole)``, that leave each part deep.

    Of one product either all tiles are cut, or those beyond whole rounds of the compute units.
    Sums of less than 32 bits are not left for other groups: each would take a register of its own.
    """
    yield 1, 0
    if value_bytes(problem.compute) < 4:
        return
    tile = policy.tile_m * policy.tile_n * value_bytes(problem.compute)
    full = groups // units * units if problem.batch_size == 1 and groups % units else 0
    for splits in _PARTS:
        if problem.k < splits * max(_LEAST_DEPTH, 8 * policy.tile_k):
            break
        for whole in {0, full}:
            cut = groups - whole
            most = cut * splits * tile <= WORKSPACE * problem.batch_size
            if most and cut * splits <= _MOST_ROUNDS * units:
                yield splits, whole


def split_length(k: int, splits: int, tile_k: int) -> int:
    """Steps of k in each split: equal, in whole tiles; the last split takes what is left."""
    if splits == 1:
        return k
    tiles = -(-k // tile_k)
    return -(-tiles // splits) * tile_k
