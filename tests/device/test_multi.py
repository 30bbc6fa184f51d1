"""Groups of devices: results against NumPy, and the same bits for any number of devices."""

from __future__ import annotations

import _thread
import gc
import inspect
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyopencl as cl
import pytest
from device_groups import one_and_two
from failing_devices import failing
from interruptions import handler, interrupted, stop

import portable_gpu as pg
from portable_gpu import nn, side_by_side
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArrayIndexError,
    DeviceFailedError,
    DeviceMemoryError,
    DTypeError,
    PortableGPUError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.multi import (
    DataParallel,
    DeviceGroup,
    GroupArray,
    Timeline,
    copying,
    failures,
    moves,
    partition,
    transfers,
)
from portable_gpu.multi import group as grouping
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations import expressions, host_products, products, runs
from portable_gpu.multi.operations.operands import recorded_kernels
from portable_gpu.multi.partition import block_bounds, owners

_KINDS = ("one", "two")


@pytest.fixture(scope="module")
def groups() -> Iterator[dict[str, DeviceGroup]]:
    """Groups of one and of two devices."""
    with one_and_two() as (one, two), pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "LEAST_ROWS_ON_CPUS", 1)
        yield {"one": one, "two": two}


def values(x: Any) -> Any:
    """Return a result in NumPy."""
    return x.asnumpy() if isinstance(x, GroupArray) else np.asarray(x)


def same_bits(groups: dict[str, DeviceGroup], call: Any) -> Any:
    """Return the result of a call on each group, given the group, which have the same bits."""
    first, second = (values(call(groups[kind])) for kind in _KINDS)
    assert (first.shape, first.dtype) == (second.shape, second.dtype)
    assert first.tobytes() == second.tobytes()
    return first


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Return normal random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# -- the partition


def test_partition_follows_from_the_array_and_the_memory() -> None:
    for extent, nbytes, largest in product(
        (0, 1, 5, 23, 24, 1000, 99999), (0, 1 << 20, 1 << 33), (1 << 26,)
    ):
        bounds = block_bounds(extent, nbytes, largest)
        assert (bounds[0], bounds[-1]) == (0, extent)
        assert list(bounds) == sorted(bounds)
        sizes = np.diff(bounds)
        if extent:
            assert sizes.min() >= 1
            assert len(sizes) == min(extent, len(sizes))
        if extent >= 1000 and nbytes > 1 << 32:
            assert sizes.max() * nbytes / extent <= largest * 2
    assert block_bounds(100, 1 << 30, 1 << 40, 7)[3] == 3 * 100 // 7
    assert block_bounds(2048, 1 << 24, 1 << 30, min_extent=256) == tuple(range(0, 2049, 256))
    assert block_bounds(200, 1 << 24, 1 << 30, min_extent=256) == (0, 200)
    small = block_bounds(200, 1 << 24, 1 << 21, min_extent=256)  # a block has 2 MiB at most
    assert len(small) == 25


