"""NVIDIA's gemm kernels, run from their PTX: each main loop, edges, transposes, parts of k."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from math import gcd
from typing import Any

import numpy as np
import pytest
from emulator.device import Emulator
from emulator.memory import Fault
from readers import dense, windows
from sampling import in_pairs

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import BF16, Element, element
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.ops.gemm.matrix.check import product_of_pieces
from portable_gpu.ops.gemm.matrix.format import F32, F64, format_of
from portable_gpu.ops.gemm.matrix.parts import in_parts
from portable_gpu.ops.gemm.matrix.plan import MatrixPlan, specializations_of
from portable_gpu.ops.gemm.matrix.policy import (
    MMA_CLASSES,
    WGMMA_CLASSES,
    MmaPolicy,
    WgmmaPolicy,
    requires_k_along_b,
)
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Gather
from portable_gpu.ops.gemm.skinny.fragments import kernel_of, skinny_plan
from portable_gpu.ops.gemm.skinny.vectors import variants
from portable_gpu.ops.gemm.tiled.plan import TiledPlan, specialization_of
from portable_gpu.ops.gemm.tiled.policy import SHAPE_CLASSES, GemmPolicy
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.ops.gemm.variants import of_parts
from portable_gpu.runtime.plan import Plan

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))

F16 = element(np.float16)
TRANSPOSES = ("NN", "NT", "TN", "TT")
#: When copies are done, and whether work-items copy lines or the copy engine boxes.
TIMES, COPIES = ("late", "early"), (False, True)
#: Values of sums that nothing may leave in C.
POISON = -77
CANARY = 7


def label(value: Any) -> str:
    return value.name if isinstance(value, Element) else str(value)


def operand(elem: Element, rows: int, cols: int, trans: str, batch: int) -> Operand:
    row, col = (cols, 1) if trans == "N" else (1, rows)
    aligned = gcd(16, elem.itemsize * max(row, col), elem.itemsize * rows * cols)
    return Operand(elem, row, col, (rows * cols,) if batch else (), False, aligned)


def problem(
    m: int,
    n: int,
    k: int,
    elem: Element,
    trans: str = "NN",
    precision: str = "ieee",
    batch: int = 0,
) -> GemmProblem:
    compute = F32 if elem.itemsize == 2 else elem
    return GemmProblem(
        m, n, k, (batch,) if batch else (),
        operand(elem, m, k, trans[0], batch), operand(elem, k, n, trans[1], batch),
        operand(compute, m, n, "N", batch), compute, precision=precision,
    )  # fmt: skip


def whole_numbers(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-4, 5, shape)


def stored(values: Any, elem: Element, trans: str) -> Any:
    values = values if trans == "N" else values.swapaxes(-1, -2)
    if elem == BF16:
        return np.ascontiguousarray((values.astype("f4").view("u4") >> 16).astype("u2"))
    return np.ascontiguousarray(values.astype({"f16": "f2", "f32": "f4", "f64": "f8"}[elem.name]))


def narrowed(values: Any, elem: Element) -> Any:
    """Sums as C's 16-bit element holds them, to nearest even."""
    if elem == F16:
        return values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def check(path: Plan, gpu: Emulator, p: GemmProblem, trans: str) -> None:
    """A product of small whole numbers, exact whatever the order; C is between canaries.

    Of a triangle, the rest stays as it was.
    """
    batch = p.batch or ()
    a, b = whole_numbers((*batch, p.m, p.k), 1), whole_numbers((*batch, p.k, p.n), 2)
    size = p.m * p.n * (batch[0] if batch else 1)
    memory = np.full(size + 64, CANARY, f"f{p.c.elem.itemsize}")
    memory[32:-32] = POISON
    buffers = [stored(a, p.a.elem, trans[0]), stored(b, p.b.elem, trans[1]), memory]
    path.enqueue(gpu, buffers, (0, 0, 32), (1.0, 0.0))  # type: ignore[arg-type]
    row, col = np.indices((p.m, p.n))
    inside = {"": row >= 0, "lower": col <= row, "upper": col >= row}[p.triangle]
    expected = np.where(inside, a @ b, POISON)
    np.testing.assert_array_equal(memory[32:-32].reshape(*batch, p.m, p.n), expected)
    assert np.all(memory[:32] == CANARY)
    assert np.all(memory[-32:] == CANARY)
    assert not gpu.counters.any()


@pytest.fixture
def gpu() -> Emulator:
    """An H100: copies are done when a thread waits for them."""
    return Emulator.of("sm_90")


@pytest.fixture(params=TIMES)
def either(request: pytest.FixtureRequest) -> Emulator:
    """That device, and one where copies are done at once."""
    return Emulator.of("sm_90", late=request.param == "late")


def by_matrix_units(
    gpu: Emulator, p: GemmProblem, policy: Any, splits: int = 1, transposed: bool = False
) -> MatrixPlan:
    return MatrixPlan(gpu, p, cut(policy, splits, transposed=transposed))  # type: ignore[arg-type]


def cut(policy: Any, parts: int, **fields: Any) -> Tiling:
    """A choice that cuts k: each tile's, or of warpgroups' tiles the steps of all, into shares."""
    if isinstance(policy, WgmmaPolicy):
        return Tiling("", policy, shares=parts if parts > 1 else 0, **fields)
    return Tiling("", policy, parts, **fields)


@pytest.fixture(params=COPIES, ids=["lines", "boxes"])
def bulk(request: pytest.FixtureRequest) -> bool:
    """Whether work-items copy lines, or the copy engine boxes."""
    return bool(request.param)


