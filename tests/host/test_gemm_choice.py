"""Which policies products take on GPUs, by targets without a device."""

from __future__ import annotations

import re
from dataclasses import replace
from math import gcd

import numpy as np
import pytest
from choosing import least

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import element
from portable_gpu.ops.case import Case
from portable_gpu.ops.gemm.commands.cases import product_of
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.matrix.policy import WGMMA_CLASSES, WgmmaPolicy
from portable_gpu.ops.gemm.matrix.stores import by_lines, with_row_scratch
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.skinny import fragments
from portable_gpu.ops.gemm.skinny.vectors import is_skinny, variants, with_few_columns
from portable_gpu.ops.gemm.tiled.estimates import estimates
from portable_gpu.ops.gemm.tiled.policy import SHAPE_CLASSES, GemmPolicy
from portable_gpu.ops.gemm.variants import variants as variants_of
from portable_gpu.ops.variant import Variant, best_of
from portable_gpu.targets import class_names, example_target
from portable_gpu.tuning.table import TuningTable

F32 = element(np.float32)
HOPPER = example_target("nvidia-sm90")
H200 = replace(HOPPER, facts=replace(HOPPER.facts, name="NVIDIA H200", compute_units=132))
SHIPPED = TuningTable.shipped()


def problem(m: int, k: int, n: int, elem: str = "float32", trans_b: str = "N") -> GemmProblem:
    of = element(np.dtype(elem))

    def operand(rows: int, cols: int, trans: str) -> Operand:
        row, col = (cols, 1) if trans == "N" else (1, rows)
        return Operand(of, row, col, (), False, gcd(16, of.itemsize * max(row, col)))

    c = Operand(F32 if of.itemsize == 2 else of, n, 1, (), False, gcd(16, 4 * n))
    return GemmProblem(m, n, k, (), operand(m, k, "N"), operand(k, n, trans_b), c, F32)


def depth(k: int, table: TuningTable = SHIPPED) -> tuple[int, int]:
    """Steps of k of a panel, and parts of k."""
    choice = least(estimates(problem(k, k, k), H200, table))
    assert isinstance(choice.policy, GemmPolicy)
    return choice.policy.tile_k, choice.splits


def test_tiles_that_take_all_registers_have_shallow_panels_where_k_has_edges() -> None:
    assert depth(4096) == (16, 1)
    assert depth(3500) == (8, 1)  # k ends inside a panel
    assert depth(8192) == (16, 1)  # not worth cutting the last round of 31


