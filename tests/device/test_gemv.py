"""gemv against NumPy in higher precision: shapes, strides, dtypes, factors, and what it refuses."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from choosing import gemv_kernel
from device_arrays import from_device, on_device
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import assert_within, product_bound, wider
from sampling import OCLGRIND, dealt, in_pairs

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import bfloat16
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    PortableGPUError,
    ReadOnlyError,
    ShapeError,
)
from portable_gpu.ops.explanation import Question
from portable_gpu.ops.gemv import gemv
from portable_gpu.ops.gemv.commands.catalogue import explain, specializations
from portable_gpu.ops.gemv.kernels import GemvKernel
from portable_gpu.ops.gemv.policy import ColumnPolicy, RowPolicy
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.runtime.engine import Engine
from portable_gpu.tuning.table import TuningTable

BFLOAT16 = bfloat16()

FLOATS = ["float16", "float32", "float64", "complex64", "complex128"]
DTYPES = [np.dtype(name) for name in FLOATS] + ([BFLOAT16] if BFLOAT16 is not None else [])
INTEGERS = [np.dtype(name) for name in ("int8", "uint16", "int32", "int64", "uint64")]
CANARY = 77


def random(shape: Any, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Values of mixed sign and size; integers that overflow when they are multiplied."""
    rng = np.random.default_rng(seed + 7 * sum(shape))
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def op(a: Any, trans: str) -> Any:
    return {"N": a, "T": a.T, "C": a.conj().T}[trans]


def check(
    got: Any, a: Any, x: Any, trans: str = "N", alpha: Any = 1, beta: Any = 0, y: Any = None
) -> None:
    """``got`` is ``alpha * op(a) @ x + beta * y`` within the bound of any order of summation."""
    matrix = op(a, trans)
    assert got.dtype == a.dtype
    if a.dtype.kind in "iu":
        expected = matrix @ x * a.dtype.type(alpha)
        if beta:
            expected = expected + a.dtype.type(beta) * y
        np.testing.assert_array_equal(got, expected)
        return
    expected = wider(alpha) * (wider(matrix) @ wider(x))
    if beta:
        expected = expected + wider(beta) * wider(y)
    sums = np.dtype(np.float32) if a.dtype.itemsize == 2 else a.dtype
    assert_within(got, expected, product_bound(matrix, x, sums, alpha, beta, y))


def both(engine: Engine, a: Any, x: Any, **options: Any) -> Any:
    """The product of NumPy arrays; that of device arrays must be the same bits, or nearly."""
    host = gemv(a, x, engine=engine, **options)
    device = from_device(gemv(on_device(engine, a), on_device(engine, x), **options))
    assert isinstance(host, np.ndarray)
    check(device, a, x, options.get("trans", "N"), options.get("alpha", 1))
    return host


def shapes_about(engine: Engine) -> list[tuple[int, int]]:
    """Sizes around the sub-group's width (a CPU's: its vector's), primes, and each extreme."""
    width = engine.target.subgroup_size if not engine.target.is_cpu else 16
    edges = (1, 2, width - 1, width, width + 1)
    square = [(m, n) for m in (1, width - 1, 17) for n in edges]
    narrow = [(300, n) for n in (1, 3, 16, 32, 37, 128)]
    # A CPU walks along rows within a page one by one, and writes out those of few vectors.
    paged = [(131, 300), (300, 517), (41, 1024)]
    return [*square, *narrow, *paged, (37, 101), (1, 20011), (3, 20011), (70, 1031), (1031, 2)]


@pytest.mark.path
@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_shapes(engine: Engine, trans: str) -> None:
    for m, n in shapes_about(engine):
        a = random((m, n) if trans == "N" else (n, m))
        x = random((n,), seed=1)
        check(both(engine, a, x, trans=trans), a, x, trans)


@pytest.mark.parametrize("dtype", [*DTYPES, *INTEGERS], ids=str)
def test_dtypes(engine: Engine, dtype: Any) -> None:
    cases = ((33, 70, "N"), (70, 33, "C"), (5, 4099, "N"), (4099, 5, "C"), (6, 3, "T"))
    turn = [*DTYPES, *INTEGERS].index(dtype)
    for m, n, trans in cases if dtype == "complex64" else dealt(cases, turn, 1):
        a = random((m, n), dtype)
        x = random((n if trans == "N" else m,), dtype, 1)
        check(both(engine, a, x, trans=trans), a, x, trans)


TINY = ((1, 1), (3, 5), (9, 18), (2, 700), (700, 2)), ("float32", "complex64", "int8"), "NC"


