"""Translation of functions from Python to LLVM's text.

Types follow from those of the arguments.  A variable keeps its first type.

* Statements are assignments, ``if``, ``while``, ``for`` over a range or an array of one dimension,
  and ``return``, always of one type.
* An index is not checked, and counts from the begin, as do the bounds of a slice.  Elements and
  numbers of small types become ``int64`` or ``float64`` when they are read.
* Calls are of the functions in :data:`BUILTINS` and :data:`ALLOCATIONS`, of classes of named
  tuples, of ``copy`` of an array, and of other functions of the module, which do not call
  themselves.
* Other global names are constants.

A function frees the arrays that it has allocated, except those that it returns, which belong to its
caller.  It allocates outside of loops only.  If memory is short, it frees its arrays and returns
true as its first result, and so do its callers.
"""

from __future__ import annotations

import ast
import builtins
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.sparse.loops.functions import ALLOCATIONS, BUILTINS
from portable_gpu.sparse.loops.instructions import (
    EXIT,
    FAILED,
    Instructions,
    NotTranslatedError,
)
from portable_gpu.sparse.loops.values import (
    FLOAT,
    INTEGER,
    NOTHING,
    TRUTH,
    ArrayType,
    TupleType,
    Type,
    Value,
    addresses_in,
    items_of,
    parts_of,
    tuple_of,
)

if TYPE_CHECKING:
    from portable_gpu.sparse.loops.module import Translated, TranslationUnit

Function = Callable[..., Any]


