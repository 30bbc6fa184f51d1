"""Operations on arrays that are read and written in tiles."""

from __future__ import annotations

import errno
import mmap
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from device_groups import one_and_two
from failing_devices import failing
from interruptions import Interrupted, handler, interrupted, stop
from reference import assert_within, product_bound, unit_roundoff

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceFailedError,
    DeviceMemoryError,
    DTypeError,
    OverlapError,
    ReadOnlyError,
    ResultFileError,
    ShapeError,
)
from portable_gpu.multi import DeviceGroup, Member, moments, streaming
from portable_gpu.multi.streaming import pipeline, storage
from portable_gpu.multi.streaming.job import Job
from portable_gpu.multi.streaming.pipeline import _DeviceMemory
from portable_gpu.multi.streaming.storage import TiledOperand, TiledResult
from portable_gpu.runtime.events import QueueEvents
from portable_gpu.runtime.transfer import asnumpy

#: Bytes of tiles of 64 x 64 to 128 x 128 elements.
_LIMIT = 250_000


@pytest.fixture(params=["in place", "copied"])
def place(request: pytest.FixtureRequest, engine: pg.Engine) -> pg.Engine:
    """An engine that works on the host's memory, and one that copies tiles as for a GPU."""
    if request.param == "in place":
        return engine
    other = pg.Engine(engine.device)
    other.maps_host_memory = other.takes_host_pointers = False
    return other


def _file(folder: Path, name: str, values: Any) -> Any:
    np.save(folder / f"{name}.npy", values)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def _names(folder: Path) -> list[str]:
    return sorted([path.name for path in folder.iterdir()])


def _matrices(folder: Path) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    a = _file(folder, "a", rng.standard_normal((300, 260), np.float32))
    return a, _file(folder, "b", rng.standard_normal((260, 190), np.float32))


def _expected(a: Any, b: Any) -> tuple[Any, Any]:
    return a.astype(np.float64) @ b.astype(np.float64), product_bound(a, b, np.float32)


def test_products_of_memmaps(tmp_path: Path, place: pg.Engine) -> None:
    a, b = _matrices(tmp_path)
    work: list[float] = []
    c = streaming.gemm(
        a, b, out=tmp_path / "c.npy", memory_limit=_LIMIT, engine=place,
        progress=lambda done, total: work.append(done / total),
    )  # fmt: skip
    assert isinstance(c, np.memmap)
    assert len(work) > 10
    assert work == sorted(work)
    assert work[-1] == 1
    assert_within(c, *_expected(a, b))
    assert _names(tmp_path) == ["a.npy", "b.npy", "c.npy"]
    repeated = np.ndarray((300, 190), np.float32, bytearray(300 * 190 * 4 + 1), 1)  # not aligned
    assert streaming.gemm(a, b, out=repeated, memory_limit=_LIMIT, engine=place) is repeated
    assert np.array_equal(repeated, c)


