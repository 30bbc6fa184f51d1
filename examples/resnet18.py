"""ResNet-18 of modules, with the names and shapes of torchvision's parameters.

Weights of torchvision are loaded from a file that torch has written:

    np.savez("resnet18.npz", **{key: value.numpy() for key, value in model.state_dict().items()})
    net = resnet18().eval()
    net.load("resnet18.npz")

He, Zhang, Ren & Sun, CVPR 2016.
"""

import numpy as np

import portable_gpu as pg
from portable_gpu import nn


class BasicBlock(nn.Module):
    """Two convolutions, plus the input itself or one convolution of it."""

    def __init__(self, inputs, outputs, stride, dtype):
        def convolution(size, inputs, stride):
            padding = size // 2
            return nn.Conv2d(inputs, outputs, size, stride, padding, bias=False, dtype=dtype)

        self.conv1, self.bn1 = convolution(3, inputs, stride), nn.BatchNorm2d(outputs, dtype=dtype)
        self.conv2, self.bn2 = convolution(3, outputs, 1), nn.BatchNorm2d(outputs, dtype=dtype)
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                convolution(1, inputs, stride), nn.BatchNorm2d(outputs, dtype=dtype)
            )
        # A tuple has no names in the state dictionary.
        body = nn.Sequential(self.conv1, self.bn1, nn.ReLU(), self.conv2, self.bn2)
        self.steps = (nn.Residual(body, getattr(self, "downsample", None)), nn.ReLU())

    def forward(self, input):
        result = input
        for step in self.steps:
            result = step.forward(result)
        return result

    def backward(self, grad_output):
        for step in reversed(self.steps):
            grad_output = step.backward(grad_output)
        return grad_output


class ResNet(nn.Module):
    """A convolution, four stages of blocks, the mean of each channel, and a linear layer."""

    def __init__(self, blocks, classes, dtype):
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False, dtype=dtype)
        self.bn1, self.maxpool = nn.BatchNorm2d(64, dtype=dtype), nn.MaxPool2d(3, 2, 1)
        channels, stages = 64, []
        for stage, count in enumerate(blocks, 1):
            outputs, stride = 32 << stage, 1 + (stage > 1)
            layer = nn.Sequential(
                BasicBlock(channels, outputs, stride, dtype),
                *(BasicBlock(outputs, outputs, 1, dtype) for _ in range(count - 1)),
            )
            setattr(self, f"layer{stage}", layer)
            stages.append(layer)
            channels = outputs
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, classes, dtype=dtype)
        self.steps = (
            self.conv1, self.bn1, nn.ReLU(), self.maxpool, *stages, self.avgpool, nn.Flatten(),
            self.fc,
        )  # fmt: skip

    forward, backward = BasicBlock.forward, BasicBlock.backward


def resnet18(classes=1000, dtype=np.float32):
    """Two blocks in each of the four stages: 11.7 million parameters."""
    return ResNet((2, 2, 2, 2), classes, dtype)


if __name__ == "__main__":
    nn.manual_seed(0)
    net, random = resnet18(classes=10), np.random.default_rng(0)
    optimizer = nn.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images = pg.asarray(random.standard_normal((4, 3, 32, 32), dtype=np.float32))
    targets, losses = random.integers(0, 10, 4), []
    for _ in range(3):
        optimizer.zero_grad()
        scores = net(images)
        losses.append(float(nn.cross_entropy(scores, targets)))
        net.backward(nn.cross_entropy_backward(np.float32(1), scores, targets))
        optimizer.step()
    print("parameters:", sum(one.size for one in net.parameters()))
    print("losses of three steps on four images:", np.round(losses, 2))
    assert losses[-1] < losses[0]
