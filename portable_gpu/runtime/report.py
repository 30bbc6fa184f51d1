"""Reports: what kernels find wrong with matrices, checked before a result reaches the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.layout import Shape

#: The report of a matrix: the column at which a kernel stopped, or -1, and the bits of its pivot.
FIELDS = 2
DTYPE = np.dtype(np.int64)


@dataclass(frozen=True)
class ReportSpec:
    """Values that kernels write in addition to the result, for the host to check.

    Attributes:
        shape, dtype: Those of the values.
        check: A function that checks the values, and may raise an error.
    """

    shape: Shape
    dtype: np.dtype[Any]
    check: Callable[[np.ndarray[Any, Any]], None]


def reports_of(*arrays: Any) -> tuple[KernelReport, ...]:
    """Return the reports to check before the values of some arrays are used, each of them once."""
    reports = [report for array in arrays for report in getattr(array, "reports", ())]
    return tuple(dict.fromkeys(reports))


class KernelReport:
    """The report of one call, which its kernels write, and which is copied at most once.

    The object keeps the few bytes of the report alive, but no array of the call.

    Attributes:
        values: The array that the kernels write; its values in NumPy once they are copied.
        check_values: A function that raises an error if the values report one.
    """

    def __init__(self, array: Any, check_values: Callable[[np.ndarray[Any, Any]], None]) -> None:
        """Keep the array that the kernels write.

        Args:
            array: Shape (matrices, :data:`FIELDS`), a NumPy array or a device array.
            check_values: A function that raises an error if the values report one.
        """
        self.values: Any = array
        self.check_values = check_values
        self._on_host: tuple[np.ndarray[Any, Any], cl.Event] | None = None

    def begin_copy(self) -> None:
        """Enqueue the copy of the report, so that :meth:`check` waits for no later command."""
        if self._on_host is None and not isinstance(self.values, np.ndarray):
            self._on_host = self.values.get_async()

    def check(self) -> None:
        """Wait for the report, and raise an error if it reports one."""
        values = self.values
        if not isinstance(values, np.ndarray):
            if self._on_host is None:
                values = values.get()
            else:
                values, event = self._on_host
                event.wait()
            self.values = values
        self.check_values(values)


def _refuse_values(_: np.ndarray[Any, Any]) -> None:
    raise ArgumentError(
        "a plan cannot be made of this call: in the middle of its work it reads values of the "
        "device, as refine='auto' and check='now' do; plan its parts"
    )


#: The report of an array that is only planned, and has no values.
NO_VALUES = KernelReport(np.empty(0), _refuse_values)
