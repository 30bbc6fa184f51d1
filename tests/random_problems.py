"""Random problems of every family, for a target: no device is needed.

A problem is plain data.  It is drawn by ``random.Random(text).random()`` alone, whose numbers
neither a version of Python or of NumPy nor a seed of hashes changes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from sparse_matrices import numeric_of

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.attention.plan import AttentionProblem
from portable_gpu.ops.attention.variants import backward_variants
from portable_gpu.ops.attention.variants import variants as attention_variants
from portable_gpu.ops.conv.commands.cases import problem as layer_problem
from portable_gpu.ops.conv.variants import variants as layer_variants
from portable_gpu.ops.elementwise.commands.catalogue import problem as expression_of
from portable_gpu.ops.elementwise.variants import variants as elementwise_variants
from portable_gpu.ops.factor.commands.catalogue import cholesky_problem, solve_problem
from portable_gpu.ops.factor.packed import aligned, batch_steps, packed_size
from portable_gpu.ops.factor.packed_steps import (
    PackedPartition,
    PackedProblem,
    PackedSolve,
    RankKOperand,
    cholesky_packed,
    product_steps,
    solve_packed,
    zeros_step,
)
from portable_gpu.ops.factor.ragged import RaggedMatrices, ragged_zeros
from portable_gpu.ops.factor.variants import (
    cholesky_variants,
    make_ragged_cholesky,
    make_ragged_solve,
    packed_parts,
    solve_variants,
)
from portable_gpu.ops.fft import convolve
from portable_gpu.ops.fft.commands.catalogue import problem as transform_of
from portable_gpu.ops.fft.cosine import CosineProblem, make_cosine_plan
from portable_gpu.ops.fft.variants import variants as fft_variants
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.gemm.variants import variants as gemm_variants
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.gemv.variants import variants as gemv_variants
from portable_gpu.ops.operation import CallArguments
from portable_gpu.ops.reduce.commands.catalogue import problem as reduction_of
from portable_gpu.ops.reduce.variants import variants as reduce_variants
from portable_gpu.ops.sampling.commands.geometry import TYPICAL_CALLS, channels_last
from portable_gpu.ops.sampling.commands.geometry import problem_of as sampling_of
from portable_gpu.ops.sampling.plan import variants as sampling_variants
from portable_gpu.ops.variant import Variant, chosen
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

T = TypeVar("T")
Data = Mapping[str, Any]
#: The chosen path, the way in full, and its configuration.
Taken = tuple[str, str, dict[str, Any]]

TABLE = TuningTable.shipped()
EACH = 12  # problems of a family on a device
_EPILOGUES = {
    "": Epilogue(),
    "bias, relu": Epilogue().bias(0).relu(),
    "scale, gelu": Epilogue().scale(0, per="row").gelu(),
}
_EXPRESSIONS = ("x + y", "x * y - z", "x > y ? x : y", "x * x + y", "(x - y) * z", "x")
_REDUCTIONS = (
    "sum", "prod", "mean", "max", "argmin", "var", "std", "nrm2", "any", "count_nonzero", "reduce",
    "asum",
)  # fmt: skip


class Draws:
    """Random numbers that a text stands for."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def whole(self, least: int, most: int) -> int:
        """An integer, both ends included."""
        return least + int(self._random() * (most - least + 1))

    def one(self, of: Sequence[T]) -> T:
        return of[self.whole(0, len(of) - 1)]

    def extent(self, most: int) -> int:
        """From 1 to ``most``, each power of two as likely as the next."""
        power = 1 << self.whole(0, most.bit_length() - 1)
        return min(most, power + int(self._random() * power))

    def batch(self, probability: float = 0.3) -> list[int]:
        return [self.extent(50)] if self.chance(probability) else []

    def dtype(self, target: Target, *names: str) -> str:
        """One of the names; those of double precision only where a target has it."""
        wide = ("float64", "complex128")
        return self.one([name for name in names if target.fp64 or name not in wide])


@dataclass(frozen=True)
class Family:
    """How problems of a kind are drawn, and what is done with one.

    Attributes:
        draw: The data of a problem.
        variants: Its ways, where the family lists them.
        bind: Binds its plan otherwise.
        limit: The maximum number of problems on a device.
    """

    draw: Callable[[Draws, Target], dict[str, Any]]
    variants: Callable[[Data, Target], list[Variant]] | None = None
    bind: Callable[[Any, Data], Taken] | None = None
    limit: int = EACH


