"""Transforms against direct sums in long double, and NumPy's in double precision.

Environment:
    PORTABLE_GPU_EVERY_LENGTH: If set, all lengths to 1024 in place of some.  It takes minutes.

A program is decided by the dtype, the kind and the layout of numbers, and the set of radices: tests
share them, and those on the fixture ``unoptimised`` build theirs in a quarter of the time.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from device_arrays import from_device, on_device
from reference import fourier, fourier_bound
from sampling import FEW, needs, needs_fp64

import portable_gpu as pg
from portable_gpu.errors import ArgumentError, PortableGPUError
from portable_gpu.ops.fft.policy import CpuFftPolicy
from portable_gpu.ops.fft.tables import bluestein_length, is_smooth
from portable_gpu.runtime.engine import Engine

EVERY = "PORTABLE_GPU_EVERY_LENGTH" in os.environ
NORMS = ("backward", "ortho", "forward")
Array = np.ndarray[Any, Any]


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return (x if np.dtype(dtype).kind in "fc" else 9 * x).astype(dtype)


def assert_transforms(got: Any, want: Any, n: int) -> None:
    """The dtype is single or double precision as ``got`` is; of the error see fourier_bound."""
    assert got.shape == want.shape
    size = np.linalg.norm(want.ravel().astype(np.clongdouble))
    error = np.linalg.norm((got - want).ravel().astype(np.clongdouble))
    assert error <= fourier_bound(got.dtype, n) * size, f"n = {n}: off by {error / size}"


def primes_above_13(n: int) -> bool:
    return not is_smooth(n)


def some_lengths() -> list[int]:
    """Powers of two, and some of each other set of radices and of convolutions.

    The convolutions' own lengths are made of 2, 4 and 8 here, so that two programs do all.
    """
    if EVERY:
        return list(range(1, 1025))
    rng = random.Random(0)
    others = [n for n in range(1, 1025) if n & (n - 1)]
    products = [n for n in others if is_smooth(n)]
    few = [n for n in products if n % 7 and n % 11 and n % 13]
    rest = [n for n in others if primes_above_13(n)]
    rest = [n for n in rest if bluestein_length(n) & (bluestein_length(n) - 1) == 0]
    powers, each = ([1, 4, 32, 1024], 3) if FEW else ([1 << k for k in range(11)], 12)
    rest = rng.sample(rest, 2 * each // 3)
    return [*powers, *rng.sample(few, each), *rng.sample(products, each), *rest, 1021]


# -- lengths


@pytest.mark.tiny
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_small_lengths_against_the_sum(unoptimised: Engine, dtype: Any) -> None:
    needs(unoptimised, dtype)
    for n in (1, 2, 4, 8, 16):
        x = numbers((3, n), dtype)
        assert_transforms(pg.fft.fft(x, engine=unoptimised), fourier(x), n)


@pytest.mark.path
@pytest.mark.parametrize("are_powers", [True, False], ids=["powers of two", "others"])
def test_lengths(request: pytest.FixtureRequest, are_powers: bool) -> None:
    """17 lines: more than the lanes of two vectors, and one is left over."""
    engine = request.getfixturevalue("engine" if are_powers else "unoptimised")
    for n in some_lengths():
        if (n & (n - 1) == 0) != are_powers:
            continue
        x = numbers((17, n), np.complex64)
        got = pg.fft.fft(x, engine=engine)
        assert_transforms(got, np.fft.fft(x.astype(complex)), n)
        back = pg.fft.ifft(got, engine=engine)
        assert_transforms(back, np.fft.ifft(got.astype(complex)), n)
        assert_transforms(back, x, 2 * n)
        np.testing.assert_allclose(
            np.linalg.norm(got, axis=1), np.sqrt(n) * np.linalg.norm(x, axis=1), rtol=1e-5
        )


def test_lengths_in_double_precision(unoptimised: Engine) -> None:
    needs_fp64(unoptimised)
    lengths = some_lengths()
    for n in lengths if EVERY else lengths[:26:2] + lengths[-3:]:
        x = numbers((9, n), np.complex128)
        assert_transforms(pg.fft.fft(x, engine=unoptimised), fourier(x), n)
        scaled = pg.fft.ifft(x, norm="forward", engine=unoptimised)
        assert_transforms(scaled, fourier(x, inverse=True), n)


@pytest.mark.parametrize("length", [4096, 1 << 15, 1 << 20])
def test_long_lines(engine: Engine, length: int) -> None:
    x = numbers((length,), np.complex64)
    got = pg.fft.fft(x, engine=engine)
    assert_transforms(got, np.fft.fft(x.astype(complex)), length)
    assert_transforms(pg.fft.ifft(got, engine=engine), x, 2 * length)
    np.testing.assert_array_equal(got, pg.fft.fft(x, engine=engine))


@pytest.mark.large
def test_a_very_long_line(engine: Engine) -> None:
    length = 1 << (22 if engine.target.is_cpu else 24)
    x = numbers((length,), np.complex64)
    assert_transforms(pg.fft.fft(x, engine=engine), np.fft.fft(x.astype(complex)), length)


@pytest.mark.parametrize("length", [1 << 12, 1000, 1021])
def test_no_worse_than_scipy(unoptimised: Engine, length: int) -> None:
    fft = pytest.importorskip("scipy.fft", reason="SciPy is not installed").fft
    ours, its = [], []
    for seed in range(5):
        x = numbers((17, length), np.complex64, seed)
        want = np.fft.fft(x.astype(complex))
        ours.append(np.linalg.norm(pg.fft.fft(x, engine=unoptimised) - want))
        its.append(np.linalg.norm(fft(x) - want))
    assert sum(ours) <= 1.5 * sum(its)


# -- little scratch memory: the same passes as for long lines, at lengths that are tested fast


@pytest.fixture
def short(unoptimised: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine whose passes on CPUs hold lines of 32 numbers at most."""
    plain = CpuFftPolicy.default

    def default(cls: Any, *given: Any) -> CpuFftPolicy:
        return CpuFftPolicy(plain(*given).vector, 32)

    monkeypatch.setattr(CpuFftPolicy, "default", classmethod(default))
    return unoptimised


