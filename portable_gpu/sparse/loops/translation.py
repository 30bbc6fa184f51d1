"""Translation of functions from Python to LLVM's text.

Types follow from those of the arguments.  A variable keeps its first type.  Statements are
assignments, ``if``, ``while``, ``for`` over a range or an array of one dimension, and ``return``,
always of one type.

A function frees the arrays that it has allocated, except those that it returns, which belong to its
caller.  It allocates outside of loops only.  If memory is short, it frees its arrays and returns
true as its first result, and so do its callers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
        self._loops: list[tuple[str, str]] = []  # the labels of `continue` and `break`
        self._result: Value | None = None
        self._passed = self._begin(arguments)
        try:
            self._run(self._node.body)
        except NotTranslatedError as error:
            raise NotTranslatedError(
                f"{function.__module__}.{function.__name__}: {error}"
            ) from None
        self.result = self._result or Value(NOTHING, ())
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
            array, address = self.place(node.target)
            old = self.code.element(array, address)
            new = self.code.binary(node.op, old, self.value(node.value))
            self.code.set_element(array, address, new)
        elif isinstance(node.target, ast.Name):
            old = self.named_value(node.target)
            new = self.code.binary(node.op, old, self.value(node.value))
            self._set_variable(node.target.id, new)
        else:
            raise not_translated(node)

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._set_variable(target.id, value)
        elif isinstance(target, ast.Subscript):
            self.code.set_element(*self.place(target), value)
        elif isinstance(target, ast.Tuple) and isinstance(value.type, TupleType):
            items = items_of(value.type.types, value.parts)
            for each, item in zip(target.elts, items, strict=True):
                self._assign(each, item)
        else:
            raise not_translated(target)

    def _set_variable(self, name: str, value: Value) -> None:
        if name not in self.variables:
            self.variables[name] = self.code.variable(value.type)
        self.code.write(self.variables[name], value)

    def _run_if(self, node: ast.If) -> None:
        yes, no, end = self.code.labels(3)
        self.code.branch(self.truth(node.test), yes, no)
        for label, body in ((yes, node.body), (no, node.orelse)):
            self.code.begin(label)
            self._run(body)
            self.code.jump(end)
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
            bounds = ["0", *(self.integer(bound) for bound in node.iter.args[:2])]
            step = ast.literal_eval(node.iter.args[2]) if len(node.iter.args) > 2 else 1
            with self.code.counted(bounds[-2], bounds[-1], step) as (k, following, end):
                self._assign(node.target, Value(INTEGER, (k,)))
                with self._loop(node, following, end):
                    self._run(node.body)
            return
        array = self.value(node.iter)
        if not (isinstance(array.type, ArrayType) and array.type.dimensions == 1):
            raise not_translated(node.iter)
        with self.code.counted("0", array.parts[1]) as (k, following, end):
            self._assign(node.target, self.code.element(array, self.code.at(array, k)))
            with self._loop(node, following, end):
                self._run(node.body)

    @contextmanager
    def _loop(self, node: ast.For | ast.While, following: str, end: str) -> Iterator[None]:
        if node.orelse:
            raise not_translated(node)
        before = len(self.code.memories)
        self._loops.append((following, end))
        yield
        self._loops.pop()
        if len(self.code.memories) > before:
            raise NotTranslatedError(f"an allocation in the loop of line {node.lineno}")

    def _run_break(self, _: ast.Break) -> None:
        self._leave(self._loops[-1][1])

    def _run_continue(self, _: ast.Continue) -> None:
        self._leave(self._loops[-1][0])

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
