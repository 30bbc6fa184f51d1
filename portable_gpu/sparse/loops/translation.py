"""Translation of functions from Python to LLVM IR.

Types follow from those of the arguments.  A variable keeps its first type.  Statements are
assignments, ``if``, ``while``, ``for`` over a range or an array of one dimension, and ``return``,
always of one type.  The step of a range is a constant.

A function frees the arrays that it has allocated, except those that it returns, which belong to its
caller.  It allocates outside of loops only.  If memory is short, it frees its arrays and returns
true as its first result, and so do its callers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from portable_gpu.sparse.loops.expressions import Expressions, Function, not_translated
from portable_gpu.sparse.loops.instructions import EXIT, FAILED, NotTranslatedError
from portable_gpu.sparse.loops.values import (
    INTEGER,
    NOTHING,
    ArrayType,
    TupleType,
    Type,
    Value,
    addresses_in,
    items_of,
    parts_of,
)

if TYPE_CHECKING:
    from portable_gpu.sparse.loops.module import Translated, TranslationUnit


class FunctionBody(Expressions):
    """The translation of one function."""

    def __init__(
        self, unit: TranslationUnit, function: Function, arguments: Sequence[Type]
    ) -> None:
        super().__init__(unit, function)
        self._node = _definition(function)
        self._loops: list[_Loop] = []
        self._result: Value | None = None
        self._passed = self._begin(arguments)
        try:
            self._run(self._node.body)
            self.result = self._result or Value(NOTHING, ())
            if self.result.type != NOTHING and self.assigned is not None:
                raise NotTranslatedError("a path without return")
        except NotTranslatedError as error:
            raise NotTranslatedError(
                f"{function.__module__}.{function.__name__}: {error}"
            ) from None
        self._addresses = addresses_in(self.result.type)
        count = len(self.code.memories) if self._addresses else 0
        self.parts = ("i1", *parts_of(self.result.type), *(("ptr", "ptr") * count))

    def _begin(self, arguments: Sequence[Type]) -> list[str]:
        """Define the arguments; return them with their types."""
        assigned = {
            node.id
            for node in ast.walk(self._node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        names = [argument.arg for argument in self._node.args.args]
        if len(names) != len(arguments):
            raise NotTranslatedError(f"{self._node.name} is called with {len(arguments)} arguments")
        kinds = [part for kind in arguments for part in parts_of(kind)]
        parts = [f"%a{k}" for k in range(len(kinds))]
        for name, value in zip(names, items_of(arguments, parts), strict=True):
            if name in assigned:
                self._set_variable(name, value)
            else:
                self.arguments[name] = value
        return list(map(" ".join, zip(kinds, parts, strict=True)))

    def text(self, made: Translated) -> str:
        """Return the function's text."""
        code = self.code
        code.jump(EXIT)
        code.begin(FAILED)
        code.free_all()
        values = ["i1 true", *(f"{part} zeroinitializer" for part in made.parts[1:])]
        code.emit(f"ret {made.struct} {{ {', '.join(values)} }}")
        code.begin(EXIT)
        parts = list(code.read(self.result).parts)
        if self._addresses:
            parts += code.free_others([parts[k] for k in self._addresses])
        else:
            code.free_all()
        results = "poison"
        for k, part in enumerate(["false", *parts]):
            results = code.let(f"insertvalue {made.struct} {results}, {made.parts[k]} {part}, {k}")
        code.emit(f"ret {made.struct} {results}")
        head = f"define internal {made.struct} @{made.name}({', '.join(self._passed)}) {{"
        return "\n".join([head, *code.variables, *code.lines, "}"])

    # ---------------------------------------------------------------- statements

    def _run(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            method = getattr(self, f"_run_{type(statement).__name__.lower()}", None)
            if method is None:
                raise not_translated(statement)
            method(statement)

    def _run_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    def _run_assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _run_augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            array, address = self.array_and_address(node.target)
            old = self.code.element(array, address)
            new = self.code.binary(node.op, old, self.value(node.value))
            self.code.set_element(array, address, new)
        elif isinstance(node.target, ast.Name):
            old = self.local_value(node.target)
            new = self.code.binary(node.op, old, self.value(node.value))
            self._set_variable(node.target.id, new)
        else:
            raise not_translated(node)

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._set_variable(target.id, value)
        elif isinstance(target, ast.Subscript):
            self.code.set_element(*self.array_and_address(target), value)
        elif isinstance(target, ast.Tuple) and isinstance(value.type, TupleType):
            if len(target.elts) != len(value.type.types):
                raise not_translated(target)
            items = items_of(value.type.types, value.parts)
            for element, item in zip(target.elts, items, strict=True):
                self._assign(element, item)
        else:
            raise not_translated(target)

    def _set_variable(self, name: str, value: Value) -> None:
        if name not in self.variables:
            self.variables[name] = self.code.variable(value.type)
        self.code.write(self.variables[name], value)
        if self.assigned is not None:
            self.assigned.add(name)

    def _run_if(self, node: ast.If) -> None:
        yes, no, end = self.code.labels(3)
        self.code.branch(self.truth(node.test), yes, no)
        before, ends = self.assigned, []
        for label, body in ((yes, node.body), (no, node.orelse)):
            self.assigned = None if before is None else {*before}
            self.code.begin(label)
            self._run(body)
            self.code.jump(end)
            if self.assigned is not None:
                ends.append(self.assigned)
        self.assigned = set.intersection(*ends) if ends else None
        self.code.begin(end)

    def _run_while(self, node: ast.While) -> None:
        test, body, end = self.code.labels(3)
        self.code.jump(test)
        self.code.begin(test)
        with self._loop(node, test, end):
            self.code.branch(self.truth(node.test), body, end)
            self.code.begin(body)
            self._run(node.body)
        self.code.jump(test)
        self.code.begin(end)

    def _run_for(self, node: ast.For) -> None:
        if isinstance(node.iter, ast.Call) and self.object_of(node.iter.func) is range:
            if not 1 <= len(node.iter.args) <= 3:
                raise not_translated(node.iter)
            bounds = ["0", *(self.integer(bound) for bound in node.iter.args[:2])]
            step = self._step(node.iter.args[2]) if len(node.iter.args) > 2 else 1
            with (
                self.code.counted(bounds[-2], bounds[-1], step) as (k, following, end),
                self._loop(node, following, end),
            ):
                self._assign(node.target, Value(INTEGER, (k,)))
                self._run(node.body)
            return
        array = self.value(node.iter)
        if not (isinstance(array.type, ArrayType) and array.type.dimensions == 1):
            raise not_translated(node.iter)
        with (
            self.code.counted("0", array.parts[1]) as (k, following, end),
            self._loop(node, following, end),
        ):
            self._assign(node.target, self.code.element(array, self.code.at(array, k)))
            self._run(node.body)

    def _step(self, node: ast.expr) -> int:
        step = self.integer(node)
        if step.startswith("%") or step == "0":
            raise not_translated(node)
        return int(step)

    @contextmanager
    def _loop(self, node: ast.For | ast.While, following: str, end: str) -> Iterator[None]:
        if node.orelse:
            raise not_translated(node)
        memories = len(self.code.memories)
        before = None if self.assigned is None else {*self.assigned}
        self._loops.append(_Loop(following, end))
        yield
        is_endless = isinstance(node, ast.While) and _is_true(node.test)
        self.assigned = None if is_endless and not self._loops[-1].has_break else before
        self._loops.pop()
        if len(self.code.memories) > memories:
            raise NotTranslatedError(f"an allocation in the loop of line {node.lineno}")

    def _run_break(self, _: ast.Break) -> None:
        self._loops[-1].has_break = True
        self._leave(self._loops[-1].end)

    def _run_continue(self, _: ast.Continue) -> None:
        self._leave(self._loops[-1].following)

    def _run_return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value else Value(NOTHING, ())
        if self._result is None:
            self._result = self.code.variable(value.type)
        self.code.write(self._result, value)
        self._leave(EXIT)

    def _leave(self, label: str) -> None:
        """Jump, and begin a block for statements that are never reached."""
        self.code.jump(label)
        self.code.begin(*self.code.labels(1))
        self.assigned = None


@dataclass
class _Loop:
    """A loop that is translated, with the labels of ``continue`` and ``break``."""

    following: str
    end: str
    has_break: bool = False


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and test.value is True


@cache
def _functions_in(path: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """Return the functions in a file, by name and first line."""
    return {
        (node.name, min([node.lineno, *(line.lineno for line in node.decorator_list)])): node
        for node in ast.walk(ast.parse(Path(path).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def _definition(function: Function) -> ast.FunctionDef:
    code = function.__code__
    definition = _functions_in(code.co_filename).get((code.co_name, code.co_firstlineno))
    if definition is None:
        raise NotTranslatedError(f"{code.co_name} is not in {code.co_filename} any more")
    return definition
