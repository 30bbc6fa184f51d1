"""Expressions of several arrays in one launch: softmax, standardisation, distances."""

import numpy as np

import portable_gpu as pg

random = np.random.default_rng(4)
x = random.standard_normal((2000, 300)).astype(np.float32)
add = pg.BinaryOp("add", identity="0", combine="a + b")

# Softmax along the rows.  The sum of exponentials reads x where it lies, without a temporary.
on_device = pg.asarray(x)
m = pg.max(on_device, axis=1, keepdims=True)
s = pg.reduce(on_device, add, map="exp(x - m)", axis=1, keepdims=True, m=m)
softmax = pg.asnumpy(pg.elementwise("exp(x - m) / s", x=on_device, m=m, s=s))
exact = np.exp(x - x.max(axis=1, keepdims=True).astype(np.float64))
np.testing.assert_allclose(softmax, exact / exact.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7)
print("rows of softmax add up to", np.round(softmax.sum(axis=1)[:3], 6))

# Standardised columns, in place.  A number is an argument: another one compiles nothing.
mean, deviation = pg.mean(x, axis=0), pg.std(x, axis=0)
scores = x.copy()
pg.elementwise("(x - mean) / (deviation + least)", x=scores, mean=mean, deviation=deviation,
               least=1e-6, out=scores)  # fmt: skip
np.testing.assert_allclose(scores, (x - x.mean(axis=0)) / x.std(axis=0), rtol=1e-3, atol=1e-5)
print("means and deviations now", abs(scores.mean(axis=0)).max().round(6), scores.std(axis=0)[:3])

# Squared distances of all pairs of points: both arrays broadcast, and the last axis is folded.
a, b = x[:150, :5], x[150:400, :5]
squares = pg.reduce(a[:, None], add, map="(x - y) * (x - y)", axis=2, y=b)
np.testing.assert_allclose(squares, ((a[:, None] - b) ** 2).sum(axis=2), rtol=1e-5)
print("the nearest of", squares.shape, "distances:", np.sqrt(squares.min()).round(4))
