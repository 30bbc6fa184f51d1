"""Reductions with user-defined operators, written in OpenCL C."""

import math

import numpy as np

import portable_gpu as pg

x = np.random.default_rng(2).uniform(0.5, 2.0, (400, 1000))
if not pg.default_engine().target.fp64:
    x = x.astype(np.float32)

# The geometric mean of each row: the mapped values are added.
add = pg.BinaryOp("add", identity="0", combine="a + b")
geometric = np.exp(pg.reduce(x, add, map="log(x)", axis=1) / x.shape[1])
np.testing.assert_allclose(geometric, np.exp(np.log(x).mean(axis=1)), rtol=1e-4)
print("geometric means:", np.round(geometric[:4], 4))

# The value nearest to 1, with its sign.  Any associative and commutative expression is allowed.
nearer = pg.BinaryOp(
    "nearer",
    identity="INFINITY",
    combine="fabs(a) < fabs(b) || (fabs(a) == fabs(b) && a < b) ? a : b",
)
distance = float(pg.reduce(x, nearer, map="x - 1"))
print(f"nearest to 1: {1 + distance:.6f}")
assert math.isclose(abs(distance), np.abs(x - 1).min(), rel_tol=1e-5)

# Bits: which of eight flags does any element have?
flags = np.random.default_rng(3).choice(np.array([1, 4, 64], np.uint32), 10_000)
union = pg.BinaryOp("either", identity="0", combine="a | b")
print(f"flags seen: {int(pg.reduce(flags, union)):08b}")
assert int(pg.reduce(flags, union)) == 1 | 4 | 64
