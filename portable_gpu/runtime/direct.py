"""Repeated calls on C-ordered arrays of NumPy, as functions of the arrays.

A general repeated call (:mod:`portable_gpu.runtime.repeat`) spends most of its host time on what a
small call does not need.  Such a function takes the arrays, makes a fresh result, sets their
addresses as arguments, launches the kernels and waits for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.runtime.host_arrays import READ_ONLY, is_of_python, no_memory
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.recording import Kernels
from portable_gpu.runtime.report import ReportSpec
from portable_gpu.runtime.views import Shape

#: What read-only arrays and missing memory for a result raise.
_REFUSALS = (*READ_ONLY, MemoryError)


class _DirectKernel:
    """A kernel object with its arguments; one caller uses it at a time.

    Attributes:
        kernel, set_address: The kernel object, and the function that sets an address argument.
        memory: The memory of the arrays while the kernel may be running.
        cell: Memory of a result without axes, of which each call returns a copy.
    """

    __slots__ = ("_kernels", "cell", "kernel", "memory", "set_address")

    def __init__(self, kernels: Kernels, shape: Shape, dtype: np.dtype[Any]) -> None:
        self._kernels = kernels  # it keeps alive what the other arguments refer to
        bound = kernels.launches[0][0]
        self.kernel, self.set_address = bound.kernel, bound.set_address
        self.memory: Any = None
        self.cell: np.ndarray[Any, Any] | None = None
        if not shape:
            self.cell = np.empty(shape, dtype)
            self.set_address(kernels.places[-1][0][1], cl.SVM(self.cell))


def direct_call(
    state: QueueState,
    arrays: int,
    shape: Shape,
    dtype: np.dtype[Any],
    make: Callable[[], Kernels],
    report: ReportSpec | None,
) -> Callable[..., Any] | None:
    """Return a repeated call as a function of its arrays.

    It is for any thread.  The memory of the arrays stays with the kernel object until the kernel
    has ended, whatever is raised in between: from Python 3.11 on, signal handlers run only in calls
    and in backward jumps.

    Args:
        state: The queue on which the call runs.  It is in order.
        arrays: The number of its arrays.
        shape, dtype: Those of the result.
        make: Makes the call's kernel objects.
        report: Values that kernels write in addition to the result, if any.

    Returns:
        The function, which returns ``None`` for arrays that are read-only: they take the general
        way.  It is ``None`` where the call needs much workspace, where the device takes no host
        addresses, and on Python 3.10.
    """
    if sys.version_info < (3, 11) or not state.engine.takes_host_pointers:
        return None
    kernels = make()
    if kernels.workspaces or not kernels.launches:
        return None
    is_simple = arrays <= 2 and len(kernels.launches) == 1 and report is None
    if not is_simple or any(len(places) != 1 for places in kernels.places):
        return _of_several_launches(state, shape, dtype, kernels, make, report)
    grid, group = kernels.launches[0][0].sizes
    first, *_, last = (places[0][1] for places in kernels.places)
    second = kernels.places[1][0][1]
    queue, in_flight = state.queue, state.in_flight
    idle = [_DirectKernel(kernels, shape, dtype)]
    pop, put_back = idle.pop, idle.append
    svm, empty, enqueue = cl.SVM, np.empty, cl.enqueue_nd_range_kernel

    def of_one_to_number(x: Any) -> Any:
        try:
            memory = svm(x)
        except READ_ONLY as error:
            if is_of_python(error):
                raise
            return None
        try:
            launch = pop()
        except IndexError:  # all are in the middle of a call
            launch = _DirectKernel(make(), shape, dtype)
        launch.memory = memory
        launch.set_address(first, memory)
        try:
            enqueue(queue, launch.kernel, grid, group).wait()
        except BaseException as error:
            in_flight[launch] = None
            state.finish_failed(launch, error)
            raise
        result = launch.cell[()]  # type: ignore[index]
        launch.memory = None
        put_back(launch)
        return result

    def of_one(x: Any) -> Any:
        try:
            memory = svm(x)
            result = empty(shape, dtype)
            target = svm(result)
        except _REFUSALS as error:
            if is_of_python(error):
                raise
            return _refused(error, shape)
        try:
            launch = pop()
        except IndexError:
            launch = _DirectKernel(make(), shape, dtype)
        launch.memory = memory, target
        set_address = launch.set_address
        set_address(first, memory)
        set_address(last, target)
        try:
            enqueue(queue, launch.kernel, grid, group).wait()
        except BaseException as error:
            in_flight[launch] = None
            state.finish_failed(launch, error)
            raise
        launch.memory = None
        put_back(launch)
        return result

    def of_two(x: Any, y: Any) -> Any:
        try:
            memory, other = svm(x), svm(y)
            result = empty(shape, dtype)
            target = svm(result)
        except _REFUSALS as error:
            if is_of_python(error):
                raise
            return _refused(error, shape)
        try:
            launch = pop()
        except IndexError:
            launch = _DirectKernel(make(), shape, dtype)
        launch.memory = memory, other, target
        set_address = launch.set_address
        set_address(first, memory)
        set_address(second, other)
        set_address(last, target)
        try:
            enqueue(queue, launch.kernel, grid, group).wait()
        except BaseException as error:
            in_flight[launch] = None
            state.finish_failed(launch, error)
            raise
        launch.memory = None
        put_back(launch)
        return result if shape else result[()]

    if arrays == 2:
        return of_two
    return of_one if shape else of_one_to_number


def _of_several_launches(
    state: QueueState,
    shape: Shape,
    dtype: np.dtype[Any],
    kernels: Kernels,
    make: Callable[[], Kernels],
    report: ReportSpec | None,
) -> Callable[..., Any]:
    """Return a repeated call of several launches or arrays, or with a report, as a function.

    There is at least one launch.  The queue is in order, so the event of the last one covers all.
    """
    queue, in_flight = state.queue, state.in_flight
    idle = [kernels]
    pop, put_back = idle.pop, idle.append
    svm, empty, enqueue = cl.SVM, np.empty, cl.enqueue_nd_range_kernel

    def of_any(*arrays: Any) -> Any:
        values, memory = None, []
        try:
            result = empty(shape, dtype)
            operands = [*arrays, result]
            if report is not None:
                values = empty(report.shape, report.dtype)
                operands.append(values)
            for array in operands:
                memory.append(svm(array))
        except _REFUSALS as error:
            if is_of_python(error):
                raise
            return _refused(error, shape)
        try:
            kernels = pop()
        except IndexError:  # all are in the middle of a call
            kernels = make()
        for places, address in zip(kernels.places, memory, strict=True):
            for set_argument, index in places:
                set_argument(index, address)
        (*earlier, (last, _)) = kernels.launches
        try:
            for bound, _ in earlier:
                enqueue(queue, bound.kernel, *bound.sizes)
            enqueue(queue, last.kernel, *last.sizes).wait()
        except BaseException as error:
            in_flight[kernels] = operands
            state.finish_failed(kernels, error)
            raise
        put_back(kernels)
        if report is not None and values is not None:
            report.check(values)
        return result if shape else result[()]

    return of_any


def _refused(error: Exception, shape: Shape) -> None:
    """Raise an error for a result without memory; return for arrays that are read-only."""
    if isinstance(error, MemoryError):
        raise no_memory(shape, error) from error
