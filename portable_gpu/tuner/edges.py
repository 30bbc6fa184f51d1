"""The checks that a policy passes before it is stored: sizes around its tiles, all transposes.

Every check takes sizes of 1, a tile less one, a tile, a tile and one, and a prime, in each extent.
All combinations would be thousands; an orthogonal array of strength 2 (Rao, 1947) takes 25 of them
in which every pair of levels of every two factors occurs: extents, transposes and layouts alike.

Results go into memory full of NaN, between guards that must stay as they are.  What is expected
comes from NumPy in higher precision, within the bounds of ``docs/accuracy.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl.array as cla

from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops import gemm as gemm_ops
from portable_gpu.ops import gemv as gemv_ops
from portable_gpu.ops import reduce as reduce_ops
from portable_gpu.runtime.engine import Engine
from portable_gpu.selftest import products, reductions
from portable_gpu.selftest.check import Array, Check
from portable_gpu.selftest.inputs import Input, View
from portable_gpu.tuner.jobs import Job
from portable_gpu.tuning.policy import Policy

_LEVELS = 5
_GUARD = 64  # elements before and after a result
_VIEWS: tuple[View, ...] = ("numpy", "device", "stepped", "reversed", "fortran")


def edge_checks(job: Job, policy: Policy) -> Iterator[Check]:
    """The checks of a policy in the job's role, in each dtype and operation of its problems."""
    tile = tile_of(policy, job.elem.itemsize)
    own = job.key.kernel.partition("_")[0]  # a row of gemv may serve flat products of gemm too
    served = [(name, case.dtype) for case in job.cases for name in (own, case.operation)]
    for operation, dtype in dict.fromkeys(("reduce" if n == "sum" else n, d) for n, d in served):
        kind = dtype_of(dtype)
        if operation == "gemm":
            yield from _products(tile, kind)
            if any(case.batch is not None for case in job.cases):
                yield from _stacks(tile, kind)
        elif operation == "gemv":
            yield from _vector_products(tile, kind)
        else:
            yield from _reductions(tile, kind)


