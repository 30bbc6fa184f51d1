"""The record of functions of random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.arguments import whole
from portable_gpu.checking.check import Check, Expected
from portable_gpu.checking.edges import Guarded
from portable_gpu.checking.inputs import Input
from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.errors import DTypeError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.family import Benchmark, Compiled, Family, OperationRecord, Sizes, Typical
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.random.api import dropout
from portable_gpu.ops.random.plan import DropoutProblem, render, variants
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def problem(dtype: np.dtype[Any], shape: tuple[int, ...]) -> DropoutProblem:
    """The problem of C-ordered arrays."""
    elem, strides = element(dtype), contiguous_strides(shape)
    if not elem.floating or elem.complex:
        raise DTypeError(f"dropout takes floating numbers, not {dtype}")
    return DropoutProblem(elem, shape, (strides, strides), 16)


def specializations(target: Target, dtype: np.dtype[Any]) -> list[Specialization]:
    """The kernels of a C-ordered array, and of a view of a matrix with gaps."""
    elem = element(dtype)
    if not elem.floating or elem.complex:
        return []
    gaps = DropoutProblem(elem, (64, 64), ((128, 2), (64, 1)), 16)
    return [render(item, target) for item in (problem(dtype, (1 << 20,)), gaps)]


def explain(question: Question, *, seed: int = 0) -> Explanation:
    """Explain the kernel of C-ordered arrays of a shape; it is the same for every seed."""
    whole(seed, "seed")
    return question.answer(variants(problem(question.dtype, question.sizes), question.target))


_SEED = 5


def kept_elements(size: int, p: float, seed: int) -> np.ndarray[Any, Any]:
    """Return whether dropout keeps each element, by Philox4x32-10 in NumPy with 64-bit products.

    Args:
        size: The number of elements; each block of four has a counter.
        p: The probability that an element is dropped.
        seed: The key, of 64 bits.
    """
    blocks = np.arange(-(-size // 4), dtype=np.uint64)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)  # these give the halves of a product
    words = [blocks & low, blocks >> shift, np.zeros_like(blocks), np.zeros_like(blocks)]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [
            (second >> shift) ^ words[1] ^ np.uint64(keys[0]), second & low,
            (first >> shift) ^ words[3] ^ np.uint64(keys[1]), first & low,
        ]  # fmt: skip
        steps = zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)
        keys = [(key + step) & 0xFFFFFFFF for key, step in steps]
    return np.stack(words, 1).reshape(-1)[:size] >= round(p * 2**32)


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Arrays of odd sizes in every floating dtype, and a view with gaps."""
    for dtype in dtypes:
        if dtype.kind not in "iubc":
            yield _check(Input(dtype, (1001,)))
    yield _check(Input(np.dtype(np.float32), (33, 57), "stepped"))


def _check(x: Input) -> Check:
    def run(engine: Engine) -> Any:
        result = Guarded(engine, x.shape, x.dtype, False)
        dropout(x.array(engine), 0.5, seed=_SEED, out=result.array, engine=engine)
        return result.checked()

    def expected() -> Expected:
        values = x.host()
        mask = kept_elements(values.size, 0.5, _SEED).reshape(values.shape)
        return Expected(np.where(mask, values * values.dtype.type(2), 0), None, x.dtype)

    return Check("dropout", f"{x}", run, expected)


def _oracle(_case: Case, inputs: Operands) -> Oracle:
    x = inputs[0]
    expected = np.where(kept_elements(x.size, 0.5, _SEED).reshape(x.shape), x * x.dtype.type(2), 0)
    return lambda found: 0.0 if np.array_equal(found, expected) else np.inf


_DROPOUT = OperationRecord(
    name="dropout",
    function=dropout,
    explain=explain,
    specializations=specializations,
    compiled=("float32", "float16"),
    options=lambda case: {"seed": _SEED},
    exact=True,
    typical=Typical(((1000,),), function=partial(dropout, seed=_SEED)),
)
_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="2^20,2^24", gpu="2^24,2^28"),
    layers=Sizes(cpu="2048x1000", gpu="2^14x4096"),
    flop=lambda case: prod(case.extents),
    bytes=lambda case: 2 * prod(case.extents) * element(dtype_of(case.dtype)).itemsize,
    oracle=_oracle,
    form="a shape",
    label="shape",
    call=lambda _case, _: PublicCall("nn.dropout", {"seed": _SEED}),
)
RANDOM_NUMBERS = Family(
    name="random",
    operations=(_DROPOUT,),
    checks=checks,
    benchmarks={"dropout": _BENCHMARK},
    kernels={"random/dropout": Compiled(strided=True)},
)
