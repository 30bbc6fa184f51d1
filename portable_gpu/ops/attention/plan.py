"""The plan of attention: one launch, whose work-items have rows of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portable_gpu.codegen.operators import SCALAR_BYTES
from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.gemm.packed.policy import registers
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.random.mask import mask_scalars
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target

#: The suffixes of the names of an operand's strides.
AXES = ("batch", "head", "row", "step")
#: The results of each side of the gradients.
RESULTS = {"q": ("dq", "delta"), "k": ("dk", "dv")}
SIZES = ("heads", "shared", "queries", "keys", "blocks")
# On a CPU a work-item has a row in each lane of some vectors, and reads the rows of the other side
# by blocks.  The most vectors, and the most rows of a block:
_VECTORS_ON_CPU = 2
_KEYS_ON_CPU = {"forward": 64, "backward": 32}
# Bytes of a work-item's rows, sums and tiles on a CPU: above the first number, blocks are made
# smaller; above the second one, half of a thread's usual stack, there is no kernel.
_MOST_PRIVATE, _MOST_OF_STACK = 1 << 21, 1 << 22
_EXTENT, _EXTENT_ON_CPU = 16, 64  # what the extents of rows are rounded up to
_MOST_LOCAL = 1 << 15  # bytes of the tiles, which every device has


@dataclass(frozen=True)
class AttentionProblem:
    """One attention: the key of its plan.

    Attributes:
        elem, wide: The element types of the arrays, and of the logarithms of sums.
        mask: The element type of the mask, if there is one.
        batch, heads, shared: Batches, heads of queries, and how many of them share a head of keys.
        queries, keys, dq, dv: Rows of queries and of keys, and the extents of rows of k and of v.
        strides: The strides of each operand along batch, head, row and element.
        is_causal: Whether query i sees keys up to i.
        scale: The factor of the products.
        aligned: Whether q, k, v and the result begin at multiples of 16 bytes.
        drops: Whether probabilities are dropped, by scalars of the call.
    """

    elem: Element
    wide: Element
    mask: Element | None
    batch: int
    heads: int
    shared: int
    queries: int
    keys: int
    dq: int
    dv: int
    strides: tuple[Shape, ...]
    is_causal: bool
    scale: float
    aligned: bool = False
    drops: bool = False

    @property
    def flop(self) -> int:
        """Operations of the two products."""
        return 2 * self.batch * self.heads * self.queries * self.keys * (self.dq + self.dv)

    @property
    def bytes(self) -> int:
        """Bytes of the operands and the result, each of them once."""
        rows = self.heads * self.queries + self.heads // self.shared * self.keys
        return self.batch * rows * (self.dq + self.dv) * self.elem.itemsize


def partition(problem: AttentionProblem, target: Target, name: str) -> tuple[int, int, int]:
    """Work-items of a group, rows of each, and rows of a block of the other side.

    Raises:
        UnsupportedError: Rows are longer than the private memory of a CPU's work-item.
    """
    size = SCALAR_BYTES[problem.elem.real]
    width = sum(_extents(problem, target)) * size
    if not target.is_cpu:
        tile = 32
        while tile > 8 and tile * width > min(_MOST_LOCAL, target.local_mem_size):
            tile //= 2
        return min(64, target.max_work_group_size), 1, tile
    rows, others = _VECTORS_ON_CPU * min(16, target.vector_bytes // size), _KEYS_ON_CPU[name]

    def private() -> int:
        return (2 * rows + (0 if _is_direct(problem) else others)) * width

    while rows > 1 and private() > _MOST_PRIVATE:
        rows //= 2
    while others > _product_rows(target) and private() > _MOST_PRIVATE:
        others //= 2
    if private() > _MOST_OF_STACK:
        raise UnsupportedError(
            f"query has rows of {problem.dq} elements, and value of {problem.dv}; "
            f"{problem.elem.name} takes {_MOST_OF_STACK * (problem.dq + problem.dv) // private()} "
            "of both together"
        )
    return 1, rows, others


def _is_direct(problem: AttentionProblem) -> bool:
    """Whether a CPU computes with elements as they are stored, so that it reads them in place."""
    return problem.elem.real == problem.elem.storage


def _product_rows(target: Target) -> int:
    """The rows of a register tile of a CPU's products."""
    return 8 if registers(target) == 32 else 4


