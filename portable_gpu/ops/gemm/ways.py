"""Every way to compute a product, each forced: what the choice of a path is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from portable_gpu.ops.gemm import skinny_mma
from portable_gpu.ops.gemm.choice import WORKSPACE, GemmChoice
from portable_gpu.ops.gemm.matrix import MatrixGemm
from portable_gpu.ops.gemm.matrix_check import works, works_on_few_columns
from portable_gpu.ops.gemm.matrix_choice import MOST_BATCH, fitting
from portable_gpu.ops.gemm.matrix_format import format_of
from portable_gpu.ops.gemm.matrix_policy import MatrixPolicy, WgmmaPolicy
from portable_gpu.ops.gemm.packed import PackedChoice, PackedGemm, packed_choices
from portable_gpu.ops.gemm.path import GemmPath
from portable_gpu.ops.gemm.policy import SHAPE_CLASSES, GemmPolicy, value_bytes
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.simt import SimtGemm
from portable_gpu.ops.gemm.skinny import SkinnyGemm, is_skinny, upright
from portable_gpu.runtime.engine import Engine

_LEAST_DEPTH = 256  # steps of k of a split
_MOST_WAVES = 16  # groups for each compute unit from which on nobody would split k


@dataclass(frozen=True)
class Way:
    """One way.

    Attributes:
        name: What it is called: ``split-k, medium, 4 splits``.
        bind: Builds its kernels.
    """

    name: str
    bind: Callable[[], GemmPath]


def ways(engine: Engine, problem: GemmProblem) -> Iterator[Way]:
    """Every way to compute ``problem`` on the engine's device, whether or not it would be chosen.

    On a CPU that is the packed gemm either way round, by whole products or shared ones, with each
    operand packed or read where it lies; elsewhere one work-item for each element, the tiles of
    each shape class on SIMD and matrix units, with k whole, split as far as it goes, and between;
    on both, what serves few columns.  Policies are those of the engine's table.
    """
    if is_skinny(problem, engine.target):
        yield Way("gemv", partial(SkinnyGemm.by_gemv, engine, problem))
    if engine.target.is_cpu:
        for packed in packed_choices(problem, engine.target, engine.table):
            yield Way(_packed_name(packed), partial(PackedGemm, engine, problem, packed))
        return
    yield Way("direct", partial(SimtGemm, engine, problem, GemmChoice("direct")))
    if problem.k == 0:
        return
    for choice in _tiles(engine, problem):
        yield Way(_tiled_name(choice), partial(SimtGemm, engine, problem, choice))
    for choice in _matrix_tiles(engine, problem):
        yield Way(_tiled_name(choice), partial(MatrixGemm, engine, problem, choice))
    few = upright(problem)
    if skinny_mma.takes(few, engine.target) and works_on_few_columns(engine, few):
        yield Way("skinny", partial(SkinnyGemm.by_matrix_units, engine, problem))


def name_of(path: GemmPath) -> str:
    """What the way of a path is called."""
    if isinstance(path, PackedGemm):
        return _packed_name(path.choice)
    if isinstance(path, SimtGemm | MatrixGemm):
        return _tiled_name(path.choice)
    return "skinny" if isinstance(path, SkinnyGemm) and path.by_units else "gemv"


def _packed_name(choice: PackedChoice) -> str:
    """``packed, transposed, B in place``."""
    parts = ["whole" if choice.whole else "packed"]
    parts += ["transposed"] if choice.swapped else []
    parts += [] if choice.a_packed else ["A in place"]
    parts += [] if choice.b_packed else ["B in place"]
    return ", ".join(parts)


def _tiled_name(choice: GemmChoice) -> str:
    """``wgmma, split-k, medium, transposed, 4 splits``."""
    if choice.policy is None:
        return choice.path
    parts = [choice.path, choice.shape_class]
    parts += ["transposed"] if choice.transposed else []
    parts += [f"{choice.splits} splits"] if choice.splits > 1 else []
    parts += ["of the last tiles"] if choice.whole else []
    return ", ".join(parts)


def _tiles(engine: Engine, p: GemmProblem) -> Iterator[GemmChoice]:
    """Each shape class the way round that takes fewer tiles."""
    target, tried = engine.target, []
    for name in SHAPE_CLASSES:
        default = GemmPolicy.for_shape_class(target, p.compute, name)
        row = engine.table.choose("gemm", GemmPolicy, target, p.compute, name, default)
        if row.policy in tried:
            continue
        policy = row.policy
        tried.append(policy)
        upright_tiles, turned_tiles = (
            p.batch_size * -(-m // policy.tile_m) * -(-n // policy.tile_n)
            for m, n in ((p.m, p.n), (p.n, p.m))
        )
        groups, turned = min(upright_tiles, turned_tiles), turned_tiles < upright_tiles
        units = target.compute_units
        full = groups // units * units if p.batch_size == 1 and groups % units else 0
        for splits in _splits(p, groups, units):
            used = policy.at_edges(target, p.compute, p.k, splits)
            yield _choice("tiled", used, splits, turned, name).fit(p.k)
            if splits > 1 and full:
                yield _choice("tiled", used, splits, turned, name, whole=full).fit(p.k)


def _matrix_tiles(engine: Engine, p: GemmProblem) -> Iterator[GemmChoice]:
    """Each shape class of the matrix units, if they can do the product."""
    target, form = engine.target, format_of(p, engine.target)
    if form is None or p.batch_size > MOST_BATCH:
        return
    turned = form.turned(p)
    m, n = (p.n, p.m) if turned else (p.m, p.n)
    steps = -(-p.k // form.depth)
    for name, row in fitting(p, form, target, engine.table):
        policy = row.policy
        if not works(engine, p, isinstance(policy, WgmmaPolicy) and policy.bulk):
            continue
        tiles = p.batch_size * -(-m // policy.tile_m) * -(-n // policy.tile_n)
        for splits in _splits(p, tiles, target.compute_units):
            none_empty = -(-steps // -(-steps // splits))
            yield _choice(form.kernel, policy, none_empty, turned, name)


def _choice(
    path: str,
    policy: GemmPolicy | MatrixPolicy,
    splits: int,
    transposed: bool,
    shape_class: str,
    whole: int = 0,
) -> GemmChoice:
    if splits > 1:
        path = "split-k" if path == "tiled" else f"{path}, split-k"
    return GemmChoice(path, policy, splits, whole, transposed, shape_class)


def _splits(p: GemmProblem, groups: int, units: int) -> list[int]:
    """One, the most that leave each part deep and the workspace bounded, and one between."""
    one, counts = p.batch_size * p.m * p.n * value_bytes(p.compute), [1]
    while True:
        more = 2 * counts[-1]
        if (
            more * _LEAST_DEPTH > p.k
            or more * one > WORKSPACE
            or groups * more > _MOST_WAVES * units
        ):
            return sorted({1, counts[len(counts) // 2], counts[-1]})
        counts.append(more)
