"""Translation of expressions from Python to LLVM's text.

* An index is not checked, and counts from the begin, as do the bounds of a slice.  A divisor of an
  integer is not checked, and is never zero.  Elements and numbers of small types become ``int64``
  or ``float64`` when they are read.  Arithmetic of integers wraps at 64 bits.
* Operands of ``and`` and ``or`` are truth values, or the result is a condition.  Truth values are
  no operands of arithmetic with each other, where NumPy's differ from Python's.
* Calls are of the functions in :data:`BUILTINS` and :data:`ALLOCATIONS`, of classes of named
  tuples, of ``copy`` of an array, and of other functions of the unit, which do not call themselves.
* A local name has a value on each path to its use.  Other global names are constants.
"""

from __future__ import annotations

import ast
import builtins
import math
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.sparse.loops.functions import ALLOCATIONS, BUILTINS
from portable_gpu.sparse.loops.instructions import Instructions, NotTranslatedError
from portable_gpu.sparse.loops.values import (
    FLOAT,
    INTEGER,
    TRUTH,
    ArrayType,
    TupleType,
    Value,
    items_of,
    parts_of,
    tuple_of,
)

if TYPE_CHECKING:
    from portable_gpu.sparse.loops.module import TranslationUnit

Function = Callable[..., Any]


