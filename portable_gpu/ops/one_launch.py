"""Plans of one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.runtime.launch import Launch
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState


class OneLaunch(Plan):
    """A plan of one launch, which takes memory of its own, then the operands.

    Its kernel's open scalars are those of the call, then the operands' offsets.
    """

    _launch: Launch
    #: The scalars that it takes, as they are where a call gives none.
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
        """See :meth:`Plan.enqueue`; of more scalars than it takes, the last ones count."""
        takes = self._scalars
        if takes:
            offsets = (*(scalars or takes)[-len(takes) :], *offsets)
        return self._launch(state, self._buffers(state, buffers), offsets, wait_for)