def of_real(kind: str, x: Array, n: int) -> Array:
    """NumPy's transform in double precision, unscaled."""
    if kind == "irfft":
        return np.fft.irfft(x.astype(complex), n) * n
    return getattr(np.fft, kind)(x.astype(np.result_type(x.dtype, np.float64)), n)


@pytest.mark.parametrize("kind", ["fft", "rfft", "irfft"])
def test_two_passes(short: Engine, kind: str) -> None:
    """Lines that are whole, end early or go on, of even and odd factors."""
    for n in (64, 128, 256, 1024):
        whole = n // 2 + 1 if kind == "irfft" else n
        for there in {whole, whole // 2 + 3, 5, whole + 9}:
            for lines in (1, 3):
                x = numbers((lines, there), np.float32 if kind == "rfft" else np.complex64)
                options = {"norm": "forward"} if kind == "irfft" else {}
                got = getattr(pg.fft, kind)(x, n, engine=short, **options)
                assert_transforms(got, of_real(kind, x, n), n)


def test_convolutions_in_two_passes(short: Engine) -> None:
    for n in (19, 61, 113, 251):  # of 64, 128, 256 and 512 or less
        for kind in ("fft", "irfft") if n == 61 else ("fft",):
            x = numbers((2, n), np.complex64)
            options = {"norm": "forward"} if kind == "irfft" else {}
            got = getattr(pg.fft, kind)(x, n, engine=short, **options)
            assert_transforms(got, of_real(kind, x, n), n)


# -- layouts, axes, kinds


def layouts() -> dict[str, Array]:
    base = numbers((6, 16, 34), np.complex64)
    return {
        "C": base[0, :, :16].copy(),
        "Fortran": np.asfortranarray(base[0, :, :16]),
        "negative": base[1, ::-1, 15::-1],
        "every second": base[2, :, ::2][:, :16],
        "offset": base[3, 3:, 9:25],
        "broadcast": np.broadcast_to(base[0, 0, :16], (5, 16)),
        "one number": np.broadcast_to(base[0, 0, :1], (5, 16)),
        "middle axis": base[:, :, :3],
        "turned": base[:4, :, :8].transpose(2, 1, 0),
    }


@pytest.mark.parametrize("where", ["NumPy", "device"])
def test_layouts(unoptimised: Engine, where: str) -> None:
    for name, x in layouts().items():
        operand = x if where == "NumPy" else on_device(unoptimised, x, rim=3)
        for axis in (1, 0) if name in ("C", "Fortran") else (1,):
            got = pg.fft.fft(operand, axis=axis, engine=unoptimised)
            got = got if where == "NumPy" else from_device(got)
            want = np.fft.fft(x.astype(complex), axis=axis)
            assert_transforms(got, want, x.shape[axis])
        np.testing.assert_array_equal(operand if where == "NumPy" else from_device(operand), x)


def numpys(name: str, x: Array, s: Any, axes: Any, norm: str) -> Array:
    """NumPy's function in double precision; of those that it lacks, what they are defined by."""
    wide = x.astype(np.result_type(x.dtype, np.float64))
    if name == "hfftn":
        other = {"backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]
        return np.fft.irfftn(wide.conj(), s, axes, other)
    if name == "ihfftn":
        other = {"backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]
        return np.fft.rfftn(wide, s, axes, other).conj()
    return getattr(np.fft, name)(wide, s, axes, norm)


@pytest.mark.path
def test_random_axes_lengths_and_norms(unoptimised: Engine) -> None:
    """Lengths of powers of two up to 16, so that all kinds share their programs."""
    rng = random.Random(2)
    names = ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
    for turn in range(400 if EVERY else 36 if FEW else 90):
        name, norm = names[turn % 6], rng.choice(NORMS)
        is_real = name in ("rfftn", "ihfftn") or (name in ("fftn", "ifftn") and turn % 4 == 1)
        ndim = rng.choice((1, 2, 2, 3))
        shape = tuple(rng.choice((2, 4, 8, 16)) for _ in range(ndim))
        axes = rng.sample(range(ndim), rng.randint(1, ndim))
        axes = [axis - ndim * (rng.random() < 0.3) for axis in axes]
        s = None if rng.random() < 0.4 else [rng.choice((2, 4, 8, 16)) for _ in axes]
        x = numbers(shape, np.float32 if is_real else np.complex64, turn)
        got = getattr(pg.fft, name)(x, s, axes, norm, engine=unoptimised)
        want = numpys(name, x, s, axes, norm)
        assert got.dtype == (np.float32 if name in ("irfftn", "hfftn") else np.complex64)
        assert_transforms(got, want, want.size)


def test_along_one_and_two_axes(unoptimised: Engine) -> None:
    """The functions of one axis and of two are those of several."""
    x = numbers((4, 8, 16), np.complex64)
    for name in ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft"):
        operand = x.real.copy() if name in ("rfft", "ihfft") else x
        several = getattr(pg.fft, f"{name}n")
        item = getattr(pg.fft, name)(operand, 8, 1, "ortho", engine=unoptimised)
        np.testing.assert_array_equal(
            item, several(operand, [8], [1], "ortho", engine=unoptimised), strict=True
        )
        two = getattr(pg.fft, f"{name}2")(operand, engine=unoptimised)
        np.testing.assert_array_equal(
            two, several(operand, axes=(1, 2), engine=unoptimised), strict=True
        )


def test_odd_lengths_of_real_numbers(unoptimised: Engine) -> None:
    for n in (1, 3, 5, 9, 15, 45):
        x = numbers((19, n), np.float32)
        got = pg.fft.rfft(x, engine=unoptimised)
        assert_transforms(got, np.fft.rfft(x.astype(float)), n)
        assert_transforms(pg.fft.irfft(got, n, engine=unoptimised), x, 2 * n)


def test_parts_that_are_not_looked_at(short: Engine) -> None:
    """The imaginary parts of the numbers 0 and n / 2, of lines of one pass and of two."""
    for n in (16, 256):
        x = numbers((3, n // 2 + 1), np.complex64)
        plain = x.copy()
        plain[:, [0, -1]] = plain[:, [0, -1]].real
        np.testing.assert_allclose(
            pg.fft.irfft(x, engine=short), pg.fft.irfft(plain, engine=short), atol=1e-6
        )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint32", "int64", "?"])
def test_dtypes(unoptimised: Engine, dtype: str) -> None:
    """SciPy's choice: half precision in single, integers in double."""
    of_single = dtype in ("float16", "float32")
    needs(unoptimised, np.float32 if of_single else np.float64)
    x = numbers((5, 8), dtype)
    want = np.fft.fft(x.astype(float))
    for operand in (x, cla.to_device(unoptimised.queue, x)):
        got = pg.fft.fft(operand, engine=unoptimised)
        assert got.dtype == (np.complex64 if of_single else np.complex128)
        assert_transforms(got if operand is x else got.get(), want, 8)
        half = pg.fft.irfft(operand, engine=unoptimised)
        assert half.dtype == (np.float32 if of_single else np.float64)
        assert_transforms(half if operand is x else half.get(), np.fft.irfft(x.astype(float)), 8)


def test_what_numpy_makes_an_array_of(unoptimised: Engine) -> None:
    needs_fp64(unoptimised)
    want = np.fft.fft([1.0, 2.0, 4.0, 8.0])
    for x in (
        [1, 2, 4, 8],
        (1.0, 2, 4, 8),
        np.array([1, 2, 4, 8], ">f8"),
        memoryview(b"\1\2\4\10"),
    ):
        np.testing.assert_allclose(pg.fft.fft(x, engine=unoptimised), want, atol=1e-14)
    assert pg.fft.fftn(3.0, engine=unoptimised) == 3 + 0j
    for x in (np.arange(6.0).reshape(2, 3), 1j * np.arange(4)):
        np.testing.assert_array_equal(
            pg.fft.ifftn(x, axes=(), engine=unoptimised), x.astype(complex), strict=True
        )


def test_empty_arrays(engine: Engine) -> None:
    for shape in ((0, 8), (3, 0, 8)):
        for x in (np.zeros(shape, np.complex64), cla.zeros(engine.queue, shape, np.complex64)):
            got = pg.fft.fft(x, engine=engine)
            assert got.shape == shape
            assert pg.fft.irfft(x, engine=engine).shape == (*shape[:-1], 14)
    with pytest.raises(ValueError, match="points"):
        pg.fft.fft(np.zeros((3, 0), np.complex64), engine=engine)


# -- calls


def test_in_the_place_of_x(unoptimised: Engine) -> None:
    for shape, options in (((17, 64), {}), ((64, 17), {"axis": 0}), ((4096,), {})):
        x = numbers(shape, np.complex64)
        want = pg.fft.fft(x, engine=unoptimised, **options)
        operand = x.copy()
        got = pg.fft.fft(operand, overwrite_x=True, engine=unoptimised, **options)
        np.testing.assert_array_equal(got, want)
        assert got is operand
    fixed = x.copy()
    fixed.flags.writeable = False
    for operand in (fixed, np.broadcast_to(x[:1], (4096,)), x[:0:-1]):
        original = operand.copy()
        np.testing.assert_array_equal(
            pg.fft.fft(operand, 4096, overwrite_x=True, engine=unoptimised),
            pg.fft.fft(operand, 4096, engine=unoptimised),
        )
        np.testing.assert_array_equal(operand, original)
    spread = on_device(unoptimised, np.broadcast_to(x[:1], (17, 64)))
    pg.fft.fft(spread, overwrite_x=True, engine=unoptimised)
    np.testing.assert_array_equal(from_device(spread), np.broadcast_to(x[:1], (17, 64)))


@pytest.mark.parametrize(("kind", "most"), [("fft", 1), ("rfft", 2), ("irfft", 2)])
def test_what_a_spoilt_line_reaches(unoptimised: Engine, kind: str, most: int) -> None:
    """Complex lines are independent; a real one reaches at most the other line of its pair."""
    x = numbers((5, 7, 32), np.float32 if kind == "rfft" else np.complex64)
    spoilt = x.copy()
    spoilt[2, 3, 5] = np.nan
    good, bad = (getattr(pg.fft, kind)(lines, engine=unoptimised) for lines in (x, spoilt))
    differs = (good != bad).any(axis=2)
    assert np.isnan(bad[2, 3]).all()
    assert differs[2, 3]
    assert differs.sum() <= most


def test_linearity_and_shifts(engine: Engine) -> None:
    x, y = (numbers((17, 64), np.complex64, seed) for seed in (1, 2))

    def transform(z: Array) -> Array:
        return pg.fft.fft(z.astype(np.complex64), engine=engine)

    assert_transforms(transform(x + 2j * y), transform(x) + 2j * transform(y), 64 * 64)
    rotated = transform(x) * np.exp(2j * np.pi * np.arange(64) * 5 / 64)
    assert_transforms(transform(np.roll(x, -5, axis=1)), rotated, 64 * 64)


def calls(engine: Engine) -> list[tuple[Callable[[], Any], Array]]:
    """Calls that share programs, and what they give."""
    x, y, lone = (numbers(shape, np.complex64) for shape in ((17, 64), (17, 512), (4096,)))
    on = cla.to_device(engine.queue, x)
    made: list[Callable[[], Any]] = [
        lambda: pg.fft.fft(x, engine=engine),
        lambda: pg.fft.ifft(x, engine=engine),
        lambda: pg.fft.fft(x, norm="ortho", engine=engine),
        lambda: pg.fft.fft(x, 32, engine=engine),
        lambda: pg.fft.fft(x, 128, engine=engine),
        lambda: pg.fft.fft(x[::-1], engine=engine),
        lambda: pg.fft.fft(y, engine=engine),
        lambda: pg.fft.fft(lone, engine=engine),
        lambda: pg.fft.fft(on, engine=engine).get(),
        lambda: pg.fft.ifft(on, norm="forward", engine=engine).get(),
    ]
    return [(item, item()) for item in made]


def test_calls_in_any_order_give_the_same_bits(engine: Engine) -> None:
    made, rng = calls(engine), random.Random(3)
    for _ in range(300):
        item, want = rng.choice(made)
        np.testing.assert_array_equal(item(), want)


def test_threads_at_once(engine: Engine) -> None:
    made, wrong = calls(engine), []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(60):
            item, want = rng.choice(made)
            if not np.array_equal(item(), want):
                wrong.append(item)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


def test_events_are_awaited(unoptimised: Engine) -> None:
    """Also by the copy of an array in another dtype."""
    x = numbers((17, 64), np.complex64)
    want = pg.fft.fft(x, engine=unoptimised)
    for dtype in (np.complex64, np.float16):
        gate = cl.UserEvent(unoptimised.context)
        queue = cl.CommandQueue(unoptimised.context)
        on = cla.zeros(queue, x.shape, dtype)
        queue.finish()
        on.events.clear()
        source = (x if dtype == np.complex64 else x.real).astype(dtype)
        expected = want if dtype == np.complex64 else np.fft.fft(source.astype(float))
        filled = cl.enqueue_copy(
            queue, on.data, np.ascontiguousarray(source), wait_for=[gate], is_blocking=False
        )
        got = pg.fft.fft(on, engine=unoptimised, queue=unoptimised.queue, wait_for=[filled])
        gate.set_status(cl.command_execution_status.COMPLETE)
        assert_transforms(got.get(), expected, 64)


def test_plans(unoptimised: Engine) -> None:
    x, other = (numbers((17, 64), np.complex64, seed) for seed in (4, 5))
    on = cla.to_device(unoptimised.queue, other)
    for plan in (
        pg.plan(pg.fft.fft, x, norm="ortho", engine=unoptimised),
        pg.plan("fft", x, norm="ortho", engine=unoptimised),
    ):
        for operand in (x, other, x):
            np.testing.assert_array_equal(
                plan(operand), pg.fft.fft(operand, norm="ortho", engine=unoptimised)
            )
        with pytest.raises(ArgumentError, match="the plan is for"):
            plan(x[:3])
    plan = pg.plan(pg.fft.ifft, on, engine=unoptimised)
    np.testing.assert_array_equal(plan(on).get(), pg.fft.ifft(other, engine=unoptimised))
    halves = cla.to_device(unoptimised.queue, other.real.astype(np.float16))
    plan = pg.plan("fft", halves, engine=unoptimised)
    np.testing.assert_array_equal(plan(halves).get(), pg.fft.fft(halves, engine=unoptimised).get())
    for wrong in ("fht", "fftshift", 3, None):
        with pytest.raises(PortableGPUError, match="no operation"):
            pg.plan(wrong, x, engine=unoptimised)  # type: ignore[arg-type]
    with pytest.raises(PortableGPUError, match="operation"):
        pg.plan(pg.fft.next_fast_len, x)
    with pytest.raises(PortableGPUError, match="operation"):
        pg.plan(np.fft.fft, x)


def test_tables_are_forgotten_before_they_fill_the_device(
    unoptimised: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 3000
    monkeypatch.setattr(Engine, "_max_table_bytes", property(lambda engine: limit))
    for n in (96, 100, 112, 120, 96, 100):
        x = numbers((17, n), np.complex64)
        for _ in range(2):  # of the second the plan is remembered
            assert_transforms(pg.fft.fft(x, engine=unoptimised), np.fft.fft(x.astype(complex)), n)
        plans = list(unoptimised._plans.values())
        workspace_bytes = sum(getattr(plan, "kept_bytes", 0) for plan in plans)
        assert 0 < workspace_bytes == unoptimised._table_bytes
        assert workspace_bytes <= limit or len([plan for plan in plans if plan.kept_bytes]) == 1
        assert len(unoptimised.state().known) <= len(plans)


# -- SciPy


def test_scipys_backend(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    fft = pytest.importorskip("scipy.fft", reason="SciPy is not installed")
    x = numbers((17, 64), np.complex64)
    want = pg.fft.fft(x)
    with fft.set_backend(pg.fft.scipy_backend, only=True):
        np.testing.assert_array_equal(fft.fft(x), want, strict=True)
        np.testing.assert_array_equal(fft.fft(x, overwrite_x=False, workers=2), want, strict=True)
        on = cla.to_device(engine.queue, x)
        np.testing.assert_array_equal(fft.fft(on).get(), want, strict=True)
        with pytest.raises(ValueError, match="points"):
            fft.fft(x, 0)
    with fft.set_backend(pg.fft.scipy_backend):
        long = x.real.astype(np.longdouble)
        assert fft.fft(long).dtype == np.clongdouble
        fft.fht(np.ones(16), 0.1, 0.5)
        with pytest.raises(NotImplementedError, match="precomputed plan"):
            fft.fft(x, plan="foo")
        with pytest.raises(TypeError):
            fft.rfft(x)


def test_lengths_that_are_fast() -> None:
    for n in [*range(1, 300), 10**6 + 3, (1 << 40) + 1]:
        after, before = pg.fft.next_fast_len(n), pg.fft.prev_fast_len(n)
        assert before <= n <= after
        assert is_smooth(before)
        assert is_smooth(after)
        if n < 10**7:
            assert not any(map(is_smooth, range(before + 1, n)))
            assert not any(map(is_smooth, range(n + 1, after)))
