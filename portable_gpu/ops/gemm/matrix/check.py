"""Whether this device's matrix units, and its products of pairs, do what the kernels expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import gcd

import numpy as np
import pyopencl as cl

from portable_gpu.ops.gemm.matrix.format import F64, PRODUCTS, Side, format_of, strides
from portable_gpu.ops.gemm.matrix.plan import MatrixPlan
from portable_gpu.ops.gemm.matrix.policy import POLICIES, WgmmaPolicy
from portable_gpu.ops.gemm.matrix.repack import Repack
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Gather, Table
from portable_gpu.ops.gemm.skinny.fragments import kernel_of, skinny_plan
from portable_gpu.ops.gemm.tiled.plan import TiledPlan
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.ops.variant import passes
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary

_CHUNK = 8  # 16-bit elements of a copy
# More than a tile, whole copies; k has a tail, and more steps than any policy has stages.
_SIZES = 136, 72, 648
_FEW_COLUMNS = 136, 8, 648
_OFF_THE_GRID = 135, 71, 645  # rows begin anywhere, copies end anywhere
#: In pieces: sums of 136 products of numbers of all pieces are exact.
_IN_PIECES = 136, 72, 136
#: The greatest whole numbers of A and of B.
_SMALL = 4, 4
#: The same by the number of pieces: A has numbers that need all pieces.
_OF_PIECES = {2: (2**15 - 1, 1), 3: (2**17 - 1, 1)}


def works(engine: Engine, problem: GemmProblem, bulk: bool = False, gather: bool = False) -> bool:
    """Whether small products in the format of ``problem`` are correct; they run once.

    Args:
        engine: The engine of the device.
        problem: A product in the format.
        bulk: Whether the copy engine is to bring the operands.
        gather: Whether they are to be copied element by element.
    """
    if problem.in_pieces:
        return _works_in_pieces(engine, problem)
    form = format_of(problem, engine.target)
    assert form is not None
    policy = POLICIES[form.kernel][0].for_shape_class("small", parts=form.parts)
    if isinstance(policy, WgmmaPolicy):
        policy = replace(policy, bulk=bulk)
    # With tf32 in one piece, A is copied in two ways and C is stored in three: three tests.
    whole_tf32 = form.kind == "tf32" and form.parts == 1

    def bind(small: GemmProblem) -> Plan:
        transposed = whole_tf32 and form.transposes(small)
        tiling = Tiling("", policy, transposed=transposed, gather=gather)
        return MatrixPlan(engine, small, tiling)

    key = ("matrix units work", form.kind, whole_tf32, bulk, gather)
    what = "bulk copies" if bulk else "matrix units"
    sizes = _OFF_THE_GRID if gather else _SIZES
    ways = ("NN", "TT", "NT") if whole_tf32 else ("NN", "TT")
    return engine.plan(key, lambda: _check(engine, problem, sizes, bind, what, ways))


def _works_in_pieces(engine: Engine, problem: GemmProblem) -> bool:
    """Test passes that store values in pieces, and products of them."""
    compute = problem.compute
    stored = Operand(compute, 0, 0)
    whole = replace(problem, a=stored, b=stored)
    key = ("matrix units work", "pieces", problem.precision)
    greatest = _OF_PIECES[len(PRODUCTS[problem.precision])]

    def bind(small: GemmProblem) -> Plan:
        return product_of_pieces(engine, small)

    def check() -> bool:
        return _check(engine, whole, _IN_PIECES, bind, ways=("NT", "TN"), greatest=greatest)

    return engine.plan(key, check)


def product_of_pieces(engine: Engine, problem: GemmProblem) -> Plan:
    """The plan of a product of float32 matrices, which are first stored in pieces for readers."""
    parts, k = len(PRODUCTS[problem.precision]), problem.k
    pitch = -(-k // _CHUNK) * _CHUNK
    steps, spaces, read = [], [], []
    sides: tuple[tuple[Side, Operand, int], ...] = (
        ("a", problem.a, problem.m), ("b", problem.b, problem.n),
    )  # fmt: skip
    for number, (side, operand, extent) in enumerate(sides):
        row, col = strides(operand, side)
        source = replace(operand, row=row, col=col)
        repack = Repack.into_pieces(source, extent, k, (), parts, pitch, engine.target)
        space = Temporary(f"pieces {side}", repack.nbytes, repack.elem.itemsize)
        steps.append(Step(repack.plan(engine), (number, space)))
        spaces.append(space)
        reader = Gather(
            "row" if side == "a" else "col", (extent,), (parts * pitch,),
            table=partial(_adjacent, pitch), period=pitch, along="k", width=_CHUNK, piece=pitch,
        )  # fmt: skip
        read.append(Operand(repack.elem, 0, 0, (), False, 16, reader))
    policy = replace(WgmmaPolicy.for_shape_class("small", parts), bulk=False)
    product = MatrixPlan(
        engine, replace(problem, k=pitch, a=read[0], b=read[1]), Tiling("", policy)
    )
    return Steps([*steps, Step(product, (*spaces, 2), takes_scalars=True)])


def _adjacent(count: int) -> Table:
    """The table of steps that follow each other."""
    return np.arange(count, dtype=np.int32)[:, None]


def works_on_few_columns(engine: Engine, problem: GemmProblem) -> bool:
    """Test the path that reads A in place."""
    key = ("matrix units work", "few columns", problem.a.elem.name)

    def bind(small: GemmProblem) -> Plan:
        return skinny_plan(engine, small, kernel_of(small, engine.target, engine.table))

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
    greatest: tuple[int, int] = _SMALL,
) -> bool:
    def right(trans: str, exponent: int = 0) -> bool:
        return _multiplies(engine, problem, sizes, bind, trans, exponent, greatest)

    def trouble() -> str:
        if not all(right(trans) for trans in ways):
            return "a test product is wrong"
        if problem.a.elem.name == "f16" and not right("NN", -22):
            return "they take subnormal numbers for 0"
        return ""

    return passes(engine, trouble, what)


def _multiplies(
    engine: Engine,
    problem: GemmProblem,
    sizes: tuple[int, int, int],
    bind: Callable[[GemmProblem], Plan],
    trans: str,
    exponent: int,
    greatest: tuple[int, int],
) -> bool:
    """Compare a product of whole numbers, exact in the format, bit by bit.

    Args:
        engine: The engine of the device.
        problem: A product in the format.
        sizes: ``m, n, k``.
        bind: Makes the plan of a product.
        trans: For A and for B, T if it is stored transposed, else N.
        exponent: A's numbers are multiplied by 2 to this power, which is exact.
        greatest: A's and B's greatest numbers.
    """
    random = np.random.default_rng(1)
    m, n, k = sizes
    a = random.integers(-greatest[0], greatest[0] + 1, (m, k)) * 2.0**exponent
    b = random.integers(-greatest[1], greatest[1] + 1, (k, n))
    elem, compute = problem.a.elem, problem.compute

    def operand(rows: int, cols: int, way: str) -> Operand:
        row, col = (1, rows) if way == "T" else (cols, 1)
        return Operand(elem, row, col, (), False, gcd(16, elem.itemsize * max(row, col)))

    c = Operand(compute, n, 1, (), False, gcd(16, compute.itemsize * n))
    small = GemmProblem(
        m=m, n=n, k=k, batch=(), a=operand(m, k, trans[0]), b=operand(k, n, trans[1]), c=c,
        compute=compute, precision=problem.precision,
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
