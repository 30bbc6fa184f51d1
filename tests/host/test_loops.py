"""Machine code of loops against Python, which interprets the same functions."""

from __future__ import annotations

import _thread
import ctypes
import gc
import inspect
import math
import operator
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_matrices import random_definite

from portable_gpu.errors import HostMemoryError
from portable_gpu.sparse import analyze, compiled
from portable_gpu.sparse.compiled import compiled_at_once, inner
from portable_gpu.sparse.loops import machine_code
from portable_gpu.sparse.loops.instructions import ALLOCATE, FREE, NotTranslatedError

WORDS = st.integers(-(2**31), 2**31 - 1)
SHIFT, SCALE = 3, 0.75


class Pair(NamedTuple):
    first: Any
    second: Any


@compiled_at_once
def integers(x: int, y: int, z: int) -> tuple[int, int, int, int, int]:
    quotient = x // z
    remainder = x % z
    bits = ((x & y) | (y ^ 21)) << SHIFT >> 2
    sums = -x + y * 3 - (x - y)
    return quotient, remainder, bits, sums, abs(min(x, y)) + max(x, y)


@compiled_at_once
def floats(x: int, y: float) -> tuple[float, float, int, float, float, bool]:
    total = 0.5
    total = x
    total /= 7
    less = x < y
    return total * y, -y, int(y / 3), min(x, y), max(y, SCALE) + math.sqrt(abs(x)), less


@compiled_at_once
def flow(values: np.ndarray[Any, Any], limit: int) -> tuple[int, int, int]:
    n = len(values)
    seen = odd = last = 0
    for k in range(n - 1, -1, -2):
        if values[k] == limit:
            continue
        if values[k] > limit and not values[k] > 2 * limit:
            seen += 1
        elif values[k] < -limit or k == 0:
            break
        else:
            k = 2 * k
        last = k
    k = 0
    while k < n and values[k] != limit:  # an index beyond the end is not read
        k += 1
    for v in values:
        odd += 1 if v % 2 else 0
    return seen + 10 * k, odd, last


@inner
def halves(a: np.ndarray[Any, Any], middle: int) -> Pair:
    return Pair(a[:middle], a[middle:])


@inner
def doubled(a: np.ndarray[Any, Any], count: int) -> Pair:
    copy = a.copy()
    scratch = np.ones(count, np.float64)
    for k in range(len(copy)):
        copy[k] += a[k] + int(scratch[0]) - 1
    return Pair(halves(copy, len(a) // 2).second, np.full(count, len(a), np.int8))


@compiled_at_once
def arrays(a: np.ndarray[Any, Any], table: np.ndarray[Any, Any], pair: Pair) -> Any:
    """Results are views of arguments, of own arrays and of those of called functions."""
    for k in range(len(a)):
        table[k, 1] += 2 * a[k]
        pair.first[k] = not pair.first[k] and a[k] > 0
    rest = doubled(a, 3)
    numbers = np.arange(7, dtype=np.int32)
    a, whole = a[1:], a
    nothing = np.empty(0, np.bool_)
    pairs = Pair(rest.first, numbers[2:5]) if pair.second else Pair(numbers[1:3], numbers)
    none = np.arange(-len(a), dtype=np.int64)
    return a, whole[: len(a)], pairs, rest.second, nothing, np.zeros(2, np.float64), none


@compiled_at_once
def much(count: int) -> int:
    small = doubled(np.zeros(1000, np.int64), 8)
    return len(np.zeros(count, np.float64)) + len(small.second)


def python(loop: Callable[..., Any]) -> Callable[..., Any]:
    return inspect.unwrap(loop)


def assert_same(result: Any, expected: Any) -> None:
    if isinstance(result, tuple):
        assert type(result) is type(expected)
        assert len(result) == len(expected)
        for item, other in zip(result, expected, strict=True):
            assert_same(item, other)
    elif isinstance(result, np.ndarray):
        assert result.dtype == expected.dtype
        assert result.tolist() == expected.tolist()
    else:
        assert result == expected


@given(WORDS, WORDS, WORDS.filter(bool))
@settings(deadline=None)
def test_integers(x: int, y: int, z: int) -> None:
    assert_same(integers(x, y, z), python(integers)(x, y, z))


@given(WORDS, st.floats(-1e6, 1e6))
@settings(deadline=None)  # the first call compiles
def test_floats(x: int, y: float) -> None:
    assert_same(floats(x, y), python(floats)(x, y))


@given(st.lists(st.integers(-9, 9), max_size=12), st.integers(0, 5))
@settings(deadline=None)
def test_flow(values: list[int], limit: int) -> None:
    for dtype in (np.int8, np.int32, np.int64):
        array = np.array(values, dtype)
        assert_same(flow(array, limit), python(flow)(array.astype(int), limit))


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=7), st.booleans())
@settings(deadline=None)
def test_arrays(values: list[int], second: bool) -> None:
    results, tables, flags = [], [], []
    for loop in (arrays, python(arrays)):
        a, table = np.array(values, np.int32), np.arange(14).reshape(7, 2)
        flag = np.arange(7) % 2 == 0
        results.append(loop(a, table, Pair(flag, second)))
        tables.append(table)
        flags.append(flag)
    assert_same(*results)
    assert_same(*tables)
    assert_same(*flags)


