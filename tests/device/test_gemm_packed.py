"""The CPU's packed gemm against NumPy in higher precision: every form, dtype and edge."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sampling import dealt

from portable_gpu.codegen.epilogue import Epilogue, Stage
from portable_gpu.dtypes import bfloat16, element, is_float16_like
from portable_gpu.ops.gemm import matmul
from portable_gpu.ops.gemm.packed import blocks, forms, lanes, policy
from portable_gpu.ops.gemm.packed.forms import preferred_form
from portable_gpu.ops.gemm.packed.plan import PackedPlan
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemm.packed.sharing import packed_once
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import View
from portable_gpu.targets import example_target

BFLOAT16 = bfloat16()

Array = Any
FLOATS: list[Any] = [np.float16, np.float32, np.float64, np.complex64, np.complex128]
if BFLOAT16 is not None:
    FLOATS.append(BFLOAT16)
CANARY = 77


@pytest.fixture(scope="module")
def cpu(engine: Engine) -> Engine:
    if not engine.target.is_cpu:
        pytest.skip("the packed gemm is the CPU's")
    return engine


def set_thresholds(monkeypatch: pytest.MonkeyPatch, **values: int) -> None:
    """Change thresholds of the rules; earlier changes stay."""
    changed = replace(forms.packed_figures(example_target("cpu")), **values)
    monkeypatch.setattr(forms, "packed_figures", lambda _: changed)


def values(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(-100, 100, shape).astype(dtype)
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        return (x + 1j * rng.standard_normal(shape)).astype(dtype)
    return x.astype(dtype)


def laid_out(x: Array, layout: str) -> Array:
    """``x`` with the same values and shape, otherwise in memory."""
    if layout == "F":
        return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)
    if layout == "strided":
        buffer = np.zeros((*x.shape[:-2], 2 * x.shape[-2] + 1, 3 * x.shape[-1] + 2), x.dtype)
        view = buffer[..., 1::2, 2::3]
        view[...] = x
        return view
    if layout == "reversed":
        return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]
    return np.ascontiguousarray(x)


def operand(view: View, rank: int, conj: bool = False) -> Operand:
    strides = view.strides
    return Operand(element(view.dtype), strides[-2], strides[-1], strides[:rank], conj)


def product(
    engine: Engine,
    a: Array,
    b: Array,
    c: Array,
    alpha: Any = 1,
    beta: Any = 0,
    *,
    conj: tuple[bool, bool] = (False, False),
    stages: tuple[Stage, ...] = (),
    extras: tuple[Array, ...] = (),
) -> PackedPlan:
    """Run on NumPy memory in place; the result is in ``c``."""
    rank = c.ndim - 2
    a = np.broadcast_to(a, (*c.shape[:-2], *a.shape[-2:]))
    b = np.broadcast_to(b, (*c.shape[:-2], *b.shape[-2:]))
    extras = tuple(np.broadcast_to(e, c.shape) for e in extras)
    mixed = np.result_type(*(np.float32 if is_float16_like(x.dtype) else x.dtype for x in (a, b)))
    call = Call([], engine, None)
    views = [call.input(x, "x") for x in (a, b, *extras)]
    into = call.output(c.shape, c.dtype, c, read=True)
    problem = GemmProblem(
        c.shape[-2], c.shape[-1], a.shape[-1], c.shape[:-2],
        operand(views[0], rank, conj[0]), operand(views[1], rank, conj[1]), operand(into, rank),
        element(mixed), beta != 0, stages, tuple(operand(e, rank) for e in views[2:]),
    )  # fmt: skip
    gemm = PackedPlan(engine, problem, preferred_form(problem, engine.target, engine.table))
    call.run(gemm, (*views, into), (alpha, beta))
    return gemm


def check(got: Array, a: Array, b: Array, alpha: Any = 1, beta: Any = 0, c: Array = None) -> None:
    """Compare ``alpha * a @ b + beta * c`` elementwise with gamma(k) |A||B|."""
    if got.dtype.kind in "iu":
        want = alpha * np.matmul(a, b) + (0 if c is None else beta * c)
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        return
    wide = np.clongdouble if got.dtype.kind == "c" else np.longdouble
    a, b = a.astype(wide), b.astype(wide)
    want, bound = alpha * (a @ b), abs(alpha) * (abs(a) @ abs(b))
    if c is not None:
        want, bound = want + beta * c.astype(wide), bound + abs(beta * c.astype(wide))
    single = got.dtype in (np.float32, np.complex64) or is_float16_like(got.dtype)
    u = np.finfo(np.float32 if single else np.float64).eps / 2
    steps = (a.shape[-1] + 4) * (4 if got.dtype.kind == "c" else 1)
    tolerance = steps * u / (1 - steps * u) * bound
    if is_float16_like(got.dtype):
        ulp = 2.0**-11 if got.dtype == np.float16 else 2.0**-8
        tolerance = tolerance + ulp * abs(want) + 2.0**-24
    error = abs(got.astype(wide) - want)
    assert error.shape == tolerance.shape
    assert np.all(error <= tolerance), f"worst {np.max(error / (tolerance + 1e-300))}"


def run_and_check(
    engine: Engine, a: Array, b: Array, dtype: Any, alpha: Any = 1, beta: Any = 0, layout: str = "C"
) -> PackedPlan:
    """Multiply into the middle of a larger array; its margin must stay as it was."""
    shape = np.matmul(np.empty(a.shape, np.int8), np.empty(b.shape, np.int8)).shape
    buffer = np.full((*shape[:-2], shape[-2] + 2, shape[-1] + 2), CANARY, dtype)
    if layout == "F":
        buffer = laid_out(buffer, "F")
    inside = buffer[..., 1:-1, 1:-1]
    rng = np.random.default_rng(7)
    before = values(rng, shape, dtype) if beta else None
    inside[...] = np.nan if before is None and np.dtype(dtype).kind not in "iu" else 0
    if before is not None:
        inside[...] = before
    gemm = product(engine, a, b, inside, alpha, beta)
    check(inside, a, b, alpha, beta, before)
    inside[...] = CANARY
    assert np.all(buffer == np.array(CANARY, dtype))
    return gemm


@pytest.mark.parametrize("dtype", FLOATS)
def test_layouts_of_every_dtype(cpu: Engine, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = values(rng, (61, 83), dtype), values(rng, (83, 71), dtype)
    layouts = (("C", "F"), ("F", "C"), ("strided", "reversed"))
    turn = FLOATS.index(dtype)
    for layout_a, layout_b in layouts if dtype == np.float32 else dealt(layouts, turn, 1):
        x, y = laid_out(a, layout_a), laid_out(b, layout_b)
        run_and_check(cpu, x, y, dtype)
    scale = 0.5 - 2j if np.dtype(dtype).kind == "c" else -0.5
    run_and_check(cpu, a, b, dtype, alpha=scale, beta=scale, layout="F")


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("forced", ["parallel", "whole"])
def test_edges_of_tiles(
    cpu: Engine, dtype: Any, forced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes around the register tile and the depth, by slabs and by one work-item."""
    set_thresholds(
        monkeypatch,
        serial_flop=0 if forced == "parallel" else 1 << 40,
        lone_flop=0,
        strip_flop=0,
        slab_uses=0,  # reading in place has tests of its own
        whole_uses=0,
    )
    policy = PackedPolicy.default(cpu.target, element(dtype))
    monkeypatch.setattr(PackedPolicy, "fit", lambda self, *_: self)
    rng = np.random.default_rng(2)
    edges_m = [policy.item_m + d for d in (-1, 0, 1)] + [1, 3 * policy.item_m]
    edges_n = [policy.item_n + d for d in (-1, 0, 1)] + [1, 3 * policy.item_n + 1]
    depths = [1, 3, 4, 5, policy.depth - 1, policy.depth + 1]
    layouts = [("C", "C"), ("F", "F")]
    if dtype != np.float32:
        layouts = dealt(layouts, forced == "whole", 1)
    for m in edges_m:
        for n in edges_n:
            k = depths[(m + n) % len(depths)]
            a, b = values(rng, (m, k), dtype), values(rng, (k, n), dtype)
            for la, lb in layouts:
                gemm = run_and_check(cpu, laid_out(a, la), laid_out(b, lb), dtype)
                assert gemm.form.whole == (forced == "whole") or m * n * k > 100_000


