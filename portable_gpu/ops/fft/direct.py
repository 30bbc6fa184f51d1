"""Convolutions by direct sums: of integers, of few elements, and of arrays that only broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.fft.convolution import Strided
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target

_GROUP = 64  # the work-items of a group
#: The least number of broadcast axes of a kernel, so that calls with fewer ones share its text.
_RANK = 2
#: Bytes of the results of a work-item: several vectors on a CPU, to hide the latency of sums; few
#: on a GPU, to leave registers for other wavefronts.
_BYTES, _BYTES_ON_GPU = 128, 32


@dataclass(frozen=True)
class DirectProblem:
    """One convolution without the values of its arrays: the key of its plan.

    Attributes:
        elem: The element of both inputs and of the result.
        conjugate: Whether the second input is conjugated.
        axes: The convolved axes; at least one.  Other axes broadcast.
        first: The index of the first returned result along each convolved axis.
        source, second, target: The arrays, with the same number of axes.
    """

    elem: Element
    conjugate: bool
    axes: tuple[int, ...]
    first: Shape
    source: Strided
    second: Strided
    target: Strided

    @property
    def flop(self) -> int:
        """An upper bound of the flop: a product and a sum for each pair of elements."""
        taps = prod(min(self.second.shape[axis], self.source.shape[axis]) for axis in self.axes)
        return 2 * self.elem.components**2 * taps * prod(self.target.shape)


def direct_plan(engine: Engine, problem: DirectProblem) -> OneLaunch:
    """Return the plan of a convolution.  Operands: the first input, the second, the result."""
    p = problem
    # The kernel's names: y = x * t.  A work-item computes `width` results in a row.
    arrays = {"x": p.source, "t": p.second, "y": p.target}
    batch = merged(
        Axis(
            n,
            tuple(0 if array.shape[a] == 1 else array.strides[a] for array in arrays.values()),
        )
        for a, n in enumerate(p.target.shape)
        if a not in p.axes
    )
    rank = max(_RANK, len(batch))
    batch = [Axis(1, (0, 0, 0))] * (rank - len(batch)) + batch
    width = _width(p.elem, engine.target)
    rows = prod(p.target.shape[a] for a in p.axes[:-1]) * prod(axis.size for axis in batch)
    items = rows * -(-p.target.shape[p.axes[-1]] // width)
    constants = {"items": items, "conjugate": int(p.conjugate)}
    for side, (name, array) in enumerate(arrays.items()):
        for d, axis in enumerate(batch):
            constants[f"{name}_batch{d}"] = axis.strides[side]
        for c, a in enumerate(p.axes):
            constants[f"{name}_axis{c}"] = array.strides[a]
    for d, axis in enumerate(batch):
        constants[f"batch{d}_size"] = axis.size
    for c, (a, first) in enumerate(zip(p.axes, p.first, strict=True)):
        constants[f"axis{c}_size"] = p.target.shape[a]
        constants[f"axis{c}_x"] = p.source.shape[a]
        constants[f"axis{c}_t"] = p.second.shape[a]
        constants[f"axis{c}_first"] = first
    return OneLaunch(
        engine, specialization(p.elem, len(p.axes), rank, engine.target), "direct", constants,
        "xty",
        (-(-items // _GROUP) * _GROUP,), (_GROUP,),
        starts=[array.start for array in arrays.values()], flop=p.flop,
        nbytes=p.elem.itemsize * sum(prod(array.shape) for array in arrays.values()),
    )  # fmt: skip


def specialization(elem: Element, count: int, rank: int, target: Target) -> Specialization:
    """Render the kernel for ``count`` convolved axes and ``rank`` others."""
    batch = [f"batch{d}" for d in range(rank)]
    convolved = [f"axis{c}" for c in range(count)]
    parameters = [*scalars("long", "items"), *scalars("int", "conjugate")]
    for name in "xty":
        parameters += [
            buffer("real_t", name, writes=name == "y", restrict=False),
            *scalars("long", f"{name}_offset", *(f"{name}_{axis}" for axis in batch + convolved)),
        ]
    parameters += scalars("long", *(f"{axis}_size" for axis in batch))
    for axis in convolved:
        parameters += scalars("long", *(f"{axis}_{field}" for field in ("size", "x", "t", "first")))
    width = _width(elem, target)
    return specialize(
        "fft/direct", target, {"direct": parameters}, elem=elem, count=count, rank=rank, W=width
    )


def _width(elem: Element, target: Target) -> int:
    """Return the number of results of a work-item."""
    return (_BYTES if target.is_cpu else _BYTES_ON_GPU) // max(4, elem.itemsize)
