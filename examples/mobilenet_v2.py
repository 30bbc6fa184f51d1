"""MobileNet-V2 of modules, with the names and shapes of torchvision's parameters.

Most of its convolutions have filters of one point, or one filter for each channel.
Sandler, Howard, Zhu, Zhmoginov & Chen, CVPR 2018.
"""

import numpy as np

import portable_gpu as pg
from portable_gpu import nn

#: Of each stage: factor of channels within a block, channels, blocks, stride of the first block.
STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip


def convolution(inputs, outputs, size, dtype, stride=1, groups=1):
    """A convolution and a normalisation."""
    padding = size // 2
    return (
        nn.Conv2d(inputs, outputs, size, stride, padding, 1, groups, bias=False, dtype=dtype),
        nn.BatchNorm2d(outputs, dtype=dtype),
    )


class InvertedResidual(nn.Module):
    """More channels, one filter for each, and fewer channels; plus the input if shapes agree."""

    def __init__(self, inputs, outputs, stride, factor, dtype):
        inner, parts = inputs * factor, []
        if factor > 1:
            parts.append(nn.Sequential(*convolution(inputs, inner, 1, dtype), nn.ReLU6()))
        parts.append(nn.Sequential(*convolution(inner, inner, 3, dtype, stride, inner), nn.ReLU6()))
        self.conv = nn.Sequential(*parts, *convolution(inner, outputs, 1, dtype))
        whole = nn.Residual(self.conv) if stride == 1 and inputs == outputs else self.conv
        self.steps = (whole,)  # a tuple has no names in the state dictionary

    def forward(self, input):
        return self.steps[0].forward(input)

    def backward(self, grad_output):
        return self.steps[0].backward(grad_output)


class MobileNetV2(nn.Module):
    """3.5 million parameters for 1000 classes."""

    def __init__(self, classes=1000, dtype=np.float32, dropout=0.2):
        blocks, channels = [nn.Sequential(*convolution(3, 32, 3, dtype, 2), nn.ReLU6())], 32
        for factor, outputs, count, stride in STAGES:
            for number in range(count):
                step = 1 if number else stride
                blocks.append(InvertedResidual(channels, outputs, step, factor, dtype))
                channels = outputs
        blocks.append(nn.Sequential(*convolution(channels, 1280, 1, dtype), nn.ReLU6()))
        self.features = nn.Sequential(*blocks)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(1280, classes, dtype=dtype))
        self.between = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, input):
        return self.classifier.forward(self.between.forward(self.features.forward(input)))

    def backward(self, grad_output):
        gradient = self.between.backward(self.classifier.backward(grad_output))
        return self.features.backward(gradient)


if __name__ == "__main__":
    nn.manual_seed(0)
    net, random = MobileNetV2(classes=10), np.random.default_rng(0)
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
