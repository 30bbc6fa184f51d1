"""Two dense layers: bias, activation and residual are applied before C is stored.

Without the epilogue each would be one more pass over C.
"""

import numpy as np

import portable_gpu as pg

random = np.random.default_rng(6)
batch, inside, hidden = 128, 64, 256
x = random.standard_normal((batch, inside), dtype=np.float32)
w1 = random.standard_normal((inside, hidden), dtype=np.float32) / 8
w2 = random.standard_normal((hidden, inside), dtype=np.float32) / 16
b1, b2 = random.standard_normal(hidden, np.float32), random.standard_normal(inside, np.float32)

activations = pg.gemm(x, w1, epilogue=pg.Epilogue().bias(b1).relu())
result = pg.gemm(activations, w2, epilogue=pg.Epilogue().bias(b2).add(x))

expected = np.maximum(x @ w1 + b1, 0) @ w2 + b2 + x
print("largest difference from NumPy:", np.abs(result - expected).max())
np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)

# A user-defined step, in OpenCL C: v is the value so far.
clipped = pg.gemm(x, w1, epilogue=pg.Epilogue().bias(b1).apply("v > 1 ? 1 : v < -1 ? -1 : v"))
np.testing.assert_allclose(clipped, np.clip(x @ w1 + b1, -1, 1), rtol=1e-3, atol=1e-4)

# With beta, C is added as well.
c = np.ones((batch, hidden), np.float32)
pg.gemm(x, w1, beta=0.5, c=c, epilogue=pg.Epilogue().relu())
np.testing.assert_allclose(c, np.maximum(x @ w1 + 0.5, 0), rtol=1e-3, atol=1e-4)