@pytest.mark.parametrize(
    ("size", "trans", "elem", "bulk"),
    in_pairs(
        ((136, 72, 328), (65, 1, 72), (67, 72, 72), (304, 520, 200), (123, 77, 65)),
        TRANSPOSES, (F16, BF16), COPIES,
    ),
    ids=label,
)  # fmt: skip
def test_wgmma_transposes_and_edges(
    gpu: Emulator, size: tuple[int, int, int], elem: Element, trans: str, bulk: bool
) -> None:
    p = problem(*size, elem, trans)
    policy = replace(WgmmaPolicy.for_shape_class("large"), bulk=bulk)
    check(by_matrix_units(gpu, p, policy), gpu, p, trans)


@pytest.mark.parametrize(
    ("name", "either", "bulk", "splits"),
    in_pairs(list(WGMMA_CLASSES), TIMES, COPIES, (1, 3)),
    indirect=["either"],
)
def test_wgmma_tiles(either: Emulator, name: str, bulk: bool, splits: int) -> None:
    policy = replace(WgmmaPolicy.for_shape_class(name), bulk=bulk)
    trans = "NT" if requires_k_along_b(policy) else "NN"
    p = problem(200, 264, 712, F16, trans)
    check(by_matrix_units(either, p, policy, splits), either, p, trans)
    if splits == 1:
        p = problem(72, 64, 96, F16, trans, batch=3)
        check(by_matrix_units(either, p, policy), either, p, trans)


@pytest.mark.parametrize(
    ("size", "trans", "elem"),
    in_pairs(((67, 73, 139, 0, 1), (33, 24, 72, 2, 1), (7, 9, 333, 0, 2)), TRANSPOSES, (F16, F64)),
    ids=label,
)
def test_operands_off_the_grid_are_gathered(
    gpu: Emulator, size: tuple[int, ...], elem: Element, trans: str
) -> None:
    """One launch, whatever the alignment: of one operand, of both, of a batch, of parts of k."""
    if elem == F64:
        policies: list[Any] = [MmaPolicy.for_shape_class(name) for name in ("small", "tiny")]
    else:
        policies = [replace(WgmmaPolicy.for_shape_class("tiny"), bulk=False)]
        policies += [replace(policies[0], tile_n=16, consumers=2)] if trans[1] == "T" else []
    m, n, k, batch, splits = size
    for policy in policies:
        p = problem(m, n, k, elem, trans, batch=batch)
        choice = cut(policy, splits, gather=True)
        path = MatrixPlan(gpu, p, choice)  # type: ignore[arg-type]
        check(path, gpu, p, trans)
        assert not any("repack" in name for name in gpu.launches)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("elem", [F16, F64], ids=lambda e: e.name)
def test_rows_of_c_off_the_grid_know_their_places(
    gpu: Emulator, elem: Element, transposed: bool
) -> None:
    """C is read, a matrix is added, and so is the number of the row."""
    m, n, k, compute = 70, 73, 40, F64 if elem == F64 else F32
    other = whole_numbers((m, n), 4).astype("f8" if elem == F64 else "f4")
    p = problem(m, n, k, elem, "NN")
    p = replace(
        p, reads_c=True, epilogue=Epilogue().add(other).apply("v + row").stages,
        c=replace(p.c, aligned_bytes=compute.itemsize),
        extras=(Operand(compute, n, 1, (), False, compute.itemsize),),
    )  # fmt: skip
    policy: Any = MmaPolicy.for_shape_class("small")
    if elem == F16:
        policy = replace(WgmmaPolicy.for_shape_class("tiny"), bulk=False)
    a, b, c = (whole_numbers(x, i) for i, x in enumerate([(m, k), (k, n), (m, n)]))
    memory = c.astype(other.dtype)
    buffers = [stored(a, elem, "N"), stored(b, elem, "N"), other, memory]
    choice = Tiling("", policy, transposed=transposed, gather=True)
    path = MatrixPlan(gpu, p, choice)  # type: ignore[arg-type]
    path.enqueue(gpu, buffers, (0, 0, 0, 0), (2.0, 3.0))  # type: ignore[arg-type]
    rows = np.arange(m)[:, None]
    np.testing.assert_array_equal(memory, 2 * (a @ b) + 3 * c + other + rows)


@pytest.mark.parametrize("changed", [{"blocks": 2, "tile_n": 128}, {"consumers": 3, "tile_n": 64}])
def test_wgmma_other_policies(either: Emulator, changed: dict[str, int], bulk: bool) -> None:
    policy = replace(WgmmaPolicy.for_shape_class("large"), bulk=bulk, **changed)
    p = problem(400, 200, 328, F16)
    check(by_matrix_units(either, p, policy), either, p, "NN")


@pytest.mark.parametrize(
    ("precision", "trans", "bulk"),
    in_pairs(("tf32", "tf32x3", "bf16x3", "bf16x6"), ("NN", "TT"), COPIES),
)
def test_wgmma_precisions(gpu: Emulator, precision: str, trans: str, bulk: bool) -> None:
    parts = {"tf32": 1, "tf32x3": 2, "bf16x3": 2, "bf16x6": 3}[precision]
    p = problem(136, 77, 300, F32, trans, precision)
    policy = replace(WgmmaPolicy.for_shape_class("small", parts), bulk=bulk)
    check(by_matrix_units(gpu, p, policy), gpu, p, trans)


