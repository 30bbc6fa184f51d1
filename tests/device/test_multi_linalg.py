"""Layers and linear algebra of groups of devices: the same bits for any number of devices."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from device_groups import one_and_two
from failing_devices import failing

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceFailedError,
    DeviceMemoryError,
    DTypeError,
    NotPositiveDefiniteError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.multi import (
    DataParallel,
    DeviceGroup,
    GroupArray,
    collectives,
    copying,
    partition,
    training,
    transfers,
)
from portable_gpu.multi.operations import block_columns, factors, substitutions, transforms


@pytest.fixture(scope="module")
def groups() -> Iterator[list[DeviceGroup]]:
    """Groups of one and of two devices."""
    with one_and_two() as pair:
        yield list(pair)


def same_bits(groups: list[DeviceGroup], call: Any) -> Any:
    """Return the result of a call on each group, given the group, which have the same bits."""
    results = [call(group) for group in groups]
    first, second = (np.asarray(x.asnumpy() if isinstance(x, GroupArray) else x) for x in results)
    assert (first.shape, first.dtype) == (second.shape, second.dtype)
    assert first.tobytes() == second.tobytes()
    return first


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Return normal random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# -- convolutions


def convolved(x: Any, weight: Any, bias: Any, stride: int, padding: int) -> Any:
    """Convolve images in float64, tap by tap."""
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), *((padding,) * 2,) * 2))
    rows, columns = weight.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(padded, (rows, columns), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    return np.einsum("nchwrs,kcrs->nkhw", windows, weight) + bias[:, None, None]


def test_convolutions_of_blocks_of_images(groups: list[DeviceGroup]) -> None:
    x, weight, bias = normal(7, 5, 9, 10), normal(6, 5, 3, 3, seed=1), normal(6, seed=2)
    expected = convolved(x, weight, bias, 2, 1)
    magnitudes = convolved(np.abs(x), np.abs(weight), np.abs(bias), 2, 1)
    # (K + 2) eps of K = 45 terms; eps / 2 is 2^-24.
    bound = 47 * 2.0**-23 * magnitudes

    def call(group: DeviceGroup, images: str, filters: str) -> Any:
        place = {"host": lambda a: a, "copies": group.broadcast}
        blocks = {"blocks": lambda a: group.asarray(a, blocks=4)}
        w, b = (place[filters](a) for a in (weight, bias))
        its = (place | blocks)[images](x)
        return nn.conv2d(its, w, b, 2, 1, engine=group, algo="direct")

    for images, filters in product(("host", "copies", "blocks"), ("host", "copies")):
        result = same_bits(groups, lambda g, i=images, f=filters: call(g, i, f))
        assert (np.abs(result - expected) <= bound).all(), (images, filters)


def test_convolutions_into_an_array(groups: list[DeviceGroup]) -> None:
    x, weight = normal(7, 5, 9, 10), normal(6, 5, 3, 3, seed=1)
    expected = convolved(x, weight, np.zeros(6), 2, 1)
    options: Any = {"stride": 2, "padding": 1, "algo": "direct"}

    def call(group: DeviceGroup) -> Any:
        out = group.empty(expected.shape, np.float32, blocks=4)
        images = group.asarray(x, blocks=4)
        assert nn.conv2d(images, weight, out=out, engine=group, **options) is out
        return out

    result = same_bits(groups, call)
    assert np.allclose(result, expected, rtol=1e-4, atol=1e-4)
    group = groups[1]
    host = np.empty(expected.shape[::-1], np.float32).T
    assert nn.conv2d(x, weight, out=host, engine=group, **options) is host
    assert np.allclose(host, expected, rtol=1e-4, atol=1e-4)
    single = nn.conv2d(x[0], weight, engine=group, **options)
    assert np.allclose(single, expected[0], rtol=1e-4, atol=1e-4)
    assert nn.conv2d(x[:0], weight, engine=group, **options).shape == (0, *expected.shape[1:])


def test_out_decides_the_blocks_of_a_convolution(groups: list[DeviceGroup]) -> None:
    """Each copy of a replicated ``out`` is written."""
    x, weight = normal(7, 5, 9, 10), normal(6, 5, 3, 3, seed=1)
    expected = convolved(x, weight, np.zeros(6), 2, 1)
    for group in groups:
        places = (group.broadcast, lambda a, g=group: g.asarray(a, blocks=3))
        for images, place in product((*places, lambda a: a), places):
            out = place(np.full(expected.shape, np.nan, np.float32))
            its = images(x)
            assert nn.conv2d(its, weight, None, 2, 1, out=out, engine=group, algo="direct") is out
            for block in out.blocks:
                part = expected if out.axis is None else expected[block.start : block.stop]
                assert np.allclose(block.array.get(), part, rtol=1e-4, atol=1e-4)
        with pytest.raises(ShapeError, match="out has shape"):
            nn.conv2d(x, weight, None, 2, 1, out=group.broadcast(x), engine=group)


def test_convolutions_refuse_other_blocks(groups: list[DeviceGroup]) -> None:
    group, weight = groups[1], normal(6, 5, 3, 3)
    for error, function, images in [
        (ArgumentError, nn.conv2d, group.asarray(normal(2, 5, 9, 9), 1)),
        (ArgumentError, nn.conv2d, group.asarray(normal(5, 9, 9))),
        (ShapeError, nn.conv2d, group.asarray(normal(2, 4, 9, 9))),
        (UnsupportedError, nn.conv_transpose2d, normal(2, 6, 9, 9)),
    ]:
        with pytest.raises(error):
            function(images, weight, engine=group)


# -- training


def digits(normalised: bool) -> nn.Sequential:
    """The network of examples/digits_cnn.py with fewer channels, or one with normalised batches."""
    nn.manual_seed(1)
    layers: list[nn.Module] = [nn.Conv2d(1, 4, 3, padding=1)]
    if normalised:
        layers.append(nn.BatchNorm2d(4))
    layers += [nn.ReLU(), nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()]
    if normalised:
        layers.append(nn.Dropout(0.3))
    return nn.Sequential(*layers, nn.Linear(8 * 4 * 4, 10))


def copy_before(group: DeviceGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first micro-batch of each device be copied before kernels, as on GPUs."""
    monkeypatch.setattr(training, "_LEAST_BYTES_BEFORE", 0)
    for engine in group.engines:
        monkeypatch.setattr(engine, "maps_host_memory", False)


