"""Filters of a photograph, and the search for a part of it: each is one convolution.

The photograph is scikit-learn's of a palace in China; results are compared with SciPy's.  With a
file's name (``image_filtering.py picture.png``) the pictures are drawn.
"""

import sys
from time import perf_counter

import numpy as np
from scipy import signal as scipy_signal
from sklearn.datasets import load_sample_image

import portable_gpu as pg
from portable_gpu import signal

WIDTH, FINE, STRENGTH = 6.0, 1.5, 1.0
PART = (slice(150, 198), slice(300, 364))

photograph = load_sample_image("china.jpg").astype(np.float32) / 255  # rows, columns, colours
grey = photograph.mean(axis=2)


def gauss(width: float) -> np.ndarray:
    """A bell of two axes, whose values add up to 1."""
    at = np.arange(-np.ceil(3 * width), np.ceil(3 * width) + 1)
    bell = np.exp(-(at**2) / (2 * width**2))
    return (np.outer(bell, bell) / bell.sum() ** 2).astype(np.float32)


def filtered(library, kernel: np.ndarray) -> np.ndarray:
    """The photograph convolved, all colours in one call: their axis broadcasts.

    Beyond its edges the photograph is continued by its mirror image; zeros would darken the rim.
    """
    rows, columns = (n // 2 for n in kernel.shape)
    padded = np.pad(photograph, ((rows, rows), (columns, columns), (0, 0)), mode="symmetric")
    return library.fftconvolve(padded, kernel[:, :, None], mode="valid", axes=(0, 1))


# To sharpen is to add what a narrow blur takes away, which is a convolution too.
blur, fine = gauss(WIDTH), gauss(FINE)
unit = np.zeros_like(fine)
unit[tuple(n // 2 for n in unit.shape)] = 1
sharpen = (1 + STRENGTH) * unit - STRENGTH * fine
blurred, sharpened = filtered(signal, blur), filtered(signal, sharpen)
assert blurred.shape == sharpened.shape == photograph.shape
for ours, kernel in ((blurred, blur), (sharpened, sharpen)):
    np.testing.assert_allclose(ours, filtered(scipy_signal, kernel), atol=1e-4)
print(f"{photograph.shape[1]} x {photograph.shape[0]} pixels of 3 colours, {blur.shape} weights")

# Where is this part?  At the peak of the correlation, over the norms of what lies under the part.
pattern = grey[PART] - grey[PART].mean()
correlation = signal.correlate(grey, pattern, mode="valid")
ones = np.ones_like(pattern)
sums = signal.fftconvolve(grey, ones, mode="valid")
squares = signal.fftconvolve(grey * grey, ones, mode="valid")
likeness = pg.elementwise(
    "c / (norm * sqrt(fmax(squares - sums * sums / n, 1e-3f)))",
    c=correlation, squares=squares, sums=sums, n=float(ones.size),
    norm=float(np.linalg.norm(pattern)),
)  # fmt: skip
np.testing.assert_allclose(
    correlation, scipy_signal.correlate(grey, pattern, mode="valid"), atol=2e-2
)
position = np.unravel_index(int(pg.argmax(likeness)), likeness.shape)
print(
    f"the part is found at {tuple(int(at) for at in position)}, likeness {likeness[position]:.4f}"
)
assert position == (PART[0].start, PART[1].start)

for name, library in (("portable_gpu", signal), ("SciPy", scipy_signal)):
    begin = perf_counter()
    filtered(library, blur)
    print(f"the blur by {name}: {1e3 * (perf_counter() - begin):.1f} ms")

if len(sys.argv) > 1 and sys.argv[1].endswith(".png"):
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    pictures = {
        "before; the part to find is framed": photograph,
        "blurred": blurred,
        "sharpened": sharpened,
        "likeness to the part, by its upper left corner": likeness,
    }
    for axis, (title, picture) in zip(axes.flat, pictures.items(), strict=True):
        if picture.ndim == 3:
            axis.imshow(np.clip(picture, 0, 1))
        else:
            scale = axis.imshow(picture, cmap="RdBu_r", vmin=-1, vmax=1)
            figure.colorbar(scale, ax=axis, location="bottom", shrink=0.6, aspect=40)
        axis.set_title(title)
        axis.set_axis_off()
    corner, sides = (PART[1].start, PART[0].start), pattern.shape[::-1]
    axes[0, 0].add_patch(plt.Rectangle(corner, *sides, fill=False, color="red"))
    axes[1, 1].plot(*corner, "o", markersize=12, markerfacecolor="none", color="black")
    figure.savefig(sys.argv[1], dpi=100)
