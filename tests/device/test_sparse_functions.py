"""``analyze``, ``cholesky`` and ``spsolve`` as users call them, and what they refuse."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from device_arrays import on_device
from sparse_matrices import grid, random_definite

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotPositiveDefiniteError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor, FactorStack, analyze, cholesky, plot_symbolic, spsolve


def small(dtype: Any = np.float32, n: int = 40) -> Any:
    return random_definite(n, 0.1, 1, dtype)


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 3), (40, 0)])
def test_spsolve(engine: Engine, shape: tuple[int, ...]) -> None:
    A, b = small(), np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    original = b.copy()
    x = spsolve(A, b, engine=engine)
    assert isinstance(x, np.ndarray)
    assert (x.dtype, x.shape) == (np.float32, shape)
    assert np.array_equal(b, original)
    assert np.abs(A @ x - b).max(initial=0) < 1e-5
    on = spsolve(A, on_device(engine, b), engine=engine)
    assert isinstance(on, pg.Array)
    assert np.array_equal(pg.asnumpy(on), x)


def test_spsolve_runs_where_the_right_side_lies(engine: Engine) -> None:
    other = Engine(engine.device)
    b = on_device(other, np.ones(40, np.float32))
    assert spsolve(small(), b).queue == b.queue


def test_common_dtypes(engine: Engine) -> None:
    A = sp.csr_array(np.diag([1, 2, 4]))
    cases = [(np.float32, np.complex64, np.complex64), (np.complex64, np.float32, np.complex64)]
    if engine.target.fp64:
        cases += [
            (np.int64, np.int8, np.float64),
            (np.float32, np.float64, np.float64),
            (np.float64, np.complex64, np.complex128),
            (bool, np.float32, np.float64),
        ]
    for of_a, of_b, common in cases:
        result = spsolve(A.astype(of_a), np.ones(3, of_b), engine=engine)
        assert result.dtype == common
        assert np.allclose(result, [1, 1, 1] if of_a is bool else [1, 0.5, 0.25])


def test_cholesky_with_an_analysis_and_a_dtype(engine: Engine) -> None:
    A = small()
    symbolic = analyze(A)
    for other in (A, A * 2, sp.tril(A), sp.eye(40, dtype=np.float32)):
        factor = cholesky(other, symbolic=symbolic, engine=engine)
        assert factor.symbolic is symbolic
        both = other + sp.tril(other, -1).T if other.nnz < A.nnz else other
        assert np.allclose(both @ factor.solve(np.ones(40, np.float32)), 1, atol=1e-5)
    assert cholesky(A, dtype=np.complex64, engine=engine).dtype == np.complex64


def test_what_is_not_positive_definite(engine: Engine) -> None:
    A = small().tolil()
    A[17, 17] = -2
    with pytest.raises(NotPositiveDefiniteError) as caught:
        spsolve(A.tocsr(), np.ones(40, np.float32), engine=engine)
    symbolic = analyze(A.tocsr())
    assert caught.value.column == symbolic.iperm[caught.value.variable]
    empty_row = sp.csr_array(([1.0, 1.0], ([0, 2], [0, 2])), shape=(3, 3)).astype(np.float32)
    with pytest.raises(NotPositiveDefiniteError) as caught:
        cholesky(empty_row, engine=engine)
    assert (caught.value.variable, caught.value.pivot) == (1, 0)


def test_threads_analyse_at_once() -> None:
    A, result = grid(25, 24), []
    expected = analyze(A)

    def work() -> None:
        result.append(analyze(A))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == 4
    for item in result:
        assert np.array_equal(item.perm, expected.perm)
        assert np.array_equal(item.fronts.row_index, expected.fronts.row_index)


class Odd:
    """Raises something else wherever it is read."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        raise LookupError("no comparison")

    def __len__(self) -> int:
        raise LookupError("no length")


OBJECTS: dict[str, Any] = {
    "bytes": b"N", "dict": {1: 2}, "object": object(), "class": Odd, "lambda": lambda: 0,
    "odd": Odd(), "set": {1.5}, "texts": ["a", "b"], "objects": np.array([None, "a"], object),
    "module": np, "decimal": Decimal("NaN"), "text": "text", "nan": float("nan"), "one": 1,
}  # fmt: skip
WRONG: dict[str, dict[str, Any]] = {
    "A": {**OBJECTS, "none": None, "dense": np.eye(40), "list": [[1.0]],
          "flat": sp.coo_array(np.ones(3)), "long": sp.csr_array((40, 41))},
    "b": {**OBJECTS, "none": None, "short": np.ones(39), "deep": np.ones((40, 1, 1)),
          "sparse": sp.csr_array((39, 1)), "long": sp.csr_array((40, 1), dtype=np.longdouble),
          "dates": np.ones(40, "m8[s]"), "scalar": np.ones(())},
    "ordering": {**OBJECTS, "none": None, "half": np.arange(40) / 2, "twice": np.zeros(40, int),
                 "short": np.arange(39), "far": np.arange(40) + 1, "deep": np.ones((40, 1), int)},
    "relax": {**OBJECTS, "triple": [(1, 2, 3)], "negative": [(4, -0.1)], "above": [(4, 1.1)]},
    "dtype": {**OBJECTS, "int": np.int64, "half": np.float16, "long": np.longdouble, "U": "U3",
              "record": "f4,f4"},
    "triangle": {**OBJECTS, "full": "full"},
    "refine": {**OBJECTS, "one": -1, "true": True, "huge": 10**400, "many": 65},
    "postorder": {kind: value for kind, value in OBJECTS.items() if kind != "one"},
    "symbolic": OBJECTS,
    "progress": {kind: value for kind, value in OBJECTS.items() if not callable(value)},
    "engine": OBJECTS,
    "queue": OBJECTS,
}  # fmt: skip
RIGHT: dict[str, Any] = {"A": small(), "b": np.ones(40, np.float32)}
FUNCTIONS = {
    analyze: ("A", "ordering", "relax", "triangle", "postorder", "engine"),
    cholesky: (
        "A",
        "ordering",
        "relax",
        "triangle",
        "symbolic",
        "dtype",
        "progress",
        "engine",
        "queue",
    ),
    spsolve: ("A", "b", "ordering", "triangle", "dtype", "refine", "engine", "queue"),
}
CASES = [
    pytest.param(function, name, value, id=f"{function.__name__}-{name}-{kind}")
    for function, names in FUNCTIONS.items()
    for name in names
    for kind, value in WRONG[name].items()
]