def count_uploads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the bytes of each upload by the threads of copies."""
    counted: list[int] = []
    upload = copying.Copies.upload

    def counting(self: Any, values: Any, arrays: Any) -> Any:
        counted.append(values.nbytes)
        return upload(self, values, arrays)

    monkeypatch.setattr(copying.Copies, "upload", counting)
    return counted


def state_bits(net: nn.Module) -> bytes:
    """Return the bits of parameters and statistics."""
    return b"".join(value.tobytes() for value in net.state_dict().values())


def test_training_has_the_same_bits(
    groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three steps with statistics of batches and dropout.

    One thread enqueues, or two, or two after the first images were copied by other threads.
    """
    images, targets = normal(3, 8, 1, 8, 8), np.arange(24).reshape(3, 8) % 10
    results = []
    copied = count_uploads(monkeypatch)
    for group, least_bytes, is_copied_before in [
        *[(group, 1 << 20, False) for group in groups],
        (groups[-1], 0, False),
        (groups[-1], 0, True),
    ]:
        monkeypatch.setattr(training, "LEAST_BYTES_FOR_THREADS", least_bytes)
        if is_copied_before:
            assert not copied
            copy_before(group, monkeypatch)
        net = digits(True)
        optimizer = nn.AdamW(net.parameters(), lr=0.01)
        parallel, losses = DataParallel(net, group, micro_batches=4), []
        for batch, classes in zip(images, targets, strict=True):
            optimizer.zero_grad()
            losses.append(parallel.backward(batch, classes, nn.CrossEntropyLoss()))
            optimizer.step()
        assert int(net[1].num_batches_tracked.data) == 3
        assert net[6].calls == 3
        results.append((losses, state_bits(net)))
    assert all(result == results[0] for result in results)
    assert len(copied) == 3 * 2 * groups[-1].size
    # The first loss is near that of ten equal classes.
    assert abs(results[0][0][0] - np.log(10)) < 0.5


