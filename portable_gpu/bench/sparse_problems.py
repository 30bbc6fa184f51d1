"""Sparse positive definite matrices to time: grids, elastic bodies, Matrix Market files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from portable_gpu.errors import ArgumentError, PortableGPUError

#: The default problems.
USUAL = ("poisson2d:100", "poisson2d:400", "poisson3d:20", "poisson3d:40", "elasticity:12")


def problem(text: str) -> Any:
    """The matrix that `text` names, both triangles, float64 or complex128.

    Raises:
        ArgumentError: It names none.
        PortableGPUError: The file cannot be read.
    """
    kind, colon, size = text.partition(":")
    if colon and kind in _GENERATED and size.isdigit() and int(size):
        return _GENERATED[kind](int(size))
    if not text.endswith((".mtx", ".mtx.gz")):
        raise ArgumentError(
            f"--sizes has {text!r}; of sparse there are poisson2d:N, poisson3d:N, elasticity:N, "
            "FILE.mtx"
        )
    try:
        return sp.csr_array(scipy.io.mmread(Path(text)))
    except (OSError, ValueError) as error:
        raise PortableGPUError(f"{text} cannot be read: {error}") from None


def poisson(*shape: int) -> Any:
    """The Laplacian of a grid with fixed borders: 5 points in 2-D, 7 in 3-D."""
    total: Any = sp.csr_array((1, 1))
    for n in shape:
        line = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
        rows = total.shape[0]
        total = sp.kron(total, sp.eye(n)) + sp.kron(sp.eye(rows), line)
    return sp.csr_array(total)


def elasticity(n: int, poisson_ratio: float = 0.3) -> Any:
    """Linear elasticity of n^3 unit cubes of 8 nodes, one face fixed: 3 n (n + 1)^2 unknowns.

    Source: Zienkiewicz and Taylor, The Finite Element Method; two Gauss points along each axis.
    """
    corners = np.array([(x, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1)])
    element = _stiffness(corners, poisson_ratio)
    m = n + 1
    z, y, x = np.meshgrid(*[np.arange(n)] * 3, indexing="ij")
    first = ((z * m + y) * m + x).reshape(-1, 1)
    nodes = first + (corners[:, 2] * m + corners[:, 1]) * m + corners[:, 0]
    moves = (3 * nodes[:, :, None] + np.arange(3)).reshape(-1, 24)
    rows, columns = np.repeat(moves, 24, axis=1).ravel(), np.tile(moves, (1, 24)).ravel()
    whole = sp.coo_array((np.tile(element.ravel(), len(moves)), (rows, columns))).tocsr()
    return whole[3 * m * m :, 3 * m * m :]


def _stiffness(corners: Any, poisson_ratio: float) -> Any:
    """The 24 x 24 matrix of a unit cube of Young's modulus 1: B^T D B over the Gauss points."""
    shear = 1 / (2 * (1 + poisson_ratio))
    lame = poisson_ratio / ((1 + poisson_ratio) * (1 - 2 * poisson_ratio))
    law = np.diag([2 * shear] * 3 + [shear] * 3)
    law[:3, :3] += lame
    total = np.zeros((24, 24))
    for point in (corners - 0.5) / np.sqrt(3) + 0.5:
        sides, signs = np.where(corners, point, 1 - point), np.where(corners, 1, -1)
        slopes = [signs[:, a] * np.delete(sides, a, 1).prod(axis=1) for a in range(3)]
        strains = np.zeros((6, 8, 3))
        for a in range(3):
            strains[a, :, a] = slopes[a]
            other, third = (a + 1) % 3, (a + 2) % 3
            strains[3 + a, :, other], strains[3 + a, :, third] = slopes[third], slopes[other]
        total += strains.reshape(6, 24).T @ law @ strains.reshape(6, 24) / 8
    return total


_GENERATED: dict[str, Callable[[int], Any]] = {
    "poisson2d": lambda n: poisson(n, n),
    "poisson3d": lambda n: poisson(n, n, n),
    "elasticity": elasticity,
}
