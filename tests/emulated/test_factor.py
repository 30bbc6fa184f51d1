"""NVIDIA's factorisations and solves, run from their PTX: tiles that wait for tiles, small ones.

Groups run one after the other, in the order of their tickets: what they wait for is there.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from emulator.device import Emulator
from emulator.memory import Fault
from reference import factor_bound, solve_bound

from portable_gpu.dtypes import element
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.ops.factor.plan import (
    TiledProblem,
    cholesky_plan,
    solve_plan,
    tiles_plan,
    vector_plan,
)
from portable_gpu.ops.factor.policy import CholeskyPolicy, SolvePolicy, on_matrix_units
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.plan import Plan

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))

CANARY = 7
RIM = 16
#: Columns of three tiles, the last of them two wide.
N = 130


def definite(n: int, dtype: Any, count: int = 1) -> Any:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((count, n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal((count, n, n))
    return (x @ x.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


def framed(values: Any) -> Any:
    """A stack between canaries."""
    memory = np.full(values.size + 2 * RIM, CANARY, values.dtype)
    memory[RIM:-RIM] = values.ravel()
    return memory


def inside(memory: Any, shape: Any) -> Any:
    assert np.all(memory[:RIM] == CANARY)
    assert np.all(memory[-RIM:] == CANARY)
    return memory[RIM:-RIM].reshape(shape)


def operand(dtype: Any, rows: int, cols: int) -> Operand:
    return Operand(element(dtype), cols, 1, (rows * cols,))


def cholesky_problem(n: int, dtype: Any, count: int = 1, in_place: bool = True) -> CholeskyProblem:
    a = operand(dtype, n, n)
    return CholeskyProblem(n, (count,), a, a, in_place=in_place)


def solve_problem(n: int, m: int, dtype: Any, count: int = 1, unit: bool = False) -> SolveProblem:
    l, b = operand(dtype, n, n), operand(dtype, n, m)  # noqa: E741
    return SolveProblem(n, m, (count,), l, b, unit=unit)


def factorise(gpu: Emulator, plan: Plan, p: CholeskyProblem, a: Any) -> tuple[Any, Any]:
    """The stack and the reports that a factorisation leaves."""
    reports = np.full((p.count, 2), -7, np.int64)
    buffers = [framed(a)] if p.in_place else [framed(a), framed(np.full_like(a, np.nan))]
    plan.enqueue(gpu, [*buffers, reports], (*[RIM] * len(buffers), 0))  # type: ignore[arg-type]
    assert not gpu.counters.any()
    return inside(buffers[-1], a.shape), reports


def check_factor(got: Any, a: Any, in_place: bool) -> None:
    for factor, matrix in zip(got, a, strict=True):
        lower = np.tril(factor)
        error = np.abs(np.tril(wide(matrix) - wide(lower) @ wide(lower).conj().T))
        assert np.all(error <= factor_bound(lower))
        np.testing.assert_array_equal(np.triu(factor, 1), in_place * np.triu(matrix, 1))


def solve(gpu: Emulator, plan: Plan, p: SolveProblem) -> None:
    dtype = np.float64 if p.elem.needs_fp64 else np.float32
    rng = np.random.default_rng(p.n)
    stack = rng.uniform(-1, 1, (p.count, p.n, p.n)).astype(dtype) / p.n
    stack += np.eye(p.n, dtype=dtype)
    b = rng.uniform(-1, 1, (p.count, p.n, p.m)).astype(dtype)
    memory = framed(b)
    plan.enqueue(gpu, [framed(stack), memory], (RIM, RIM))  # type: ignore[arg-type]
    assert not gpu.counters.any()
    for x, triangle, right in zip(inside(memory, b.shape), stack, b, strict=True):
        lower = np.tril(triangle, -1) + np.eye(p.n) if p.unit else np.tril(triangle)
        error = np.abs(wide(right) - wide(lower) @ wide(x))
        assert np.all(error <= solve_bound(lower.astype(dtype), x))


def wide(x: Any) -> Any:
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


@pytest.mark.parametrize(
    ("name", "dtype", "in_place"),
    [
        ("sm_90", "f8", True), ("sm_80", "f8", False), ("sm_90", "f4", False),
        ("sm_60", "f8", True), ("sm_90", "c8", False), ("sm_90", "c16", False),
    ],
)  # fmt: skip
def test_tiles_of_a_factor(name: str, dtype: str, in_place: bool) -> None:
    gpu = Emulator.of(name, races=True)
    p = cholesky_problem(N, dtype, in_place=in_place)
    assert on_matrix_units(p.elem, gpu.target) == (dtype == "f8" and name != "sm_60")
    plan = tiles_plan(gpu, TiledProblem(p))  # type: ignore[arg-type]
    a = definite(N, dtype)
    got, reports = factorise(gpu, plan, p, a)
    assert gpu.launches == ["factor/tiles"]
    check_factor(got, a, in_place)
    assert reports[0, 0] == -1


@pytest.mark.parametrize("column", [3, 64, 129])
def test_tiles_report_the_first_pivot_that_is_not_positive(column: int) -> None:
    gpu = Emulator.of("sm_90", races=True)
    p = cholesky_problem(N, "f8")
    plan = tiles_plan(gpu, TiledProblem(p))  # type: ignore[arg-type]
    a = np.eye(N)[None].copy()
    a[0, column:, column:] *= -2.0
    _, reports = factorise(gpu, plan, p, a)
    assert (reports[0, 0], reports[:, 1].view("f8")[0]) == (column, -2.0)


@pytest.mark.parametrize(("dtype", "unit"), [("f8", False), ("f4", True)])
def test_tiles_of_a_solve(dtype: str, unit: bool) -> None:
    gpu = Emulator.of("sm_90", races=True)
    p = solve_problem(N, 70, dtype, unit=unit)
    solve(gpu, tiles_plan(gpu, TiledProblem(p)), p)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "dtype"), [("sm_90", "f8"), ("sm_60", "f4")])
def test_vectors_of_a_solve(name: str, dtype: str) -> None:
    gpu = Emulator.of(name, races=True)
    p = solve_problem(N, 3, dtype, count=2)
    solve(gpu, vector_plan(gpu, TiledProblem(p)), p)  # type: ignore[arg-type]
    assert gpu.launches == ["factor/vector"]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [5, 64, 100])
def test_small_factors(dtype: str, n: int) -> None:
    gpu = Emulator.of("sm_90", races=True)
    p = cholesky_problem(n, dtype, 3, in_place=n != 64)
    policy = CholeskyPolicy.for_size(n, gpu.target, p.elem)
    a = definite(n, dtype, 3)
    a[1, 3, 3] = -1
    plan = cholesky_plan(gpu, p, policy)  # type: ignore[arg-type]
    got, reports = factorise(gpu, plan, p, a)
    check_factor(got[::2], a[::2], p.in_place)
    assert reports[:, 0].tolist() == [-1, 3, -1]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("n", "m"), [(5, 1), (33, 70)])
def test_small_solves(dtype: str, n: int, m: int) -> None:
    gpu = Emulator.of("sm_90", races=True)
    p = solve_problem(n, m, dtype, 3, unit=n == 5)
    policy = SolvePolicy.for_size(n, m, gpu.target, p.elem)
    solve(gpu, solve_plan(gpu, p, policy), p)  # type: ignore[arg-type]


@pytest.mark.parametrize(("reports", "first"), [("forwards", 3), ("backwards", 4)])
def test_small_solves_beside_b_report_the_first_zero(reports: str, first: int) -> None:
    """Several triangles are a group's, and the last group has fewer; two zeros of nine columns."""
    gpu = Emulator.of("sm_90", races=True)
    p = replace(solve_problem(9, 5, "f8", 5), reports=reports)
    policy = SolvePolicy.for_size(9, 5, gpu.target, p.elem)
    assert policy.together > 1
    stack = np.stack([np.eye(9) + np.tri(9, k=-1) / 9] * 5)
    stack[2, [3, 4], [3, 4]] = 0
    b = np.random.default_rng(0).uniform(-1, 1, (5, 9, 5))
    memory, report = framed(np.full_like(b, np.nan)), np.full((5, 2), -7, np.int64)
    plan = solve_plan(gpu, p, policy, p.b)  # type: ignore[arg-type]
    plan.enqueue(gpu, [framed(stack), framed(b), memory, report], (RIM, RIM, RIM, 0))  # type: ignore[arg-type]
    column = first if reports == "forwards" else 8 - first
    assert report.tolist() == [[-1, 0], [-1, 0], [column, 0], [-1, 0], [-1, 0]]
    x = inside(memory, b.shape)
    for k in (0, 1, 3, 4):
        error = np.abs(wide(b[k]) - wide(stack[k]) @ wide(x[k]))
        assert np.all(error <= solve_bound(stack[k], x[k]))


#: What is changed in the text, and what the emulator says.
BUGS = {
    "no flag is set": (
        r"st\.volatile\.global\.u32 \t\[%rd\d+\+8\], %r\d+;", "", "waits for ever for another",
    ),
    "the first barrier is left out": (r"bar\.sync\s+\d+;", "", "no barrier between them"),
    "the pivot's report goes to global memory": (
        r"atom\.shared\.min", "atom.global.min", "outside of its buffer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug: str) -> None:
    before, after, message = BUGS[bug]
    gpu = Emulator.of("sm_90", races=True)
    gpu.edit = partial(re.sub, before, after, count=bug == "the first barrier is left out")
    p = cholesky_problem(N, "f8")
    plan = tiles_plan(gpu, TiledProblem(p))  # type: ignore[arg-type]
    with pytest.raises(Fault, match=message):
        factorise(gpu, plan, p, -definite(N, "f8"))
