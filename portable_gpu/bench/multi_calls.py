"""The calls that ``portable-gpu bench multi`` times, with their operands, work and checks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from math import sqrt
from typing import Any

import numpy as np

from portable_gpu.bench.multi_call import MANY, CallWork, MultiCall, Values
from portable_gpu.bench.on_cores import in_threads, random_array, rounding, times_vector
from portable_gpu.fft import fftn
from portable_gpu.multi import DataParallel, DeviceGroup, streaming
from portable_gpu.multi.streaming.tiles import product_tiles
from portable_gpu.nn import (
    SGD,
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    Residual,
    Sequential,
    manual_seed,
)
from portable_gpu.ops.conv.functions import conv2d
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.factor.api import cholesky
from portable_gpu.ops.gemm import gemm
from portable_gpu.ops.gemm.binding import result_dtype
from portable_gpu.ops.reduce import sum as total
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray, asnumpy


class _OfMatrices(MultiCall):
    """A call on random matrices, of which the devices have blocks of the first."""

    def __init__(self, size: int, dtype: str) -> None:
        super().__init__(size, dtype)
        self.x: Any
        self.y: Any
        self.x, self.y = (random_array((size, size), seed, self.dtype) for seed in range(2))

    @abstractmethod
    def call(self, x: Any, y: Any, engine: Any) -> Any:
        """Make the call with an engine or a group."""

    def on_group(self, group: DeviceGroup) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        x: Any = self.x
        y: Any = self.y
        if not self.numpy:
            x, y = group.asarray(x), None if y is None else group.broadcast(y)
        return lambda: self.call(x, y, group)

    def on_engine(self, engine: Engine) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        x: Any = self.x
        y: Any = self.y
        if not self.numpy:
            x, y = (None if z is None else asarray(z, engine=engine) for z in (x, y))
        return lambda: self.call(x, y, engine)


class _OfOneMatrix(_OfMatrices):
    def __init__(self, size: int, dtype: str) -> None:
        MultiCall.__init__(self, size, dtype)
        self.x, self.y = random_array((size, size), 0, self.dtype), None


class SumCall(_OfOneMatrix):
    """The sum of a matrix."""

    name = "sum"

    def call(self, x: Any, y: Any, engine: Any) -> Any:
        """See :class:`_OfMatrices`."""
        return total(x, engine=engine)

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`."""
        parts = in_threads(
            lambda rows: (rows.sum(dtype=np.float64), np.abs(rows).sum(dtype=np.float64)), self.x
        )
        exact, absolute = (sum(part[k] for part in parts) for k in range(2))
        return float(abs(exact - float(result)) / (MANY * rounding(self.dtype) * absolute))


class ElementwiseCall(_OfOneMatrix):
    """An expression of a matrix."""

    name = "elementwise"

    def call(self, x: Any, y: Any, engine: Any) -> Any:
        """See :class:`_OfMatrices`."""
        return elementwise("x * x + 1", x=x, engine=engine)

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`."""

        def worst(x: Values, found: Values) -> float:
            exact = np.square(x, dtype=np.float64) + 1
            return float(np.max(np.abs(found - exact) / exact))

        return float(max(in_threads(worst, self.x, result))) / (4 * rounding(self.dtype))


class CopiesCall(_OfOneMatrix):
    """Copies of NumPy's matrix to the devices and back."""

    dtypes = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
    name, numpy = "copies", True

    def call(self, x: Any, y: Any, engine: Any) -> Any:
        """See :class:`_OfMatrices`."""
        if isinstance(engine, DeviceGroup):
            return engine.asarray(x).asnumpy()
        return asarray(x, engine=engine).get()

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`."""
        return 0.0 if all(in_threads(np.array_equal, self.x, result)) else float("inf")

    def work(self, devices: int) -> CallWork:
        """See :class:`MultiCall`."""
        nbytes = self.x.nbytes
        return CallWork(up=nbytes / devices, down=nbytes / devices, host=2 * nbytes)


class GemmCall(_OfMatrices):
    """A product of matrices."""

    name = "gemm"
    dtypes = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")

    def call(self, x: Any, y: Any, engine: Any) -> Any:
        """See :class:`_OfMatrices`."""
        return gemm(x, y, engine=engine)

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`.

        The product with a random vector is compared: ``C v`` and ``A (B v)``.  With random operands
        and rounding errors their difference is normally distributed.
        """
        v = np.random.default_rng(2).choice([-1.0, 1.0], self.size)
        exact = times_vector(self.x, times_vector(self.y, v))
        of_sums, of_result = (
            rounding(np.dtype(np.float64 if self.dtype.itemsize == 8 else np.float32)),
            rounding(result.dtype),
        )
        usual = self.size * (of_result + of_sums * sqrt(self.size))
        return float(np.max(np.abs(times_vector(result, v) - exact)) / (MANY * usual))

    def work(self, devices: int) -> CallWork:
        """See :class:`MultiCall`."""
        return CallWork(2.0 * self.size**3)


