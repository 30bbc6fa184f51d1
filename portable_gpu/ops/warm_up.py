"""Build ahead what calls will need: by making such calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyopencl.array as cla

from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops import gemm, gemv, reduce
from portable_gpu.runtime.engine import Engine

_Sizes = Sequence[int]


@dataclass(frozen=True)
class WarmUp:
    """What a warm-up did.

    Attributes:
        programs: Programs that were not in memory before; those on disk are read, not compiled.
        seconds: How long it took.
    """

    programs: int
    seconds: float


@dataclass(frozen=True)
class _Kind:
    """A kind of operation: shapes of its arrays, the calls to make with them, typical sizes."""

    extents: int | None  # how many sizes it takes; any number of them where None
    shapes: Callable[[_Sizes], list[tuple[int, ...]]]
    options: Callable[[_Sizes], list[dict[str, Any]]]
    typical: tuple[tuple[int, ...], ...]


def _axes(sizes: _Sizes) -> list[dict[str, Any]]:
    return [{}] + [{"axis": axis} for axis in range(len(sizes)) if len(sizes) > 1]


_VECTORS: tuple[tuple[int, ...], ...] = ((1000,), (1 << 20,), (1 << 23,))
_FOLD = _Kind(None, lambda s: [tuple(s)], _axes, (*_VECTORS, (2000, 1000)))
_DOT = _Kind(1, lambda s: [tuple(s)] * 2, lambda s: [{}], _VECTORS)
_GEMV = _Kind(
    2, lambda s: [(s[0], s[1]), (s[1],)], lambda s: [{}], ((64, 64), (2000, 1000), (100000, 32))
)
_GEMM = _Kind(
    3,
    lambda s: [(s[0], s[1]), (s[1], s[2])],
    lambda s: [{}],
    ((64, 64, 64), (512, 512, 512), (1500, 500, 1500), (2000, 1000, 4)),
)

_OPERATIONS: dict[str, tuple[Callable[..., Any], _Kind]] = {
    "gemm": (gemm.matmul, _GEMM),
    "matmul": (gemm.matmul, _GEMM),
    "gemv": (gemv.gemv, _GEMV),
    **{name: (getattr(reduce, name), _DOT) for name in ("dot", "vdot")},
    **{
        name: (getattr(reduce, name), _FOLD)
        for name in (
            "sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "any", "all",
            "count_nonzero", "asum", "nrm2",
        )
    },
}  # fmt: skip
#: What is built where no operation is named.
COMMON = ("sum", "max", "argmax", "mean", "dot", "gemv", "gemm")


def warm_up(
    engine: Engine, operations: Sequence[str], sizes: _Sizes | None, dtypes: Sequence[Any]
) -> WarmUp:
    """See :meth:`portable_gpu.Engine.warm_up`."""
    unknown = [name for name in operations if name not in _OPERATIONS]
    if unknown:
        known = ", ".join(sorted(_OPERATIONS))
        raise ArgumentError(f"no operation {unknown[0]!r}; there are: {known}")
    if sizes is not None and len(operations) != 1:
        raise ArgumentError(f"sizes {tuple(sizes)} are for one operation; name one")
    begin, before = time.monotonic(), _programs(engine)
    for name in operations or COMMON:
        for dtype in dtypes:
            try:
                for call in _calls(engine, name, sizes, _dtype(dtype)):
                    call()
            except (DTypeError, UnsupportedError):
                if operations:
                    raise
    return WarmUp(_programs(engine) - before, time.monotonic() - begin)


def _calls(
    engine: Engine, name: str, sizes: _Sizes | None, dtype: np.dtype[Any]
) -> Iterator[Callable[[], Any]]:
    """Calls of one operation, on NumPy arrays and on device arrays."""
    function, kind = _OPERATIONS[name]
    for extents in kind.typical if sizes is None else [sizes]:
        wrong = kind.extents not in (None, len(extents)) or not extents or min(extents) < 1
        if wrong:
            wanted = kind.extents or "1 or more"
            raise ArgumentError(f"{name} takes {wanted} sizes, each above 0; got {tuple(extents)}")
        arrays = [np.ones(shape, dtype) for shape in kind.shapes(extents)]
        for options in kind.options(extents):
            yield partial(function, *arrays, **options, engine=engine)
            there = [cla.to_device(engine.queue, array) for array in arrays]
            yield partial(function, *there, **options, engine=engine)
    engine.queue.finish()


def _dtype(dtype: Any) -> np.dtype[Any]:
    return dtype_of(dtype if isinstance(dtype, str) else str(np.dtype(dtype)))


def _programs(engine: Engine) -> int:
    caller = engine.caller
    return len(engine.programs) + (0 if caller is None else len(caller.programs))
