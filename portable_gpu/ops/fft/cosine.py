"""Cosine and sine transforms by Fourier transforms of real numbers.

Types II and III are a Fourier transform of the same length, of the permuted input (Makhoul, "A fast
cosine transform in one and two dimensions", IEEE Trans. ASSP 28, 1980).  Type IV is a transform of
complex numbers, of half the length if it is even, else of twice the length.  Type I is a transform
of the mirrored sequence.  Sine transforms are cosine transforms with reversed order or alternating
signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import Literal

import numpy as np

from portable_gpu.codegen.axes import Axis, merged, parameters
from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.fft.problem import FftProblem, Line, LineOperand
from portable_gpu.ops.fft.tables import Table, as_components, roots
from portable_gpu.ops.fft.variants import make_plan, one_pass_plan
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target

#: The steps before and after the Fourier transform; see ``cl_kernels/fft/cosine``.
CosineKind = Literal["one", "two", "three", "four", "odd", "sine"]
#: Work-items of a group, and numbers of each, on GPUs and if lines are adjacent; and on CPUs if the
#: numbers of a line are adjacent.
_ACROSS_LINES, _ALONG_LINES = (64, 64), (1, 1024)
_RANK = 2


@dataclass(frozen=True)
class CosineProblem:
    """One transform without the values of its arrays: the key of its plan.

    Attributes:
        type: 1 to 4.
        sine: Whether it is a sine transform.
        orthogonal: Whether the first and last numbers are scaled so that the matrix of the
            transform is orthogonal, except for a factor.
        real: Element of both arrays.
        axes, lengths: The transformed axes, and the length along each.
        shape_in, strides_in, strides_out: The shape and strides of the arrays, in elements.
    """

    type: int
    sine: bool
    orthogonal: bool
    real: Element
    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    shape_in: Shape
    strides_in: Shape
    strides_out: Shape

    def kind(self, n: int) -> CosineKind:
        """Return the kind of the steps for lines of n numbers."""
        if self.type == 1:
            return "sine" if self.sine else "one"
        if self.type == 4:
            return "odd" if n % 2 else "four"
        return "two" if self.type == 2 else "three"


@dataclass(frozen=True)
class _CosineStep:
    """The step before or after the Fourier transform.

    Attributes:
        stage: ``before`` or ``after``.
        n: Length of the cosine transform.
        count: Numbers of each line that exist in the source.
        numbers: Numbers of each line of the target.
        shape: The shape of the target.
        axis: The transformed axis.
        strides: The strides of source and target, in elements.
        flags: Whether numbers are in reverse order, and have alternating signs.
        edge: The factor of the first and last numbers.
    """

    stage: Literal["before", "after"]
    n: int
    count: int
    numbers: int
    shape: Shape
    axis: int
    strides: tuple[Shape, Shape]
    flags: tuple[bool, bool]
    edge: float


def _step_plan(engine: Engine, kind: CosineKind, real: Element, side: _CosineStep) -> OneLaunch:
    """Return the plan of one step; operands are the source and the target."""
    batch = merged(
        Axis(n, tuple(own[a] for own in side.strides))
        for a, n in enumerate(side.shape)
        if a != side.axis
    )
    rank = max(_RANK, len(batch))
    batch = [Axis(1, (0, 0))] * (rank - len(batch)) + batch
    lines = prod(axis.size for axis in batch)
    along = engine.target.is_cpu and 1 in [own[side.axis] for own in side.strides]
    group, chunk = _ALONG_LINES if along else _ACROSS_LINES
    chunks = -(-side.numbers // chunk)
    items = lines * chunks
    constants = {
        "n": side.n, "numbers": side.numbers, "count": side.count, "chunk": chunk,
        "chunks": chunks, "items": items, "reversed": int(side.flags[0]),
        "alternating": int(side.flags[1]), "edge": side.edge,
        "x_step": side.strides[0][side.axis], "y_step": side.strides[1][side.axis],
    }  # fmt: skip
    for d, axis in enumerate(batch):
        constants[f"batch{d}_size"] = axis.size
        constants[f"x_batch{d}"], constants[f"y_batch{d}"] = axis.strides
    return OneLaunch(
        engine, specialization(kind, side.stage, real, rank, engine.target), side.stage, constants,
        ["x", "y"], (-(-items // group) * group,), (group,),
        tables={"w": as_components(_roots(kind, side.n), real.real)},
        nbytes=2 * real.itemsize * lines * side.numbers,
    )  # fmt: skip


def specialization(
    kind: CosineKind, stage: str, real: Element, rank: int, target: Target
) -> Specialization:
    """Render the kernel of a step."""
    kernels = {
        stage: [
            *scalars("long", "n", "numbers", "count", "chunk", "chunks", "items"),
            *scalars("int", "reversed", "alternating"),
            *scalars(real.real, "edge", alias="real_t"),
            buffer("real_t", "w", restrict=False),
            buffer("real_t", "x", restrict=False),
            *scalars("long", "x_offset", "x_step"),
            buffer("real_t", "y", writes=True, restrict=False),
            *scalars("long", "y_offset", "y_step"),
            *parameters("batch", rank, ("x", "y")),
        ]
    }
    return specialize("fft/cosine", target, kernels, kind=kind, stage=stage, real=real, rank=rank)


def _roots(kind: CosineKind, n: int) -> Table:
    """Return the roots of unity by which the steps of a kind multiply."""
    k = np.arange(n)
    if kind in ("two", "three"):
        return roots(k, 4 * n)
    if kind == "four":
        half = k[: n // 2]
        return np.concatenate([roots(4 * half + 1, 8 * n), roots(half, 2 * n)])
    if kind == "odd":
        return np.concatenate([roots(k, 4 * n), roots(2 * k + 1, 8 * n)])
    return np.ones(1, complex)


def make_cosine_plan(engine: Engine, problem: CosineProblem) -> Plan:
    """Plan the transforms along one axis after another; the scalar is the scale of all.

    Raises:
        BuildError: The driver refused a kernel.
        DeviceMemoryError: The tables cannot be allocated on the device.
    """
    p = problem
    shape, strides = list(p.shape_in), p.strides_in
    steps: list[Step] = []
    for place, (axis, n) in enumerate(zip(p.axes, p.lengths, strict=True)):
        count = shape[axis]
        shape[axis] = n
        last = place == len(p.axes) - 1
        source = 0 if place == 0 else 1
        steps += _line_steps(engine, p, tuple(shape), axis, count, strides, source, last)
        strides = p.strides_out
    return Steps(steps)


def _line_steps(
    engine: Engine,
    p: CosineProblem,
    shape: Shape,
    axis: int,
    count: int,
    strides: Shape,
    source: int,
    last: bool,
) -> list[Step]:
    """Plan the transform along one axis: the step before, the Fourier transform, the step after.

    Args:
        engine, p: The engine, and the problem of all axes.
        shape, axis: The shape of the result of this axis, and the axis.
        count: The numbers of each line that exist in the source.
        strides: The strides of the source.
        source: The index of the source among the operands of the plan; the result has the index 1.
        last: Whether no axis comes after this one; then results are scaled.
    """
    n = shape[axis]
    kind = p.kind(n)
    if kind == "two" and not p.sine:
        line = Line(
            n, False, p.real, LineOperand("ordered", count, strides[axis]),
            LineOperand("rotated", n, p.strides_out[axis]),
            tuple(merged(
                Axis(shape[a], (strides[a], p.strides_out[a]))
                for a in range(len(shape)) if a != axis
            )),
        )  # fmt: skip
        pass_plan = one_pass_plan(engine, line, _output_factors(n, p.orthogonal))
        if pass_plan is not None:
            return [Step(pass_plan, (source, 1), takes_scalars=last, scalars=(1.0,))]

    def along(extent: int) -> Shape:
        return (*shape[:axis], extent, *shape[axis + 1 :])

    length = {"one": 2 * (n - 1), "sine": 2 * (n + 1), "four": n // 2, "odd": 2 * n}.get(kind, n)
    input_count = {"three": n // 2 + 1, "odd": n}.get(kind, length)
    results = length // 2 + 1 if kind in ("one", "two", "sine") else length
    to_real = kind == "three"
    of_complex = kind in ("three", "four", "odd")
    inside, outside = along(input_count), along(results)
    first = _temporary("before", axis, inside, p.real, of_complex)
    second = _temporary("after", axis, outside, p.real, not to_real)
    fourier = FftProblem(
        kind="c2r" if to_real else "c2c" if of_complex else "r2c", from_real=False, inverse=to_real,
        real=p.real, axes=(axis,), lengths=(length,), shape_in=inside, shape_out=outside,
        strides_in=contiguous_strides(inside), strides_out=contiguous_strides(outside), scaled=last,
    )  # fmt: skip
    edges = _edges(p)
    mirrored = p.sine and p.type in (3, 4)
    alternating = p.sine and p.type == 2
    before = _CosineStep(
        "before", n, count=count, numbers=input_count, shape=inside, axis=axis,
        strides=(strides, contiguous_strides(inside)), flags=(mirrored, alternating),
        edge=edges[0],
    )  # fmt: skip
    after = _CosineStep(
        "after", n, count=0, numbers=n, shape=shape, axis=axis,
        strides=(contiguous_strides(outside), p.strides_out), flags=(alternating, mirrored),
        edge=edges[1],
    )  # fmt: skip
    plan = engine.plan(fourier, lambda: make_plan(engine, fourier))
    return [
        Step(_step_plan(engine, kind, p.real, before), (source, first)),
        Step(plan, (first, second), takes_scalars=last, scalars=(1.0,)),
        Step(_step_plan(engine, kind, p.real, after), (second, 1)),
    ]


def _output_factors(n: int, orthogonal: bool) -> Table:
    """Return the factors of a Fourier transform whose products have the result as real parts."""
    factors = 2 * roots(np.arange(n), 4 * n)
    factors[0] *= sqrt(0.5) if orthogonal else 1.0
    return factors


def _temporary(name: str, axis: int, shape: Shape, real: Element, of_complex: bool) -> Temporary:
    itemsize = real.itemsize * (1 + of_complex)
    return Temporary(f"{name} {axis}", prod(shape) * itemsize, itemsize)


def _edges(p: CosineProblem) -> tuple[float, float]:
    """Return the factors of first and last numbers, before and after, for an orthogonal matrix."""
    if not p.orthogonal or p.type == 4 or (p.sine and p.type == 1):
        return 1.0, 1.0
    return (1.0 if p.type == 2 else sqrt(2)), (1.0 if p.type == 3 else sqrt(0.5))
