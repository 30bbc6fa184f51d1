"""Plans of one launch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import add
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState


class OneLaunch(Plan):
    """A plan of one launch.

    Each launch passes the operands with their offsets, and the scalars of the call.  The plan adds
    its tables, and the workspaces, counters and partial sums of the queue.
    """

    def __init__(
        self,
        engine: Engine,
        spec: Specialization,
        kernel: str,
        constants: Mapping[str, Any],
        operands: Sequence[str],
        grid: tuple[int, ...],
        group: tuple[int, ...],
        *,
        offsets: Sequence[str] | None = None,
        starts: Sequence[int] = (),
        scalars: Mapping[str, Any] | None = None,
        convert: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None,
        as_bits: Collection[str] = (),
        tables: Mapping[str, np.ndarray[Any, Any] | cl.Buffer] | None = None,
        workspaces: Mapping[str, int] | None = None,
        counters: int = 0,
        partials: int = 0,
        flop: int = 0,
        nbytes: int = 0,
    ) -> None:
        """Build the kernel, and upload its tables.

        Args:
            engine: The engine.
            spec, kernel: The specialization, and the name of the kernel.
            constants: The scalar arguments that are the same in all launches.
            operands: The names of the parameters of the operands.
            grid, group: The work-items of the launch, and of a work-group, along each axis.
            offsets: The names of the parameters of the operands' offsets; ``<name>_offset`` by
                default.
            starts: Elements to add to the offset of each operand; 0 by default.
            scalars: The names of the scalar parameters and their default values.  A call passes
                none of them or all, after any others.
            convert: Converts the scalars that a call passes to those of the kernel.
            as_bits: Scalars that are passed as unsigned integers with the same bits.
            tables: Buffers that are the same in all launches, by the names of the parameters;
                arrays are uploaded.
            workspaces: Bytes of each buffer of workspace, by the names of the parameters; one of
                0 bytes has no parameter.
            counters: The number of counters, the kernel's ``counters``, which are zero before the
                launch, and which the kernel leaves at zero.
            partials: Bytes for sums of work-groups that share a result, the kernel's ``partial``;
                they need counters.
            flop, nbytes: See :class:`Plan`.

        Raises:
            BuildError: The driver refused the kernel.
            DeviceMemoryError: A table does not fit.
        """
        workspaces = {name: size for name, size in (workspaces or {}).items() if size}
        self.flop, self.bytes = flop, nbytes
        self.workspace_bytes = sum(workspaces.values()) + partials
        self._workspaces = tuple(workspaces.values())
        self._counters, self._partials = counters, partials
        tables, scalars = tables or {}, scalars or {}
        self._scalars, self._convert = tuple(scalars.values()), convert
        self._starts = starts if any(starts) else ()
        offsets = [f"{name}_offset" for name in operands] if offsets is None else offsets
        arrays = {name: x for name, x in tables.items() if isinstance(x, np.ndarray)}
        self.kept_bytes = sum(array.nbytes for array in arrays.values())
        buffers = [
            *workspaces,
            *operands,
            *(["partial"] if partials else []),
            *(["counters"] if counters else []),
        ]
        self._launch = engine.programs.launch(
            spec, kernel, constants, buffers,
            [*scalars, *offsets], grid, group,
            as_bits=as_bits,
            bound={**tables, **{name: engine.upload(array) for name, array in arrays.items()}},
        )  # fmt: skip

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`.

        If a call passes more scalars than the kernel has, the last are used.
        """
        defaults, convert = self._scalars, self._convert
        if convert is not None and scalars:
            scalars = convert(scalars)
        if self._starts:
            offsets = tuple(map(add, offsets, self._starts))
        if defaults:
            offsets = (*(scalars or defaults)[-len(defaults) :], *offsets)
        if self._workspaces:
            buffers = (*map(state.workspace, self._workspaces), *buffers)
        if self._counters:
            counters, partials = state.counters_and_partials(self._counters, self._partials)
            buffers = (*buffers, *([partials] if self._partials else []), counters)
        return self._launch(state, buffers, offsets, wait_for)
