"""Build the programs that calls will need, by making typical calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyopencl.array as cla

from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops.case import Case
from portable_gpu.ops.family import Typical
from portable_gpu.ops.registry import FAMILIES, OPERATIONS
from portable_gpu.runtime.engine import Engine, WarmUp

_Sizes = Sequence[int]


_TYPICAL: dict[str, Typical] = {
    operation.name: operation.typical
    for family in FAMILIES
    for operation in family.operations
    if operation.typical is not None
}
#: The operations that ``warm_up()`` without names includes.
COMMON = tuple(name for name, typical in _TYPICAL.items() if typical.common)


def warm_up(
    engine: Engine, operations: Sequence[str], sizes: _Sizes | None, dtypes: Sequence[Any]
) -> WarmUp:
    """See :meth:`portable_gpu.Engine.warm_up`."""
    unknown = [name for name in operations if name not in _TYPICAL]
    if unknown:
        known = ", ".join(sorted(_TYPICAL))
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
    """Yield calls of one operation, on NumPy arrays and on device arrays."""
    operation, typical = OPERATIONS[name], _TYPICAL[name]
    function = typical.function or operation.function
    for extents in typical.sizes if sizes is None else [tuple(sizes)]:
        wrong = operation.extents not in (None, len(extents)) or not extents or min(extents) < 1
        if wrong:
            expected = operation.extents or "1 or more"
            raise ArgumentError(f"{name} takes {expected} sizes, each above 0; got {extents}")
        shapes = operation.shapes(Case(name, extents, str(dtype)))
        arrays = [np.ones(shape, dtype) for shape in shapes]
        for options in typical.options(extents):
            yield partial(function, *arrays, **options, engine=engine)
            there = [cla.to_device(engine.queue, array) for array in arrays]
            yield partial(function, *there, **options, engine=engine)
    engine.queue.finish()


def _dtype(dtype: Any) -> np.dtype[Any]:
    return dtype_of(dtype if isinstance(dtype, str) else str(np.dtype(dtype)))


def _programs(engine: Engine) -> int:
    caller = engine.caller
    return len(engine.programs) + (0 if caller is None else len(caller.programs))
