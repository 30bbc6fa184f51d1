"""Transforms by work-groups: the kernels of GPUs, on whatever device a job forces their class.

Each row of parameters is a program or two, which take PoCL a second each; strides and extents are
their arguments.  Policies are small, so that all that a kernel does occurs at short lengths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from sampling import needs

from portable_gpu import Engine
from portable_gpu.fft import dctn, fft, fftn, idctn, ifft, irfft, irfftn, rfft, rfftn
from portable_gpu.ops.fft import decompositions as decompositions_of_lines
from portable_gpu.ops.fft import grouping, joined
from portable_gpu.ops.fft import policy as policies
from portable_gpu.ops.fft.commands.catalogue import problem
from portable_gpu.ops.fft.decompositions import Decomposition, decompositions
from portable_gpu.ops.fft.kernels import JoinedCosts
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.tables import is_smooth
from portable_gpu.ops.fft.variants import variants
from portable_gpu.ops.variant import best_of
from portable_gpu.signal import fftconvolve

pytestmark = pytest.mark.path
Array = Any
CANARY = 7.0
F32, F64, C64, C128 = np.float32, np.float64, np.complex64, np.complex128


@pytest.fixture(scope="module", autouse=True)
def _groups(engine: Engine) -> None:
    if engine.target.is_cpu:
        pytest.skip("a CPU's own path: the jobs that force a class take this one")


def bound(dtype: Any, n: int, chirp: bool = False) -> float:
    """The largest relative error in the 2-norm."""
    single = np.dtype(dtype) in (np.float32, np.complex64)
    limit = (2e-6, 5e-7) if single else (5e-15, 5e-16)
    return (1 + chirp) * (limit[0] + limit[1] * np.log10(n))


def error(got: Array, wanted: Array) -> float:
    assert got.shape == wanted.shape
    return float(np.linalg.norm((got - wanted).ravel()) / np.linalg.norm(wanted.ravel()))


def numbers(shape: Any, dtype: Any, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@dataclass(frozen=True)
class Small:
    """The fields of a policy for short transforms, so that few numbers take several passes."""

    item_numbers: int = 16
    group_size: int = 32
    adjacent: int = 4
    max_length: int = 4096
    prime: int = 13
    cyclic: int = 13

    def on(self, monkeypatch: pytest.MonkeyPatch, engine: Engine) -> Engine:
        """Return an engine with this policy."""
        policy = GroupFftPolicy(**vars(self))
        monkeypatch.setattr(GroupFftPolicy, "default", classmethod(lambda *_: policy))
        return Engine(queue=engine.queue)


@pytest.mark.parametrize(
    ("n", "count", "axis", "dtype", "small"),
    [
        (1, 3, 1, C64, Small()),
        (8, 70, 1, C64, Small()),
        (13, 9, 0, C64, Small()),
        (60, 7, 1, C128, Small()),
        (64, 5, 1, C64, Small(group_size=64)),
        (256, 5, 0, C64, Small()),
        (1000, 2, 1, C64, Small(item_numbers=32)),
    ],
)
def test_complex(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int, count: int, axis: int, dtype: Any,
    small: Small,
) -> None:  # fmt: skip
    needs(engine, dtype)
    small_engine = small.on(monkeypatch, engine)
    x = numbers((count, n) if axis else (n, count), dtype)
    assert error(fft(x, axis=axis, engine=small_engine), np.fft.fft(x, axis=axis)) <= bound(
        dtype, n
    )
    assert error(ifft(x, axis=axis, engine=small_engine), np.fft.ifft(x, axis=axis)) <= bound(
        dtype, n
    )


@pytest.mark.parametrize(
    ("n", "axis", "dtype", "small"),
    [
        (48, 1, F32, Small()),
        (15, 0, F64, Small()),
        (96, 1, F32, Small(max_length=16)),  # two passes, roots and conjugates between them
        (96, 0, F64, Small(max_length=16, adjacent=2)),
        (280, 1, F32, Small(max_length=8)),
        (34, 1, F32, Small()),  # a chirp, two lines as one
        (51, 0, F64, Small()),
        (31, 1, F32, Small()),  # a cyclic convolution
        (71, 0, F64, Small(adjacent=2)),
        (136, 1, F32, Small(max_length=64)),  # 8 x 17
    ],
)
def test_real(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int, axis: int, dtype: Any, small: Small
) -> None:
    needs(engine, dtype)
    small_engine = small.on(monkeypatch, engine)
    x = numbers((5, n) if axis else (n, 5), dtype)
    half = np.fft.rfft(x.astype(np.float64), axis=axis)
    limit = bound(dtype, n, not is_smooth(n))
    assert error(rfft(x, axis=axis, engine=small_engine), half) <= limit
    half = half.astype(C64 if dtype == F32 else C128)
    assert error(irfft(half, n, axis, engine=small_engine), x) <= limit


@pytest.mark.parametrize(
    ("n", "max_length", "dtype"),
    [
        (120, 16, C64),
        (17, 64, C64),
        (23, 64, C128),  # the way back is not where it begins
        (306, 64, C64),  # 17 x 18
        (19, 16, C128),
        (53, 8, C64),
        (211, 256, C64),  # a prime whose convolution is cyclic: 210 numbers
        (139, 512, C128),  # and one of which 138 has a large prime: a chirp
    ],
)
def test_several_passes_and_chirps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int, max_length: int, dtype: Any
) -> None:
    """Lines longer than a pass, lengths with other primes, and both."""
    needs(engine, dtype)
    small_engine = Small(max_length=max_length).on(monkeypatch, engine)
    x = numbers((3, n), dtype)
    chirp = not is_smooth(n)
    assert error(fft(x, engine=small_engine), np.fft.fft(x)) <= bound(dtype, n, chirp)
    assert error(ifft(x, engine=small_engine), np.fft.ifft(x)) <= bound(dtype, n, chirp)


def in_three_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the estimates say."""

    def only_three(*given: Any) -> list[Decomposition]:
        return [item for item in decompositions(*given) if item.name == "three passes"]

    monkeypatch.setattr("portable_gpu.ops.fft.variants.decompositions", only_three)


