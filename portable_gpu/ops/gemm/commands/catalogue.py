"""Products without a device: the kernels that each builds by default, and explanations."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np

from portable_gpu.arguments import flag, one_of
from portable_gpu.codegen.specialization import Specialization, distinct
from portable_gpu.dtypes import PRECISIONS, check_precision, element
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.ops.explanation import Explanation, Question, batch_extents
from portable_gpu.ops.gemm.binding import compute_element
from portable_gpu.ops.gemm.matrix import plan as matrix
from portable_gpu.ops.gemm.matrix.estimates import fitting, shares_fit
from portable_gpu.ops.gemm.matrix.format import format_of
from portable_gpu.ops.gemm.matrix.policy import WgmmaPolicy, requires_k_along_b
from portable_gpu.ops.gemm.mirror import specialization_of as mirrored_spec
from portable_gpu.ops.gemm.packed import lanes
from portable_gpu.ops.gemm.packed import plan as packed
from portable_gpu.ops.gemm.packed.forms import PackedForm
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.skinny import fragments
from portable_gpu.ops.gemm.skinny.vectors import MOST_VECTORS, as_gemv
from portable_gpu.ops.gemm.tiled.estimates import direct_estimates
from portable_gpu.ops.gemm.tiled.plan import specialization_of
from portable_gpu.ops.gemm.tiled.policy import SHAPE_CLASSES, GemmPolicy, value_bytes
from portable_gpu.ops.gemm.tiled.tile import takes_pairs
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.ops.gemm.variants import variants
from portable_gpu.ops.gemv.commands.catalogue import specialization_of as gemv_spec
from portable_gpu.ops.gemv.problem import TRANSPOSES
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


def explain(
    question: Question,
    *,
    batch: Shape = (),
    trans_a: str = "N",
    trans_b: str = "N",
    precision: str = "ieee",
    symmetric: bool = False,
) -> Explanation:
    """Which path and policy a product of C-ordered arrays takes on a target, and why.

    Args:
        question: The call; its sizes are ``m, k, n``: A is (m, k), B (k, n) and C (m, n).
        batch: Extents of matmul's batch axes.
        trans_a, trans_b: N, T or C.
        precision: As :func:`~portable_gpu.gemm` takes it.
        symmetric: Whether B is A's transpose in the same memory; ``trans_b`` is then ignored.

    Raises:
        ArgumentError: There are not three sizes, an unknown transposition or precision, or a
            symmetric product that is not square.
        DTypeError: gemm of integers.
    """
    operation, sizes, dtype = question.operation, question.sizes, question.dtype
    target = question.target
    if len(sizes) != 3:
        raise ArgumentError(f"{operation} takes the sizes m, k and n; got {sizes}")
    for name, trans in (("trans_a", trans_a), ("trans_b", trans_b)):
        one_of(trans, TRANSPOSES, name)
    if operation == "gemm" and not element(dtype).floating:
        raise DTypeError(f"dtype is {dtype}; gemm takes floating ones (see matmul)")
    batch, (m, k, n) = batch_extents(batch, 0), sizes
    problem = contiguous(m, n, k, dtype, batch, trans_a, trans_b)
    problem = replace(problem, precision=check_precision(precision))
    if flag(symmetric, "symmetric"):
        problem = _symmetric(problem)
    stack = "".join(f"{extent} x " for extent in batch)
    every = variants(problem, target, question.table)
    said = question.answer(every, f"{stack}({m} x {k} by {k} x {n})")
    if precision == "ieee":
        return said
    return replace(said, why=f"{said.why}{_unused_precision(problem, target, said.path)}")


def _symmetric(problem: GemmProblem) -> GemmProblem:
    """The product of A and its own transpose."""
    if problem.m != problem.n:
        raise ArgumentError(f"a symmetric product is square; m is {problem.m} and n {problem.n}")
    a = problem.a
    return replace(problem, b=replace(a, row=a.col, col=a.row), symmetric=problem.k > 0)


def _unused_precision(problem: GemmProblem, target: Target, path: str) -> str:
    """The remark of an explanation on a ``precision`` that has no effect, else an empty string."""
    if problem.a.elem.name != "f32" or problem.b.elem.name != "f32":
        reason = "it is for products of float32"
    elif not target.matrix_units:
        reason = f"{target.facts.name} has no matrix units"
    elif format_of(problem, target) == format_of(replace(problem, precision="ieee"), target):
        reason = f"the matrix units of {target.facts.name} compute float32 in no other way"
    elif not path.startswith(("wgmma", "mma", "mfma")):
        reason = "this product is not for matrix units"
    else:
        return ""
    return f"; precision {problem.precision} changes nothing here, for {reason}"


def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The texts of the policies of all shape classes, by formula and by shipped rows."""
    problem = contiguous(4096, 4096, 4096, dtype)
    mirror = mirrored_spec(replace(problem, triangle="lower", fills="mirror"), target)
    if target.is_cpu:
        vectors = (replace(problem, n=1), replace(problem, m=1).transpose())
        by_gemv = [gemv_spec(as_gemv(item), target) for item in vectors]
        return [*_packed(problem, target), *_side_by_side(dtype, target), *by_gemv, mirror]
    tilings = [tiling for _, tiling in direct_estimates(problem, target)]
    shipped = TuningTable.shipped()
    for name in SHAPE_CLASSES:
        policy = GemmPolicy.for_shape_class(target, problem.compute, name)
        row = shipped.choose("gemm", GemmPolicy, target, problem.compute, name, policy)
        for item in (policy, row.policy):
            tilings.append(Tiling("tiled", item, shape_class=name))
    if value_bytes(problem.compute) >= 4:
        tilings.append(Tiling("split-k", tilings[1].policy, splits=2))
    pairs = takes_pairs(problem, target)
    result = [specialization_of(problem, tiling, target, pairs=pairs) for tiling in tilings]
    for few in (replace(problem, n=MOST_VECTORS), replace(problem, m=MOST_VECTORS).transpose()):
        if fragments.takes(few, target):
            result.append(fragments.kernel_of(few, target, shipped).spec)
        else:
            result.append(gemv_spec(as_gemv(few), target))
    result += [*_matrix_specializations(problem, dtype, target), mirror]
    return distinct(result)


