"""PageRank by power iteration: one gemv a step, on the device throughout.

Source: Page, Brin, Motwani and Winograd, The PageRank citation ranking, 1999.
"""

import numpy as np
import pyopencl.array as cla

import portable_gpu as pg

PAGES, DAMPING = 2000, 0.85

# A random web in which low-numbered pages are linked to more often.
random = np.random.default_rng(4)
links = (random.random((PAGES, PAGES)) * np.arange(1, PAGES + 1) < 8).T.astype(np.float32)
np.fill_diagonal(links, 0)
links[:, links.sum(axis=0) == 0] = 1  # a page without links leads anywhere
transition = links / links.sum(axis=0)

queue = pg.default_engine().queue
matrix = cla.to_device(queue, transition)
start = np.full(PAGES, 1 / PAGES, np.float32)
rank = cla.to_device(queue, start)
for step in range(1, 101):
    spread = cla.to_device(queue, np.full(PAGES, (1 - DAMPING) / PAGES, np.float32))
    new = pg.gemv(matrix, rank, alpha=DAMPING, beta=1, y=spread)
    change = float(pg.asum(new - rank).get())
    rank = new
    if change < 1e-6:
        print(f"{step} steps")
        break

print(f"the ranks add up to {float(pg.sum(rank).get()):.6f}")
best = np.argsort(-rank.get())[:5]
print("highest:", ", ".join(f"page {page} {rank.get()[page]:.4f}" for page in best))

# The rank is a fixed point.
exact = DAMPING * transition.astype(np.float64) @ rank.get() + (1 - DAMPING) / PAGES
assert np.abs(exact - rank.get()).sum() < 1e-5