@pytest.mark.parametrize(
    ("n", "axis", "dtype", "small"),
    [(280, 1, F32, Small(max_length=8)), (315, 0, F64, Small(max_length=9, adjacent=2))],
)
def test_three_passes_of_real_lines(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int, axis: int, dtype: Any, small: Small
) -> None:
    """Even and odd factors; half of the rows is between them."""
    needs(engine, dtype)
    small_engine = small.on(monkeypatch, engine)
    in_three_passes(monkeypatch)
    x = numbers((5, n) if axis else (n, 5), dtype)
    half = np.fft.rfft(x.astype(np.float64), axis=axis)
    assert error(rfft(x, axis=axis, engine=small_engine), half) <= bound(dtype, n)
    half = half.astype(C64 if dtype == F32 else C128)
    assert error(irfft(half, n, axis, engine=small_engine), x) <= bound(dtype, n)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", [F32, C64, C128])
def test_some_of_the_results_of_three_passes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, dtype: Any, mode: str
) -> None:
    """A convolution by transforms of 320 to 512 numbers: from the first on, or in the middle."""
    needs(engine, dtype)
    small_engine = Small(max_length=8).on(monkeypatch, engine)
    in_three_passes(monkeypatch)
    x, h = numbers(300, dtype), numbers(210, dtype, 1)
    expected = np.convolve(x.astype(C128), h.astype(C128), mode)
    assert error(fftconvolve(x, h, mode, engine=small_engine), expected) <= 4 * bound(dtype, 512)