def rounded_extent(extent: int, step: int = _EXTENT) -> int:
    """The extent of a row, rounded up to what kernels are compiled for."""
    return -(-max(1, extent) // step) * step


def _extents(problem: AttentionProblem, target: Target) -> tuple[int, int]:
    """The rounded extents of rows of q and of v."""
    step = _EXTENT_ON_CPU if target.is_cpu else _EXTENT
    return rounded_extent(problem.dq, step), rounded_extent(problem.dv, step)


def specialization(problem: AttentionProblem, target: Target) -> Specialization:
    """The text and options of the kernel."""
    parameters = [
        *array_parameters(problem, operands(problem), ("out", "sums")),
        *scalars("uint", *SIZES, "dq", "dv"),
        *scalars(problem.elem.real, "scale"),
        *dropout_parameters(problem),
    ]
    return _specialize("forward", problem, target, parameters)


def backward_specialization(problem: AttentionProblem, target: Target, side: str) -> Specialization:
    """The text and options of the kernel of one side of the gradients."""
    parameters = [
        *array_parameters(problem, backward_operands(problem, side), RESULTS[side]),
        *scalars("uint", *SIZES, "dq_size", "dv_size"),
        *scalars(problem.elem.real, "scale"),
        *dropout_parameters(problem),
    ]
    return _specialize("backward", problem, target, parameters, side=side)


def array_parameters(
    problem: AttentionProblem, names: Sequence[str], results: Sequence[str], stored: str = ""
) -> list[Parameter]:
    """Declare arrays with their offsets and strides.

    Args:
        problem: The attention.
        names, results: The arrays, and those that the kernel writes to.
        stored: The C type of their elements, if not that of the problem's element.
    """
    p = problem
    sums = f"{p.wide.name}_t"
    types = {"mask": f"{p.mask.name}_t" if p.mask else "", "sums": sums, "delta": sums}
    result: list[Parameter] = []
    for name in names:
        ctype = types.get(name, stored or f"{p.elem.name}_t")
        result.append(buffer(ctype, f"{name}_data", writes=name in results))
        result += scalars("long", *(f"{name}_{part}" for part in ("offset", *AXES)))
    return result


def dropout_parameters(problem: AttentionProblem) -> list[Parameter]:
    """Declare the scalars of the mask of dropout."""
    if not problem.drops:
        return []
    rescale = scalars(problem.elem.real, "rescale")
    return [*scalars("ulong", "threshold"), *rescale, *scalars("ulong", "stream", "seed")]


def backward_operands(problem: AttentionProblem, side: str) -> list[str]:
    """The names of the arrays of a side of the gradients, in the order of its buffers."""
    first = ["q", "k", "v", *(["mask"] if problem.mask else []), "grad", "sums"]
    return [*first, "y" if side == "q" else "delta", *RESULTS[side]]


def gradient_plan(
    engine: Engine,
    problem: AttentionProblem,
    side: str,
    spec: Specialization,
    rows: int,
    group: int,
) -> OneLaunch:
    """Return the plan of one side of the gradients of attention.

    Operands of side ``q``: q, k, v, mask, grad, sums, y, dq, delta; of side ``k``: q, k, v, mask,
    grad, sums, delta, dk, dv.

    Args:
        engine, problem, side: The engine, the problem, and the side.
        spec: The specialization of the kernel ``attention_backward``.
        rows, group: The rows of a work-group, and its work-items.
    """
    p, by_query = problem, side == "q"
    own, heads = (p.queries, p.heads) if by_query else (p.keys, p.heads // p.shared)
    blocks, names = -(-own // rows), backward_operands(p, side)
    constants = {**_constants(p, blocks), "dq_size": p.dq, "dv_size": p.dv}
    return OneLaunch(
        engine, spec, "attention_backward", constants | _strides(names, p.strides),
        [f"{name}_data" for name in names], (p.batch * heads * blocks * group,), (group,),
        offsets=[f"{name}_offset" for name in names], scalars=mask_of(p),
        flop=(2 if by_query else 3) * p.flop // 2,
    )  # fmt: skip


def gradient_by_rows(engine: Engine, problem: AttentionProblem, side: str) -> OneLaunch:
    """Return the plan of one side whose work-items have rows; see :func:`gradient_plan`."""
    group, rows, _ = partition(problem, engine.target, "backward")
    spec = backward_specialization(problem, engine.target, side)
    return gradient_plan(engine, problem, side, spec, group * rows, group)


def _strides(names: Sequence[str], strides: Sequence[Shape]) -> dict[str, int]:
    return {
        f"{name}_{axis}": step
        for name, steps in zip(names, strides, strict=True)
        for axis, step in zip(AXES, steps, strict=True)
    }


def operands(problem: AttentionProblem) -> list[str]:
    """The names of the arrays of attention, in the order of its buffers."""
    return ["q", "k", "v", *(["mask"] if problem.mask else []), "out", "sums"]


def mask_of(problem: AttentionProblem) -> dict[str, Any]:
    """The scalars of the mask of dropout, in their order (ops/random/mask.py)."""
    names = ("threshold", "rescale", "stream", "seed")
    return dict(zip(names, mask_scalars(0.0, 0, 0), strict=True)) if problem.drops else {}


def _constants(problem: AttentionProblem, blocks: int) -> dict[str, Any]:
    """The constants of all kernels but extents, with ``blocks`` groups for a head."""
    p = problem
    return {
        "heads": p.heads, "shared": p.shared, "queries": p.queries, "keys": p.keys,
        "blocks": blocks, "scale": p.scale,
    }  # fmt: skip


def _specialize(
    name: str,
    problem: AttentionProblem,
    target: Target,
    parameters: list[Parameter],
    **context: Any,
) -> Specialization:
    """Render the template of a name for the device."""
    group, rows, others = partition(problem, target, name)
    (dq, dv), size = _extents(problem, target), SCALAR_BYTES[problem.elem.real]
    context |= {
        "elem": problem.elem, "wide": problem.wide, "mask": problem.mask,
        "real": problem.elem.real, "DQ": dq, "DV": dv,
        "causal": problem.is_causal, "drops": problem.drops,
    }  # fmt: skip
    kernels = {f"attention_{name}": parameters}
    if not target.is_cpu:
        context |= {"G": group, "TK": others, "V": 16 // size}
        return specialize(f"attention/{name}", target, kernels, **context)
    lanes = min(16, target.vector_bytes // size, rows)
    context |= {
        "V": lanes, "NV": rows // lanes, "BQ": rows, "BK": others,
        "TR": _product_rows(target), "direct": _is_direct(problem),
    }  # fmt: skip
    return specialize(f"attention/cpu_{name}", target, kernels, **context)


def attention_plan(
    engine: Engine,
    problem: AttentionProblem,
    spec: Specialization,
    rows: int,
    group: int,
    kernel: str = "attention_forward",
) -> OneLaunch:
    """Return the plan of attention; its operands are q, k, v, mask, out, sums.

    Args:
        engine, problem: The engine and the problem.
        spec, kernel: The specialization, and the name of the kernel.
        rows, group: The queries of a work-group, and its work-items.
    """
    p, names = problem, operands(problem)
    blocks = -(-p.queries // rows)
    constants = {**_constants(p, blocks), "dq": p.dq, "dv": p.dv}
    return OneLaunch(
        engine, spec, kernel, constants | _strides(names, p.strides),
        [f"{name}_data" for name in names], (p.batch * p.heads * blocks * group,), (group,),
        offsets=[f"{name}_offset" for name in names], scalars=mask_of(p),
        flop=p.flop, nbytes=p.bytes,
    )  # fmt: skip


def attention_by_rows(engine: Engine, problem: AttentionProblem) -> OneLaunch:
    """Return the plan whose work-items have rows of queries; see :func:`attention_plan`."""
    group, rows, _ = partition(problem, engine.target, "forward")
    spec = specialization(problem, engine.target)
    return attention_plan(engine, problem, spec, group * rows, group)