def test_arrays_of_one_memory_outlive_each_other() -> None:
    a, table = np.ones(7, np.int32), np.zeros((7, 2), np.int64)
    pair = arrays(a, table, Pair(np.zeros(7, np.bool_), False))[2]
    first, whole = pair
    assert first.ctypes.data == whole[1:].ctypes.data
    first += 10
    del pair, whole
    gc.collect()
    others = [arrays(a, table, Pair(np.zeros(7, np.bool_), False)) for _ in range(50)]
    assert first.tolist() == [11, 12]
    assert all(each[2].second.tolist() == list(range(7)) for each in others)


def test_memory_is_freed() -> None:
    """Also where memory is short, or a call of a called function has allocated."""
    a, table = np.ones(1000, np.int32), np.zeros((1000, 2), np.int64)

    def calls() -> None:
        arrays(a, table, Pair(np.zeros(1000, np.bool_), True))
        assert much(5) == 13
        for count in (2**58, 2**62, -1):
            with pytest.raises(HostMemoryError, match="memory of the host is too small"):
                much(count)
        gc.collect()  # the exceptions

    calls()
    tracemalloc.start()
    try:
        calls()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            calls()
        assert tracemalloc.get_traced_memory()[0] - before < 4000  # arrays have 1000 elements
    finally:
        tracemalloc.stop()


def test_a_signal_as_memory_is_freed_is_not_dropped() -> None:
    """It arrives before the array is deleted, and no code in Python runs in between."""
    allocates = compiled_at_once(makes_two_arrays)
    arrays = [allocates(1000)]
    with pytest.raises(KeyboardInterrupt):
        list(map(operator.call, [_thread.interrupt_main, arrays.clear]))
    assert not arrays
    unused = {number for number, each in machine_code._owned.items() if each() is None}
    assert len(unused) >= 2
    allocates(1000)
    assert not unused & {*machine_code._owned}


def test_memory_is_freed_if_a_signal_handler_raises() -> None:
    """A tracing function raises before each instruction in turn, as a signal handler may."""
    allocates = compiled_at_once(makes_two_arrays)
    left = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != machine_code.__file__:
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left == 0:
            raise KeyboardInterrupt
        return trace

    def interrupted(at: int) -> bool:
        nonlocal left
        left, before = at, sys.gettrace()
        sys.settrace(trace)
        try:
            allocates(1000)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    interrupted(-1)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        count = next(k for k in range(1, 10000) if not interrupted(k))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 4000  # arrays have 8000 bytes
    finally:
        tracemalloc.stop()
    assert count > 50


@compiled_at_once
def allocates_in_a_loop(n: int) -> int:
    for _ in range(n):
        np.zeros(n, np.int64)
    return n


@compiled_at_once
def changes_a_type(n: int) -> int:
    total = n
    total /= 2
    return int(total)


@compiled_at_once
def compares_twice(n: int) -> bool:
    return 0 < n < 3


@compiled_at_once
def calls_python(n: int) -> int:
    return python(n)


@compiled_at_once
def slices_by_steps(a: np.ndarray[Any, Any]) -> Any:
    return a[::2]


@compiled_at_once
def sets_nothing(n: int) -> int:
    for k in range(n):
        total += k  # noqa: F821, F841
    return n


def sets_in_a_branch(n: int) -> int:
    if n > 4:
        total = 3
    return total


def sets_in_a_loop(n: int) -> int:
    for k in range(n):
        n = k
    return k


