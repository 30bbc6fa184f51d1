"""Plans of one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.runtime.launch import Launch
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState


class OneLaunch(Plan):
    """A plan of one launch.

    The buffers of its kernel are the plan's workspace, if it has one, and the operands, in this
    order.  The scalars that each launch passes are those of the call, and the operands' offsets.
    """

    _launch: Launch
    #: The values of the call's scalars if a call passes none; their number is that of the kernel.
    _scalars: tuple[Any, ...] = ()

    def _buffers(self, state: QueueState, operands: Sequence[Any]) -> Sequence[Any]:
        """The kernel's buffers: the workspace, if it needs one, and the operands."""
        if not self.workspace_bytes:
            return operands
        return state.workspace(self.workspace_bytes), *operands

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`; of more scalars than needed, the last are used."""
        takes = self._scalars
        if takes:
            offsets = (*(scalars or takes)[-len(takes) :], *offsets)
        return self._launch(state, self._buffers(state, buffers), offsets, wait_for)
