"""What kernels find wrong with matrices, told when somebody looks at the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: Of each matrix: the column at which it was found out, or -1, and bits that say more.
FIELDS = 2
DTYPE = np.dtype(np.int64)


def reports_of(*arrays: Any) -> tuple[Report, ...]:
    """What there is to look at before the values of any of these arrays are: each of it once."""
    found = [report for array in arrays for report in getattr(array, "reports", ())]
    return tuple(dict.fromkeys(found))


class Report:
    """The report of one call: written by its kernels, and brought to the host once at the most.

    It holds the report's few bytes, and none of the call's arrays.
    """

    def __init__(self, array: Any, complain: Callable[[np.ndarray[Any, Any]], None]) -> None:
        """Note where it is written.

        Args:
            array: Shape (matrices, :data:`FIELDS`), of NumPy or on the device.
            complain: Raises an error if the values say so.
        """
        self._values: Any = array
        self._complain = complain

    def check(self) -> None:
        """Wait for the report, and raise what it says: a new error each time."""
        values = self._values
        if not isinstance(values, np.ndarray):
            values = self._values = values.get()
        self._complain(values)
