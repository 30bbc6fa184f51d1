"""How the CPU's gemm goes about a product: which way round, and what it packs.  No device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recorded_devices import INTEL_CPU, POCL

from portable_gpu.bench.dispatch import random_cases
from portable_gpu.dtypes import element
from portable_gpu.ops.explain import explain
from portable_gpu.ops.gemm.commands.cases import product_of
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.packed.forms import PackedForm, packed_forms, preferred_form
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.targets import DeviceFacts, detect, example_target
from portable_gpu.tuning.table import TuningTable

CPU, TABLE = example_target("cpu"), TuningTable([])


def choice(m: int, n: int, k: int, trans: str, dtype: str = "float32") -> PackedForm:
    return preferred_form(contiguous(m, n, k, dtype, (), *trans), CPU, TABLE)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_the_choice_is_one_of_those_that_can_be_forced(dtype: str) -> None:
    for case in random_cases("gemm", 300, dtype, 5, on_cpu=True):
        problem = product_of(case)
        every = list(packed_forms(problem, CPU, TABLE))
        assert preferred_form(problem, CPU, TABLE) in every, case
        assert len(set(every)) == len(every)


def test_a_wide_operand_along_k_is_read_in_place_as_a_of_the_transpose() -> None:
    result = choice(20, 1200, 1000, "NT")
    assert result.transposed
    assert (result.a_packed, result.b_packed) == (False, True)
    assert not choice(60, 1200, 1000, "NT").transposed
    tall = choice(1200, 20, 1000, "NN")
    assert not tall.transposed
    assert (tall.a_packed, tall.b_packed) == (False, True)


def test_a_wide_operand_of_contiguous_rows_is_read_in_place_as_b() -> None:
    result = choice(12, 1200, 1000, "NN")
    assert not result.transposed
    assert not result.b_packed
    tall = choice(1200, 12, 1000, "TN")
    assert tall.transposed
    assert not tall.b_packed


def test_one_work_item_packs_the_narrower_operand_over_a_long_k() -> None:
    assert choice(3, 10, 3563, "TN").transposed
    assert not choice(10, 3, 3563, "TN").transposed
    assert not choice(3, 10, 50, "TN").transposed
    assert not choice(3, 10, 3563, "TN", "float16").transposed  # both are converted, and so packed


def test_a_b_too_narrow_for_a_vector_of_its_rows_counts_as_packed() -> None:
    result = choice(7, 17, 3124, "NN")  # tiles of 24 columns
    assert result.transposed
    assert result.whole


def test_short_sums_leave_c_as_it_lies() -> None:
    assert not choice(26, 2058, 2, "NT").transposed


def test_little_work_packs_nothing_that_need_not_be() -> None:
    units = CPU.compute_units
    little, much = choice(40, 400 * units, 100, "NN"), choice(400, 600 * units, 100, "NN")
    assert not little.whole
    assert (little.a_packed, little.b_packed) == (False, False)
    assert much.b_packed


def test_middling_work_takes_one_launch_by_strips() -> None:
    units = CPU.compute_units
    for trans in ("NN", "NT", "TN", "TT"):
        result = choice(100, 300 * units, 100, trans)
        assert result.strip > 0
        assert result.launches == 1
        assert (result.a_packed, result.b_packed) == (False, True)
    assert not choice(100, 300 * units, 20, "NT").strip  # C's stores count for more
    assert not choice(400, 600 * units, 100, "NT").strip
    assert not choice(100, 300 * units, 100, "NT", "float16").strip  # A is converted


def test_a_vector_goes_to_gemv() -> None:
    for sizes in ((1, 300, 500), (500, 300, 1)):
        assert explain("gemm", *sizes, target="cpu").kernels[0].startswith("gemv/")
    assert explain("gemm", 2, 300, 500, target="cpu").kernels == ("gemm/packed_whole",)


def test_an_operand_of_all_products_of_a_batch_is_packed_if_many_tiles_use_it() -> None:
    """The gradient of the input of 512 to 2048 channels of 7 x 7, 8 images, and its transpose."""
    c = contiguous(512, 49, 2048, "float32", (8,), "T", "N")
    shared = replace(c, a=replace(c.a, batch=(0,)))
    form = preferred_form(shared, CPU, TABLE)
    assert not form.transposed
    assert form.a_packed
    assert preferred_form(shared.transpose(), CPU, TABLE) == replace(form, transposed=True)


def test_columns_that_the_caches_lose_are_packed() -> None:
    n = 2 * PackedPolicy.default(CPU, element(np.float32)).item_n
    assert choice(4000, n, 2000, "TN").a_packed
    assert choice(4096, n, 512, "TN").a_packed  # columns a multiple of half a page apart
    assert not choice(4000, n, 600, "TN").a_packed
    assert not choice(20, n, 40000, "TN").a_packed  # few panels


@pytest.mark.parametrize(
    ("device", "k", "in_place"),
    [(POCL, 200, True), (POCL, 100, False), (POCL, 2048, False), (INTEL_CPU, 200, False)],
)
def test_tiles_of_many_rows_read_long_rows_in_place(
    device: DeviceFacts, k: int, in_place: bool
) -> None:
    """Not rows that all fall into one set of the cache, nor where the compiler makes it slow."""
    problem = contiguous(6000, 256, k, "float32", (), "N", "N")
    form = preferred_form(problem, detect(device), TABLE)
    assert form.policy.item_m > 6
    assert not form.whole
    assert form.a_packed != in_place


@pytest.mark.parametrize(
    ("device", "m", "k", "in_place"),
    [(POCL, 200, 6000, True), (POCL, 200, 800, False), (POCL, 512, 6000, False),
     (POCL, 1100, 6000, False), (INTEL_CPU, 200, 6000, False)],
)  # fmt: skip
def test_deep_products_read_near_columns_in_place(
    device: DeviceFacts, m: int, k: int, in_place: bool
) -> None:
    """Not columns in few sets of the cache, nor those in a page of their own each."""
    problem = contiguous(m, 256, k, "float32", (), "T", "N")
    form = preferred_form(problem, detect(device), TABLE)
    assert not form.whole
    assert not form.transposed
    assert form.a_packed != in_place


def test_near_columns_of_all_products_of_a_batch_are_packed() -> None:
    own = contiguous(200, 256, 6000, "float32", (4,), "T", "N")
    shared = replace(own, a=replace(own.a, batch=(0,)))
    assert not preferred_form(own, detect(POCL), TABLE).a_packed
    assert preferred_form(shared, detect(POCL), TABLE).a_packed
