"""How factorisations and solves are computed: by one group, by tiles, by halves.  No device."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded_devices import H200

from portable_gpu.dtypes import element
from portable_gpu.errors import RenderError
from portable_gpu.ops.factor.plan import TiledProblem, tiles_spec
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.variants import cholesky_variants, solve_variants
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.variant import best_of
from portable_gpu.targets import class_names, detect, example_target
from portable_gpu.tuning.table import TuningTable

GPU, TABLE = detect(H200), TuningTable.shipped()


def operand(n: int, m: int, dtype: str, batch: tuple[int, ...]) -> Operand:
    return Operand(element(dtype), m, 1, (n * m,) * len(batch), False, 16)


def cholesky(n: int, dtype: str, *batch: int) -> CholeskyProblem:
    a = operand(n, n, dtype, batch)
    return CholeskyProblem(n, batch, a, a)


def solve(n: int, m: int, dtype: str, *batch: int) -> SolveProblem:
    l, b = operand(n, n, dtype, batch), operand(n, m, dtype, batch)  # noqa: E741
    return SolveProblem(n, m, batch, l, b)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("n", "batch", "path"),
    [
        (64, (), "small"), (200, (), "tiles"), (512, (), "tiles"), (1024, (), "tiles"),
        (4096, (), "tiles"), (8192, (), "by halves"), (16, (10000,), "small"),
    ],
)  # fmt: skip
def test_factorisations_on_an_h200(n: int, batch: tuple[int, ...], path: str, dtype: str) -> None:
    assert best_of(cholesky_variants(cholesky(n, dtype, *batch), GPU, TABLE), GPU).path == path


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("n", "path"), [(16, "small"), (1024, "tiles"), (8192, "by halves")])
def test_solves_on_an_h200(n: int, path: str, dtype: str) -> None:
    assert best_of(solve_variants(solve(n, n, dtype), GPU, TABLE), GPU).path == path


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
@pytest.mark.parametrize("name", class_names())
def test_only_groups_that_wait_take_tiles(name: str, dtype: str) -> None:
    target = example_target(name)
    for n in (16, 200, 5000):
        p = solve(n, 100, dtype)
        for every in (
            cholesky_variants(cholesky(n, dtype), target, TABLE),
            solve_variants(p, target, TABLE),
            solve_variants(p, target, TABLE, p.b),
        ):
            assert ("tiles" in {item.path for item in every}) == target.forward_progress


@pytest.mark.parametrize("name", class_names())
def test_tiles_are_not_rendered_without_forward_progress(name: str) -> None:
    stuck = replace(example_target(name), forward_progress=False)
    for p in (cholesky(200, "f4"), solve(200, 100, "f4")):
        with pytest.raises(RenderError, match="promises no progress"):
            _ = tiles_spec(TiledProblem(p), stuck).text


@pytest.mark.parametrize(
    ("n", "dtype", "batch", "limited"),
    [
        (2048, "f4", (), False),
        (4096, "f4", (), True),
        (512, "f4", (100,), True),
        (4096, "f8", (), False),
    ],
)
def test_registers_are_limited_where_groups_crowd_the_device(
    n: int, dtype: str, batch: tuple[int, ...], limited: bool
) -> None:
    options = tiles_spec(TiledProblem(cholesky(n, dtype, *batch)), GPU).options
    assert ("-cl-nv-maxrregcount=128" in options) == limited


def test_a_group_has_a_tile_of_the_diagonal_and_the_one_before() -> None:
    five = TiledProblem(cholesky(5 * 64, "f4", 3))
    assert (five.tiles, five.groups) == (15, 3 * 11)
    assert TiledProblem(cholesky(5 * 64, "c16", 3)).groups == 3 * 15
