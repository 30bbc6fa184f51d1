"""Factorisations and solves by tiles in one launch, whose groups wait for each other.

A device of class gcn takes them.  Each row of FACTORS and SOLVES is a program, which takes PoCL
seconds; extents and strides are its arguments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from reference import factor_bound, solve_bound, unit_roundoff, wider
from sampling import compile_fast, dealt, needs

from portable_gpu import Engine
from portable_gpu.dtypes import element
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.factor.variants import cholesky_variants, solve_variants
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.devices import CLASS_VARIABLE
from portable_gpu.runtime.plan import Plan

# PoCL takes a minute to build them all.
pytestmark = [
    pytest.mark.path,
    pytest.mark.skipif(
        os.environ.get(CLASS_VARIABLE) != "gcn", reason="the job pocl-gcn of test_matrix.py does it"
    ),
]
Array = Any
#: Lines of a matrix have gaps of this many elements between them.
GAP = 3
CANARY = 7
SIZES = (1, 63, 64, 65, 130, 200)


@dataclass(frozen=True)
class Factor:
    """A program that factorises."""

    dtype: Any
    lower: bool
    in_place: bool


@dataclass(frozen=True)
class Solve:
    """A program that solves: the layouts of L and B (C or F), and whether X is elsewhere than B."""

    dtype: Any
    l: str  # noqa: E741
    b: str
    unit: bool
    separate: bool


F32, F64, C64 = np.float32, np.float64, np.complex64
FACTORS = [
    Factor(F64, True, True), Factor(F64, False, False), Factor(F32, False, True),
    Factor(F32, True, False),
]  # fmt: skip
SOLVES = [
    Solve(F64, "C", "C", False, False), Solve(F64, "F", "F", True, True),
    Solve(F32, "C", "F", False, True), Solve(F32, "F", "C", True, False),
]  # fmt: skip


@pytest.fixture(scope="module")
def waiting(engine: Engine) -> Iterator[Engine]:
    """An engine whose groups wait for each other."""
    with pytest.MonkeyPatch.context() as patch:
        compile_fast(patch, engine, exchanges=False)
        yield Engine(queue=engine.queue, device_class="gcn-gfx90a")


class Stack:
    """Matrices on the device, with canaries between their lines and between matrices."""

    def __init__(self, values: Array, order: str = "C") -> None:
        count, rows, cols = values.shape
        across, along = (rows, cols) if order == "C" else (cols, rows)
        self.host = np.full((count, across + 1, along + GAP), CANARY, values.dtype)
        self._place = slice(None), slice(0, across), slice(0, along)
        self._order = order
        self.of(self.host)[...] = values
        row, col = (along + GAP, 1) if order == "C" else (1, along + GAP)
        self.operand = Operand(element(values.dtype), row, col, (self.host[0].size,))

    def of(self, memory: Array) -> Array:
        """The matrices in memory like this."""
        view = memory[self._place]
        return view if self._order == "C" else view.swapaxes(-1, -2)

    def on(self, queue: cl.CommandQueue) -> Any:
        """A copy on the device."""
        return cla.to_device(queue, self.host)

    def read(self, array: Any) -> Array:
        """The matrices of a copy, if the canaries are as they were."""
        memory = array.get()
        result = self.of(memory).copy()
        self.of(memory)[...] = self.of(self.host)
        np.testing.assert_array_equal(memory, self.host)
        return result


def tiles(engine: Engine, every: list[Variant], path: str = "tiles") -> Plan:
    return next(item for item in every if item.path == path).bind(engine)


def enqueue(plan: Plan, engine: Engine, arrays: list[Any]) -> None:
    state = engine.state(arrays[0].queue)
    plan.enqueue(state, [array.data for array in arrays], (0,) * len(arrays))


# -- factorisations


def definite(count: int, n: int, dtype: Any) -> Array:
    """Positive definite matrices, of whose upper triangle nothing may be read."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((count, n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal((count, n, n))
    a = (x @ x.conj().swapaxes(-1, -2) / n + np.eye(n)).astype(dtype)
    a[:, np.triu(np.ones((n, n), bool), 1)] = np.nan
    return a