@pytest.mark.tiny
@pytest.mark.parametrize(
    ("shape", "dtype", "trans"), list(product(*TINY)) if OCLGRIND else in_pairs(*TINY), ids=str
)
def test_tiny(engine: Engine, shape: tuple[int, int], dtype: str, trans: str) -> None:
    a, x = random(shape, dtype), random((shape[trans == "N"],), dtype, 1)
    check(gemv(a, x, trans=trans, engine=engine), a, x, trans)


@pytest.mark.tiny
def test_tiny_in_parts(engine: Engine) -> None:
    for trans, shape in (("N", (2, 5000)), ("T", (5000, 3))):
        a, x = random(shape, np.float32), random((5000,), np.float32, 1)
        for _ in range(2):  # the second finds the counters as the first left them
            check(gemv(a, x, trans=trans, engine=engine), a, x, trans)


@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int32"])
def test_factors(engine: Engine, dtype: str, trans: str) -> None:
    number = 2 - 0.5j if dtype == "complex128" else 3 if dtype == "int32" else -1.5
    for m, n in ((40, 70), (4, 9001)):
        a = random((m, n) if trans == "N" else (n, m), dtype)
        x, y = random((n,), dtype, 1), random((m,), dtype, 2)
        for alpha in (0, 1, number):
            for beta in (0, 1, number):
                out = y.copy()
                result = gemv(a, x, alpha=alpha, beta=beta, y=out, trans=trans, engine=engine)
                assert result is out
                check(out, a, x, trans, alpha, beta, y)


@pytest.mark.tiny
def test_zero_factors_read_nothing(engine: Engine) -> None:
    a, x = random((9, 12)), random((12,), seed=1)
    bad_a, bad_x = np.full_like(a, np.nan), np.full_like(x, np.inf)
    check(gemv(a, x, beta=0, y=np.full(9, np.nan, np.float32), engine=engine), a, x)
    y = random((9,), seed=2)
    original = gemv(bad_a, bad_x, alpha=0, beta=2, y=y.copy(), engine=engine)
    np.testing.assert_array_equal(original, 2 * y)
    nan_y = np.full(9, np.nan, np.float32)
    np.testing.assert_array_equal(gemv(bad_a, bad_x, alpha=0, y=nan_y, engine=engine), 0)


def test_infinities_stay_where_they_are(engine: Engine) -> None:
    """No masked lane and no complex factor of one turns an infinity into a NaN, or spreads it."""
    for dtype in ("float32", "complex64"):
        for trans in "NT":
            a, x = np.ones((40, 37), dtype), np.ones(37 if trans == "N" else 40, dtype)
            a[3, 5] = np.inf
            got = gemv(a, x, trans=trans, engine=engine)
            hit = 3 if trans == "N" else 5
            assert np.isinf(got[hit].real)
            assert np.isfinite(np.delete(got, hit)).all()


@pytest.mark.tiny
@pytest.mark.parametrize("trans", ["N", "T"])
def test_empty(engine: Engine, trans: str) -> None:
    def matrix(m: int, n: int) -> Any:
        return np.empty((m, n) if trans == "N" else (n, m), np.float32)

    assert gemv(matrix(0, 5), random((5,)), trans=trans, engine=engine).shape == (0,)
    none = random((0,))
    np.testing.assert_array_equal(gemv(matrix(4, 0), none, trans=trans, engine=engine), 0)
    y = random((4,))
    got = gemv(matrix(4, 0), none, alpha=np.inf, beta=3, y=y.copy(), trans=trans, engine=engine)
    np.testing.assert_array_equal(got, 3 * y)
    a, x = (cla.to_device(engine.queue, v) for v in (matrix(4, 0), none))
    np.testing.assert_array_equal(gemv(a, x, trans=trans).get(), 0)


VIEWS = {
    "offset": lambda big: big[3:43, 5:55],
    "odd offset": lambda big: big[1:41, 1:51],
    "stepped": lambda big: big[:80:2, :150:3],
    "reversed columns": lambda big: big[:40, 60:10:-1],
    "reversed rows": lambda big: big[60:20:-1, :50],
    "reversed both": lambda big: big[60:20:-1, 60:10:-1],
    "fortran": lambda big: np.asfortranarray(big)[2:42, 1:51],
    "equal rows": lambda big: np.broadcast_to(big[0, :50], (40, 50)),
    "equal columns": lambda big: np.broadcast_to(big[:40, :1], (40, 50)),
    "one column": lambda big: big[:40, 7:8],
    "one row": lambda big: big[7:8, :50],
}


#: Two in turn are of both dtypes, and walk both ways.
KINDS = (("float32", "N"), ("complex64", "T"), ("float32", "T"), ("complex64", "N"))