@dataclass(frozen=True)
class Problem:
    """A problem as plain data.

    Attributes:
        family: A key of :data:`FAMILIES`.
        data: What JSON may hold.
    """

    family: str
    data: Data

    def __str__(self) -> str:
        return f"{self.family} {json.dumps(self.data)}"

    def variants(self, target: Target) -> list[Variant]:
        """Its ways; none where the family lists none."""
        result = FAMILIES[self.family].variants
        return [] if result is None else result(self.data, target)

    def bind(self, engine: Any) -> Taken:
        """Bind the plan that an engine would, and say which it is."""
        family = FAMILIES[self.family]
        if family.bind is not None:
            return family.bind(engine, self.data)
        best, _ = chosen(engine, self.variants(engine.target))
        return best.path, best.name, asdict(best.policy) if best.policy else {}


def drawn(name: str, target: Target, each: int = EACH) -> Iterator[Problem]:
    """Problems for a target, ``each`` of every family; ``name`` stands for the random numbers."""
    for family, of in FAMILIES.items():
        for k in range(min(each, of.limit)):
            yield Problem(family, of.draw(Draws(f"{name}, {family} {k}"), target))


def problems(target: Target, seed: int, each: int = EACH) -> Iterator[tuple[str, list[Variant]]]:
    """Variants of random problems of every family that lists them, ``each`` of one."""
    for problem in drawn(str(seed), target, each):
        result = problem.variants(target)
        if result:
            yield f"{problem}", result


# -- products


def _draw_gemm(draws: Draws, target: Target) -> dict[str, Any]:
    m, n, k = (draws.extent(draws.one((20, 300, 5000))) for _ in range(3))
    few = draws.chance(0.25)  # columns of a long matrix, as of few tokens
    if few:
        m, n, k = 50 * draws.extent(100), draws.extent(16), 50 * draws.extent(100)
    result: dict[str, Any] = {
        "dtype": draws.dtype(
            target, "float32", "float32", "float16", "bfloat16", "float64", "int32", "complex64"
        ),
        "m": m, "n": n, "k": k, "batch": [] if few else draws.batch(),
        "trans": draws.one("NT") + draws.one("NT"),
        "precision": draws.one(("ieee", "tf32", "bf16x3")),
    }  # fmt: skip
    kind = draws.whole(0, 9)
    if kind == 0:
        result |= {"n": m, "triangle": draws.one(("lower", "upper"))}
    elif kind == 1 and result["dtype"] not in ("int32", "complex64"):
        result["epilogue"] = draws.one([item for item in _EPILOGUES if item])
    elif kind == 2:  # rows upside down, or all the same
        result |= {"side": draws.one("ab"), "step": draws.one((-1, 0))}
    result["reads"] = draws.chance(0.3)
    return result


def _gemm(data: Data, target: Target) -> list[Variant]:
    result = contiguous(
        data["m"], data["n"], data["k"], dtype_of(data["dtype"]), data["batch"], *data["trans"]
    )
    epilogue = _EPILOGUES[data.get("epilogue", "")]
    result = replace(
        result, precision=data["precision"], aligned=target.facts.type != "cpu",
        triangle=data.get("triangle", ""), reads_c=data["reads"], epilogue=epilogue.stages,
        extras=(result.c,) * len(epilogue.arrays),
    )  # fmt: skip
    if "side" in data:
        operand = getattr(result, data["side"])
        row, col = (x if x == 1 else data["step"] * x for x in (operand.row, operand.col))
        result = replace(result, **{data["side"]: replace(operand, row=row, col=col)})
    return gemm_variants(result, target, TABLE)


def _draw_gemv(draws: Draws, target: Target) -> dict[str, Any]:
    m, n = draws.extent(100_000), draws.extent(20_000)
    return {
        "dtype": draws.dtype(target, "float32", "float16", "int32", "float64", "complex64"),
        "m": m, "n": n, "strides": draws.one(([n, 1], [1, m], [2 * n, 2], [n, -1])),
    }  # fmt: skip


