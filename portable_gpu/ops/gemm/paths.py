"""The paths of a product, and which one a target takes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import of_kind, one_of, whole
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import PRECISIONS, check_precision, element
from portable_gpu.errors import ArgumentError, BuildError, DTypeError
from portable_gpu.ops.explanation import Explanation
from portable_gpu.ops.gemm import matrix, skinny_mma
from portable_gpu.ops.gemm.binding import compute_element
from portable_gpu.ops.gemm.choice import GemmChoice, choose
from portable_gpu.ops.gemm.matrix import MatrixGemm
from portable_gpu.ops.gemm.matrix_check import works, works_in_pairs, works_on_few_columns
from portable_gpu.ops.gemm.matrix_choice import choose_matrix, fitting
from portable_gpu.ops.gemm.matrix_format import format_of
from portable_gpu.ops.gemm.matrix_policy import WgmmaPolicy
from portable_gpu.ops.gemm.packed import (
    Form,
    PackedGemm,
    PackedPolicy,
    choose_packed,
    mode,
    pieces,
    shape_class,
)
from portable_gpu.ops.gemm.path import GemmPath
from portable_gpu.ops.gemm.policy import SHAPE_CLASSES, GemmPolicy, value_bytes
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.simt import SimtGemm, specialization_of
from portable_gpu.ops.gemm.skinny import (
    MOST_VECTORS,
    SkinnyGemm,
    as_gemv,
    is_better_tiled,
    is_skinny,
    upright,
)
from portable_gpu.ops.gemm.tiles import takes_pairs
from portable_gpu.ops.gemv import plan as gemv
from portable_gpu.ops.gemv.problem import TRANSPOSES
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy
from portable_gpu.tuning.table import TuningTable


def make_path(engine: Engine, problem: GemmProblem) -> GemmPath:
    """The path of ``problem`` on the engine's device: the first that applies and works."""
    few = upright(problem)
    if skinny_mma.takes(few, engine.target) and works_on_few_columns(engine, few):
        return SkinnyGemm.by_matrix_units(engine, problem)
    if is_skinny(problem, engine.target) and not is_better_tiled(problem, engine.target):
        return SkinnyGemm.by_gemv(engine, problem)
    if engine.target.is_cpu:
        return PackedGemm(engine, problem)
    for choice in _by_matrix_units(problem, engine):
        policy = choice.policy
        if works(engine, problem, isinstance(policy, WgmmaPolicy) and policy.bulk):
            try:
                return MatrixGemm(engine, problem, choice)
            except (BuildError, cl.Error) as error:
                warnings.warn(f"{choice.path} by {policy} is not used: {error}", stacklevel=2)
    pairs = takes_pairs(problem, engine.target) and works_in_pairs(engine, problem)
    return SimtGemm(engine, problem, pairs=pairs)


def _by_matrix_units(problem: GemmProblem, engine: Engine) -> Iterator[GemmChoice]:
    """The choice of matrix units, and what serves if the copy engine does not work as it should."""
    choice = choose_matrix(problem, engine.target, engine.table)
    if choice is None:
        return
    yield choice
    if isinstance(choice.policy, WgmmaPolicy) and choice.policy.bulk:
        yield replace(choice, policy=replace(choice.policy, bulk=False))


def explain(
    operation: str,
    sizes: Sequence[int],
    dtype: np.dtype[Any],
    target: Target,
    table: TuningTable,
    *,
    batch: Shape = (),
    trans_a: str = "N",
    trans_b: str = "N",
    precision: str = "ieee",
) -> Explanation:
    """Which path and policy a product of C-ordered arrays takes on a target, and why.

    Args:
        operation: ``gemm`` or ``matmul``.
        sizes: ``m, k, n``: A is (m, k), B (k, n) and C (m, n).
        dtype: Of A and B.
        target, table: For what device, and what was measured on it.
        batch: Extents of matmul's batch axes.
        trans_a, trans_b: N, T or C.
        precision: As :func:`~portable_gpu.gemm` takes it.

    Raises:
        ArgumentError: There are not three sizes, an unknown transposition or precision.
        DTypeError: gemm of integers.
    """
    if len(sizes) != 3:
        raise ArgumentError(f"{operation} takes the sizes m, k and n; got {tuple(sizes)}")
    for name, trans in (("trans_a", trans_a), ("trans_b", trans_b)):
        one_of(trans, TRANSPOSES, name)
    if operation == "gemm" and not element(dtype).floating:
        raise DTypeError(f"gemm of {dtype}; floating dtypes (see matmul)")
    batch = tuple(
        [whole(extent, "an extent of batch") for extent in of_kind(batch, tuple, "batch")]
    )
    if min(batch, default=0) < 0:
        raise ArgumentError(f"batch is {batch}; extents from 0 on would do")
    m, k, n = sizes
    problem = contiguous(m, n, k, dtype, batch, trans_a, trans_b)
    problem = replace(problem, precision=check_precision(precision))
    stack = "".join(f"{extent} x " for extent in batch)
    named = f"{operation} of {stack}({m} x {k} by {k} x {n}) {dtype} on {target.facts.name}"
    said = _explanation(named, problem, target, table)
    if precision == "ieee":
        return said
    return replace(said, why=f"{said.why}{_unused_precision(problem, target, said.path)}")


def _unused_precision(problem: GemmProblem, target: Target, path: str) -> str:
    """What an explanation says of a ``precision`` that changes nothing; empty where it does."""
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


