"""Gaussian-process regression: kernels by gemm and elementwise, their factors in one call, solves.

The data are scikit-learn's on diabetes, and results are compared with its regression.  With the
name of a file (``gaussian_process.py picture.png``) predictions are drawn over the values.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, algorithm 2.1.
"""

import math
import sys

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import portable_gpu as pg
from portable_gpu.linalg import cholesky, solve_triangular

TESTED, NOISE = 100, 0.5
SCALES = np.geomspace(1, 16, 9)

dtype = np.float64 if pg.default_engine().target.fp64 else np.float32
data, values = load_diabetes(return_X_y=True)
data, values = data / data.std(axis=0), (values - values.mean()) / values.std()
order = np.random.default_rng(2).permutation(len(data))
train, test = data[order[TESTED:]].astype(dtype), data[order[:TESTED]].astype(dtype)
known, truth = values[order[TESTED:]].astype(dtype), values[order[:TESTED]]


def squared_distances(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """|x - z|^2 of all pairs of rows: a product, to which the squares are added as it is stored."""
    squares = pg.Epilogue().bias(pg.nrm2(x, axis=1) ** 2, per="row").bias(pg.nrm2(z, axis=1) ** 2)
    return pg.gemm(x, z, alpha=-2, trans_b="T", epilogue=squares.relu())


# The kernels of all length scales, as one stack; likelihoods choose among them.
distances = squared_distances(train, train)
kernels = pg.elementwise(
    "exp(-d / (2 * s * s)) + noise * unit",
    d=distances, s=SCALES.astype(dtype)[:, None, None], unit=np.eye(len(train), dtype=dtype),
    noise=NOISE,
)  # fmt: skip
factors = cholesky(kernels, lower=True)
halves = solve_triangular(factors, known[:, None], lower=True)
logs = pg.sum(np.log(np.diagonal(factors, axis1=1, axis2=2)), axis=1)
fits = pg.sum(halves[..., 0] ** 2, axis=1)
likelihoods = -fits / 2 - logs - len(train) / 2 * math.log(2 * math.pi)
best = int(pg.argmax(likelihoods))
scale, factor = SCALES[best], factors[best]
print(f"length scale {scale:.3g}: log marginal likelihood {likelihoods[best]:.2f}")

# Means and variances at new points.
weights = solve_triangular(factor, halves[best], trans="T", lower=True)
across = pg.elementwise(
    "exp(-d / (2 * s * s))", d=squared_distances(test, train), s=float(scale), dtype=dtype
)
means = pg.matmul(across, weights)[:, 0]
solved = solve_triangular(factor, np.ascontiguousarray(across.T), lower=True)
deviations = np.sqrt(1 + NOISE - pg.nrm2(solved, axis=0) ** 2)
inside = np.mean(np.abs(truth - means) < 2 * deviations)
print(f"{inside:.0%} of {TESTED} new values within two deviations of the prediction")

kernel = RBF(scale) + WhiteKernel(NOISE)
theirs = GaussianProcessRegressor(kernel, alpha=0, optimizer=None).fit(train, known)
their_means, their_deviations = theirs.predict(test, return_std=True)
off = max(np.abs(means - their_means).max(), np.abs(deviations - their_deviations).max())
print(f"scikit-learn: {theirs.log_marginal_likelihood_value_:.2f}; predictions differ by {off:.1e}")
tolerance = 1e-8 if dtype == np.float64 else 1e-2
assert off < tolerance
assert abs(theirs.log_marginal_likelihood_value_ - likelihoods[best]) < 1e3 * tolerance
assert inside > 0.9

if len(sys.argv) == 2 and sys.argv[1].endswith(".png"):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    sides = figure.subplots(1, 2, sharex=True, sharey=True)
    results = {"portable_gpu": (means, deviations), "scikit-learn": (their_means, their_deviations)}
    for axes, (name, (mean, deviation)) in zip(sides, results.items(), strict=True):
        axes.errorbar(truth, mean, 2 * deviation, fmt="o", ms=3, lw=0.6)
        axes.axline((0, 0), slope=1, color="grey", lw=0.8)
        axes.set(title=name, xlabel="measured", ylabel="predicted, two deviations")
        axes.label_outer()
    figure.savefig(sys.argv[1], dpi=150)