class Factorisation:
    """A stack, ready to be factorised; the program sees the lower triangle of A and L."""

    def __init__(self, engine: Engine, case: Factor, a: Array) -> None:
        needs(engine, case.dtype)
        order = "C" if case.lower else "F"
        count, n, _ = a.shape
        self.engine, self.case, self.a = engine, case, Stack(a, order)
        self.l = self.a if case.in_place else Stack(np.full_like(a, np.nan), order)
        p = CholeskyProblem(
            n, (count,), self.a.operand, self.l.operand, in_place=case.in_place, aligned=False
        )
        self.plan = tiles(engine, cholesky_variants(p, engine.target, engine.table))

    def enqueue(self, queue: cl.CommandQueue | None = None) -> list[Any]:
        """A, L and the report; L and the report where L replaces A."""
        queue = queue or self.engine.queue
        stacks = [self.l] if self.case.in_place else [self.a, self.l]
        count = len(self.a.host)
        arrays = [stack.on(queue) for stack in stacks]
        arrays.append(cla.to_device(queue, np.full((count, 2), -7, np.int64)))
        enqueue(self.plan, self.engine, arrays)
        return arrays

    def results(self, arrays: list[Any]) -> tuple[Array, Array]:
        """L and the report."""
        if not self.case.in_place:
            self.a.read(arrays[0])
        return self.l.read(arrays[-2]), arrays[-1].get()


def check_factor(case: Factor, factor: Array, a: Array) -> None:
    above = np.triu(np.ones(a.shape, bool), 1)
    np.testing.assert_array_equal(factor[above], a[above] if case.in_place else 0)
    lower = np.tril(factor)
    assert not np.diagonal(lower).imag.any()
    error = np.tril(np.abs(np.tril(wider(a)) - wider(lower) @ wider(lower).conj().T))
    assert np.all(error <= factor_bound(lower))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("case", FACTORS, ids=str)
def test_cholesky(waiting: Engine, case: Factor, n: int) -> None:
    a = definite(2, n, case.dtype)
    whole = Factorisation(waiting, case, a)
    factors, report = whole.results(whole.enqueue())
    for factor, matrix in zip(factors, a, strict=True):
        check_factor(case, factor, matrix)
    assert report.tolist()[0][0] == report.tolist()[1][0] == -1


@pytest.mark.parametrize(
    ("case", "column"),
    [
        (case, column)
        for turn, case in enumerate(FACTORS)
        for column in dealt((0, 3, 63, 64, 70, 199), turn, 3)
    ],
    ids=str,
)
def test_one_of_three_is_not_positive_definite(waiting: Engine, case: Factor, column: int) -> None:
    a = definite(3, 200, case.dtype)
    a[1, column, column] = -0.5
    a[1, 199, 199] = -0.5  # a later failure is not reported
    whole = Factorisation(waiting, case, a)
    factors, report = whole.results(whole.enqueue())
    for i in (0, 2):
        check_factor(case, factors[i], a[i])
    assert report[:, 0].tolist() == [-1, column, -1]
    bits = report[1:2, 1]
    pivot = (bits if case.dtype == F64 else bits.astype(np.int32)).view(case.dtype)[0]
    row = np.zeros(0)
    if column:
        leading = np.tril(a[1, :column, :column]).astype(F64)
        leading += np.tril(leading, -1).T
        row = np.linalg.solve(np.linalg.cholesky(leading), a[1, column, :column].astype(F64))
    size = row @ row
    # The rounding of its sum, and what the row's own error adds: n steps each, as well conditioned
    # as these matrices are.
    assert abs(pivot - (-0.5 - size)) <= 2 * (column + 1) * unit_roundoff(case.dtype) * (0.5 + size)


@pytest.mark.parametrize("pivot", [0.0, np.nan, np.inf])
def test_pivots_that_are_no_numbers(waiting: Engine, pivot: float) -> None:
    needs(waiting, F64)
    a = np.eye(70)[None].copy()
    a[0, 66, 66] = pivot
    whole = Factorisation(waiting, FACTORS[0], a)
    _, report = whole.results(whole.enqueue())
    assert report[0, 0] == 66
    np.testing.assert_array_equal(report[:, 1].view(F64), [pivot])


def test_repeated_calls(waiting: Engine) -> None:
    """The flags stand at 0 between launches, of this plan and of others."""
    small, large = (Factorisation(waiting, FACTORS[1], definite(2, n, F64)) for n in (130, 200))
    calls = [item.enqueue() for item in (small, large) * 5]
    first = [small.results(calls[0]), large.results(calls[1])]
    for call, arrays in enumerate(calls):
        factors, report = (small, large)[call % 2].results(arrays)
        assert factors.tobytes() == first[call % 2][0].tobytes()
        assert report.tobytes() == first[call % 2][1].tobytes()


