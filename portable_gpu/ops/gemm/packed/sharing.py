"""Products that follow each other and have an operand in common, which is packed once for all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SharedOperand:
    """An operand of several products.

    Attributes:
        name: ``"a"`` or ``"b"``.
        packed: The memory of the packed operand, by the queue, the operand's memory and the layout.
    """

    name: str
    packed: dict[Hashable, Any] = field(default_factory=dict)


_shared: ContextVar[SharedOperand | None] = ContextVar("shared", default=None)


def shared_operand() -> SharedOperand | None:
    """Return the operand that all products of the calling thread have in common now, if any."""
    return _shared.get()


@contextmanager
def packed_once(name: str) -> Iterator[None]:
    """Declare that all products in a ``with`` block have an operand in common.

    Packed products that are not repeated calls then pack it once for each queue and layout.  The
    values in its memory must not change meanwhile.

    Args:
        name: The operand: ``"a"`` or ``"b"``.
    """
    before = _shared.get()
    try:
        _shared.set(SharedOperand(name))
        yield
    finally:
        _shared.set(before)