def _gemv(data: Data, target: Target) -> list[Variant]:
    elem = element(dtype_of(data["dtype"]))
    problem = GemvProblem(elem, data["m"], data["n"], *data["strides"], 1, 1)
    return gemv_variants(problem, target, TABLE)


# -- reductions and expressions


def _draw_reduction(draws: Draws, target: Target) -> dict[str, Any]:
    shape = [draws.extent(3000) for _ in range(draws.whole(1, 3))]
    return {
        "operation": draws.one(_REDUCTIONS),
        "dtype": draws.dtype(target, "float32", "float32", "float16", "float64", "int32"),
        "shape": shape, "axis": draws.one((None, *range(len(shape)))),
    }  # fmt: skip


def _reduction(data: Data, target: Target) -> list[Variant]:
    shape, dtype = tuple(data["shape"]), dtype_of(data["dtype"])
    if dtype.kind == "i" and data["operation"] in ("mean", "var", "std", "nrm2"):
        dtype = np.dtype(np.float32)
    folded = reduction_of(data["operation"], shape, data["axis"], dtype, target)
    return reduce_variants(folded, target, TABLE)


def _draw_expression(draws: Draws, target: Target) -> dict[str, Any]:
    shape = [draws.extent(3000) for _ in range(draws.whole(1, 3))]
    result: dict[str, Any] = {
        "expression": draws.one(_EXPRESSIONS),
        "dtype": draws.dtype(target, "float32", "float16", "float64", "int32", "int8"),
        "shape": shape,
    }
    if len(shape) == 2 and "y" in result["expression"]:
        strides = [0, 1], [1, 0], [1, shape[0]], [shape[1], 1]
        result["strides"] = {"y": draws.one(strides)}
    return result


def _expression(data: Data, target: Target) -> list[Variant]:
    strides = {name: tuple(steps) for name, steps in data.get("strides", {}).items()}
    dtype, shape = dtype_of(data["dtype"]), tuple(data["shape"])
    problem = expression_of(data["expression"], dtype, shape, strides)
    return elementwise_variants(problem, target, TABLE)


# -- factors and solves


def _draw_matrices(draws: Draws, target: Target) -> dict[str, Any]:
    n, m = (draws.extent(draws.one((20, 200, 1000))) for _ in range(2))
    return {
        "dtype": draws.dtype(target, "float32", "float64", "complex64", "complex128"),
        "n": n, "m": m, "batch": draws.batch(), "lower": draws.chance(0.5),
        "flag": draws.chance(0.5),
    }  # fmt: skip


def _cholesky(data: Data, target: Target) -> list[Variant]:
    problem = cholesky_problem(
        data["n"], dtype_of(data["dtype"]), tuple(data["batch"]), lower=data["lower"],
        overwrite=data["flag"],
    )  # fmt: skip
    return cholesky_variants(problem, target, TABLE)


def _draw_solve(draws: Draws, target: Target) -> dict[str, Any]:
    return _draw_matrices(draws, target) | {
        "trans": draws.one("NTC"), "side": draws.one(("left", "right"))
    }  # fmt: skip


def _solve(data: Data, target: Target) -> list[Variant]:
    problem = solve_problem(
        data["n"], data["m"], dtype_of(data["dtype"]), tuple(data["batch"]), trans=data["trans"],
        lower=data["lower"], unit=data["flag"], side=data["side"],
    )  # fmt: skip
    return solve_variants(problem, target, TABLE)


def _draw_packed(draws: Draws, target: Target) -> dict[str, Any]:
    return _draw_matrices(draws, target) | {
        "what": draws.one(("cholesky", "solve", "product")), "trans": draws.chance(0.5),
    }  # fmt: skip