def sets_a_name_of_a_global(n: int) -> int:
    n += SHIFT  # noqa: F823
    SHIFT = 5
    return n * SHIFT


def has_a_keyword(n: int, *, SHIFT: int = 4) -> int:
    return n + SHIFT


def returns_in_a_branch(n: int) -> int | None:
    while True:
        if n > 4:
            return n
        break


def returns_an_operand(n: int) -> int:
    return n or SHIFT


def combines_truth_values(n: int) -> bool:
    return (n > 0) & (n < 9)


def counts_from_the_end(n: int) -> int:
    return int(np.arange(n, dtype=np.int64)[-1])


def slices_to_the_end(n: int) -> int:
    return len(np.arange(n, dtype=np.int64)[:-1])


def takes_by_a_truth_value(n: int) -> int:
    return int(np.arange(n, dtype=np.int64)[n > 3])


def allocates_like(n: int) -> int:
    a = np.zeros(n, np.int32)
    return len(np.zeros(n, a.dtype))


def ranges_between(n: int) -> int:
    return len(np.arange(2, n))


def allocates_no_number(n: int) -> int:
    return n + len(np.zeros(np.int64))


SWAPPED = np.dtype(np.int64).newbyteorder()


def allocates_swapped_bytes(n: int) -> int:
    return len(np.zeros(n, SWAPPED))


def takes_the_least_of_three(n: int) -> int:
    return min(n, 2, 3)


def copies_in_an_order(n: int) -> int:
    return len(np.zeros(n, np.int64).copy("F"))


def is_large(n: int) -> int:
    return n + 18446744073709551617


def steps_by_a_variable(n: int) -> int:
    for _ in range(0, 3, n):
        n += 1
    return n


def steps_by_nothing(n: int) -> int:
    for _ in range(0, n, 0):
        n += 1
    return n


@inner
def descends(n: int) -> int:
    return descends(n - 1) if n > 0 else 0


def unpacks_more(n: int) -> int:
    first, second = n, n, n
    return first + second


def fills_one_field(n: int) -> int:
    return int(Pair(n).first)  # type: ignore[call-arg]


def encloses(SHIFT: int) -> Callable[[int], int]:
    def reads_a_closure(n: int) -> int:
        return n + SHIFT

    return reads_a_closure


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (sets_in_a_branch, "total"),
        (sets_in_a_loop, "k"),
        (sets_a_name_of_a_global, "SHIFT"),
        (has_a_keyword, "SHIFT"),
        (encloses(5), "SHIFT"),
        (returns_in_a_branch, "a path without return"),
        (returns_an_operand, "i64.* where .*i1.*"),
        (combines_truth_values, "BitAnd of truth values"),
        (counts_from_the_end, "-1"),
        (slices_to_the_end, "-1"),
        (takes_by_a_truth_value, "n > 3"),
        (allocates_like, r"np.zeros\(n, a.dtype\)"),
        (ranges_between, r"np.arange\(2, n\)"),
        (allocates_no_number, r"np.zeros\(np.int64\)"),
        (allocates_swapped_bytes, r"np.zeros\(n, SWAPPED\)"),
        (takes_the_least_of_three, r"min\(n, 2, 3\)"),
        (copies_in_an_order, r"copy\('F'\)"),
        (is_large, "18446744073709551617"),
        (steps_by_a_variable, "n"),
        (steps_by_nothing, "0"),
        (descends, "descends calls itself"),
        (unpacks_more, r"\(first, second\)"),
        (fills_one_field, r"Pair\(n\)"),
    ],
)
def test_other_results_than_those_of_python_are_refused(
    function: Callable[..., Any], why: str
) -> None:
    with pytest.raises(NotTranslatedError, match=f"{function.__name__}: .*{why}$"):
        compiled_at_once(function)(4)


def sets_on_each_path(a: np.ndarray[Any, Any], is_first: bool) -> int:
    for v in a:
        if v > 3:
            joins = v
        elif v > 1:
            joins = 0
        else:
            continue
        if joins == 5 or is_first:
            return int(joins)
    while True:
        total = len(a)
        if total:
            return total
        a = a[1:]


def test_variables_that_each_path_sets() -> None:
    loop = compiled_at_once(sets_on_each_path)
    for arguments in (([0, 2, 4, 5], False), ([4], np.bool_(True)), ([0, 1], False)):
        array = np.array(arguments[0])
        assert loop(array, arguments[1]) == sets_on_each_path(array, bool(arguments[1]))


