"""Random calls of every family against NumPy and SciPy, within the bounds of docs/accuracy.md.

Two sources draw a call.  One draws what a program is made for: function, dtypes, expression, the
dtype of the result.  Few seeds of that one bound the programs of many calls.  The other one draws
shapes, strides, offsets, axes and values, and whether arrays are NumPy's or on the device.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from math import prod, sqrt
from typing import Any

import numpy as np
import random_layers
import random_linalg
import random_modules
import random_variants
from random_linalg import Drawn, values
from reference import (
    add,
    assert_within,
    norm,
    norm_bound,
    product_bound,
    product_of_all_bound,
    sum_bound,
    unit_roundoff,
    variance,
    variance_bound,
    wider,
)

import portable_gpu as pg
from portable_gpu.checking.oracle import SPLIT_ERRORS, by_norm
from portable_gpu.dtypes import PRECISIONS, bfloat16, is_float16_like
from portable_gpu.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from portable_gpu.multi import DeviceGroup, streaming
from portable_gpu.ops.fft.commands.cases import bound_of
from portable_gpu.runtime.engine import Engine

BFLOAT16 = bfloat16()

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REAL = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
FACTORS = ("float32", "float64", *COMPLEX)
_WIDE = ("float64", "complex128")


class Call(Drawn):
    """A call that is drawn.

    Attributes:
        programs: Draws what programs are made for.
        descriptions: The descriptions of the call and of its arrays.
        plain: Whether arrays have no gaps.
        can_transpose: Whether the arrays that it gives have ``transpose``.
    """

    def __init__(
        self, programs: random.Random, draw: random.Random, engine: Engine, seed: int
    ) -> None:
        super().__init__(draw, np.random.default_rng(seed), engine, ["float32"])
        self.programs = programs
        self.descriptions: list[str] = []
        self.plain, self.can_transpose = False, True

    def names(self, *every: str) -> list[str]:
        """The dtypes that the device computes in."""
        return [name for name in every if self.engine.target.fp64 or name not in _WIDE]

    def shape(self, most: int = 3000, rank: int = 4) -> tuple[int, ...]:
        """A random shape with a bound on its elements; one in ten has a long axis."""
        result = [self.extent(30) for _ in range(self.draw.randint(0, rank))]
        if result and self.flag(0.1):
            result[self.draw.randrange(len(result))] = self.draw.randint(1, most)
        while prod(result) > most:
            result[result.index(max(result))] //= 2
        return tuple(result)

    def filled(self, shape: Sequence[int], dtype: Any) -> Any:
        """Integers of the whole range or small ones; normal numbers of the others."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.7
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            if self.flag(0.4):
                info = np.iinfo(np.int8 if dtype.kind == "i" else np.uint8)
            return self.rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        numbers = self.rng.standard_normal(shape)
        if dtype.kind == "c":
            numbers = numbers + 1j * self.rng.standard_normal(shape)
        return np.asarray(numbers).astype(dtype)

    def give(self, x: Any, writes: bool = False, in_line: bool = False) -> Any:
        """See :class:`Drawn`."""
        there = super().give(x, writes, in_line)
        self.descriptions.append(
            f"{there.dtype}{list(there.shape)} strides {there.strides} {self.kind}"
        )
        return there

    def record(self, function: str, **options: Any) -> dict[str, Any]:
        """Record a call, and return its options with the engine."""
        self.descriptions.insert(0, f"{function} {options}")
        return {**options, "engine": self.engine}


# -- expressions


@dataclass(frozen=True)
class Expression:
    """An expression.

    Attributes:
        text: In C.
        kinds: Of the dtypes that it is computed in: ``f``, ``i`` of integers, ``c``, ``b``.
        value: The value of NumPy arrays.
        ulp: What OpenCL 3.0 (table 38) allows single precision, and double, in ulp of ``size``; 0
            where operations are rounded once and are NumPy's to the bit.
        size: Of what the error is a part.
        result: The only dtype of its result, if there is one.
    """

    text: str
    kinds: str
    value: Callable[..., Any]
    ulp: tuple[float, float] = (0, 0)
    size: Callable[..., Any] | None = None
    result: str = ""


