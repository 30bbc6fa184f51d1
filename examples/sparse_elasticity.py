"""A load that crosses an arch bridge: 3-D elasticity by finite elements, and a sparse factor.

The bridge is made of cubes of eight nodes.  One factorisation serves all places of the load, which
are the columns of one right side.  With a file's name (``sparse_elasticity.py picture.png``) the
deformed bridge is drawn.

Source: Zienkiewicz and Taylor, The Finite Element Method, the linear hexahedron.
"""

import sys

import numpy as np
import scipy.sparse

import portable_gpu as pg

LENGTH, WIDTH, HEIGHT, DECK = 48, 6, 14, 3  # cubes of 1 m
YOUNG, POISSON = 30e9, 0.2  # concrete, N/m^2
LOAD, PLACES = 1e6, 9  # N, on a strip across the deck

dtype = np.float64 if pg.default_engine().target.fp64 else np.float32
CORNERS = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)])


def stiffness() -> np.ndarray:
    """24 x 24, of a unit cube: B^T D B over two Gauss points along each axis."""
    shear = YOUNG / (2 * (1 + POISSON))
    lame = YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
    law = np.diag([2 * shear] * 3 + [shear] * 3)
    law[:3, :3] += lame
    total = np.zeros((24, 24))
    for point in (CORNERS - 0.5) / np.sqrt(3) + 0.5:
        sides = np.where(CORNERS, point, 1 - point)
        signs = np.where(CORNERS, 1, -1)
        slopes = np.stack([signs[:, a] * np.delete(sides, a, 1).prod(1) for a in range(3)])
        strains = np.zeros((6, 8, 3))
        for a in range(3):
            strains[a, :, a] = slopes[a]
            other, third = (a + 1) % 3, (a + 2) % 3
            strains[3 + a, :, other], strains[3 + a, :, third] = slopes[third], slopes[other]
        strains = strains.reshape(6, 24)
        total += strains.T @ law @ strains / 8
    return total


# The cubes: a deck, and below it what an arch leaves.
x, y, z = np.meshgrid(np.arange(LENGTH), np.arange(WIDTH), np.arange(HEIGHT), indexing="ij")
arch = ((x + 0.5 - LENGTH / 2) / (0.46 * LENGTH)) ** 2 + ((z + 0.5) / (HEIGHT - DECK)) ** 2 < 1
cubes = np.stack([x, y, z], axis=-1)[~arch]

# Nodes are numbered where a cube has them; each moves along three axes.
shape = (LENGTH + 1, WIDTH + 1, HEIGHT + 1)
places = np.ravel_multi_index(tuple(np.moveaxis(cubes[:, None] + CORNERS, -1, 0)), shape)
used, nodes = np.unique(places, return_inverse=True)
nodes = nodes.reshape(places.shape)
at = np.stack(np.unravel_index(used, shape), axis=1)
moves = (3 * nodes[:, :, None] + np.arange(3)).reshape(len(cubes), 24)
rows, columns = np.repeat(moves, 24, axis=1).ravel(), np.tile(moves, (1, 24)).ravel()
elements = np.tile(stiffness().ravel(), len(cubes))
whole = scipy.sparse.coo_array((elements, (rows, columns))).tocsr()

# The feet and the ends of the deck stand still.  The load is a strip at several places of the deck.
still = np.repeat((at[:, 2] == 0) | (at[:, 0] == 0) | (at[:, 0] == LENGTH), 3)
strips = np.linspace(0, LENGTH, PLACES + 2).round()[1:-1]
loads = np.zeros((len(at), 3, PLACES))
for k, place in enumerate(strips):
    under = (at[:, 2] == HEIGHT) & (at[:, 0] == place)
    loads[under, 2, k] = -LOAD / under.sum()
loads = loads.reshape(-1, PLACES)

free = np.flatnonzero(~still)
factor = pg.sparse.cholesky(whole[free][:, free].astype(dtype))
moved = np.zeros_like(loads)
moved[free] = factor.solve(loads[free].astype(dtype))
print(factor.symbolic)

# The ground bears the load, and the load's work is the energy of the strain.
reactions = (whole @ moved - loads)[still].reshape(-1, 3, PLACES).sum(axis=0)
tolerance = 1e-9 if dtype == np.float64 else 1e-2
assert np.allclose(reactions[2], LOAD, rtol=tolerance), reactions
assert np.abs(reactions[:2]).max() < tolerance * LOAD
for place, sinks in zip(strips, -1000 * moved[2::3].min(axis=0), strict=True):
    print(f"load at {place:2.0f} m: the deck sinks by {sinks:.3f} mm")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    # Faces that belong to one cube alone; the corners of each in turn.
    turns = [[0, 1, 3, 2], [4, 5, 7, 6], [0, 1, 5, 4], [2, 3, 7, 6], [0, 2, 6, 4], [1, 3, 7, 5]]
    faces = nodes[:, turns].reshape(-1, 4)
    _, first, count = np.unique(np.sort(faces), axis=0, return_index=True, return_counts=True)
    outside = faces[first[count == 1]]
    figure = Figure(figsize=(11, 8), dpi=110)
    for middle, k in ((0.74, PLACES // 2), (0.24, PLACES // 5)):
        move = moved[:, k].reshape(-1, 3)
        length = np.linalg.norm(move, axis=1)
        scale = 1.5 / length.max()  # the largest movement is drawn as 1.5 m
        bent = at + move * scale
        # Three axes are drawn in a square, most of which stays empty.
        axes = figure.add_axes((0, middle - 0.62, 0.9, 1.24), projection="3d")
        axes.patch.set_alpha(0)
        shown = Poly3DCollection(bent[outside], edgecolors="#00000030", linewidths=0.3)
        shown.set_array(1000 * length[outside].mean(axis=1))
        axes.add_collection3d(shown)
        axes.set(xlim=(0, LENGTH), ylim=(0, WIDTH), zlim=(-1, HEIGHT))
        axes.set_box_aspect((LENGTH, WIDTH, HEIGHT + 1), zoom=0.88)
        axes.view_init(18, -70)
        axes.set_axis_off()
        title = f"load at {strips[k]:.0f} m; movements drawn {round(scale, -2):,.0f} times as large"
        figure.text(0.45, middle - 0.08, title, ha="center", fontsize=12)
        bar = figure.add_axes((0.91, middle - 0.15, 0.015, 0.3))
        figure.colorbar(shown, cax=bar, label="movement (mm)")
    figure.savefig(sys.argv[1])
