"""Which path, policy and table row a call takes, and why: what each family tells of itself.

A module of this package that has kernels names its explainers in ``EXPLAINERS``, as it names
its kernels in ``CATALOGUE``::

    EXPLAINERS: dict[str, Explainer] = {"gemm": explain_gemm}
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any, TypeAlias

from portable_gpu import ops
from portable_gpu.arguments import shown, whole
from portable_gpu.dtypes import as_dtype, dtype_of, element
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.ops.candidate import Candidate, ranked
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import check_place, check_target
from portable_gpu.runtime.registry import default_engine
from portable_gpu.targets import Target, example_target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import TuningTable

_SHOWN = 5  # estimates that are printed
_MOST = (1 << 63) - 1  # what an extent is counted in


@dataclass(frozen=True)
class Explanation:
    """What a call would do.

    Attributes:
        operation: What was asked about, with its sizes: ``gemm 64 x 64 x 64 float32``.
        path: The path's name (``tiled``, ``packed``, ``rows``, ``columns`` ...).
        kernels: The templates it launches, in order (``gemm/gemm``).
        policy: The policy's fields; empty where the path has none.
        origin: Where the policy came from: a row of a table, or a formula by name.
        why: Why this path, in a sentence or two.
        details: What follows from policy and sizes (groups, splits ...).
        evidence: Of a row: what it was measured against, where and when.
        estimates: Of the ways to compute it, the best first: seconds of a call, launches included.
    """

    operation: str
    path: str
    kernels: tuple[str, ...]
    policy: Mapping[str, Any]
    origin: str
    why: str
    details: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    estimates: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """A few readable lines."""
        lines = [
            self.operation,
            f"  path     {self.path}: {self.why}",
            f"  kernels  {', '.join(self.kernels)}",
        ]
        if self.policy:
            lines += [f"  policy   {_pairs(self.policy)}", f"           from {self.origin}"]
        if self.evidence:
            lines.append(f"           measured: {_pairs(self.evidence)}")
        if self.details:
            lines.append(f"  so       {_pairs(self.details)}")
        if len(self.estimates) > 1:
            few = [f"{way} {1e6 * s:.3g}" for way, s in list(self.estimates.items())[:_SHOWN]]
            lines.append(f"  est. us  {'; '.join(few)}")
        return "\n".join(lines)


def explanation(operation: str, candidates: Sequence[Candidate], target: Target) -> Explanation:
    """What the best of a problem's candidates is.

    Args:
        operation: What was asked about.
        candidates: Every way to compute it.
        target: For what device.
    """
    costs = DeviceCosts.of("device", target)
    best, *others = ranked(candidates, costs)
    return Explanation(
        operation=operation,
        path=best.path,
        kernels=tuple(spec.name for spec in best.texts()),
        policy=best.policy.to_dict() if best.policy else {},
        origin=best.origin,
        why=best.why,
        details=best.details,
        evidence=best.evidence,
        estimates={one.way: one.seconds(costs) for one in (best, *others)},
    )


#: What a family of operations gives: an explanation for C-ordered arrays, with no device.
#: Called with the operation's name, the sizes, a dtype, a target and a tuning table, and the
#: function's own options by keyword.
Explainer: TypeAlias = Callable[..., Explanation]


def explainers() -> dict[str, Explainer]:
    """Every operation of every module in ``portable_gpu.ops`` that explains itself."""
    entries: dict[str, Explainer] = {}
    for module in pkgutil.iter_modules(ops.__path__, f"{ops.__name__}."):
        if module.name != __name__:
            entries.update(getattr(import_module(module.name), "EXPLAINERS", {}))
    return entries


def explain(
    operation: str,
    *sizes: int,
    dtype: Any = "float32",
    target: Target | str | None = None,
    engine: Engine | None = None,
    **options: Any,
) -> Explanation:
    """Which path, policy and table row a call would take, and why.  Nothing is run.

    Args:
        operation: ``gemm``, ``matmul``, ``gemv``, ``sum`` ...: the name of a public function.
        sizes: ``m, k, n`` of gemm (A is m by k, B is k by n), ``m, n`` of gemv, the shape of a
            reduction: the order of ``portable-gpu bench --sizes`` too.  Arrays are taken as
            C-ordered and aligned.
        dtype: Of the arrays: a dtype or its name.
        target: Explain for this device class (``"gcn"``, ``"nvidia-sm90"``), or for a
            :class:`Target`, instead of a device; no device is then needed.
        engine: Whose device and tuning table; default :func:`portable_gpu.default_engine`.
        options: As the function takes them: ``axis`` of reductions, ``trans`` of gemv,
            ``trans_a``, ``trans_b`` and ``precision`` of gemm (the engine's without it).

    Returns:
        An :class:`Explanation`; printed, it reads well.

    Raises:
        ArgumentError: No such operation, or sizes or options that it does not take.
        DTypeError: An unknown dtype, or one that the operation does not take.
        UnsupportedError: Double precision for a device without it.

    Example::

        print(pg.explain("gemm", 4096, 4096, 4096, dtype="float32", target="gcn"))
    """
    known = explainers()
    if not isinstance(operation, str) or operation not in known:
        raise ArgumentError(
            f"no operation {shown(operation)}; there are: {', '.join(sorted(known))}"
        )
    extents = [whole(size, "a size") for size in sizes]
    if any(not 0 <= extent <= _MOST for extent in extents):
        raise ArgumentError(
            f"sizes are {shown(sizes)}; whole numbers from 0 on, below 2^63, would do"
        )
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
    if engine is not None and "precision" in signature(known[operation]).parameters:
        options.setdefault("precision", engine.precision)
    try:
        return known[operation](operation, extents, dtype, target, table, **options)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument ('\w+')", str(error))
        if unknown is None:
            raise
        raise ArgumentError(f"{operation} takes no option {unknown[1]}") from None


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


__all__ = ["Explainer", "Explanation", "explain", "explainers", "explanation"]
