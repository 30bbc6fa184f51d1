"""ResNet-18 and MobileNet-V2 of examples/ against the same networks of torch's modules.

Parameters have torchvision's names, which the twins have too.  In float64 a rounding does not move
an element across the kink of an activation, so that gradients can be compared; in float32 outputs
are.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import ArgumentError
from portable_gpu.runtime import registry
from portable_gpu.runtime.engine import Engine

torch = pytest.importorskip("torch")
from oracle.torch_twins import twin  # noqa: E402

T = torch.nn
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLASSES = 10


class BasicBlock(T.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = T.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1, self.bn2 = T.BatchNorm2d(outputs), T.BatchNorm2d(outputs)
        self.conv2 = T.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.downsample = None
        if stride > 1:
            self.downsample = T.Sequential(
                T.Conv2d(inputs, outputs, 1, stride, bias=False), T.BatchNorm2d(outputs)
            )

    def forward(self, x: Any) -> Any:
        body = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(body + (x if self.downsample is None else self.downsample(x)))


class ResNet18(T.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = T.Conv2d(3, 64, 7, 2, 3, bias=False), T.BatchNorm2d(64)
        self.layer1 = T.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = T.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = T.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = T.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.fc = T.Linear(512, CLASSES)

    def forward(self, x: Any) -> Any:
        x = T.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> Any:
    return T.Sequential(
        T.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        T.BatchNorm2d(outputs), T.ReLU6(),
    )  # fmt: skip


class InvertedResidual(T.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
        super().__init__()
        inner = inputs * factor
        wider = [convolution(inputs, inner, 1)] if factor > 1 else []
        self.conv = T.Sequential(
            *wider, convolution(inner, inner, 3, stride, inner),
            T.Conv2d(inner, outputs, 1, bias=False), T.BatchNorm2d(outputs),
        )  # fmt: skip
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(T.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks, channels = [convolution(3, 32, 3, 2)], 32
        for factor, outputs, count, stride in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1),
        ):  # fmt: skip
            for number in range(count):
                blocks.append(InvertedResidual(channels, outputs, 1 if number else stride, factor))
                channels = outputs
        self.features = T.Sequential(*blocks, convolution(channels, 1280, 1))
        self.classifier = T.Sequential(T.Dropout(0.0), T.Linear(1280, CLASSES))

    def forward(self, x: Any) -> Any:
        return self.classifier(self.features(x).mean((2, 3)))


def resnet18(dtype: Any) -> Any:
    return runpy.run_path(str(EXAMPLES / "resnet18.py"))["resnet18"](CLASSES, dtype)


def mobilenet_v2(dtype: Any) -> Any:
    made = runpy.run_path(str(EXAMPLES / "mobilenet_v2.py"))["MobileNetV2"]
    return made(CLASSES, dtype, dropout=0.0)


def load(net: nn.Module, exact: Any) -> None:
    """Give both networks the same random weights, and statistics that are not 0 and 1."""
    generator = torch.Generator().manual_seed(7)
    for name, value in exact.state_dict().items():
        if name.endswith(("running_var", "bn1.weight", "bn2.weight")):
            value.uniform_(0.5, 1.5, generator=generator)
        elif value.ndim == 1:
            value.uniform_(-0.2, 0.2, generator=generator)
    net.load_state_dict({name: value.numpy() for name, value in exact.state_dict().items()})


def within(got: Any, exact: Any, relative: float, what: str, size: float = 0) -> None:
    """The largest difference, relative to ``size`` or to the largest element."""
    got, exact = pg.asnumpy(got), exact.detach().numpy()
    assert got.shape == exact.shape, what
    error = np.abs(got - exact).max() / (size or np.abs(exact).max())
    assert error <= relative, f"{what}: {error}"


@pytest.fixture
def default(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that modules take."""
    monkeypatch.setattr(registry, "_default", engine)
    return engine


@pytest.mark.parametrize(
    ("build", "twin_of"),
    [(resnet18, ResNet18), (mobilenet_v2, MobileNetV2)],
    ids=["resnet", "mobilenet"],
)
def test_networks(
    default: Engine, tmp_path: Path, build: Callable[[Any], nn.Module], twin_of: Any
) -> None:
    """Outputs, all gradients and running statistics; a state that is saved and loaded."""
    rng = np.random.default_rng(5)
    exact = twin_of().double()
    net = build(np.float64)
    load(net, exact)
    x, g = rng.standard_normal((2, 3, 64, 64)), rng.standard_normal((2, CLASSES))
    # K eps of the terms for each of up to 53 layers, with K up to 4608.
    bound = 53 * 4608 * float(np.finfo(np.float64).eps)
    for training in (True, False):
        net.train(training)
        exact.train(training)
        net.zero_grad()
        exact.zero_grad()
        image = twin(x, True)
        y = exact(image)
        y.backward(twin(g))
        within(net(x), y, bound, "output")
        within(net.backward(pg.asarray(g)), image.grad, bound, "gradient of the input")
        parameters = dict(net.named_parameters())
        # Gradients of parameters before another normalisation are 0, except for rounding errors.
        size = max(float(one.grad.abs().max()) for one in exact.parameters())
        for name, parameter in exact.named_parameters():
            within(parameters.pop(name).grad, parameter.grad, bound, name, size)
        assert not parameters
        state = net.state_dict()
        for name, value in exact.state_dict().items():
            within(state[name], value.double(), bound, name)
    single, theirs = build(np.float32).eval(), twin_of().eval()
    theirs.load_state_dict(exact.state_dict())
    net.save(tmp_path / "state.npz")
    single.load(tmp_path / "state.npz")
    with torch.no_grad():
        y, other = exact(twin(x)).numpy(), theirs(torch.tensor(x, dtype=torch.float32)).numpy()
    error = np.abs(pg.asnumpy(single(x.astype(np.float32))) - y).max()
    eps = float(np.finfo(np.float32).eps)
    assert error <= 8 * np.abs(other - y).max() + 64 * eps * np.abs(y).max()
    single.save(tmp_path / "state.safetensors")
    rebuilt = build(np.float32)
    rebuilt.load(tmp_path / "state.safetensors")
    for (name, one), (key, value) in zip(
        single.state_dict().items(), rebuilt.state_dict().items(), strict=True
    ):
        assert name == key
        assert np.array_equal(one, value), name
    with pytest.raises(ArgumentError, match="state lacks"):
        rebuilt.load_state_dict({})
