"""A reduction in OpenCL C: per-lane state, accumulator, and final value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from portable_gpu.codegen.operators import Accumulator, vector
from portable_gpu.dtypes import Element

BLOCK = 4  # additions in plain arithmetic between two lifts

Text = Callable[[int], str]  # C text for vectors of the given number of lanes


@dataclass(frozen=True)
class Quick:
    """A faster fold of the same elements that can tell whether its result is accurate.

    A work-item first folds its elements with it.  If the result is accurate, it is converted to an
    accumulator of the full reduction; otherwise the work-item folds its elements again with the
    full reduction.

    Attributes:
        fold: The faster reduction; its C types have other names than those of the full one.
        trusted: Gives the C condition that accumulator ``a`` is as accurate as the full reduction
            of ``count`` elements; its argument is the suffix that selects a lane of a field.
        adopt: The C statements that convert ``a`` to ``r``, an accumulator of the full reduction
            that is neutral before.
    """

    fold: Reduction
    trusted: Callable[[str], str]
    adopt: str


@dataclass(frozen=True)
class Reduction:
    """One reduction on given element types.

    Attributes:
        name: The name of the reduction, such as ``sum``.
        inputs: The element types of the inputs: one, two for ``dot``, more for a map of several
            arrays.
        per_row: Whether the second input holds one element per result (``var``'s centre).
        lane: The state of a lane; its fields may have any size.
        update: Statements that fold ``x`` (``x_re``, ``x_im``; likewise ``y``) into state ``a``;
            ``step`` is the number of elements that the lane has folded.
        acc: The accumulator that is combined across lanes.
        lift: Statements that convert state ``a`` to accumulator ``r``; ``INDEX`` is the index of
            the element at the state's ``step``.
        block: The number of steps between lifts; 0 if there is only one lift, at the end.
        result: The element type of the result.
        totals: C declarations of the final values from accumulator ``a``.
        finish: The C expression of the result, of the final values, ``a`` and ``count``.
        vectorizable: Whether the statements are also valid for vectors.
        indexed: Whether the state has the step of an element.
        preamble: The C functions that the statements call.
        quick: The faster fold that is tried first, if there is one.
    """

    name: str
    inputs: tuple[Element, ...]
    lane: Accumulator
    update: Text
    acc: Accumulator
    lift: Text
    block: int
    result: Element
    finish: str
    totals: str = ""
    per_row: bool = False
    vectorizable: bool = True
    indexed: bool = False
    preamble: str = ""
    quick: Quick | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs in kernels."""
        return ("x", "y", *(f"y{k}" for k in range(2, len(self.inputs))))[: len(self.inputs)]

    @property
    def folds(self) -> tuple[Reduction, ...]:
        """The folds in the order in which a work-item tries them: the quick one, then this one."""
        return (self.quick.fold, self) if self.quick else (self,)

    @property
    def lift_cost(self) -> float:
        """The cost of lifts, relative to a sum of reals that lifts every :data:`BLOCK` steps."""
        if not self.block:
            return 0
        return len(self.lane.fields) * BLOCK / (self.block * self.inputs[0].components)

    @property
    def streamed(self) -> tuple[Element, ...]:
        """The inputs of which all elements are folded."""
        return self.inputs[:1] if self.per_row else self.inputs

    @property
    def value(self) -> str:
        """The C expression of the stored value: ``finish`` in the type of the result."""
        if self.result.boolean:
            return f"({self.finish}) != 0"
        return f"({self.result.value})({self.finish})"

    @property
    def of_vectors(self) -> str:
        """``finish`` for whole vectors of fields, where it is a sum of them; else empty."""
        declared = re.fullmatch(r"const \w+ (\w+) = ([^;]*);", self.totals)
        text = declared[2] if declared and declared[1] == self.finish else self.finish
        kinds = {(field.ctype, field.bytes) for field in self.acc.fields}
        stored = kinds == {(self.result.value, self.result.itemsize)}
        return text if stored and re.fullmatch(r"a\.\w+( \+ a\.\w+)*", text) else ""

    @property
    def needs_fp64(self) -> bool:
        """Whether the kernels read, compute or write double precision."""
        fields = (*self.lane.fields, *self.acc.fields)
        elements = (*self.inputs, self.result)
        return any(f.ctype == "double" for f in fields) or any(e.needs_fp64 for e in elements)


def value_names(elem: Element, name: str) -> tuple[str, ...]:
    """The names in ``update`` of the real and imaginary parts of an input element."""
    return (f"{name}_re", f"{name}_im") if elem.complex else (name,)


def convert(expression: str, source: str, target: str, width: int) -> str:
    """``expression`` of C type ``source`` in C type ``target``, for ``width`` lanes."""
    if source == target:
        return expression
    to = vector(target, width)
    return f"(({to})({expression}))" if width == 1 else f"CONVERT({to}, {expression})"


def wide_type(elem: Element) -> str:
    """The 32- or 64-bit C type that an element is folded in."""
    return {"char": "int", "short": "int", "uchar": "uint", "ushort": "uint"}.get(
        elem.real, elem.real
    )