class HostGemmCall(GemmCall):
    """A product of NumPy matrices."""

    name, numpy = "host gemm", True

    def work(self, devices: int) -> CallWork:
        """See :class:`MultiCall`."""
        operand = self.x.nbytes
        result = self.size**2 * result_dtype(self.dtype, self.dtype).itemsize
        up = operand / devices + operand
        return CallWork(2.0 * self.size**3, up, result / devices, 2 * operand + result)


class StreamedGemmCall(HostGemmCall):
    """A product of NumPy matrices in tiles, by a third of their memory."""

    name = "streamed gemm"

    @property
    def limit(self) -> int:
        """The limit of memory of each device."""
        return max(1 << 18, 2 * int(self.x.nbytes) // 3)

    def call(self, x: Any, y: Any, engine: Any) -> Any:
        """See :class:`_OfMatrices`."""
        return streaming.gemm(x, y, memory_limit=self.limit, engine=engine)

    def work(self, devices: int) -> CallWork:
        """See :class:`MultiCall`."""
        n, itemsize = self.size, self.dtype.itemsize
        result = result_dtype(self.dtype, self.dtype).itemsize
        sizes = itemsize, itemsize, max(4, result)
        rows, columns, _ = product_tiles((n, n, n), sizes, self.limit)
        up = self.x.nbytes * (-(-n // rows) + -(-n // columns))
        down = n * n * result
        return CallWork(2.0 * n**3, up / devices, down / devices, up + down)


class CholeskyCall(MultiCall):
    """The Cholesky factor of NumPy's matrix, which is positive definite and a Toeplitz matrix."""

    dtypes = ("float32", "float64", "complex64", "complex128")
    name, numpy, alone_is_group = "cholesky", True, True
    usual = ((768,), (16384,))

    def __init__(self, size: int, dtype: str) -> None:
        super().__init__(size, dtype)
        diagonals = np.random.default_rng(0).standard_normal(size).astype(self.dtype)
        diagonals[0] = 2 * np.abs(diagonals).sum()
        self._line = np.concatenate([diagonals[:0:-1], diagonals])  # row k begins at size - 1 - k
        self.a = np.empty((size, size), self.dtype)
        in_threads(self._fill, self.a, np.arange(size))

    def _fill(self, rows: Values, numbers: Values) -> None:
        for row, k in zip(rows, numbers, strict=True):
            row[:] = self._line[self.size - 1 - k : 2 * self.size - 1 - k]

    def on_group(self, group: DeviceGroup) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        return lambda: cholesky(self.a, lower=True, engine=group)

    def on_engine(self, engine: Engine) -> Callable[[], Any]:
        """See :class:`MultiCall`; the group of one device, as an engine has no buffers so large."""
        self.alone = DeviceGroup([engine.device])
        return lambda: cholesky(self.a, lower=True, engine=self.alone)

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`: ``L (L^T v)`` is compared with ``A v``, for a random ``v``."""
        v = np.random.default_rng(2).choice([-1.0, 1.0], self.size)
        product = times_vector(result, times_vector(result.T, v))
        usual = rounding(self.dtype) * sqrt(self.size) * float(self._line[self.size - 1])
        return float(np.max(np.abs(product - times_vector(self.a, v))) / (MANY * usual))

    def work(self, devices: int) -> CallWork:
        """See :class:`MultiCall`."""
        triangle = self.a.nbytes / 2
        panels = triangle * (devices - 1) / devices  # those of other devices
        return CallWork(
            self.size**3 / 3, triangle / devices + panels, triangle / devices + panels, 2 * triangle
        )


class SparseCholeskyCall(MultiCall):
    """The factor of the Laplacian of a cube of points, whose values are on the first device."""

    name = "sparse cholesky"
    dtypes = ("float32", "float64", "complex64", "complex128")
    usual = ((24,), (100,))
    packages = ("llvmlite", "scipy")

    def __init__(self, size: int, dtype: str) -> None:
        super().__init__(size, dtype)
        sparse, problems = _sparse_modules()
        self.a = problems.poisson(size, size, size).astype(self.dtype)
        self.b = random_array((self.a.shape[0],), 0, self.dtype)
        self._symbolic = sparse.analyze(self.a, "nd")
        self.preparation = {f"of these {name}": s for name, s in self._symbolic.times.items()}

    def on_group(self, group: DeviceGroup) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        return self._call(group, group.engines[0])

    def on_engine(self, engine: Engine) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        return self._call(engine, engine)

    def _call(self, place: Any, first: Engine) -> Callable[[], Any]:
        sparse, _ = _sparse_modules()
        factor = sparse.cholesky(self.a, symbolic=self._symbolic, dtype=self.dtype, engine=place)
        values = asarray(self.a.data, engine=first)
        return lambda: factor.refactorize(values)

    def result(self, result: Any) -> Values:
        """Return the solution of a system."""
        return np.asarray(result.solve(self.b))

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`: the backward error of the solution."""
        x = result.astype(np.float64)
        residual = np.max(np.abs(self.a.astype(np.float64) @ x - self.b))
        usual = rounding(self.dtype) * float(12 * np.max(np.abs(x)) + np.max(np.abs(self.b)))
        return float(residual) / (MANY * usual)


def _sparse_modules() -> tuple[Any, Any]:
    """Import the sparse factors and their problems, which need the extra ``sparse``.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    modules = "portable_gpu.sparse", "portable_gpu.bench.sparse_problems"
    return import_module(modules[0]), import_module(modules[1])


class ConvolutionCall(MultiCall):
    """A convolution of images with 64 channels of 28 x 28 by 64 filters of 3 x 3."""

    name = "conv2d"
    usual = ((24,), (6144,))
    _CHANNELS, _EXTENT = 64, 28

    def __init__(self, size: int, dtype: str) -> None:
        super().__init__(size, dtype)
        shape = (size, self._CHANNELS, self._EXTENT, self._EXTENT)
        self.images = random_array(shape, 0, self.dtype)
        self.filters = random_array((self._CHANNELS, self._CHANNELS, 3, 3), 1, self.dtype)

    def on_group(self, group: DeviceGroup) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        images, filters = group.asarray(self.images), group.broadcast(self.filters)
        return lambda: conv2d(images, filters, padding=1, engine=group)

    def on_engine(self, engine: Engine) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        images, filters = (asarray(x, engine=engine) for x in (self.images, self.filters))
        return lambda: conv2d(images, filters, padding=1, engine=engine)

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`: one image in 24 is compared."""
        rows = self.filters.reshape(self._CHANNELS, -1).astype(np.float64)
        terms, worst = rows.shape[1], 0.0
        for k in range(0, self.size, max(1, self.size // 24)):
            padded = np.pad(self.images[k].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
            columns = windows.transpose(0, 3, 4, 1, 2).reshape(terms, -1)
            worst = max(worst, np.max(np.abs(rows @ columns - result[k].reshape(len(rows), -1))))
        return float(worst / (MANY * rounding(self.dtype) * terms))


class TransformCall(MultiCall):
    """The transform of a cube along its three axes."""

    name = "fftn"
    usual = ((64,), (512,))

    def __init__(self, size: int, dtype: str) -> None:
        super().__init__(size, dtype)
        self.dtype = np.result_type(self.dtype, np.complex64)
        random = np.random.default_rng(0)
        self._lines = [random.standard_normal((size, 2)) @ (1, 1j) for _ in range(3)]
        self.x = self._outer(self._lines, self.dtype)

    def _outer(self, lines: Sequence[Values], dtype: Any) -> Values:
        """Return the product of three lines, which are the axes of a cube."""
        result = np.empty((self.size,) * 3, dtype)
        plane = np.multiply.outer(lines[1], lines[2]).astype(dtype)

        def fill(slabs: Values, factors: Values) -> None:
            for slab, factor in zip(slabs, factors, strict=True):
                np.multiply(plane, factor, out=slab)

        in_threads(fill, result, lines[0].astype(dtype))
        return result

    def on_group(self, group: DeviceGroup) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        x: Any = group.asarray(self.x)
        return lambda: fftn(x, engine=group)

    def on_engine(self, engine: Engine) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        x = asarray(self.x, engine=engine)
        return lambda: fftn(x, engine=engine)

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`.

        The transform of a product of three lines is the product of their transforms.
        """
        lines = [np.fft.fft(line) for line in self._lines]
        plane = np.multiply.outer(lines[1], lines[2])

        def squares(slabs: Values, factors: Values) -> tuple[float, float]:
            wrong = right = 0.0
            for slab, factor in zip(slabs, factors, strict=True):
                exact = plane * factor
                right += float(np.vdot(exact, exact).real)
                exact -= slab
                wrong += float(np.vdot(exact, exact).real)
            return wrong, right

        parts = in_threads(squares, result, lines[0])
        wrong, right = (sum(part[k] for part in parts) for k in range(2))
        return sqrt(wrong / right) / (rounding(np.empty(0, self.dtype).real.dtype) * MANY)

    def work(self, devices: int) -> CallWork:
        """See :class:`MultiCall`."""
        moved = self.x.nbytes * (devices - 1) / devices**2
        return CallWork(up=moved, down=moved)


class TrainingCall(MultiCall):
    """The gradients of ResNet-18 for a batch of images of 224 x 224, and a step of descent.

    A group computes a micro-batch for each device of the largest group.
    """

    name, numpy = "training", True
    usual = ((4,), (256,))
    extent, classes, stages = 224, 1000, (64, 128, 256, 512)

    def __init__(self, size: int, dtype: str) -> None:
        super().__init__(size, dtype)
        self.images = random_array((size, 3, self.extent, self.extent), 0, self.dtype)
        self.targets = np.random.default_rng(1).integers(0, self.classes, size)

    def on_group(self, group: DeviceGroup) -> Callable[[], Any]:
        """See :class:`MultiCall`."""
        net, optimizer, loss = self._network(group.engines[0])
        parallel = DataParallel(net, group, micro_batches=self.most_devices)

        def step() -> Module:
            optimizer.zero_grad()
            parallel.backward(self.images, self.targets, loss)
            optimizer.step()
            return net

        return step

    def on_engine(self, engine: Engine) -> Callable[[], Any]:
        """See :class:`MultiCall`; the batch is not cut."""
        net, optimizer, loss = self._network(engine)

        def step() -> Module:
            optimizer.zero_grad()
            loss(net(self.images), asarray(self.targets, engine=engine))
            net.backward(loss.backward())
            optimizer.step()
            return net

        return step

    def result(self, result: Any) -> Values:
        """Return the gradients of a network."""
        return np.concatenate([np.ravel(asnumpy(p.grad)) for p in result.parameters()])

    def error(self, result: Values, engine: Engine) -> float:
        """See :class:`MultiCall`: one engine adds the gradients of the parts of the batch."""
        count = min(self.most_devices, self.size)
        net, _, loss = self._network(engine)
        total = np.zeros(result.shape, np.float64)
        for k in range(count):
            part = slice(k * self.size // count, (k + 1) * self.size // count)
            net.zero_grad()
            loss(net(self.images[part]), asarray(self.targets[part], engine=engine))
            net.backward(loss.backward())
            total += self.result(net).astype(np.float64) * (part.stop - part.start) / self.size
        usual = rounding(self.dtype) * sqrt(count) * float(np.linalg.norm(total))
        return float(np.linalg.norm(result - total)) / (MANY * usual)

    def _network(self, engine: Engine) -> tuple[Module, SGD, CrossEntropyLoss]:
        manual_seed(0)
        net = resnet18(self.stages, self.classes, self.dtype, engine)
        return net, SGD(net.parameters(), lr=0.01, momentum=0.9), CrossEntropyLoss()


def resnet18(stages: Sequence[int], classes: int, dtype: Any, engine: Engine) -> Module:
    """Return the network of He, Zhang, Ren & Sun (CVPR 2016) with two blocks in each stage.

    Args:
        stages: The channels of the stages; those of ResNet-18 are 64, 128, 256 and 512.
        classes: The number of classes.
        dtype, engine: Those of its parameters.
    """
    options: Any = {"dtype": dtype, "engine": engine}

    def convolution(inputs: int, outputs: int, size: int, stride: int) -> list[Module]:
        layer = Conv2d(inputs, outputs, size, stride, size // 2, bias=False, **options)
        return [layer, BatchNorm2d(outputs, **options)]

    def block(inputs: int, outputs: int, stride: int) -> list[Module]:
        shortcut = None
        if stride > 1 or inputs != outputs:
            shortcut = Sequential(*convolution(inputs, outputs, 1, stride))
        first, second = convolution(inputs, outputs, 3, stride), convolution(outputs, outputs, 3, 1)
        return [Residual(Sequential(*first, ReLU(), *second), shortcut), ReLU()]

    channels = stages[0]
    layers = [*convolution(3, channels, 7, 2), ReLU(), MaxPool2d(3, 2, 1)]
    for number, outputs in enumerate(stages):
        layers += block(channels, outputs, 1 + (number > 0))
        layers += block(outputs, outputs, 1)
        channels = outputs
    layers += [AdaptiveAvgPool2d(1), Flatten(), Linear(channels, classes, **options)]
    return Sequential(*layers)


#: The calls by their names.
CALLS: dict[str, type[MultiCall]] = {
    call.name: call
    for call in (
        SumCall, ElementwiseCall, CopiesCall, GemmCall, HostGemmCall, StreamedGemmCall,
        CholeskyCall, SparseCholeskyCall, ConvolutionCall, TransformCall, TrainingCall,
    )
}  # fmt: skip
