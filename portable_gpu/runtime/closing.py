"""What is closed at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

_C = TypeVar("_C", bound="Closing")


class Closing(ABC):
    """Has a ``close``, which a ``with`` block ends with."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what it keeps."""

    def __enter__(self: _C) -> _C:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