@pytest.mark.parametrize(("function", "name", "value"), CASES)
def test_every_wrong_argument_is_refused(function: Any, name: str, value: Any) -> None:
    arguments = {key: item for key, item in RIGHT.items() if key in FUNCTIONS[function]}
    with pytest.raises(PortableGPUError) as caught:
        function(**arguments | {name: value})
    assert len(str(caught.value)) < 400


def of_classes() -> dict[str, Any]:
    """Calls of classes and methods by the parameter that is wrong, and what is right for it."""
    A = small()
    symbolic = analyze(A)
    factor, stack = cholesky(A, symbolic=symbolic), FactorStack(symbolic, 2, np.float32)
    values, b = np.stack([A.data, A.data]), np.ones((2, 40), np.float32)
    stack.refactorize(values)
    return {
        "Factor(symbolic)": lambda v: Factor(v, np.float32),
        "Factor(dtype)": lambda v: Factor(symbolic, v),
        "Factor(engine)": lambda v: Factor(symbolic, np.float32, v),
        "Factor(queue)": lambda v: Factor(symbolic, np.float32, None, v),
        "Factor(memory_limit)": lambda v: Factor(symbolic, np.float32, memory_limit=v),
        "Factor(spill_dir)": lambda v: Factor(
            symbolic, np.float32, memory_limit=1 << 11, spill_dir=v
        ).refactorize(A),
        "FactorStack(symbolic)": lambda v: FactorStack(v, 2, np.float32),
        "FactorStack(count)": lambda v: FactorStack(symbolic, v, np.float32),
        "FactorStack(dtype)": lambda v: FactorStack(symbolic, 2, v),
        "FactorStack(engine)": lambda v: FactorStack(symbolic, 2, np.float32, v),
        "FactorStack(queue)": lambda v: FactorStack(symbolic, 2, np.float32, None, v),
        "refactorize(values)": factor.refactorize,
        "refactorize(check)": lambda v: factor.refactorize(A, check=v),
        "refactorize(triangle)": lambda v: factor.refactorize(A, triangle=v),
        "solve(b)": factor.solve,
        "solve(system)": lambda v: factor.solve(b[0], v),
        "solve(refine)": lambda v: factor.solve(b[0], refine=v),
        "solve(out)": lambda v: factor.solve(b[0], out=v),
        "stack.refactorize(values)": stack.refactorize,
        "stack.refactorize(triangle)": lambda v: stack.refactorize(values, triangle=v),
        "stack.solve(b)": stack.solve,
        "stack.solve(system)": lambda v: stack.solve(b, v),
        "stack.solve(refine)": lambda v: stack.solve(b, refine=v),
        "memory_estimate(dtype)": symbolic.memory_estimate,
        "memory_estimate(devices)": lambda v: symbolic.memory_estimate("f4", v),
        "memory_estimate(a device)": lambda v: symbolic.memory_estimate("f4", [v]),
        "memory_estimate(memory_limit)": lambda v: symbolic.memory_estimate("f4", memory_limit=v),
        "plot_symbolic(symbolic)": plot_symbolic,
        "plot_symbolic(picture)": lambda v: plot_symbolic(symbolic, v),
    }


RIGHT_OF_CLASSES = {
    ("FactorStack(count)", "one"), ("solve(refine)", "one"), ("stack.solve(refine)", "one"),
    ("memory_estimate(memory_limit)", "one"), ("memory_estimate(devices)", "texts"),
    ("plot_symbolic(picture)", "text"),
}  # fmt: skip


def test_every_wrong_argument_of_classes_is_refused() -> None:
    faults = []
    for name, call in of_classes().items():
        for kind, value in {**OBJECTS, "half": 0.5, "dates": np.ones(40, "m8[s]")}.items():
            if (name, kind) in RIGHT_OF_CLASSES:
                continue
            try:
                call(value)
                faults.append(f"{name} of {kind}: no error")
            except PortableGPUError:
                pass
            except Exception as error:
                faults.append(f"{name} of {kind}: {error!r}")
    assert not faults, "\n".join(faults)


def test_errors_say_what_would_do() -> None:
    A = small()
    with pytest.raises(ShapeError, match="b has 3 rows, and A 40"):
        spsolve(A, np.ones(3))
    with pytest.raises(ArgumentError, match="dtype is float32, and A is complex64"):
        cholesky(small(np.complex64), dtype=np.float32)
    with pytest.raises(ArgumentTypeError, match="symbolic is 3; expected a result of analyze"):
        cholesky(A, symbolic=3)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"\(40, 40\); \(9, 9\) was analysed"):
        cholesky(A, symbolic=analyze(grid(3, 3)))


def test_auto_goes_by_the_device(engine: Engine) -> None:
    A = grid(200, 3).astype(np.float32)
    expected = "amd" if engine.target.is_cpu else "nd"
    assert analyze(A, engine=engine).ordering == expected
    assert cholesky(A, engine=engine).symbolic.ordering == expected
    assert analyze(A).ordering == "amd"
