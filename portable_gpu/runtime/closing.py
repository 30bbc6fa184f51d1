"""Objects that are closed at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

_C = TypeVar("_C", bound="Closing")


class Closing(ABC):
    """A class with ``close``, which is called at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """Free its memory and other resources."""

    def __enter__(self: _C) -> _C:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