def _by_zero(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's integer division; it warns of a divisor of 0, and gives 0."""

    def value(x: Any, y: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(x, y)

    return value


EXPRESSIONS = (
    Expression("x + y", "ficb", operator.add),
    Expression("x * y", "fib", operator.mul),
    # Each part is off by 2 u of the sum of two products.
    Expression("x * y", "c", operator.mul, (2**0.5, 2**0.5), lambda x, y: abs(x) * abs(y)),
    Expression("x - y", "fic", operator.sub),
    # Contracted or not: a rounding of x y and one of the difference.
    Expression("x * y - x", "f", lambda x, y: x * y - x, (1, 1), lambda x, y: abs(x * y) + abs(x)),
    Expression("x * y - x", "i", lambda x, y: x * y - x),
    Expression("x / y", "f", operator.truediv, (2.5, 0.5)),
    Expression("x > y ? x : y", "fi", np.maximum),
    Expression("x > y", "fi", operator.gt, result="bool"),
    Expression("x != y", "ficb", operator.ne, result="bool"),
    Expression("(x > 0) & ~(y > 1)", "fi", lambda x, y: (x > 0) & ~(y > 1), result="bool"),
    Expression("x and not y", "b", lambda x, y: x & ~y, result="bool"),
    Expression("where(x < y, x, y)", "fi", np.minimum),
    Expression("max(x, y)", "fi", np.maximum),
    Expression("abs(x)", "fi", np.abs),
    Expression("conj(x)", "c", np.conj),
    Expression("-x", "fic", operator.neg),
    Expression("x // y", "i", _by_zero(np.floor_divide)),
    Expression("x % y", "i", _by_zero(np.remainder)),
    Expression("x << (y & 15)", "i", lambda x, y: np.left_shift(x, y & x.dtype.type(15))),
    Expression("x >> (y & 31)", "i", lambda x, y: np.right_shift(x, y & x.dtype.type(31))),
    Expression("x ** 2", "fi", lambda x: x * x),
    Expression("x & y", "i", operator.and_),
    Expression("x ^ ~y", "i", lambda x, y: x ^ ~y),
    Expression("x * 7", "i", lambda x: x * x.dtype.type(7)),
    Expression("fma(x, y, x)", "f", lambda x, y: x * y + x, (0.5, 0.5)),
    Expression("sqrt(fabs(x))", "f", lambda x: np.sqrt(abs(x)), (3, 0.5)),
    Expression("exp(x)", "f", np.exp, (3, 3)),
    Expression("tanh(x)", "f", np.tanh, (5, 5)),
    Expression("x + k", "fic", lambda x, k: x + k),
    Expression("k * x", "fi", lambda x, k: k * x),
)


def elementwise(d: Call) -> None:
    """An expression, of inputs that broadcast, into the common dtype, a wider one, or ``out``."""
    item = d.programs.choice(EXPRESSIONS)
    names = [name for name in "xyk" if re.search(rf"\b{name}\b", item.text)]
    dtypes = _computable(d, d.programs.choice(item.kinds))
    common = dtypes[0] if dtypes[0] == dtypes[1] else np.result_type(*dtypes)
    shape = d.shape()
    arrays = {
        name: d.filled(shape if name == "x" else d.part(shape), dtype)
        for name, dtype in zip("xy", dtypes, strict=True)
        if name in names
    }
    if "y" not in arrays:
        common = dtypes[0]
    numbers = {"k": _number(d, common)} if "k" in names else {}
    requested = item.result or d.programs.choice(("", "", *_wider(d, common)))
    options = d.record(f"elementwise {item.text!r}", dtype=requested or None, **numbers)
    operand = {name: d.give(x) for name, x in arrays.items()}
    computed = np.dtype("float32") if is_float16_like(common) else common
    inputs = {name: x.astype(common).astype(computed) for name, x in arrays.items()}
    inputs |= {name: computed.type(number) for name, number in numbers.items()}
    result, out = np.dtype(requested) if requested else common, None
    if d.flag(0.25):
        out = options["out"] = d.give(np.zeros(shape, result), writes=True)
    got = pg.elementwise(item.text, **operand, **options)
    assert out is None or got is out
    _check_expression(item, inputs, computed, common, np.asarray(values(got)), result)


def _computable(d: Call, kind: str) -> list[Any]:
    """Dtypes of two inputs, whose common dtype is of the kind and the device's."""
    floats = [name for name in _floats(d) if name not in COMPLEX]
    every = {"f": floats, "i": [*INTEGERS], "b": ["bool"], "c": d.names(*COMPLEX)}[kind]
    first, second = (_dtype(d.programs.choice(every)) for _ in range(2))
    if d.programs.random() < 0.6 or BFLOAT16 in (first, second):
        return [first, first]
    common = np.result_type(first, second)
    if (kind == "i" and common.kind == "f") or str(common) not in d.names(str(common)):
        return [first, first]
    return [first, second]


def _check_expression(
    one: Expression, inputs: dict[str, Any], computed: Any, common: Any, got: Any, result: Any
) -> None:
    allowed = one.ulp[computed == np.float64] * 2 * unit_roundoff(computed)
    with np.errstate(all="ignore"):
        if not one.ulp[0]:
            expected = np.asarray(one.value(*inputs.values()))
            if common != computed and not one.result:
                expected = expected.astype(result)  # rounded once
            assert got.dtype == result
            assert np.array_equal(got, expected.astype(result), equal_nan=result.kind in "fc")
            return
        wide = {name: wider(x) for name, x in inputs.items()}
        exact = np.asarray(one.value(*wide.values()))
        bound = allowed * (np.abs(exact) if one.size is None else one.size(*wide.values()))
        assert got.dtype == result
        assert got.shape == exact.shape
        finite = np.abs(exact) < float(_largest(result)) / 2
        assert_within(got[finite], exact[finite], np.broadcast_to(bound, exact.shape)[finite])


def _dtype(name: str) -> Any:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def _largest(dtype: Any) -> float:
    return 3e38 if dtype == BFLOAT16 else float(np.finfo(dtype).max)


def _wider(d: Call, common: Any) -> list[str]:
    """The dtypes that fit a result: wider ones of the kind, and floats for integers."""
    if common.kind in "iu":
        result = [name for name in INTEGERS if np.dtype(name).itemsize >= common.itemsize]
        return result + d.names("float32", "float64")
    if common.kind == "b":
        return ["int32"]
    if common.kind == "c":
        return d.names("complex128")
    return d.names("float32", "float64") if is_float16_like(common) else d.names("float64")


def _number(d: Call, common: Any) -> Any:
    """One of Python's that the dtype holds, or NumPy's of the dtype; negative ones too."""
    if common.kind in "iu":
        info = np.iinfo(common)
        number = d.draw.randint(max(info.min, -200), min(info.max, 200))
    else:
        number = d.draw.choice((d.draw.randint(-9, 9), d.draw.randint(-64, 64) / 8))
    return common.type(number) if d.flag(0.3) else number


# -- reductions

_SUMS, _MOMENTS = ("sum", "prod"), ("mean", "var", "std")
_ORDERED = ("min", "max", "argmin", "argmax")
_COUNTS = ("any", "all", "count_nonzero")
_NORMS = ("asum", "nrm2")


def reductions(d: Call) -> None:
    """A function, over all axes or some, with a wider dtype or without."""
    name = d.programs.choice((*_SUMS, *_MOMENTS, *_ORDERED, *_COUNTS, *_NORMS))
    every = ["bool", *INTEGERS, *d.names(*REAL, *COMPLEX)]
    if name in _NORMS or (name in _MOMENTS and not d.names("float64")):
        every = d.names(*REAL, *COMPLEX)
    dtype = np.dtype(d.programs.choice(every))
    requested = d.programs.choice(("", "", *_summed_in(d, name, dtype)))
    shape = d.shape(20_000)
    while name in (*_ORDERED, *_MOMENTS, *_NORMS) and not prod(shape):
        shape = tuple(max(1, extent) for extent in shape)
    x = d.filled(shape, dtype)
    if name == "prod" and dtype.kind in "fc":
        x = (1 + x / max(8, x.size)).astype(dtype)
    elif name == "prod" and requested.startswith("float"):  # of what does not overflow
        x = np.where(d.rng.random(shape) < 8 / max(1, x.size), x % 8, 1).astype(dtype)
    if name in _COUNTS:
        x = x * (d.rng.random(shape) < d.draw.choice((0.01, 0.5, 0.99))).astype(dtype)
    if name in (*_ORDERED, *_COUNTS) and dtype.kind == "f":
        if d.flag(0.5):
            x = np.asarray(np.round(x))
        if d.flag(0.2) and x.size:
            x.reshape(-1)[d.draw.randrange(x.size)] = np.nan
    axis = _axis(d, len(shape), single=name.startswith("arg"))
    folded = _folded(x, axis)
    options: dict[str, Any] = {"axis": axis}
    if d.flag(0.3):
        options["keepdims"] = True
    if requested:
        options["dtype"] = requested
    ddof = 0
    if name in ("var", "std") and d.flag(0.4) and folded.shape[-1] > 1:
        ddof = options["ddof"] = 1
    got = values(getattr(pg, name)(d.give(x), **d.record(name, **options)))
    _check_reduction(name, x, folded, options, ddof, np.asarray(got))


def _summed_in(d: Call, name: str, dtype: Any) -> list[str]:
    """Wider dtypes that a function takes for its sums."""
    if name in _MOMENTS and dtype.kind != "c":
        return d.names("float32", "float64") if dtype.itemsize < 4 else d.names("float64")
    if name not in _SUMS:
        return []
    if dtype.kind == "c":
        return d.names("complex128")
    if dtype.kind == "f":
        return d.names("float32", "float64") if dtype.itemsize < 4 else d.names("float64")
    return ["int64", "uint64", *d.names("float64"), "float32"]


def _axis(d: Call, rank: int, single: bool) -> Any:
    if not rank or d.flag(0.3):
        return None
    some = d.draw.sample(range(rank), d.draw.randint(1, rank))
    some = [axis - rank if d.flag(0.3) else axis for axis in some]
    return some[0] if single or d.flag(0.5) else tuple(some)


def _folded(x: Any, axis: Any) -> Any:
    """The folded axes last and as one."""
    if axis is None:
        return x.reshape(-1)
    axes = [item % x.ndim for item in (axis if isinstance(axis, tuple) else (axis,))]
    remaining_axes = [k for k in range(x.ndim) if k not in axes]
    moved = x.transpose((*remaining_axes, *sorted(axes)))
    return moved.reshape(*(x.shape[k] for k in remaining_axes), prod(x.shape[k] for k in axes))


def _check_reduction(
    name: str, x: Any, folded: Any, options: dict[str, Any], ddof: int, got: Any
) -> None:
    dtype = options.get("dtype")
    numpys = {key: value for key, value in options.items() if key != "ddof"}
    if name in (*_ORDERED, *_COUNTS):
        expected = np.asarray(getattr(np, name)(x, **numpys))
        assert got.dtype == expected.dtype
        assert np.array_equal(got, expected, equal_nan=got.dtype.kind in "fc")
        return
    if name in _NORMS:
        shape, result = np.sum(x, **numpys).shape, x.real.dtype
    else:
        of_ones = getattr(np, name)(np.ones_like(x), **numpys)
        shape, result = of_ones.shape, of_ones.dtype
    assert (got.shape, got.dtype) == (shape, result), (got.shape, got.dtype, shape, result)
    if result.kind in "biu":
        converted = folded.astype(result)
        with np.errstate(over="ignore"):
            assert np.array_equal(got.reshape(folded.shape[:-1]), getattr(np, name)(converted, -1))
        return
    sums = np.dtype(dtype) if dtype else result
    sums = np.dtype(np.float32) if is_float16_like(sums) else sums
    folded = folded.astype(np.result_type(folded, sums)) if folded.dtype.kind in "biu" else folded
    got, count = got.reshape(folded.shape[:-1]), folded.shape[-1]
    if name in ("sum", "mean"):
        over = count if name == "mean" else 1
        converted = unit_roundoff(sums) * np.abs(wider(folded)).sum(-1)  # of integers to floats
        exact, bound = add(folded, -1), sum_bound(folded, sums, -1)
        bound = bound + converted if x.dtype.kind in "biu" else bound
        assert_within(got, exact / over, bound / over)
    elif name == "prod":
        assert_within(got, np.prod(wider(folded), -1), product_of_all_bound(folded, sums, -1))
    elif name == "asum":
        parts = np.abs(wider(folded).real) + np.abs(wider(folded).imag)
        assert_within(got, parts.sum(-1), sum_bound(parts, sums, -1))
    elif name == "nrm2":
        assert_within(got, norm(folded, -1), norm_bound(folded, sums, -1))
    else:
        exact, bound = variance(folded, -1, ddof), variance_bound(folded, sums, -1, ddof)
        if name == "std":
            low = np.sqrt(np.maximum(exact - bound, 0))
            bound = np.maximum(np.sqrt(exact + bound) - np.sqrt(exact), np.sqrt(exact) - low)
            exact = np.sqrt(exact)
            bound = bound + 3 * unit_roundoff(sums) * exact  # sqrt is off by 3 ulp at most
        assert_within(got, exact, bound)


def inner_products(d: Call) -> None:
    """``dot`` and ``vdot`` of two vectors."""
    name = d.programs.choice(("dot", "vdot"))
    dtype = np.dtype(d.programs.choice([*INTEGERS, *d.names(*REAL, *COMPLEX)]))
    n = d.draw.choice((d.extent(), d.draw.randint(1, 9000)))
    a, b = d.filled((n,), dtype), d.filled((n,), dtype)
    got = np.asarray(values(getattr(pg, name)(d.give(a), d.give(b), **d.record(name))))
    assert (got.shape, got.dtype) == ((), dtype)
    left = a.conj() if name == "vdot" else a
    if dtype.kind in "iu":
        with np.errstate(over="ignore"):
            assert got == (left * b).sum(dtype=dtype)
        return
    sums = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    products = wider(left) * wider(b)
    # Of complex numbers each part is off by 16 u of the sum of |a| |b|.
    bound = sum_bound(np.abs(wider(a)) * np.abs(wider(b)), sums) * (
        sqrt(2) if dtype.kind == "c" else 1
    )
    assert_within(got, products.sum(), bound)


# -- products


def products(d: Call) -> None:
    """``matmul``, ``gemm`` or ``gemv``."""
    d.programs.choice((_matmul, _gemm, _gemv))(d)


def _floats(d: Call) -> list[str]:
    sixteen = ["float16"] if BFLOAT16 is None else ["float16", "bfloat16"]
    return [*sixteen, *d.names("float32", "float64", *COMPLEX)]


def _matmul(d: Call) -> None:
    dtype = _dtype(d.programs.choice([*_floats(d), *INTEGERS]))
    precision = d.programs.choice(PRECISIONS) if dtype == np.float32 else None
    m, k, n, batch = d.extent(90), d.extent(90), d.extent(90), d.batch()
    a = d.filled((k,) if d.flag(0.15) else (*d.part(batch), m, k), dtype)
    b = d.filled((k,) if d.flag(0.15) else (*d.part(batch), k, n), dtype)
    options = d.record("matmul", precision=precision)
    got = np.asarray(values(pg.matmul(d.give(a), d.give(b), **options)))
    assert got.dtype == dtype
    if dtype.kind in "iu":
        assert np.array_equal(got, np.matmul(a, b))
        return
    rows = a[None] if a.ndim == 1 else a
    columns = b[:, None] if b.ndim == 1 else b
    exact = np.matmul(wider(rows), wider(columns))
    bound = _product_bound(rows, columns, dtype, precision, d.engine)
    for array, axis in ((b, -1), (a, -1 if b.ndim == 1 else -2)):
        if array.ndim == 1:
            exact, bound = (np.take(x, 0, axis) for x in (exact, bound))
    assert_within(got, exact, bound)


def _product_bound(
    a: Any, b: Any, dtype: Any, precision: str | None, engine: Engine, alpha: Any = 1,
    beta: Any = 0, c: Any = None,
) -> Any:  # fmt: skip
    """Return the bound for any order of sums.

    On matrix units, which truncate, it is twice as large, and includes the errors of split values.
    """
    narrow, split = is_float16_like(dtype), precision not in (None, "ieee")
    sums = np.dtype(np.float32) if narrow else dtype
    bound = product_bound(a, b, sums, alpha, beta, c)
    if (narrow or split) and not engine.target.is_cpu:
        size = abs(alpha) * (np.abs(wider(a)) @ np.abs(wider(b)))
        bound = 2 * bound + 2 * SPLIT_ERRORS[precision or "ieee"] * size
    return bound


def _flipped(x: Any, flag: str) -> Any:
    x = np.swapaxes(x, -1, -2) if flag in "TC" else x
    return x.conj() if flag == "C" else x


def _factor(d: Call, dtype: Any, *every: float) -> Any:
    factor = d.draw.choice(every)
    return factor * (1 - 0.5j) if dtype.kind == "c" and d.flag(0.3) else factor


def _gemm(d: Call) -> None:
    dtype = _dtype(d.programs.choice(_floats(d)))
    narrow = is_float16_like(dtype)
    result = np.dtype("float32") if narrow and d.programs.random() < 0.5 else dtype
    precision = d.programs.choice(PRECISIONS) if dtype == np.float32 else None
    flags = [d.programs.choice("NTC") for _ in range(2)]
    m, k, n = d.extent(150), d.extent(150), d.extent(150)
    a, b = d.filled((m, k), dtype), d.filled((k, n), dtype)
    # As stored, so that the operand is what it was drawn as.
    stored = [np.ascontiguousarray(_flipped(x, flag)) for x, flag in ((a, flags[0]), (b, flags[1]))]
    alpha, beta = _factor(d, dtype, 1, 1, -0.5, 0), _factor(d, dtype, 0, 0, 1, -1.5)
    c = d.filled((m, n), result)
    options = {"alpha": alpha, "trans_a": flags[0], "trans_b": flags[1], "precision": precision}
    options = d.record("gemm", **options, beta=beta)
    if beta == 0 and result == dtype and d.flag():
        del options["beta"]
    else:
        seen = c if beta else np.full_like(c, np.nan)
        options["c"] = d.give(seen, writes=True)
    got = values(pg.gemm(*(d.give(x) for x in stored), **options))
    assert got.dtype == result
    exact = alpha * np.matmul(wider(a), wider(b)) + beta * wider(c)
    assert_within(got, exact, _product_bound(a, b, dtype, precision, d.engine, alpha, beta, c))


def _gemv(d: Call) -> None:
    dtype = _dtype(d.programs.choice([*_floats(d), *INTEGERS]))
    trans = d.programs.choice("NTC")
    m, n = d.draw.choice(((d.extent(), d.extent()), (d.extent(700), d.extent(700))))
    a, x, y = d.filled((m, n), dtype), d.filled((n,), dtype), d.filled((m,), dtype)
    stored = np.ascontiguousarray(_flipped(a, trans))
    whole = dtype.kind in "iu"
    alpha, beta = (1, 0) if whole else (_factor(d, dtype, 1, -0.5), _factor(d, dtype, 0, 0, 2))
    options = d.record("gemv", trans=trans, alpha=alpha, beta=beta)
    if beta or d.flag(0.3):
        options["y"] = d.give(y if beta or whole else np.full_like(y, np.nan), writes=True)
    else:
        del options["beta"]
    got = values(pg.gemv(d.give(stored), d.give(x), **options))
    assert got.dtype == dtype
    if whole:
        assert np.array_equal(got, np.matmul(a, x))
        return
    exact = alpha * np.matmul(wider(a), wider(x)) + beta * wider(y)
    bound = _product_bound(a, x[:, None], dtype, None, d.engine, alpha, beta, y[:, None])[:, 0]
    assert_within(got, exact, bound)


# -- transforms

_COMPLEX_LINES, _REAL_LINES = ("fft", "ifft", "irfft", "hfft"), ("rfft", "ihfft", "fft", "ifft")
_COSINES = ("dct", "idct", "dst", "idst")
_PRIMES = [n for n in range(2, 340) if all(n % p for p in range(2, n))]
_USUAL = (16, 17, 32, 48, 60, 64, 96, 100, 125, 128, 200, 256, 360, 500, 512, 1000, 1024)
_MOST = 30_000  # numbers of an array that is transformed


def transforms(d: Call) -> None:
    """A function of ``portable_gpu.fft`` along one axis or several, of any length and norm."""
    import scipy.fft

    every = ["float16", "int16", *d.names("float32", "float64", *COMPLEX)]
    dtype = np.dtype(d.programs.choice(every if d.names("float64") else [*every[:1], *every[2:]]))
    names = _COMPLEX_LINES if dtype.kind == "c" else (*_REAL_LINES, *_COSINES)
    name, several = d.programs.choice(names), d.programs.random() < 0.3
    rank = d.draw.randint(2 if several else 1, 3)
    axes = d.draw.sample(range(rank), d.draw.randint(2, rank) if several else 1)
    lengths, shape = _lengths(d, name, rank, axes)
    x, axes = d.filled(shape, dtype), [axis - rank if d.flag(0.3) else axis for axis in axes]
    options: dict[str, Any] = {"norm": d.draw.choice((None, "ortho", "forward", "backward"))}
    if name in _COSINES:
        options["type"] = d.programs.randint(1, 4)
    if several:
        name, options["axes"], options["s"] = f"{name}n", tuple(axes), tuple(lengths)
    else:
        options["axis"], options["n"] = axes[0], lengths[0]
    single = dtype in (np.float16, np.float32, np.complex64)
    wide = x.astype(_wider_lines(dtype, single))
    exact = np.asarray(getattr(scipy.fft, name)(wide, **options))
    got = values(getattr(pg.fft, name)(d.give(x), **d.record(name, **options)))
    computed = np.dtype(np.float32 if single else np.float64)
    assert got.dtype == (
        np.result_type(computed, np.complex64) if exact.dtype.kind == "c" else computed
    )
    if name.rstrip("n") in _COSINES:
        # Two Fourier transforms' worth of roundings, of all lines together (tests/device/test_dct).
        points = max(2, prod(lengths)) * 4
        error = np.linalg.norm((got - exact).ravel().astype(complex))
        bound = 2 * np.finfo(computed).eps * np.log2(points)
        assert error <= bound * np.linalg.norm(exact.ravel().astype(complex)), error
        return
    error = by_norm(exact, bound_of(computed, lengths), tuple(axes))(got)
    assert error <= 1, f"{error} bounds off"


def _wider_lines(dtype: Any, single: bool) -> Any:
    if dtype.kind == "c":
        return np.complex128 if single else np.clongdouble
    return np.float64 if single else np.longdouble


def _lengths(d: Call, name: str, rank: int, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Lengths of a transform, few for the same programs, and the input's shape.

    One in four axes of the input is cut off, or continued by zeros.
    """
    few = []
    for _ in range(3):
        limit = 400 if len(axes) == 1 else 40
        primes, usual = ([n for n in every if n <= limit] for every in (_PRIMES, _USUAL))
        few.append(d.programs.choice((d.programs.choice(primes), d.programs.randint(1, limit))))
        if d.programs.random() < 0.4:
            few[-1] = d.programs.choice(usual if len(axes) > 1 else _USUAL)
    smallest = 3 if name in _COSINES else 2 if name in ("irfft", "hfft") else 1
    lengths = [max(smallest, d.draw.choice(few)) for _ in axes]
    shape = [d.draw.choice((1, 2, 3, 5, 7, 17, 33)) for _ in range(rank)]
    for axis, n in zip(axes, lengths, strict=True):
        shape[axis] = max(1, n + d.draw.randint(-(n // 2), n)) if d.flag(0.25) else n
    if smallest == 2 and d.flag(0.75):
        shape[axes[-1]] = lengths[-1] // 2 + 1
    while prod(shape) > _MOST:
        others = [k for k in range(rank) if k not in axes and shape[k] > 1]
        shape[max(others or axes, key=shape.__getitem__)] //= 2
    return lengths, shape


def convolutions(d: Call) -> None:
    """A function of ``portable_gpu.signal``."""
    from scipy.signal import convolve as sums

    name = d.programs.choice(("fftconvolve", "oaconvolve", "convolve", "correlate"))
    dtypes = d.names("float32", "float64", *COMPLEX)
    exact_kinds = name in ("convolve", "correlate")
    dtype = np.dtype(d.programs.choice([*dtypes, *(INTEGERS if exact_kinds else ())]))
    mode = d.draw.choice(("full", "same", "valid"))
    rank = d.draw.randint(1, 2)
    limit = 600 if rank == 1 else 30
    small = [d.draw.randint(1, max(1, limit // 4)) for _ in range(rank)]
    large = [max(n, d.draw.randint(1, limit)) for n in small]
    a, b = d.filled(large, dtype), d.filled(small, dtype)
    options: dict[str, Any] = {"mode": mode}
    if exact_kinds:
        # By transforms integers are rounded: SciPy's own documentation says so.
        methods = ("auto", "direct") if dtype.kind in "iu" else ("auto", "direct", "fft")
        options["method"] = d.programs.choice(methods)
    operand = d.give(a), d.give(b)
    got = values(getattr(pg.signal, name)(*operand, **d.record(name, **options)))
    assert got.dtype == dtype
    if name == "correlate":
        b = np.flip(b).conj()
    if dtype.kind in "iu":
        expected = sums(a.astype(np.int64), b.astype(np.int64), mode=mode, method="direct")
        assert np.array_equal(got, expected.astype(dtype))  # modulo the width
        return
    wide = [x.astype(np.result_type(x, np.float64)) for x in (a, b)]
    exact = sums(*(wider(x) for x in wide), mode=mode, method="direct")
    assert got.shape == exact.shape
    # Each transform is off by a share e of its norm.  Those of the inputs are off in the result by
    # 2 e |a| |b| (Cauchy and Schwarz), its own by e of the norm of all results.
    padded = [n + m for n, m in zip(large, small, strict=True)]
    whole = sums(*wide, mode="full", method="direct")
    norms = [float(np.linalg.norm(x)) for x in (*wide, whole)]
    each = bound_of(dtype, [2 ** int(np.ceil(np.log2(n))) for n in padded])
    by_transforms = each * (2 * norms[0] * norms[1] + norms[2])
    steps = (prod(small) + 3) * (4 if dtype.kind == "c" else 1)
    by_sums = steps * unit_roundoff(dtype) * sums(*(np.abs(x) for x in wide), mode=mode)
    assert np.all(np.abs(got - exact) <= np.maximum(by_transforms, by_sums + 1e-300)), "bound"


# -- groups of devices


class GroupCall(Call):
    """A call with ``engine=`` a group, whose arrays are NumPy's, in blocks, or replicated."""

    def __init__(self, call: Call) -> None:
        self.__dict__ |= call.__dict__
        self.group, self.kind, self.can_transpose = _drawn_group(call), "host", False
        self.engine = self.group.engines[0]

    def give(self, x: Any, writes: bool = False, in_line: bool = False) -> Any:
        """See :class:`Drawn`."""
        host = super().give(x, writes, in_line)
        axis = self.draw.randrange(host.ndim) if host.ndim else 0
        blocks = self.draw.choice((None, 1, 2, 3, 5))
        kind = self.draw.choice(("blocks", "blocks", "all", "host"))
        if kind == "host":
            return host
        if kind == "all" or not host.ndim:
            self.descriptions[-1] += " replicated"
            return self.group.broadcast(host)
        self.descriptions[-1] += f" in {blocks} blocks of axis {axis}"
        if blocks is not None:
            blocks = min(blocks, max(1, host.shape[axis]))
        return self.group.asarray(host, axis, blocks=blocks)

    def record(self, function: str, **options: Any) -> dict[str, Any]:
        """See :class:`Call`."""
        return {**super().record(function, **options), "engine": self.group}


@lru_cache(maxsize=1)
def _devices_of_groups() -> list[Any]:
    """All devices of the default runtime, or two sub-devices of one, as far as there are any."""
    with DeviceGroup("all") as every:
        devices = [engine.device for engine in every.engines]
    if len(devices) == 1:
        try:
            with DeviceGroup(2) as two:
                return [engine.device for engine in two.engines]
        except UnsupportedError:
            pass
    return devices[:4]


@lru_cache(maxsize=8)
def _group(shares: tuple[int, ...]) -> DeviceGroup:
    """A group of as many devices as there are shares."""
    return DeviceGroup(_devices_of_groups()[: len(shares)], shares=shares)


def _drawn_group(d: Call) -> DeviceGroup:
    """One to four devices, with equal shares or others, of which some are 0."""
    count = min(d.programs.randint(1, 4), len(_devices_of_groups()))
    shares = d.programs.choice(((1, 1, 1, 1), (1, 3, 2, 1), (1, 0, 1, 0)))
    d.descriptions.append(f"on {count} devices by shares {shares[:count]}")
    return _group(shares[:count])


def sparse_on_groups(d: Call) -> None:
    """A factor of a sparse matrix on one device and on two, and solves with it."""
    import random_sparse

    d.dtype = np.dtype(d.programs.choice(d.names(*FACTORS)))
    both = _group((1,)), _drawn_group(d)
    d.descriptions += random_sparse.solve_on_groups(both, d.dtype, d.draw, d.rng, 400)


def movements(d: GroupCall) -> None:
    """Arrays to a group, their parts, sums of their blocks, and back."""
    dtype = _dtype(d.programs.choice(["bool", *INTEGERS, *_floats(d)]))
    x = d.filled((d.extent(20) + 1, *d.shape(900, 2)), dtype)
    there = d.give(x)
    if isinstance(there, np.ndarray):
        rows = sorted(d.draw.randint(0, len(x)) for _ in range(d.draw.randint(0, 4)))
        there = d.group.scatter(np.split(there, rows))
    key = tuple(
        slice(*sorted(d.draw.randint(-2, n + 2) for _ in range(2)))
        for n in x.shape[: d.draw.randint(0, x.ndim)]
    )
    d.record(f"broadcast, slices {key}, gather, asnumpy, all_reduce")
    if d.flag(0.3):
        there = d.group.broadcast(there)
    part, expected = there[key], x[key]
    assert (part.shape, part.dtype, part.size) == (expected.shape, x.dtype, expected.size)
    out = np.empty(expected.shape[::-1], dtype).T if d.flag() else None
    got = part.asnumpy(out)
    assert out is None or got is out
    gathered = part.gather(d.draw.randrange(d.group.size)).get()
    for each in (got, gathered, d.group.broadcast(part).asnumpy()):
        assert np.ascontiguousarray(each).tobytes() == np.ascontiguousarray(expected).tobytes()
    if dtype.kind in "iu":
        blocks = d.draw.randint(1, 5)
        stacked = d.filled((blocks, *x.shape), dtype)
        total = d.group.all_reduce(d.group.asarray(stacked, blocks=blocks)).asnumpy()
        assert np.array_equal(total[0], stacked.sum(0, dtype=dtype))


def factors_on_groups(d: GroupCall) -> None:
    """A Cholesky factor and solutions, of NumPy's arrays and of those of the group."""
    dtype = np.dtype(d.programs.choice(d.names(*FACTORS)))
    n, count = d.draw.randint(1, 70), d.draw.choice((None, 0, 1, 3, 300))
    g, lower = d.filled((n, n), dtype), d.flag()
    a = (g @ g.conj().T + n * np.eye(n)).astype(dtype)
    b = d.filled((n,) if count is None else (n, count), dtype)
    options = d.record("linalg.cholesky, cho_solve", lower=lower)
    factor = pg.linalg.cholesky(d.give(a), **options)
    whole = np.asarray(values_of(factor))
    assert np.array_equal(whole, np.tril(whole) if lower else np.triu(whole))
    left = whole if lower else whole.conj().T
    u = unit_roundoff(dtype) * (4 if dtype.kind == "c" else 1)
    bound = (n + 2) * u * (np.abs(left) @ np.abs(left).T)
    assert_within(left @ left.conj().T.astype(wider(left).dtype), wider(a), 2 * bound)
    x = values_of(pg.linalg.cho_solve((factor, lower), d.give(b), engine=d.group))
    residual = np.abs(wider(a) @ wider(x) - wider(b))
    sizes = np.abs(left) @ (np.abs(left).T @ np.abs(wider(x)))
    assert np.all(residual <= 3 * (n + 2) * u * sizes)  # Higham, 2002, theorem 10.4


def values_of(x: Any) -> Any:
    """Return an array of a group or of NumPy in NumPy."""
    return x if isinstance(x, np.ndarray) else x.asnumpy()


def groups(d: Call) -> None:
    """A call of another family on a group, which may refuse functions and blocks."""
    computed = elementwise, reductions, inner_products, products, transforms
    others = convolutions, *random_layers.FAMILIES.values()
    own = sparse_on_groups, movements, factors_on_groups
    family = d.programs.choice(d.programs.choice((computed, others, own)))
    call = GroupCall(d)
    try:
        family(call)
    except (UnsupportedError, ArgumentError, ArgumentTypeError) as error:
        if not re.search("DeviceGroup|GroupArray|group|are cut along k|the result is", str(error)):
            raise


# -- streamed operations


class StreamedCall(Call):
    """A call on tiles of NumPy's arrays: on the host's memory, on copies, or by a group."""

    def __init__(self, call: Call) -> None:
        self.__dict__ |= call.__dict__
        self.kind = "host"
        self.place: Any = self.engine
        if self.flag(0.4):
            self.place = self.engine = _copying(self.engine)
        elif self.flag(0.4):
            self.place = _drawn_group(call)

    def record(self, function: str, **options: Any) -> dict[str, Any]:
        """See :class:`Call`."""
        return {**super().record(function, **options), "engine": self.place}


def streamed(d: Call) -> None:
    """A reduction, a product or a transform in tiles, within a limit that is drawn."""
    d.programs.choice(
        (
            _streamed_reduction, _streamed_reduction, _streamed_product, _streamed_fftn,
            _streamed_convolution,
        )
    )(StreamedCall(d))  # fmt: skip


def _streamed_out(d: Call, shape: Sequence[int], dtype: Any) -> Any:
    """``None``, or an array for a result, of any strides."""
    kind = d.draw.choice(("none", "plain", "transposed", "gaps"))
    d.descriptions.append(f"out: {kind}")
    if kind == "none":
        return None
    if kind == "transposed":
        return np.empty(tuple(shape)[::-1], dtype).T
    out = np.empty((*shape, 2), dtype)[..., 0]
    return out if kind == "gaps" else np.ascontiguousarray(out)


@lru_cache(maxsize=4)
def _copying(engine: Engine) -> Engine:
    """An engine on the same device, to which tiles are copied as to a GPU."""
    other = Engine(engine.device)
    other.maps_host_memory = other.takes_host_pointers = False
    return other


def _streamed_reduction(d: Call) -> None:
    name = d.programs.choice(("sum", *_MOMENTS, *_ORDERED, "nrm2"))
    real = d.names(*REAL)
    every = real if name == "nrm2" or "float64" not in real else [*INTEGERS, *real]
    dtype = np.dtype(d.programs.choice(every))
    x = d.filled([max(1, extent) for extent in d.shape(3000, 3)], dtype)
    if name in _ORDERED and dtype.kind == "f" and d.flag(0.5):
        x = np.round(x)
        if d.flag(0.3):
            x.reshape(-1)[d.draw.randrange(x.size)] = np.nan
    if name in _MOMENTS and dtype.itemsize > 2 and dtype.kind == "f" and d.flag(0.5):
        x = x + dtype.type(d.draw.choice((1e3, 1e5)))
    axis = _axis(d, x.ndim, single=name.startswith("arg"))
    options: dict[str, Any] = {"axis": axis, "keepdims": d.flag()}
    limit = 2 * dtype.itemsize * d.draw.choice((3, 30, 500, 5000))
    limited = d.record(f"streaming.{name}", memory_limit=limit, **options)
    got = np.asarray(getattr(streaming, name)(d.give(x), **limited))
    _check_reduction(name, x, _folded(x, axis), options, 0, got)


def _streamed_product(d: Call) -> None:
    dtype = _dtype(d.programs.choice(_floats(d)))
    trans = {f"trans_{name}": d.programs.choice("NTC") for name in "ab"}
    m, k, n = (d.extent(200) for _ in range(3))
    a = d.filled((m, k) if trans["trans_a"] == "N" else (k, m), dtype)
    b = d.filled((k, n) if trans["trans_b"] == "N" else (n, k), dtype)
    limit = 2 * 64 * 64 * 3 * max(4, dtype.itemsize) * d.draw.choice((1, 2, 8))
    alpha = d.draw.choice((1, 1, -0.5))
    options = d.record("streaming.gemm", memory_limit=limit, alpha=alpha, **trans)
    options["out"] = _streamed_out(d, (m, n), dtype)
    got = streaming.gemm(d.give(a), d.give(b), **options)
    assert got.dtype == dtype
    turn = {"N": lambda x: x, "T": np.transpose, "C": lambda x: x.conj().T}
    left, right = turn[trans["trans_a"]](a), turn[trans["trans_b"]](b)
    exact = alpha * np.matmul(wider(left), wider(right))
    assert_within(got, exact, _product_bound(left, right, dtype, None, d.engine, alpha))


def _streamed_fftn(d: Call) -> None:
    dtype = np.dtype(d.programs.choice(d.names("float32", "float64", *COMPLEX)))
    shape = [d.programs.randint(1, 14) for _ in range(d.programs.randint(1, 3))]
    axes = d.draw.sample(range(len(shape)), d.draw.randint(1, len(shape)))
    x, name = d.filled(shape, dtype), d.programs.choice(("fftn", "ifftn"))
    single = dtype in (np.float32, np.complex64)
    itemsize = 8 if single else 16
    limit = 6 * itemsize * max(shape) * d.draw.choice((1, 3, 20))
    norm = d.draw.choice((None, "ortho", "forward"))
    options = d.record(f"streaming.{name}", axes=axes, norm=norm, memory_limit=limit)
    options["out"] = _streamed_out(d, shape, np.complex64 if single else np.complex128)
    got = getattr(streaming, name)(d.give(x), **options)
    assert got.itemsize == itemsize
    exact = getattr(np.fft, name)(x.astype(np.complex128), axes=axes, norm=norm)
    bound = bound_of(np.dtype(np.float32 if single else np.float64), [shape[at] for at in axes])
    assert by_norm(exact, 2 * bound, tuple(axes))(got) <= 1  # NumPy's own roundings as well


def _streamed_convolution(d: Call) -> None:
    dtype = _dtype(d.programs.choice(d.names("float16", "float32", "float64")))
    rank, groups = d.programs.randint(1, 3), d.programs.choice((1, 1, 2))
    kernel = [d.programs.choice((1, 2, 3)) for _ in range(rank)]
    pads = [(n // 2, n // 2) for n in kernel]
    stride = [d.draw.randint(1, 2) for _ in range(rank)]
    space = [d.draw.randint(n, n + 12) for n in kernel]
    x = d.filled((d.draw.choice((0, 1, 3, 5)), groups * d.draw.randint(1, 3), *space), dtype)
    w = d.filled((groups * d.draw.randint(1, 3), x.shape[1] // groups, *kernel), dtype)
    kind = random_layers.sums.Kind(kernel, stride, [1] * rank, pads)
    exact, size = (
        random_layers.sums.forward(f(wider(x)), f(wider(w)), kind, groups)
        for f in (lambda each: each, np.abs)
    )
    limit = dtype.itemsize * 8 * (x.size + exact.size + w.size) // d.draw.choice((1, 2, 4)) + 4000
    options = d.record(
        f"streaming.conv{rank}d", stride=tuple(stride), padding=tuple(n for n, _ in pads),
        groups=groups, memory_limit=limit,
    )  # fmt: skip
    options["out"] = _streamed_out(d, exact.shape, dtype)
    got = getattr(streaming, f"conv{rank}d")(d.give(x), d.give(w), **options)
    assert got.dtype == dtype
    terms = prod(w.shape[1:]) + 2
    u = unit_roundoff(np.float32 if dtype.itemsize == 2 else dtype)
    assert_within(got, exact, terms * u * size + unit_roundoff(dtype) * np.abs(exact))


# -- the others


def copies(d: Call) -> None:
    """To the device and back."""
    dtype = _dtype(d.programs.choice(["bool", *INTEGERS, *_floats(d)]))
    x = d.filled(d.shape(), dtype)
    d.record("asnumpy(asarray)")
    there = pg.asarray(d.give(x), engine=d.engine)
    assert (there.shape, there.dtype) == (x.shape, x.dtype)
    assert pg.asnumpy(there).tobytes() == x.tobytes()


def factors(d: Call) -> None:
    """A function of ``portable_gpu.linalg``."""
    call = d.programs.choice(random_linalg.CALLS)
    d.dtype = np.dtype(d.programs.choice(d.names(*FACTORS)))
    d.record(f"{call.__name__} {d.dtype}")
    call(d)


def sparse_systems(d: Call) -> None:
    """A factor of a sparse matrix, and solves with it."""
    import random_sparse

    d.dtype = np.dtype(d.programs.choice(d.names(*FACTORS)))
    d.descriptions += random_sparse.solve(d.engine, d.dtype, d.draw, d.rng, 400)


#: Those of layers.
LAYERS = {**random_layers.FAMILIES, **random_variants.FAMILIES, **random_modules.FAMILIES}
#: By name; the packages without which they cannot be checked.
FAMILIES: dict[str, tuple[Callable[[Call], None], tuple[str, ...]]] = {
    "elementwise": (elementwise, ()),
    "reduce": (reductions, ()),
    "dot": (inner_products, ()),
    "products": (products, ()),
    "linalg": (factors, ()),
    "fft": (transforms, ("scipy",)),
    "signal": (convolutions, ("scipy",)),
    "sparse": (sparse_systems, ("scipy", "llvmlite")),
    "copies": (copies, ()),
    "groups": (groups, ("scipy",)),
    "streaming": (streamed, ()),
    **{name: (call, ()) for name, call in LAYERS.items()},
}


def lacking(family: str) -> list[str]:
    """The packages of a family that are not installed."""
    return [name for name in FAMILIES[family][1] if find_spec(name) is None]


def drawn(
    family: str, seed: int, number: int, programs: int, engine: Engine, values: int = 0
) -> Call:
    """Call ``number`` of a family, which shares its programs with every ``programs``-th call.

    Calls that differ in ``values`` only have other numbers in the same arrays.
    """
    shared = random.Random(f"{seed} {family} {number % programs}")
    return Call(
        shared, random.Random(f"{seed} {family} {number}."), engine, number + (values << 32)
    )


def check(family: str, call: Call) -> None:
    """Make the call and compare.

    Raises:
        AssertionError: Its result is wrong, or an input has changed.
    """
    FAMILIES[family][0](call)
    call.check_given()
