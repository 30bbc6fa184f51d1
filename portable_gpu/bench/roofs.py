"""The measured limits of a device: copies, multiply-adds in registers, matrix units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.bench.cases import operands
from portable_gpu.bench.measure import Row, alternate
from portable_gpu.bench.peers import Ours
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import Prepared, calls_a_turn, warm_up
from portable_gpu.codegen.operators import vector
from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.case import Case
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.matrix.plan import MatrixPlan
from portable_gpu.ops.gemm.variants import make_plan
from portable_gpu.ops.registry import BENCHMARKS
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

#: Independent sums of a work-item: the latency of a multiply-add times those started in a cycle.
_CHAINS = 12
#: The most bytes of a buffer that is copied.
_COPIED = 1 << 28
#: The timed product on matrix units is the smallest that takes these seconds, or has these extents.
_LONG_ENOUGH, _LARGEST = 1e-3, 8192
_FLAGS = cl.mem_flags


@dataclass(frozen=True)
class Roofs:
    """The roofs of one device.

    Attributes:
        copy: The bytes per second of a large copy, reads plus writes.  A kernel that only reads
            may be faster.
        fma: The floating-point operations per second of multiply-adds, by real type (``float``,
            ``double``), without matrix units.
        matrix: The floating-point operations per second of the fastest large product on matrix
            units in this run, by type as ``--dtype`` takes it (``float16``, ``float32:bf16x6``);
            empty without such units.
    """

    copy: Statistic
    fma: Mapping[str, Statistic]
    matrix: Mapping[str, Statistic] = field(default_factory=dict)

    def flops(self, case: Case) -> float:
        """The largest flop/s of a case's arithmetic; 16-bit floats are computed in float."""
        return self._arithmetic(case)[0]

    def seconds(self, case: Case) -> float:
        """The least seconds of a case: those of its traffic or those of its arithmetic."""
        return max(case.bytes / self.copy.median, case.flop / self.flops(case))

    def limit(self, case: Case) -> str:
        """Which roof is above a case: ``copy``, ``fma`` or ``matrix``."""
        flops, name = self._arithmetic(case)
        return "copy" if case.bytes / self.copy.median >= case.flop / flops else name

    def _arithmetic(self, case: Case) -> tuple[float, str]:
        """Return the flop/s of the roof of a case's arithmetic, and the name of the roof."""
        fma = self.fma[element(dtype_of(case.dtype)).real].median, "fma"
        if case.type not in self.matrix or not BENCHMARKS[case.operation].on_matrix_units:
            return fma
        return max(fma, (self.matrix[case.type].median, "matrix"))

    def raised(self, other: Roofs) -> Roofs:
        """The higher of two measurements of each roof.

        Clock rates and other work change during a run; the device's limit is the highest rate.
        """

        def higher(a: Statistic, b: Statistic) -> Statistic:
            return max(a, b, key=lambda found: found.median)

        fma = {real: higher(item, other.fma[real]) for real, item in self.fma.items()}
        matrix = {kind: higher(item, other.matrix[kind]) for kind, item in self.matrix.items()}
        return Roofs(higher(self.copy, other.copy), fma, matrix)

    def reached(self, rows: Iterable[Row]) -> Roofs:
        """The roofs, with the fastest rate of matrix units in any row, ours or a peer's."""
        matrix = dict(self.matrix)
        for row in rows:
            kind = row.case.type
            if kind in matrix and BENCHMARKS[row.case.operation].on_matrix_units:
                for seconds in filter(None, (row.ours, row.theirs)):
                    rate = seconds.rate(row.case.flop)
                    matrix[kind] = max(matrix[kind], rate, key=lambda found: found.median)
        return replace(self, matrix=matrix)

    def share(self, case: Case, seconds: float) -> float:
        """Return the part of the roof, from 0 to 1, that a call reaches in ``seconds``."""
        return self.seconds(case) / seconds


def measure_roofs(engine: Engine, turns: int, cases: Sequence[Case] = ()) -> Roofs:
    """Time the copy, the multiply-adds, and a large product of each type that has matrix units.

    Args:
        engine: The engine that runs them.
        turns: The number of turns of each.
        cases: The cases that are compared with the roofs; products of their types are timed.

    Raises:
        BuildError: The driver refused a kernel.
    """
    reals = ["float", "double"] if engine.target.fp64 else ["float"]
    # Each is a prepared call, and its work: bytes or floating-point operations.
    copied = _copy(engine)
    multiply_adds = {real: _multiply_adds(engine, real) for real in reals}
    true_units = engine.target.matrix_units and not engine.target.forced  # not emulated ones
    types = [case.type for case in cases if BENCHMARKS[case.operation].on_matrix_units]
    requested = dict.fromkeys(types if true_units else ())
    products = {kind: item for kind in requested if (item := _product(engine, kind))}
    measured = [copied, *multiply_adds.values(), *products.values()]
    calls = [call for call, _ in measured]
    times = alternate(calls, [calls_a_turn(warm_up(call)) for call in calls], turns)
    copy, *rates = (
        Statistic.of(work / seconds for seconds in times_of_call)
        for (_, work), times_of_call in zip(measured, times, strict=True)
    )
    fma = dict(zip(multiply_adds, rates, strict=False))
    return Roofs(copy, fma, dict(zip(products, rates[len(fma) :], strict=True)))