class Expressions:
    """The translation of a function's expressions.

    Attributes:
        code: The instructions of the function.
        arguments: The arguments that are never assigned.
        variables: The variables that have a type already.
        assigned: The names of those that have a value on each path to this place, or None if no
            path leads to it.
    """

    def __init__(self, unit: TranslationUnit, function: Function) -> None:
        self._unit = unit
        self._globals = function.__globals__
        code = function.__code__
        self._locals = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        self.code = Instructions()
        self.arguments: dict[str, Value] = {}
        self.variables: dict[str, Value] = {}
        self.assigned: set[str] | None = set()

    def value(self, node: ast.expr) -> Value:
        """Translate an expression."""
        method = getattr(self, f"_value_{type(node).__name__.lower()}", None)
        if method is None:
            raise not_translated(node)
        value: Value = method(node)
        return value

    def integer(self, node: ast.expr) -> str:
        """Return the operand of an integer."""
        return self.code.part(self.value(node), INTEGER)

    def truth(self, node: ast.expr) -> str:
        """Return the operand of a truth value."""
        if isinstance(node, ast.BoolOp):
            return self._decided(node, self.truth).parts[0]
        return self.code.truth(self.value(node))

    def _value_constant(self, node: ast.Constant) -> Value:
        return _constant(node, node.value)

    def _value_name(self, node: ast.Name) -> Value:
        if node.id in self._locals:
            return self.named_value(node)
        return _constant(node, self._globals.get(node.id))

    def named_value(self, node: ast.Name) -> Value:
        """Return the value of an argument or a variable."""
        if node.id in self.arguments:
            return self.arguments[node.id]
        return self.code.read(self._variable(node))

    def _variable(self, node: ast.Name) -> Value:
        """Return a variable, which has a value."""
        is_assigned = self.assigned is None or node.id in self.assigned
        if node.id not in self.variables or not is_assigned:
            raise not_translated(node)
        return self.variables[node.id]

    def _value_tuple(self, node: ast.Tuple) -> Value:
        return tuple_of(None, [self.value(item) for item in node.elts])

    def _value_attribute(self, node: ast.Attribute) -> Value:
        named = node.value
        variable = None
        if isinstance(named, ast.Name) and named.id in self.variables:
            variable = self._variable(named)
        whole = variable or self.value(node.value)
        if not (
            isinstance(whole.type, TupleType)
            and node.attr in getattr(whole.type.kind, "_fields", ())
        ):
            raise not_translated(node)
        index = whole.type.kind._fields.index(node.attr)
        item = list(items_of(whole.type.types, whole.parts))[index]
        return item if variable is None else self.code.read(item)

    def _value_subscript(self, node: ast.Subscript) -> Value:
        if not isinstance(node.slice, ast.Slice):
            return self.code.element(*self.place(node))
        array = self.value(node.value)
        if (
            not (isinstance(array.type, ArrayType) and array.type.dimensions == 1)
            or node.slice.step
        ):
            raise not_translated(node)
        begin, end = node.slice.lower, node.slice.upper
        address, length = array.parts
        if end is not None:
            length = self._index(end)
        if begin is not None:
            first = self._index(begin)
            address = self.code.at(array, first)
            length = self.code.let(f"sub i64 {length}, {first}")
        return Value(array.type, (address, length))

    def place(self, node: ast.Subscript) -> tuple[Value, str]:
        """Return an array, and the address of the element that is named."""
        array = self.value(node.value)
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not isinstance(array.type, ArrayType) or len(indices) != array.type.dimensions:
            raise not_translated(node)
        k = self._index(indices[0])
        for extent, index in zip(array.parts[2:], indices[1:], strict=True):
            row = self.code.let(f"mul i64 {k}, {extent}")
            k = self.code.let(f"add i64 {row}, {self._index(index)}")
        return array, self.code.at(array, k)

    def _index(self, node: ast.expr) -> str:
        """Return the operand of an index; a truth value is none, nor is a negative constant."""
        value = self.value(node)
        if value.type != INTEGER or value.parts[0].startswith("-"):
            raise not_translated(node)
        return value.parts[0]

    def _value_unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(TRUTH, (self.code.let(f"xor i1 {self.truth(node.operand)}, true"),))
        if not isinstance(node.op, ast.USub):
            raise not_translated(node)
        if isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, (int, float)):
            return _constant(node, -node.operand.value)
        kind, (part,) = self.code.numbers(self.value(node.operand))
        negative = f"fneg double {part}" if kind == FLOAT else f"sub i64 0, {part}"
        return Value(kind, (self.code.let(negative),))

    def _value_binop(self, node: ast.BinOp) -> Value:
        return self.code.binary(node.op, self.value(node.left), self.value(node.right))

    def _value_compare(self, node: ast.Compare) -> Value:
        if len(node.ops) > 1:
            raise not_translated(node)
        first, second = self.value(node.left), self.value(node.comparators[0])
        return self.code.compared(node.ops[0], first, second)

    def _value_boolop(self, node: ast.BoolOp) -> Value:
        """One of the operands, which are truth values: numbers are not converted to them."""
        return self._decided(node, lambda operand: self.code.part(self.value(operand), TRUTH))

    def _decided(self, node: ast.BoolOp, truth_of: Callable[[ast.expr], str]) -> Value:
        """The truth value; operands behind the one that decides are not evaluated."""
        result = self.code.variable(TRUTH)
        following, end = self.code.labels(2)
        for operand in node.values:
            truth = truth_of(operand)
            self.code.write(result, Value(TRUTH, (truth,)))
            both = (following, end) if isinstance(node.op, ast.And) else (end, following)
            self.code.branch(truth, *both)
            self.code.begin(following)
            (following,) = self.code.labels(1)
        self.code.jump(end)
        self.code.begin(end)
        return self.code.read(result)

    def _value_ifexp(self, node: ast.IfExp) -> Value:
        yes, no, end = self.code.labels(3)
        self.code.branch(self.truth(node.test), yes, no)
        self.code.begin(yes)
        value = self.value(node.body)
        result = self.code.variable(value.type)
        self.code.write(result, value)
        self.code.jump(end)
        self.code.begin(no)
        self.code.write(result, self.value(node.orelse))
        self.code.jump(end)
        self.code.begin(end)
        return self.code.read(result)

    # ---------------------------------------------------------------- calls

    def object_of(self, node: ast.expr) -> Any:
        """Return the global object that an expression names, or None."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self.object_of(node.value)
            is_known = module is np or module is math
            return getattr(module, node.attr, None) if is_known else None
        if not isinstance(node, ast.Name) or node.id in self._locals:
            return None
        return self._globals.get(node.id, getattr(builtins, node.id, None))

    def _value_call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy":
            return self._copied(self.value(node.func.value), node)
        function = self.object_of(node.func)
        if function in ALLOCATIONS:
            return self._allocated(function, node)
        arguments = [self.value(argument) for argument in node.args]
        if node.keywords:
            raise not_translated(node)
        if function in BUILTINS:
            return BUILTINS[function](self.code, *arguments)
        if len(getattr(function, "_fields", ())) == len(arguments) > 0:
            return tuple_of(function, arguments)
        if function not in self._unit.functions:
            raise not_translated(node)
        return self._called(function, arguments)

    def _called(self, function: Function, arguments: Sequence[Value]) -> Value:
        all_arguments = tuple_of(None, arguments)
        made = self._unit.translated(function, tuple(value.type for value in arguments))
        passed = map(" ".join, zip(parts_of(all_arguments.type), all_arguments.parts, strict=True))
        results = self.code.let(f"call {made.struct} @{made.name}({', '.join(passed)})")
        failed, *parts = (
            self.code.let(f"extractvalue {made.struct} {results}, {k}")
            for k in range(len(made.parts))
        )
        self.code.fail_if(failed)
        count = len(parts_of(made.result))
        for begin, end in zip(parts[count::2], parts[count + 1 :: 2], strict=True):
            self.code.register(begin, end)
        return Value(made.result, tuple(parts[:count]))

    def _allocated(self, function: Any, node: ast.Call) -> Value:
        """Allocate an array as NumPy's function does; ``empty`` makes zeros."""
        arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "dtype")]
        if len(arguments) != len(node.args) + len(node.keywords):
            raise not_translated(node)
        kind = self.object_of(arguments[-1]) if arguments else None
        if kind is None:  # NumPy takes float64
            raise not_translated(node)
        try:
            dtype = np.dtype(kind).name
            count, *values = map(self.value, arguments[:-1])
            return ALLOCATIONS[function](self.code, dtype, self.code.part(count, INTEGER), *values)
        except (TypeError, KeyError):  # the number of arguments, or the dtype
            raise not_translated(node) from None

    def _copied(self, array: Value, node: ast.Call) -> Value:
        if not (isinstance(array.type, ArrayType) and array.type.dimensions == 1):
            raise not_translated(node)
        code = self.code
        return code.filled(
            array.type.dtype, array.parts[1], lambda k: code.element(array, code.at(array, k))
        )


def not_translated(node: ast.AST) -> NotTranslatedError:
    """Return the error of a statement or an expression."""
    return NotTranslatedError(f"line {getattr(node, 'lineno', 0)}: {ast.unparse(node)}")


def _constant(node: ast.AST, value: Any) -> Value:
    if isinstance(value, bool):
        return Value(TRUTH, (str(value).lower(),))
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return Value(INTEGER, (str(value),))
    if isinstance(value, float):
        return Value(FLOAT, (f"0x{struct.pack('>d', value).hex()}",))
    raise not_translated(node)
