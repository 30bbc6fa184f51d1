"""A module of LLVM: functions that call each other, and an entry for callers outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from portable_gpu.sparse.loops.instructions import (
    DECLARATIONS,
    Instructions,
    NotTranslatedError,
)
from portable_gpu.sparse.loops.translation import FunctionBody
from portable_gpu.sparse.loops.values import Type, parts_of

Function = Callable[..., Any]


@dataclass(frozen=True)
class Translated:
    """A function in LLVM.

    Attributes:
        name: Its name.
        result: The type of its result in Python.
        parts: LLVM's types of its results: whether memory was short, the parts of the result, and
            for each memory that the caller then owns, or null, the addresses of begin and end.
    """

    name: str
    result: Type
    parts: tuple[str, ...]

    @property
    def struct(self) -> str:
        """LLVM's type of all results."""
        return "{ " + ", ".join(self.parts) + " }"


class TranslationUnit:
    """Translated functions.

    Attributes:
        texts: The text of each function, callees first.
    """

    def __init__(self, functions: frozenset[Function]) -> None:
        """`functions` are those that others may call."""
        self.functions = functions
        self.texts = [DECLARATIONS]
        self._begun: set[tuple[Function, tuple[Type, ...]]] = set()
        self._translated: dict[tuple[Function, tuple[Type, ...]], Translated] = {}

    def translated(self, function: Function, arguments: tuple[Type, ...]) -> Translated:
        """Translate a function for arguments of some types, if it has not been done yet."""
        key = function, arguments
        if key not in self._translated:
            if key in self._begun:
                raise NotTranslatedError(f"{function.__name__} calls itself")
            self._begun.add(key)
            body = FunctionBody(self, function, arguments)
            name = f"{function.__name__}.{len(self._translated)}"
            self._translated[key] = Translated(name, body.result.type, body.parts)
            self.texts.append(body.text(self._translated[key]))
        return self._translated[key]

    def entry(self, name: str, called: Translated, arguments: Sequence[Type]) -> None:
        """Add a function for callers outside of the module, which calls `called`.

        Its arguments are two addresses: of the parts of the arguments and of the results, each of 8
        bytes.
        """
        code = Instructions()
        passed = []
        for k, part in enumerate(part for kind in arguments for part in parts_of(kind)):
            place = code.let(f"getelementptr i64, ptr %arguments, i64 {k}")
            value = code.load("i64" if part == "i1" else part, place)
            passed.append(
                f"{part} {code.let(f'trunc i64 {value} to i1') if part == 'i1' else value}"
            )
        results = code.let(f"call {called.struct} @{called.name}({', '.join(passed)})")
        for k, part in enumerate(called.parts):
            value = code.let(f"extractvalue {called.struct} {results}, {k}")
            place = code.let(f"getelementptr i64, ptr %results, i64 {k}")
            if part == "i1":
                part, value = "i64", code.let(f"zext i1 {value} to i64")
            code.emit(f"store {part} {value}, ptr {place}")
        head = f"define void @{name}(ptr %arguments, ptr %results) {{"
        self.texts.append("\n".join([head, *code.lines, "ret void", "}"]))
