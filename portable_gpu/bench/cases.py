"""The cases of a benchmark run, by the names that the command takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

import numpy as np

from portable_gpu.checking.operands import Operands, uniform
from portable_gpu.checking.oracle import Oracle
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.case import Case
from portable_gpu.ops.family import Benchmark, Family
from portable_gpu.ops.registry import BENCHMARKS, FAMILIES, OPERATIONS
from portable_gpu.ops.sizes import Size, parse_sizes

#: The names that stand for every operation, and for those of the roofline picture.
EVERY, ROOFLINE = "all", "roofline"
#: The name that stands for the layers of neural networks.
LAYERS = "layers"


def _names(family: Family) -> dict[str, tuple[str, ...]]:
    """Each operation that is timed; the family's name, after the first, stands for all of them."""
    timed = tuple(family.benchmarks)
    names = (*timed[:1], family.name, *timed[1:]) if timed else ()
    return {name: (name,) if name in timed else timed for name in names}


#: The operations that each name of the command stands for.
GROUPS: dict[str, tuple[str, ...]] = {
    name: timed for family in FAMILIES for name, timed in _names(family).items()
}
GROUPS[EVERY] = tuple(BENCHMARKS)
GROUPS[ROOFLINE] = tuple(
    name for name, benchmark in BENCHMARKS.items() if benchmark.roofline is not None
)
GROUPS[LAYERS] = tuple(
    name for name, benchmark in BENCHMARKS.items() if benchmark.layers is not None
)
_FAMILIES = {family.name for family in FAMILIES}


def cases(
    operation: str, dtypes: Sequence[str], sizes: Sequence[Size] | None, on_cpu: bool
) -> list[Case]:
    """The cases of a run.

    Args:
        operation: A key of :data:`GROUPS`.
        dtypes: NumPy names of floating-point types; a :attr:`Case.manner` may follow, after a
            colon, if the operation has manners.
        sizes: What to time; the defaults of the kind of device without it.
        on_cpu: Whether these are the defaults of a CPU.

    Raises:
        ArgumentError: The operation is unknown, or there are sizes that it does not take.
    """
    if operation not in GROUPS:
        raise ArgumentError(f"no benchmark {operation!r}; there are: {', '.join(GROUPS)}")
    result: list[Case] = []
    for asked in dtypes:
        dtype, _, manner = asked.partition(":")
        _check_manner(asked, dtype, manner, operation)
        elem = element(dtype_of(dtype))
        if not elem.floating:
            raise ArgumentError(f"--dtype has {dtype}; floating-point types are timed")
        for name in GROUPS[operation]:
            if elem.complex and OPERATIONS[name].exact:
                continue
            asked_sizes = sizes or _default_sizes(BENCHMARKS[name], name, operation, on_cpu)
            for size in _all_of(asked_sizes, name):
                if operation == LAYERS and OPERATIONS[name].extents not in (
                    None,
                    len(size.extents),
                ):
                    continue
                case = Case(name, size.extents, dtype, batch=size.batch, manner=manner)
                result += _variants(case, size.variant, name == operation)
    if not result:
        raise ArgumentError(f"{operation} has nothing to time in {', '.join(dtypes)}")
    return list(dict.fromkeys(result))


def _all_of(sizes: Iterable[Size], operation: str) -> Iterator[Size]:
    """The sizes, with those that names stand for.

    Raises:
        ArgumentError: The operation does not know a name.
    """
    named = BENCHMARKS[operation].named
    for size in sizes:
        if not size.name:
            yield size
        elif size.name in named:
            yield from named[size.name](size)
        else:
            known = ", ".join(named) or "no names"
            raise ArgumentError(f"--sizes has {size.name!r}; {operation} knows {known}")


def _check_manner(asked: str, dtype: str, manner: str, operation: str) -> None:
    """Refuse what :attr:`Case.manner` does not say.

    Raises:
        ArgumentError: The operation has no manners, or the dtype not this one.
    """
    group = GROUPS[operation]
    if ":" not in asked or all(manner in BENCHMARKS[n].manners.get(dtype, ()) for n in group):
        return
    known = "; ".join(
        f"for {name} there are {_listed(benchmark)}"
        for name, benchmark in BENCHMARKS.items()
        if benchmark.manners
    )
    raise ArgumentError(f"--dtype has {asked!r}; {known}")


def _listed(benchmark: Benchmark) -> str:
    """The manners of each dtype, in words."""
    *others, last = (
        f"{dtype}:{item}" if not more else f"{dtype}:PRECISION ({', '.join((item, *more))})"
        for dtype, (item, *more) in benchmark.manners.items()
    )
    return f"{', '.join(others)} and {last}" if others else last


def _variants(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """The cases of one size; none if only other operations of a group have such cases.

    Raises:
        ArgumentError: The operation does not take the size.
    """
    name, benchmark = case.operation, BENCHMARKS[case.operation]
    for result in benchmark.variants(case, variant, alone):
        fits = OPERATIONS[name].extents in (None, len(result.extents))
        if not fits or (result.batch is not None and not benchmark.batched):
            size = "x".join(map(str, case.extents))
            raise ArgumentError(f"{size} is not a size: {name} takes {benchmark.form}")
        yield result


def _default_sizes(benchmark: Benchmark, name: str, operation: str, on_cpu: bool) -> Sequence[Size]:
    if operation == ROOFLINE and benchmark.roofline is not None:
        return parse_sizes(benchmark.roofline.of(on_cpu))
    if operation == LAYERS and benchmark.layers is not None:
        return parse_sizes(benchmark.layers.of(on_cpu))
    sizes = parse_sizes(benchmark.sizes.of(on_cpu))
    if benchmark.more_sizes is not None and operation in _FAMILIES - {name}:
        sizes += parse_sizes(benchmark.more_sizes.of(on_cpu))
    return sizes


_MOST_COPIES = 16


# -- operands, and the check of a result


def operands(case: Case, seed: int = 1) -> Operands:
    """Random inputs, uniform in [-1, 1), or what the operation makes of them.

    Zeros and small integers would flatter some devices.
    Matrices are stored in C order; a transposed one has the shape (columns, rows).
    """
    rng = np.random.default_rng(seed)
    dtype = dtype_of(case.dtype)
    drawn = tuple(uniform(rng, shape, dtype) for shape in case.shapes)
    return BENCHMARKS[case.operation].operands(case, drawn)


def copies(case: Case, cache_bytes: int, memory_bytes: int) -> int:
    """The number of copies of the inputs that take turns, so that no data of a call are in a cache.

    Together they are twice as large as the last-level cache, as far as 16 copies reach and an
    eighth of the memory allows.
    """
    itemsize = element(dtype_of(case.dtype)).itemsize
    nbytes = itemsize * sum(prod(shape) for shape in case.shapes)
    requested = min(_MOST_COPIES, max(2, -(-2 * cache_bytes // nbytes)))
    return max(1, min(requested, memory_bytes // 8 // nbytes))


def oracle(case: Case, inputs: Operands) -> Oracle:
    """The oracle of a case: NumPy in higher precision, exact where values are compared."""
    return BENCHMARKS[case.operation].oracle(case, inputs)
