"""The instructions of a function in LLVM IR."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from portable_gpu.sparse.loops.values import (
    ELEMENTS,
    FLOAT,
    INTEGER,
    TRUTH,
    ArrayType,
    ScalarType,
    Type,
    Value,
    parts_of,
)

#: The functions that allocate zeros, and that free memory.  Machine code calls them.
ALLOCATE, FREE = "portable_gpu_allocate", "portable_gpu_free"
DECLARATIONS = f"""\
declare noalias ptr @{ALLOCATE}(i64, i64)
declare void @{FREE}(ptr)
declare double @llvm.sqrt.f64(double)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)"""
#: The labels of the end of a function, and of its end without enough memory.
EXIT, FAILED = "exit", "failed"

_OF_INTEGERS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_OF_FLOATS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_COMPARISONS = {
    ast.Eq: ("eq", "oeq"),
    ast.NotEq: ("ne", "une"),
    ast.Lt: ("slt", "olt"),
    ast.LtE: ("sle", "ole"),
    ast.Gt: ("sgt", "ogt"),
    ast.GtE: ("sge", "oge"),
}
_CONVERSIONS: dict[tuple[Type, Type], str] = {
    (TRUTH, INTEGER): "zext",
    (TRUTH, FLOAT): "uitofp",
    (INTEGER, FLOAT): "sitofp",
}


class NotTranslatedError(Exception):
    """A function has a statement or an expression that is not translated."""


class Allocation(NamedTuple):
    """Two variables with the address of an array's memory, or null, and with that of its end."""

    begin: str
    end: str


