"""``portable_gpu.Array``: operators, indices, assignments and conversions, with any strides."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArrayIndexError,
    ContextMismatchError,
    DTypeError,
    IntegerRangeError,
    NotPositiveDefiniteError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)

ROOT = Path(__file__).resolve().parents[2]
A = np.arange(9, dtype=np.float32).reshape(3, 3)
tool = runpy.run_path(str(ROOT / "tools" / "random_operators.py"), run_name="tool")


def same(got: Any, expected: Any) -> None:
    """Assert equal dtypes, shapes and values."""
    assert isinstance(got, pg.Array)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.get(), expected)


@pytest.fixture
def a(engine: pg.Engine) -> pg.Array:
    return pg.asarray(A, engine=engine)


# -- whose methods they are


def test_nothing_is_of_pyopencls_array() -> None:
    """Not by inheritance, nor by reference: a later pyopencl adds nothing to it."""
    assert not issubclass(pg.Array, cla.Array)
    for kind in pg.Array.__mro__[:-1]:
        assert kind.__module__.startswith("portable_gpu.")
    for name, value in inspect.getmembers_static(pg.Array):
        inner = getattr(value, "fget", getattr(value, "__func__", value))
        assert not str(getattr(inner, "__module__", "")).startswith("pyopencl"), name
    for name in dir(object):
        assert getattr(pg.Array, name) is not None or name == "__hash__"


def test_pyopencls_methods_have_a_counterpart_or_none() -> None:
    """The names of pyopencl's array that this one lacks are known."""
    missing = {n for n in dir(cla.Array) if not n.startswith("_") and not hasattr(pg.Array, n)}
    assert missing <= {"mul_add", "reverse", "safely_stringify_for_pudb"}


def test_to_pyopencl(a: pg.Array) -> None:
    there = a.T.to_pyopencl()
    assert type(there) is cla.Array
    assert there.base_data is a.base_data
    assert there.strides == a.T.strides
    same(pg.asarray(there) + 0, A.T)
    same(a + there, A + A.T)
    same(there + a, A.T + A)


# -- operators


def test_strides_count(a: pg.Array) -> None:
    """The functions that pyopencl's kernels computed along the memory."""
    pairs: list[Callable[[Any], Any]] = [
        lambda x: x + x.T,
        lambda x: x == x.T,
        lambda x: ~(x > x.T),
        lambda x: x.T.astype(np.int16),
        lambda x: x[:, 0].reshape((), order="F") if x.size == 1 else x[0, 0] * x.T,
        lambda x: x[..., None] + x,
        lambda x: x + x[0],
        lambda x: (x.T / 2)[::-1].copy(),
        lambda x: x.T.reshape(-1),
        lambda x: x[:, ::-1].ravel(order="F"),
    ]
    for f in pairs:
        same(f(a), f(A))


def test_overlap(engine: pg.Engine) -> None:
    statements: list[Callable[[Any], Any]] = [
        lambda y: operator.setitem(y, np.s_[1:], y[:-1]),
        lambda y: operator.setitem(y, np.s_[:], y.T),
        lambda y: operator.setitem(y, np.s_[::-1], y),
        lambda y: operator.iadd(y, y.T),
        lambda y: operator.iadd(y[1:], y[:-1]),
        lambda y: operator.imul(y, y[0]),
        lambda y: operator.setitem(y, np.s_[:, 1], y[0]),
    ]
    for f in statements:
        host, there = A.copy(), pg.asarray(A, engine=engine)
        f(host), f(there)
        same(there, host)


def test_a_broadcast_target_is_refused(a: pg.Array) -> None:
    wide = pg.Array(a.queue, (3, 3), np.float32, data=a.base_data, strides=(0, 4), events=a.events)
    with pytest.raises(OverlapError, match="overlaps itself"):
        wide += a
    with pytest.raises(OverlapError, match="overlaps itself"):
        wide[...] = a


INTEGERS = np.array([-128, -7, -1, 0, 1, 5, 127], np.int8)


