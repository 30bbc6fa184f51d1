"""A map from scattered measurements: a Gaussian Markov field, whose precision is a sparse matrix.

One analysis serves all ranges that are tried: their precisions have one pattern.  Likelihoods need
a log-determinant, the map a solve, its uncertainty the diagonal of an inverse, and drawing further
maps that agree with the measurements a solve with half of the factor.  With a file's name
(``gaussian_markov_field.py picture.png``) the maps are drawn.

Source: Lindgren, Rue and Lindström, J. Royal Statistical Society B 73(4), 2011; Rue and Held,
Gaussian Markov Random Fields, 2005, algorithm 2.4.
"""

import sys

import numpy as np
import scipy.sparse as sp

import portable_gpu as pg
from portable_gpu.sparse import analyze, cholesky

SIDE, MEASURED, NOISE = 64, 500, 0.2
RANGES = np.array([3.0, 5, 8, 12, 18, 27])  # of the field's correlation, in steps of the grid
TRUE = 12.0

dtype = np.float64 if pg.default_engine().target.fp64 else np.float32
rng = np.random.default_rng(1)
n = SIDE * SIDE
line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(SIDE, SIDE)).tolil()
line[0, 0] = line[-1, -1] = 1  # nothing flows over the border
laplacian = sp.csr_array(sp.kron(line, sp.eye(SIDE)) + sp.kron(sp.eye(SIDE), line))


def precision(length: float) -> sp.csr_array:
    """Return the precision matrix of a field of variance 1 with this correlation length."""
    kappa = np.sqrt(8) / length
    operator = kappa**2 * sp.eye(n) + laplacian
    return sp.csr_array(operator @ operator / (4 * np.pi * kappa**2)).astype(dtype)


def drawn(factor, count: int) -> np.ndarray:
    """Fields whose covariance is the inverse of the matrix: P^T L^-T z."""
    z = rng.standard_normal((n, count)).astype(dtype)
    return factor.solve(factor.solve(z, system="Lt"), system="Pt")


truth = drawn(cholesky(precision(TRUE)), 1)[:, 0]
places = rng.choice(n, MEASURED, replace=False)
measured = (truth[places] + NOISE * rng.standard_normal(MEASURED)).astype(dtype)
seen = sp.csr_array((np.ones(MEASURED, dtype), (np.arange(MEASURED), places)), (MEASURED, n))
weight = sp.csr_array(seen.T @ seen / NOISE**2).astype(dtype)
pull = seen.T @ measured / NOISE**2

# Every range by its likelihood: the same two factors, with other values.
symbolic = analyze(precision(TRUE) + weight)
prior = cholesky(precision(TRUE), symbolic=symbolic)
posterior = cholesky(precision(TRUE) + weight, symbolic=symbolic)
print(symbolic)
likelihoods = []
for length in RANGES:
    prior.refactorize(precision(length))
    posterior.refactorize(precision(length) + weight)
    mean = posterior.solve(pull)
    fit = measured @ measured / NOISE**2 - pull @ mean
    scale = MEASURED * np.log(2 * np.pi * NOISE**2)
    likelihoods.append((prior.logdet() - posterior.logdet() - fit - scale) / 2)
    print(f"range {length:4.0f}: log marginal likelihood {likelihoods[-1]:8.2f}")
best = RANGES[int(np.argmax(likelihoods))]
assert best in RANGES[np.abs(np.log(RANGES / TRUE)) < 0.6]

# The map, how sure it is, and two more that agree with the measurements.
posterior.refactorize(precision(best) + weight)
mean = posterior.solve(pull)
deviation = np.sqrt(posterior.inv_diag())
more = mean[:, None] + drawn(posterior, 2)
inside = float((np.abs(truth - mean) < 2 * deviation).mean())
print(f"range {best:.0f}: the truth lies within two deviations at {inside:.1%} of all places")
assert 0.9 < inside < 0.99

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8), layout="constrained", dpi=110)
    every = figure.subplots(2, 3)
    span = np.percentile(np.abs(truth), 99)  # a few extremes would leave all else in one colour
    values = {
        "truth": truth,
        "mean, and the places measured": mean,
        "drawn: it agrees with the measurements": more[:, 0],
        "drawn again": more[:, 1],
    }
    for axes, (title, field) in zip(every.flat[[0, 1, 3, 4]], values.items(), strict=True):
        picture = axes.imshow(field.reshape(SIDE, SIDE), cmap="RdBu_r", vmin=-span, vmax=span)
        axes.set_title(title)
        axes.set_axis_off()
    every[0, 1].scatter(places % SIDE, places // SIDE, 3, "black")
    figure.colorbar(picture, ax=every[:, :2], shrink=0.6, extend="both", label="value")
    axes = every[0, 2]
    picture = axes.imshow(deviation.reshape(SIDE, SIDE))
    axes.set_title("standard deviation of the mean")
    axes.set_axis_off()
    figure.colorbar(picture, ax=axes, shrink=0.8)
    axes = every[1, 2]
    axes.plot(RANGES, likelihoods, "o-")
    axes.axvline(TRUE, linestyle=":", color="black", label="the truth's range")
    axes.set(xscale="log", xlabel="range (steps of the grid)", title="log marginal likelihood")
    axes.set_xticks(RANGES, [f"{length:.0f}" for length in RANGES])
    axes.minorticks_off()
    axes.legend(loc="lower center")
    figure.savefig(sys.argv[1])