@pytest.mark.path
@pytest.mark.parametrize("view", VIEWS)
def test_views(engine: Engine, view: str) -> None:
    for dtype, trans in dealt(KINDS, list(VIEWS).index(view), 2):
        a = VIEWS[view](random((90, 160), dtype))
        n = a.shape[trans == "N"]
        for x in (
            random((n + 1,), dtype, 1)[1:],
            random((2 * n,), dtype, 1)[::-2],
            np.broadcast_to(random((1,), dtype, 1), (n,)),
        ):
            check(both(engine, a, x, trans=trans), a, x, trans)


@pytest.mark.parametrize("trans", ["N", "T"])
def test_canaries_around_y(engine: Engine, trans: str) -> None:
    for m, n in ((1, 9), (17, 33), (45, 5), (3, 9001)):
        a = random((m, n) if trans == "N" else (n, m))
        x = random((n,), seed=1)
        for step in (1, 3, -2):
            around = np.full(m * abs(step) + 20, CANARY, np.float32)
            inside = slice(10, 10 + m * abs(step), abs(step))
            y = around[inside][::-1] if step < 0 else around[inside]
            y[...] = before = random((m,), seed=2)
            gemv(a, x, beta=2, y=y, trans=trans, engine=engine)
            check(y, a, x, trans, 1, 2, before)
            outside = np.delete(around, np.r_[inside])
            assert (outside == CANARY).all()


def test_device_y(engine: Engine) -> None:
    a, x, y = random((20, 30)), random((30,), seed=1), random((20,), seed=2)
    device = on_device(engine, y, rim=8)
    result = gemv(on_device(engine, a), on_device(engine, x), beta=-1, y=device)
    assert result is device
    check(from_device(device), a, x, "N", 1, -1, y)


def test_mixed_dtypes(engine: Engine) -> None:
    for left, right in (("float32", "float64"), ("int32", "float32"), ("float32", "complex64")):
        a, x = random((12, 9), left), random((9,), right, 1)
        dtype = np.result_type(a, x)
        check(gemv(a, x, engine=engine), a.astype(dtype), x.astype(dtype))
        on = gemv(cla.to_device(engine.queue, a), cla.to_device(engine.queue, x))
        check(from_device(on), a.astype(dtype), x.astype(dtype))


@pytest.mark.path
@pytest.mark.parametrize("trans", ["N", "T"])
def test_repeats_bit_by_bit(engine: Engine, trans: str) -> None:
    for m, n in ((50, 300), (3, 40001), (64, 9001)):
        a = on_device(engine, random((m, n) if trans == "N" else (n, m)))
        x = on_device(engine, random((n,), seed=1))
        first = gemv(a, x, trans=trans).get()
        for _ in range(20):
            np.testing.assert_array_equal(gemv(a, x, trans=trans).get(), first)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_random_cases(engine: Engine, data: st.DataObject) -> None:
    m, n = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 70))
    trans = data.draw(st.sampled_from("NTC"))
    dtype = data.draw(st.sampled_from(["float32", "complex64", "int16"]))
    steps = data.draw(st.tuples(*[st.sampled_from([1, 1, 2, -1])] * 4))
    seed = data.draw(st.integers(0, 99))
    big = random((2 * m, 2 * n) if trans == "N" else (2 * n, 2 * m), dtype, seed)
    rows, cols = (m, n) if trans == "N" else (n, m)
    a = big[:: steps[0], :: steps[1]][:rows, :cols]
    x = random((2 * n,), dtype, seed + 1)[:: steps[2]][:n]
    y = random((2 * m,), dtype, seed + 2)[:: steps[3]][:m]
    before = y.copy()
    alpha, beta = data.draw(st.integers(-3, 3)), data.draw(st.integers(-3, 3))
    got = gemv(a, x, alpha=alpha, beta=beta, y=y, trans=trans, engine=engine)
    assert got is y
    if dtype == "int16":
        matrix = op(a, trans).astype(np.int64)
        expected = alpha * (matrix @ x.astype(np.int64)) + beta * before.astype(np.int64)
        np.testing.assert_array_equal(y, expected.astype(np.int16))
    else:
        check(y, a, x, trans, alpha, beta, before)


