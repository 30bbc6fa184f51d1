"""Arrays to the device and back, by DLPack, and in Python's and NumPy's operators."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    ContextMismatchError,
    DTypeError,
    ExportError,
    ShapeError,
)
from portable_gpu.runtime import repeat, transfer

pytestmark = pytest.mark.tiny
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def on_device(engine: pg.Engine) -> pg.Array:
    return pg.asarray(X, engine=engine)


@pytest.fixture
def on_cpu(engine: pg.Engine, on_device: pg.Array) -> pg.Array:
    if not transfer._is_on_cpu(on_device):
        pytest.skip("a CPU device shares its memory, this one does not")
    return on_device


class Exported:
    """Another library's array, which speaks DLPack and nothing else."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self._array, self._device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)


# -- to the device and back


@pytest.mark.parametrize(
    "x",
    [
        X, X.T, X[::-1, ::2], X[1:1], np.float64(3), [[1, 2], [3, 4]], X > 3, X.astype(">f4"),
        np.broadcast_to(X[0], (3, 4)), Exported(X),
    ],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_there_and_back(engine: pg.Engine, x: Any) -> None:
    there = pg.asarray(x, engine=engine)
    assert isinstance(there, pg.Array)
    assert there.queue == engine.queue
    back = pg.asnumpy(there)
    expected = np.from_dlpack(x) if isinstance(x, Exported) else np.asarray(x)
    assert back.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, expected, strict=False)


IMAGES = np.arange(2 * 5 * 6 * 3, dtype=np.float32).reshape(2, 5, 6, 3).transpose(0, 3, 1, 2)


@pytest.mark.parametrize(
    "x",
    [
        X, X.T, IMAGES, IMAGES[:, ::2], IMAGES[:, :, ::-1], IMAGES[:1, :1], IMAGES[:0],
        X.reshape(-1)[::-2], IMAGES.transpose(3, 1, 0, 2),
    ],
)  # fmt: skip
def test_copies_keep_the_order_of_axes(engine: pg.Engine, x: np.ndarray[Any, Any]) -> None:
    """Strides of axes with several elements are those of NumPy's copies."""
    there = pg.asarray(x, engine=engine)
    expected = np.copy(x, order="K")
    steps = zip(x.shape, there.strides, expected.strides, strict=True)
    assert all(extent < 2 or mine == its for extent, mine, its in steps if x.size)
    back = pg.asnumpy(there)
    np.testing.assert_array_equal(back, x)
    assert back.strides == there.strides or not x.size
    other = cl.CommandQueue(engine.context, engine.device)
    assert pg.asarray(there, queue=other).strides == there.strides or not x.size
    assert pg.asarray(there) is there
    in_c_order = pg.asarray(x, order="C", engine=engine)
    for array in (in_c_order, pg.asarray(there, order="C")):
        assert array.flags.c_contiguous
        np.testing.assert_array_equal(pg.asnumpy(array), x)
    assert pg.asarray(in_c_order, order="C") is in_c_order
    with pytest.raises(ArgumentError, match="order is 'F'; known are K, C"):
        pg.asarray(x, order="F", engine=engine)


def test_channels_last_images_stay_channels_last(engine: pg.Engine) -> None:
    weight = np.ones((4, 3, 3, 3), np.float32)
    result = pg.nn.conv2d(pg.asarray(IMAGES, engine=engine), pg.asarray(weight, engine=engine))
    assert result.transpose(0, 2, 3, 1).flags.c_contiguous


@pytest.mark.parametrize("part", [np.s_[::-1], np.s_[:, ::2], np.s_[1:, 1:3], np.s_[2, ::-1]])
def test_back_from_any_strides(on_device: pg.Array, part: Any) -> None:
    np.testing.assert_array_equal(pg.asnumpy(on_device[part]), X[part])
    np.testing.assert_array_equal(pg.asnumpy(on_device[part].T), X[part].T)


def test_asarray_shares_what_is_there(engine: pg.Engine) -> None:
    plain = cla.to_device(engine.queue, X)
    ours = pg.asarray(plain)
    assert isinstance(ours, pg.Array)
    assert ours.base_data is plain.base_data
    assert ours.events is plain.events
    assert pg.asarray(ours) is ours


def test_asarray_on_another_queue_is_a_copy(engine: pg.Engine, on_device: pg.Array) -> None:
    queue = cl.CommandQueue(engine.context, engine.device)
    there = pg.asarray(on_device, queue=queue)
    assert there.queue == queue
    on_device.fill(0)
    np.testing.assert_array_equal(pg.asnumpy(there), X)


def test_asarray_on_another_context(engine: pg.Engine, on_device: pg.Array) -> None:
    other = pg.Engine(engine.device, caller=False)
    np.testing.assert_array_equal(pg.asnumpy(pg.asarray(on_device, engine=other)), X)
    with pytest.raises(ContextMismatchError, match="engine="):
        pg.asarray(X, engine=other, queue=engine.queue)


def test_asnumpy_of_the_hosts() -> None:
    assert pg.asnumpy(X) is X
    np.testing.assert_array_equal(pg.asnumpy([1, 2]), [1, 2])


@pytest.mark.parametrize("function", [pg.asarray, pg.asnumpy])
@pytest.mark.parametrize("wrong", [None, "text", object(), np.array([None])])
def test_what_is_no_array_is_refused(engine: pg.Engine, function: Any, wrong: Any) -> None:
    with pytest.raises((DTypeError, ArgumentTypeError), match=r"^x\b"):
        function(wrong)


# -- DLPack


