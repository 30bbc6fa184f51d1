"""Whether this device's matrix units, and its products of pairs, do what the kernels expect."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from math import gcd

import numpy as np
import pyopencl as cl

from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.gemm.matrix.format import F64, format_of
from portable_gpu.ops.gemm.matrix.plan import MatrixPlan
from portable_gpu.ops.gemm.matrix.policy import POLICIES, WgmmaPolicy
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.skinny.fragments import SkinnyPlan, kernel_of
from portable_gpu.ops.gemm.tiled.plan import TiledPlan
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.ops.variant import lacks_memory
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan

# More than a tile, whole copies; of k a tail, and more steps than any policy has stages.
_SIZES = 136, 72, 648
_FEW_COLUMNS = 136, 8, 648
_OFF_THE_GRID = 135, 71, 645  # rows begin anywhere, copies end anywhere


def works(engine: Engine, problem: GemmProblem, bulk: bool = False, gather: bool = False) -> bool:
    """Whether small products in the format of ``problem`` come out right; found out once.

    Args:
        engine: Whose device.
        problem: In what format.
        bulk: Whether the copy engine is to bring the operands.
        gather: Whether they are to be copied element by element.
    """
    form = format_of(problem, engine.target)
    assert form is not None
    policy = POLICIES[form.kernel][0].for_shape_class("small", parts=form.parts)
    if isinstance(policy, WgmmaPolicy):
        policy = replace(policy, bulk=bulk)
    whole_tf32 = form.kind == "tf32" and form.parts == 1  # A comes two ways, C is stored in three

    def bind(small: GemmProblem) -> Plan:
        transposed = whole_tf32 and form.transposes(small)
        tiling = Tiling("", policy, transposed=transposed, gather=gather)
        return MatrixPlan(engine, small, tiling)

    key = ("matrix units work", form.kind, whole_tf32, bulk, gather)
    what = "bulk copies" if bulk else "matrix units"
    sizes = _OFF_THE_GRID if gather else _SIZES
    ways = ("NN", "TT", "NT") if whole_tf32 else ("NN", "TT")
    return engine.plan(key, lambda: _check(engine, problem, sizes, bind, what, ways))


def works_on_few_columns(engine: Engine, problem: GemmProblem) -> bool:
    """Test the path that reads A in place."""
    key = ("matrix units work", "few columns", problem.a.elem.name)

    def bind(small: GemmProblem) -> Plan:
        return SkinnyPlan(engine, small, kernel_of(small, engine.target, engine.table))

    return engine.plan(key, lambda: _check(engine, problem, _FEW_COLUMNS, bind))


def works_in_pairs(engine: Engine, problem: GemmProblem) -> bool:
    """Test tiles on the vector units that take two steps of k in one instruction."""
    policy = GemmPolicy.for_shape_class(engine.target, problem.compute, "small")

    def bind(small: GemmProblem) -> Plan:
        return TiledPlan(engine, small, Tiling("tiled", policy), pairs=True)

    key = ("products of pairs work",)
    return engine.plan(key, lambda: _check(engine, problem, _SIZES, bind, "products of pairs"))


def _check(
    engine: Engine,
    problem: GemmProblem,
    sizes: tuple[int, int, int],
    bind: Callable[[GemmProblem], Plan],
    what: str = "matrix units",
    ways: tuple[str, ...] = ("NN", "TT"),
) -> bool:
    def right(trans: str, exponent: int = 0) -> bool:
        return _multiplies(engine, problem, sizes, bind, trans, exponent)

    try:
        trouble = "" if all(right(trans) for trans in ways) else "a test product is wrong"
        if not trouble and problem.a.elem.name == "f16" and not right("NN", -22):
            trouble = "they take subnormal numbers for 0"
    except (PortableGPUError, cl.Error) as error:
        if lacks_memory(error):  # which says nothing of the kernels
            raise
        trouble = str(error).splitlines()[0]
    if trouble:
        name = engine.target.facts.name
        warnings.warn(f"the {what} of {name} are not used: {trouble}", stacklevel=2)
    return not trouble


def _multiplies(
    engine: Engine,
    problem: GemmProblem,
    sizes: tuple[int, int, int],
    bind: Callable[[GemmProblem], Plan],
    trans: str,
    exponent: int,
) -> bool:
    """Compare a product of small whole numbers, exact in every format, bit by bit.

    Args:
        engine: Whose device.
        problem: In what format.
        sizes: ``m, n, k``.
        bind: By which path.
        trans: N or T each: whether A and B are stored transposed.
        exponent: A's numbers are times this power of two, exactly.
    """
    random = np.random.default_rng(1)
    m, n, k = sizes
    a = random.integers(-4, 5, (m, k)) * 2.0**exponent
    b = random.integers(-4, 5, (k, n))
    elem, compute = problem.a.elem, problem.compute

    def operand(rows: int, cols: int, way: str) -> Operand:
        row, col = (1, rows) if way == "T" else (cols, 1)
        return Operand(elem, row, col, (), False, gcd(16, elem.itemsize * max(row, col)))

    c = Operand(compute, n, 1, (), False, gcd(16, compute.itemsize * n))
    small = GemmProblem(
        m, n, k, (), operand(m, k, trans[0]), operand(k, n, trans[1]), c, compute,
        precision=problem.precision,
    )  # fmt: skip
    path = bind(small)
    state, flags = engine.state(), cl.mem_flags
    buffers = [
        cl.Buffer(
            engine.context,
            flags.READ_ONLY | flags.COPY_HOST_PTR,
            hostbuf=_stored(np.ascontiguousarray(x.T if way == "T" else x), elem.name),
        )
        for x, way in zip((a, b), trans, strict=True)
    ]
    result = np.full((m, n), np.nan, np.float64 if compute == F64 else np.float32)
    out = cl.Buffer(engine.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=result)
    event = path.enqueue(state, [*buffers, out], (0, 0, 0), (1.0, 0.0))
    cl.enqueue_copy(state.queue, result, out, wait_for=state.after(event))
    return np.array_equal(result, a @ b)


def _stored(values: np.ndarray, name: str) -> np.ndarray:
    """Whole numbers as an element stores them."""
    if name in ("f16", "f64"):
        return values.astype(np.float16 if name == "f16" else np.float64)
    singles = values.astype(np.float32)
    return (singles.view(np.uint32) >> 16).astype(np.uint16) if name == "bf16" else singles