def test_refuses(engine: Engine) -> None:
    a, x, y = random((4, 6)), random((6,)), random((4,))
    frozen = y.copy()
    frozen.flags.writeable = False
    whole = random((40,))
    cases: list[tuple[type[PortableGPUError], str, Any]] = [
        (ShapeError, "a has shape", lambda: gemv(x, x, engine=engine)),
        (ShapeError, "x must have 6", lambda: gemv(a, y, engine=engine)),
        (ShapeError, "x must have 4", lambda: gemv(a, x, trans="T", engine=engine)),
        (ShapeError, r"out \(y\) has shape", lambda: gemv(a, x, y=x.copy(), engine=engine)),
        (ArgumentError, "trans is 'H'", lambda: gemv(a, x, trans="H", engine=engine)),
        (ArgumentError, r"no out \(y\)", lambda: gemv(a, x, beta=1, engine=engine)),
        (DTypeError, "bool", lambda: gemv(a > 0, x > 0, engine=engine)),
        (DTypeError, "alpha is", lambda: gemv(a, x, alpha=1j, engine=engine)),
        (ArgumentTypeError, "alpha is", lambda: gemv(a, x, alpha="2", engine=engine)),  # type: ignore[arg-type]
        (DTypeError, "integer", lambda: gemv(a.astype(int), x.astype(int), alpha=0.5)),
        (
            DTypeError,
            r"out \(y\) has dtype",
            lambda: gemv(a, x, y=y.astype(np.float64), engine=engine),
        ),
        (ReadOnlyError, "read-only", lambda: gemv(a, x, y=frozen, engine=engine)),
        (OverlapError, r"out \(y\) shares", lambda: gemv(a, x, y=x[:4], engine=engine)),
        (
            OverlapError,
            r"out \(y\) shares",
            lambda: gemv(whole[:24].reshape(4, 6), x, y=whole[20:24], engine=engine),
        ),
        (
            ArgumentError,
            r"out \(y\) is",
            lambda: gemv(on_device(engine, a), on_device(engine, x), y=y),
        ),
    ]
    for error, text, call in cases:
        before = [v.copy() for v in (a, x, y, whole)]
        with pytest.raises(error, match=text):
            call()
        for now, then in zip((a, x, y, whole), before, strict=True):
            np.testing.assert_array_equal(now, then)
    check(gemv(a, x, engine=engine), a, x)  # the engine still works


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex128", "int8"])
def test_policies(engine: Engine, dtype: str) -> None:
    """Defaults hold their own limits; explain and the catalogue know every kernel."""
    from portable_gpu.dtypes import element

    elem = element(np.dtype(dtype))
    for policy in (RowPolicy, ColumnPolicy):
        policy.default(engine.target, elem).check(engine.target, elem)
    texts: list[Specialization] = specializations(engine.target, np.dtype(dtype))
    paths = {text.name for text in texts}
    table = TuningTable([])
    for sizes, trans in (((1 << 20, 16), "N"), ((4, 1 << 20), "N"), ((4096, 4096), "T")):
        explained = explain(
            Question("gemv", sizes, np.dtype(dtype), engine.target, table), trans=trans
        )
        assert explained.kernels[0] in paths
        assert explained.why


@pytest.mark.path
def test_few_long_rows_are_split(engine: Engine) -> None:
    from portable_gpu.dtypes import element

    elem = element(np.dtype(np.float32))
    for m, n, a_out, a_sum in ((2, 1 << 22, 1 << 22, 1), (2, 1 << 22, 1, 2)):
        problem = GemvProblem(elem, m, n, a_out, a_sum, 1, 1)
        kernel = gemv_kernel(problem, engine.target)
        alone = engine.target.is_cpu and engine.target.compute_units == 1
        assert (kernel.parts == 1) if alone else (kernel.parts > 1)
        assert kernel.part_size * (kernel.parts - 1) < n <= kernel.part_size * kernel.parts


def test_cpu_walks_short_rows_in_order(engine: Engine) -> None:
    """Rows within a page one by one, written out if they are few vectors; longer ones together."""
    from portable_gpu.dtypes import element

    if not engine.target.is_cpu:
        pytest.skip("a kernel of CPUs")
    elem = element(np.dtype(np.float32))

    def kernel(m: int, n: int, *, trans: bool = False) -> GemvKernel:
        strides = (1, m) if trans else (n, 1)
        return gemv_kernel(GemvProblem(elem, m, n, *strides, 1, 1), engine.target)

    for n, side_by_side in ((16, False), (1024, False), (1025, True), (1 << 20, True)):
        assert kernel(4096, n).context["side_by_side"] is side_by_side
    assert kernel(4096, 16).context["whole"] == 16 // kernel(4096, 16).context["V"]
    assert kernel(4096, 1024).context["whole"] == 0
    for m, together in ((16, True), (1024, False), (1025, True)):
        assert (kernel(m, 4096, trans=True).context["R"] > 1) is together