def test_dlpack_in(engine: pg.Engine) -> None:
    fixed = X.copy()
    fixed.flags.writeable = False
    for x in (Exported(X), Exported(fixed), Exported(X[::-1, ::2])):
        assert pg.sum(x, engine=engine) == np.from_dlpack(x).sum()


def test_dlpack_in_from_elsewhere(engine: pg.Engine) -> None:
    with pytest.raises(ArgumentTypeError, match=r"x is a Exported, .*is on a device .* the CPU"):
        pg.sum(Exported(X, (2, 0)), engine=engine)


def test_dlpack_out_shares_memory(on_cpu: pg.Array) -> None:
    assert on_cpu.__dlpack_device__() == (1, 0)
    seen = np.from_dlpack(on_cpu)
    np.testing.assert_array_equal(seen, X)
    pg.matmul(np.eye(3, dtype=np.float32), 2 * on_cpu, out=on_cpu)
    on_cpu.queue.finish()
    np.testing.assert_array_equal(seen, 2 * X)


@pytest.mark.parametrize("part", [np.s_[::-1], np.s_[:, ::2], np.s_[1:1], np.s_[2, 3]])
def test_dlpack_out_of_slices(on_cpu: pg.Array, part: Any) -> None:
    np.testing.assert_array_equal(np.from_dlpack(on_cpu[part]), X[part])


def test_dlpack_out_waits_and_outlives(engine: pg.Engine, on_cpu: pg.Array) -> None:
    a = pg.asarray(np.ones((300, 300), np.float32), engine=engine)
    seen = np.from_dlpack(a @ a)  # the result's last reference but one
    gc.collect()
    others = [a @ (2 * a) for _ in range(3)]  # would be given the memory that a result left
    engine.queue.finish()
    assert (seen == 300).all()
    assert len(others) == 3


def test_dlpack_out_as_asked(on_cpu: pg.Array) -> None:
    with pytest.raises(ExportError, match="asnumpy"):
        on_cpu.__dlpack__(dl_device=(2, 0))
    copy = np.from_dlpack(Copied(on_cpu))
    on_cpu.fill(0)
    np.testing.assert_array_equal(copy, X)


class Copied:
    """Asks an array for a copy, as NumPy's ``from_dlpack(copy=True)`` does from 2.1 on."""

    def __init__(self, array: pg.Array) -> None:
        self.__dlpack_device__ = array.__dlpack_device__
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(copy=True)


def test_dlpack_out_of_a_gpu(on_device: pg.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_is_on_cpu", lambda array: False)
    assert on_device.__dlpack_device__() == (4, 0)
    with pytest.raises(ExportError, match="asnumpy"):
        on_device.__dlpack__()
    with pytest.raises(ExportError, match="without a copy"):
        on_device.__dlpack__(dl_device=(1, 0), copy=False)
    assert on_device.__dlpack__(dl_device=(1, 0)) is not None


# -- operators


def test_matmul_operator(on_device: pg.Array) -> None:
    product = X @ X.T
    for result in (
        on_device @ on_device.T,
        on_device[::-1][::-1] @ X.T,
        X @ on_device.T,
        on_device @ cla.to_device(on_device.queue, X.T.copy()),
        cla.to_device(on_device.queue, X) @ on_device.T,
        (on_device * 2) @ (on_device.T / np.float32(2)),
    ):
        assert isinstance(result, pg.Array)
        np.testing.assert_array_equal(pg.asnumpy(result), product)
    with pytest.raises(ShapeError, match="inner sizes"):
        on_device @ on_device


def test_device_scalars(on_device: pg.Array) -> None:
    v = on_device[1]
    norm = pg.nrm2(v)
    assert isinstance(norm, pg.Array)
    assert norm.shape == ()
    np.testing.assert_allclose(pg.asnumpy(v / norm), X[1] / np.linalg.norm(X[1]), rtol=1e-6)
    assert float(norm) == norm.item() == pytest.approx(np.linalg.norm(X[1]))
    assert int(pg.argmax(v)) == 3
    assert complex(norm) == complex(float(norm))
    with pytest.raises(ShapeError, match="not one number"):
        float(v)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_numpys_numbers(engine: pg.Engine, on_device: pg.Array, dtype: Any) -> None:
    if np.result_type(dtype, X) == np.float64 and not engine.target.fp64:
        pytest.skip("the device has no double precision")
    two = dtype(2)
    for f in (
        lambda x: two * x, lambda x: x * two, lambda x: two - x, lambda x: x + two,
        lambda x: two < x, lambda x: two == x,
    ):  # fmt: skip
        result = f(on_device)
        assert isinstance(result, pg.Array)
        np.testing.assert_array_equal(pg.asnumpy(result), f(X))


@pytest.mark.parametrize(
    "mix",
    [
        lambda d: d + X,
        lambda d: X + d,
        lambda d: X[0] / pg.nrm2(d[0]),
        lambda d: d == X,
        lambda d: np.sin(d),
        lambda d: np.asarray(d),
        lambda d: np.linalg.norm(d),
        lambda d: np.add.reduce(d),
        lambda d: pg.sum(cla.to_device(d.queue, X[0]) + X[0]),
    ],
)
def test_mixtures_say_what_to_do(on_device: pg.Array, mix: Any) -> None:
    with pytest.raises(
        (ArgumentTypeError, DTypeError), match=r"portable_gpu\.asnumpy.*portable_gpu\.asarray"
    ):
        mix(on_device)


def test_both_kinds_are_remembered_together(on_device: pg.Array) -> None:
    plain = cla.to_device(on_device.queue, X[0])
    assert repeat.signature((on_device, plain)) is not None
    assert repeat.signature((on_device,)) == repeat.signature((pg.asarray(X),))
    assert repeat.signature((on_device, X)) is None
