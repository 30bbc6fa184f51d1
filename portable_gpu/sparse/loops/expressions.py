"""Translation of expressions from Python to LLVM IR.

The results are those of Python and NumPy under these conditions, which are not checked when a loop
runs:

* Indices and the bounds of slices are in the array; none counts from its end.
* Divisors of integers are not zero, and shifts are from 0 to 63.

What follows differs from Python, or is refused:

* Integers have 64 bits, and their arithmetic wraps.  Elements of smaller types are converted to
  ``int64`` or ``float64`` when they are read.
* The operands of ``and`` and ``or`` are truth values.  In a condition they may be integers as well.
* An operator of arithmetic has at most one truth value as an operand: the sum of two is a number in
  Python, and a truth value in NumPy.
* A call is one of the functions in :data:`BUILTINS` and :data:`ALLOCATIONS`, a class of named
  tuples, the method ``copy`` of an array, or another function of the unit without recursion.
* A local variable has a value on each path to its use.  A global number is a constant.
"""

from __future__ import annotations

import ast
import builtins
import math
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.sparse.loops.instructions import Instructions, NotTranslatedError
from portable_gpu.sparse.loops.values import (
    FLOAT,
    INTEGER,
    NAMES,
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


def _length(_: Instructions, array: Value) -> Value:
    if not isinstance(array.type, ArrayType):
        raise NotTranslatedError(f"the length of {array.type}")
    return Value(INTEGER, (array.parts[1],))


def _integer(code: Instructions, value: Value) -> Value:
    if value.type == FLOAT:
        return Value(INTEGER, (code.let(f"fptosi double {value.parts[0]} to i64"),))
    return code.converted(value, INTEGER)


def _float(code: Instructions, value: Value) -> Value:
    return code.converted(value, FLOAT)


def _minimum(code: Instructions, first: Value, second: Value) -> Value:
    kind, (x, y) = code.numbers(first, second)
    if kind == INTEGER:
        return Value(kind, (code.let(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})"),))
    is_second = code.let(f"fcmp olt double {y}, {x}")
    return Value(kind, (code.let(f"select i1 {is_second}, double {y}, double {x}"),))


def _maximum(code: Instructions, first: Value, second: Value) -> Value:
    kind, (x, y) = code.numbers(first, second)
    if kind == INTEGER:
        return Value(kind, (code.let(f"call i64 @llvm.smax.i64(i64 {x}, i64 {y})"),))
    is_second = code.let(f"fcmp ogt double {y}, {x}")
    return Value(kind, (code.let(f"select i1 {is_second}, double {y}, double {x}"),))


def _absolute(code: Instructions, value: Value) -> Value:
    x = code.part(value, INTEGER)
    return Value(INTEGER, (code.let(f"call i64 @llvm.abs.i64(i64 {x}, i1 false)"),))


def _square_root(code: Instructions, value: Value) -> Value:
    x = code.part(value, FLOAT)
    return Value(FLOAT, (code.let(f"call double @llvm.sqrt.f64(double {x})"),))


#: Functions of Python, and what their calls become.
BUILTINS: dict[Any, Callable[..., Value]] = {
    len: _length,
    int: _integer,
    float: _float,
    min: _minimum,
    max: _maximum,
    abs: _absolute,
    math.sqrt: _square_root,
}


def _full(code: Instructions, dtype: str, count: str, value: Value) -> Value:
    return code.filled(dtype, count, lambda _: value)


def _ones(code: Instructions, dtype: str, count: str) -> Value:
    return code.filled(dtype, count, lambda _: Value(TRUTH, ("true",)))


def _range(code: Instructions, dtype: str, count: str) -> Value:
    length = code.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
    return code.filled(dtype, length, lambda k: Value(INTEGER, (k,)))


#: Functions of NumPy that allocate an array, by a dtype, the number of elements, and more.
ALLOCATIONS: dict[Any, Callable[..., Value]] = {
    np.empty: Instructions.allocated,
    np.zeros: Instructions.allocated,
    np.full: _full,
    np.ones: _ones,
    np.arange: _range,
}


Function = Callable[..., Any]


class Expressions:
    """The translation of a function's expressions, in the order of its text.

    Attributes:
        code: The instructions of the function.
        arguments: The arguments to which the function assigns nothing.
        variables: The variables that a statement so far assigns, and arguments that are assigned.
        assigned: The names of the variables that have a value at the current instruction on each
            path to it; None where no path leads to it.
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
        """Translate an expression that is an integer; return its operand."""
        return self.code.part(self.value(node), INTEGER)

    def truth(self, node: ast.expr) -> str:
        """Translate a condition; return the operand of its truth value."""
        if isinstance(node, ast.BoolOp):
            return self._short_circuit(node, self.truth).parts[0]
        return self.code.truth(self.value(node))

    def _value_constant(self, node: ast.Constant) -> Value:
        return _constant(node, node.value)

    def _value_name(self, node: ast.Name) -> Value:
        if node.id in self._locals:
            return self.local_value(node)
        return _constant(node, self._globals.get(node.id))

    def local_value(self, node: ast.Name) -> Value:
        """Return the value of an argument or a variable."""
        if node.id in self.arguments:
            return self.arguments[node.id]
        return self.code.read(self._variable(node))

    def _variable(self, node: ast.Name) -> Value:
        """Return a variable; refuse one that has no value on some path."""
        is_assigned = self.assigned is None or node.id in self.assigned
        if node.id not in self.variables or not is_assigned:
            raise not_translated(node)
        return self.variables[node.id]

    def _value_tuple(self, node: ast.Tuple) -> Value:
        return tuple_of(None, [self.value(item) for item in node.elts])

    def _value_attribute(self, node: ast.Attribute) -> Value:
        variable = None
        if isinstance(node.value, ast.Name) and node.value.id in self.variables:
            variable = self._variable(node.value)  # only the item is read
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
            return self.code.element(*self.array_and_address(node))
        array = self.value(node.value)
        if (
            not (isinstance(array.type, ArrayType) and array.type.dimensions == 1)
            or node.slice.step
        ):
            raise not_translated(node)
        address, length = array.parts
        if node.slice.upper is not None:
            length = self._index(node.slice.upper)
        if node.slice.lower is not None:
            begin = self._index(node.slice.lower)
            address = self.code.at(array, begin)
            length = self.code.let(f"sub i64 {length}, {begin}")
        return Value(array.type, (address, length))

    def array_and_address(self, node: ast.Subscript) -> tuple[Value, str]:
        """Return the array that is indexed, and the address of the element."""
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
        """Return the operand of an index; refuse truth values and negative constants."""
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
        """Translate ``and`` or ``or`` outside of conditions, where Python returns an operand."""
        return self._short_circuit(node, lambda operand: self.code.part(self.value(operand), TRUTH))

    def _short_circuit(self, node: ast.BoolOp, truth_of: Callable[[ast.expr], str]) -> Value:
        """Evaluate the operands up to the first one that decides; return its truth value."""
        result = self.code.variable(TRUTH)
        following, end = self.code.labels(2)
        for operand in node.values:
            truth = truth_of(operand)
            self.code.write(result, Value(TRUTH, (truth,)))
            targets = (following, end) if isinstance(node.op, ast.And) else (end, following)
            self.code.branch(truth, *targets)
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
            try:
                return BUILTINS[function](self.code, *arguments)
            except TypeError:  # the number of arguments
                raise not_translated(node) from None
        if len(getattr(function, "_fields", ())) == len(arguments) > 0:
            return tuple_of(function, arguments)
        if function not in self._unit.functions:
            raise not_translated(node)
        return self._called(function, arguments)

    def _called(self, function: Function, arguments: Sequence[Value]) -> Value:
        """Call another function of the unit; own the memory that it passes to its caller."""
        all_arguments = tuple_of(None, arguments)
        callee = self._unit.translated(function, tuple(value.type for value in arguments))
        passed = map(" ".join, zip(parts_of(all_arguments.type), all_arguments.parts, strict=True))
        results = self.code.let(f"call {callee.struct} @{callee.name}({', '.join(passed)})")
        has_failed, *parts = (
            self.code.let(f"extractvalue {callee.struct} {results}, {k}")
            for k in range(len(callee.parts))
        )
        self.code.fail_if(has_failed)
        count = len(parts_of(callee.result))
        for begin, end in zip(parts[count::2], parts[count + 1 :: 2], strict=True):
            self.code.register(begin, end)
        return Value(callee.result, tuple(parts[:count]))

    def _allocated(self, function: Any, node: ast.Call) -> Value:
        """Allocate an array as NumPy's function does; ``empty`` makes zeros.

        The dtype is the last argument, because NumPy's default depends on the function.
        """
        arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "dtype")]
        if len(arguments) < 2 or len(arguments) != len(node.args) + len(node.keywords):
            raise not_translated(node)
        scalar_type = self.object_of(arguments[-1])
        dtype = NAMES.get(np.dtype(scalar_type)) if isinstance(scalar_type, type) else None
        if dtype is None:
            raise not_translated(node)
        count, *values = map(self.value, arguments[:-1])
        try:
            return ALLOCATIONS[function](self.code, dtype, self.code.part(count, INTEGER), *values)
        except TypeError:  # the number of arguments
            raise not_translated(node) from None

    def _copied(self, array: Value, node: ast.Call) -> Value:
        if not (isinstance(array.type, ArrayType) and array.type.dimensions == 1):
            raise not_translated(node)
        if node.args or node.keywords:
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