def _explanation(
    named: str, problem: GemmProblem, target: Target, table: TuningTable
) -> Explanation:
    """The same of any problem; ``named`` is what the explanation calls it."""
    few = upright(problem)
    if skinny_mma.takes(few, target):
        return skinny_mma.explain_problem(named, few, target, table)
    if is_skinny(problem, target) and not is_better_tiled(problem, target):
        return gemv.explain_problem(named, as_gemv(few), target, table)
    choice = choose_matrix(problem, target, table) or choose(problem, target, table)
    policy: Policy | None = choice.policy
    path, origin, why, evidence = choice.path, choice.origin, choice.why, choice.evidence
    kernels = _KERNELS.get(path, ())
    details: dict[str, Any] = {}
    if choice.path == "packed":
        packed = choose_packed(problem, target, table)
        policy, origin, evidence = packed.policy, packed.origin, packed.evidence
        details = {"shape class": shape_class(problem), "transposed": packed.swapped}
        if packed.whole:
            path, kernels = "packed, whole", _KERNELS["packed, whole"]
            why += "; each product is small enough for one work-item"
    elif choice.policy is not None:
        if not isinstance(choice.policy, GemmPolicy):
            texts = matrix.specializations_of(problem, choice, target)
            kernels = tuple(dict.fromkeys(spec.name for spec in texts))
        details = {
            "shape class": choice.shape_class,
            "splits of k": choice.splits,
            "transposed": choice.transposed,
            "group size": choice.policy.group_size,
            "local memory": choice.policy.local_bytes(problem.compute),
        }
        if isinstance(choice.policy, GemmPolicy) and takes_pairs(problem, target):
            details["steps of k an instruction"] = 2
    return Explanation(
        operation=named,
        path=path,
        kernels=kernels,
        policy=policy.to_dict() if policy else {},
        origin=origin,
        why=why,
        details={**details, "flop": problem.flop, "bytes": problem.bytes},
        evidence=evidence,
    )


_KERNELS: dict[str, tuple[str, ...]] = {
    "packed": ("gemm/packed",),
    "packed, whole": ("gemm/packed_whole",),
    "direct": ("gemm/direct",),
    "tiled": ("gemm/gemm",),
    "split-k": ("gemm/gemm",),
}


def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """What the policies of all shape classes build, by formula and by shipped rows."""
    problem = contiguous(4096, 4096, 4096, dtype)
    if target.is_cpu:
        vectors = (replace(problem, n=1), replace(problem, m=1).transpose())
        by_gemv = [gemv.specialization_of(as_gemv(one), target) for one in vectors]
        return [*_packed(problem, target), *by_gemv]
    choices, shipped = [GemmChoice("direct")], TuningTable.shipped()
    for name in SHAPE_CLASSES:
        policy = GemmPolicy.for_shape_class(target, problem.compute, name)
        row = shipped.choose("gemm", GemmPolicy, target, problem.compute, name, policy)
        for one in (policy, row.policy):
            choices.append(GemmChoice("tiled", one, shape_class=name))
    if value_bytes(problem.compute) >= 4:
        choices.append(GemmChoice("split-k", choices[1].policy, splits=2))
    pairs = takes_pairs(problem, target)
    found = [specialization_of(problem, choice, target, pairs=pairs) for choice in choices]
    for few in (replace(problem, n=MOST_VECTORS), replace(problem, m=MOST_VECTORS).transpose()):
        if skinny_mma.takes(few, target):
            found.append(skinny_mma.choose(few, target, shipped).spec)
        else:
            found.append(gemv.specialization_of(as_gemv(few), target))
    found += _matrix_specializations(problem, dtype, target)
    return list({spec.key: spec for spec in found}.values())


def _matrix_specializations(
    problem: GemmProblem, dtype: np.dtype[Any], target: Target
) -> list[Specialization]:
    """The same of matrix units: of all precisions, operands as they lie, across, and repacked.

    Products that are turned come both ways: what a turned one reads as it lies is repacked in one
    that is not.
    """
    found = []
    for precision in PRECISIONS:
        for trans in ("NN", "TT", "NT"):
            a, b = trans
            p = contiguous(problem.m, problem.n, problem.k, dtype, trans_a=a, trans_b=b)
            p = replace(p, precision=precision)
            form = format_of(p, target)
            if form is None or (trans == "NT" and form.kind != "tf32"):
                continue
            ways = [(False, 1), (False, 2)]
            if form.turned(p):
                ways += [(True, 1), (True, 2)]
            for _, row in fitting(p, form, target, TuningTable([])):
                choices = [
                    GemmChoice(form.kernel, row.policy, splits, transposed=turned)
                    for turned, splits in ways
                ]
                if isinstance(row.policy, WgmmaPolicy) and row.policy.bulk:
                    by_lines = replace(row.policy, bulk=False)
                    choices += [replace(choice, policy=by_lines) for choice in choices]
                for choice in choices:
                    found += matrix.specializations_of(p, choice, target)
    return found


def _packed(problem: GemmProblem, target: Target) -> list[Specialization]:
    a, b = problem.a, problem.b
    context = {
        "problem": problem,
        "policy": PackedPolicy.default(target, problem.compute),
        "form": Form(mode(a.row, a.col), mode(b.col, b.row), True, True, swapped=False),
        "pieces": pieces,
    }
    names = ("gemm/packed", "gemm/packed_whole")
    return [specialize(name, target, **context) for name in names]


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
        m, n, k, whole, operand(m, k, trans_a), operand(k, n, trans_b), operand(m, n, "N"), compute
    )
