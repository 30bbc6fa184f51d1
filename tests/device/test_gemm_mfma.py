"""Products by wavefronts' matrix instructions, emulated: each of them, every policy, edges.

test_gemm_matrix_units.py holds what all matrix units do; here the class is forced, so that it also
runs on devices without any.  The emulation follows the instructions' definition and knows nothing
of the kernel around it.  It has barriers, which hide those that the kernel may lack after a
multiplication: tests/host/test_matrix_units.py looks for them in the text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from reference import assert_within, product_bound, wider
from sampling import compile_fast, dealt

from portable_gpu import Engine
from portable_gpu.dtypes import bfloat16, element
from portable_gpu.ops.gemm.matrix.format import format_of
from portable_gpu.ops.gemm.matrix.plan import MatrixPlan
from portable_gpu.ops.gemm.matrix.policy import MFMA_CLASSES, MfmaPolicy
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.tiling import Tiling

BFLOAT16 = bfloat16()

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
#: A dtype and the generation whose instruction takes it; gfx942 has those of gfx90a.
INSTRUCTIONS = [("gfx90a", np.dtype(np.float16)), ("gfx908", SINGLE), ("gfx90a", DOUBLE)]
if BFLOAT16 is not None:
    INSTRUCTIONS += [("gfx908", BFLOAT16), ("gfx90a", BFLOAT16)]
LEAST = MfmaPolicy(1, 1, 32, 32, 1)


@pytest.fixture(scope="module")
def unoptimised(engine: Engine) -> Iterator[None]:
    """Compile fast: PoCL's optimiser is slow for many barriers."""
    with pytest.MonkeyPatch.context() as patch:
        compile_fast(patch, engine, exchanges=False)
        yield


@pytest.fixture(scope="module")
def engines(engine: Engine, unoptimised: None) -> dict[str, Engine]:
    """An engine of each generation on this machine's device."""
    if engine.target.max_work_group_size < 256:
        pytest.skip("no groups of 256")
    names = ("gfx908", "gfx90a")
    return {name: Engine(queue=engine.queue, device_class=f"gcn-{name}") for name in names}


@pytest.fixture
def forced(engine: Engine) -> None:
    """Cases that a CPU of its own class does not run: many kernels, with many barriers."""
    if engine.target.is_cpu:
        pytest.skip("the job pocl-gcn-gfx942 of test_matrix.py does it")


def random(shape: Any, dtype: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def operand(rows: int, cols: int, dtype: Any, across: bool = False) -> Operand:
    return Operand(element(dtype), *((1, rows) if across else (cols, 1)), (), False, 16)


def problem(m: int, n: int, k: int, dtype: Any, trans: str = "NN") -> GemmProblem:
    compute = DOUBLE if dtype == DOUBLE else SINGLE
    a = operand(m, k, dtype, trans[0] == "T")
    b = operand(k, n, dtype, trans[1] == "T")
    return GemmProblem(m, n, k, (), a, b, operand(m, n, compute), element(compute))


def multiply(engine: Engine, p: GemmProblem, a: Any, b: Any, choice: Tiling) -> Any:
    """The product of a problem over contiguous arrays, into memory that held NaN."""
    path = MatrixPlan(engine, p, choice)
    orders = ["C" if x.col == 1 else "F" for x in (p.a, p.b)]
    buffers = [
        cla.to_device(engine.queue, x.ravel(order=order))
        for x, order in zip((a, b), orders, strict=True)
    ]
    dtype = DOUBLE if p.compute.real == "double" else SINGLE
    out = cla.to_device(engine.queue, np.full((p.m, p.n), np.nan, dtype))
    path.enqueue(engine.state(), [x.data for x in (*buffers, out)], (0, 0, 0), (1.0, 0.0)).wait()
    return out.get()


def check(engine: Engine, p: GemmProblem, dtype: Any, choice: Tiling) -> None:
    a, b = random((p.m, p.k), dtype), random((p.k, p.n), dtype, 1)
    bound = product_bound(a, b, DOUBLE if dtype == DOUBLE else SINGLE)
    assert_within(multiply(engine, p, a, b, choice), wider(a) @ wider(b), bound)


@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize(("generation", "dtype"), INSTRUCTIONS, ids=str)
def test_transposes_with_a_tail(engines: dict[str, Engine], generation: str, dtype: Any) -> None:
    """Each operand both ways; test_gemm_matrix_units.py has all four of them in each dtype."""
    turn = INSTRUCTIONS.index((generation, dtype))
    for trans in dealt(("NN", "TT", "NT", "TN"), turn, 2):
        check(engines[generation], problem(72, 48, 88, dtype, trans), dtype, Tiling("", LEAST))


@pytest.mark.parametrize(("generation", "dtype"), INSTRUCTIONS, ids=str)
def test_nothing_is_aligned(engines: dict[str, Engine], generation: str, dtype: Any) -> None:
    if engines[generation].target.local_mem_size < 64 * 65 * dtype.itemsize:
        pytest.skip("no room for the first pass")
    p = problem(33, 65, 131, dtype)
    p = replace(p, a=replace(p.a, aligned_bytes=2), b=replace(p.b, aligned_bytes=2))
    check(engines[generation], p, dtype, Tiling("", LEAST))


@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize(("generation", "dtype"), INSTRUCTIONS, ids=str)
def test_policies(engines: dict[str, Engine], generation: str, dtype: Any) -> None:
    engine = engines[generation]
    policies = [MfmaPolicy(1, 2, 64, 32, 2, band=1), MfmaPolicy(1, 2, 32, 96, 1)]
    policies += [MfmaPolicy.for_shape_class(name) for name in MFMA_CLASSES]
    cases = [
        (policy, trans)
        for policy, trans in zip(policies, itertools.cycle(("NT", "TN")), strict=False)
        if all(policy.limits(engine.target, element(dtype)).values())
    ]
    for policy, trans in dealt(cases, INSTRUCTIONS.index((generation, dtype)), 3):
        check(engine, problem(200, 136, 264, dtype, trans), dtype, Tiling("", policy))


def test_parts_of_k(engines: dict[str, Engine]) -> None:
    for dtype in (SINGLE, DOUBLE):
        check(engines["gfx90a"], problem(40, 48, 300, dtype), dtype, Tiling("", LEAST, splits=3))


def test_subnormal_halves_count(engines: dict[str, Engine]) -> None:
    half = np.dtype(np.float16)
    a, b = np.full((32, 64), 2.0**-24, half), np.ones((64, 32), half)
    got = multiply(engines["gfx90a"], problem(32, 32, 64, half), a, b, Tiling("", LEAST))
    np.testing.assert_array_equal(got, np.full((32, 32), 2.0**-18, np.float32))


def test_each_generation_has_its_instruction(engines: dict[str, Engine]) -> None:
    names = set()
    for generation, dtype in INSTRUCTIONS:
        form = format_of(problem(64, 64, 64, dtype), engines[generation].target)
        assert form is not None
        assert form.instruction is not None
        names.add(form.instruction.name)
    assert len(names) == len(INSTRUCTIONS)


@pytest.mark.tiny
def test_one_tile(engines: dict[str, Engine]) -> None:
    check(engines["gfx908"], problem(9, 12, 40, SINGLE, "TN"), SINGLE, Tiling("", LEAST))