@pytest.mark.parametrize(("precision", "trans"), [("bf16x3", "NT"), ("bf16x6", "TN")])
def test_the_check_of_pieces_is_exact(gpu: Emulator, precision: str, trans: str) -> None:
    """As on a device before the first product of values in pieces, of sizes that end anywhere."""
    m, n, k = 70, 66, 131
    rng, p = np.random.default_rng(3), problem(m, n, k, F32, trans, precision)
    bits = 15 if precision == "bf16x3" else 17
    a = rng.integers(1 - 2**bits, 2**bits, (m, k)).astype("f4")
    b = rng.integers(-1, 2, (k, n)).astype("f4")
    result = np.full(m * n, POISON, np.float32)
    buffers = [stored(a, F32, trans[0]), stored(b, F32, trans[1]), result]
    path = product_of_pieces(gpu, p)  # type: ignore[arg-type]
    path.enqueue(gpu, buffers, (0, 0, 0), (1.0, 0.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(result.reshape(m, n), a.astype("f8") @ b)


def by_tf32(gpu: Emulator, p: GemmProblem, policy: WgmmaPolicy, splits: int = 1) -> MatrixPlan:
    """As it is chosen: transposed, where A then goes through registers."""
    form = format_of(p, gpu.target)
    assert form is not None
    return by_matrix_units(gpu, p, policy, splits, form.transposes(p))


#: The last three have sides that need a first pass, and odd rows of C.
TF32_SIZES = (
    (136, 72, 328), (68, 4, 36), (4, 68, 72), (300, 520, 100), (68, 76, 65),
    (67, 72, 72), (136, 77, 72), (65, 71, 72),
)  # fmt: skip


@pytest.mark.parametrize(
    ("size", "trans", "bulk"), in_pairs(TF32_SIZES, TRANSPOSES, COPIES), ids=str
)
def test_tf32_transposes_and_edges(
    gpu: Emulator, size: tuple[int, int, int], trans: str, bulk: bool
) -> None:
    p = problem(*size, F32, trans, "tf32")
    policy = replace(WgmmaPolicy.for_shape_class("large"), bulk=bulk)
    check(by_tf32(gpu, p, policy), gpu, p, trans)


@pytest.mark.parametrize(
    ("name", "trans", "either", "bulk", "batch"),
    in_pairs(list(WGMMA_CLASSES), ("NN", "TT"), TIMES, COPIES, (0, 3)),
    indirect=["either"],
)
def test_tf32_tiles(either: Emulator, name: str, trans: str, bulk: bool, batch: int) -> None:
    """One product with k cut, or a batch."""
    policy = replace(WgmmaPolicy.for_shape_class(name), bulk=bulk)
    m, n, k = (72, 64, 96) if batch else (200, 264, 392)
    p = problem(m, n, k, F32, trans, "tf32", batch=batch)
    check(by_tf32(either, p, policy, 1 if batch else 3), either, p, trans)
    assert "gemm/repack" not in either.launches


@pytest.mark.parametrize(
    "changed", [{"blocks": 2, "stages": 4}, {"consumers": 2, "stages": 4, "flush": 2}]
)
def test_tf32_other_policies(either: Emulator, changed: dict[str, int], bulk: bool) -> None:
    policy = replace(WgmmaPolicy.for_shape_class("small"), bulk=bulk, **changed)
    p = problem(400, 200, 328, F32, "NN", "tf32")
    check(by_tf32(either, p, policy), either, p, "NN")


def test_tf32_off_the_grid_is_repacked_as_it_lies(gpu: Emulator) -> None:
    """Lines that are not aligned, of much use, where work-items copy: k stays across them."""
    p = problem(68, 2048, 36, F32, "TT", "tf32")
    path = by_tf32(gpu, p, replace(WgmmaPolicy.for_shape_class("large"), bulk=False))
    check(path, gpu, p, "TT")
    assert gpu.launches == ["gemm/repack", "gemm/wgmma"]


@pytest.mark.parametrize("trans", ["NN", "TT"])
def test_tf32_where_c_and_a_bias_are_read(gpu: Emulator, trans: str, bulk: bool) -> None:
    bias = whole_numbers((72,), 3).astype("f4")
    p = problem(136, 72, 100, F32, trans, "tf32")
    p = replace(
        p, reads_c=True, epilogue=Epilogue().bias(bias).stages,
        extras=(Operand(F32, 0, 1, (), False, 16),),
    )  # fmt: skip
    a, b, c = (whole_numbers(x, i) for i, x in enumerate([(p.m, p.k), (p.k, p.n), (p.m, p.n)]))
    memory = c.astype("f4")
    buffers = [stored(a, F32, trans[0]), stored(b, F32, trans[1]), bias, memory]
    path = by_tf32(gpu, p, replace(WgmmaPolicy.for_shape_class("small"), bulk=bulk))
    path.enqueue(gpu, buffers, (0, 0, 0, 0), (2.0, 3.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(memory, 2 * (a @ b) + 3 * c + bias)


@pytest.mark.parametrize(
    ("name", "size", "stored_as", "transposed", "bulk"),
    [("large", (140, 280, 72), "N", False, True), ("128x208", (136, 216, 40), "T", True, False),
     ("narrow", (70, 40, 24), "N", False, False), ("tiny", (140, 70, 24), "T", False, True)],
)  # fmt: skip
def test_wgmma_stores_chunks_after_a_bias_and_factors_of_rows(
    gpu: Emulator, name: str, size: Any, stored_as: str, transposed: bool, bulk: bool
) -> None:
    """Chunks of rows or columns; the vectors are read once a tile, and end where C ends."""
    m, n, k = size
    bias, factors = whole_numbers((n,), 3).astype("f2"), whole_numbers((m,), 4).astype("f4")
    p = problem(m, n, k, F16, "NT")
    p = replace(
        p, epilogue=Epilogue().bias(bias).scale(factors, per="row").apply("v + row - col").stages,
        c=operand(F16, m, n, stored_as, 0),
        extras=(Operand(F16, 0, 1, (), False, 2), Operand(F32, 1, 0, (), False, 4)),
    )  # fmt: skip
    a, b = (whole_numbers(x, i) for i, x in enumerate([(m, k), (k, n)]))
    memory = np.full(m * n, np.nan, np.float16)
    policy = replace(WgmmaPolicy.for_shape_class(name), bulk=bulk)
    path = MatrixPlan(gpu, p, Tiling("", policy, transposed=transposed))  # type: ignore[arg-type]
    buffers = [stored(a, F16, "N"), stored(b, F16, "T"), bias, factors, memory]
    path.enqueue(gpu, buffers, (0,) * 5, (2.0, 0.0))  # type: ignore[arg-type]
    expected = (2 * (a @ b) + bias) * factors[:, None] + np.subtract.outer(range(m), range(n))
    result = memory.reshape(n, m).T if stored_as == "T" else memory.reshape(m, n)
    np.testing.assert_array_equal(result, expected.astype(np.float16))


@pytest.mark.parametrize(
    ("elem", "consumers", "tile_n", "size", "bulk"),
    [(F16, 1, 64, (75, 38, 20), True), (BF16, 2, 96, (140, 100, 66), False),
     (F16, 2, 128, (20, 131, 9), True)],
)  # fmt: skip
def test_wgmma_adds_to_c_whose_rows_begin_anywhere(
    gpu: Emulator, elem: Element, consumers: int, tile_n: int, size: Any, bulk: bool
) -> None:
    """Rows leave by warps, also those of an even length, and C is read so."""
    policy = WgmmaPolicy(consumers, 1, tile_n, 4, bulk=bulk)
    m, n, k = size
    c = replace(operand(elem, m, n, "N", 0), aligned_bytes=gcd(16, 2 * n))
    a, b, before = (whole_numbers(shape, s) for s, shape in enumerate(((m, k), (k, n), (m, n)), 1))
    memory = np.full(m * n + 64, CANARY, np.float16 if elem == F16 else np.uint16)
    memory[32:-32] = stored(before, elem, "N").ravel()
    buffers = [stored(a, elem, "N"), stored(b, elem, "T"), memory]
    path = by_matrix_units(
        gpu, replace(problem(m, n, k, elem, "NT"), c=c, reads_c=True), policy, transposed=False
    )
    path.enqueue(gpu, buffers, (0, 0, 32), (1.0, 1.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(memory[32:-32].reshape(m, n), narrowed(a @ b + before, elem))
    assert np.all(memory[:32] == CANARY)
    assert np.all(memory[-32:] == CANARY)


@pytest.mark.parametrize(
    ("tile_n", "size", "transposed", "elem", "bulk"),
    in_pairs(
        (64, 112, 160, 256), ((67, 72, 72), (130, 264, 72), (65, 70, 72), (65, 71, 72)),
        (False, True), (F16, BF16), COPIES,
    ),
    ids=label,
)  # fmt: skip
def test_wgmma_stores_16_bits(
    gpu: Emulator, tile_n: int, size: Any, transposed: bool, elem: Element, bulk: bool
) -> None:
    """C of the operands' element, in whole lines where its rows are aligned; else one or two."""
    policy = WgmmaPolicy(2, 1, tile_n, 4, bulk=bulk)
    m, n, k = size
    p = problem(m, n, k, elem, "NT")
    c = replace(operand(elem, m, n, "N", 0), aligned_bytes=gcd(16, 2 * n))
    a, b = whole_numbers((m, k), 1), whole_numbers((k, n), 2)
    memory = np.full(m * n + 64, CANARY, np.float16 if elem == F16 else np.uint16)
    buffers = [stored(a, elem, "N"), stored(b, elem, "T"), memory]
    path = by_matrix_units(gpu, replace(p, c=c), policy, transposed=transposed)
    path.enqueue(gpu, buffers, (0, 0, 32), (1.0, 0.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(memory[32:-32].reshape(m, n), narrowed(a @ b, elem))
    assert np.all(memory[:32] == CANARY)
    assert np.all(memory[-32:] == CANARY)


@pytest.mark.parametrize(
    ("tile_n", "size", "transposed", "either", "bulk"),
    in_pairs(
        (48, 96, 112, 144, 160, 208, 224, 240), ((200, 264, 3), (130, 0, 1), (40, 77, 1)),
        (False, True), TIMES, COPIES,
    ),
    indirect=["either"],
    ids=str,
)  # fmt: skip
def test_wgmma_of_odd_widths(
    either: Emulator, tile_n: int, size: tuple[int, int, int], transposed: bool, bulk: bool
) -> None:
    """Whole tiles and parts, k whole and cut; C's rows aligned, and not."""
    policy = WgmmaPolicy(2, 1, tile_n, 4, bulk=bulk)
    m, n, splits = size
    p = problem(m, n or tile_n, 328, F16, "NT")
    path = by_matrix_units(either, p, policy, splits, transposed)
    check(path, either, p, "NT")


@pytest.mark.parametrize(
    ("name", "batch", "trans", "either", "bulk"),
    in_pairs(("large", "small", "128x96"), (0, 2), ("NN", "NT"), TIMES, COPIES),
    indirect=["either"],
)
def test_wgmma_with_k_cut_of_the_last_tiles(
    either: Emulator, name: str, batch: int, trans: str, bulk: bool
) -> None:
    """Single products and a batch; with a tail of k."""
    policy = replace(WgmmaPolicy.for_shape_class(name), bulk=bulk)
    trans = "NT" if requires_k_along_b(policy) else trans
    p = problem(200, 264, 500 if batch else 712, F16, trans, batch=batch)
    path = MatrixPlan(either, p, cut(policy, 3, unsplit=3))  # type: ignore[arg-type]
    check(path, either, p, trans)


@pytest.mark.parametrize(
    ("name", "shares", "batch", "either", "bulk"),
    in_pairs(
        ("large", "small", "128x176"),
        ("one for several tiles", "many for each tile", "a row", "a column", "some tiles whole"),
        (0, 2), TIMES, COPIES,
    ),
    indirect=["either"],
)  # fmt: skip
def test_wgmma_shares_of_steps(
    either: Emulator, name: str, shares: str, batch: int, bulk: bool
) -> None:
    """More and fewer groups than tiles; groups side by side whose tiles share lines; twice.

    The parts of a share are a tile's end, whole tiles and a tile's beginning, or a tile's middle.
    """
    policy = replace(WgmmaPolicy.for_shape_class(name), bulk=bulk)
    p = problem(*((136, 136, 328) if batch else (200, 264, 712)), F16, "NT", batch=batch)
    rows, cols = -(-p.m // policy.tile_m), -(-p.n // policy.tile_n)
    tiles = rows * cols * (batch or 1)
    fields = {
        "one for several tiles": {"shares": max(2, tiles // 2 + 1)},
        "many for each tile": {"shares": 3 * tiles, "lanes": tiles},
        "a row": {"shares": 3 * cols, "lanes": cols},
        "a column": {"shares": 3 * rows, "lanes": rows},
        "some tiles whole": {"shares": max(2, tiles // 4), "unsplit": tiles // 4 * 2},
    }[shares]
    band = 1 if shares == "a row" else 16
    choice = Tiling("", replace(policy, band=band), **fields)  # type: ignore[arg-type]
    path = MatrixPlan(either, p, choice)  # type: ignore[arg-type]
    for _ in range(2):
        check(path, either, p, "NT")


@pytest.mark.parametrize(
    ("trans", "transposed", "bulk", "elem"),
    [("NT", False, True, F32), ("TN", True, False, F16), ("TT", False, False, F16)],
    ids=label,
)
def test_parts_of_k_are_added_by_a_second_launch(
    gpu: Emulator, trans: str, transposed: bool, bulk: bool, elem: Element
) -> None:
    """Parts have 3 and 2 steps; the last one ends inside of a step."""
    p = problem(72, 136, 712, F16, trans)
    p = replace(p, c=operand(elem, p.m, p.n, "NT"[transposed], 0))
    parts = in_parts(p, 5, transposed, 64)
    assert parts.k_parts == (192, 192, 128, 128, 72)
    policy = replace(WgmmaPolicy.for_shape_class("tiny"), bulk=bulk)
    choice = Tiling("wgmma, split-k", policy, splits=5, transposed=transposed)
    form = format_of(p, gpu.target)
    assert form is not None
    variant, *_ = of_parts(p, choice, form, gpu.target, gpu.table, 0.0)
    a, b = whole_numbers((p.m, p.k), 1), whole_numbers((p.k, p.n), 2)
    memory = np.full(p.m * p.n + 64, POISON, f"f{elem.itemsize}")
    plan = variant.bind(gpu)  # type: ignore[arg-type]
    buffers = [stored(a, F16, trans[0]), stored(b, F16, trans[1]), memory]
    plan.enqueue(gpu, buffers, (0, 0, 32), (2.0, 0.0))  # type: ignore[arg-type]
    result = memory[32:-32].reshape((p.n, p.m) if transposed else (p.m, p.n))
    np.testing.assert_array_equal(result.T if transposed else result, 2 * (a @ b))
    assert np.all(memory[:32] == POISON)
    assert np.all(memory[-32:] == POISON)


def test_tiles_are_numbered_down_bands(gpu: Emulator, bulk: bool) -> None:
    """Five tile rows in bands of two, the last of one; few groups, which take tile after tile."""
    gpu.target = replace(gpu.target, compute_units=2)
    p = problem(64 * 4 + 3, 200, 72, F16)
    check(by_matrix_units(gpu, p, WgmmaPolicy(1, 1, 64, 4, band=2, bulk=bulk)), gpu, p, "NN")
    double = problem(32 * 4 + 3, 70, 40, F64, "TN")
    policy = MmaPolicy(1, 2, 2, 1, 3, band=2)
    check(by_matrix_units(gpu, double, policy), gpu, double, "TN")


@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_wgmma_of_a_triangle(gpu: Emulator, triangle: str, bulk: bool) -> None:
    """Tiles inside, across the diagonal and left out; in bands, of few groups, with k cut."""
    gpu.target = replace(gpu.target, compute_units=2)
    policies = [
        (WgmmaPolicy(1, 1, 64, 4, band=2, bulk=bulk), 1),
        (WgmmaPolicy(1, 1, 64, 4, band=2, bulk=bulk), 2),
        (replace(WgmmaPolicy.for_shape_class("large"), bulk=bulk), 1),
    ]
    for n, batch in ((201, 0), (72, 2)):
        for policy, splits in policies if n > 72 else policies[:1]:
            p = replace(problem(n, n, 264, F16, "NT", batch=batch), triangle=triangle)
            check(by_matrix_units(gpu, p, policy, splits), gpu, p, "NT")


@pytest.mark.parametrize(
    ("tile", "result", "bulk"),
    in_pairs(
        ((48, "lower", True), (112, "upper", False), (240, "lower", False), (48, "upper", True)),
        ((264, F16), (264, F32), (265, F16), (40, F32)), COPIES,
    ),
    ids=label,
)  # fmt: skip
def test_wgmma_of_a_triangle_by_odd_widths(
    gpu: Emulator, tile: tuple[int, str, bool], result: tuple[int, Element], bulk: bool
) -> None:
    """Whole tiles by each way of storing C; boxes of fewer lines than a tile has."""
    (tile_n, triangle, transposed), (n, elem) = tile, result
    policy = WgmmaPolicy(2, 1, tile_n, 4, band=2, bulk=bulk)
    p = replace(problem(n, n, 72, F16, "NT"), triangle=triangle)
    c = replace(operand(elem, n, n, "N", 0), aligned_bytes=gcd(16, elem.itemsize * n))
    p = replace(p, c=c)
    check(by_matrix_units(gpu, p, policy, transposed=transposed), gpu, p, "NT")


@pytest.mark.parametrize(
    ("sizes", "name", "triangle", "bulk"),
    in_pairs(
        ((712, 0, 0), (712, 0, 3), (500, 2, 2)), ("small", "128x240"), ("lower", "upper"), COPIES
    ),
    ids=str,
)
def test_wgmma_of_a_triangle_with_k_cut(
    gpu: Emulator, sizes: tuple[int, int, int], name: str, triangle: str, bulk: bool
) -> None:
    """All tiles, or the last ones; single products and a batch; with a tail of k."""
    policy = replace(WgmmaPolicy.for_shape_class(name), band=2, bulk=bulk)
    k, batch, unsplit = sizes
    p = replace(problem(264, 264, k, F16, "NT", batch=batch), triangle=triangle)
    choice = cut(policy, 3, unsplit=unsplit)
    check(MatrixPlan(gpu, p, choice), gpu, p, "NT")  # type: ignore[arg-type]


@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_tf32_of_a_triangle(gpu: Emulator, triangle: str, bulk: bool) -> None:
    for n, trans in ((136, "TT"), (137, "NN")):
        p = replace(problem(n, n, 72, F32, trans, "tf32"), triangle=triangle)
        policy = replace(WgmmaPolicy.for_shape_class("small"), bulk=bulk)
        check(by_tf32(gpu, p, policy), gpu, p, trans)


@pytest.mark.parametrize("triangle", ["lower", "upper"])
@pytest.mark.parametrize("name", MMA_CLASSES)
def test_mma_of_a_triangle(gpu: Emulator, name: str, triangle: str) -> None:
    for n, splits, transposed in ((131, 2, False), (70, 1, True)):
        p = replace(problem(n, n, 72, F64, "NT"), triangle=triangle)
        policy = MmaPolicy.for_shape_class(name)
        check(by_matrix_units(gpu, p, policy, splits, transposed), gpu, p, "NT")


def test_boxes_of_lines_that_run_backwards_or_are_one(either: Emulator) -> None:
    policy = replace(WgmmaPolicy.for_shape_class("small"), bulk=True)
    upward = problem(136, 72, 648, F16)
    upward = replace(upward, a=replace(upward.a, row=-648))
    path = by_matrix_units(either, upward, policy)
    a, b = whole_numbers((136, 648), 1), whole_numbers((648, 72), 2)
    c = np.full((136, 72), POISON, "f4")
    buffers = [stored(a, F16, "N"), stored(b, F16, "N"), c]
    path.enqueue(either, buffers, (135 * 648, 0, 0), (1.0, 0.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(c, a[::-1] @ b)
    assert "gemm/repack" in either.launches  # the copy engine goes forwards
    item = problem(200, 1, 648, F16, "NN")
    check(by_matrix_units(either, item, policy), either, item, "NN")


@pytest.mark.parametrize(
    ("name", "trans", "size"),
    in_pairs(
        list(MMA_CLASSES), TRANSPOSES,
        ((136, 72, 120, 1), (65, 130, 67, 1), (130, 66, 200, 2), (9, 9, 16, 1)),
    ),
    ids=str,
)  # fmt: skip
def test_mma_in_double_precision(
    gpu: Emulator, name: str, trans: str, size: tuple[int, int, int, int]
) -> None:
    policy = MmaPolicy.for_shape_class(name)
    m, n, k, splits = size
    p = problem(m, n, k, F64, trans)
    check(by_matrix_units(gpu, p, policy, splits), gpu, p, trans)
    early = Emulator.of("sm_90", late=False)
    if splits > 1:
        check(by_matrix_units(early, p, policy, splits), early, p, trans)


@pytest.mark.parametrize("triangle", ["", "lower"])
def test_mma_with_some_tiles_cut(gpu: Emulator, triangle: str) -> None:
    """The last ones, of a product whose first ones fill the compute units."""
    policy = MmaPolicy.for_shape_class("small")
    p = replace(problem(130, 130, 200, F64, "NT"), triangle=triangle)
    choice = Tiling("", policy, 3, unsplit=4)
    check(MatrixPlan(gpu, p, choice), gpu, p, "NT")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lanes", "elem", "triangle"),
    [(1, F32, ""), (16, F64, ""), (16, F16, "lower"), (1, F64, "upper"), (4, F32, "")],
    ids=label,
)
def test_one_work_item_per_element(gpu: Emulator, lanes: int, elem: Element, triangle: str) -> None:
    """One lane or several of an element; the elements are no whole number of groups."""
    p = replace(problem(9, 9 if triangle else 7, 37, elem, "NT"), triangle=triangle)
    plan = TiledPlan(gpu, p, Tiling("direct", splits=lanes))  # type: ignore[arg-type]
    check(plan, gpu, p, "NT")


def test_mma_of_an_a100() -> None:
    gpu = Emulator.of("sm_80")
    p = problem(65, 130, 67, F64, "NT")
    check(by_matrix_units(gpu, p, MmaPolicy.for_shape_class("small")), gpu, p, "NT")


@pytest.mark.parametrize(
    ("name", "cut", "elem"),
    in_pairs(
        list(SHAPE_CLASSES), (("NN", 1, 0), ("TT", 1, 0), ("NT", 2, 0), ("TN", 2, 1)),
        (F16, F32, F64),
    ),
    ids=label,
)  # fmt: skip
def test_register_tiles(gpu: Emulator, name: str, cut: tuple[str, int, int], elem: Element) -> None:
    gpu.races = True
    trans, splits, unsplit = cut
    p = problem(140, 76, 72, elem, trans)
    policy = GemmPolicy.for_shape_class(gpu.target, p.compute, name)
    choice = Tiling("", policy, splits, unsplit)
    check(TiledPlan(gpu, p, choice), gpu, p, trans)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["medium", "small", "tiny"])
def test_mma_stores_rows_and_columns_by_one_text(gpu: Emulator, name: str) -> None:
    """Aligned rows, other rows, and aligned columns; then odd columns, whose B is gathered."""
    texts = []
    for size, trans, transposed in [
        ((70, 74, 40), "TT", False), ((70, 73, 40), "TT", False), ((74, 70, 40), "NN", True),
        ((73, 71, 40), "NN", True),
    ]:  # fmt: skip
        p = problem(*size, F64, trans)
        choice = Tiling("", MmaPolicy.for_shape_class(name), transposed=transposed, gather=True)
        check(MatrixPlan(gpu, p, choice), gpu, p, trans)  # type: ignore[arg-type]
        texts.append(specializations_of(p, choice, gpu.target)[-1].key)
    assert len(set(texts[:3])) == 1


def test_rows_of_any_width_share_a_text_of_tiles(gpu: Emulator) -> None:
    """An argument selects stores of four elements, two, or one."""
    texts = set()
    for n in (76, 74, 73):
        p = problem(70, n, 72, F32, "NT")
        policy = GemmPolicy.for_shape_class(gpu.target, F32, "tiny")
        plan = TiledPlan(gpu, p, Tiling("", policy))  # type: ignore[arg-type]
        check(plan, gpu, p, "NT")
        texts.add(specialization_of(p, plan.tiling, gpu.target).key)
    assert len(texts) == 1


def test_a_barrier_left_out_is_seen(gpu: Emulator) -> None:
    gpu.races, gpu.edit = True, partial(re.sub, r"bar\.sync\s+0;", "")
    p = problem(70, 75, 300, F32)
    policy = GemmPolicy.for_shape_class(gpu.target, p.compute, "small")
    choice = Tiling("", policy)
    with pytest.raises(Fault, match="a warp reads what another has written"):
        check(TiledPlan(gpu, p, choice), gpu, p, "NN")  # type: ignore[arg-type]


@pytest.mark.parametrize("trans", TRANSPOSES)
def test_few_columns(gpu: Emulator, trans: str) -> None:
    gpu.races = True
    for m, n, k in [(264, 8, 512), (136, 1, 1000), (40, 3, 4096), (17, 16, 48)]:
        p = problem(m, n, k, F16, trans)
        if trans[0] == "N" or m % 8 == 0:
            path = skinny_plan(gpu, p, kernel_of(p, gpu.target, gpu.table))  # type: ignore[arg-type]
            check(path, gpu, p, trans)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("k", [48, 4096])
@pytest.mark.parametrize("few", [3, 16])
def test_few_columns_with_an_epilogue(gpu: Emulator, few: int, k: int, transposed: bool) -> None:
    """Arrays of every spread, by C's own rows and columns; C is read; k in one part or several."""
    gpu.races = True
    m, n = (few, 136) if transposed else (136, few)
    bias, scale, residual = (
        whole_numbers(shape, i) for i, shape in enumerate([(n,), (m,), (m, n)])
    )
    epilogue = Epilogue().bias(bias).scale(scale, per="row").add(residual).relu().apply("v + row")
    elements = [(F16, 0, 1), (F32, 1, 0), (F32, 1, m)]
    p = problem(m, n, k, F16, "NT")
    p = replace(
        p, reads_c=True, epilogue=epilogue.stages,
        extras=tuple(Operand(*where, (), False, 2) for where in elements),
    )  # fmt: skip
    a, b, c = (whole_numbers(x, i) for i, x in enumerate([(m, k), (k, n), (m, n)]))
    memory = c.astype("f4")
    arrays = [bias.astype("f2"), scale.astype("f4"), np.ascontiguousarray(residual.T).astype("f4")]
    buffers = [stored(a, F16, "N"), stored(b, F16, "T"), *arrays, memory]
    variant = next(item for item in variants(p, gpu.target, gpu.table) if item.path == "skinny")
    plan = variant.bind(gpu)  # type: ignore[arg-type]
    plan.enqueue(gpu, buffers, (0,) * 6, (2.0, 3.0))  # type: ignore[arg-type]
    expected = (2 * (a @ b) + 3 * c + bias) * scale[:, None] + residual
    np.testing.assert_array_equal(memory, np.maximum(expected, 0) + np.arange(m)[:, None])
    assert gpu.launches == ["gemm/skinny"]
    assert not gpu.counters.any()


#: What is changed in the PTX of wgmma, by what, and what is said of it.
BUGS = {
    "nobody waits for what has arrived": (
        r"mbarrier\.try_wait[^;]*;", "setp.eq.u32 p, 0, 0;", "Arrays are not equal"),
    "nobody waits for matrix instructions": (
        r"wait_group\.sync\.aligned 1", "wait_group.sync.aligned 7", "overwritten in flight"),
    "the matrix unit is not shown the copies": (r"fence\.proxy\.async[^;]*;", "", "not shown"),
    "no copy announces itself": (r"cp\.async\.mbarrier[^;]*;", "", "wait for ever"),
    "products of 64 bits give their high half": (
        r"mul\.lo\.s64", "mul.hi.s64", "Arrays are not equal|outside"),
}  # fmt: skip


#: The same where the copy engine brings the operands.
BULK_BUGS = {
    "the engine is not shown the barriers": (
        r"fence\.proxy\.async[^;]*;", "", "was not shown the barrier"),
    "nobody says how many bytes come": (
        r"arrive\.expect_tx(\S*) ([^,;]*, [^,;]*),[^;]*;", r"arrive\1 \2;", "equal|too many"),
    "lines are not swizzled": (r"(swizzle_mode[^,;]*,) 3;", r"\1 0;", "swizzle"),
}  # fmt: skip


#: The same where A goes through registers.
REGISTER_BUGS = {
    "fragments are exchanged": (
        r"\}, \{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}", r"}, {\1, \3, \2, \4}",
        "Arrays are not equal"),
    "the second half is not swizzled": (
        r"xor\.b32(\s+%r\d+, %r\d+, 64);", r"add.s32\1;", "Arrays are not equal"),
    "nobody waits for matrix instructions": (
        r"wait_group\.sync\.aligned [12]", "wait_group.sync.aligned 7", "overwritten in flight"),
    "nobody waits for what has arrived": (
        r"mbarrier\.try_wait[^;]*;", "setp.eq.u32 p, 0, 0;", "not equal|too many"),
}  # fmt: skip


@pytest.mark.parametrize("bug", REGISTER_BUGS)
def test_planted_bugs_of_registers_are_seen(bug: str, bulk: bool) -> None:
    before, after, message = REGISTER_BUGS[bug]
    gpu = Emulator.of("sm_90")
    gpu.edit = partial(re.sub, before, after)
    p = problem(136, 72, 712, F32, "NN", "tf32")
    path = by_tf32(gpu, p, replace(WgmmaPolicy.for_shape_class("small"), bulk=bulk))
    with pytest.raises((AssertionError, Fault), match=message):
        check(path, gpu, p, "NN")


@pytest.mark.parametrize("bug", [*BUGS, *BULK_BUGS])
def test_planted_bugs_are_seen(bug: str) -> None:
    before, after, message = {**BUGS, **BULK_BUGS}[bug]
    p = problem(136, 72, 712, F16)
    result = []
    for late in (True, False):
        gpu = Emulator.of("sm_90", late)
        gpu.edit = partial(re.sub, before, after)
        policy = replace(WgmmaPolicy.for_shape_class("small"), bulk=bug in BULK_BUGS)
        path = by_matrix_units(gpu, p, policy)
        try:
            check(path, gpu, p, "NN")
        except (AssertionError, Fault) as trouble:
            result.append(str(trouble))
    assert any(re.search(message, item) for item in result), result


def test_an_operand_out_of_bounds_is_seen() -> None:
    gpu = Emulator.of("sm_90")
    p = problem(136, 72, 64, F16)
    path = by_matrix_units(gpu, p, WgmmaPolicy.for_shape_class("small"))
    a, b = np.zeros((135, 64), np.float16), np.zeros((64, 72), np.float16)
    with pytest.raises(Fault, match="outside of its buffer"):
        path.enqueue(gpu, [a, b, np.zeros((136, 72), np.float32)], (0, 0, 0), (1.0, 0.0))  # type: ignore[arg-type]


@pytest.mark.parametrize(("places", "shares"), [(2, 1), (3, 2)])
def test_wgmma_reads_windows(either: Emulator, places: int, shares: int) -> None:
    rng = np.random.default_rng(places)
    reader, images, k = windows(rng, "row", places, False, 8)
    rows = dense(reader, images, k)
    m, n = len(rows), 72
    b = whole_numbers((k, n), 2)
    p = GemmProblem(
        m, n, k, (), Operand(F16, 0, 0, (), False, 16, reader), operand(F16, k, n, "N", 0),
        operand(F32, m, n, "N", 0), F32,
    )  # fmt: skip
    policy = replace(WgmmaPolicy.for_shape_class("tiny"), bulk=False)
    path = MatrixPlan(either, p, cut(policy, shares))  # type: ignore[arg-type]
    result = np.full(m * n, POISON, np.float32)
    buffers = [images.astype(np.float16), b.astype(np.float16), result]
    path.enqueue(either, buffers, (0, 0, 0), (1.0, 0.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(result.reshape(m, n), rows @ b)


@pytest.mark.parametrize(("images", "shares"), [(1, 1), (3, 2)])
def test_wgmma_reads_windows_across_and_stores_rows_over_axes(
    either: Emulator, images: int, shares: int
) -> None:
    """The gradient of weights: steps are the places of images; and C's rows are not adjacent."""
    rng, channels, size = np.random.default_rng(images), 16, 7
    steps, period = size * size, size * size * 6

    def table() -> Any:
        y, x = np.divmod(np.arange(period) % steps, size)
        offset = (y * (size + 2) + x) * channels
        image = np.arange(period) // steps * (size + 2) ** 2 * channels
        return np.stack([offset + image, y - 1, x - 1, 0 * x], axis=1).astype(np.int32)

    pixels = (size + 2) ** 2 * channels
    reader = Gather(
        "col", (3, 3, channels), ((size + 2) * channels, channels, 1), (1, 1, 0), (size, size, 1),
        table, period, pixels * 6 if images > 1 else None, "s", 8,
    )  # fmt: skip
    k = steps * (1 if images == 1 else 6 * images - 2)
    memory = rng.integers(-4, 5, pixels * 6 * images)
    cols = dense(reader, memory, k)
    m, n = 80, len(cols)
    a = whole_numbers((m, k), 1)
    rows = Gather("row", (5, 16), (40 * n, n))
    p = GemmProblem(
        m, n, k, (), operand(F16, m, k, "T", 0), Operand(F16, 0, 0, (), False, 16, reader),
        Operand(F32, n, 1, (), False, 16, rows), F32,
    )  # fmt: skip
    policy = replace(WgmmaPolicy.for_shape_class("tiny"), bulk=False)
    path = MatrixPlan(either, p, cut(policy, shares))  # type: ignore[arg-type]
    result = np.full(5 * 40 * n, POISON, np.float32)
    buffers = [stored(a, F16, "T"), memory.astype(np.float16), result]
    path.enqueue(either, buffers, (0, 0, 0), (1.0, 0.0))  # type: ignore[arg-type]
    blocks = result.reshape(5, 40, n)
    np.testing.assert_array_equal(blocks[:, :16].reshape(m, n), a @ cols.T)
    assert (blocks[:, 16:] == POISON).all()
