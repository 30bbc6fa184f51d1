"""Values of a matrix with the pattern analysed, permuted and checked on the device.

The oracle is :meth:`Pattern.values`, which does the same on the host: the bits are equal, and what
it refuses the device leaves to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from device_arrays import on_device
from sparse_matrices import grid, numeric_of, random_definite

from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor, FactorStack, analyze, lower
from portable_gpu.sparse.matrix import ROUNDING, Pattern
from portable_gpu.sparse.numeric import Numeric

N = 30


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices take the device too, and are compared in several pieces."""
    monkeypatch.setattr(lower, "_MIN_STORED", 0)
    monkeypatch.setattr(lower, "_INDICES", 37)


def plain_order(numeric: Numeric, given: Any, triangle: str | None = None) -> Any:
    values = lower.lower_on_device(numeric, numeric.engine.queue, given, triangle)
    return None if values is None else values.get()


@pytest.mark.parametrize("kind", ["float32", "complex64"])
@pytest.mark.parametrize("stores", ["full", "lower", "upper", "chosen"])
def test_what_a_matrix_stores(engine: Engine, kind: str, stores: str) -> None:
    A = random_definite(N, 0.3, 1, kind)
    A = sp.csr_array({"lower": sp.tril, "upper": sp.triu}.get(stores, sp.csr_array)(A))
    chosen = "upper" if stores == "chosen" else None
    for form in (A, A.tocsc(), A.tocoo()):
        symbolic = analyze(form, "natural", triangle=chosen)
        pattern, numeric = symbolic.pattern, numeric_of(engine, symbolic, kind)
        other = form.copy()
        other.data = (1.5 * form.data).astype(kind)
        for triangle in (None, "lower", "upper") if stores == "full" else (None,):
            expected = pattern.values(other, triangle)
            assert plain_order(numeric, other, triangle).tobytes() == expected.tobytes()
            assert plain_order(numeric, other.data, triangle).tobytes() == expected.tobytes()
        if stores == "lower":
            with pytest.raises(ArgumentError, match="lower one counts alone"):
                plain_order(numeric, other, "upper")
            if form.format == "csr":  # the host takes it by its own pattern
                assert plain_order(numeric, sp.csr_array(other.T), "upper") is None
        moved = other.copy()
        if form.format == "coo":
            moved.row = moved.row[::-1].copy()
        else:
            moved.indices = moved.indices[::-1].copy()
        assert plain_order(numeric, moved) is None
        assert plain_order(numeric, form.tocoo() if form.format == "csr" else form.tocsr()) is None
        wide = form.copy()
        wide.data[...] = 2
        if form.format == "csr":  # indices of 64 bits are the same pattern
            wide.indptr, wide.indices = (np.array(x, np.int64) for x in (A.indptr, A.indices))
        assert plain_order(numeric, wide).tobytes() == pattern.values(wide).tobytes()


@pytest.mark.parametrize("kind", ["float32", "complex64"])
def test_what_the_host_has_to_look_at(engine: Engine, kind: str) -> None:
    """One element is changed at a time; what the host refuses the device never takes."""
    A = random_definite(N, 0.3, 2, kind)
    symbolic = analyze(A, "natural")
    pattern, numeric = symbolic.pattern, numeric_of(engine, symbolic, kind)
    assert pattern.mirror is not None
    rows = np.repeat(np.arange(N), np.diff(pattern.pointers))
    below, diagonal = (
        np.flatnonzero(rows > pattern.columns),
        np.flatnonzero(rows == pattern.columns),
    )
    eps, rng = float(np.finfo(kind).eps), np.random.default_rng(3)
    root = np.sqrt(np.abs(A.diagonal()).astype(float))
    selected = refused = 0
    imaginary = [1j] if A.dtype.kind == "c" else []
    for k in rng.choice(below, 12, replace=False):
        scale = root[rows[k]] * root[pattern.columns[k]]
        for units in (0, 1, ROUNDING / 4, 3 * ROUNDING):
            for factor in (1, *imaginary):
                data = A.data.copy()
                data[pattern.mirror[k]] += units * eps * scale * factor
                values = plain_order(numeric, data)
                if values is not None:
                    selected += 1
                    assert units < ROUNDING
                    assert values.tobytes() == pattern.values(data).tobytes()
                else:
                    refused += 1
                    assert units > ROUNDING
                    with pytest.raises(ArgumentError, match="not symmetric"):
                        pattern.values(data)
    assert selected == 3 * refused
    for place in (pattern.take[below[5]], pattern.mirror[below[5]], pattern.take[diagonal[-1]]):
        for wrong in (np.nan, np.inf, -np.inf, *(1j * np.inf for _ in imaginary)):
            data = A.data.copy()
            data[place] = wrong
            assert plain_order(numeric, data) is None
            triangle = "lower" if place == pattern.take[below[5]] else "upper"
            if place != pattern.take[diagonal[-1]]:  # an ignored triangle may have it
                other = {"lower": "upper", "upper": "lower"}[triangle]
                assert plain_order(numeric, data, triangle) is None
                ignored = plain_order(numeric, data, other)
                assert ignored.tobytes() == pattern.values(data, other).tobytes()
    for units in (1, ROUNDING) if imaginary else ():
        data = A.data.copy()
        data[pattern.take[diagonal[4]]] += 1j * units * eps * data[pattern.take[diagonal[4]]].real
        values = plain_order(numeric, data)
        assert (values is None) == (units > 1)
        if values is not None:
            assert values.tobytes() == pattern.values(data).tobytes()


