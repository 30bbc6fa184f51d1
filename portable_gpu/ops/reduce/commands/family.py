"""The record of reductions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from portable_gpu.ops.family import (
    USUAL_DTYPES,
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Tuning,
    Typical,
)
from portable_gpu.ops.reduce import api
from portable_gpu.ops.reduce.commands import cases
from portable_gpu.ops.reduce.commands.cases import ALONG_AN_AXIS, WHOLE
from portable_gpu.ops.reduce.commands.catalogue import explain, specializations
from portable_gpu.ops.reduce.commands.checks import checks, edge_checks

_NAMES = (
    "sum", "prod", "min", "max", "argmin", "argmax", "mean", "var", "std", "any", "all",
    "count_nonzero", "asum", "nrm2", "dot", "vdot", "reduce",
)  # fmt: skip
_PAIRS = ("dot", "vdot")
_COMMON = ("sum", "max", "argmax", "mean", "dot")
#: One of each kind of accumulator.
_USUAL = ("sum", "argmin", "var", "nrm2", "dot")
_ORDERED = ("min", "max", "argmin", "argmax")
_VECTORS: tuple[tuple[int, ...], ...] = ((1000,), (1 << 20,), (1 << 23,))


def _typical(name: str) -> Typical | None:
    if name == "reduce":  # its operator is the user's
        return None
    if name in _PAIRS:
        return Typical(_VECTORS, common=name in _COMMON)
    return Typical((*_VECTORS, (2000, 1000)), cases.each_axis, name in _COMMON)


def _operation(name: str) -> OperationRecord:
    plain = OperationRecord(
        name=name,
        function=getattr(api, name),
        explain=explain,
        specializations=partial(specializations, name),
        compiled=USUAL_DTYPES if name in _USUAL else ("float32",),
        options=cases.options,
        exact=name in _ORDERED,
        typical=_typical(name),
    )
    if name not in _PAIRS:
        return plain
    return replace(plain, extents=1, shapes=cases.two_operands)


_TIMED = partial(
    Benchmark,
    sizes=Sizes(cpu="2^20,2^22,2^24,2^26", gpu="2^24,2^26,2^28,2^30"),
    roofline=Sizes(cpu="2^24", gpu="2^28"),
    flop=partial(cases.flop, 1, 2),
    bytes=partial(cases.traffic, 1),
    like_numpy=cases.like_numpy,
    form="a length, or a shape",
    label="elements, or shape / axis",
    variants=cases.of_axes,
)
_BENCHMARKS = {
    "sum": _TIMED(
        oracle=cases.total,
        random=(WHOLE, ALONG_AN_AXIS),
        more_sizes=Sizes(
            cpu="4096x4096/0,4096x4096/1", gpu="8192x8192/0,8192x8192/1,2^20x100/0,2^20x100/1"
        ),
    ),
    "dot": _TIMED(
        oracle=cases.inner,
        flop=partial(cases.flop, 2, 8),
        bytes=partial(cases.traffic, 2),
        variants=cases.of_all,
    ),
    "max": _TIMED(
        oracle=cases.largest, like_numpy=cases.largest_like_numpy, random=(ALONG_AN_AXIS,)
    ),
    "argmax": _TIMED(oracle=cases.place_of_largest, random=(ALONG_AN_AXIS,)),
    "mean": _TIMED(oracle=cases.mean),
    "var": _TIMED(
        oracle=cases.variance, flop=partial(cases.flop, 3, 8), like_numpy=cases.spread_like_numpy
    ),
    "std": _TIMED(
        oracle=cases.variance,
        flop=partial(cases.flop, 3, 8),
        like_numpy=cases.spread_like_numpy,
        random=(ALONG_AN_AXIS,),
    ),
    "nrm2": _TIMED(
        oracle=cases.norm,
        flop=partial(cases.flop, 2, 4),
        like_numpy=cases.norm_like_numpy,
        variants=cases.of_all,
    ),
}
_TUNING = Tuning(
    operation="sum",
    shapes=Sizes(cpu="2^20,2^24,4096x4096/0,4096x4096/1", gpu="2^24,2^28,8192x8192/0,2^20x100/1"),
    grid={
        "sum": Sizes(
            cpu="2^22,1000x1000/0,100000x100/1",
            gpu="2^22,2^26,4096x4096/0,100000x100/1,30000x3333/1",
        ),
        "argmax": Sizes(cpu="2^22", gpu="2^26"),
    },
    edge_checks=edge_checks,
)
REDUCE = Family(
    name="reduce",
    operations=tuple(map(_operation, _NAMES)),
    checks=checks,
    benchmarks=_BENCHMARKS,
    tuning=_TUNING,
    kernels={"reduce/rows": Compiled(shown="sum", folds=True)},
)
