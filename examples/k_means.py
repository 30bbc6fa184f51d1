"""k-means: distances by gemm with a bias, the nearest centre by argmin.

Source: Lloyd, IEEE Trans. Inf. Theory 28(2), 1982.
"""

import numpy as np
import pyopencl.array as cla

import portable_gpu as pg

POINTS, AXES, CENTRES = 20_000, 16, 8

random = np.random.default_rng(5)
truth = random.uniform(-10, 10, (CENTRES, AXES)).astype(np.float32)
owner = random.integers(0, CENTRES, POINTS)
points = truth[owner] + random.standard_normal((POINTS, AXES), dtype=np.float32)

queue = pg.default_engine().queue
on_device = cla.to_device(queue, points)


def nearest(centres: np.ndarray) -> np.ndarray:
    """Index of the nearest centre of each point: |p - c|^2 without |p|^2."""
    squares = cla.to_device(queue, (centres**2).sum(axis=1))
    epilogue = pg.Epilogue().bias(squares)
    distances = pg.gemm(
        on_device, cla.to_device(queue, centres), alpha=-2, trans_b="T", epilogue=epilogue
    )
    return pg.argmin(distances, axis=1).get()


# Start from points far apart: each next one is the farthest from those before.
centres = points[:1]
while len(centres) < CENTRES:
    gaps = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
    centres = np.vstack([centres, points[[gaps.argmax()]]])

for step in range(1, 51):
    labels = nearest(centres)
    members = np.eye(CENTRES, dtype=np.float32)[labels]
    sums = pg.matmul(np.ascontiguousarray(members.T), points)
    moved = sums / pg.sum(members, axis=0)[:, None]
    done = np.allclose(moved, centres, atol=1e-4)
    centres = moved
    if done:
        print(f"{step} steps")
        break

off = np.sqrt(((truth[:, None] - centres) ** 2).sum(axis=2)).min(axis=1)
print(f"centres found within {off.max():.3f} of the true ones")
assert off.max() < 0.2
