"""How many programs a user's first calls build: texts of random sizes.  No device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recorded_devices import RECORDED

from portable_gpu.bench.hunt import HuntRow, random_cases
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.case import Case
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.commands.cases import product_of
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.matrix.plan import specializations_of
from portable_gpu.ops.gemm.matrix.policy import MmaPolicy
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.ops.gemm.variants import variants as gemm_variants
from portable_gpu.ops.gemv.commands.cases import transposed
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.gemv.variants import variants as gemv_variants
from portable_gpu.ops.reduce.commands.catalogue import problem as reduction_of
from portable_gpu.ops.reduce.variants import variants as reduce_variants
from portable_gpu.ops.registry import BENCHMARKS
from portable_gpu.ops.variant import Variant, best_of
from portable_gpu.runtime.engine import one_is_enough, seconds_alone
from portable_gpu.runtime.views import View
from portable_gpu.targets import Target, detect
from portable_gpu.tuning.costs import ThreadCosts
from portable_gpu.tuning.table import TuningTable

SHAPES = 60
TABLE = TuningTable.shipped()


def every_way(case: Case, target: Target) -> list[Variant]:
    """The ways of a call on NumPy's arrays."""
    dtype = dtype_of(case.dtype)
    if case.operation == "gemm":
        a, b = (np.empty(shape, np.float32) for shape in case.shapes)
        a, b = transposed(case, (a, b))
        views = [as_view(x) for x in (a, b, np.empty((*a.shape[:-1], b.shape[-1]), np.float32))]
        problem = bind(
            target,
            *views,
            trans_a="N",
            trans_b="N",
            stages=(),
            extras=(),
            multiplies=True,
            reads_c=False,
        )
        return gemm_variants(problem, target, TABLE)
    if case.operation == "gemv":
        m, n = case.extents
        along = (m, n, n, 1) if case.trans == "N" else (n, m, 1, n)
        return gemv_variants(GemvProblem(element(dtype), *along, 1, 1), target, TABLE)
    fold = reduction_of(case.operation, case.extents, case.axis, dtype, target)
    return reduce_variants(fold, target, TABLE)


def as_view(x: Any) -> View:
    return View(None, 0, x.shape, tuple(s // x.itemsize for s in x.strides), x.dtype)


@pytest.mark.divided
@pytest.mark.parametrize("device", ["PoCL", "PoCL on a Zen 4"])
@pytest.mark.parametrize(
    ("operation", "sizes", "most"),
    [
        ("gemm", "product", 10),
        ("gemv", "matrix", 8),
        ("sum", "of all", 2),
        ("sum", "along an axis", 6),
        ("max", "along an axis", 6),
        ("argmax", "along an axis", 6),
        ("std", "along an axis", 10),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_random_sizes_share_programs(
    operation: str, sizes: str, most: int, seed: int, device: str
) -> None:
    """Each program is some 0.4 s of the first call that wants it."""
    target = detect(RECORDED[device][0])
    drawn = next(item for item in BENCHMARKS[operation].random if item.name == sizes)
    texts = set()
    for _, case in random_cases([HuntRow(operation, drawn, "float32")], SHAPES, seed, True):
        alone = one_is_enough(
            seconds_alone(case.bytes, case.flop, target),
            target,
            ThreadCosts.of("calling thread", target).waking,
        )
        device_of_case = replace(target, compute_units=1 if alone else target.compute_units)
        best = best_of(every_way(case, device_of_case), device_of_case)
        texts |= {spec.key for spec in best.texts()}
    assert len(texts) <= most


@pytest.mark.divided
@pytest.mark.parametrize(
    ("sizes", "dtype", "most"),
    [
        ("product", "float32", 31),
        ("product", "float16", 33),
        ("product", "float64", 34),
        ("thin", "float32", 32),
        ("batch", "float32", 10),
        ("small products", "float32", 20),
        ("small products", "float64", 33),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_random_products_share_programs_on_a_gpu(
    sizes: str, dtype: str, most: int, seed: int
) -> None:
    """Few widths of loads, panels of single elements along either axis."""
    target = detect(RECORDED["H200"][0])
    drawn = next(item for item in BENCHMARKS["gemm"].random if item.name == sizes)
    texts = set()
    for _, case in random_cases([HuntRow("gemm", drawn, dtype)], SHAPES, seed, False):
        best = best_of(gemm_variants(product_of(case), target, TABLE), target)
        texts |= {spec.key for spec in best.texts()}
    assert len(texts) <= most


@pytest.mark.parametrize("shape_class", ["medium", "small", "tiny"])
def test_rows_and_columns_of_any_alignment_share_a_program(shape_class: str) -> None:
    """A uniform branch after the loop says how C is stored."""
    target, dtype = detect(RECORDED["H200"][0]), np.dtype(np.float64)
    tiling = Tiling("", MmaPolicy.for_shape_class(shape_class), gather=True)
    rows = (contiguous(200, n, 100, dtype, (), "T", "T") for n in (300, 301))
    columns = contiguous(300, 200, 100, dtype, (), "N", "N")
    texts = {spec.key for p in rows for spec in specializations_of(p, tiling, target)}
    turned = specializations_of(columns, replace(tiling, transposed=True), target)
    assert {spec.key for spec in turned} == texts
    assert len(texts) == 1


def test_parts_of_a_factor_share_programs_on_a_gpu() -> None:
    """Updates of any k, whole or split, have one text for each tile and store; triangles too."""
    target, elem = detect(RECORDED["H200"][0]), element(np.dtype(np.float64))
    row, turned = (Operand(elem, *strides, aligned_bytes=8) for strides in ((4001, 1), (1, 4001)))
    left = Operand(elem, 4096, 1, aligned_bytes=16)
    base = GemmProblem(2000, 2000, 64, (), left, left.transpose(), row, elem, reads_c=True)
    policy = MmaPolicy.for_shape_class("large")

    def texts(problem: GemmProblem) -> set[str]:
        tilings = [Tiling("", policy, splits, transposed=problem.c is turned) for splits in (1, 3)]
        return {
            spec.key
            for k in (64, 130, 1000)
            for tiling in tilings
            for spec in specializations_of(replace(problem, k=k), tiling, target)
        }

    assert len(texts(base)) == 1
    triangles = replace(base, triangle="lower"), replace(base, triangle="lower", c=turned)
    assert len(set.union(*map(texts, triangles))) == 1