@pytest.mark.parametrize(
    ("n", "axis", "dtype", "small"),
    [
        (66, 1, C64, Small(max_length=128)),  # one pass, two of 6 x 11, and these at once
        (289, 0, C64, Small(max_length=1024, adjacent=2)),  # a chirp, and 17 x 17, which are cyclic
        (57, 0, F32, Small(max_length=256, adjacent=2)),  # two lines as one
        (600, 1, C64, Small(max_length=64)),  # two passes of 24 x 25, and three
        (211, 1, F32, Small(max_length=64)),  # a chirp of two passes, and of three
    ],
)
def test_every_way_is_right(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int, axis: int, dtype: Any, small: Small
) -> None:
    """Also those that are not estimated to be the fastest."""
    monkeypatch.setattr(decompositions_of_lines, "_MIN_FACTOR", 2)
    monkeypatch.setattr(policies, "_MIN_SPLIT_LENGTH", 16)
    small_engine = small.on(monkeypatch, engine)
    x = numbers((5, n) if axis else (n, 5), dtype)
    kind, expected = ("c2c", np.fft.fft) if dtype == C64 else ("r2c", np.fft.rfft)
    every = variants(
        problem(kind, x.shape, np.dtype(dtype), (), axis), small_engine.target, small_engine.table
    )
    assert len(every) > 1
    half = expected(x, axis=axis)
    for item in every:
        result = cla.empty(small_engine.queue, half.shape, C64)
        state = small_engine.state()
        buffers = cla.to_device(small_engine.queue, x).base_data, result.base_data
        item.bind(small_engine).enqueue(state, buffers, (0, 0), (1.0,))
        assert error(result.get(), half) <= bound(dtype, n, True), item.name


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [12, 17])
def test_scales(engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int, norm: str) -> None:
    """A scale of 1 is left out of the text; any other is not."""
    small_engine = Small().on(monkeypatch, engine)
    x, y = numbers((3, n), C64), numbers((3, n), F32)
    half = np.fft.rfft(y).astype(C64)
    for got, want in (
        (fft(x, norm=norm, engine=small_engine), np.fft.fft(x, norm=norm)),
        (ifft(x, norm=norm, engine=small_engine), np.fft.ifft(x, norm=norm)),
        (rfft(y, norm=norm, engine=small_engine), np.fft.rfft(y, norm=norm)),
        (irfft(half, n, norm=norm, engine=small_engine), np.fft.irfft(half, n, norm=norm)),
        (fftn(x, norm=norm, engine=small_engine), np.fft.fftn(x, norm=norm)),
    ):
        assert error(got, want) <= bound(C64, n, not is_smooth(n))


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_scales_of_cosine_transforms(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    """There and back, by the definition's scale: of one axis, and of two of which one has it."""
    small_engine = Small().on(monkeypatch, engine)
    x = numbers((4, 9), F32)
    for axes in ((1,), (0, 1)):
        back = idctn(
            dctn(x, kind, axes=axes, engine=small_engine), kind, axes=axes, engine=small_engine
        )
        assert error(back, x) <= 2 * bound(F32, 36, chirp=True)


def test_a_plan_without_a_scale_takes_none(engine: Engine) -> None:
    result = variants(problem("c2c", (16,), np.dtype(C64)), engine.target, engine.table)
    plan = best_of(result, engine.target).bind(engine)
    x, y = (cla.zeros(engine.queue, 16, C64) for _ in range(2))
    with pytest.raises(ValueError, match="without one"):
        plan.enqueue(engine.state(), [x.data, y.data], (0, 0), (0.5,))


def test_any_layout_in_place(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides of any sign, offsets, four axes; nothing outside the view is written; bits repeat."""
    small_engine = Small(adjacent=2).on(monkeypatch, engine)
    host = np.full((3, 12, 6, 13), CANARY, C64)
    view = (slice(None), slice(1, 12, 3), slice(None, None, 2), slice(10, 2, -2))
    host[view] = numbers((3, 4, 3, 4), C64)
    for axis in (1, 3):
        seen = []
        for _ in range(2):
            memory = cla.to_device(engine.queue, host)
            got = fft(memory[view], axis=axis, overwrite_x=True, engine=small_engine)
            assert got.base_data is memory.base_data
            seen.append(memory.get())
        np.testing.assert_array_equal(*seen)
        assert error(seen[0][view], np.fft.fft(host[view], axis=axis)) <= bound(C64, 4)
        seen[0][view] = host[view]
        np.testing.assert_array_equal(seen[0], host)


def test_padding_and_axes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    small_engine = Small().on(monkeypatch, engine)
    x = numbers((4, 5, 6), F32)
    for s in ((8, 3, 6), (2, 8, 4)):
        assert error(fftn(x, s, engine=small_engine), np.fft.fftn(x, s, (0, 1, 2))) <= bound(
            C64, 64
        )
    half = rfftn(x, (8, 5, 8), engine=small_engine)
    assert error(half, np.fft.rfftn(x, (8, 5, 8), (0, 1, 2))) <= bound(C64, 64)
    back = irfftn(half, (8, 5, 8), engine=small_engine)
    assert error(back[:4, :5, :6], x) <= bound(C64, 64)
    assert np.all(np.abs(back[4:]) < 1e-6)


def test_two_axes_in_one_launch(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of the second pass wait for those of the first; bits repeat; in place too."""
    monkeypatch.setattr(grouping, "_fused_shapes", lambda *_: None)
    monkeypatch.setattr(joined, "_BYTES_AHEAD", 256)
    monkeypatch.setattr(JoinedCosts, "of", classmethod(lambda *_: JoinedCosts(100.0, 1.0)))
    small_engine = Small(group_size=64).on(monkeypatch, engine)
    small_engine.target = replace(small_engine.target, forward_progress=True, shared_cache=1 << 26)
    plane = problem("c2c", (9, 16, 16), np.dtype(C64))
    assert (
        "two axes"
        in best_of(
            variants(plane, small_engine.target, small_engine.table), small_engine.target
        ).path
    )
    x = numbers((2, 9, 16, 16), C64)
    for axes in ((1, 2, 3), (2, 3)):
        seen = [fftn(x, axes=axes, engine=small_engine) for _ in range(2)]
        np.testing.assert_array_equal(*seen)
        assert error(seen[0], np.fft.fftn(x, axes=axes)) <= bound(C64, 16**3)
        memory = cla.to_device(engine.queue, x)
        got = fftn(memory, axes=axes, overwrite_x=True, engine=small_engine).get()
        np.testing.assert_array_equal(got, seen[0])
    y = numbers((9, 16, 64), F32)
    half = rfftn(y, engine=small_engine)
    assert error(half, np.fft.rfftn(y)) <= bound(C64, 16**3)
    assert error(irfftn(half, y.shape, engine=small_engine), y) <= bound(C64, 16**3)


def test_planes_of_one_group(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both axes by the same group, whose work-items differ in number from one to the other."""
    monkeypatch.setattr(JoinedCosts, "of", classmethod(lambda *_: JoinedCosts(100.0, 1.0)))
    small_engine = Small().on(monkeypatch, engine)
    for shape in ((32, 8), (3, 4, 16)):
        plane = problem("c2c", shape[-2:], np.dtype(C64), shape[:-2])
        chosen = best_of(
            variants(plane, small_engine.target, small_engine.table), small_engine.target
        )
        assert (chosen.path, chosen.launches) == ("two axes at once", 1)
        x = numbers(shape, C64)
        expected = np.fft.fftn(x, axes=(-2, -1))
        assert error(fftn(x, axes=(-2, -1), engine=small_engine), expected) <= bound(C64, 200)
        memory = cla.to_device(engine.queue, x)
        got = fftn(memory, axes=(-2, -1), overwrite_x=True, engine=small_engine).get()
        assert error(got, expected) <= bound(C64, 200)


@pytest.mark.parametrize(("n", "dtype"), [(48, F32), (6, F64), (1000, F32), (512, F32)])
def test_real_lines_that_begin_anywhere(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int, dtype: Any
) -> None:
    """Lines of even length are read in pairs where these are aligned."""
    needs(engine, dtype)
    of = grouping._figures
    monkeypatch.setattr(grouping, "_figures", lambda target: replace(of(target), packed_length=2))
    small_engine = Small().on(monkeypatch, engine)
    host = numbers((5, n + 1), dtype)
    memory = cla.to_device(engine.queue, host)[:, 1:]
    got = rfft(memory, engine=small_engine).get()
    assert error(got, np.fft.rfft(host[:, 1:].astype(np.float64))) <= bound(dtype, n)


@pytest.mark.parametrize(
    ("n", "dtype", "small"),
    [
        (37, C64, Small(prime=37, cyclic=37)),
        (47, C64, Small(prime=37, cyclic=37)),  # a convolution of 2 x 23 numbers
        (17 * 8, C64, Small(prime=37, cyclic=37)),
        (23 * 19, C64, Small(prime=37, cyclic=37)),
        (23 * 4, C128, Small(prime=23)),
        (23, C128, Small(prime=23)),  # and no convolution of 22 numbers
    ],
)
def test_primes_with_butterflies(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, n: int, dtype: Any, small: Small
) -> None:
    needs(engine, dtype)
    small_engine = small.on(monkeypatch, engine)
    x = numbers((3, n), dtype)
    assert error(fft(x, engine=small_engine), np.fft.fft(x)) <= bound(dtype, n)
    assert error(ifft(x, engine=small_engine), np.fft.ifft(x)) <= bound(dtype, n)


@pytest.mark.tiny
def test_tiny_groups(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass in place, and two with real numbers: every barrier and every guard."""
    small_engine = Small(group_size=16, max_length=8).on(monkeypatch, engine)
    x = numbers((2, 8), F32)
    assert error(rfft(x, 30, engine=small_engine), np.fft.rfft(x, 30)) <= bound(F32, 30)
    small_engine = Small(group_size=16).on(monkeypatch, engine)
    y = numbers((32, 3), C64)
    got = fft(cla.to_device(engine.queue, y), axis=0, overwrite_x=True, engine=small_engine)
    assert error(got.get(), np.fft.fft(y, axis=0)) <= bound(C64, 32)