class Instructions:
    """A function's instructions, which are appended one by one.

    The function owns the memory of some arrays, until it frees it or passes it to its caller.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.variables: list[str] = []  # instructions at the start of the function
        self.memories: list[Allocation] = []
        self._count = 0

    # ---------------------------------------------------------------- blocks of instructions

    def emit(self, line: str) -> None:
        """Append an instruction."""
        self.lines.append(line)

    def let(self, instruction: str) -> str:
        """Append an instruction; return the name of its result."""
        name = f"%{self._number()}"
        self.lines.append(f"{name} = {instruction}")
        return name

    def _number(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def labels(self, count: int) -> list[str]:
        """Return new labels."""
        return [self._number() for _ in range(count)]

    def begin(self, label: str) -> None:
        """Begin a block; the one before must have ended with a jump."""
        self.emit(f"{label}:")

    def jump(self, label: str) -> None:
        """End a block."""
        self.emit(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block."""
        self.emit(f"br i1 {condition}, label %{yes}, label %{no}")

    def fail_if(self, condition: str) -> None:
        """Leave the function if memory is short."""
        (following,) = self.labels(1)
        self.branch(condition, FAILED, following)
        self.begin(following)

    @contextmanager
    def counted(self, begin: str, end: str, step: int = 1) -> Iterator[tuple[str, str, str]]:
        """Repeat the instructions of a ``with`` block for each number of a range.

        The block gets the number, the label of the next iteration and that of the end.
        """
        counter = self.space("i64")
        test, body, following, after = self.labels(4)
        self.emit(f"store i64 {begin}, ptr {counter}")
        self.jump(test)
        self.begin(test)
        k = self.load("i64", counter)
        self.branch(self.let(f"icmp {'slt' if step > 0 else 'sgt'} i64 {k}, {end}"), body, after)
        self.begin(body)
        yield k, following, after
        self.jump(following)
        self.begin(following)
        self.emit(f"store i64 {self.let(f'add nsw i64 {k}, {step}')}, ptr {counter}")
        self.jump(test)
        self.begin(after)

    # ---------------------------------------------------------------- variables

    def space(self, kind: str) -> str:
        """Return the address of a new variable of a type of LLVM."""
        address = f"%{self._number()}"
        self.variables.append(f"{address} = alloca {kind}")
        return address

    def load(self, kind: str, address: str) -> str:
        """Read a variable or an element."""
        return self.let(f"load {kind}, ptr {address}")

    def variable(self, kind: Type) -> Value:
        """Return a new variable."""
        return Value(kind, tuple(map(self.space, parts_of(kind))))

    def read(self, variable: Value) -> Value:
        """Read a variable."""
        parts = map(self.load, parts_of(variable.type), variable.parts)
        return Value(variable.type, tuple(parts))

    def write(self, variable: Value, value: Value) -> None:
        """Set a variable."""
        parts = self.converted(value, variable.type).parts
        for kind, part, address in zip(parts_of(variable.type), parts, variable.parts, strict=True):
            self.emit(f"store {kind} {part}, ptr {address}")

    # ---------------------------------------------------------------- numbers

    def converted(self, value: Value, kind: Type) -> Value:
        """Convert a number to a type with more values.

        Raises:
            NotTranslatedError: There is no such conversion.
        """
        if value.type == kind:
            return value
        instruction = _CONVERSIONS.get((value.type, kind))
        if instruction is None:
            raise NotTranslatedError(f"a value of {value.type} where {kind} is expected")
        before, after = parts_of(value.type)[0], parts_of(kind)[0]
        return Value(kind, (self.let(f"{instruction} {before} {value.parts[0]} to {after}"),))

    def part(self, value: Value, kind: ScalarType) -> str:
        """Return the operand of a number that is converted to a type with more values."""
        return self.converted(value, kind).parts[0]

    def truth(self, value: Value) -> str:
        """Return the operand of the truth value of a number."""
        if value.type == TRUTH:
            return value.parts[0]
        return self.let(f"icmp ne i64 {self.part(value, INTEGER)}, 0")

    def numbers(self, *values: Value) -> tuple[ScalarType, list[str]]:
        """Convert numbers to their common type, which is no truth value."""
        kind = FLOAT if FLOAT in [value.type for value in values] else INTEGER
        return kind, [self.part(value, kind) for value in values]

    def binary(self, operator: ast.operator, first: Value, second: Value) -> Value:
        """Compute Python's result of an operator; an operand at least is no truth value."""
        if first.type == second.type == TRUTH:
            raise NotTranslatedError(f"the operator {type(operator).__name__} of truth values")
        if isinstance(operator, ast.Div):
            first = self.converted(first, FLOAT)
        kind, (x, y) = self.numbers(first, second)
        if kind == INTEGER and isinstance(operator, (ast.FloorDiv, ast.Mod)):
            return Value(kind, (self._floor(operator, x, y),))
        name = (_OF_INTEGERS if kind == INTEGER else _OF_FLOATS).get(type(operator))
        if name is None:
            raise NotTranslatedError(f"the operator {type(operator).__name__}")
        return Value(kind, (self.let(f"{name} {kind.name} {x}, {y}"),))

    def _floor(self, operator: ast.operator, x: str, y: str) -> str:
        """Compute a quotient that is rounded down, or its remainder."""
        remainder = self.let(f"srem i64 {x}, {y}")
        differs = self.let(f"icmp slt i64 {self.let(f'xor i64 {remainder}, {y}')}, 0")
        is_inexact = self.let(f"icmp ne i64 {remainder}, 0")
        is_corrected = self.let(f"and i1 {differs}, {is_inexact}")
        if isinstance(operator, ast.Mod):
            corrected = self.let(f"add i64 {remainder}, {y}")
            return self.let(f"select i1 {is_corrected}, i64 {corrected}, i64 {remainder}")
        correction = self.let(f"zext i1 {is_corrected} to i64")
        return self.let(f"sub i64 {self.let(f'sdiv i64 {x}, {y}')}, {correction}")

    def compared(self, operator: ast.cmpop, first: Value, second: Value) -> Value:
        """Compare two numbers."""
        kind, (x, y) = self.numbers(first, second)
        if type(operator) not in _COMPARISONS:
            raise NotTranslatedError(f"the comparison {type(operator).__name__}")
        of_integers, of_floats = _COMPARISONS[type(operator)]
        name = f"icmp {of_integers}" if kind == INTEGER else f"fcmp {of_floats}"
        return Value(TRUTH, (self.let(f"{name} {kind.name} {x}, {y}"),))

    # ---------------------------------------------------------------- arrays

    def at(self, array: Value, k: str) -> str:
        """Compute the address of element k, counted without regard to dimensions."""
        return self.let(
            f"getelementptr inbounds {_element_type(array)}, ptr {array.parts[0]}, i64 {k}"
        )

    def element(self, array: Value, address: str) -> Value:
        """Read an element."""
        kind = _element_type(array)
        element = self.load(kind, address)
        if kind == "double":
            return Value(FLOAT, (element,))
        if _dtype(array) == "bool":
            return Value(TRUTH, (self.let(f"trunc i8 {element} to i1"),))
        return Value(
            INTEGER, (element if kind == "i64" else self.let(f"sext {kind} {element} to i64"),)
        )

    def set_element(self, array: Value, address: str, value: Value) -> None:
        """Write an element."""
        kind = _element_type(array)
        if kind == "double":
            part = self.part(value, FLOAT)
        elif _dtype(array) == "bool":
            part = self.let(f"zext i1 {self.part(value, TRUTH)} to i8")
        else:
            part = self.part(value, INTEGER)
            part = part if kind == "i64" else self.let(f"trunc i64 {part} to {kind}")
        self.emit(f"store {kind} {part}, ptr {address}")

    def allocated(self, dtype: str, count: str) -> Value:
        """Return an array of zeros of one dimension, which the function owns."""
        size = {"i8": 1, "i32": 4, "i64": 8, "double": 8}[ELEMENTS[dtype]]
        address = self.let(f"call ptr @{ALLOCATE}(i64 {count}, i64 {size})")
        self.fail_if(self.let(f"icmp eq ptr {address}, null"))
        array = Value(ArrayType(dtype, 1), (address, count))
        self.register(address, self.at(array, count))
        return array

    def filled(self, dtype: str, count: str, element: Callable[[str], Value]) -> Value:
        """Return an array that the function owns, with the element for each index."""
        array = self.allocated(dtype, count)
        with self.counted("0", count) as (k, _, _):
            self.set_element(array, self.at(array, k), element(k))
        return array

    # ---------------------------------------------------------------- memory

    def register(self, begin: str, end: str) -> None:
        """Own memory, whose address may be null."""
        memory = Allocation(self.space("ptr"), self.space("ptr"))
        self.variables += [f"store ptr null, ptr {slot}" for slot in memory]
        self.memories.append(memory)
        self.emit(f"store ptr {begin}, ptr {memory.begin}")
        self.emit(f"store ptr {end}, ptr {memory.end}")

    def free_all(self) -> None:
        """Free the memory that the function owns."""
        for memory in self.memories:
            self.emit(f"call void @{FREE}(ptr {self.load('ptr', memory.begin)})")

    def free_others(self, addresses: Sequence[str]) -> list[str]:
        """Free the memory that contains none of the addresses; return the bounds of the rest.

        Other memory may begin at the end.  An array without elements may be there; it is not read.
        """
        returned = []
        for memory in self.memories:
            begin, end = (self.load("ptr", slot) for slot in memory)
            is_returned = "false"
            for address in addresses:
                is_above = self.let(f"icmp uge ptr {address}, {begin}")
                is_below = self.let(f"icmp ult ptr {address}, {end}")
                is_inside = self.let(f"and i1 {is_above}, {is_below}")
                is_returned = self.let(f"or i1 {is_returned}, {is_inside}")
            freed = self.let(f"select i1 {is_returned}, ptr null, ptr {begin}")
            self.emit(f"call void @{FREE}(ptr {freed})")
            returned += [self.let(f"select i1 {is_returned}, ptr {begin}, ptr null"), end]
        return returned


def _dtype(array: Value) -> str:
    if not isinstance(array.type, ArrayType):
        raise NotTranslatedError(f"an element of {array.type}")
    return array.type.dtype


def _element_type(array: Value) -> str:
    return ELEMENTS[_dtype(array)]
