"""A convolutional network trained on scikit-learn's digits, with the pictures of its training.

1437 images of 8 x 8 pixels train three convolutions and a linear layer; 360 others test it.
The images of training are shifted by up to a pixel.  The same seed gives the same bits.

    python examples/digits_cnn.py               # 40 epochs: above 98 % of the test images
    python examples/digits_cnn.py FOLDER        # also writes FOLDER/digits_cnn.png

Needs the extra [demo].
"""

import os
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import portable_gpu as pg
from portable_gpu import nn

BATCH, CLASSES = 32, 10


def network() -> nn.Sequential:
    """Three convolutions, the last two of which halve the image, and a linear layer."""
    nn.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(64 * 2 * 2, CLASSES),
    )


def digits():
    """Images of training, their classes, images of the test, their classes; in a fixed order."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.images[order] / 16).astype(np.float32)[:, None]
    targets = data.target[order]
    return images[360:], targets[360:], images[:360], targets[:360]


def shifted(images, rng):
    """Images shifted by up to a pixel, each by its own distance."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    result = np.empty_like(images)
    for image, source, (dy, dx) in zip(
        result, padded, rng.integers(0, 3, (len(images), 2)), strict=True
    ):
        image[:] = source[:, dy : dy + 8, dx : dx + 8]
    return result


def train(epochs):
    """Train a network; return it, the losses and the accuracies after each epoch."""
    images, targets, test_images, test_targets = digits()
    net, rng = network(), np.random.default_rng(2)
    optimizer = nn.AdamW(net.parameters(), lr=0.01)
    steps = int(os.environ.get("DIGITS_STEPS", len(images) // BATCH))
    schedule = nn.OneCycleLR(optimizer, 0.01, total_steps=epochs * steps + 1)
    rows = np.eye(CLASSES, dtype=np.float32)
    losses, accuracies = [], []
    for epoch in range(epochs):
        total = 0.0
        order = rng.permutation(len(images))
        for step in range(steps):
            chosen = order[step * BATCH : (step + 1) * BATCH]
            labels = pg.asarray(rows[targets[chosen]])
            optimizer.zero_grad()
            scores = nn.log_softmax(net(shifted(images[chosen], rng)), 1)
            # The gradient of the mean cross entropy: (softmax - wanted) / BATCH.
            net.backward(pg.elementwise("(exp(s) - t) / n", s=scores, t=labels, n=float(BATCH)))
            nn.clip_grad_norm_(net.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            total -= float(pg.vdot(scores.reshape(-1), labels.reshape(-1)).get()) / BATCH
        losses.append(total / steps)
        net.eval()
        predicted = pg.asnumpy(pg.argmax(net(test_images), axis=1))
        net.train()
        accuracies.append(float(np.mean(predicted == test_targets)))
        print(f"epoch {epoch + 1:2}: loss {losses[-1]:.4f}, accuracy {accuracies[-1]:.2%}")
    return net, losses, accuracies


def picture(path, net, losses, accuracies):
    """Write the curves and the filters of the first layer to a file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(9, 3.2), layout="constrained")
    curves, filters = figure.subfigures(1, 2, width_ratios=(2, 1))
    axes = curves.subplots(1, 2)
    epochs = np.arange(1, len(losses) + 1)
    axes[0].semilogy(epochs, losses)
    axes[0].set(title="loss of training", xlabel="epoch")
    axes[1].plot(epochs, 100 * np.array(accuracies))
    axes[1].set(title="accuracy of the test, %", xlabel="epoch")
    filters.suptitle("filters of the first layer")
    weights = pg.asnumpy(net[0].weight.data)
    largest = np.abs(weights).max()
    for weight, place in zip(weights, filters.subplots(4, 4).flat, strict=True):
        place.imshow(weight[0], cmap="RdBu", vmin=-largest, vmax=largest)
        place.axis("off")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Train, check the accuracy, and write the picture if a folder is given."""
    epochs = int(os.environ.get("DIGITS_EPOCHS", "40"))
    net, losses, accuracies = train(epochs)
    if epochs >= 40:
        assert accuracies[-1] > 0.98, accuracies[-1]
    if len(sys.argv) == 2:
        path = Path(sys.argv[1]) / "digits_cnn.png"
        picture(path, net, losses, accuracies)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