def _packed(engine: Any, data: Data) -> Taken:
    """Work on adjacent packed triangles."""
    elem, n, m = element(dtype_of(data["dtype"])), data["n"], data["m"]
    batch, size = tuple(data["batch"]), packed_size(data["n"])

    def stacks(row: int, number: int) -> Operand:
        return aligned(Operand(elem, row, 1, batch_steps(number, batch)))

    is_aligned = not engine.maps_host_memory
    problem = PackedProblem(n, batch, stacks(size, size), aligned=is_aligned)
    parts = packed_parts(engine, elem)
    if data["what"] == "solve":
        partition = PackedPartition.of(n, m, engine.target)
        zeros_step(problem, parts, 2)
        solve = PackedSolve(problem, m, stacks(m, n * m), data["trans"], data["trans"])
        solve_packed(solve, parts, partition)
    else:
        partition = PackedPartition.of(n, n, engine.target)
        if data["what"] == "cholesky":
            cholesky_packed(problem, parts, partition)
        else:
            rows = RankKOperand(stacks(m, n * m), 0, 0, m, data["trans"])
            product_steps(problem, rows, 0, 1, parts, partition, None, data["flag"])
    return f"packed {data['what']}", "", asdict(partition)


def _draw_ragged(draws: Draws, target: Target) -> dict[str, Any]:
    limit = draws.one((8, 40, 150, 400))
    sizes = [draws.extent(limit) for _ in range(draws.extent(30))]
    return {
        "dtype": draws.dtype(target, "float32", "float64", "complex64", "complex128"),
        "what": draws.one(("cholesky", "solve")), "sizes": sizes, "columns": draws.extent(40),
        "lower": draws.chance(0.5), "trans": draws.chance(0.5), "unit": draws.chance(0.3),
    }  # fmt: skip


def _ragged(engine: Any, data: Data) -> Taken:
    """Adjacent matrices of different sizes."""
    elem, rows = element(dtype_of(data["dtype"])), np.array(data["sizes"], np.int64)

    def matrices(columns: Any) -> RaggedMatrices:
        ends = np.cumsum(rows * columns)
        return RaggedMatrices(elem, rows, columns, ends - rows * columns, columns, 16)

    lower = data["lower"]
    if data["what"] == "cholesky":
        make_ragged_cholesky(engine, matrices(rows), lower, "ieee")
    else:
        if not data["unit"]:
            ragged_zeros(engine, matrices(rows))
        b = matrices(np.full_like(rows, data["columns"]))
        trans, unit = data["trans"], data["unit"]
        make_ragged_solve(engine, matrices(rows), b, lower, trans, trans, unit, "ieee")
    return f"ragged {data['what']}", "", {}


# -- transforms


def _draw_transform(draws: Draws, target: Target) -> dict[str, Any]:
    rank = draws.one((1, 1, 2, 3))
    lengths = [draws.extent((100_000, 1000, 100)[rank - 1]) for _ in range(rank)]
    return {
        "kind": draws.one(("c2c", "r2c", "c2r")),
        "dtype": draws.dtype(target, "float32", "complex64", "complex128"),
        "lengths": lengths, "batch": draws.batch(0.5),
        "axis": draws.one((None, *range(rank))), "inverse": draws.chance(0.5),
    }  # fmt: skip


def _transform(data: Data, target: Target) -> list[Variant]:
    problem = transform_of(
        data["kind"], tuple(data["lengths"]), dtype_of(data["dtype"]), tuple(data["batch"]),
        data["axis"], inverse=data["inverse"],
    )  # fmt: skip
    return fft_variants(problem, target, TABLE)


def _draw_cosine(draws: Draws, target: Target) -> dict[str, Any]:
    rank = draws.one((1, 2, 2, 3))
    shape = [1 + draws.extent((20_000, 1000, 100)[rank - 1]) for _ in range(rank)]
    axes = [axis for axis in range(rank) if draws.chance(0.6)] or [rank - 1]
    return {
        "type": draws.whole(1, 4), "sine": draws.chance(0.5), "orthogonal": draws.chance(0.5),
        "dtype": draws.dtype(target, "float32", "float64"), "shape": shape, "axes": axes,
    }  # fmt: skip


def _cosine(engine: Any, data: Data) -> Taken:
    shape = tuple(data["shape"])
    strides, axes = contiguous_strides(shape), tuple(data["axes"])
    problem = CosineProblem(
        data["type"], data["sine"], data["orthogonal"], element(dtype_of(data["dtype"])), axes,
        tuple(shape[axis] for axis in axes), shape, strides, strides,
    )  # fmt: skip
    make_cosine_plan(engine, problem)
    kinds = [problem.kind(n) for n in problem.lengths]
    return f"cosine {', '.join(kinds)}", "", {}


