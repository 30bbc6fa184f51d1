"""What each reduction computes, and in which dtypes: from the inputs' dtypes to a Request.

A rule gives the request and the dtype of the result.  Raises DTypeError where dtypes do not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from portable_gpu.codegen.operators import BinaryOp, Map
from portable_gpu.codegen.reductions import Request
from portable_gpu.dtypes import element, is_float16_like
from portable_gpu.errors import DTypeError, UnsupportedError
from portable_gpu.runtime.broadcast import common_dtype

DType = np.dtype[Any]
Maker = Callable[..., tuple[Request, DType]]
_BOOL, _INT64, _FLOAT64 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float64)


@lru_cache(maxsize=128)
def sum_like(name: str, dtype: DType | None) -> Maker:
    """Of ``sum`` and ``prod``, added as ``dtype`` (``None``: NumPy's choice)."""

    def make(x: DType) -> tuple[Request, DType]:
        result = _sum_dtype(x) if dtype is None else dtype
        _no_complex_to_real(x, result)
        elem = element(result)
        logical = {"sum": "any", "prod": "all"}[name] if elem.boolean else name
        return Request(logical, element(x), elem, elem), result

    return make


@lru_cache(maxsize=128)
def mean(dtype: DType | None) -> Maker:
    """Of ``mean``, computed in ``dtype``."""

    def make(x: DType) -> tuple[Request, DType]:
        result = _inexact(x) if dtype is None else dtype
        _need_inexact(result, "mean")
        _no_complex_to_real(x, result)
        elem = element(result)
        return Request("mean", element(x), elem, elem), result

    return make


@lru_cache(maxsize=128)
def moment(dtype: DType | None, ddof: float, root: bool) -> Maker:
    """Of ``var``, and of ``std`` with ``root``."""

    def make(x: DType) -> tuple[Request, DType]:
        wide = _inexact(x) if dtype is None else dtype
        _need_inexact(wide, "var")
        _no_complex_to_real(x, wide)
        result = _real(wide) if dtype is None else dtype
        acc = element(wide if x.kind == "c" else _real(wide))
        request = Request("moment", element(x), acc, element(result), ddof=ddof, root=root)
        return request, result

    return make


def minimum(x: DType) -> tuple[Request, DType]:
    """Of ``min``."""
    return Request("min", element(x), element(x), element(x)), x


def maximum(x: DType) -> tuple[Request, DType]:
    """Of ``max``."""
    return Request("max", element(x), element(x), element(x)), x


def argmin(x: DType) -> tuple[Request, DType]:
    """Of ``argmin``."""
    return Request("argmin", element(x), element(x), element(_INT64)), _INT64


def argmax(x: DType) -> tuple[Request, DType]:
    """Of ``argmax``."""
    return Request("argmax", element(x), element(x), element(_INT64)), _INT64


def any_(x: DType) -> tuple[Request, DType]:
    """Of ``any``."""
    return Request("any", element(x), element(_INT64), element(_BOOL)), _BOOL


def all_(x: DType) -> tuple[Request, DType]:
    """Of ``all``."""
    return Request("all", element(x), element(_INT64), element(_BOOL)), _BOOL


def count_nonzero(x: DType) -> tuple[Request, DType]:
    """Of ``count_nonzero``."""
    return Request("count_nonzero", element(x), element(_INT64), element(_INT64)), _INT64


def asum(x: DType) -> tuple[Request, DType]:
    """Of ``asum``."""
    result = _real(_sum_dtype(x))
    return Request("asum", element(x), element(result), element(result)), result


def nrm2(x: DType) -> tuple[Request, DType]:
    """Of ``nrm2``."""
    result = _real(_inexact(x))
    return Request("nrm2", element(x), element(result), element(result)), result


def dot(a: DType, b: DType) -> tuple[Request, DType]:
    """Of ``dot``."""
    return _product("dot", a, b)


def vdot(a: DType, b: DType) -> tuple[Request, DType]:
    """Of ``vdot``."""
    return _product("vdot", a, b)


def _product(name: str, a: DType, b: DType) -> tuple[Request, DType]:
    try:
        result = np.result_type(a, b)
    except TypeError as error:
        raise DTypeError(f"{name}: a has dtype {a}, b has {b}: {error}") from error
    elem = element(result)
    return Request(name, element(a), elem, elem, y=element(b)), result


@lru_cache(maxsize=128)
def custom(op: BinaryOp, mapping: Map, dtype: DType | None, names: tuple[str, ...] = ()) -> Maker:
    """Of ``reduce`` with a user's operator; ``names`` are those of the inputs after ``x``."""

    def make(x: DType, *others: DType) -> tuple[Request, DType]:
        common = common_dtype(dict(zip(("x", *names), (x, *others), strict=True)))
        result = common if dtype is None else dtype
        if common.kind == "c" or result.kind == "c":
            have = f"x has dtype {x}" if not others else f"the inputs' common dtype is {common}"
            raise UnsupportedError(f"reduce takes real arrays; {have}, dtype is {result}")
        elem = element(result)
        more = tuple(zip(names, map(element, others), strict=True))
        request = Request(
            "reduce", element(x), elem, elem, op=op, map=mapping, others=more,
            compute=element(common),
        )  # fmt: skip
        return request, result

    return make


def _sum_dtype(x: DType) -> DType:
    if x.kind in "bi":
        return _INT64
    return np.dtype(np.uint64) if x.kind == "u" else x


def _inexact(x: DType) -> DType:
    return _FLOAT64 if x.kind in "biu" else x


def _real(x: DType) -> DType:
    return np.empty(0, x).real.dtype if x.kind == "c" else x


def _need_inexact(dtype: DType, name: str) -> None:
    if dtype.kind not in "fc" and not is_float16_like(dtype):
        raise DTypeError(f"{name} is floating; dtype={dtype} is not, float32 or float64 would do")


def _no_complex_to_real(x: DType, result: DType) -> None:
    if x.kind == "c" and result.kind != "c":
        raise DTypeError(f"x has dtype {x}; dtype={result} would drop the imaginary parts")