def test_a_call_returns_its_own_file_where_another_replaces_it(
    tmp_path: Path, place: pg.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = _matrices(tmp_path)
    path, replace = tmp_path / "c.npy", os.replace

    def replace_twice(source: Any, target: Any) -> None:
        replace(source, target)
        if target != path:
            return
        np.save(source.with_suffix(".npy"), np.zeros(3))
        replace(source.with_suffix(".npy"), target)

    monkeypatch.setattr(os, "replace", replace_twice)
    c = streaming.gemm(a, b, out=path, memory_limit=_LIMIT, engine=place)
    assert_within(c, *_expected(a, b))
    assert Path(c.filename) == path
    assert np.load(path).shape == (3,)


def test_transposed_products_of_other_strides(tmp_path: Path, place: pg.Engine) -> None:
    a, b = _matrices(tmp_path)
    c = streaming.gemm(
        a[::2, ::-1].T, np.asfortranarray(b).T, alpha=-2.0, trans_a="T", trans_b="C",
        memory_limit=_LIMIT, engine=place,
    )  # fmt: skip
    x = np.ascontiguousarray(a[::2, ::-1])
    expected, bound = _expected(x, b)
    assert_within(c, -2 * expected, 2 * bound)


def test_products_of_16_bit_floats_are_summed_in_float32(place: pg.Engine) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((70, 400)).astype(np.float16)
    c = streaming.gemm(a, a, trans_b="T", memory_limit=100_000, engine=place)
    assert c.dtype == np.float16
    assert_within(c, *_expected(a, a.T.copy()))


def test_products_of_zarr_arrays(tmp_path: Path, place: pg.Engine) -> None:
    zarr = pytest.importorskip("zarr")
    a, b = _matrices(tmp_path)
    stored = zarr.open_array(
        str(tmp_path / "a.zarr"), mode="w", shape=a.shape, chunks=(90, 100), dtype=a.dtype
    )
    stored[:] = a
    c = streaming.gemm(stored, b, out=str(tmp_path / "c.zarr"), memory_limit=_LIMIT, engine=place)
    assert_within(c[:], *_expected(a, b))
    assert _names(tmp_path) == ["a.npy", "a.zarr", "b.npy", "c.zarr"]
    with pytest.raises(ArgumentError, match=r"c.zarr, which exists"):
        streaming.gemm(stored, b, out=tmp_path / "c.zarr")
    assert streaming.gemm(stored, b, out=c, memory_limit=_LIMIT, engine=place) is c
    with pytest.raises(OverlapError, match="shares memory with a"):
        streaming.gemm(stored, np.eye(260, dtype=np.float32), out=stored)
    with pytest.raises(ReadOnlyError):
        streaming.gemm(a, b, out=zarr.open_array(str(tmp_path / "c.zarr"), mode="r"))
    rows = streaming.sum(stored, axis=1, memory_limit=80_000, engine=place)
    assert_within(rows, a.astype(np.float64).sum(1), 17 * 2.0**-24 * np.abs(a).sum(1))


@pytest.mark.parametrize("out", ["c.npy", "c.zarr"])
def test_an_exception_at_any_line_leaves_no_part_of_a_file(
    tmp_path: Path, engine: pg.Engine, out: str
) -> None:
    """As of a signal handler: the result is complete or absent, and no other name is left."""
    zarr = pytest.importorskip("zarr") if out.endswith("zarr") else None
    x = np.eye(4, dtype=np.float32)
    before, number, is_stopped = sys.gettrace(), 0, True
    while is_stopped:
        number += 1
        left, is_stopped = number, False

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename != storage.__file__:
                return None
            left -= event == "line"
            if not left:
                raise Interrupted
            return trace

        try:
            sys.settrace(trace)
            streaming.gemm(x, x, out=tmp_path / out, engine=engine)
        except Interrupted:
            is_stopped = True
        finally:
            sys.settrace(before)
        names = _names(tmp_path)
        assert names == [out] or (is_stopped and not names), number
        if names:
            stored = (
                np.load(tmp_path / out) if out == "c.npy" else zarr.open_array(str(tmp_path / out))
            )
            assert np.array_equal(stored[:], x)
            (shutil.rmtree if out == "c.zarr" else os.unlink)(tmp_path / out)
    assert number > 40


@pytest.mark.parametrize("out", ["c.npy", "c.zarr"])
def test_nothing_is_left_of_a_result_after_an_exception(
    tmp_path: Path, place: pg.Engine, out: str
) -> None:
    if out.endswith("zarr"):
        pytest.importorskip("zarr")
    a, b = _matrices(tmp_path)

    def stop(done: float, total: float) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        streaming.gemm(a, b, out=tmp_path / out, memory_limit=_LIMIT, engine=place, progress=stop)
    assert _names(tmp_path) == ["a.npy", "b.npy"]
    assert_within(streaming.gemm(a, b, engine=place), *_expected(a, b))


def test_files_of_zarr_are_removed_if_a_signal_arrives_as_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zarr's threads make them, which go on when a signal handler has raised an exception."""
    zarr = pytest.importorskip("zarr")
    x = np.eye(4, dtype=np.float32)
    open_array, ended = zarr.open_array, []

    def slow(*arguments: Any, **options: Any) -> Any:
        def make() -> None:
            time.sleep(0.3)
            made.append(open_array(*arguments, **options))
            ended.append(threading.get_ident())

        made: list[Any] = []
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    monkeypatch.setattr(zarr, "open_array", slow)
    with handler(stop):
        assert interrupted(lambda: streaming.gemm(x, x, out=tmp_path / "c.zarr"), 0.1)
    assert ended
    assert _names(tmp_path) == []
    monkeypatch.undo()
    result = streaming.gemm(x, x, out=tmp_path / "c.zarr")
    assert np.array_equal(result[:], x)


def test_a_full_disk_is_reported_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = _matrices(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    calls: list[float] = []
    with pytest.raises(ResultFileError, match=r"c.npy\) cannot be written: No space left"):
        streaming.gemm(a, b, out=tmp_path / "c.npy", progress=lambda *done: calls.append(done[0]))
    assert not calls
    assert _names(tmp_path) == ["a.npy", "b.npy"]


def test_results_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    a, b = _matrices(tmp_path)
    small = np.lib.format.open_memmap(tmp_path / "s.npy", "w+", np.float32, (200, 190))
    c = np.lib.format.open_memmap(tmp_path / "r.npy", "w+", np.float32, (300, 190))
    for out, error, text in (
        (small, ShapeError, "out has shape (200, 190); the result has (300, 190)"),
        (np.load(tmp_path / "r.npy", mmap_mode="r"), ReadOnlyError, "out is read-only"),
        (np.load(tmp_path / "r.npy", mmap_mode="c"), ReadOnlyError, "memmap of mode 'c'"),
        (c.astype(np.float64), DTypeError, "out has dtype float64; the result has float32"),
        ("c.txt", ArgumentError, "a name that ends in .npy or .zarr"),
        (tmp_path / "no" / "c.npy", ResultFileError, "cannot be written: No such file"),
        (3, ArgumentTypeError, "out is 3; expected a file's name"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            streaming.gemm(a, b, out=out)
    square = np.lib.format.open_memmap(tmp_path / "q.npy", "w+", np.float32, (190, 190))
    other = np.load(tmp_path / "q.npy", mmap_mode="r+")
    for out in (square, square[:], other, np.asarray(other)):
        with pytest.raises(OverlapError, match="out shares memory with b"):
            streaming.gemm(np.eye(190, dtype=np.float32), square, out=out)
    (tmp_path / "q.npy").unlink()  # the maps stay
    with pytest.raises(OverlapError, match="out shares memory with b"):
        streaming.gemm(np.eye(190, dtype=np.float32), square, out=other)
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    for name in ("b.npy", "b.zarr"):
        with pytest.raises(DTypeError, match=f"{name}, and a file of this kind cannot hold bfloat"):
            streaming.gemm(a.astype(bfloat16), b.astype(bfloat16), out=tmp_path / name)


def test_memmaps_longer_than_their_files_are_refused(tmp_path: Path) -> None:
    """An access to their last pages would end the process.  Memory without a file is taken."""
    x = np.frombuffer(mmap.mmap(-1, 1 << 16), np.float32)
    assert streaming.sum(x) == 0
    c = np.memmap(tmp_path / "c.bin", np.float32, "w+", shape=(50, 50))
    os.truncate(tmp_path / "c.bin", 100)
    ones = np.ones((50, 50), np.float32)
    with pytest.raises(ArgumentError, match="out maps 10000 bytes of a file that has 100"):
        streaming.gemm(ones, ones, out=c)
    with pytest.raises(ArgumentError, match="a maps 10000 bytes of a file that has 100"):
        streaming.gemm(c, ones)


def test_wrong_arguments_are_named(engine: pg.Engine) -> None:
    x = np.ones((100, 100), np.float32)
    for arguments, error, text in (
        ((x, x[:3]), ShapeError, "inner sizes 100 and 3 differ"),
        ((x, [1.0]), ArgumentTypeError, "b is [1.0]"),
        ((x, x[0]), ShapeError, "b has shape (100,)"),
        ((pg.asarray(x), x), ArgumentTypeError, "a is a device array"),
        ((x, x.astype(int)), DTypeError, "b"),
    ):
        if error is DTypeError:
            arguments = arguments[1], arguments[1]
            text = "gemm of int64"
        with pytest.raises(error, match=re.escape(text)):
            streaming.gemm(*arguments)
    for options, error, text in (
        ({"memory_limit": 1000}, ArgumentError, "memory_limit is 1000 bytes, and a product needs"),
        ({"memory_limit": 0}, ArgumentError, "memory_limit is 0"),
        ({"memory_limit": "1 GB"}, ArgumentTypeError, "memory_limit is '1 GB'"),
        ({"engine": 1}, ArgumentTypeError, "engine is 1"),
        ({"progress": 1}, ArgumentTypeError, "progress is 1"),
        ({"trans_a": "X"}, ArgumentError, "trans_a is 'X'"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            streaming.gemm(x, x, **options)


@pytest.mark.parametrize("axis", [None, (0, 2)])
def test_reductions(tmp_path: Path, place: pg.Engine, axis: Any) -> None:
    rng = np.random.default_rng(1)
    x = _file(tmp_path, "x", (1e6 + rng.standard_normal((37, 50, 12))).astype(np.float32))
    wide, u, options = x.astype(np.float64), unit_roundoff(x.dtype), {"axis": axis}
    streamed = {"axis": axis, "memory_limit": 20_000, "engine": place}
    total = np.abs(wide).sum(**options)
    assert_within(streaming.sum(x, **streamed), wide.sum(**options), 17 * u * total)
    mean = wide.mean(**options)
    assert_within(streaming.mean(x, **streamed), mean, 17 * u * np.abs(mean))
    assert np.array_equal(streaming.max(x, **streamed), x.max(**options))
    norm = np.sqrt((wide * wide).sum(**options))
    assert_within(streaming.nrm2(x, **streamed), norm, 14 * u * norm)
    for first in (1e6, 1e12):
        values = x.copy()
        values[0] = first
        deviation = values.astype(np.float64).std(ddof=1, **options)
        assert_within(streaming.std(values, ddof=1, **streamed), deviation, 32 * u * deviation)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_first_of_equal_elements_is_found(place: pg.Engine, axis: int | None) -> None:
    rng = np.random.default_rng(2)
    for order in "CF":
        x = np.array(rng.integers(0, 3, (40, 30)), np.float32, order=order)
        for nan in (0, 3):
            x.reshape(-1)[rng.integers(x.size, size=nan)] = np.nan
            result = streaming.argmax(x, axis, memory_limit=1000, engine=place, keepdims=True)
            assert np.array_equal(result, np.argmax(x, axis, keepdims=True))


def test_infinite_elements_beside_nan(place: pg.Engine) -> None:
    rng = np.random.default_rng(5)
    for _ in range(12):
        x = rng.integers(-2, 3, (24, 6)).astype(np.float32)
        for special in (np.inf, -np.inf, np.nan):
            x.reshape(-1)[rng.integers(x.size, size=rng.integers(4))] = special
        options: dict[str, Any] = {"axis": 0, "memory_limit": 400, "engine": place}
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(streaming.sum(x, **options), x.sum(0))
            np.testing.assert_allclose(
                streaming.nrm2(x, **options), np.sqrt(np.square(x).sum(0)), rtol=1e-6
            )
            np.testing.assert_allclose(
                streaming.mean(x, **options), x.mean(0), rtol=1e-5, atol=1e-6
            )
            np.testing.assert_allclose(streaming.var(x, **options), x.var(0), rtol=1e-5)
            np.testing.assert_array_equal(streaming.max(x, **options), x.max(0))


def test_reductions_of_integers_and_of_no_elements() -> None:
    x = np.arange(1000, dtype=np.int32)
    total = streaming.sum(x, memory_limit=800)
    assert total == 499500
    assert total.dtype == np.int64
    assert streaming.sum(x[:0], memory_limit=800) == 0
    with pytest.raises(ShapeError):
        streaming.max(x[:0])
    with pytest.raises(ArgumentError, match="memory_limit is 4 bytes, and an element needs 8"):
        streaming.sum(x, memory_limit=4)
    with pytest.raises(DTypeError, match="x is complex64"):
        streaming.std(np.ones(3, np.complex64))


@pytest.mark.parametrize("inverse", [False, True])
def test_transforms_in_several_passes(tmp_path: Path, place: pg.Engine, inverse: bool) -> None:
    rng = np.random.default_rng(5)
    x = _file(tmp_path, "x", rng.standard_normal((8, 8, 16), np.float32))
    function, oracle = (streaming.ifftn, np.fft.ifftn) if inverse else (streaming.fftn, np.fft.fftn)
    done: list[float] = []
    for axes, elements, passes in ((None, 128, 2), (None, 20, 3), ((0,), 100, 1)):
        options = {"memory_limit": 6 * 8 * elements, "engine": place}
        y = function(
            x, axes, "ortho", out=tmp_path / "y.npy",
            progress=lambda some, total: done.append(some / total), **options,
        )  # fmt: skip
        assert y.dtype == np.complex64
        expected = oracle(x.astype(np.float64), axes=axes, norm="ortho")
        off = np.linalg.norm(y - expected) / np.linalg.norm(expected)
        assert off < 2 * unit_roundoff(np.float32) * np.log2(x.size)
        assert len(done) >= passes * x.size / elements
        assert done == sorted(done)
        assert done[-1] == 1
        done.clear()
    text = "a sixth cannot hold a line of axis 2 of x, which has 16 elements"
    with pytest.raises(ArgumentError, match=text):
        function(x, memory_limit=6 * 8 * 15)


def test_real_transforms_in_several_passes(tmp_path: Path, place: pg.Engine) -> None:
    """The axis of the real lines is any, and its files and arrays are those of other transforms."""
    x = _file(tmp_path, "x", np.random.default_rng(6).standard_normal((8, 9, 16), np.float32))
    for axes, elements, out in (
        ((0, 1, 2), 160, tmp_path / "y.npy"), ((2, 0, 1), 150, None), ((1,), 200, None),
        ((2, 0), 20, None),
    ):  # fmt: skip
        options: Any = {"memory_limit": 6 * 8 * elements, "engine": place}
        exact = np.fft.rfftn(x.astype(np.float64), axes=axes, norm="ortho")
        y = streaming.rfftn(x, axes, "ortho", out=out, **options)
        n = x.shape[axes[-1]]
        back = streaming.irfftn(y, axes, "ortho", n=n, out=out and tmp_path / "z.npy", **options)
        assert (y.dtype, back.dtype, back.shape) == (np.complex64, np.float32, x.shape)
        for actual, expected in ((y, exact), (back, x)):
            off = np.linalg.norm(actual - expected) / np.linalg.norm(expected)
            assert off < 4 * unit_roundoff(np.float32) * np.log2(x.size)
    assert _names(tmp_path) == ["x.npy", "y.npy", "z.npy"]
    even = streaming.irfftn(y, axes, "ortho", engine=place)
    assert even.shape[axes[-1]] == 2 * (y.shape[axes[-1]] - 1)
    with pytest.raises(DTypeError, match="does not take complex"):
        streaming.rfftn(y, engine=place)


def _convolved(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """A convolution in float64, by the sum over the filter's elements."""
    (s, t), (d, e) = ((n, n) if isinstance(n, int) else n for n in (stride, dilation))
    pairs = ((0, 0), (0, 0)) if padding == 0 else padding
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *pairs))
    height, width = (
        (n - f * (k - 1) - 1) // g + 1
        for n, f, k, g in zip(padded.shape[2:], (d, e), w.shape[2:], (s, t), strict=True)
    )
    y = np.zeros((len(x), len(w), height, width)) + b[:, None, None]
    for i, j in np.ndindex(*w.shape[2:]):
        part = padded[:, :, i * d :: s, j * e :: t][:, :, :height, :width]
        y += np.einsum("nchw,kc->nkhw", part, w[:, :, i, j].astype(np.float64))
    return y


_IMAGES = (5, 2, 20, 9)


@pytest.mark.parametrize(("limit", "blocks"), [(20_000, 2), (1_500, 30)], ids=["images", "rows"])
def test_convolutions_by_images_and_by_rows(
    tmp_path: Path, place: pg.Engine, limit: int, blocks: int
) -> None:
    rng = np.random.default_rng(6)
    x = _file(tmp_path, "x", rng.standard_normal(_IMAGES, np.float32))
    w, b = rng.standard_normal((2, 2, 3, 2), np.float32), rng.standard_normal(2, np.float32)
    done: list[float] = []
    for stride, padding, dilation in ((1, 0, 1), ((2, 1), ((2, 1), (0, 1)), (2, 1))):
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        y = streaming.conv2d(
            x, w, b, **options, memory_limit=limit, engine=place, out=tmp_path / "y.npy",
            progress=lambda some, total: done.append(some / total),
        )  # fmt: skip
        expected = _convolved(x, w, b, **options)
        size = _convolved(np.abs(x), np.abs(w), np.abs(b), **options)
        assert_within(y, expected, 16 * unit_roundoff(x.dtype) * size)
        if stride == 1:
            assert len(done) >= blocks
            single = streaming.conv2d(x[1], w, b, **options, memory_limit=limit, engine=place)
            assert_within(single, expected[1], 16 * unit_roundoff(x.dtype) * size[1])
        done.clear()


def test_convolutions_of_no_images_need_no_memory(place: pg.Engine) -> None:
    x, w = np.zeros((0, 3, 60, 15), np.float32), np.ones((2, 3, 3, 3), np.float32)
    out = np.empty((0, 2, 58, 13), np.float32)
    assert streaming.conv2d(x, w, memory_limit=100, engine=place).shape == out.shape
    assert streaming.conv2d(x, w, memory_limit=100, engine=place, out=out) is out


@pytest.mark.parametrize("rank", [1, 3])
def test_convolutions_of_signals_and_volumes(place: pg.Engine, rank: int) -> None:
    """Parts of the first axis of space have the results of the library for whole arrays."""
    rng = np.random.default_rng(rank)
    x = rng.standard_normal((2, 2, 24, 5, 4)[: rank + 2], np.float32)
    w, b = rng.standard_normal((4, 1, 3, 2, 2)[: rank + 2], np.float32), np.ones(4, np.float32)
    options: Any = {"stride": (2, 1, 1)[:rank], "padding": 1, "groups": 2}
    streamed = getattr(streaming, f"conv{rank}d")
    whole = getattr(pg.nn, f"conv{rank}d")
    for limit, least in (((1 << 20), 1), ({1: 700, 3: 7000}[rank], 4)):
        done: list[float] = []

        def note(some: float, _: float, done: list[float] = done) -> None:
            done.append(some)

        y = streamed(x, w, b, **options, memory_limit=limit, engine=place, progress=note)
        assert len(done) >= least
        exact = whole(x.astype(np.float64), w.astype(np.float64), b.astype(np.float64), **options)
        size = whole(np.abs(x), np.abs(w), np.abs(b), **options)
        assert_within(y, exact, 16 * unit_roundoff(x.dtype) * size)
    single = streamed(x[1], w, b, **options, memory_limit=limit, engine=place)
    assert np.array_equal(single, y[1])


def test_convolutions_that_do_not_fit_are_refused() -> None:
    x, w = np.ones(_IMAGES, np.float32), np.ones((2, 2, 3, 3), np.float32)
    for arguments, options, error, text in (
        ((x, w.astype(np.float64)), {}, DTypeError, "weight is float64, and input is float32"),
        ((x.astype(int), w), {}, DTypeError, "input is int64"),
        ((x, w, x[0, 0, 0]), {}, ShapeError, "bias has shape (9,)"),
        ((x, w), {"memory_limit": 900}, ArgumentError, "memory_limit is 900 bytes, and a row"),
        (
            (x, w),
            {"memory_limit": 3000, "padding": 3},
            ArgumentError,
            "and padding is 3; expected less",
        ),
    ):
        with pytest.raises(error, match=re.escape(text)):
            streaming.conv2d(*arguments, **options)


@pytest.fixture(scope="module")
def groups() -> Iterator[list[DeviceGroup]]:
    """Groups of one and of two devices."""
    with one_and_two() as pair:
        yield list(pair)


@pytest.mark.parametrize("copies", ["none", "one by one", "by threads"])
def test_one_and_two_devices_give_the_same_bits(
    tmp_path: Path, groups: list[DeviceGroup], copies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = copies != "none"
    if not copied and not groups[0].engines[0].maps_host_memory:
        pytest.skip("the device has memory of its own")
    if copies == "by threads":
        monkeypatch.setattr(pipeline, "_LEAST_BYTES_FOR_THREADS", 0)
    for engine in (engine for group in groups for engine in group.engines):
        monkeypatch.setattr(engine, "maps_host_memory", not copied)
        monkeypatch.setattr(engine, "takes_host_pointers", not copied)
    a, b = _matrices(tmp_path)
    rng = np.random.default_rng(7)
    x = rng.standard_normal((8, 8, 16), np.float32)
    images, w = rng.standard_normal(_IMAGES, np.float32), np.ones((2, 2, 3, 2), np.float32)
    for call in (
        lambda group: streaming.gemm(a, b, memory_limit=_LIMIT, engine=group),
        lambda group: streaming.nrm2(a, axis=0, memory_limit=20_000, engine=group),
        lambda group: streaming.fftn(x, norm="ortho", memory_limit=6 * 8 * 128, engine=group),
        lambda group: streaming.conv2d(images, w, memory_limit=1_500, engine=group),
    ):
        first, *others = (call(group) for group in (*groups, groups[1]))
        assert all(first.tobytes() == other.tobytes() for other in others)
    assert_within(streaming.gemm(a, b, memory_limit=_LIMIT, engine=groups[1]), *_expected(a, b))


class _Exclusive:
    """An array in chunks, which counts the calls that overlap in time with others."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.values = np.zeros(shape, np.complex64)
        self.shape, self.dtype, self.chunks = shape, self.values.dtype, (3, 3, 3)
        self.overlaps = 0
        self._lock = threading.Lock()

    def __getitem__(self, index: Any) -> Any:
        return self._alone(lambda: self.values[index].copy())

    def __setitem__(self, index: Any, values: Any) -> None:
        self._alone(lambda: self.values.__setitem__(index, values))

    def _alone(self, call: Any) -> Any:
        if not self._lock.acquire(blocking=False):
            self.overlaps += 1
            return call()
        try:
            time.sleep(1e-3)
            return call()
        finally:
            self._lock.release()


def test_a_result_in_chunks_is_not_read_while_it_is_written(groups: list[DeviceGroup]) -> None:
    x = np.random.default_rng(7).standard_normal((8, 8, 16), np.float32)
    out = _Exclusive(x.shape)
    streaming.fftn(x, out=out, norm="ortho", memory_limit=6 * 8 * 128, engine=groups[1])
    assert not out.overlaps
    assert np.abs(out.values - np.fft.fftn(x, norm="ortho")).max() < 1e-4


def test_an_exception_of_one_device_ends_the_others(
    tmp_path: Path, groups: list[DeviceGroup]
) -> None:
    a, b = _matrices(tmp_path)
    calls: list[float] = []

    def stop(done: float, total: float) -> None:
        calls.append(done)
        if len(calls) == 5:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        streaming.gemm(
            a, b, out=tmp_path / "c.npy", memory_limit=_LIMIT, engine=groups[1], progress=stop
        )
    assert len(calls) <= 7
    assert _names(tmp_path) == ["a.npy", "b.npy"]
    closed = DeviceGroup([groups[1].engines[0].device])
    closed.close()
    with pytest.raises(ArgumentError, match="engine is a group that is closed"):
        streaming.gemm(a, b, engine=closed)
    with pytest.raises(ArgumentTypeError, match="x is a device array"):
        streaming.sum(groups[1].asarray(np.ones(8, np.float32)))


def test_out_of_memory_at_each_allocation(
    tmp_path: Path, groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is left, the devices' memory is freed, and the call can be repeated."""
    group = groups[1]
    x = np.random.default_rng(8).integers(-3, 4, (90, 80)).astype(np.float32)
    allowed = [0]

    def limited(allocate: Any) -> Any:
        def allocate_or_fail(*arguments: Any) -> Any:
            allowed[0] -= 1
            if allowed[0] < 0:
                raise DeviceMemoryError("no memory")
            return allocate(*arguments)

        return allocate_or_fail

    for engine in group.engines:
        monkeypatch.setattr(engine, "maps_host_memory", False)
        monkeypatch.setattr(engine, "takes_host_pointers", False)
        monkeypatch.setattr(engine, "allocate", limited(engine.allocate))
    for call, expected in (
        (lambda: streaming.gemm(x, x.T, out=tmp_path / "c.npy", engine=group), x @ x.T),
        (lambda: streaming.sum(x, axis=0, memory_limit=4000, engine=group), x.sum(0)),
    ):
        files = _names(tmp_path)
        for number in range(50):
            allowed[0] = number
            try:
                result = call()
                break
            except DeviceMemoryError:
                assert _names(tmp_path) == files
            assert [member.used for member in group.members] == [0, 0]
        assert 2 < number < 49
        assert np.array_equal(result, expected)


@pytest.mark.parametrize("what", ["allocations", "copies"])
def test_errors_name_the_device(groups: list[DeviceGroup], what: str) -> None:
    """At each point of a call on the devices' own memory, or on the host's."""
    group, messages = groups[1], list[str]()
    x = np.random.default_rng(8).standard_normal((90, 80)).astype(np.float32)
    for call in (
        lambda: streaming.gemm(x, x.T, engine=group),
        lambda: streaming.argmax(x, axis=0, memory_limit=4000, engine=group),
        lambda: streaming.sum(x[:0], axis=0, engine=group),
    ):
        for maps in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                for engine in group.engines:
                    patch.setattr(engine, "maps_host_memory", maps and engine.maps_host_memory)
                with failing(group.engines[0], what, 10**9, lasts=False) as left:
                    call()
                for at in range(10**9 - left[0]):
                    with failing(group.engines[0], what, at, lasts=True):
                        try:
                            call()
                        except (DeviceMemoryError, DeviceFailedError) as error:
                            messages.append(str(error))
    assert len(messages) > 5  # 13 to 26 on idle cores: devices take pieces when they are free
    named = re.compile(r"(block \d+ of \d+ on )?device 0 \(")
    assert all(named.match(message) for message in messages), messages


def _anonymous() -> int:
    match = re.search(r"RssAnon:\s*(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    return int(match[1]) * 1024 if match else 0


@pytest.mark.skipif(not _anonymous(), reason="the system does not report anonymous memory")
def test_a_product_in_place_takes_no_memory_for_operands(tmp_path: Path, engine: pg.Engine) -> None:
    if not engine.maps_host_memory:
        pytest.skip("tiles are copied to the device")
    n, limit = 1536, 4 << 20
    a = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float32, (n, n))
    for row, values in enumerate(np.random.default_rng(3).standard_normal((32, n), np.float32)):
        a[row::32] = values
    begin, most = _anonymous(), [0]

    def note(*_: float) -> None:
        most[0] = max(most[0], _anonymous())

    c = streaming.gemm(
        a, a, out=tmp_path / "c.npy", memory_limit=limit, engine=engine, progress=note
    )
    assert most[0] - begin < limit + (12 << 20)  # 18 MiB are mapped
    signs = np.random.default_rng(4).choice([-1.0, 1.0], n)
    expected = a.astype(np.float64) @ (a.astype(np.float64) @ signs)
    bound = unit_roundoff(a.dtype) * n * np.abs(a[:32]).astype(np.float64).max() ** 2 * n
    assert np.abs(c.astype(np.float64) @ signs - expected).max() < bound


def test_calls_in_place_make_no_queue(engine: pg.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    if not engine.maps_host_memory:
        pytest.skip("tiles are copied to the device")

    def refuse(*_: Any) -> None:
        raise AssertionError("a queue is made")

    x = np.ones((64, 64), np.float32)
    monkeypatch.setattr(cl, "CommandQueue", refuse)
    monkeypatch.setattr("portable_gpu.host_memory.available", refuse)  # which reads three files
    assert streaming.sum(x, memory_limit=x.nbytes, engine=engine) == x.size


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_moments_are_computed_in_two_passes(
    place: pg.Engine, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = (1000 + 100 * np.random.default_rng(2).standard_normal((7, 90, 5))).astype(dtype)
    passes: list[str] = []

    def counted(name: str, function: Any) -> Any:
        def count(*arguments: Any, **options: Any) -> Any:
            passes.append(name)
            return function(*arguments, **options)

        return count

    monkeypatch.setattr(moments, "mean", counted("mean", moments.mean))
    monkeypatch.setattr(moments, "run", counted("run", moments.run))
    wide = np.dtype(np.float32 if x.dtype.kind == "f" else np.float64)
    pivot, both = (np.asarray(asnumpy(each)) for each in moments.on_device(x, (1,), wide, place))
    assert passes == ["mean", "run"]
    from_pivot = x.astype(np.float64) - pivot
    squares = x.astype(np.float64).var(axis=1, keepdims=True) * x.shape[1]
    u = unit_roundoff(wide)
    assert_within(both.real, squares, 32 * u * squares)
    assert_within(both.imag, from_pivot.sum(1, keepdims=True), 17 * u * np.abs(from_pivot).sum())


def test_copies_wait_for_kernels_that_use_the_buffer_and_for_no_others(engine: pg.Engine) -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    index = [(slice(at, at + 2),) for at in range(0, 8, 2)]

    def call(*_: Any) -> None:
        """Never called."""

    job = Job("copy", [TiledOperand(x, "x")], [(2,)], [], call, TiledResult(y), ((2,), y.dtype))
    member = Member(0, engine, 1 << 20)
    memory = _DeviceMemory(job, member, None)
    blocked = cl.UserEvent(engine.context)
    opened: list[bool] = []
    stored: list[bool] = []

    def release() -> None:
        opened.append(True)
        blocked.set_status(cl.command_execution_status.COMPLETE)

    timer = threading.Timer(0.3, release)
    block = memory.block(index[0])
    block[...] = memory.load(0, index[0])
    block.events = QueueEvents.of(engine.queue)  # as where launches have no events
    memory.launched()
    store = memory.storing(index[0], block, lambda: stored.append(True))
    cl.enqueue_marker(engine.queue, wait_for=[blocked])  # a kernel of the next block
    memory.load(0, index[1])
    memory.launched()
    timer.start()
    assert store is not None
    assert not stored
    store()
    assert stored
    assert np.array_equal(y, [0, 1, 0, 0, 0, 0, 0, 0])
    memory.load(0, index[2])  # into the buffer of the first
    assert not opened
    memory.launched()
    memory.load(0, index[3])  # into the buffer of the second, which the marker keeps
    assert opened
    timer.join()
