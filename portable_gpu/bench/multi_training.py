"""The training call of ``portable-gpu bench multi``, and its network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from portable_gpu.bench.multi_call import MANY, MultiCall, Values
from portable_gpu.bench.on_cores import random_array, rounding
from portable_gpu.multi import DataParallel, DeviceGroup
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
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray, asnumpy


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
