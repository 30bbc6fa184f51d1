"""Statistics along axes: standardise the columns of a table, and find its outliers."""

import numpy as np

import portable_gpu as pg

random = np.random.default_rng(1)
table = (random.standard_normal((50_000, 12)) * np.arange(1, 13) + 100).astype(np.float32)
table[1234, 5] = 1000  # an outlier

mean, deviation = pg.mean(table, axis=0), pg.std(table, axis=0, ddof=1)
scores = (table - mean) / deviation
print("mean     ", np.round(mean, 1))
print("deviation", np.round(deviation, 1))

column = int(pg.argmax(pg.max(scores, axis=0)))
row = int(pg.argmax(scores[:, column]))  # a strided view
print(f"the outlier: row {row}, column {column}")
assert (row, column) == (1234, 5)

far = pg.count_nonzero(np.abs(scores) > 3, axis=0)
print("beyond three deviations, of 50000:", far)

# Any axes at once, and the folded ones kept for broadcasting.
cube = random.standard_normal((30, 40, 50))
centred = cube - pg.mean(cube, axis=(0, 2), keepdims=True)
assert np.abs(pg.sum(centred, axis=(0, 2))).max() < 1e-9
