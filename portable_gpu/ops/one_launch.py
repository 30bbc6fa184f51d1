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
    its tables, and memory of the queue: workspaces, and counters.
    """

    def __init__(
        self,
        engine: Engine,
        text: Specialization,
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
            text, kernel: The text, and the name of the kernel.
            constants: The scalar arguments that are the same in all launches.
            operands: The names of the parameters of the operands.
            grid, group: Work-items, and those of a work-group, along each axis.
            offsets: Those of their offsets; ``<name>_offset`` by default.
            starts: Elements to add to the offset of each operand, if not 0.
            scalars: The last scalars of a call, by the names of the parameters; the values are used
                if the call passes none.
            convert: Makes these scalars of those of a call, if they are others.
            as_bits: Scalars that are passed as unsigned integers with the same bits.
            tables: Constant buffers, by the names of the parameters; arrays are uploaded.
            workspaces: Bytes of each piece of workspace, by the names of the parameters; a piece of
                0 bytes has no parameter.
            counters: The number of counters, the kernel's ``counters``, which are zero before and
                after the launch.
            partials: Bytes for sums of work-groups that share a result, the kernel's ``partial``.
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
            text, kernel, constants, buffers,
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
        """See :meth:`Plan.enqueue`; of more scalars than needed, the last are used."""
        takes, convert = self._scalars, self._convert
        if convert is not None and scalars:
            scalars = convert(scalars)
        if self._starts:
            offsets = tuple(map(add, offsets, self._starts))
        if takes:
            offsets = (*(scalars or takes)[-len(takes) :], *offsets)
        if self._workspaces:
            buffers = (*map(state.workspace, self._workspaces), *buffers)
        if self._counters:
            counters, partials = state.counters_and_partials(self._counters, self._partials)
            buffers = (*buffers, *([partials] if self._partials else []), counters)
        return self._launch(state, buffers, offsets, wait_for)
