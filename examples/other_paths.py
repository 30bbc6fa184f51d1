"""What a call would do, on this device and on others; and other classes' paths, run here."""

import numpy as np

import portable_gpu as pg

engine = pg.default_engine()
print("this device:", engine, "\n")

# No device of the class is needed to say what would be done there.
print(pg.explain("gemm", 4096, 4096, 4096), "\n")
for target in ("nvidia-sm90", "gcn", "cpu"):
    print(pg.explain("gemv", 16384, 32, target=target), "\n")

# The text for another class runs on this device too, with barriers in place of lock-step.
x = np.random.default_rng(7).standard_normal(100_000, dtype=np.float32)
for device_class in ("gcn", "nvidia-sm20", "generic"):
    forced = pg.Engine(engine.device, device_class=device_class)
    target = forced.target
    total = pg.sum(x, engine=forced)
    print(f"{device_class}: sub-groups of {target.subgroup_size} by {target.exchange}: {total}")
    assert abs(total - x.astype(np.float64).sum()) < 1e-2