def test_two_queues_at_once(waiting: Engine) -> None:
    whole = Factorisation(waiting, FACTORS[1], definite(2, 200, F64))
    expected, _ = whole.results(whole.enqueue())
    queues = [cl.CommandQueue(waiting.context, waiting.device) for _ in range(2)]

    def several(queue: cl.CommandQueue) -> list[Array]:
        calls = [whole.enqueue(queue) for _ in range(4)]
        return [whole.results(arrays)[0] for arrays in calls]

    with ThreadPoolExecutor(2) as threads:
        for result in threads.map(several, queues):
            assert all(factors.tobytes() == expected.tobytes() for factors in result)


# -- solves


def solve_problem(l: Stack, b: Stack, unit: bool, lower: bool) -> SolveProblem:  # noqa: E741
    """``X = L^-1 B`` where B stands, with no report."""
    count, n, m = b.of(b.host).shape
    return SolveProblem(n, m, (count,), l.operand, b.operand, lower=lower, unit=unit, aligned=False)


def triangles(count: int, n: int, dtype: Any, unit: bool, lower: bool) -> Array:
    """Well-conditioned triangles; what may not be read is NaN."""
    rng = np.random.default_rng(n)
    result = rng.uniform(-1, 1, (count, n, n)) / n
    if np.dtype(dtype).kind == "c":
        result = result + 1j * rng.uniform(-1, 1, (count, n, n)) / n
    result += np.eye(n)
    unread = np.triu(np.ones((n, n), bool), 0 if unit else 1)
    result[:, unread if lower else unread.T] = np.nan
    return result.astype(dtype)


def check_solve(
    engine: Engine, case: Solve, n: int, m: int, lower: bool, path: str = "tiles"
) -> None:
    needs(engine, case.dtype)
    triangle = triangles(2, n, case.dtype, case.unit, lower)
    right = np.random.default_rng(m).uniform(-1, 1, (2, n, m)).astype(case.dtype)
    l, b = Stack(triangle, case.l), Stack(right, case.b)  # noqa: E741
    x = Stack(np.full_like(right, np.nan), case.b) if case.separate else b
    source = b.operand if case.separate else None
    p = solve_problem(l, x, case.unit, lower)
    plan = tiles(engine, solve_variants(p, engine.target, engine.table, source), path)
    stacks = [l, b, x] if case.separate else [l, x]
    arrays = [stack.on(engine.queue) for stack in stacks]
    enqueue(plan, engine, arrays)
    for stack, array in zip(stacks[:-1], arrays[:-1], strict=True):
        np.testing.assert_array_equal(stack.read(array), stack.of(stack.host))
    for result, each, values in zip(x.read(arrays[-1]), triangle, right, strict=True):
        whole = np.where(np.isnan(each), 0, each)
        whole += case.unit * np.eye(n, dtype=whole.dtype)
        error = np.abs(wider(values) - wider(whole) @ wider(result))
        assert np.all(error <= solve_bound(whole, result))


@pytest.mark.parametrize("m", [1, 70])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("case", SOLVES, ids=str)
def test_solve(waiting: Engine, case: Solve, n: int, m: int) -> None:
    for lower in (True, False):
        check_solve(waiting, case, n, m, lower)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("case", SOLVES, ids=str)
def test_solve_of_vectors(waiting: Engine, case: Solve, n: int) -> None:
    for lower, m in ((True, 1), (False, 3)):
        check_solve(waiting, case, n, m, lower, "vectors")


# -- complex numbers


def test_complex(waiting: Engine) -> None:
    case = Factor(C64, False, False)
    a = definite(1, 70, C64)
    a[0, 66, 66] += 1j  # not read
    whole = Factorisation(waiting, case, a)
    factors, report = whole.results(whole.enqueue())
    a[0, 66, 66] -= 1j
    check_factor(case, factors[0], a[0])
    assert report[0, 0] == -1
    check_solve(waiting, Solve(C64, "C", "F", False, False), 70, 5, False)
    check_solve(waiting, Solve(C64, "F", "C", False, True), 70, 2, True, "vectors")
