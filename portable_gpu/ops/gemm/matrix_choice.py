"""Which policy a product takes on matrix units, and why."""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.ops.gemm.choice import WORKSPACE, GemmChoice
from portable_gpu.ops.gemm.matrix_format import format_of
from portable_gpu.ops.gemm.matrix_policy import POLICIES, WgmmaPolicy
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

# Fitted to 370 times of 30 shapes in float16 and float64 on one H200 (driver 580, November 2026),
# in units of a step of the large tile: with these the choice takes 1.02 of the time of the best of
# all classes and splits, and 1.11 at most.  For want of a measurement the same for `mfma`.
_FIXED = 6.0  # filling the stages and storing a tile, per tile of a group
_MEETING = 3.0  # the parts of a tile wait for each other
_SUM = 2.0  # a part of a large tile, written and read
MOST_BATCH = 65535
_MOST_BOXED = (1 << 31) - 4096  # the copy engine counts in 32 bits, and whole steps of each piece


def choose_matrix(problem: GemmProblem, target: Target, table: TuningTable) -> GemmChoice | None:
    """The policy with the least estimated time; ``None`` where matrix units do not apply."""
    p, form = problem, format_of(problem, target)
    if form is None or p.k == 0 or p.batch_size > MOST_BATCH:
        return None
    if p.m * p.n <= 64 and p.k <= 64:
        return None
    kernel, transposed = form.kernel, form.turned(p)
    m, n = (p.n, p.m) if transposed else (p.m, p.n)
    best: tuple[float, GemmChoice] | None = None
    largest = 128 * 256 if kernel == "wgmma" else 128 * 128
    kind, classes = POLICIES[kernel]
    for shape_class, efficiency in classes.items():
        default = kind.for_shape_class(shape_class, parts=form.parts)
        name = f"gemm_{kernel}_split" if form.parts > 1 else f"gemm_{kernel}"
        row = table.choose(name, kind, target, form.elem, shape_class, default)
        policy = row.policy
        if isinstance(policy, WgmmaPolicy) and max(p.m, p.n, form.parts * p.k) > _MOST_BOXED:
            policy = replace(policy, bulk=False)
        if not all(policy.limits(target, form.elem).values()):
            continue
        tiles = p.batch_size * -(-m // policy.tile_m) * -(-n // policy.tile_n)
        steps = -(-p.k // form.depth)
        area = policy.tile_m * policy.tile_n / largest
        for splits in _splits(p, steps, tiles, target.compute_units):
            turns = -(-tiles * splits // target.compute_units)
            time = turns * (area / efficiency * form.work * -(-steps // splits) + _FIXED)
            if splits > 1:
                time += _MEETING + _SUM * area * (splits + turns)
            if best is None or time < best[0]:
                choice = GemmChoice(
                    path=kernel if splits == 1 else f"{kernel}, split-k",
                    policy=policy,
                    splits=splits,
                    transposed=transposed,
                    shape_class=shape_class,
                    origin=row.origin,
                    why=f"{tiles * splits} tiles on {target.compute_units} compute units with "
                    "matrix units: the least estimate; checked on the device before the first use",
                    evidence=row.evidence,
                )
                best = time, choice
    return None if best is None else best[1]


def _splits(p: GemmProblem, steps: int, tiles: int, units: int) -> list[int]:
    """Ways to cut k that give idle compute units work; none is empty."""
    found, splits = [1], 2
    while steps >= 4 * splits and tiles * splits <= 4 * units:
        if splits * p.batch_size * p.m * p.n * 4 > WORKSPACE:
            break
        if -(-steps // -(-steps // splits)) == splits:
            found.append(splits)
        splits += 1
    return found