def test_blocks_of_products_on_cpus_have_many_rows(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each packs the other operand; those of arrays of the group are joined if they have few."""
    monkeypatch.setattr(runs, "LEAST_ROWS_ON_CPUS", 256)
    a, b, shapes = normal(1100, 400), normal(400, 60, seed=1), list[Any]()
    gemm = products.gemm_family.gemm

    def noting(left: Any, right: Any, **options: Any) -> Any:
        shapes.append(left.shape)
        return gemm(left, right, **options)

    monkeypatch.setattr(products.gemm_family, "gemm", noting)
    result = same_bits(groups, lambda group: pg.gemm(a, b, engine=group))
    assert np.allclose(result, a @ b, rtol=1e-3, atol=1e-3)
    is_cpu = all(engine.target.is_cpu for engine in groups["two"].engines)
    if is_cpu:
        assert sorted(shapes) == [(275, 400)] * 8
    shapes.clear()
    pg.gemm(groups["two"].asarray(a, blocks=5), b, engine=groups["two"])
    assert sorted(shapes) == [(220, 400)] * 5
    shapes.clear()
    pg.gemm(groups["two"].asarray(a, blocks=20), b, engine=groups["two"])
    assert sorted(shapes) == ([(275, 400)] * 4 if is_cpu else [(55, 400)] * 20)


def test_runs_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have 256 rows, or 64 if there are fewer than four runs otherwise."""
    monkeypatch.setattr(runs, "LEAST_ROWS_ON_CPUS", 256)
    for extent, count, length in [
        (256, 24, 6), (2048, 24, 3), (128, 24, 12), (30, 24, 24), (10_000, 24, 1), (1100, 5, 1),
        (100, 5, 5), (260, 4, 1), (0, 1, 1),
    ]:  # fmt: skip
        assert runs.run_length(block_bounds(extent, 1 << 26, 1 << 30, count)) == length


@pytest.mark.parametrize("blocks", [6, 9])
def test_products_of_blocks_in_runs(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    """Rows or columns in three runs, the second one on both devices; also with ``out=``.

    The bound has a term for k products and sums, and one for the additions of ``beta * out``.
    """
    monkeypatch.setattr(runs, "LEAST_ROWS_ON_CPUS", 100)
    a, b, c = normal(100, 30), normal(30, 90, seed=1), normal(100, 90, seed=2)
    exact, size = (x.astype(float) @ y.astype(float) for x, y in ((a, b), (abs(a), abs(b))))
    bound = 33 * 2.0**-24 * (2 * size + abs(c))
    for axis, left, right, axis_of_result in [(0, 0, None, 0), (1, None, 1, 1)]:

        def operands(group: DeviceGroup, left: Any = left, right: Any = right) -> tuple[Any, Any]:
            pairs = ((a, left), (b, right))
            return tuple(
                x if at is None else group.asarray(x, at, blocks=blocks) for x, at in pairs
            )

        result = same_bits(groups, lambda group: pg.gemm(*operands(group), engine=group))
        assert (abs(result - exact) <= bound).all()

        def added(group: DeviceGroup, axis: int = axis_of_result) -> Any:
            out = group.asarray(c, axis, blocks=blocks)
            x = operands(group)
            assert pg.gemm(*x, alpha=2, beta=-1, out=out, engine=group) is out
            return out

        assert (abs(same_bits(groups, added) - (2 * exact - c)) <= bound).all()

        def stored(group: DeviceGroup, axis: int = axis_of_result) -> Any:
            out = group.asarray(c, axis, blocks=blocks)
            return pg.gemm(*operands(group), out=out, engine=group)

        assert same_bits(groups, stored).tobytes() == result.tobytes()


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 6, 8, 12, 24])
def test_devices_get_equal_numbers_of_neighbouring_blocks(devices: int) -> None:
    indices = owners(24, (1.0,) * devices)
    assert list(indices) == sorted(indices)
    assert set(np.bincount(indices)) == {24 // devices}


def test_shares_decide_the_numbers_of_blocks() -> None:
    assert list(np.bincount(owners(24, (3.0, 1.0)))) == [18, 6]
    assert list(np.bincount(owners(24, (0.0, 1.0)), minlength=2)) == [0, 24]


# -- arrays


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_arrays_come_back_as_they_were(groups: dict[str, DeviceGroup], axis: int) -> None:
    x = normal(50, 12, 30)[:, ::2, ::-1]
    for group in groups.values():
        array = group.asarray(x, axis, blocks=5)
        assert (array.shape, array.axis, len(array.blocks)) == (x.shape, axis % 3, 5)
        assert np.array_equal(array.asnumpy(), x)
        out = np.empty(x.shape[::-1], x.dtype).T
        assert array.asnumpy(out) is out
        assert np.array_equal(out, x)
        assert np.array_equal(array.gather(group.size - 1).get(), x)
        assert np.array_equal(group.broadcast(array).copy_on(group.members[-1]).get(), x)
        assert sum(array.shares) == pytest.approx(1)


@pytest.mark.parametrize("is_pinned", [False, True])
def test_large_arrays_are_copied_in_pieces(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch, is_pinned: bool
) -> None:
    x = normal(1500, 2000)  # 12 MB: three pieces
    group = groups["two"]
    for engine in group.engines:
        monkeypatch.setattr(engine.staging, "pays", is_pinned)
    assert np.array_equal(group.asarray(x[:, ::-1], blocks=1).asnumpy(), x[:, ::-1])
    moved = group.broadcast(group.asarray(x, axis=1, blocks=2))
    assert np.array_equal(moved.copy_on(group.members[1]).get(), x)


@pytest.mark.parametrize("shape", [(4 << 18 | 1,), (1, 4 << 18 | 1), (3, 1, 1 << 20)])
def test_large_arrays_come_back_into_strided_ones(
    groups: dict[str, DeviceGroup], shape: tuple[int, ...]
) -> None:
    """Pieces are views, also where the last one has one element."""
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    strided: Any = np.zeros((*shape, 2), np.float32)[..., 0]
    array = groups["one"].broadcast(x)
    assert np.array_equal(array.asnumpy(out=strided), x)
    assert np.array_equal(groups["one"].broadcast(strided).asnumpy(), x)


def test_moves_in_pieces(groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of pieces and buffers, also with a shorter last piece."""
    monkeypatch.setattr(transfers.staging, "PIECE", 1 << 12)
    source, target = groups["two"].members
    for size in (1, 1024, 1025, 2048, 3000, 4096, 5121, 40000):
        x = np.arange(size, dtype=np.float32)
        array = source.empty(x.shape, x.dtype)
        transfers.upload(source, x, array)
        assert np.array_equal(moves.move(source, array, target).get(), x), size


def test_small_moves_overlap(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second array is on its way before the first one has arrived."""
    source, target = groups["two"].members
    values = [normal(size, seed=size) for size in (1, 700, 300, 5, 900, 2)]
    arrays = [source.empty(x.shape, x.dtype) for x in values]
    for x, array in zip(values, arrays, strict=True):
        transfers.upload(source, x, array)
    results = [target.empty(x.shape, x.dtype) for x in values]
    copy, order = moves._copy_piece, []

    def recorded(*arguments: Any, writes: bool) -> cl.Event:
        order.append("upload" if writes else "download")
        return copy(*arguments, writes=writes)

    monkeypatch.setattr(moves, "_copy_piece", recorded)
    moves.move_boxes(source, list(map(moves.all_bytes, arrays, results)), target)
    assert order[:3] == ["download"] * 3
    assert sorted(order) == ["download"] * 6 + ["upload"] * 6
    for x, result in zip(values, results, strict=True):
        assert np.array_equal(result.get(), x)


def test_boxes_of_blocks_along_two_axes(groups: dict[str, DeviceGroup]) -> None:
    """Copies to the same device and to another, against NumPy's slices."""
    source, target = groups["two"].members
    draw = random.Random(4)
    for _ in range(12):
        shape = [draw.randint(1, 6) for _ in range(draw.randint(2, 4))]
        axes = draw.sample(range(len(shape)), 2)
        bounds = [sorted(draw.sample(range(shape[axis] + 1), 2)) for axis in axes]
        keys = [
            (np.s_[:],) * axis + (np.s_[start:end],)
            for axis, (start, end) in zip(axes, bounds, strict=True)
        ]
        whole = normal(*shape)
        block, expected = np.ascontiguousarray(whole[keys[0]]), np.zeros_like(whole)[keys[1]].copy()
        expected[keys[0]] = block[keys[1]]
        copied = source.empty(block.shape, block.dtype)
        transfers.upload(source, block, copied)
        for member in (source, target):
            result = member.empty(expected.shape, expected.dtype)
            transfers.upload(member, np.zeros_like(expected), result)
            starts = bounds[0][0], bounds[1][0]
            box = moves.common_box(copied, axes[0], starts[0], result, axes[1], starts[1])
            if member is source:
                member.kernels_after_copies()
                moves.copy_box(member, box)
            else:
                moves.move_boxes(source, [box], member)
            assert np.array_equal(result.get(), expected), (shape, axes, bounds)


def test_pinned_memory_of_failed_devices_is_not_lent_again(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    member = groups["one"].members[0]
    staging = member.engine.staging
    monkeypatch.setattr(staging, "pays", True)

    class Failing:
        def finish(self) -> None:
            raise cl.RuntimeError("clFinish failed: OUT_OF_RESOURCES")

    with moves.host_buffer(1 << 20, member, member.copies):
        pass
    free, unmade = len(staging._free), len(staging._unmade)
    with (
        pytest.raises(cl.Error),
        moves.host_buffer(1 << 20, member, Failing()),  # type: ignore[arg-type]
    ):
        pass
    assert (len(staging._free), len(staging._unmade)) == (free - 1, unmade + 1)
    with (
        pytest.raises(ZeroDivisionError),  # the first error, and not that of the queue
        moves.host_buffer(1 << 20, member, Failing()),  # type: ignore[arg-type]
    ):
        raise ZeroDivisionError
    assert (len(staging._free), len(staging._unmade)) == (free - 1, unmade + 1)


def test_groups_with_a_device_that_failed_are_closed(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of the block is raised, and not those of the queues and of the timeline."""

    def fail(_queue: Any) -> None:
        raise cl.RuntimeError("clFinish failed: OUT_OF_RESOURCES")

    group = DeviceGroup([engine.device for engine in groups["two"].engines])

    def block() -> None:
        with group, group.timeline(), recorded_kernels(group.members[0], 0):
            failed = SimpleNamespace(finish=lambda: fail(None))
            monkeypatch.setattr(Member, "queues", (failed, failed))
            monkeypatch.setattr(cl, "enqueue_marker", fail)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert all(engine.is_closed for engine in group.engines)


def test_slices_share_memory(groups: dict[str, DeviceGroup]) -> None:
    x = normal(40, 30)
    array = groups["two"].asarray(x, blocks=4)
    for key in (np.s_[:], np.s_[5:25], np.s_[12:18, ::2], np.s_[..., 3], np.s_[30:5], np.s_[-9:]):
        part = array[key]
        assert part.shape == x[key].shape
        assert np.array_equal(part.asnumpy(), x[key]), key
    for bad in (np.s_[3], np.s_[::2], np.s_[1, 2, 3], np.s_["a":], np.s_[:, True], np.s_[:, "a"]):
        with pytest.raises(ArrayIndexError):
            array[bad]


@pytest.mark.parametrize("key", [np.s_[30:5], np.s_[:0], np.s_[40:], np.s_[9:9]], ids=str)
def test_slices_without_elements(groups: dict[str, DeviceGroup], key: slice) -> None:
    """They have one block from 0 to 0, so that they go together with others of no elements."""
    array = groups["two"].asarray(normal(40, 30), blocks=4)
    part = array[key]
    assert (part.shape, part.bounds, part.asnumpy().shape) == ((0, 30), (0, 0), (0, 30))
    pair = {"x": part, "y": array[:0]}
    assert pg.elementwise("x + y", **pair, engine=groups["two"]).shape == (0, 30)


def test_scatter_and_all_reduce(groups: dict[str, DeviceGroup]) -> None:
    parts = [normal(7, 3, seed=seed) for seed in range(5)]
    for group in groups.values():
        array = group.scatter(parts)
        assert np.array_equal(array.asnumpy(), np.concatenate(parts))

    def total(group: DeviceGroup) -> Any:
        return group.all_reduce(group.scatter(parts))

    (a, b, c, d, e) = parts
    assert np.array_equal(same_bits(groups, total), ((a + b) + (c + d)) + e)


# -- reductions


@pytest.mark.parametrize("name", ["sum", "mean", "max", "nrm2", "argmax", "argmin"])
def test_reductions(groups: dict[str, DeviceGroup], name: str) -> None:
    x = normal(61, 20)
    x[3, 4] = x[50, 19] = 7  # equal extremes: the first one counts
    x[9, 9] = x[60, 0] = -7
    exact = x.astype(np.float64)
    oracle = (lambda a, axis: np.linalg.norm(a, axis=axis)) if name == "nrm2" else getattr(np, name)
    for axis, cut in product((None, 0, 1), (0, 1, None)):
        expected = oracle(
            exact.ravel() if axis is None else exact, axis=axis or (0 if axis == 0 else None)
        )

        def call(group: DeviceGroup, axis: Any = axis, cut: Any = cut) -> Any:
            array = x if cut is None else group.asarray(x, cut, blocks=4)
            return getattr(pg, name)(array, axis=axis, engine=group)

        result = same_bits(groups, call)
        assert np.allclose(result, expected, rtol=1e-5, atol=1e-4), (axis, cut)


@pytest.mark.parametrize("ddof", [0, 1])
def test_variances(groups: dict[str, DeviceGroup], ddof: int) -> None:
    """The mean is a thousand times the deviation; the blocks have other means."""
    x = normal(61, 20, dtype=np.float64) + 1000 + np.arange(61)[:, None] / 16
    cases = [(np.float32, None, 0), (np.float64, 0, 0), (np.int32, 0, None), (np.float32, 1, 0)]
    for dtype, axis, cut in cases[ddof::2]:
        values = x.astype(dtype)

        def call(group: DeviceGroup, axis: Any = axis, cut: Any = cut, values: Any = values) -> Any:
            array = values if cut is None else group.asarray(values, cut, blocks=4)
            return pg.var(array, axis=axis, ddof=ddof, keepdims=axis == 0, engine=group)

        expected = values.astype(np.float64).var(axis=axis, ddof=ddof, keepdims=axis == 0)
        result = same_bits(groups, call)
        assert result.dtype == (dtype if dtype != np.int32 else np.float64)
        assert result.shape == expected.shape
        unit = np.finfo(result.dtype).eps / 2
        assert np.allclose(result, expected, rtol=32 * unit, atol=0), (dtype, axis, cut)
    array = groups["two"].asarray(x, blocks=4)
    assert np.allclose(float(pg.std(array, engine=groups["two"])), x.std(), rtol=1e-14)
    odd = x.copy()
    odd[40, 0], odd[:2, 1], odd[7, 2] = np.inf, (np.inf, -np.inf), np.nan
    array = groups["two"].asarray(odd, blocks=4)
    for name in ("mean", "var"):
        with np.errstate(invalid="ignore"):
            want = getattr(np, name)(odd, axis=0)
        np.testing.assert_allclose(
            getattr(pg, name)(array, axis=0, engine=groups["two"]).asnumpy(), want, rtol=1e-13
        )
    for numbers in (array.asnumpy() + 0j, groups["two"].asarray(x + 0j, blocks=4)):
        with pytest.raises(UnsupportedError, match="var of complex numbers"):
            pg.var(numbers, engine=groups["two"])


def test_reductions_of_other_dtypes(groups: dict[str, DeviceGroup]) -> None:
    halves = normal(3000, dtype=np.float16)
    halves[:2] = 60000, -60000
    numbers = np.arange(-50, 50, dtype=np.int8).reshape(20, 5)
    for x in (halves, numbers):
        result = same_bits(groups, lambda g, x=x: pg.sum(g.asarray(x, blocks=5), engine=g))
        expected = x.sum(dtype=np.float64 if x.dtype.kind == "f" else np.int64)
        assert abs(float(result) - expected) <= abs(expected) * 2.0**-10 + 0.01
        assert result.dtype == (np.float16 if x is halves else np.int64)
    x = np.array([1.0, np.nan, 3.0, np.nan], np.float32)
    group = groups["two"]
    assert int(pg.argmax(group.asarray(x, blocks=4), engine=group)) == 1
    assert np.isnan(float(pg.max(group.asarray(x, blocks=4), engine=group)))
    x[0] = np.inf
    assert np.isnan(float(pg.nrm2(group.asarray(x, blocks=4), engine=group)))


def test_reductions_of_nothing(groups: dict[str, DeviceGroup]) -> None:
    empty = np.zeros((0, 3), np.int32)
    for make in (lambda g: empty, lambda g: g.broadcast(empty), lambda g: g.asarray(empty)):
        for axis in (None, 0, 1):
            result = same_bits(groups, lambda g, m=make, a=axis: pg.asum(m(g), axis=a, engine=g))
            assert np.array_equal(result, np.abs(empty).sum(axis))


@pytest.mark.parametrize("name", ["max", "argmin", "mean", "var", "prod", "sum"])
@pytest.mark.parametrize("empty", [0, 1, 3])
def test_reductions_of_parts_without_elements(
    groups: dict[str, DeviceGroup], name: str, empty: int
) -> None:
    """Blocks that ``scatter`` takes may be empty, though the array is not."""
    parts = [normal(0 if k == empty else 4, 5, dtype=np.float64, seed=k) for k in range(4)]
    x = np.concatenate(parts)
    for axis in (None, 0, 1):
        result = same_bits(
            groups, lambda g, a=axis: getattr(pg, name)(g.scatter(parts), axis=a, engine=g)
        )
        np.testing.assert_allclose(result, getattr(np, name)(x, axis=axis), rtol=1e-12)


def test_inner_products(groups: dict[str, DeviceGroup]) -> None:
    a, b = normal(3001), normal(3001, seed=1)
    result = same_bits(groups, lambda g: pg.dot(g.asarray(a, blocks=6), b, engine=g))
    bound = 16 * 2.0**-24 * float(np.abs(a.astype(float)) @ np.abs(b))
    assert abs(float(result) - a.astype(float) @ b) <= bound
    assert abs(float(pg.dot(a, b, engine=groups["two"])) - a.astype(float) @ b) <= bound


# -- expressions


def test_expressions(groups: dict[str, DeviceGroup]) -> None:
    x, y, row, column = normal(40, 30), normal(40, 30, seed=1), normal(30), normal(40, 1)
    expected = x * y + row - 2 * column

    def call(group: DeviceGroup, cut: Any) -> Any:
        array = (
            group.broadcast(x)
            if cut == "all"
            else x
            if cut is None
            else group.asarray(x, cut, blocks=3)
        )
        inputs = {"x": array, "y": y, "row": row, "column": column, "two": 2.0}
        return pg.elementwise("x * y + row - two * column", engine=group, **inputs)

    for cut in (0, 1, "all", None):
        result = same_bits(groups, lambda group, cut=cut: call(group, cut))
        assert np.allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_expressions_in_place(groups: dict[str, DeviceGroup]) -> None:
    x = normal(40, 30)
    for group in groups.values():
        array = group.asarray(x, blocks=3)
        assert pg.elementwise("x * 2", x=array, out=array, engine=group) is array
        assert np.array_equal(array.asnumpy(), 2 * x)
        host = x.copy()
        assert pg.elementwise("x * 2", x=host, out=host, engine=group) is host
        assert np.array_equal(host, 2 * x)


# -- products


@pytest.mark.parametrize(("trans_a", "trans_b"), [("N", "N"), ("T", "N"), ("N", "T")])
def test_products(groups: dict[str, DeviceGroup], trans_a: str, trans_b: str) -> None:
    a, b = normal(45, 30), normal(30, 33, seed=1)
    given_a = np.ascontiguousarray(a.T) if trans_a == "T" else a
    given_b = np.ascontiguousarray(b.T) if trans_b == "T" else b
    exact, bound = a.astype(float) @ b, 32 * 2.0**-24 * (np.abs(a).astype(float) @ np.abs(b))
    for cut_a, cut_b in [(0, None), (1, None), (None, 1), (None, 0), (0, 1), (None, None), (1, 0)]:

        def call(group: DeviceGroup, cuts: Any = (cut_a, cut_b)) -> Any:
            operands = [
                x if cut is None else group.asarray(x, cut, blocks=3)
                for x, cut in zip((given_a, given_b), cuts, strict=True)
            ]
            return pg.gemm(*operands, trans_a=trans_a, trans_b=trans_b, engine=group)

        result = same_bits(groups, call)
        assert (np.abs(result - exact) <= bound).all(), (cut_a, cut_b)


def test_stacks_that_broadcast(groups: dict[str, DeviceGroup]) -> None:
    """A stack of one matrix that is cut along the stack's axis is not cut like the result."""
    a, b = normal(1, 5, 3), normal(4, 3, 6)
    for cuts in [(0, None), (0, 0), (None, 0), (1, 0), (0, 2)]:

        def call(group: DeviceGroup, cuts: Any = cuts) -> Any:
            operands = [
                x if cut is None else group.asarray(x, cut, blocks=1 if len(x) == 1 else 2)
                for x, cut in zip((a, b), cuts, strict=True)
            ]
            return pg.matmul(*operands, engine=group)

        assert np.allclose(same_bits(groups, call), a @ b, rtol=1e-4, atol=1e-4), cuts


def test_operands_that_are_cut_elsewhere(groups: dict[str, DeviceGroup]) -> None:
    """The one that does not fit is copied to each device."""
    a, b = normal(45, 30), normal(30, 33, seed=1)
    for cuts in [((1, 3), (0, 5)), ((0, 3), (1, 5)), ((1, 2), (0, 1))]:

        def call(group: DeviceGroup, cuts: Any = cuts) -> Any:
            (axis_a, blocks_a), (axis_b, blocks_b) = cuts
            left = group.asarray(a, axis_a, blocks=blocks_a)
            right = group.asarray(b, axis_b, blocks=blocks_b)
            return pg.gemm(left, right, engine=group)

        assert np.allclose(same_bits(groups, call), a @ b, rtol=1e-4, atol=1e-4)


def test_products_into_an_array(groups: dict[str, DeviceGroup]) -> None:
    a, b, c = normal(45, 30), normal(30, 33, seed=1), normal(45, 33, seed=2)
    exact = 2 * (a.astype(float) @ b) + 0.5 * c

    def call(group: DeviceGroup) -> Any:
        out = group.asarray(c, blocks=3)
        array = group.asarray(a, blocks=3)
        assert pg.gemm(array, b, alpha=2, beta=0.5, out=out, engine=group) is out
        return out

    assert np.allclose(same_bits(groups, call), exact, rtol=1e-4, atol=1e-4)
    host = c.copy()
    pg.gemm(a, b, alpha=2, beta=0.5, c=host, engine=groups["two"])
    assert np.allclose(host, exact, rtol=1e-4, atol=1e-4)
    for array in (a, groups["two"].asarray(a), groups["two"].asarray(a, 1)):
        with pytest.raises(ArgumentError, match=r"beta is 0\.5 and there is no out"):
            pg.gemm(array, b, beta=0.5, engine=groups["two"])


@pytest.mark.parametrize("cut", [0, 1, None])
def test_out_decides_the_blocks(groups: dict[str, DeviceGroup], cut: int | None) -> None:
    """Each copy of a replicated ``out`` is written, whatever the operands are."""
    a, b = normal(45, 30), normal(30, 45, seed=1)

    def place(group: DeviceGroup, x: Any, axis: int | None, blocks: int) -> GroupArray:
        return group.broadcast(x) if axis is None else group.asarray(x, axis, blocks=blocks)

    for group in groups.values():
        for passed in (a, place(group, a, 0, 3), place(group, a, 1, 2), place(group, a, None, 1)):
            out = place(group, np.full((45, 45), np.nan, np.float32), cut, 4)
            assert pg.gemm(passed, b, out=out, engine=group) is out
            for block in out.blocks:
                part = a @ b if cut is None else np.take(
                    a @ b, range(block.start, block.stop), cut
                )  # fmt: skip
                assert np.allclose(block.array.get(), part, rtol=1e-4, atol=1e-4)
        out = place(group, np.zeros_like(a), cut, 4)
        pg.elementwise("x + y", x=a, y=place(group, a, None, 1), out=out, engine=group)
        assert all(np.isfinite(block.array.get()).all() for block in out.blocks)
        assert np.array_equal(out.asnumpy(), 2 * a)
        with pytest.raises(ShapeError):
            pg.gemm(a, b, out=place(group, a, cut, 4), engine=group)


def test_sums_of_products_of_16_bit_floats_are_rounded_once(
    groups: dict[str, DeviceGroup],
) -> None:
    a, b = normal(9, 120, dtype=np.float16), normal(120, 7, dtype=np.float16, seed=1)
    exact = a.astype(float) @ b.astype(float)
    bound = 2.0**-11 * np.abs(exact) + 130 * 2.0**-24 * (np.abs(a.astype(float)) @ np.abs(b))
    for call, column in [(pg.gemm, np.s_[:]), (pg.matmul, np.s_[:]), (pg.gemv, np.s_[:, 0])]:
        right: Any = np.ascontiguousarray(b[column])
        result = same_bits(
            groups, lambda g, f=call, y=right: f(g.asarray(a, 1, blocks=12), y, engine=g)
        )
        assert result.dtype == np.float16
        assert (np.abs(result - exact[column]) <= bound[column]).all()


def test_products_of_vectors_and_stacks(groups: dict[str, DeviceGroup]) -> None:
    a, x, y, stack = normal(45, 30), normal(30), normal(45), normal(6, 45, 30)
    for call, expected in [
        (lambda g: pg.gemv(g.asarray(a, blocks=3), x, engine=g), a @ x),
        (lambda g: pg.gemv(g.asarray(a, blocks=3), y, trans="T", engine=g), a.T @ y),
        (lambda g: pg.gemv(a, x, engine=g), a @ x),
        (lambda g: pg.matmul(g.asarray(stack, blocks=3), x, engine=g), stack @ x),
        (lambda g: pg.matmul(g.asarray(stack, blocks=3), stack[:1].swapaxes(1, 2), engine=g),
         stack @ stack[:1].swapaxes(1, 2)),
    ]:  # fmt: skip
        assert np.allclose(same_bits(groups, call), expected, rtol=1e-4, atol=1e-4)


# -- wrong arguments, and the end


def test_wrong_arguments(groups: dict[str, DeviceGroup]) -> None:
    group, other = groups["two"], groups["one"]
    x, y = (group.asarray(normal(20, 20), blocks=blocks) for blocks in (2, 3))
    on_one = pg.asarray([1.0], engine=group.engines[0])
    two = [engine.device for engine in group.engines]
    for error, call in [
        (ArgumentError, lambda: pg.sum(x, engine=other)),
        (UnsupportedError, lambda: pg.sum(x)),
        (UnsupportedError, lambda: np.asarray(x)),
        (ArgumentTypeError, lambda: pg.sum(on_one, engine=group)),
        (UnsupportedError, lambda: pg.fft.dct(normal(8), engine=group)),
        (ShapeError, lambda: pg.gemm(x, normal(7, 7), engine=group)),
        (ArgumentError, lambda: pg.elementwise("x + y", x=x, y=y, engine=group)),
        (ArgumentError, lambda: group.asarray(normal(4), blocks=5)),
        (ArgumentError, lambda: group.scatter([])),
        (ShapeError, lambda: group.scatter([normal(3, 2), normal(3, 3)])),
        (ArgumentError, lambda: group.all_reduce([])),
        (DTypeError, lambda: group.scatter([normal(3), normal(3, dtype=np.float64)])),
        (ArgumentError, lambda: x.gather(2)),
        (ArgumentError, lambda: DeviceGroup([])),
        (ArgumentError, lambda: DeviceGroup("some")),
        (ArgumentError, lambda: DeviceGroup(two[:1] * 2)),
        (ArgumentError, lambda: DeviceGroup(0)),
        (UnsupportedError, lambda: DeviceGroup(1 << 20)),
        (ArgumentTypeError, lambda: DeviceGroup(1.5)),  # type: ignore[arg-type]
        (ArgumentError, lambda: DeviceGroup(two, shares=(1,))),
        (ArgumentError, lambda: DeviceGroup(two, memory_limit=0)),
        (ArgumentError, lambda: DeviceGroup(two, threads="two")),
        (ArgumentError, lambda: DeviceGroup(two, on_failure="ignore")),
        (UnsupportedError, lambda: list(x)),
        (UnsupportedError, lambda: x == y),
        (UnsupportedError, lambda: x != 3.0),
        (ArgumentTypeError, lambda: group.scatter(3)),  # type: ignore[arg-type]
        (ArgumentTypeError, lambda: group.all_reduce(3)),  # type: ignore[arg-type]
        (ShapeError, lambda: group.empty((-1, 3), np.float32)),
        (DTypeError, lambda: group.empty(3, object)),
        (DTypeError, lambda: group.empty(3, np.longdouble)),
        (ArgumentError, lambda: Timeline(["a"]).busy(1, "kernels")),
        (ArgumentError, lambda: Timeline(["a"]).busy(0, "kernel")),
        (ArgumentError, lambda: Timeline(["a"]).overlap(-1)),
        (ArgumentTypeError, lambda: Timeline(["a"]).chrome_trace(3)),  # type: ignore[arg-type]
    ]:  # fmt: skip
        with pytest.raises(error):
            call()
    assert group.empty(3, np.float32).shape == (3,)
    assert len({x, y}) == 2


#: The functions that compute arrays of a group.
COMPUTED = {
    "sum", "prod", "mean", "min", "max", "any", "all", "count_nonzero", "asum", "nrm2", "argmin",
    "argmax", "dot", "vdot", "elementwise", "gemm", "gemv", "matmul", "conv1d", "conv2d", "conv3d",
    "cholesky", "cho_factor", "cho_solve", "fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "var",
    "std", "rfft", "rfft2", "rfftn", "irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn", "ihfft",
    "ihfft2", "ihfftn",
}  # fmt: skip


def test_functions_without_a_form_for_groups(groups: dict[str, DeviceGroup]) -> None:
    """Every public function that takes an engine computes arrays of a group, or raises an error."""
    group = groups["two"]
    x = group.asarray(normal(4, 4) + 9 * np.eye(4, dtype=np.float32))
    names = set()
    for module in (pg, pg.linalg, pg.linalg.packed, pg.linalg.ragged, pg.fft, pg.nn, pg.signal):
        for name in module.__all__:
            function = getattr(module, name)
            if not inspect.isfunction(function):
                continue
            parameters = inspect.signature(function).parameters
            if "engine" not in parameters:
                continue
            needed = [each for each in parameters.values() if each.default is each.empty]
            arguments = [x for each in needed if each.kind <= each.POSITIONAL_OR_KEYWORD]
            options = {each.name: x for each in needed if each.kind == each.KEYWORD_ONLY}
            try:
                function(*arguments, engine=group, **options)
            except PortableGPUError:
                names.add(name)
            else:
                assert name in COMPUTED, name
    assert len(names) > 90
    with pytest.raises(UnsupportedError, match=r"functions that docs/multi.md lists, and to no"):
        pg.nn.relu(x, engine=group)
    host = np.asarray(x.asnumpy())
    for unsupported in (pg.fft.dct, pg.linalg.syrk, pg.signal.correlate):
        arguments = [host] * (2 if unsupported is pg.signal.correlate else 1)
        with pytest.raises(UnsupportedError, match="DeviceGroup"):
            unsupported(*arguments, engine=group)  # type: ignore[operator]


def test_lists_of_numbers(groups: dict[str, DeviceGroup]) -> None:
    group, rows = groups["two"], [[1.0, 2.0], [3.0, 4.0]]
    assert float(pg.dot(rows[0], rows[1], engine=group)) == 11
    assert float(pg.vdot(rows[0], rows[1], engine=group)) == 11
    assert np.array_equal(pg.matmul(rows, rows, engine=group), np.array(rows) @ rows)
    with pytest.raises(ShapeError, match="one or two axes"):
        pg.dot(3.0, rows, engine=group)


def test_the_memory_limit_is_kept(groups: dict[str, DeviceGroup]) -> None:
    devices = [engine.device for engine in groups["two"].engines]
    with DeviceGroup(devices, memory_limit=100_000) as group:
        x = group.asarray(normal(100, 400))
        assert {member.used for member in group.members} == {80_000}
        with pytest.raises(UnsupportedError, match=r"send values by x\.asnumpy"):
            pickle.dumps(x)
        with pytest.raises(
            DeviceMemoryError, match=r"device \d .* 3200 bytes .* 800 of its 100000"
        ):
            group.asarray(normal(100, 400))
        assert {member.used for member in group.members} == {80_000}
        del x
        assert {member.used for member in group.members} == {0}
    with pytest.raises(ArgumentError, match="closed"):
        group.asarray(normal(3))
    with pytest.raises(ArgumentError, match="a group that is closed"):
        DataParallel(nn.Linear(3, 2), group)
    with pytest.raises(UnsupportedError, match=r"send values by x\.asnumpy"):
        pickle.dumps(group)


# -- devices with memory of their own


@pytest.mark.parametrize("devices", ["one", "two"])
def test_arrays_of_numpy_are_streamed(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch, devices: str
) -> None:
    """Each device has two buffers for each operand; the result of a block is stored after it."""
    group = groups[devices]
    for engine in group.engines:
        monkeypatch.setattr(engine, "maps_host_memory", False)
    monkeypatch.setattr(partition, "LEAST_BLOCK", 1 << 12)
    a, b, c = normal(601, 50), normal(50, 33, seed=1), normal(601, 33, seed=2)
    before = [member.used for member in group.members]
    product = pg.gemm(a, b, engine=group)
    assert np.allclose(product, a @ b, rtol=1e-4, atol=1e-4)
    out = c.copy()
    assert pg.gemm(a, b, alpha=2, beta=0.5, out=out, engine=group) is out
    assert np.allclose(out, 2 * (a @ b) + 0.5 * c, rtol=1e-4, atol=1e-4)
    result = pg.elementwise("x * y + r", x=a, y=a[:, ::-1], r=a[0], engine=group)
    assert np.allclose(result, a * a[:, ::-1] + a[0], rtol=1e-4, atol=1e-4)
    out = a.copy()
    assert pg.elementwise("x * 2", x=out, out=out, engine=group) is out
    assert np.array_equal(out, 2 * a)
    images, filters, bias = normal(40, 2, 16, 16), normal(3, 2, 3, 3, seed=1), normal(3, seed=2)
    expected = pg.nn.conv2d(images, filters, bias, padding=1, engine=group.engines[0])
    result = pg.nn.conv2d(images, filters, bias, padding=1, engine=group)
    assert np.allclose(result, expected, rtol=1e-4, atol=1e-4)
    result = pg.fft.fftn(a, engine=group)
    assert np.allclose(result, np.fft.fftn(a), rtol=1e-3, atol=1e-2)
    gc.collect()
    assert [member.used for member in group.members] == before


@pytest.fixture
def small_tiles(groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Small products of NumPy arrays have tiles; the list has an entry for each that had."""
    made: list[bool] = []

    def counted(group: DeviceGroup, product: Any) -> bool:
        made.append(host_products.compute_in_tiles(group, product))
        return made[-1]

    for engine in (engine for group in groups.values() for engine in group.engines):
        monkeypatch.setattr(engine, "maps_host_memory", False)
    monkeypatch.setattr(partition, "LEAST_BLOCK", 1 << 12)
    monkeypatch.setattr(host_products, "_LEAST_PANEL", 1 << 12)
    monkeypatch.setattr(products, "compute_in_tiles", counted)
    return made


@pytest.mark.parametrize("pays", [False, True], ids=["pageable", "pinned"])
def test_tiles_of_products_of_numpy(
    groups: dict[str, DeviceGroup],
    small_tiles: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    pays: bool,
) -> None:
    """The tiles have the same bits on one device and on two, also in an array with strides."""
    for engine in (engine for group in groups.values() for engine in group.engines):
        monkeypatch.setattr(engine.staging, "pays", pays)
    for dtype, trans_a, trans_b, (m, n) in (
        (np.float32, "N", "N", (700, 300)),
        (np.float32, "T", "T", (200, 900)),
        (np.float64, "N", "T", (300, 300)),
    ):
        a, b = normal(m, 90, dtype=dtype), normal(90, n, dtype=dtype, seed=1)
        left = a if trans_a == "N" else a.T.copy()
        right = b if trans_b == "N" else b.T.copy()
        outs = {kind: np.empty((m, 2 * n), dtype)[:, ::2] for kind in _KINDS}
        for kind, out in outs.items():
            group = groups[kind]
            pg.gemm(left, right, trans_a=trans_a, trans_b=trans_b, out=out, engine=group)
        assert np.array_equal(*outs.values())
        bound = 90 * np.finfo(dtype).eps * (np.abs(a.astype(float)) @ np.abs(b.astype(float)))
        assert np.all(np.abs(outs["one"] - a.astype(float) @ b.astype(float)) <= bound)
    assert len(small_tiles) == 6
    assert all(small_tiles)
    for group in groups.values():
        assert not any(member.used for member in group.members)


def test_tiles_of_products_on_devices_that_fail(
    groups: dict[str, DeviceGroup], small_tiles: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error ends all threads of the call, and memory is as before; so does an interrupt."""
    group, draw = groups["two"], random.Random(7)
    a, b = normal(300, 90), normal(90, 300, seed=1)
    expected = pg.matmul(a, b, engine=group)
    for number in (0, 1):
        with failing(group.engines[number], "copies", 10**9, lasts=False) as left:
            pg.matmul(a, b, engine=group)
        copies = 10**9 - left[0]
        for lasts in (False, True):
            at = draw.randrange(max(1, copies // 3))  # a device takes tiles when it is free
            with (
                failing(group.engines[number], "copies", at, lasts=lasts),
                pytest.raises(DeviceFailedError, match=rf"device {number} \("),
            ):
                pg.matmul(a, b, engine=group)
            gc.collect()
            assert [member.used for member in group.members] == [0, 0]
    with handler(stop):
        for _ in range(6):
            interrupted(lambda: pg.matmul(a, b, engine=group), draw.uniform(1e-5, 2e-2))
    gc.collect()
    assert [member.used for member in group.members] == [0, 0]
    with failing(group.engines[1], "allocations", 3, lasts=False):  # then in blocks
        assert np.allclose(pg.matmul(a, b, engine=group), expected, rtol=1e-4, atol=1e-4)
    assert small_tiles[-1] is False
    assert np.array_equal(pg.matmul(a, b, engine=group), expected)
    monkeypatch.setattr(group, "on_failure", "retry")
    assert np.array_equal(pg.matmul(a, b, engine=group), expected)
    assert small_tiles[-1] is True
    with failing(group.engines[1], "copies", draw.randrange(copies), lasts=False):
        assert np.allclose(pg.matmul(a, b, engine=group), expected, rtol=1e-4, atol=1e-4)
    assert small_tiles[-1] is False


def test_tasks_end_if_those_that_they_wait_for_are_not_started(
    groups: dict[str, DeviceGroup], small_tiles: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy fails when a task that stores tiles runs, and the task that enqueues them does not."""
    a, b = normal(300, 90), normal(90, 300, seed=1)
    check, late, errors = copying.Copies.check, [None], []

    def check_late(self: copying.Copies) -> None:
        if late:
            late.clear()
            end = time.monotonic() + 5
            while not self._is_abandoned and time.monotonic() < end:
                time.sleep(1e-3)
        check(self)

    def late_copy(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.05)
        return failing_copy(*arguments, **options)

    def call() -> None:
        try:
            pg.matmul(a, b, engine=groups["two"])
        except DeviceFailedError as error:
            errors.append(str(error))

    monkeypatch.setattr(copying.Copies, "check", check_late)
    with failing(groups["two"].engines[0], "copies", 0, lasts=False):
        failing_copy = cl.enqueue_copy
        monkeypatch.setattr(cl, "enqueue_copy", late_copy)
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(30)
        monkeypatch.undo()
    assert not thread.is_alive()
    assert [error[:8] for error in errors] == ["device 0"]
    assert not small_tiles


def test_the_first_error_of_a_group_that_is_closed_is_raised(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = DeviceGroup([groups["one"].engines[0].device])
    product = SimpleNamespace(cut=SimpleNamespace(members=list(group.members)))

    def fail(*_: Any) -> bool:
        group.close()
        raise ZeroDivisionError

    monkeypatch.setattr(host_products, "_compute", fail)
    with pytest.raises(ZeroDivisionError):
        host_products.compute_in_tiles(group, product)  # type: ignore[arg-type]


def test_threads_of_copies_end_after_an_interrupt(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler raises after the start of the threads, and before the tokens that end them."""

    def threads() -> int:
        return _thread._count()

    def call() -> None:
        with copying.copies(groups["two"].members):
            time.sleep(0.02)  # the threads wait for pieces

    def once(function: Any) -> Any:
        left = [None]

        def interrupted(self: Any) -> None:
            if left:
                if function.__name__ == "begin":
                    function(self)
                time.sleep(0.02)
                left.clear()
                raise KeyboardInterrupt
            function(self)

        return interrupted

    call()
    before = threads()
    for owner, name in ((side_by_side._ThreadPool, "begin"), (copying.Copies, "close")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, once(getattr(owner, name)))
            with pytest.raises(KeyboardInterrupt):
                call()
        end = time.monotonic() + 10
        while threads() > before and time.monotonic() < end:
            time.sleep(1e-3)
        assert threads() <= before


def test_copies_wait_for_devices_of_other_contexts(groups: dict[str, DeviceGroup]) -> None:
    """Events of two contexts are waited for, and buffers go back to the pool."""
    members = groups["two"].members
    arrays = [(member, member.empty((64,), np.dtype(np.float32))) for member in members]
    events = [cl.enqueue_copy(m.copies, x.base_data, np.ones(64, np.float32)) for m, x in arrays]
    assert copying._await([each for each in events if each is not None])


@pytest.mark.parametrize("threads", ["one", "each"])
def test_results_that_cannot_be_stored_are_computed_anew(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    """A result is stored after the next block's kernels; a failure is that of its own block."""
    group, x = groups["two"], normal(600, 30)
    for engine in group.engines:
        monkeypatch.setattr(engine, "maps_host_memory", False)
    monkeypatch.setattr(group, "threads", threads)
    monkeypatch.setattr(partition, "LEAST_BLOCK", 1 << 12)
    download, random, failed = transfers.download, np.random.default_rng(3), []

    def failing(member: Any, array: Any, values: Any) -> None:
        if random.random() < 0.3 and len(failed) < 5:
            failed.append(member.index)
            raise cl.RuntimeError("clEnqueueReadBuffer failed: OUT_OF_RESOURCES")
        download(member, array, values)

    monkeypatch.setattr(transfers, "download", failing)
    with pytest.raises(DeviceFailedError, match=r"block \d+ of 12 .*OUT_OF_RESOURCES"):
        pg.elementwise("x * 2", x=x, engine=group)
    monkeypatch.setattr(group, "on_failure", "retry")
    assert np.array_equal(pg.elementwise("x * 2", x=x, engine=group), 2 * x)
    assert len(failed) == 5


# -- failures, interrupts and the timeline


def test_all_queues_are_drained() -> None:
    """A queue that fails leaves out neither other queues of its device nor other devices."""
    finished: list[tuple[int, int]] = []

    def queue(device: int, number: int) -> Any:
        def finish() -> None:
            finished.append((device, number))
            if (device, number) == (0, 0):
                raise cl.RuntimeError("clFinish failed: OUT_OF_RESOURCES")

        return SimpleNamespace(finish=finish)

    devices = [SimpleNamespace(queues=[queue(d, k) for k in range(3)]) for d in range(2)]
    failures.drain(cast("list[Member]", devices))
    assert finished == [(d, k) for d in range(2) for k in range(3)]


@pytest.mark.parametrize("on_failure", ["raise", "retry"])
@pytest.mark.parametrize("given", ["group", "numpy"])
def test_a_device_that_lacks_memory(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch, on_failure: str, given: str
) -> None:
    """One device has no memory for one block: the error names both, or another device has."""
    group = groups["two"]
    a, b = normal(600, 200), normal(200, 33, seed=1)
    x = group.asarray(a, blocks=4) if given == "group" else a
    failed: list[Any] = []
    gemm, fails = products.gemm_family.gemm, group.engines[1]

    def failing(left: Any, right: Any, **options: Any) -> Any:
        if options["engine"] is fails:
            failed.append(left.shape)
            raise DeviceMemoryError("a buffer of 12345 bytes cannot be allocated")
        return gemm(left, right, **options)

    monkeypatch.setattr(products.gemm_family, "gemm", failing)
    monkeypatch.setattr(group, "on_failure", on_failure)
    if given == "numpy":
        monkeypatch.setattr(partition, "LEAST_BLOCK", 1 << 16)
    if on_failure == "raise":
        message = r"block \d of \d on device 1 \(.*\d bytes free\): a buffer of 12345 bytes"
        with pytest.raises(DeviceMemoryError, match=message):
            pg.gemm(x, b, engine=group)
    else:
        result = values(pg.gemm(x, b, engine=group))
        assert np.allclose(result, a @ b, rtol=1e-3, atol=1e-3)
    assert failed
    monkeypatch.undo()
    assert np.allclose(values(pg.gemm(x, b, engine=group)), a @ b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("what", ["allocations", "copies"])
def test_work_is_moved_from_a_device_that_fails_for_good(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """At once, or in the middle; operands that blocks need as a whole are copied to the others."""
    group = groups["two"]
    a, b, spectrum = normal(60, 50), normal(50, 40, seed=1), normal(24, 18).astype(np.complex64)
    images, filters = normal(6, 2, 7, 7), normal(3, 2, 3, 3, seed=1)
    definite = a[:50].T @ a[:50] + 40 * np.eye(50, dtype=np.float32)
    monkeypatch.setattr(partition, "LEAST_BLOCK", 1 << 10)
    monkeypatch.setattr(group, "on_failure", "retry")
    for engine in group.engines:
        monkeypatch.setattr(engine, "maps_host_memory", False)

    operations: list[Callable[[], Any]] = [
        lambda: pg.gemm(a, b, engine=group),
        lambda: pg.gemv(a, b[:, 0].copy(), engine=group),
        lambda: pg.elementwise("2 * x", x=a, engine=group),
        lambda: nn.conv2d(images, filters, engine=group),
        lambda: pg.fft.fftn(spectrum, engine=group),
        lambda: pg.linalg.cholesky(definite, engine=group),
        lambda: pg.linalg.cholesky(definite, lower=True, engine=group),
    ]
    expected = [operation() for operation in operations]
    for at in (0, 3):
        for operation, result in zip(operations, expected, strict=True):
            with failing(group.engines[1], what, at, lasts=True) as left:
                assert operation().tobytes() == result.tobytes()
            assert left[0] < 0 or at  # some have fewer


def test_blocks_are_halved_where_no_device_has_memory(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = normal(600, 200)
    shapes: list[Any] = []
    compute = expressions.compute

    def failing(expression: str, **options: Any) -> Any:
        shapes.append(options["x"].shape)
        if options["x"].shape[0] > 150:
            raise DeviceMemoryError("a buffer of 12345 bytes cannot be allocated")
        return compute(expression, **options)

    monkeypatch.setattr(expressions, "compute", failing)
    monkeypatch.setattr(groups["two"], "on_failure", "retry")
    monkeypatch.setattr(partition, "LEAST_BLOCK", 1 << 17)
    result = pg.elementwise("x * 2", x=x, engine=groups["two"])
    assert np.array_equal(result, 2 * x)
    assert (100, 200) in shapes


def test_failing_devices_are_named(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise cl.RuntimeError("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES")

    monkeypatch.setattr(expressions, "compute", failing)
    group = groups["two"]
    x = group.asarray(normal(8), blocks=2)
    with pytest.raises(DeviceFailedError, match=r"block 0 of 2 on device 0 .*OUT_OF_RESOURCES"):
        pg.elementwise("x * 2", x=x, engine=group)


def test_interrupts_leave_nothing(groups: dict[str, DeviceGroup]) -> None:
    """An exception of a signal handler at any point ends a call; memory is as before."""
    group = groups["two"]
    a, b = normal(400, 200), normal(200, 33, seed=1)

    def call() -> Any:
        x = group.asarray(a, blocks=6)
        return pg.gemm(x, b, engine=group).asnumpy()

    expected = call()
    gc.collect()
    before = [member.used for member in group.members]

    with handler(stop):
        seconds = np.random.default_rng(5).uniform(2e-5, 8e-3, 40)
        assert sum(interrupted(call, each) for each in seconds)
    gc.collect()
    assert [member.used for member in group.members] == before
    assert np.array_equal(call(), expected)


def test_timeline(groups: dict[str, DeviceGroup], tmp_path: Path) -> None:
    group = groups["two"]
    x = normal(400, 200)
    with group.timeline() as timeline:
        array = group.asarray(x, blocks=4)
        pg.nrm2(array, axis=1, engine=group).asnumpy()
    kinds = {(span.device, span.kind) for span in timeline.spans}
    assert kinds == {(device, kind) for device in (0, 1) for kind in ("kernels", "copies")}
    for span in timeline.spans:
        assert 0 <= span.start <= span.stop
    assert sum(span.nbytes for span in timeline.spans if span.name == "upload") == x.nbytes
    names = [span.name for span in timeline.spans if span.kind == "kernels"]
    assert sorted(names) == [f"nrm2, block {number}" for number in range(4)]
    timeline.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(timeline.spans)
    count = len(timeline.spans)
    array.asnumpy()
    assert len(timeline.spans) == count
    pytest.importorskip("matplotlib")
    timeline.plot(tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").stat().st_size
    with pytest.raises(ArgumentError, match=r"timeline.foo'; expected a name that ends in .*png"):
        timeline.plot(tmp_path / "timeline.foo")


def test_timelines_inside_each_other(groups: dict[str, DeviceGroup]) -> None:
    """Each has all the work of its block, also after the end of the inner one."""
    group = groups["two"]
    x = group.asarray(normal(40, 20), blocks=4)

    def kernels(timeline: Timeline) -> list[str]:
        return sorted(span.name for span in timeline.spans if span.kind == "kernels")

    with group.timeline() as outer:
        pg.sum(x, axis=1, engine=group)
        with group.timeline() as inner:
            pg.nrm2(x, axis=1, engine=group)
            x.asnumpy()
        pg.asum(x, axis=1, engine=group)
    names = {each: [f"{each}, block {k}" for k in range(4)] for each in ("asum", "nrm2", "sum")}
    assert kernels(inner) == names["nrm2"]
    assert kernels(outer) == [*names["asum"], *names["nrm2"], *names["sum"]]
    assert {span.name for span in outer.spans} >= {"download"}
    assert not any(member.recorders for member in group.members)


def test_overlap_of_kernels_and_copies() -> None:
    timeline = Timeline(["a"])
    begin = timeline._begin
    for kind, first, last in [("kernels", 0, 4), ("copies", 1, 2), ("copies", 3, 6)]:
        timeline.add(0, kind, "x", (begin + first, begin + last), 0)
    assert timeline.busy(0, "copies") == pytest.approx(4)
    assert timeline.overlap(0) == pytest.approx((4 + 4 - 6) / 4)


@pytest.mark.parametrize("threads", ["one", "each"])
def test_threading_policies_have_the_same_bits(
    groups: dict[str, DeviceGroup], monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    group = groups["two"]
    a, b = normal(45, 30), normal(30, 33, seed=1)
    expected = values(pg.gemm(group.asarray(a, blocks=3), b, engine=group))
    monkeypatch.setattr(group, "threads", threads)
    result = values(pg.gemm(group.asarray(a, blocks=3), b, engine=group))
    assert result.tobytes() == expected.tobytes()


def test_shares_of_unlike_devices_are_measured(groups: dict[str, DeviceGroup]) -> None:
    """Members that differ in their name get shares by speed; the array says which."""
    group = groups["two"]
    assert group.shares == (0.5, 0.5)
    seconds = iter([0.25, 0.75])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_kind", lambda member: member.index)
        patch.setattr(grouping, "_seconds", lambda _: next(seconds))
        measured = grouping.measured_shares(group.members)
    assert measured == pytest.approx((0.75, 0.25))
    devices = [engine.device for engine in group.engines]
    with DeviceGroup(devices, shares=(3, 1)) as uneven:
        array = uneven.asarray(normal(24, 2), blocks=24)
        assert array.shares == pytest.approx((0.75, 0.25))


def test_devices_of_the_variable(tmp_path: Path) -> None:
    """A driver that is named several times gives several devices; all have the same bits."""
    code = (
        "import numpy as np, portable_gpu as pg\n"
        "from portable_gpu import sparse\n"
        "from portable_gpu.multi import DeviceGroup\n"
        "from scipy.sparse import diags_array\n"
        "sparse.partition._LEAST_LIMIT = 500.0\n"
        "A = diags_array([4.0, -1.0, -1.0], offsets=[0, 1, 15], shape=(180, 180))\n"
        "x = np.random.default_rng(0).standard_normal((300, 40)).astype('f4')\n"
        "listed = DeviceGroup()\n"
        "assert listed.size == 3, listed\n"
        "groups = [DeviceGroup([f'0:{d}' for d in range(n)]) for n in (1, 2, 4)] + [listed]\n"
        "bits = set()\n"
        "for g in groups:\n"
        "    a = g.asarray(x, blocks=5)\n"
        "    results = pg.sum(a, axis=0, engine=g), pg.gemm(a, x.T, engine=g)\n"
        "    solution = sparse.spsolve(A, x[:180, :2], triangle='upper', engine=g)\n"
        "    bits.add(b''.join(r.asnumpy().tobytes() for r in results) + solution.tobytes())\n"
        "assert len(bits) == 1\n"
        "assert pg.default_engine().device == groups[0].engines[0].device\n"
    )
    platform = pg.default_engine().device.platform.name
    if platform != "Portable Computing Language":
        pytest.skip("only PoCL's devices can be named several times")
    environment = os.environ | {
        "POCL_DEVICES": "pthread pthread pthread pthread", "PORTABLE_GPU_DEVICE": "0:0, 0:1, 0:2",
    }  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)


def test_devices_of_two_runtimes(tmp_path: Path) -> None:
    """PoCL and Intel's runtime have other kernels; with given shares, results repeat."""
    code = (
        "import numpy as np, pyopencl as cl, portable_gpu as pg\n"
        "from portable_gpu.multi import DeviceGroup\n"
        "devices = [d for p in cl.get_platforms() for d in p.get_devices()]\n"
        "assert len(devices) == 2, devices\n"
        "x = np.random.default_rng(0).standard_normal((300, 40)).astype('f4')\n"
        "exact = x.astype(float)\n"
        "bits = []\n"
        "for _ in range(2):\n"
        "    with DeviceGroup(devices, shares=(2, 1)) as g:\n"
        "        a = g.asarray(x, blocks=12)\n"
        "        assert np.allclose(a.shares, (2 / 3, 1 / 3))\n"
        "        total = pg.sum(a, axis=0, engine=g).asnumpy()\n"
        "        square = pg.elementwise('x * x', x=x, engine=g)\n"
        "    bits.append([r.tobytes() for r in (total, square)])\n"
        "assert bits[0] == bits[1]\n"
        "u = 2.0 ** -24\n"
        "assert (abs(total - exact.sum(0)) <= 310 * u * abs(exact).sum(0)).all()\n"
        "assert np.array_equal(square, x * x)\n"
    )
    library = Path(sys.prefix) / "lib" / "libintelocl.so"
    platform = pg.default_engine().device.platform.name
    if not library.exists() or platform != "Portable Computing Language":
        pytest.skip("there is no Intel's runtime beside PoCL")
    (tmp_path / "intel.icd").write_text(f"{library}\n")
    environment = os.environ | {"OCL_ICD_VENDORS": str(tmp_path)}
    for name in ("PORTABLE_GPU_DEVICE", "POCL_DEVICES"):
        environment.pop(name, None)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)