class FunctionBody:
    """The translation of one function."""

    def __init__(
        self, module: TranslationUnit, function: Function, arguments: Sequence[Type]
    ) -> None:
        self._module = module
        self._globals = function.__globals__
        self._node = _definition(function)
        self._code = Instructions()
        self._arguments: dict[str, Value] = {}  # those that are never assigned
        self._variables: dict[str, Value] = {}
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
        count = len(self._code.memories) if self._addresses else 0
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
                self._arguments[name] = value
        return list(map(" ".join, zip(kinds, parts, strict=True)))

    def text(self, made: Translated) -> str:
        """Return the function's text."""
        code = self._code
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
                raise _unsupported(statement)
            method(statement)

    def _run_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self._value(node.value)

    def _run_assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _run_augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            array, address = self._place(node.target)
            old = self._code.element(array, address)
            new = self._code.binary(node.op, old, self._value(node.value))
            self._code.set_element(array, address, new)
        elif isinstance(node.target, ast.Name):
            old = self._named_value(node.target)
            new = self._code.binary(node.op, old, self._value(node.value))
            self._set_variable(node.target.id, new)
        else:
            raise _unsupported(node)

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._set_variable(target.id, value)
        elif isinstance(target, ast.Subscript):
            self._code.set_element(*self._place(target), value)
        elif isinstance(target, ast.Tuple) and isinstance(value.type, TupleType):
            items = items_of(value.type.types, value.parts)
            for each, item in zip(target.elts, items, strict=True):
                self._assign(each, item)
        else:
            raise _unsupported(target)

    def _set_variable(self, name: str, value: Value) -> None:
        if name not in self._variables:
            self._variables[name] = self._code.variable(value.type)
        self._code.write(self._variables[name], value)

    def _run_if(self, node: ast.If) -> None:
        yes, no, end = self._code.labels(3)
        self._code.branch(self._truth(node.test), yes, no)
        for label, body in ((yes, node.body), (no, node.orelse)):
            self._code.begin(label)
            self._run(body)
            self._code.jump(end)
        self._code.begin(end)

    def _run_while(self, node: ast.While) -> None:
        test, body, end = self._code.labels(3)
        self._code.jump(test)
        self._code.begin(test)
        with self._loop(node, test, end):
            self._code.branch(self._truth(node.test), body, end)
            self._code.begin(body)
            self._run(node.body)
        self._code.jump(test)
        self._code.begin(end)

    def _run_for(self, node: ast.For) -> None:
        if isinstance(node.iter, ast.Call) and self._object(node.iter.func) is range:
            bounds = ["0", *(self._integer(bound) for bound in node.iter.args[:2])]
            step = ast.literal_eval(node.iter.args[2]) if len(node.iter.args) > 2 else 1
            with self._code.counted(bounds[-2], bounds[-1], step) as (k, following, end):
                self._assign(node.target, Value(INTEGER, (k,)))
                with self._loop(node, following, end):
                    self._run(node.body)
            return
        array = self._value(node.iter)
        if not (isinstance(array.type, ArrayType) and array.type.dimensions == 1):
            raise _unsupported(node.iter)
        with self._code.counted("0", array.parts[1]) as (k, following, end):
            self._assign(node.target, self._code.element(array, self._code.at(array, k)))
            with self._loop(node, following, end):
                self._run(node.body)

    @contextmanager
    def _loop(self, node: ast.For | ast.While, following: str, end: str) -> Iterator[None]:
        if node.orelse:
            raise _unsupported(node)
        before = len(self._code.memories)
        self._loops.append((following, end))
        yield
        self._loops.pop()
        if len(self._code.memories) > before:
            raise NotTranslatedError(f"an allocation in the loop of line {node.lineno}")

    def _run_break(self, _: ast.Break) -> None:
        self._leave(self._loops[-1][1])

    def _run_continue(self, _: ast.Continue) -> None:
        self._leave(self._loops[-1][0])

    def _run_return(self, node: ast.Return) -> None:
        value = self._value(node.value) if node.value else Value(NOTHING, ())
        if self._result is None:
            self._result = self._code.variable(value.type)
        self._code.write(self._result, value)
        self._leave(EXIT)

    def _leave(self, label: str) -> None:
        """Jump, and begin a block for statements that are never reached."""
        self._code.jump(label)
        self._code.begin(*self._code.labels(1))

    # ---------------------------------------------------------------- expressions

    def _value(self, node: ast.expr) -> Value:
        method = getattr(self, f"_value_{type(node).__name__.lower()}", None)
        if method is None:
            raise _unsupported(node)
        value: Value = method(node)
        return value

    def _integer(self, node: ast.expr) -> str:
        return self._code.part(self._value(node), INTEGER)

    def _truth(self, node: ast.expr) -> str:
        return self._code.truth(self._value(node))

    def _value_constant(self, node: ast.Constant) -> Value:
        return _constant(node, node.value)

    def _value_name(self, node: ast.Name) -> Value:
        if node.id in self._arguments or node.id in self._variables:
            return self._named_value(node)
        return _constant(node, self._globals.get(node.id))

    def _named_value(self, node: ast.Name) -> Value:
        if node.id in self._arguments:
            return self._arguments[node.id]
        if node.id not in self._variables:
            raise _unsupported(node)
        return self._code.read(self._variables[node.id])

    def _value_tuple(self, node: ast.Tuple) -> Value:
        return tuple_of(None, [self._value(item) for item in node.elts])

    def _value_attribute(self, node: ast.Attribute) -> Value:
        variable = self._variables.get(node.value.id) if isinstance(node.value, ast.Name) else None
        whole = variable or self._value(node.value)
        if not (
            isinstance(whole.type, TupleType)
            and node.attr in getattr(whole.type.kind, "_fields", ())
        ):
            raise _unsupported(node)
        index = whole.type.kind._fields.index(node.attr)
        item = list(items_of(whole.type.types, whole.parts))[index]
        return item if variable is None else self._code.read(item)

    def _value_subscript(self, node: ast.Subscript) -> Value:
        if not isinstance(node.slice, ast.Slice):
            return self._code.element(*self._place(node))
        array = self._value(node.value)
        if (
            not (isinstance(array.type, ArrayType) and array.type.dimensions == 1)
            or node.slice.step
        ):
            raise _unsupported(node)
        begin, end = node.slice.lower, node.slice.upper
        address, length = array.parts
        if end is not None:
            length = self._integer(end)
        if begin is not None:
            first = self._integer(begin)
            address = self._code.at(array, first)
            length = self._code.let(f"sub i64 {length}, {first}")
        return Value(array.type, (address, length))

    def _place(self, node: ast.Subscript) -> tuple[Value, str]:
        """Return an array, and the address of the element that is named."""
        array = self._value(node.value)
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not isinstance(array.type, ArrayType) or len(indices) != array.type.dimensions:
            raise _unsupported(node)
        k = self._integer(indices[0])
        for extent, index in zip(array.parts[2:], indices[1:], strict=True):
            row = self._code.let(f"mul i64 {k}, {extent}")
            k = self._code.let(f"add i64 {row}, {self._integer(index)}")
        return array, self._code.at(array, k)

    def _value_unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(TRUTH, (self._code.let(f"xor i1 {self._truth(node.operand)}, true"),))
        if not isinstance(node.op, ast.USub):
            raise _unsupported(node)
        kind, (part,) = self._code.numbers(self._value(node.operand))
        negative = f"fneg double {part}" if kind == FLOAT else f"sub i64 0, {part}"
        return Value(kind, (self._code.let(negative),))

    def _value_binop(self, node: ast.BinOp) -> Value:
        return self._code.binary(node.op, self._value(node.left), self._value(node.right))

    def _value_compare(self, node: ast.Compare) -> Value:
        if len(node.ops) > 1:
            raise _unsupported(node)
        first, second = self._value(node.left), self._value(node.comparators[0])
        return self._code.compared(node.ops[0], first, second)

    def _value_boolop(self, node: ast.BoolOp) -> Value:
        """The truth value; operands behind the one that decides are not evaluated."""
        result = self._code.variable(TRUTH)
        following, end = self._code.labels(2)
        for operand in node.values:
            truth = self._truth(operand)
            self._code.write(result, Value(TRUTH, (truth,)))
            both = (following, end) if isinstance(node.op, ast.And) else (end, following)
            self._code.branch(truth, *both)
            self._code.begin(following)
            (following,) = self._code.labels(1)
        self._code.jump(end)
        self._code.begin(end)
        return self._code.read(result)

    def _value_ifexp(self, node: ast.IfExp) -> Value:
        yes, no, end = self._code.labels(3)
        self._code.branch(self._truth(node.test), yes, no)
        self._code.begin(yes)
        value = self._value(node.body)
        result = self._code.variable(value.type)
        self._code.write(result, value)
        self._code.jump(end)
        self._code.begin(no)
        self._code.write(result, self._value(node.orelse))
        self._code.jump(end)
        self._code.begin(end)
        return self._code.read(result)

    # ---------------------------------------------------------------- calls

    def _object(self, node: ast.expr) -> Any:
        """Return the global object that an expression names, or None."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self._globals.get(node.value.id)
            return getattr(module, node.attr, None) if module in (np, math) else None
        if not isinstance(node, ast.Name) or node.id in {*self._variables, *self._arguments}:
            return None
        return self._globals.get(node.id, getattr(builtins, node.id, None))

    def _value_call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy":
            return self._copied(self._value(node.func.value), node)
        function = self._object(node.func)
        if function in ALLOCATIONS:
            return self._allocated(function, node)
        arguments = [self._value(argument) for argument in node.args]
        if node.keywords:
            raise _unsupported(node)
        if function in BUILTINS:
            return BUILTINS[function](self._code, *arguments)
        if hasattr(function, "_fields"):
            return tuple_of(function, arguments)
        if function not in self._module.functions:
            raise _unsupported(node)
        return self._called(function, arguments)

    def _called(self, function: Function, arguments: Sequence[Value]) -> Value:
        all_arguments = tuple_of(None, arguments)
        made = self._module.translated(function, tuple(value.type for value in arguments))
        passed = map(" ".join, zip(parts_of(all_arguments.type), all_arguments.parts, strict=True))
        results = self._code.let(f"call {made.struct} @{made.name}({', '.join(passed)})")
        failed, *parts = (
            self._code.let(f"extractvalue {made.struct} {results}, {k}")
            for k in range(len(made.parts))
        )
        self._code.fail_if(failed)
        count = len(parts_of(made.result))
        for begin, end in zip(parts[count::2], parts[count + 1 :: 2], strict=True):
            self._code.register(begin, end)
        return Value(made.result, tuple(parts[:count]))

    def _allocated(self, function: Any, node: ast.Call) -> Value:
        """Allocate an array as NumPy's function does; ``empty`` makes zeros."""
        arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "dtype")]
        if len(arguments) != len(node.args) + len(node.keywords):
            raise _unsupported(node)
        try:
            dtype = np.dtype(self._object(arguments[-1])).name
            count, *values = map(self._value, arguments[:-1])
            return ALLOCATIONS[function](
                self._code, dtype, self._code.part(count, INTEGER), *values
            )
        except (TypeError, KeyError):  # the number of arguments, or the dtype
            raise _unsupported(node) from None

    def _copied(self, array: Value, node: ast.Call) -> Value:
        if not (isinstance(array.type, ArrayType) and array.type.dimensions == 1):
            raise _unsupported(node)
        code = self._code
        return code.filled(
            array.type.dtype, array.parts[1], lambda k: code.element(array, code.at(array, k))
        )


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


def _unsupported(node: ast.AST) -> NotTranslatedError:
    return NotTranslatedError(f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node)}")


def _constant(node: ast.AST, value: Any) -> Value:
    if isinstance(value, bool):
        return Value(TRUTH, (str(value).lower(),))
    if isinstance(value, int):
        return Value(INTEGER, (str(value),))
    if isinstance(value, float):
        return Value(FLOAT, (f"0x{struct.pack('>d', value).hex()}",))
    raise _unsupported(node)
