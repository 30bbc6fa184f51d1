"""Explain what a call would do on this and other devices, and run other classes' paths here."""

import numpy as np

import portable_gpu as pg

engine = pg.default_engine()
print("this device:", engine, "\n")

# `explain` needs no device of the class.
print(pg.explain("gemm", 4096, 4096, 4096), "\n")
for target in ("nvidia-sm90", "gcn", "cpu"):
    print(pg.explain("gemv", 16384, 32, target=target), "\n")

# The text for another class runs on this device too, with barriers instead of lock-step.
x = np.random.default_rng(7).standard_normal(100_000, dtype=np.float32)
for device_class in ("gcn", "nvidia-sm20", "generic"):
    forced = pg.Engine(engine.device, device_class=device_class)
    target = forced.target
    total = pg.sum(x, engine=forced)
    print(f"{device_class}: sub-groups of {target.subgroup_size} by {target.exchange}: {total}")
    assert abs(total - x.astype(np.float64).sum()) < 1e-2
