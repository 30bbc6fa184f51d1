"""Products on matrix units: every format and transpose, edges, repacking, precisions, fall-back."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from reference import assert_within, product_bound, wider
from sampling import dealt

from portable_gpu import Engine, Epilogue, gemm, matmul
from portable_gpu.dtypes import PRECISIONS, bfloat16, element
from portable_gpu.ops.gemm.matrix import check as matrix_check
from portable_gpu.ops.gemm.matrix.format import MatrixFormat, format_of
from portable_gpu.ops.gemm.matrix.plan import MatrixPlan
from portable_gpu.ops.gemm.matrix.repack import Repack
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.tiled.plan import TiledPlan
from portable_gpu.ops.gemm.variants import make_plan
from portable_gpu.targets import example_target

BFLOAT16 = bfloat16()

HALVES = [np.dtype(np.float16)] + ([BFLOAT16] if BFLOAT16 is not None else [])
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
DTYPES = [*HALVES, SINGLE, DOUBLE]
#: Matrix units truncate where float32 rounds: at most twice the error of each addition.
TRUNCATION = 2
#: The part of a value that its pieces do not hold, relative to it.
SPLIT_ERRORS = {"tf32": 2.0**-10, "bf16x3": 2.0**-15, "tf32x3": 2.0**-20, "bf16x6": 2.0**-22}


@pytest.fixture(scope="module")
def units(engine: Engine) -> Engine:
    """The engine, if its device has matrix units."""
    if not engine.target.matrix_units:
        pytest.skip(f"{engine.target.facts.name} has no matrix units that kernels can reach")
    return engine


def random(shape: Any, dtype: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def stored(x: Any, trans: str) -> Any:
    """An array whose op is ``x``."""
    return np.ascontiguousarray(x if trans == "N" else x.T)


def check(got: Any, a: Any, b: Any, alpha: Any = 1, beta: Any = 0, c: Any = None) -> None:
    expected = wider(alpha) * (wider(a) @ wider(b))
    if beta:
        expected = expected + wider(beta) * wider(c)
    sums = DOUBLE if np.result_type(a, b) == DOUBLE else np.dtype(np.float32)
    bound = product_bound(a, b, sums, alpha, beta, c)
    assert_within(got, expected, bound if sums == DOUBLE else TRUNCATION * bound)


SHAPES = [
    (1, 200, 40), (65, 1, 72), (64, 64, 64), (136, 72, 328), (128, 256, 64), (123, 77, 65),
    (300, 520, 200), (264, 392, 1001), (40, 48, 20000),
    (123, 2100, 65), (4100, 65, 40), (2056, 2056, 72),
]  # fmt: skip
#: For units that are emulated, which is slow: each of them has each layout once.
FEW_SHAPES = [(65, 1, 72), (136, 72, 328), (123, 77, 65), (300, 520, 200)]
TRANSPOSES = ("NN", "NT", "TN", "TT")


@pytest.mark.parametrize("trans", TRANSPOSES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_transposes_and_edges(units: Engine, dtype: Any, trans: str) -> None:
    turn = TRANSPOSES.index(trans) + DTYPES.index(dtype)
    for m, n, k in dealt(FEW_SHAPES, turn, 1) if units.target.forced else SHAPES:
        a, b = random((m, k), dtype), random((k, n), dtype, 1)
        c = np.full((m, n), np.nan, np.float32 if dtype.itemsize == 2 else dtype)
        gemm(
            stored(a, trans[0]), stored(b, trans[1]), c=c, trans_a=trans[0], trans_b=trans[1],
            engine=units,
        )  # fmt: skip
        check(c, a, b)


# m, n, k: few rows or columns; tails of rows and of k; several groups with a part of k each.
SKINNY_SHAPES = [
    (8, 72, 40), (136, 1, 1000), (5, 1000, 328), (264, 16, 4104), (3, 64, 16), (4096, 8, 8),
    (9, 512, 8200), (1, 8, 8), (17, 128, 64),
]  # fmt: skip


@pytest.mark.parametrize("trans", TRANSPOSES)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_few_rows_or_columns(units: Engine, dtype: Any, trans: str) -> None:
    turn = TRANSPOSES.index(trans) + HALVES.index(dtype)
    for m, n, k in dealt(SKINNY_SHAPES[:4], turn, 2) if units.target.forced else SKINNY_SHAPES:
        a, b = random((m, k), dtype), random((k, n), dtype, 1)
        left, right = stored(a, trans[0]), stored(b, trans[1])
        c = np.full((m + 2, n + 3), np.nan, np.float32)
        options = {"trans_a": trans[0], "trans_b": trans[1], "engine": units}
        gemm(left, right, c=c[1:-1, 2:-1], **options)
        first = c[1:-1, 2:-1].copy()
        check(first, a, b)
        c[1:-1, 2:-1] = np.nan
        assert np.isnan(c).all(), "written outside of C"
        got = gemm(left, right, alpha=2, beta=-1, c=first.copy(), **options)
        check(got, a, b, 2, -1, first)
        assert gemm(left, right, **options).dtype == dtype


def test_few_columns_repeat_bit_by_bit(units: Engine) -> None:
    a, b = (
        cla.to_device(units.queue, random(shape, np.float16)) for shape in [(6, 9000), (9000, 264)]
    )
    first = gemm(a, b, engine=units).get()
    for _ in range(2 if units.target.forced else 100):
        np.testing.assert_array_equal(gemm(a, b, engine=units).get(), first)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_of_the_same_dtype(units: Engine, dtype: Any) -> None:
    for m, n, k in [(136, 72, 328), (123, 77, 65)]:
        a, b = random((m, k), dtype), random((k, n), dtype, 1)
        got = gemm(a, b, engine=units)
        assert got.dtype == dtype
        check(got, a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_factors_and_epilogue(units: Engine, dtype: Any) -> None:
    a, b, c = random((200, 96), dtype), random((96, 104), dtype, 1), random((200, 104), dtype, 2)
    got = gemm(a, b, alpha=1.5, beta=-0.5, c=c.copy(), engine=units)
    check(got, a, b, 1.5, -0.5, c)
    bias = random(104, dtype, 3)
    got = gemm(a, b, epilogue=Epilogue().bias(bias).relu(), engine=units)
    expected = np.maximum(wider(a) @ wider(b) + wider(bias), 0)
    bound = product_bound(a, b, DOUBLE if dtype == DOUBLE else np.float32, 1, 1, bias[None, :])
    assert_within(got, expected, TRUNCATION * bound)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_views_that_no_copy_of_16_bytes_fits(units: Engine, dtype: Any) -> None:
    whole = random((300, 301), dtype)
    for a in (whole[3:203, 5:133], whole[::2, ::3][:, :64], whole[::-1, 8:72], whole.T[1:97, 1:65]):
        b = random((a.shape[1], 80), dtype, 1)
        check(gemm(a, b, engine=units), a, b)
        check(gemm(b.T, a.T, engine=units), b.T, a.T)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batches(units: Engine, dtype: Any) -> None:
    a, b = random((3, 5, 72, 40), dtype), random((5, 40, 56), dtype, 1)
    got = matmul(a, b, engine=units)
    for i in range(3):
        for j in range(5):
            check(got[i, j], a[i, j], b[j])
    odd = random((4, 33, 35), dtype, 2)
    got = matmul(odd, odd.transpose(0, 2, 1), engine=units)
    for i in range(4):
        check(got[i], odd[i], odd[i].T)


def test_column_major_result(units: Engine) -> None:
    a, b = random((100, 64), np.float16), random((64, 72), np.float16, 1)
    c = np.zeros((100, 72), np.float32, order="F")
    check(gemm(a, b, c=c, engine=units), a, b)


@pytest.mark.parametrize("precision", [p for p in PRECISIONS if p != "ieee"])
@pytest.mark.parametrize("trans", TRANSPOSES)
def test_precisions(units: Engine, precision: str, trans: str) -> None:
    shapes = [(136, 72, 328), (123, 77, 65), (64, 128, 5000)]
    turn = TRANSPOSES.index(trans) + PRECISIONS.index(precision)
    for m, n, k in dealt(shapes, turn, 1) if units.target.forced else shapes:
        a, b = random((m, k), np.float32), random((k, n), np.float32, 1)
        got = gemm(
            stored(a, trans[0]), stored(b, trans[1]), trans_a=trans[0], trans_b=trans[1],
            precision=precision, engine=units,
        )  # fmt: skip
        lost = 2 * SPLIT_ERRORS[precision] * (np.abs(wider(a)) @ np.abs(wider(b)))
        bound = TRUNCATION * product_bound(a, b, np.float32)
        assert_within(got, wider(a) @ wider(b), bound + lost)


def test_pieces_hold_the_range_of_float32(units: Engine) -> None:
    if units.target.matrix_units != "wgmma":
        pytest.skip("float32 is split for warpgroups only")
    a = (10.0 ** np.linspace(-30, 38, 64)).astype(np.float32)[:, None] * np.eye(1, 64, dtype="f4")
    a[-1, 0] = np.float32(3.4e38)  # above the largest bfloat16
    b = np.zeros((64, 64), np.float32)
    b[0] = 1
    for precision in ("bf16x3", "bf16x6", "tf32x3"):
        got = gemm(a, b, precision=precision, engine=units)
        expected = wider(a) @ wider(b)
        assert_within(got, expected, np.abs(expected) * 2 * SPLIT_ERRORS[precision])


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(
    ("dtype", "precision", "lost"),
    [
        (np.float16, "ieee", 0),
        (np.float64, "ieee", 0),
        (np.float32, "tf32", 2.0**-11),
        (np.float32, "tf32x3", 2.0**-22),
        (np.float32, "bf16x3", 2.0**-16),
        (np.float32, "bf16x6", 2.0**-24),
    ],
)
def test_repacked_pieces_add_up(
    engine: Engine, dtype: Any, precision: str, lost: float, across: bool
) -> None:
    if dtype == np.float64 and not engine.target.fp64:
        pytest.skip("no double precision")
    for m, k in ((70, 131), (72, 136)):
        check_repacked(engine, dtype, precision, lost, across, m, k)


def check_repacked(
    engine: Engine, dtype: Any, precision: str, lost: float, across: bool, m: int, k: int
) -> None:
    products = 3
    values = random((products, k, m), dtype)  # A transposed, in a batch
    elem = element(dtype)
    a = Operand(elem, 1, m, (m * k,), False, 16)
    compute = elem if dtype == np.float64 else element(np.float32)
    small = GemmProblem(m, m, k, (products,), a, a, a, compute, precision=precision)
    form = format_of(small, example_target("nvidia-sm90"))
    assert form is not None
    repack = Repack.of(small, "a", m, form, across, engine.target)
    source = cla.to_device(engine.queue, values)
    to = cla.to_device(engine.queue, np.full(repack.elements + 16, 7, form_dtype(form)))
    state = engine.state()
    state.event(repack.plan(engine).enqueue(state, (source.data, to.data), (0, 16))).wait()
    assert np.all(to.get()[:16] == 7)
    result = to.get()[16:].reshape(products, repack.rows, repack.parts, repack.pitch)
    assert not np.any(result[..., repack.k :])
    pieces = result[..., : repack.k]
    if form.kind == "bf16":
        pieces = (pieces.astype(np.uint32) << 16).view(np.float32)
    total = pieces.astype(np.float64).sum(axis=2)
    expected = values if across else values.transpose(0, 2, 1)
    error = np.abs(total - expected.astype(np.float64))
    assert np.all(error <= lost * np.abs(expected))
    assert lost == 0 or error.max() > 0 or precision == "bf16x6"


def form_dtype(form: MatrixFormat) -> Any:
    """How NumPy holds the elements of a format."""
    return {"f16": np.float16, "bf16": np.uint16, "tf32": np.float32, "f64": np.float64}[form.kind]


def test_same_bits_every_time(units: Engine) -> None:
    queue = units.queue
    for dtype, precision in ((np.float16, None), (np.float32, "bf16x6"), (np.float64, None)):
        m, n, k = (200, 136, 264) if units.target.forced else (512, 264, 520)
        a, b = random((m, k), dtype), random((k, n), dtype, 1)
        da, db = cla.to_device(queue, a), cla.to_device(queue, b)
        first = gemm(da, db, precision=precision).get()
        for _ in range(2 if units.target.forced else 20):
            np.testing.assert_array_equal(gemm(da, db, precision=precision).get(), first)


def test_neighbours_of_the_result_stay(units: Engine) -> None:
    a, b = random((130, 64), np.float16), random((64, 70), np.float16, 1)
    whole = cla.to_device(units.queue, np.full((140, 80), 7, np.float32))
    c = whole[5:135, 4:74]
    gemm(cla.to_device(units.queue, a), cla.to_device(units.queue, b), c=c)
    got = whole.get()
    check(got[5:135, 4:74].copy(), a, b)
    got[5:135, 4:74] = 7
    np.testing.assert_array_equal(got, np.full((140, 80), 7, np.float32))


def problem(dtype: Any) -> GemmProblem:
    elem = element(dtype)
    compute = element(np.float32) if elem.itemsize == 2 else elem
    square = Operand(elem, 256, 1, (), False, 16)
    return GemmProblem(256, 256, 256, (), square, square, square, compute)


def test_products_take_the_path(units: Engine) -> None:
    selected = [dtype for dtype in DTYPES if format_of(problem(dtype), units.target)]
    assert selected
    for dtype in selected:
        assert isinstance(make_plan(units, problem(dtype)), MatrixPlan)


def test_falls_back_where_the_check_fails(units: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_check, "_multiplies", lambda *_: False)
    engine = Engine(queue=units.queue)
    dtype = next(dtype for dtype in DTYPES if format_of(problem(dtype), units.target))
    with pytest.warns(UserWarning, match="are not used: a test product is wrong"):
        assert isinstance(make_plan(engine, problem(dtype)), TiledPlan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # found out once
        assert isinstance(make_plan(engine, problem(dtype)), TiledPlan)


def test_refused_where_subnormal_numbers_are_lost(
    units: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = problem(np.dtype(np.float16))
    if format_of(half, units.target) is None:
        pytest.skip("no matrix units for float16")
    monkeypatch.setattr(matrix_check, "_multiplies", lambda *args: args[-2] == 0)
    with pytest.warns(UserWarning, match="they take subnormal numbers for 0"):
        assert isinstance(make_plan(Engine(queue=units.queue), half), TiledPlan)


def test_engine_has_a_precision(units: Engine) -> None:
    if units.target.matrix_units != "wgmma":
        pytest.skip("no units that compute float32 with less precision")
    a, b = random((256, 512), np.float32), random((512, 256), np.float32, 1)
    engine = Engine(queue=units.queue, precision="tf32")
    coarse, fine = gemm(a, b, engine=engine), gemm(a, b, precision="ieee", engine=engine)
    exact = wider(a) @ wider(b)
    check(fine, a, b)
    assert np.abs(coarse - exact).max() > 4 * np.abs(fine - exact).max()