def _draw_convolution(draws: Draws, target: Target) -> dict[str, Any]:
    rank = draws.one((1, 1, 2))
    limit = (200_000, 800)[rank - 1]
    second = [draws.extent(draws.one((30, limit // 20))) for _ in range(rank)]
    first = [n + draws.extent(limit) for n in second]
    direct = draws.chance(0.3)
    result = {
        "dtypes": [draws.dtype(target, *("float32", "float64", "complex64")) for _ in range(2)],
        "first": first, "second": second, "mode": draws.one(("full", "same", "valid")),
        "batch": draws.batch(), "direct": direct, "correlated": draws.chance(0.3),
    }  # fmt: skip
    if rank == 1 and not direct and draws.chance(0.5):
        result["block_axis"] = len(result["batch"])
    return result


def _convolution(engine: Any, data: Data) -> Taken:
    """The plan of a convolution of C-ordered arrays, the last of whose axes are convolved."""
    batch = tuple(data["batch"])
    shapes = [(*batch, *data["first"]), (*(1 for _ in batch), *data["second"])]
    first, shape = [0] * len(batch), list(batch)
    for n, m in zip(data["first"], data["second"], strict=True):
        begin, count = {
            "full": (0, n + m - 1), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)
        }[data["mode"]]  # fmt: skip
        first.append(begin)
        shape.append(count)
    dtypes = [dtype_of(name) for name in data["dtypes"]]
    result = np.result_type(*dtypes)
    if data["direct"]:
        dtypes = [result, result]
    axes = tuple(range(len(batch), len(shape)))
    region = convolve.OutputRegion(axes, tuple(shape), tuple(first))
    views: Any = [
        SimpleNamespace(shape=tuple(item), strides=contiguous_strides(item), dtype=dtype)
        for item, dtype in zip([*shapes, tuple(shape)], [*dtypes, result], strict=True)
    ]
    correlated, block_axis = data["correlated"], data.get("block_axis")
    options = region, data["direct"], correlated, block_axis
    convolve._normalise(CallArguments(tuple(views[:2]), options, None, ())).plan(engine, views)
    path = "direct" if data["direct"] else "transforms" if block_axis is None else "blocks"
    return f"convolution, {path}", "", {}


# -- fronts


def _draw_fronts(draws: Draws, target: Target) -> dict[str, Any]:
    return {
        "dtype": draws.dtype(target, "float32", "float64", "complex64", "complex128"),
        "tree": draws.one(("chain", "binary", "random")), "fronts": draws.extent(40),
        "columns": draws.one((4, 20, 100, 300)), "rows": draws.one((2, 20, 80)),
        "seed": draws.whole(0, 999), "what": draws.one(("factor", "factor", "solve", "inverse")),
        "count": draws.one((1, 3, 40)),
    }  # fmt: skip


def _fronts(engine: Any, data: Data) -> Taken:
    """A factorisation, a solve or the diagonal of an inverse of a tree of fronts."""
    dtype, fronts = dtype_of(data["dtype"]), tree_of(data)
    n = int(fronts.first[-1])
    symbolic: Any = SimpleNamespace(
        fronts=fronts, n=n, pattern=SimpleNamespace(nnz=len(fronts.entry_source)),
        front_perm=np.arange(n)[::-1], front_columns=np.arange(n),
    )  # fmt: skip
    numeric = numeric_of(engine, symbolic, dtype)
    if data["what"] == "factor":
        _ = numeric.factorisation
    elif data["what"] == "inverse":
        numeric.inverse(0)
    else:
        count = data["count"]
        operand: Any = SimpleNamespace(dtype=dtype, strides=(count, 1))
        numeric.solve("A", count, operand, operand)
    schedule = numeric.schedule
    return (
        f"fronts, {data['what']}",
        "",
        {
            "subtrees": sum(len(chunk.subtrees) for chunk in schedule.chunks),
            "stages": len(schedule.stages), "arena": schedule.arena, "stack": schedule.peak,
        },
    )  # fmt: skip


def tree_of(data: Data) -> Fronts:
    """Fronts of given columns, children before parents, with rows of their ancestors."""
    draws = Draws(f"tree {data['seed']}")
    count = data["fronts"]
    parents = [_parent(data["tree"], s, count, draws) for s in range(count)]
    columns = [draws.extent(data["columns"]) for _ in range(count)]
    first = [0]
    for c in columns:
        first.append(first[-1] + c)
    rows: list[set[int]] = [set() for _ in range(count)]
    for s, up in enumerate(parents):
        if up < 0:
            continue
        rows[s].add(draws.whole(first[up], first[up + 1] - 1))
        while up >= 0:
            for _ in range(draws.whole(0, data["rows"])):
                rows[s].add(draws.whole(first[up], first[up + 1] - 1))
            up = parents[up] if draws.chance(0.5) else -1
        up = parents[s]
        rows[up] |= {item for item in rows[s] if item >= first[up + 1]}
    below = [np.array(sorted(item), np.int64) for item in rows]
    fronts = [np.concatenate([np.arange(first[s], first[s + 1]), below[s]]) for s in range(count)]
    relative = [
        np.searchsorted(fronts[up], below[s]) if up >= 0 else below[s]
        for s, up in enumerate(parents)
    ]
    children = [[s for s in range(count) if parents[s] == up] for up in range(count)]
    entries = []
    for s, front in enumerate(fronts):
        i, j = np.tril_indices(len(front), m=columns[s])
        mask = (i == j) | ((31 * i + 17 * j + s) % 5 == 0)
        entries.append(np.stack([i[mask], j[mask]], axis=1))
    places = np.concatenate(entries)
    total = len(places)
    return Fronts(
        first=np.array(first, np.int64),
        parent=np.array(parents, np.int32),
        row_start=_starts(below),
        row_index=np.concatenate(below).astype(np.int32),
        relative=np.concatenate(relative).astype(np.int32),
        child_start=_starts(children).astype(np.int32),
        child=np.array([child for of in children for child in of], np.int32),
        entry_start=_starts(entries),
        entry_row=places[:, 0].astype(np.int32),
        entry_column=places[:, 1].astype(np.int32),
        entry_source=np.arange(total, dtype=np.int64)[::-1].copy(),
        entry_conj=np.arange(total) % 3 == 0,
    )


def _parent(tree: str, s: int, count: int, draws: Draws) -> int:
    """The parent of front s, such that every subtree is contiguous; -1 of the root."""
    if s == count - 1:
        return -1
    if tree == "chain":
        return s + 1
    if tree == "binary":
        return _parent_in_binary(s, 0, count)
    return s + 1 if draws.chance(0.6) else count - 1


def _parent_in_binary(s: int, low: int, end: int) -> int:
    """Two halves in postorder, and their root behind them."""
    while True:
        middle = low + (end - 1 - low) // 2
        if s < middle:
            if s == middle - 1:
                return end - 1
            end = middle
        else:
            if s == end - 2:
                return end - 1
            low, end = middle, end - 1


def _starts(lists: Sequence[Any]) -> Any:
    return np.cumsum([0, *(len(item) for item in lists)]).astype(np.int64)


# -- convolutions of layers


def _draw_layer(draws: Draws, target: Target) -> dict[str, Any]:
    stride, taps, extent = draws.one((1, 2, 2)), draws.one((1, 2, 3)), draws.extent(60)
    return {
        "direction": draws.one(("forward", "input", "weight")),
        "dtype": draws.one(("float16", "float16", "bfloat16", "float32")),
        "extents": [
            draws.extent(64), draws.one((8, 8, 1)) * draws.extent(40), stride * extent,
            stride * draws.extent(60),
            8 * draws.extent(40), taps, taps,
        ],
        "stride": stride, "padding": taps // 2, "last": draws.chance(0.7),
        "precision": draws.one(("ieee", "bf16x6", "bf16x6")), "bias": draws.chance(0.5),
    }  # fmt: skip


def _layer(data: Data, target: Target) -> list[Variant]:
    asked = {"stride": data["stride"], "padding": data["padding"], "dilation": 1, "groups": 1}
    elem, last, bias = element(dtype_of(data["dtype"])), data["last"], data["bias"]
    precision = data["precision"] if data["dtype"] == "float32" else "ieee"
    problem = layer_problem(
        data["direction"], data["extents"], elem, asked, last, precision,
        bias and data["direction"] == "forward", last,
    )  # fmt: skip
    return layer_variants(problem, target, TABLE, None)


# -- padding, pooling, interpolation


def _draw_sampling(draws: Draws, target: Target) -> dict[str, Any]:
    shape = [max(2, draws.extent(limit)) for limit in (8, 100, 100, 100)]
    return {
        "operation": draws.one(sorted(TYPICAL_CALLS)),
        "dtype": draws.dtype(target, "float32", "float16", "float64"),
        "shape": shape, "channels_last": draws.chance(0.4),
    }  # fmt: skip


def _sampling(data: Data, target: Target) -> list[Variant]:
    problem = sampling_of(data["operation"], tuple(data["shape"]), dtype_of(data["dtype"]))
    return sampling_variants(channels_last(problem) if data["channels_last"] else problem, target)


# -- attention


def _draw_attention(draws: Draws, target: Target) -> dict[str, Any]:
    heads, queries = draws.extent(16), draws.extent(4000)
    return {
        "dtype": draws.dtype(target, "float32", "float16", "bfloat16", "float64"),
        "batch": draws.extent(8), "heads": heads, "queries": queries,
        "keys": draws.one((queries, draws.extent(4000))),
        "extents": [8 * draws.extent(20) - draws.one((0, 0, 0, 3)) for _ in range(2)],
        "mask": draws.one(("", "", "causal", "bool", "float16")), "scale": draws.one((1, 1, 1, -1)),
    }  # fmt: skip


def _attention(data: Data, target: Target) -> list[Variant]:
    return attention_variants(_attention_problem(data), target, TABLE)


def _draw_attention_gradient(draws: Draws, target: Target) -> dict[str, Any]:
    return {**_draw_attention(draws, target), "side": draws.one(("q", "k"))}


def _attention_gradient(data: Data, target: Target) -> list[Variant]:
    return backward_variants(_attention_problem(data), data["side"], target, TABLE)


def _attention_problem(data: Data) -> AttentionProblem:
    """The problem of dense arrays; of a gradient, those of one side follow the mask."""
    elem, (dq, dv) = element(dtype_of(data["dtype"])), data["extents"]
    batch, heads, queries, keys = (data[name] for name in ("batch", "heads", "queries", "keys"))
    wide = element(np.float64 if elem.real == "double" else np.float32)
    mask = {"bool": element(bool), "float16": elem}.get(data["mask"])
    sizes = [(queries, dq), (keys, dq), (keys, dv), (queries, keys), (queries, dv), (queries, 1)]
    sizes += {
        "": [], "q": [(queries, dv), (queries, dq), (queries, 1)],
        "k": [(queries, 1), (keys, dq), (keys, dv)],
    }[data.get("side", "")]  # fmt: skip
    if mask is None:
        del sizes[3]
    strides = tuple((heads * rows * n, rows * n, n, 1) for rows, n in sizes)
    return AttentionProblem(
        elem, wide, mask, batch, heads, 1, queries, keys, dq, dv, strides,
        data["mask"] == "causal", data["scale"] * 0.125, True,
    )  # fmt: skip


FAMILIES: dict[str, Family] = {
    "reduce": Family(_draw_reduction, _reduction),
    "gemv": Family(_draw_gemv, _gemv),
    "gemm": Family(_draw_gemm, _gemm),
    "elementwise": Family(_draw_expression, _expression),
    "cholesky": Family(_draw_matrices, _cholesky),
    "solve": Family(_draw_solve, _solve),
    "packed": Family(_draw_packed, bind=_packed),
    "ragged": Family(_draw_ragged, bind=_ragged),
    "fft": Family(_draw_transform, _transform),
    "cosine": Family(_draw_cosine, bind=_cosine),
    "convolution": Family(_draw_convolution, bind=_convolution),
    "fronts": Family(_draw_fronts, bind=_fronts),
    "sampling": Family(_draw_sampling, _sampling),
    "attention": Family(_draw_attention, _attention),
    "attention_gradient": Family(_draw_attention_gradient, _attention_gradient),
    "layer": Family(_draw_layer, _layer, limit=6),
}
