"""A call of a public function as plain data, so that another process can make it.

A process of another revision loads this module by its path (:mod:`portable_gpu.bench.revisions`):
it uses nothing of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

#: The stages of the epilogues of calls that read an array.
_READING = {"add", "bias"}


@dataclass(frozen=True)
class PublicCall:
    """A call of a public function.

    Attributes:
        function: The name of the function in the package: ``sum``, ``fft.fftn``.
        options: The arguments that are passed by keyword.
        leading: The arguments that are passed before the arrays.
        names: Keywords of the arrays; empty where they are passed by position.
        transposed: A letter for each operand: T where the last two axes of its array are exchanged
            before the call, L where the last axis becomes the second one (images whose channels
            are adjacent); empty where none are.  A single array is all operands.
        changes_arrays: Whether the call changes its arrays, which are copied before.
        epilogue: The stages of its epilogue: methods of ``Epilogue``.  The last operands are the
            arrays of those that read one.
        into: Keyword, shape and dtype of the array that is passed for the result, if any.
    """

    function: str
    options: Mapping[str, Any] = field(default_factory=dict)
    leading: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    transposed: str = ""
    changes_arrays: bool = False
    epilogue: tuple[str, ...] = ()
    into: tuple[str, tuple[int, ...], str] | None = None

    def bind(self, package: Any, arrays: Sequence[Any], engine: Any) -> Callable[[], Any]:
        """The call on some arrays of NumPy, or of the device.

        Args:
            package: ``portable_gpu``, of this revision or another one.
            arrays: The operands.
            engine: One of the package's.
        """
        flags = self.transposed or "N" * len(arrays)
        arrays = arrays if len(arrays) > 1 else [*arrays] * len(flags)
        operands = [_moved(x, letter) for x, letter in zip(arrays, flags, strict=True)]
        if self.changes_arrays:
            operands = [x.copy() for x in operands]
        options = {**self.options, "engine": engine}
        if self.into is not None:
            keyword, shape, dtype = self.into
            out = np.zeros(shape, dtype)
            on_host = isinstance(arrays[0], np.ndarray)
            options[keyword] = out if on_host else package.asarray(out, engine=engine)
        if self.epilogue:
            reading = sum(stage in _READING for stage in self.epilogue)
            read = iter(operands[len(operands) - reading :])
            operands = operands[: len(operands) - reading]
            epilogue = package.Epilogue()
            for stage in self.epilogue:
                arguments = (next(read),) if stage in _READING else ()
                epilogue = getattr(epilogue, stage)(*arguments)
            options["epilogue"] = epilogue
        if self.names:
            options |= dict(zip(self.names, operands, strict=True))
            operands = []
        return partial(attrgetter(self.function)(package), *self.leading, *operands, **options)


def _moved(x: Any, letter: str) -> Any:
    """The axes of an array in another order, of NumPy arrays and of the device's."""
    last = x.ndim - 1
    if letter == "T":
        return x.transpose((*range(last - 1), last, last - 1))
    return x.transpose((0, last, *range(1, last))) if letter == "L" else x