def makes_two_arrays(n: int) -> Any:
    first = np.full(n, 1, np.int64)
    second = np.full(n, 2, np.int64)
    return second, first[n:]


def test_arrays_may_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array belongs to its own memory, not to memory that ends where the array begins."""
    heap = np.zeros(64, np.int64)
    begins, freed = [heap.ctypes.data], []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def allocate(count: int, size: int) -> int:
        begins.append(begins[-1] + count * size)
        return begins[-2]

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def free(begin: int | None) -> None:
        freed.append(begin)

    python_functions = ctypes.pythonapi.PyMem_RawCalloc, ctypes.pythonapi.PyMem_RawFree
    monkeypatch.setattr(machine_code, "_free", lambda begin, _: freed.append(begin.value))
    compiled_at_once(python(much))(1)  # LLVM has its symbols
    try:
        for name, function in zip((ALLOCATE, FREE), (allocate, free), strict=True):
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
        second, nothing = compiled_at_once(makes_two_arrays)(8)
    finally:
        for name, function in zip((ALLOCATE, FREE), python_functions, strict=True):
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    assert second.tolist() == [2] * 8
    assert len(nothing) == 0
    assert [begin for begin in freed if begin in begins] == begins[:1]
    del second, nothing
    gc.collect()
    assert [begin for begin in freed if begin in begins] == begins[:2]


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        (allocates_in_a_loop, "an allocation in the loop of line"),
        (changes_a_type, "double.* where .*i64"),
        (compares_twice, "0 < n < 3"),
        (calls_python, r"python\(n\)"),
        (slices_by_steps, r"a\[::2\]"),
        (sets_nothing, "total"),
    ],
)
def test_what_is_not_translated_is_named(loop: Callable[..., Any], why: str) -> None:
    argument = np.zeros(4) if loop is slices_by_steps else 4
    with pytest.raises(NotTranslatedError, match=f"{loop.__name__}.*{why}"):
        loop(argument)


@pytest.mark.parametrize(
    "argument",
    [
        *("a", [1], None),
        *(np.zeros(4)[::2], np.zeros(2, np.float32), np.zeros((1, 1, 1)), np.zeros(2, ">i8")),
        np.frombuffer(bytes(17), np.int64, 2, 1),  # not aligned
    ],
)
def test_arguments_of_other_types_raise(argument: Any) -> None:
    with pytest.raises(TypeError, match="an argument of a loop is"):
        much(argument)


def test_machine_code_is_kept_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORTABLE_GPU_CACHE", str(tmp_path / "programs"))
    arguments = np.arange(5), 2
    expected = python(flow)(*arguments)
    assert compiled_at_once(python(flow))(*arguments) == expected
    (entry,) = (tmp_path / "programs").iterdir()
    monkeypatch.setattr(machine_code, "_compiled", lambda _: pytest.fail("compiled"))
    assert compiled_at_once(python(flow))(*arguments) == expected
    monkeypatch.undo()
    monkeypatch.setenv("PORTABLE_GPU_CACHE", str(tmp_path / "programs"))
    entry.write_bytes(entry.read_bytes()[:-100])
    assert compiled_at_once(python(flow))(*arguments) == expected
    monkeypatch.setenv("PORTABLE_GPU_CACHE", "off")
    assert compiled_at_once(python(flow))(*arguments) == expected


@pytest.mark.parametrize("ordering", ["amd", "nd", "rcm", "md", "mmd"])
def test_analyses_are_those_of_python(monkeypatch: pytest.MonkeyPatch, ordering: str) -> None:
    matrices = [random_definite(n, density, n) for n, density in ((0, 0), (37, 0.1), (150, 0.02))]
    results = []
    for had_long_array in (False, True):
        monkeypatch.setattr(compiled, "_had_long_array", had_long_array)
        monkeypatch.setattr(compiled, "_spent", -100.0)
        results.append([analyze(matrix, ordering) for matrix in matrices])
    for interpreted, symbolic in zip(*results, strict=True):
        fronts = vars(symbolic.fronts) | {"perm": symbolic.perm, "parent": symbolic.parent}
        expected = vars(interpreted.fronts) | {
            "perm": interpreted.perm,
            "parent": interpreted.parent,
        }
        for name, array in fronts.items():
            assert np.array_equal(array, expected[name]), name
        assert symbolic.memory_estimate() == interpreted.memory_estimate()