def test_only_tiles_that_take_all_registers_do() -> None:
    large = SHIPPED.choose("gemm", GemmPolicy, H200, F32, "large", None).policy
    small = SHIPPED.choose("gemm", GemmPolicy, H200, F32, "small", None).policy
    assert large.at_edges(H200, F32, 4096, 2) == replace(large, tile_k=large.tile_k // 2)
    assert large.at_edges(H200, F32, 4096, 1) == large
    assert small.at_edges(H200, F32, 4096, 2) == small


@pytest.mark.parametrize(
    ("m", "k", "n", "trans", "warps", "blocks"),
    [
        (8, 4096, 4096, "T", 8, 1),
        (8, 512, 4096, "T", 4, 1),
        (8, 32, 4096, "T", 1, 1),
        (8, 4096, 4096, "N", 8, 2),
        (8, 4096, 16384, "N", 16, 4),
        (8, 512, 16384, "N", 4, 4),
    ],
)  # fmt: skip
def test_warps_of_skinny_products(
    m: int, k: int, n: int, trans: str, warps: int, blocks: int
) -> None:
    few = with_few_columns(problem(m, k, n, "float16", trans))
    assert fragments.takes(few, H200)
    policy = fragments.kernel_of(few, H200, SHIPPED).row.policy
    assert (policy.warps, policy.blocks) == (warps, blocks)


@pytest.mark.parametrize("trans", ["NN", "NT", "TN", "TT"])
def test_eight_rows_of_many_columns_are_tiles(trans: str) -> None:
    """On an H200 they take 46 to 54 us; kernels of vectors 58 to 123, which load x often."""
    few = problem(8, 7784, 2979, trans_b=trans[1])
    few = replace(few, a=replace(few.a, row=1, col=8)) if trans[0] == "T" else few
    assert is_skinny(few, H200)
    tiles = min(seconds for seconds, _ in estimates(few, H200, SHIPPED))
    vectors = min(item.estimate for item in variants(few, H200, SHIPPED))
    assert tiles < vectors


def test_few_columns_with_an_epilogue_stay_on_their_paths() -> None:
    bias = Epilogue().bias(np.zeros(4096, np.float32)).relu()
    extras = (Operand(F32, 0, 1, (), False, 16),)
    for m, elem, path in ((16, "float16", "skinny"), (8, "float32", "axpy_columns")):
        few = replace(problem(m, 4096, 4096, elem), epilogue=bias.stages, extras=extras)
        ways = list(variants(few, H200, SHIPPED))
        assert min(ways, key=lambda one: one.estimate).path == path


@pytest.mark.parametrize("target", [*class_names(), "nvidia-sm60", "gcn-gfx90a"])
@pytest.mark.parametrize("shape_class", SHAPE_CLASSES)
def test_policies_by_formula_leave_registers_for_edges(target: str, shape_class: str) -> None:
    device = example_target(target)
    policy = GemmPolicy.for_shape_class(device, F32, shape_class)
    assert policy.at_edges(device, F32, 4096, 2) == policy


def chosen(size: str, dtype: str) -> Variant:
    """The choice of an H200 for the contiguous arrays of a size as ``bench`` writes it."""
    result = _SIZE.fullmatch(size)
    assert result is not None
    batch, m, k, n, trans = result.groups()
    extents, count = (int(m), int(k), int(n)), None if batch is None else int(batch)
    case = Case("gemm", extents, dtype, trans=trans, batch=count)
    return best_of(variants_of(product_of(case), H200, SHIPPED), H200)


_SIZE = re.compile(r"(?:(\d+):)?(\d+)x(\d+)x(\d+)/(\w\w)")


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize(
    "size",
    [
        "90x2x28/TT", "47x189x1538/NN", "78:8x6x93/NN", "123x112x571/NN", "407:103x53x50/NN",
        "301x507x299/TN", "57:3x170x71/NN", "2153x201x3/TN",
    ],
)  # fmt: skip
def test_small_products_take_one_launch_wherever_rows_begin(size: str, dtype: str) -> None:
    assert chosen(size, dtype).launches == 1


def test_large_products_off_the_grid_are_repacked_first() -> None:
    """An element is gathered for each tile that it is part of."""
    assert chosen("5001x5001x5001/NN", "float16").launches == 3


@pytest.mark.parametrize(
    ("tokens", "way"),
    [
        (16, "wgmma, slim, transposed"),
        (22, "wgmma, narrow, transposed"),
        (2048, "wgmma, large"),
    ],
)
def test_few_tokens_are_the_columns_of_narrow_tiles(tokens: int, way: str) -> None:
    assert chosen(f"{tokens}x4096x6144/NT", "bfloat16").name == way


@pytest.mark.divided
@pytest.mark.parametrize(("m", "n", "k", "pitch"), [(1024, 32, 4096, -32), (2048, 24, 8192, 0)])
def test_rows_upside_down_or_all_the_same_have_texts(m: int, n: int, k: int, pitch: int) -> None:
    """The copy engine cannot bring them, work-items can: narrow tiles take neither across k."""
    asked = contiguous(m, n, k, np.float16)
    asked = replace(asked, b=replace(asked.b, row=pitch))
    for item in variants_of(asked, H200, SHIPPED):
        assert item.texts()


@pytest.mark.parametrize("shape_class", WGMMA_CLASSES)
@pytest.mark.parametrize(("n", "off"), [(3840, False), (3833, True), (3834, True)])
def test_rows_of_c_that_begin_anywhere_have_room_to_leave_by_warps(
    shape_class: str, n: int, off: bool
) -> None:
    """Single elements, and pairs of 16-bit floats, take two to four times as long."""
    policy = WgmmaPolicy.for_shape_class(shape_class)
    p = product_of(Case("gemm", (3065, 64, n), "float16", trans="NT"))
    fewer = with_row_scratch(policy, p, H200)
    assert by_lines(p, fewer, H200) == (off and policy.tile_n % 32 == 0)
    assert policy.stages - 1 <= fewer.stages <= policy.stages
    assert replace(fewer, stages=policy.stages) == policy
    assert all(fewer.limits(H200, p.compute).values())


@pytest.mark.parametrize(
    ("size", "dtype", "is_interleaved"),
    [((2792, 1, 1877), "float32", True), ((2792, 1, 1876), "float32", False),
     ((2792, 1, 1877), "float64", True), ((2792, 1, 1878), "float32", True),
     ((2792, 100, 1878), "float32", False), ((2792, 100, 1877), "float32", True),
     ((100, 1, 301), "float32", True), ((2792, 1000, 1877), "float32", False)],
)  # fmt: skip
def test_columns_are_interleaved_where_rows_of_c_are_not_aligned(
    size: tuple[int, int, int], dtype: str, is_interleaved: bool
) -> None:
    choice = least(estimates(product_of(Case("gemm", size, dtype, trans="TT")), H200, SHIPPED))
    assert isinstance(choice.policy, GemmPolicy)
    assert choice.policy.interleave == is_interleaved


@pytest.mark.parametrize("size", [(3515, 14, 3268), (3268, 14, 3515)])
def test_shallow_products_of_16_bits_take_matrix_units(size: tuple[int, int, int]) -> None:
    """Tiles of SIMD units store single elements of 16 bits, which takes twice the time."""
    p = product_of(Case("gemm", size, "float16", trans="NN"))
    assert best_of(variants_of(p, H200, SHIPPED), H200).name.startswith("wgmma")