def test_integers_that_c_leaves_open(engine: pg.Engine) -> None:
    """Division by zero, the least one by -1, shifts by the width and more, powers that wrap."""
    x = pg.asarray(INTEGERS, engine=engine)
    with np.errstate(all="ignore"):
        for f in (operator.floordiv, operator.mod, operator.lshift, operator.rshift):
            same(f(x[:, None], x), f(INTEGERS[:, None], INTEGERS))
        same(x ** abs(x // 32), INTEGERS ** abs(INTEGERS // 32))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_complex_powers_of_zero_and_infinity(engine: pg.Engine) -> None:
    """NumPy 2's values; those of other infinite operands are left open in C."""
    inf, nan = np.inf, np.nan
    to_zero = [1, 2, 3, 0.5, 99.5, 150, inf, 1 + 1j, 1e-3 - 2j, complex(1, inf), complex(1, nan)]
    undefined = [-1, -2, -0.5, -150, -inf, nan, 1j, -1j, -1 + 1j, complex(0, inf), complex(nan, 1)]
    zeros = np.array([complex(re, im) for re in (0.0, -0.0) for im in (0.0, -0.0)])[:, None]
    of_infinity = [complex(inf, 1), complex(-inf, 1), complex(2, inf), complex(inf, -inf)]
    for dtype in ("c8", "c16") if engine.target.fp64 else ("c8",):
        base = pg.asarray(zeros.astype(dtype), engine=engine)
        for exponents, value in ((to_zero, 0), ([0, -0.0], 1), (undefined, complex(nan, nan))):
            power = (base ** pg.asarray(np.array(exponents, dtype), engine=engine)).get()
            np.testing.assert_array_equal(power.real, np.full_like(power.real, np.real(value)))
            np.testing.assert_array_equal(power.imag, np.full_like(power.imag, np.imag(value)))
        x = np.array(of_infinity, dtype)[:, None]
        y = np.array([0, 1, 2, 3, 0.5, -0.5, 1 + 1j, -1 + 1j], dtype)
        power = (pg.asarray(x, engine=engine) ** pg.asarray(y, engine=engine)).get()
        np.testing.assert_array_equal(power[:, :2], np.hstack([np.ones_like(x), x]))
        square = x * x
        np.testing.assert_array_equal(power[:, 2:4], np.hstack([square, x * square]))
        assert np.isinf(power[:, [4, 6]].real).all()
        np.testing.assert_array_equal(power[:, [5, 7]], np.zeros((4, 2)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_complex_powers_by_a_number(engine: pg.Engine) -> None:
    """Powers that NumPy computes in another way than the others: 0 ** -1 has no infinite part."""
    inf = np.inf
    x = np.array([0, -0.0, complex(inf, 1), complex(-inf, 2), complex(0, inf), 2 - 1j], "c8")
    for exponent in (-1, 0.5, 1, 2):
        got, expected = (pg.asarray(x, engine=engine) ** exponent).get(), x**exponent
        np.testing.assert_allclose(got.real, expected.real, rtol=1e-6)
        np.testing.assert_allclose(got.imag, expected.imag, rtol=1e-6)
    got = pg.elementwise("reciprocal(x)", x=x, engine=engine)
    np.testing.assert_allclose(got, np.reciprocal(x), rtol=1e-6)


def test_integers_beside_empty_arrays_and_masks(engine: pg.Engine) -> None:
    """An empty array has no element to refuse a number for; a range counts all the same."""
    for dtype in (bool, np.int8, np.uint64, np.float32):
        for shape in ((0,), (2,)):
            x = pg.asarray(np.ones(shape, dtype), engine=engine)
            for beyond in (2**63, -(2**63) - 1) if dtype is bool else (10**400,):
                if dtype in (bool, np.float32):
                    for f in (operator.eq, operator.lt):
                        with pytest.raises(IntegerRangeError):
                            f(x, beyond)
                    with pytest.raises(IntegerRangeError):
                        beyond >= x  # noqa: B015
                else:
                    same(x < beyond, np.ones(shape, bool))
                with pytest.raises(IntegerRangeError):
                    x + beyond
    empty = pg.asarray(np.zeros((0, 3), np.int16), engine=engine)
    for exponent in (-2, np.int8(-3)):
        same(empty**exponent, np.zeros((0, 3), np.int16))
        same(operator.ipow(empty, exponent), np.zeros((0, 3), np.int16))
    with pytest.raises(IntegerRangeError):
        empty.astype(np.uint8) ** -1


def test_powers_of_masks(engine: pg.Engine) -> None:
    """By Python's 2 they are int8, as np.square's are, by other integers int64."""
    mask = np.array([True, False, True])
    x = pg.asarray(mask, engine=engine)
    for exponent in (0, 1, 2, 2.0, 2, 3, True, np.int8(2), np.int64(2)):
        same(x**exponent, mask**exponent)
    with pytest.raises(DTypeError):
        x **= 2


def test_comparisons_of_integers_are_exact(engine: pg.Engine) -> None:
    signed = np.array([-(2**63), -1, 0, 2**63 - 1])
    unsigned = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    s, u = pg.asarray(signed, engine=engine), pg.asarray(unsigned, engine=engine)
    for f in (operator.lt, operator.ge, operator.eq):
        expected = [[f(int(m), int(n)) for n in unsigned] for m in signed]
        same(f(s[:, None], u), np.array(expected))
        mirrored = [[f(int(n), int(m)) for n in unsigned] for m in signed]
        same(f(u, s[:, None]), np.array(mirrored))
    for number in (2**63, 2**64, -(2**63) - 1, np.uint64(2**63)):
        same(s < number, np.array([m < int(number) for m in signed.tolist()]))
        same(number != u, np.array([n != int(number) for n in unsigned.tolist()]))


def test_what_numpy_refuses(a: pg.Array) -> None:
    small = a.astype(np.uint8)
    for wrong in (
        lambda: -(a > 0), lambda: (a > 0) - (a > 0), lambda: ~a, lambda: a & a, lambda: a << 1,
        lambda: (a * 1j) // 2, lambda: operator.iadd(small, 0.5), lambda: a * [1],
        lambda: operator.itruediv(small, 2), lambda: a + np.longdouble(1),
        lambda: a == np.datetime64("2026-01-01"), lambda: a == [1, 2], lambda: a + A,
    ):  # fmt: skip
        with pytest.raises((DTypeError, ArgumentTypeError)):
            wrong()
    for wrong in (lambda: small + 256, lambda: -1 - small, lambda: operator.setitem(small, 0, 300)):
        with pytest.raises(IntegerRangeError) as raised:
            wrong()
        assert isinstance(raised.value, OverflowError)
    with pytest.raises(ShapeError, match="broadcast"):
        a + a[:2]
    with pytest.raises(ShapeError, match="broadcast"):
        a[:, 0].__iadd__(a)
    with pytest.raises(ShapeError, match="broadcast"):
        a[0] = np.ones(2)
    with pytest.raises(ArgumentError, match="negative powers"):
        small.astype(np.int8) ** -1
    with pytest.raises(ArgumentError, match="NaN"):
        small[0] = np.nan
    with pytest.raises(TypeError):
        a + object()
    assert (a == None) is False  # noqa: E711
    assert a != "text"


@pytest.mark.parametrize("wrong", [[0, 1], A > 3, 3, (0, 0, 0), 1.5, np.array([0, 1])], ids=str)
def test_what_is_no_basic_index(a: pg.Array, wrong: Any) -> None:
    for call in (lambda: a[wrong], lambda: operator.setitem(a, wrong, 0)):
        with pytest.raises(ArrayIndexError):
            call()
    with pytest.raises(ArrayIndexError):
        a[a > 3]
    same(a[pg.argmax(a[:, 0])], A[2])


def test_assignments(engine: pg.Engine) -> None:
    values = (
        7, 2.5, np.float64(3), np.arange(3.0), np.arange(3)[:, None], A.T, np.ones((1, 3, 3)),
        [1, 2, 3], np.arange(9, dtype=np.int8).reshape(3, 3)[::-1], True,
    )  # fmt: skip
    for value in values:
        for dtype in (np.float32, np.int16):
            host, there = A.astype(dtype), pg.asarray(A.astype(dtype), engine=engine)
            host[::-1], there[::-1] = value, value
            same(there, host)
            is_array = not np.isscalar(value) and np.shape(value)
            device_value = pg.asarray(np.asarray(value), engine=engine) if is_array else value
            host[:, 0], there[:, 0] = host[1], device_value[..., 0] if is_array else value
            if not is_array:
                same(there[:, 0], np.full(3, value).astype(dtype))
    there = pg.asarray(A, engine=engine)
    assert there.fill(2) is there
    same(there, np.full_like(A, 2))
    there.setitem(np.s_[0], 5, queue=engine.queue)
    same(there[0], np.full(3, 5, np.float32))


# -- complex numbers, views, conversions


def test_complex_numbers(engine: pg.Engine) -> None:
    z = (A + 1j * A.T).astype(np.complex64)[::-1, ::2]
    there = pg.asarray((A + 1j * A.T).astype(np.complex64), engine=engine)[::-1, ::2]
    same(there.real, z.real)
    same(there.T.imag, z.T.imag)
    same(there.conj(), z.conj())
    same(there == there.conj(), z == z.conj())
    same(there.real.imag, np.zeros_like(z.real))
    assert there.real.conj().base_data is there.base_data
    there.imag[...] = 0
    assert not there.get().imag.any()
    with pytest.warns(np.exceptions.ComplexWarning if hasattr(np, "exceptions") else Warning):
        same(there.astype(np.float32), z.real)


def test_views(a: pg.Array) -> None:
    same(a.view(np.int32), A.view(np.int32))
    same(a.view(np.uint16), A.view(np.uint16))
    same(a[None, :, :1].squeeze(), A[:, 0])
    same(a[:, None].squeeze(1).transpose(1, 0), A.T)
    same(a[None].transpose((2, 0, 1)), A[None].transpose((2, 0, 1)))
    assert a.reshape(9)[2:].base_data is a.base_data
    assert len(a) == 3
    assert [row.tolist() for row in a] == A.tolist()
    for wrong in (
        lambda: a.T.view(np.uint16), lambda: a.view(np.complex64), lambda: a.reshape(4, -1),
        lambda: a.transpose(0), lambda: a.squeeze(0),
    ):  # fmt: skip
        with pytest.raises(ShapeError):
            wrong()
    with pytest.raises(ArgumentTypeError, match="no axes"):
        len(a[0, 0])


@pytest.mark.parametrize(
    "part", [np.s_[:], np.s_[:, ::-1], np.s_[::2, 1:], np.s_[1:1], np.s_[0, 0]]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_to_the_host_and_back(engine: pg.Engine, part: Any, order: str) -> None:
    there, host = pg.asarray(A, engine=engine)[part], A[part]
    there, host = (there.T, host.T) if order == "F" else (there, host)
    np.testing.assert_array_equal(there.get(), host)
    into = np.zeros_like(host, order="C")
    assert there.get(ary=into) is into
    np.testing.assert_array_equal(into, host)
    values, event = there.get_async()
    event.wait()
    np.testing.assert_array_equal(values, host)
    there.set(np.asarray(-host))
    np.testing.assert_array_equal(there.get(), -host)


def test_few_elements_of_much_memory(engine: pg.Engine) -> None:
    """They are packed on the device first."""
    x = np.arange(1 << 18, dtype=np.float32)
    there = pg.asarray(x, engine=engine)
    np.testing.assert_array_equal(there[:: 1 << 12].get(), x[:: 1 << 12])
    np.testing.assert_array_equal(pg.asnumpy(there.to_pyopencl()[:: 1 << 12]), x[:: 1 << 12])
    there[:: 1 << 12].set(-x[:: 1 << 12])
    x[:: 1 << 12] *= -1
    np.testing.assert_array_equal(there.get(), x)


def test_what_does_not_fit(engine: pg.Engine, a: pg.Array) -> None:
    fixed = A.copy()
    fixed.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        a.get(ary=fixed)
    with pytest.raises(ShapeError, match="ary has shape"):
        a.set(A[:2])
    with pytest.raises(DTypeError, match="ary has dtype"):
        a.get(ary=A.astype(np.float64))
    with pytest.raises(ArgumentTypeError, match="not an array of NumPy"):
        a.set([1, 2])
    with pg.Engine(engine.device, caller=False) as other, pytest.raises(ContextMismatchError):
        a.with_queue(other.queue)
    with pytest.raises(ArgumentError, match="base_data and offset"):
        _ = a[1:].data
    for wrong in ((engine, 3, "f4"), (a.queue, -1, "f4"), (a.queue, 3.5, "f4"), (a.queue, 3, "no")):
        with pytest.raises((ArgumentTypeError, DTypeError, ShapeError)):
            pg.Array(*wrong)


def test_memory_that_is_mapped(a: pg.Array) -> None:
    np.testing.assert_array_equal(a[:, 1:].map_to_host(), A[:, 1:])
    np.testing.assert_array_equal(a[::-1, ::-2].map_to_host(), A[::-1, ::-2])
    with pytest.raises(ArgumentError, match="nothing to map"):
        a[3:].map_to_host()


def test_complex_numbers_as_truth_values(engine: pg.Engine) -> None:
    values = np.array([4.32j, 0, 1], "c8")
    for operand in (values, pg.asarray(values, engine=engine)):
        masks = pg.asarray(np.zeros(3, bool), engine=engine)
        masks[...] = operand
        np.testing.assert_array_equal(masks.get(), [True, False, True])


def test_numbers_are_rounded_to_float16_first(engine: pg.Engine) -> None:
    x = np.array([np.inf, 1, 100], "f2")
    operand = pg.asarray(x, engine=engine)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal((operand <= 1e30).get(), x <= 1e30)
    np.testing.assert_array_equal((operand[1:] * 1e-8).get(), x[1:] * 1e-8)
    np.testing.assert_array_equal((operand + 0.1).get(), x + 0.1)


# -- numbers and text


def test_numbers(engine: pg.Engine, a: pg.Array) -> None:
    s = pg.asarray(np.float64(2.34567) if engine.target.fp64 else np.float32(2.5), engine=engine)
    assert f"{s:.2f}" == f"{s.item():.2f}"
    assert round(s) == 2
    assert round(s, 1) == round(s.item(), 1)
    assert f"{a}" == str(A)
    three = pg.argmax(a[1] * 0 + a[2]) + 1
    assert list(range(three)) == [0, 1, 2]
    assert "abcd"[three] == "d"
    assert bool(three)
    assert complex(a[0, 1] * 1j) == 1j
    for wrong in (
        lambda: f"{a:.2f}", lambda: range(a[0, 0]), lambda: float(a[0, 1] * 1j),
        lambda: operator.index(three == 3), lambda: operator.index(three[None]), lambda: hash(a),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ShapeError):
        bool(a)


def test_text(a: pg.Array) -> None:
    assert repr(a) == repr(A).replace("array", "Array")
    assert repr(a[::-1, 0]) == "Array([6., 3., 0.], dtype=float32)"
    assert str(a.T) == str(A.T)
    assert repr(a.with_queue(None)) == repr(a)


def test_copies_and_pickles(a: pg.Array) -> None:
    for repeated in (pickle.loads(pickle.dumps(a.T)), copy.copy(a.T), copy.deepcopy([a.T])[0]):
        assert repeated.base_data is not a.base_data
        same(repeated, A.T)


def test_reports_go_with_what_is_computed(engine: pg.Engine) -> None:
    """The operators' results, copies, views and assignments of a factor that does not exist."""
    there = pg.asarray(-np.eye(3, dtype=np.float32), engine=engine)
    factor = pg.linalg.cholesky(there)
    target = pg.asarray(A, engine=engine)
    target[...] = factor
    for item in (factor + 1, 1 - factor, -factor, factor.T.copy(), factor[0], target, factor > 0):
        with pytest.raises(NotPositiveDefiniteError):
            item.get()


def test_on_another_queue(engine: pg.Engine, a: pg.Array) -> None:
    other = cl.CommandQueue(engine.context, engine.device)
    moved = (a + a).with_queue(other)
    result = moved * 2
    assert result.queue is other
    same(result, A * 4)
    same(a.copy(queue=other), A)


# -- random calls; tools/random_operators.py draws more


def test_random_operators(engine: pg.Engine) -> None:
    rng = np.random.default_rng(36)
    dtypes = ("?", "u1", "f4", "c8")
    checked = 0
    while checked < 30:
        call = tool["drawn"](rng, dtypes)
        result, message = tool["check"](call, engine)
        assert result in ("right", "refused by both", "left out"), f"{message}\n{call.script()}"
        checked += result == "right"
