"""An image up-sampled eight times, and its edges found by a convolution.

    python examples/image_upsampling.py            # compares with NumPy
    python examples/image_upsampling.py FOLDER     # also writes FOLDER/image_upsampling.png

Needs the extra [demo].
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import portable_gpu as pg
from portable_gpu import nn

FACTOR = 8


def bilinear(n: int) -> np.ndarray:
    """The matrix that interpolates n values linearly at the centres of FACTOR n pixels."""
    places = np.clip((np.arange(FACTOR * n) + 0.5) / FACTOR - 0.5, 0, n - 1)
    return np.maximum(0, 1 - np.abs(places[:, None] - np.arange(n)))


def main() -> None:
    """Up-sample a digit in three ways, and filter one of them."""
    image = (load_digits().images[3] / 16).astype(np.float32)
    device = pg.asarray(image[None, None])
    pictures = {
        mode: nn.interpolate(device, scale_factor=FACTOR, mode=mode)
        for mode in ("nearest", "bilinear", "bicubic")
    }
    matrix = bilinear(8)
    smooth = pg.asnumpy(pictures["bilinear"])[0, 0]
    assert np.abs(smooth - matrix @ image @ matrix.T).max() < 1e-5
    assert np.array_equal(pg.asnumpy(pictures["nearest"])[0, 0], np.kron(image, np.ones((8, 8))))

    # Sobel's filters: two output channels of one convolution, then their length.
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
    filters = pg.asarray(np.stack([across, across.T])[:, None])
    slopes = nn.conv2d(pictures["bilinear"], filters, padding=1)
    edges = pg.asnumpy(pg.elementwise("sqrt(a * a + b * b)", a=slopes[0, 0], b=slopes[0, 1]))
    inner = smooth[:-2] + 2 * smooth[1:-1] + smooth[2:]
    down = smooth[2:] - smooth[:-2]
    expected = np.hypot(
        inner[:, 2:] - inner[:, :-2], down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    )
    assert np.abs(edges[1:-1, 1:-1] - expected).max() < 1e-5
    print(f"{image.shape} up-sampled to {smooth.shape}; steepest edge {expected.max():.3f}")
    if len(sys.argv) == 2:
        write(Path(sys.argv[1]) / "image_upsampling.png", pictures, edges)


def write(path, pictures, edges) -> None:
    """Write the pictures side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = {mode: pg.asnumpy(picture)[0, 0] for mode, picture in pictures.items()}
    shown["edges"] = edges[1:-1, 1:-1]  # the border is an edge, too
    figure, axes = plt.subplots(1, len(shown), figsize=(9, 2.6), layout="constrained")
    for place, (name, values) in zip(axes, shown.items(), strict=True):
        place.imshow(values, cmap="gray")
        place.set_title(name)
        place.axis("off")
    figure.savefig(path, dpi=150)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
