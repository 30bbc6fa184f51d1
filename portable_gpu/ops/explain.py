"""``explain``: the path, the policy and the row of a table that a call takes, with the reasons."""

from __future__ import annotations

import re
from inspect import signature
from typing import Any

from portable_gpu.arguments import of_kind, shown, whole
from portable_gpu.dtypes import as_dtype, dtype_of, element
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import check_place, check_target
from portable_gpu.runtime.registry import default_engine
from portable_gpu.targets import Target, example_target
from portable_gpu.tuning.table import TuningTable

_MAX_EXTENT = (1 << 63) - 1  # that of a 64-bit integer


def explain(
    operation: str,
    *sizes: int,
    dtype: Any = "float32",
    target: Target | str | None = None,
    engine: Engine | None = None,
    **options: Any,
) -> Explanation:
    """Explain which path, policy and row of a table a call would take, and why.  Nothing is run.

    Args:
        operation: ``gemm``, ``matmul``, ``gemv``, ``sum`` ...: the name of a public function.
        sizes: In the order of ``portable-gpu bench --sizes``: ``m, k, n`` of gemm (A is m by k, B
            is k by n), ``m, n`` of gemv, ``n`` of cholesky, ``n, m`` of solve_triangular (A is n by
            n, B is n by m), the shape of a reduction, the extents that fft and rfft transform.  The
            arrays are assumed to be C-ordered and aligned.
        dtype: The dtype of the arrays, or its name.
        target: Explain for this device class (``"gcn"``, ``"nvidia-sm90"``), or for a
            :class:`Target`, instead of a device; no device is then needed.
        engine: The engine whose device and tuning table are used; by default
            :func:`portable_gpu.default_engine`.
        options: The options of the function: ``axis`` of reductions; ``trans`` of gemv and solves;
            ``trans_a``, ``trans_b`` and ``precision`` of gemm (default: the engine's); ``axis`` of
            fft and rfft (default: all extents are transformed), and ``batch``, the extents before
            these.  gemm and matmul also take ``symmetric=True``: B is A's transpose, in the same
            memory.

    Returns:
        An :class:`Explanation`; ``print`` shows it as a text.

    Raises:
        ArgumentError: There is no such operation, or it does not take these sizes or options.
        DTypeError: The dtype is unknown, or one that the operation does not take.
        UnsupportedError: The call needs double precision, which the device lacks.

    Example::

        print(pg.explain("gemm", 4096, 4096, 4096, dtype="float32", target="gcn"))
    """
    from portable_gpu.ops.registry import OPERATIONS  # the records of all families

    of_kind(operation, str, "operation", "the name of an operation")
    if operation not in OPERATIONS:
        raise ArgumentError(
            f"no operation {shown(operation)}; there are: {', '.join(sorted(OPERATIONS))}"
        )
    explainer = OPERATIONS[operation].explain
    extents = [whole(size, f"number {k} of sizes") for k, size in enumerate(sizes, 1)]
    if any(not 0 <= extent <= _MAX_EXTENT for extent in extents):
        raise ArgumentError(f"sizes is {shown(sizes)}; expected integers of at least 0, below 2^63")
    dtype = dtype_of(dtype) if isinstance(dtype, str) else as_dtype(dtype)
    elem = element(dtype)
    check_place(engine, None)
    check_target(target)
    if target is None:
        engine = default_engine() if engine is None else engine
        target, table = engine.target, engine.table
    else:
        table = TuningTable.load() if engine is None else engine.table
        target = example_target(target) if isinstance(target, str) else target
    if elem.needs_fp64 and not target.fp64:
        raise UnsupportedError(f"{target.facts.name} has no double precision, which {dtype} needs")
    if engine is not None and "precision" in signature(explainer).parameters:
        options.setdefault("precision", engine.precision)
    try:
        return explainer(Question(operation, tuple(extents), dtype, target, table), **options)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument ('\w+')", str(error))
        if unknown is None:
            raise
        raise ArgumentError(f"{operation} takes no option {unknown[1]}") from None