def test_gradients_are_those_of_the_whole_batch(groups: list[DeviceGroup]) -> None:
    images, targets = normal(8, 1, 8, 8), np.arange(8)
    alone, net = digits(False), digits(False)
    parallel = DataParallel(net, groups[1], micro_batches=4)
    for reduction in ("mean", "sum"):
        loss = nn.CrossEntropyLoss(reduction=reduction)
        expected = float(loss(alone(images), targets).get())
        alone.backward(loss.backward())  # the gradients of the second loss are added
        assert parallel.backward(images, targets, loss) == pytest.approx(expected, rel=1e-5)
    for oracle, parameter in zip(alone.parameters(), net.parameters(), strict=True):
        assert oracle.grad is not None
        assert parameter.grad is not None
        exact = oracle.grad.get()
        assert np.abs(parameter.grad.get() - exact).max() <= 1e-5 * np.abs(exact).max()


def test_examples_of_earlier_micro_batches_are_freed(
    groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit below the eight micro-batches of a device admits two, and sums of gradients."""
    images, targets = normal(640, 1, 8, 8), np.arange(640) % 10
    results = []
    for is_limited in (False, True):
        net = digits(True)
        parallel = DataParallel(net, groups[1], micro_batches=16)
        for member in groups[1].members if is_limited else ():
            monkeypatch.setattr(member, "limit", member.used + 5 * images[:40].nbytes)
        loss = parallel.backward(images, targets, nn.CrossEntropyLoss())
        results.append((loss, [parameter.grad.get().tobytes() for parameter in net.parameters()]))
    assert results[0] == results[1]


def test_running_statistics_are_means_over_micro_batches(groups: list[DeviceGroup]) -> None:
    images = normal(8, 3, 4, 4)
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 2))
    parallel = DataParallel(net, groups[1], micro_batches=4)
    parallel.backward(images, np.zeros(8, np.int64), nn.CrossEntropyLoss())
    parts = images.astype(float).reshape(4, 2, 3, 16).swapaxes(1, 2).reshape(4, 3, 32)
    mean, var = parts.mean(axis=2).mean(axis=0), parts.var(axis=2, ddof=1).mean(axis=0)
    assert np.allclose(net[0].running_mean.data.get(), 0.1 * mean, atol=1e-6)
    assert np.allclose(net[0].running_var.data.get(), 0.9 + 0.1 * var, atol=1e-6)
    before = state_bits(net.eval())
    parallel.backward(images, np.zeros(8, np.int64), nn.CrossEntropyLoss())
    assert state_bits(net) == before


def one_step(parallel: DataParallel) -> tuple[Any, ...]:
    """Return the loss, the gradients and the state after a batch of digits(True)."""
    net: Any = parallel.module
    loss = parallel.backward(normal(10, 1, 8, 8), np.arange(10), nn.CrossEntropyLoss())
    gradients = [parameter.grad.get().tobytes() for parameter in net.parameters()]
    return loss, gradients, state_bits(net), net[6].calls


@pytest.mark.parametrize("on_failure", ["raise", "retry"])
@pytest.mark.parametrize("device", [0, 1])
def test_training_on_a_device_without_memory(
    groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch, device: int, on_failure: str
) -> None:
    """An error leaves the network as it was; the step on another device has the same bits."""
    group = groups[1]
    expected = one_step(DataParallel(digits(True), group, micro_batches=5))
    monkeypatch.setattr(group, "on_failure", on_failure)
    for number, at in enumerate([0, *np.random.default_rng(device).integers(1, 25, 3)]):
        if number == 2 and on_failure == "retry":
            copy_before(group, monkeypatch)
        net = digits(True)
        parallel = DataParallel(net, group, micro_batches=5)
        before = state_bits(net)
        lasts = on_failure == "retry"
        with failing(group.engines[device], "allocations", int(at), lasts=lasts) as left:
            if on_failure == "retry":
                assert one_step(parallel) == expected
            else:
                with pytest.raises(DeviceMemoryError, match=rf"device {device} \("):
                    one_step(parallel)
                assert state_bits(net) == before
                assert not any(parameter.has_grad for parameter in net.parameters())
                assert net[6].calls == 0
        assert left[0] < 0
    if on_failure == "raise":
        assert one_step(parallel) == expected


@pytest.mark.parametrize("on_failure", ["raise", "retry"])
def test_sums_of_gradients_that_fail(
    groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch, on_failure: str
) -> None:
    """The tree of sums is as before a failed addition, so that it can be repeated."""
    group = groups[1]
    expected = one_step(DataParallel(digits(True), group, micro_batches=5))
    monkeypatch.setattr(group, "on_failure", on_failure)
    additions = 0

    def failing(expression: str, **options: Any) -> Any:
        nonlocal additions
        additions += expression == "x + y"
        if additions == at and expression == "x + y":
            raise cl.RuntimeError("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES")
        return pg.elementwise(expression, **options)

    monkeypatch.setattr(collectives, "elementwise", failing)
    for at in (2, 5, 8):  # each of four sums adds the gradients and the statistics
        net, additions = digits(True), 0
        parallel = DataParallel(net, group, micro_batches=5)
        if on_failure == "raise":
            with pytest.raises(DeviceFailedError, match="OUT_OF_RESOURCES"):
                one_step(parallel)
            assert not any(parameter.has_grad for parameter in net.parameters())
        else:
            assert one_step(parallel) == expected
        assert additions >= at


def test_training_refuses_what_does_not_fit(groups: list[DeviceGroup]) -> None:
    group, net, loss = groups[1], digits(False), nn.CrossEntropyLoss()
    parallel = DataParallel(net, group, micro_batches=2)
    images = normal(4, 1, 8, 8)
    for error, call in [
        (ArgumentError, lambda: DataParallel(net, group, micro_batches=0)),
        (ArgumentError, lambda: DataParallel(nn.ReLU(), group)),
        (ArgumentTypeError, lambda: DataParallel(net, group.engines)),  # type: ignore[arg-type]
        (ArgumentTypeError, lambda: parallel.backward(images, np.zeros(4, int), "mean")),
        (ArgumentError, lambda: parallel.backward(images[:0], np.zeros(0, int), loss)),
        (ArgumentError, lambda: parallel.backward(images, np.full(4, 10), loss)),
        (ShapeError, lambda: parallel.backward(images, np.zeros(3, int), loss)),
        (ArgumentError, lambda: parallel.backward(
            images, np.zeros(4, int), nn.CrossEntropyLoss(reduction="none"))),
    ]:  # fmt: skip
        with pytest.raises(error):
            call()
    assert not any(parameter.has_grad for parameter in net.parameters())


# -- Fourier transforms


@pytest.mark.parametrize("cut", [0, 1, 2, "all", None])
def test_transforms_by_slabs(
    groups: list[DeviceGroup], cut: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cut != 2:  # blocks of axis 2 are exchanged by kernels
        monkeypatch.setattr(transforms, "_LEAST_ROW", 1)
    monkeypatch.setattr(transfers.staging, "PIECE", 400)
    x = normal(6, 10, 8) + 1j * normal(6, 10, 8, seed=1)
    x = x.astype(np.complex64)
    place = {"all": lambda g: g.broadcast(x), None: lambda _: x}

    def array(group: DeviceGroup) -> Any:
        return place[cut](group) if cut in place else group.asarray(x, cut, blocks=3)

    for axes, lengths, norm, name in [
        (None, None, None, "fftn"), ((0, 2), None, "ortho", "ifftn"), ((1,), (12,), None, "fftn")
    ]:  # fmt: skip
        exact = getattr(np.fft, name)(x.astype(complex), lengths, axes or (0, 1, 2), norm=norm)

        def call(group: DeviceGroup, name: str = name, options: Any = (lengths, axes, norm)) -> Any:
            return getattr(pg.fft, name)(array(group), *options, engine=group)

        result = same_bits(groups, call)
        assert result.dtype == np.complex64
        # About 0.2 eps log2 n of the 2-norm; four times that is the bound here.
        bound = 0.8 * 2.0**-23 * np.log2(480) * np.linalg.norm(exact)
        assert np.linalg.norm(result - exact) <= bound, (axes, name)


@pytest.mark.parametrize("shape", [(7, 10), (5, 4, 6)])
def test_real_transforms_by_slabs(groups: list[DeviceGroup], shape: tuple[int, ...]) -> None:
    """Any axis is cut, and any is the one of the real lines, which get a random length."""
    x, random = normal(*shape), np.random.default_rng(len(shape))
    for cut in (*range(len(shape)), None):
        axes = random.permutation(len(shape))[: random.integers(1, len(shape) + 1)].tolist()
        if cut in axes and random.random() < 0.5:
            axes = [axis for axis in axes if axis != cut] + [cut]
        options = random.integers(3, 9, len(axes)).tolist(), tuple(axes), "ortho"
        spectrum = np.fft.rfftn(x.astype(float), axes=axes)
        for name, values in (("rfftn", x), ("irfftn", spectrum.astype(np.complex64))):
            exact = getattr(np.fft, name)(values.astype(np.result_type(values, float)), *options)

            def call(
                group: DeviceGroup, name: str = name, values: Any = values,
                cut: Any = cut, options: Any = options,
            ) -> Any:  # fmt: skip
                array = values if cut is None else group.asarray(values, cut, blocks=3)
                return getattr(pg.fft, name)(array, *options, engine=group)

            result = same_bits(groups, call)
            assert (result.shape, result.dtype.kind) == (exact.shape, exact.dtype.kind)
            error = np.linalg.norm(result - exact)
            assert error <= 8 * 2.0**-23 * np.linalg.norm(values), (cut, axes, name)
    with pytest.raises(DTypeError, match="does not take complex"):
        pg.fft.rfftn(groups[1].asarray(spectrum), engine=groups[1])


def test_exchanged_blocks(groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks along any axis become blocks along any other, in pieces, with the same values."""
    monkeypatch.setattr(transforms, "_LEAST_ROW", 1)
    monkeypatch.setattr(transfers.staging, "PIECE", 100)
    random = np.random.default_rng(0)
    for _ in range(40):
        shape = tuple(random.integers(1, 9, random.integers(2, 5)).tolist())
        before, after = random.permutation(len(shape))[:2].tolist()
        x = normal(*shape)
        monkeypatch.setattr(partition, "LEAST_BLOCK", int(random.choice([16, 64, 1 << 18])))
        for group in groups:
            blocks = int(random.integers(1, shape[before] + 1))
            result = transforms.exchanged(group.asarray(x, before, blocks=blocks), after)
            assert result.axis == after
            assert np.array_equal(result.asnumpy(), x)


def test_transforms_refuse_one_axis(groups: list[DeviceGroup]) -> None:
    group = groups[1]
    for call in [
        lambda: pg.fft.fft(group.asarray(normal(8)), engine=group),
        lambda: pg.fft.fft(normal(8), engine=group),
        lambda: pg.fft.rfft(normal(8), engine=group),
        lambda: pg.fft.fftn(group.asarray(normal(8, 8)), out=normal(8, 8), engine=group),
    ]:
        with pytest.raises(UnsupportedError):
            call()
    x = normal(4, 6)
    out = np.empty((4, 6), np.complex64)
    assert pg.fft.fft2(x, out=out, engine=group) is out
    assert np.allclose(out, np.fft.fft2(x), atol=1e-5)


# -- Cholesky factors


@pytest.mark.parametrize(("dtype", "lower"), [(np.float64, True), (np.complex128, False)])
def test_factors_by_block_columns(
    groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch, dtype: Any, lower: bool
) -> None:
    if lower:  # each right-hand side is a panel
        monkeypatch.setattr(substitutions, "_LEAST_WIDTH", 1)
    n = 50
    x = normal(n, n, dtype=np.float64)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * normal(n, n, dtype=np.float64, seed=1)
    exact = x @ x.conj().T + n * np.eye(n)
    a = np.where(np.tri(n, dtype=bool) == lower, exact, np.nan)  # only one triangle is read
    a[np.diag_indices(n)] = exact[np.diag_indices(n)]
    b = normal(n, 3, dtype=np.float64, seed=2).astype(dtype)
    for cut in (0, 1, "all", None):

        def array(group: DeviceGroup, cut: Any = cut) -> Any:
            if cut is None:
                return a
            return group.broadcast(a) if cut == "all" else group.asarray(a, cut, blocks=4)

        factor = same_bits(groups, lambda g: pg.linalg.cholesky(array(g), lower=lower, engine=g))
        whole = factor if lower else factor.conj().T
        assert np.array_equal(whole, np.tril(whole))
        # gamma(n + 3) |L| |L^H|; eps / 2 is 2^-53, and complex numbers take sqrt(8) as much.
        bound = 3 * (n + 3) * 2.0**-53 * (np.abs(whole) @ np.abs(whole.T))
        assert (np.abs(whole @ whole.conj().T - exact) <= bound).all(), cut

    def solved(group: DeviceGroup) -> Any:
        pair = pg.linalg.cho_factor(group.asarray(a, blocks=4), lower, engine=group)
        return pg.linalg.cho_solve(pair, b, engine=group)

    result = same_bits(groups, solved)
    magnitudes = np.abs(whole) @ (np.abs(whole.T) @ np.abs(result))
    assert (np.abs(exact @ result - b) <= 3 * (3 * n + 1) * 2.0**-53 * magnitudes).all()


def test_factors_of_matrices_that_are_copied_meanwhile(
    groups: list[DeviceGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that come late, or lack memory for panels of others, change no bit."""
    n, blocks = 96, 6
    x = normal(n, n, dtype=np.float64)
    a = x @ x.T + n * np.eye(n)
    monkeypatch.setattr(partition, "LEAST_BLOCK", a.nbytes // blocks)
    expected = [pg.linalg.cholesky(a, lower=True, engine=group) for group in groups]
    monkeypatch.setattr(factors, "_LEAST_BYTES_FOR_COPIES", 0)
    has_ended = copying.PendingCopy.has_ended
    random = np.random.default_rng(0)
    for group in groups:
        for engine in group.engines:
            monkeypatch.setattr(engine, "maps_host_memory", False)
    for late in (0.0, 0.5, 1.0):
        ended = property(lambda copy, late=late: has_ended.fget(copy) and random.random() >= late)
        monkeypatch.setattr(copying.PendingCopy, "has_ended", ended)
        for group in groups:
            for tight in (False, True):
                monkeypatch.setattr(
                    block_columns._PanelMemory, "lacks", lambda *_, tight=tight: tight
                )
                factor = pg.linalg.cholesky(a, lower=True, engine=group)
                assert np.array_equal(factor, expected[0])
    assert np.array_equal(*expected)
    bound = 8 * n * np.finfo(np.float64).eps * np.diag(a).max()
    assert np.abs(factor @ factor.T - a).max() <= bound
    with failing(groups[1].engines[1], "copies", 3, lasts=True):
        with pytest.raises(DeviceFailedError, match="device 1"):
            pg.linalg.cholesky(a, lower=True, engine=groups[1])
        monkeypatch.setattr(groups[1], "on_failure", "retry")
    for lasts in (False, True):
        with failing(groups[1].engines[1], "copies", 3, lasts=lasts) as left:
            factor = pg.linalg.cholesky(a, lower=True, engine=groups[1])
        assert np.abs(factor @ factor.T - a).max() <= bound
        assert left[0] < 0
    a[40, 40] = -1
    with pytest.raises(NotPositiveDefiniteError, match="column 40"):
        pg.linalg.cholesky(a, lower=True, engine=groups[1])
    gc.collect()
    assert not any(member.used for group in groups for member in group.members)


def test_factors_refuse_what_does_not_fit(groups: list[DeviceGroup]) -> None:
    group = groups[1]
    a = np.eye(40, dtype=np.float32)
    a[23, 23] = -1
    with pytest.raises(NotPositiveDefiniteError) as caught:
        pg.linalg.cholesky(group.asarray(a, blocks=4), engine=group)
    assert (caught.value.column, caught.value.pivot) == (23, -1)
    a[23, 23] = 1
    for error, call in [
        (ShapeError, lambda: pg.linalg.cholesky(normal(3, 4), engine=group)),
        (UnsupportedError, lambda: pg.linalg.cholesky(a, overwrite_a=True, engine=group)),
        (UnsupportedError, lambda: pg.linalg.cholesky(a, out=a.copy(), engine=group)),
        (ShapeError, lambda: pg.linalg.cho_solve((a, True), normal(41), engine=group)),
        (DTypeError, lambda: pg.linalg.cholesky(a.astype(np.int32), engine=group)),
    ]:
        with pytest.raises(error):
            call()
    assert np.array_equal(pg.linalg.cho_solve((a, True), a[0], engine=group), a[0])
