"""A factor that is not in one buffer: on the disk, or on several devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from portable_gpu.runtime.views import View


class FactorParts(ABC):
    """The panels of one factorisation, in parts."""

    @abstractmethod
    def solve(self, system: str, count: int, b: View, x: View) -> None:
        """Solve, and wait; b and x are n x count each, on the device of the factor's queue."""

    @abstractmethod
    def inverse_diagonal(self, out: View) -> None:
        """Compute the diagonal of the permuted matrix's inverse, and wait."""

    @abstractmethod
    def panels(self) -> np.ndarray[Any, Any]:
        """Return all panels, on the host."""

    @abstractmethod
    def close(self) -> None:
        """Free the memory."""