def test_rows_across_several_blocks_of_panels(cpu: Engine) -> None:
    """One work-item stores rows of C across panels of B that fit the L1 cache, then the next."""
    rng = np.random.default_rng(24)
    a, b = values(rng, (11, 9), np.float32), values(rng, (9, 1500), np.float32)
    for layout_a, layout_b in (("C", "C"), ("F", "F")):
        gemm = run_and_check(cpu, laid_out(a, layout_a), laid_out(b, layout_b), np.float32)
        assert gemm.form.whole


@pytest.mark.tiny
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 2), (5, 33, 7), (14, 4, 9)])
def test_tiny(cpu: Engine, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(3)
    a, b = values(rng, (m, k), np.float32), values(rng, (k, n), np.float32)
    run_and_check(cpu, a, b, np.float32)


@pytest.mark.tiny
def test_tiny_in_parallel(cpu: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    set_thresholds(monkeypatch, serial_flop=0, lone_flop=0, strip_flop=0)
    rng = np.random.default_rng(4)
    a, b = values(rng, (14, 9), np.float32), values(rng, (9, 35), np.float32)
    run_and_check(cpu, laid_out(a, "F"), laid_out(b, "F"), np.float32, 2, 3)
    a, b = values(rng, (40, 6), np.float32), values(rng, (6, 20), np.float32)
    run_and_check(cpu, a, b, np.float32)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64]
)
def test_integers_wrap_as_numpy(cpu: Engine, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    if dtype is np.bool_:
        a, b = rng.random((40, 50)) < 0.2, rng.random((50, 60)) < 0.2
        c = np.zeros((40, 60), bool)
        product(cpu, a, b, c)
        np.testing.assert_array_equal(c, a @ b)
        return
    a, b = values(rng, (40, 50), dtype), values(rng, (50, 60), dtype)
    with np.errstate(over="ignore"):
        run_and_check(cpu, a, laid_out(b, "F"), dtype)


@pytest.mark.parametrize(
    ("shape", "layouts"),
    [
        ((8, 700, 600), "CC"), ((8, 700, 600), "CF"), ((700, 8, 600), "FC"),
        ((700, 8, 600), "CF"), ((3, 515, 200), "FC"), ((1, 300, 300), "CC"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("forced", ["parallel", "whole"])
def test_operands_of_few_tiles_are_read_in_place(
    cpu: Engine,
    shape: tuple[int, int, int],
    layouts: str,
    forced: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_thresholds(
        monkeypatch, serial_flop=0 if forced == "parallel" else 1 << 40, lone_flop=0, strip_flop=0
    )
    for module in (forms, policy):
        monkeypatch.setattr(module, "L2_BYTES", 0 if forced == "parallel" else 1 << 30)
    set_thresholds(monkeypatch, whole_uses=1 << 30)
    m, n, k = shape
    rng = np.random.default_rng(6)
    a = laid_out(values(rng, (m, k), np.float32), layouts[0])
    b = laid_out(values(rng, (k, n), np.float32), layouts[1])
    gemm = run_and_check(cpu, a, b, np.float32)
    assert gemm.form.whole == (forced == "whole")
    assert not (gemm.form.a_packed and gemm.form.b_packed)


@pytest.mark.parametrize(
    ("shape", "batch", "dtype"),
    [
        ((70, 61, 200), (), np.float32), ((51, 300, 33), (), np.float64),
        ((13, 129, 150), (3,), np.float32),
    ],
)  # fmt: skip
def test_strips(
    cpu: Engine,
    shape: tuple[int, int, int],
    batch: tuple[int, ...],
    dtype: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Work-items that pack the columns that they multiply, of one product and of a batch."""
    set_thresholds(monkeypatch, serial_flop=0, lone_flop=0, whole_uses=0)
    tile = PackedPolicy.of_tile(4, 6, 2, element(dtype))
    monkeypatch.setattr(PackedPolicy, "fit", lambda self, *_: tile)
    m, n, k = shape
    rng = np.random.default_rng(12)
    a, b = values(rng, (*batch, m, k), dtype), values(rng, (*batch, k, n), dtype)
    for layouts in ("CC", "FF", "CF"):
        x, y = laid_out(a, layouts[0]), laid_out(b, layouts[1])
        gemm = run_and_check(cpu, x, y, dtype, 2, 3, layout=layouts[0])
        assert gemm.form.strip
        run_and_check(cpu, x, y, dtype, layout=layouts[0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_deep_products_split_k(cpu: Engine, dtype: Any) -> None:
    rng = np.random.default_rng(8)
    a, b = values(rng, (7, 20_011), dtype), values(rng, (20_011, 9), dtype)
    gemm = run_and_check(cpu, a, b, dtype, 2, 1)
    assert gemm.blocks.splits > 1


def test_slabs_bound_the_workspace(cpu: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "WORKSPACE", 3 * 40_000)
    set_thresholds(monkeypatch, serial_flop=0, lone_flop=0, strip_flop=0)
    rng = np.random.default_rng(9)
    for shape in ((), (3,)):
        a, b = values(rng, (*shape, 130, 700), np.float32), values(rng, (700, 170), np.float32)
        gemm = run_and_check(cpu, a, b, np.float32, 1, 2)
        assert gemm.workspace_bytes <= 3 * 70_000
    a, b = values(rng, (8, 300), np.float32), values(rng, (300, 2001), np.float32)
    gemm = run_and_check(cpu, a, b, np.float32)
    assert not gemm.form.b_packed
    assert gemm.workspace_bytes <= 3 * 70_000


@pytest.mark.parametrize("forced", ["parallel", "whole"])
def test_batches(cpu: Engine, forced: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_thresholds(monkeypatch, serial_flop=0, lone_flop=0, strip_flop=0)
    for module in (forms, policy):
        monkeypatch.setattr(module, "L2_BYTES", 0 if forced == "parallel" else 1 << 20)
    rng = np.random.default_rng(10)
    cases = [((37,), (37,)), ((37,), ()), ((), (37,)), ((3, 5), (5,)), ((4, 1), (1, 9))]
    for batch_a, batch_b in cases:
        a = values(rng, (*batch_a, 33, 31), np.float32)
        b = values(rng, (*batch_b, 31, 35), np.float32)
        gemm = run_and_check(cpu, a, laid_out(b, "F"), np.float32, 1, 1)
        assert gemm.form.whole == (forced == "whole")
    bias = values(rng, (37, 33, 1), np.float32)
    a, b = values(rng, (37, 33, 31), np.float32), values(rng, (37, 31, 35), np.float32)
    c = np.empty((37, 33, 35), np.float32)
    product(cpu, a, b, c, stages=(Stage("bias", "v + e", "row"),), extras=(bias,))
    np.testing.assert_allclose(c, a @ b + bias, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 9, 4), (5, 3, 6), (4, 8, 4), (3, 0, 2), (7, 5, 1)]
)
def test_small_products_side_by_side(
    cpu: Engine, shape: tuple[int, int, int], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every layout, an operand for all products, blocks that are not full, C that is read."""
    m, k, n = shape
    specs, specialize = [], lanes.specialization
    monkeypatch.setattr(
        lanes, "specialization", lambda *given: specs.append(specialize(*given)) or specs[-1]
    )
    monkeypatch.setattr(lanes, "gain", lambda *_: 1e9)
    rng = np.random.default_rng(m + 10 * n)
    layouts = ["C", "F", "strided", "reversed"]
    for turn, count in enumerate((16, 17, 35, 300)):
        with Engine(cpu.device, caller=turn % 2 == 0) as engine:
            a, b = values(rng, (count, m, k), dtype), values(rng, (count, k, n), dtype)
            a, b = laid_out(a, layouts[turn]), laid_out(b, layouts[(turn + 1) % 4])
            if turn == 1:
                a = np.broadcast_to(a[:1], a.shape)
            if turn == 2:
                b = b[0]
            buffer = np.full((count, 2 * m + 1, 3 * n + 2), CANARY, dtype)
            into = buffer[:, 1::2, 2::3]
            matmul(a, b, out=into, engine=engine)
            check(into, a, b)
            into[...] = CANARY
            assert (buffer == CANARY).all()
            c = laid_out(values(rng, (count, m, n), dtype), layouts[(turn + 2) % 4])
            before = c.copy()
            if np.dtype(dtype).kind == "f":
                scaled(engine, a, b, c)
                check(c, a, b, 2, 3, before)
    assert specs


def scaled(engine: Engine, a: Array, b: Array, c: Array) -> None:
    """2 a @ b + 3 c in the place of c."""
    call = Call([], engine, None)
    views = [call.input(np.broadcast_to(x, (len(c), *x.shape[-2:])), "x") for x in (a, b)]
    into = call.output(c.shape, c.dtype, c, read=True)
    of = element(c.dtype)
    problem = GemmProblem(
        *c.shape[1:], a.shape[-1], c.shape[:1],
        operand(views[0], 1), operand(views[1], 1), operand(into, 1), of, True,
    )  # fmt: skip
    row = PackedPolicy.default(engine.target, of)
    call.run(lanes.lanes_plan(engine, problem, row), (*views, into), (2, 3))


@pytest.mark.parametrize("layout", ["C", "F"])
def test_epilogue_sees_the_callers_rows_and_columns(cpu: Engine, layout: str) -> None:
    rng = np.random.default_rng(11)
    a, b = values(rng, (50, 40), np.float32), values(rng, (40, 70), np.float32)
    bias, residual = values(rng, (70,), np.float32), values(rng, (50, 70), np.float16)
    c = laid_out(np.empty((50, 70), np.float32), layout)
    epilogue = Epilogue().bias(bias).relu().add(residual).apply("v + R(2.0) * row - col")
    product(cpu, a, b, c, stages=epilogue.stages, extras=(bias, residual))
    place = 2.0 * np.arange(50)[:, None] - np.arange(70)
    np.testing.assert_allclose(c, np.maximum(a @ b + bias, 0) + residual + place, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", ["a", "b"])
def test_an_operand_of_several_products_is_packed_once(
    cpu: Engine, monkeypatch: pytest.MonkeyPatch, name: str, dtype: Any
) -> None:
    """With the same bits; calls that are repeated pack both operands."""
    set_thresholds(monkeypatch, lone_flop=0, strip_flop=0)
    rng = np.random.default_rng(5)
    shared, other = (values(rng, (150, 170), dtype) for _ in range(2))
    blocks = [values(rng, (n, 150), dtype) for n in (90, 90, 40, 90)]
    blocks[3] = np.asfortranarray(blocks[3])
    kept: list[str] = []
    without = PackedPlan._launches_sharing

    def counted(plan: PackedPlan, its: str) -> Any:
        kept.append(its)
        return without(plan, its)

    monkeypatch.setattr(PackedPlan, "_launches_sharing", counted)

    def product(block: Array, common: Array, **options: Any) -> Array:
        pair = (block, common) if name == "b" else (common.T, block.T)
        return matmul(*pair, engine=cpu, **options)

    alone = [product(block, shared) for block in blocks]
    with packed_once(name):
        together = [product(block, shared, queue=cpu.queue) for block in blocks]
        repeated = [product(blocks[0], shared) for _ in range(3)]
        result = product(blocks[0], other, queue=cpu.queue)  # another one is not mixed up with it
    assert len(kept) >= 2
    for expected, got in zip([*alone, *alone[:1] * 3], [*together, *repeated], strict=True):
        assert expected.tobytes() == got.tobytes()
    exact = blocks[0].astype(np.complex128) @ other.astype(np.complex128)
    assert np.allclose(result if name == "b" else result.T, exact, atol=1e-3)


def test_conjugates(cpu: Engine) -> None:
    rng = np.random.default_rng(12)
    a, b = values(rng, (45, 50), np.complex64), values(rng, (50, 30), np.complex64)
    for layout in ("C", "F"):
        c = np.empty((45, 30), np.complex64)
        product(cpu, laid_out(a, layout), laid_out(b, layout), c, conj=(True, False))
        check(c, a.conj(), b)
        product(cpu, laid_out(a, "strided"), laid_out(b, layout), c, conj=(False, True))
        check(c, a, b.conj())


def test_mixed_dtypes_convert_on_the_way_in(cpu: Engine) -> None:
    rng = np.random.default_rng(13)
    for left, right, layout in (
        (np.float16, np.float64, "C"), (np.float32, np.complex128, "F"),
        (np.int16, np.float32, "F"), (np.complex64, np.float64, "C"),
    ):  # fmt: skip
        a, b = values(rng, (30, 50), left), values(rng, (50, 40), right)
        run_and_check(cpu, laid_out(a, layout), laid_out(b, layout), np.result_type(left, right))


def test_no_steps_and_nan(cpu: Engine) -> None:
    """No steps scale C; beta = 0 does not read it; NaN and inf in A and B reach their places."""
    a, b = np.empty((5, 0), np.float32), np.empty((0, 40), np.float32)
    c = np.full((5, 40), np.nan, np.float32)
    product(cpu, a, b, c)
    assert np.all(c == 0)
    c[...] = 3
    product(cpu, a, b, c, beta=2)
    assert np.all(c == 6)
    a, b = np.ones((50, 30), np.float32), np.ones((30, 60), np.float32)
    a[49, 3], b[29, 59] = np.nan, np.inf
    c = np.empty((50, 60), np.float32)
    product(cpu, a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_special_half_values(cpu: Engine) -> None:
    """Subnormal, infinite and rounding halves survive packing and storing."""
    for dtype in [d for d in FLOATS if is_float16_like(np.dtype(d))]:
        bits = np.arange(0, 65536, 7, dtype=np.uint16)[: 96 * 96].reshape(96, 96)
        b = bits.view(dtype)
        for layout in ("C", "F"):
            c = np.empty((96, 96), dtype)
            a = np.zeros((96, 96), dtype)
            np.fill_diagonal(a, 1)
            finite = np.where(np.isfinite(b.astype(np.float32)), b, np.array(2.5, dtype))
            product(cpu, a, laid_out(finite, layout), c)
            np.testing.assert_array_equal(c.astype(np.float32), finite.astype(np.float32))


def test_repeats_bit_by_bit_from_eight_threads(cpu: Engine) -> None:
    rng = np.random.default_rng(14)
    a, b = values(rng, (150, 700), np.float32), values(rng, (700, 130), np.float32)
    want = np.empty((150, 130), np.float32)
    product(cpu, a, b, want)
    wrong: list[int] = []

    def work(index: int) -> None:
        c = np.empty_like(want)
        for _ in range(12):
            c[...] = np.nan
            product(cpu, a, b, c)
            if not np.array_equal(c, want):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("name", ["cpu", "generic"])
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_policies_keep_their_limits(name: str, bits: int) -> None:
    target = replace(example_target(name), vector_bytes=bits // 8)
    for dtype in (np.int8, np.float32, np.float64, np.complex64, np.complex128):
        elem = element(dtype)
        policy = PackedPolicy.default(target, elem)
        policy.check(target, elem)
        for m in (1, 2, 5, 8, 13, 40, 1000):
            for n in (1, 8, 20, 40, 1000):
                policy.fit(m, n, 64, elem).check(target, elem)