def tile_of(policy: Policy, itemsize: int) -> tuple[int, int, int]:
    """Where a policy's edges lie: along rows, columns and the summed axis.

    Of gemv the rows are outputs; of reductions the rows are folded and the columns results.
    """
    p = policy.to_dict()
    if "depth" in p:
        return p["item_m"], p["item_n"], p["depth"]
    if hasattr(policy, "tile_m") and hasattr(policy, "tile_n"):
        return policy.tile_m, policy.tile_n, p.get("tile_k", 64)
    group, unroll = p["group_size"], p["unroll"]
    if "column_bytes" in p:
        columns = p["column_bytes"] // itemsize * p["column_lanes"]
        return group * max(1, p["vector_bytes"] // itemsize) * unroll, columns, 1
    if "block_bytes" in p:
        return p["lanes"] * p["vector"] * unroll, group // p["lanes"] * p["rows"], 1
    return group // p["lanes"] * p["rows"], p["lanes"] * p["vector"] * unroll, 1


def _edges(tile: int, prime: int) -> tuple[int, ...]:
    """1, and the sizes around a tile; a prime."""
    return 1, max(1, tile - 1), tile, tile + 1, prime


def _array(factors: int) -> Iterator[tuple[int, ...]]:
    """The orthogonal array: levels of up to six factors, 25 rows."""
    for i in range(_LEVELS):
        for j in range(_LEVELS):
            yield (i, *((j + i * slope) % _LEVELS for slope in range(factors - 1)))


def _products(tile: tuple[int, int, int], dtype: np.dtype[Any]) -> Iterator[Check]:
    rows, cols, depths = _edges(tile[0], 97), _edges(tile[1], 101), _edges(tile[2], 131)
    conjugate = "C" if element(dtype).complex else "T"
    every = ("NN", "NT", "TN", "TT", f"N{conjugate}")
    for m, n, k, trans, view in _array(5):
        beta = 0.0 if (m + n) % 3 else 0.5
        yield _gemm(rows[m], cols[n], depths[k], dtype, every[trans], beta, _VIEWS[view])


def _gemm(
    m: int, n: int, k: int, dtype: np.dtype[Any], trans: str, beta: float, view: View
) -> Check:
    plain = products.gemm(m, n, k, dtype, trans, alpha=-0.5, beta=beta, view=view)
    a = Input(dtype, (m, k) if trans[0] == "N" else (k, m), view)
    b = Input(dtype, (k, n) if trans[1] == "N" else (n, k), view, seed=1)
    c = Input(dtype, (m, n), seed=2)

    def run(engine: Engine) -> Any:
        result = Guarded(engine, (m, n), dtype, view == "device", c.host() if beta else None)
        gemm_ops.gemm(
            a.array(engine), b.array(engine), alpha=-0.5, beta=beta, c=result.array,
            trans_a=trans[0], trans_b=trans[1], engine=engine,
        )  # fmt: skip
        return result.taken()

    return Check("gemm", plain.case, run, plain.expected)


def _stacks(tile: tuple[int, int, int], dtype: np.dtype[Any]) -> Iterator[Check]:
    """Batches of small products."""
    for m, n, k in (tile, (1, 1, 1), (tile[0] + 1, tile[1] - 1 or 1, 37), (31, 37, tile[2] + 1)):
        yield products.matmul(Input(dtype, (5, m, k)), Input(dtype, (5, k, n), seed=1))


def _vector_products(tile: tuple[int, int, int], dtype: np.dtype[Any]) -> Iterator[Check]:
    rows, cols = _edges(tile[0], 1009), _edges(tile[1], 997)
    every = ("N", "T", "N", "T", "C" if element(dtype).complex else "T")
    for m, n, trans, view in _array(4):
        yield _gemv(rows[m], cols[n], dtype, every[trans], _VIEWS[view])
    for m, n in ((7, 40_009), (20_011, 31)):  # work-groups that share an output, or have many
        for way in ("N", "T"):
            yield _gemv(m, n, dtype, way, "numpy")


def _gemv(m: int, n: int, dtype: np.dtype[Any], trans: str, view: View) -> Check:
    plain = products.gemv(m, n, dtype, trans, view=view)
    a = Input(dtype, (m, n), view)
    x = Input(dtype, (n if trans == "N" else m,), view, seed=1)

    def run(engine: Engine) -> Any:
        outputs = m if trans == "N" else n
        result = Guarded(engine, (outputs,), dtype, view == "device")
        gemv_ops.gemv(a.array(engine), x.array(engine), y=result.array, trans=trans, engine=engine)
        return result.taken()

    return Check("gemv", plain.case, run, plain.expected)


def _reductions(tile: tuple[int, int, int], dtype: np.dtype[Any]) -> Iterator[Check]:
    """A row of the table serves every reduction: sums at all edges, the others at some."""
    rows, cols = _edges(tile[0], 211), _edges(tile[1], 223)
    for m, n, axis, view in _array(4):
        where = (None, 0, 1, 0, 1)[axis]
        yield _reduction("sum", Input(dtype, (rows[m], cols[n]), _VIEWS[view]), where)
    for size in (*rows, 100_003, 1 << 20):
        yield _reduction("sum", Input(dtype, (size,)), None)
    others = ["prod", "mean", "var", "nrm2", "asum", "count_nonzero"]
    others += [] if element(dtype).complex else ["max", "argmin"]
    for operation in others:
        for shape, where in (((10_007,), None), ((130, 257), 0), ((130, 257), 1)):
            x = Input(dtype, shape, near_one=operation == "prod")
            yield _reduction(operation, x, where)
    yield reductions.inner("dot", Input(dtype, (10_007,)), Input(dtype, (10_007,), seed=1))


def _reduction(operation: str, x: Input, axis: int | None) -> Check:
    plain = reductions.reduction(operation, x, axis, keepdims=True)
    if operation != "sum":
        return plain
    shape = tuple(1 if axis in (None, i) else extent for i, extent in enumerate(x.shape))

    def run(engine: Engine) -> Any:
        result = Guarded(engine, shape, x.dtype, x.view == "device")
        reduce_ops.sum(x.array(engine), axis, out=result.array, keepdims=True, engine=engine)
        return result.taken()

    return Check(operation, plain.case, run, plain.expected)


class Guarded:
    """Memory for a result, full of NaN or of given values, with guards on both sides.

    Attributes:
        array: What to pass as the output.
    """

    def __init__(
        self,
        engine: Engine,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        on_device: bool,
        values: Array | None = None,
    ) -> None:
        size = int(np.prod(shape))
        self._guard = np.full(_GUARD, 1234, dtype)
        inside = np.full(size, np.nan, dtype) if values is None else values.reshape(-1)
        self._shape, self._inside = shape, slice(_GUARD, _GUARD + size)
        memory = np.concatenate((self._guard, inside, self._guard))
        self._memory: Any = cla.to_device(engine.queue, memory) if on_device else memory
        self.array: Any = self._memory[self._inside].reshape(shape)

    def taken(self) -> Array:
        """The result, once the guards are found untouched."""
        if isinstance(self._memory, cla.Array):
            memory = np.asarray(self._memory.get())
        else:
            memory = self._memory
        for guard in (memory[: self._inside.start], memory[self._inside.stop :]):
            if guard.tobytes() != self._guard.tobytes():
                raise AssertionError("memory beside the result was written to")
        return np.asarray(memory[self._inside].reshape(self._shape))
