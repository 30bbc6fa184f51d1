"""This library and its peers for sparse factorisations; all use the same ordering."""

from __future__ import annotations

from abc import abstractmethod
from importlib.metadata import version
from typing import Any

import numpy as np

from portable_gpu.bench.peers import Library, Ours
from portable_gpu.errors import UnsupportedError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.sparse import Factor, Symbolic
from portable_gpu.version import __version__


class SparsePeer(Library):
    """A library that has analysed a matrix and can factorise it."""

    @abstractmethod
    def __init__(self, engine: Engine, A: Any, symbolic: Symbolic) -> None:
        """Analyse the matrix.

        Args:
            engine: The engine that our calls run on.
            A: The matrix, with both triangles.
            symbolic: Our analysis; the peer uses its permutation.

        Raises:
            ImportError: The library is not installed.
            UnsupportedError: The library does not support the dtype.
        """

    @abstractmethod
    def factor(self) -> Any:
        """Factorise the matrix."""

    @abstractmethod
    def solve(self, b: Any) -> Any:
        """Solve with the last factor; `b` is a result of :meth:`upload`."""

    def upload(self, b: Any) -> Any:
        """Return a right-hand side in the memory in which the library reads it; not timed."""
        return b

    def fetch(self, x: Any) -> Any:
        """Return a solution as a NumPy array, in the order of `A`."""
        return x

    def finish(self) -> None:
        """Wait for what was enqueued."""


class OurFactor(SparsePeer):
    """This library; on a GPU values and right-hand sides are in the device's memory."""

    name, install = Ours.name, Ours.install

    def __init__(self, engine: Engine, A: Any, symbolic: Symbolic) -> None:
        """See :class:`SparsePeer`."""
        self._engine = engine
        self._factor = Factor(symbolic, A.dtype, engine, None)
        self._values = A if engine.maps_host_memory else self.upload(A.data)

    @property
    def version(self) -> str:
        """See :class:`SparsePeer`."""
        return __version__

    def factor(self) -> Any:
        """See :class:`SparsePeer`."""
        return self.factor_of(self._values)

    def factor_of(self, values: Any) -> Any:
        """Factorise a matrix, or values on the device."""
        return self._factor.refactorize(values)

    def solve(self, b: Any) -> Any:
        """See :class:`SparsePeer`."""
        return self._factor.solve(b)

    def upload(self, b: Any) -> Any:
        """See :class:`SparsePeer`."""
        return b if self._engine.maps_host_memory else asarray(b, queue=self._engine.queue)

    def fetch(self, x: Any) -> Any:
        """See :class:`SparsePeer`."""
        return asnumpy(x)

    def finish(self) -> None:
        """See :class:`SparsePeer`."""
        self._engine.queue.finish()


class SuperLUPeer(SparsePeer):
    """``scipy.sparse.linalg.splu`` without pivoting: SuperLU, on one core."""

    name, install = "scipy", "pip install scipy"

    def __init__(self, engine: Engine, A: Any, symbolic: Symbolic) -> None:
        """See :class:`SparsePeer`."""
        self._perm, self._iperm = symbolic.perm, symbolic.iperm
        self._permuted = A[self._perm][:, self._perm].tocsc()

    @property
    def version(self) -> str:
        """See :class:`SparsePeer`."""
        return version("scipy")

    def factor(self) -> Any:
        """See :class:`SparsePeer`."""
        from scipy.sparse.linalg import splu

        options = {"SymmetricMode": True}
        self._factor = splu(
            self._permuted, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options
        )

    def solve(self, b: Any) -> Any:
        """See :class:`SparsePeer`."""
        return self._factor.solve(b[self._perm])[self._iperm]


class CHOLMODPeer(SparsePeer):
    """CHOLMOD's supernodal factor, by scikit-sparse, on all cores of its BLAS."""

    name, install = "cholmod", "pip install scikit-sparse==0.4.16 (it needs SuiteSparse)"

    def __init__(self, engine: Engine, A: Any, symbolic: Symbolic) -> None:
        """See :class:`SparsePeer`."""
        from sksparse.cholmod import analyze

        if A.dtype not in (np.float64, np.complex128):
            raise UnsupportedError(f"it has no {A.dtype}")
        self._perm, self._iperm = symbolic.perm, symbolic.iperm
        self._permuted = A[self._perm][:, self._perm].tocsc()
        self._factor = analyze(self._permuted, mode="supernodal", ordering_method="natural")

    @property
    def version(self) -> str:
        """See :class:`SparsePeer`."""
        return f"scikit-sparse {version('scikit-sparse')}"

    def factor(self) -> Any:
        """See :class:`SparsePeer`."""
        self._factor.cholesky_inplace(self._permuted)

    def solve(self, b: Any) -> Any:
        """See :class:`SparsePeer`."""
        return self._factor(b[self._perm])[self._iperm]


SPARSE_PEERS: dict[str, type[SparsePeer]] = {peer.name: peer for peer in (SuperLUPeer, CHOLMODPeer)}