def test_factors_take_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    A = grid(9, 8).astype(np.float32)
    A = sp.csr_array(A + sp.tril(A, -1) * np.float32(np.finfo(np.float32).eps))  # of rounding
    factor, b = Factor(analyze(A), np.float32, engine).refactorize(A), np.ones(72, np.float32)
    expected = [Factor(analyze(A), np.float32, engine).refactorize(m).solve(b) for m in (A, 3 * A)]
    calls: list[object] = []
    plain = Pattern.values

    def values(*arguments: Any) -> Any:
        calls.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(Pattern, "values", values)
    for matrix in (A, (3 * A).data, A, (3 * A).tocsr(), 3 * A):
        x = factor.refactorize(matrix).solve(b)
        assert x.tobytes() == expected[matrix is not A].tobytes()
    assert not calls
    integers = sp.csr_array(grid(9, 8).astype(np.int64))  # as float64
    x = factor.refactorize(integers).solve(b) if engine.target.fp64 else expected[0]
    np.testing.assert_allclose(x, expected[0], rtol=1e-4)
    x = factor.refactorize(A).solve(b)
    nan, crooked, missing = A.copy(), A.copy(), A.copy()
    nan.data[5], crooked.data[1] = np.nan, 7
    missing.indices[0] = 3
    for argument, error, says in (
        (nan, ArgumentError, "is nan"), (crooked, ArgumentError, "A is not symmetric"),
        (missing, ArgumentError, "A has an element|not symmetric"),
        (grid(8, 9)[:8, :8], ShapeError, "was analysed"),
        (A.data[1:], ShapeError, "stores"), (A.data + 0j, DTypeError, "make it complex"),
        (A.data.astype("f2"), DTypeError, "float16"),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            factor.refactorize(argument)
        assert factor.solve(b).tobytes() == x.tobytes()  # it is as it was
    lacking = sp.csr_array(A - sp.diags_array([A.diagonal(1)], offsets=[1]) * 0)
    assert factor.refactorize(lacking).solve(b).tobytes() == expected[0].tobytes()
    stack = FactorStack(analyze(A), 2, np.float32, engine)
    both = np.stack([A.data, 3 * A.data])
    first = stack.refactorize(both).solve(np.stack([b, b]))
    calls.clear()
    assert stack.refactorize(both).solve(np.stack([b, b])).tobytes() == first.tobytes()
    assert not calls
    both[1, 1] = 7
    with pytest.raises(ArgumentError, match="matrix 1 of the stack: A is not symmetric"):
        stack.refactorize(both)
    on = factor.refactorize(on_device(engine, A.data, queue=factor.queue))
    assert on.solve(b).tobytes() == expected[0].tobytes()


def test_few_values_and_little_memory(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    A = random_definite(N, 0.3, 1, np.float32)
    numeric = numeric_of(engine, analyze(A, "natural"), np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(lower, "_MIN_STORED", A.nnz + 1)
        assert plain_order(numeric, A) is None
    twice = sp.coo_array((np.tile(A.data, 2), (np.tile(A.tocoo().row, 2), np.tile(A.indices, 2))))
    assert plain_order(numeric_of(engine, analyze(twice, "natural"), numeric.dtype), twice) is None
    object.__setattr__(numeric.memory, "available", numeric.memory.total + 4 * A.nnz)
    assert plain_order(numeric, A) is None