def _product(engine: Engine, kind: str) -> tuple[Prepared, int] | None:
    """Return a large product of a type as ``--dtype`` takes it, and its floating-point operations.

    It is ``None`` where matrix units do not take it.
    """
    extent = 256
    dtype, _, manner = kind.partition(":")
    while True:
        large = Case("gemm", (extent,) * 3, dtype, trans="NN", manner=manner)
        problem = contiguous(extent, extent, extent, dtype_of(dtype))
        problem = replace(problem, precision=large.precision)
        if not isinstance(make_plan(engine, problem), MatrixPlan):
            return None
        prepared = Ours(engine).prepare(large, [operands(large)])
        if extent == _LARGEST or warm_up(prepared) >= _LONG_ENOUGH:
            return prepared, large.flop
        extent *= 2


def specializations(target: Target, real: str) -> tuple[Specialization, Specialization]:
    """The texts of the copy and of the multiply-adds."""
    width = max(1, min(16, target.vector_bytes // (8 if real == "double" else 4)))
    lanes = width if target.is_cpu else 1
    wide = width if target.is_cpu else 4
    sums = {
        "multiply_adds": [buffer(real, "out", writes=True), *scalars(real, "factor", "term")],
    }
    fma = specialize(
        "bench/fma", target, sums, real=real, type=vector(real, lanes), lanes=lanes, chains=_CHAINS,
        steps=_steps(target),
    )  # fmt: skip
    copied = vector("float", wide)
    copy = {
        "copy": [
            buffer(copied, "source"),
            buffer(copied, "result", writes=True),
            *scalars("ulong", "count"),
        ]
    }
    return specialize("bench/copy", target, copy, type=copied), fma


def _copy(engine: Engine) -> tuple[Prepared, int]:
    """Return a copy between buffers far larger than any cache, and the bytes that it moves."""
    target = engine.target
    nbytes = min(_COPIED, target.facts.max_alloc_size // 4, target.facts.global_mem_size // 16)
    spec, _ = specializations(target, "float")
    kernel = cl.Kernel(engine.programs.program(spec), "copy")
    itemsize = 4 * (min(16, target.vector_bytes // 4) if target.is_cpu else 4)
    count = nbytes // itemsize
    zeros = np.zeros(count * itemsize, np.uint8)
    source, result = (
        cl.Buffer(engine.context, _FLAGS.READ_WRITE | _FLAGS.COPY_HOST_PTR, hostbuf=zeros)
        for _ in range(2)
    )
    group, groups = _grid(target)
    arguments = source, result, np.uint64(count)
    return _prepared(engine, kernel, group, groups, arguments), 2 * count * itemsize


def _multiply_adds(engine: Engine, real: str) -> tuple[Prepared, int]:
    """Return chains of multiply-adds in registers, and their floating-point operations."""
    target = engine.target
    _, spec = specializations(target, real)
    kernel = cl.Kernel(engine.programs.program(spec), "multiply_adds")
    group, groups = _grid(target)
    scalar = np.float64 if real == "double" else np.float32
    out = cl.Buffer(engine.context, _FLAGS.READ_WRITE, 8)
    arguments = out, scalar(0.999), scalar(0.001)
    lanes = max(1, min(16, target.vector_bytes // np.dtype(scalar).itemsize))
    lanes = lanes if target.is_cpu else 1
    work = 2 * _steps(target) * _CHAINS * lanes * group * groups
    return _prepared(engine, kernel, group, groups, arguments), work


def _grid(target: Target) -> tuple[int, int]:
    """Work-items of a group, and groups: enough to fill every compute unit."""
    if target.is_cpu:
        return 1, 16 * target.compute_units
    return min(256, target.max_work_group_size), 64 * target.compute_units


def _steps(target: Target) -> int:
    """The multiply-adds of a chain; they take some milliseconds, much longer than a launch."""
    return 1 << (16 if target.is_cpu else 12)


def _prepared(
    engine: Engine, kernel: Any, group: int, groups: int, arguments: tuple[Any, ...]
) -> Prepared:
    """Launches of a kernel, whose arguments stay alive with the call."""
    queue = engine.queue
    return Prepared([lambda: kernel(queue, (group * groups,), (group,), *arguments)], queue.finish)
