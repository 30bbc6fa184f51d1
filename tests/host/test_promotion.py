"""Dtypes of operators, compared with NumPy's, for every pair of dtypes and numbers of Python."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

from portable_gpu.errors import DTypeError
from portable_gpu.ops.arrays import rules

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
UNARY = {"negative", "positive", "invert", "absolute", "conjugate"}
NUMBERS = (True, 1, 1.0, 1j)
is_numpy_2 = np.lib.NumpyVersion(np.__version__) >= "2.0.0"


def expected(name: str, *operands: Any) -> Any:
    """The dtype of NumPy's result; none if it refuses the operands."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(np, name)(*operands).dtype
        except TypeError:
            return None


@pytest.mark.skipif(not is_numpy_2, reason="NumPy before 2 has other rules for numbers of Python")
@pytest.mark.parametrize("name", sorted(rules.SIGNS.keys() - UNARY))
def test_two_operands(name: str) -> None:
    arrays = [np.ones(1, dtype) for dtype in DTYPES]
    for left, right in itertools.chain(
        itertools.product(arrays, arrays), itertools.product(arrays, NUMBERS)
    ):
        kinds = left.dtype, getattr(right, "dtype", type(right))
        target_result = expected(name, left, right)
        if target_result is None:
            with pytest.raises(DTypeError):
                rules.binary(name, *kinds)
        else:
            assert rules.binary(name, *kinds).result == target_result, kinds


@pytest.mark.parametrize("name", sorted(UNARY))
def test_one_operand(name: str) -> None:
    for dtype in DTYPES:
        target_result = expected(name, np.ones(1, dtype))
        if target_result is None:
            with pytest.raises(DTypeError):
                rules.unary(name, np.dtype(dtype))
        elif (name, dtype) != ("conjugate", "?"):  # which Array.conj leaves as it is
            assert rules.unary(name, np.dtype(dtype)).result == target_result, dtype