def _matrix_specializations(
    problem: GemmProblem, dtype: np.dtype[Any], target: Target
) -> list[Specialization]:
    """The texts of matrix units: all precisions, and operands read in place, repacked and gathered.

    Products that are transposed have both orientations: an operand that one reads in place is
    repacked in the other.
    """
    result = []
    for precision in PRECISIONS:
        for trans in ("NN", "TT", "NT"):
            a, b = trans
            p = contiguous(problem.m, problem.n, problem.k, dtype, trans_a=a, trans_b=b)
            p = replace(p, precision=precision)
            form = format_of(p, target)
            if form is None:
                continue
            for _, row in fitting(p, form, target, TuningTable([])):
                narrow = requires_k_along_b(row.policy)
                if trans == "NT" and form.kind != "tf32" and not narrow:
                    continue
                kind_of_cut = "shares" if form.kernel == "wgmma" else "splits"
                cuts: tuple[dict[str, Any], ...] = ({}, {kind_of_cut: 2})
                if isinstance(row.policy, WgmmaPolicy) and not shares_fit(row.policy, form):
                    cuts = ({},)
                both = form.transposes(p) or (trans == "NT" and narrow)
                tilings = [
                    Tiling(form.kernel, row.policy, transposed=transposed, **cut)
                    for transposed in (False, True)[: 1 + both]
                    for cut in cuts
                ]
                if isinstance(row.policy, WgmmaPolicy) and row.policy.bulk:
                    by_lines = replace(row.policy, bulk=False)
                    tilings += [replace(tiling, policy=by_lines) for tiling in tilings]
                for tiling in tilings:
                    result += matrix.specializations_of(p, tiling, target)
                if form.gathered_across(p.a, "a") is not None and not narrow:
                    gathered = replace(tilings[-1], splits=1, shares=0, gather=True)
                    result += matrix.specializations_of(_off_the_grid(p), gathered, target)
    return result


def _off_the_grid(p: GemmProblem) -> GemmProblem:
    """The problem with rows that are aligned only to their elements."""
    a, b, c = (replace(x, aligned_bytes=x.elem.itemsize) for x in (p.a, p.b, p.c))
    return replace(p, a=a, b=b, c=c)


def _packed(problem: GemmProblem, target: Target) -> list[Specialization]:
    policy = PackedPolicy.default(target, problem.compute)
    tilings = [PackedForm(policy, False, whole, True, True) for whole in (False, True)]
    return [packed.specialization_of(problem, tiling, target) for tiling in tilings]


def _side_by_side(dtype: np.dtype[Any], target: Target) -> list[Specialization]:
    problem = contiguous(4, 4, 4, dtype, (1000,))
    policy = PackedPolicy.default(target, problem.compute)
    return [lanes.specialization(problem, policy, target)] if lanes.takes(problem, policy) else []


def contiguous(
    m: int, n: int, k: int, dtype: Any, batch: Shape = (), trans_a: str = "N", trans_b: str = "N"
) -> GemmProblem:
    """The problem of C-ordered arrays that start aligned."""
    elem, compute = element(np.dtype(dtype)), compute_element(np.dtype(dtype), np.dtype(dtype))

    def operand(rows: int, cols: int, trans: str) -> Operand:
        row, col = (cols, 1) if trans == "N" else (1, rows)
        stack = tuple(rows * cols for _ in batch[:1])
        aligned = gcd(16, elem.itemsize * max(row, col), elem.itemsize * sum(stack))
        return Operand(elem, row, col, stack, trans == "C" and elem.complex, aligned)

    whole = (int(np.prod(batch)),) if batch else ()
    return GemmProblem(
        m=m, n=n, k=k, batch=whole, a=operand(m, k, trans_a), b=operand(k, n, trans_b),
        c=operand(m, n, "N"), compute=compute,
    )  # fmt: skip
