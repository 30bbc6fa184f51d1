"""What a reduction folds, in OpenCL C: per-lane state, accumulator, and final value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from portable_gpu.codegen.operators import Accumulator, vector
from portable_gpu.dtypes import Element

BLOCK = 4  # additions in plain arithmetic between two lifts

Text = Callable[[int], str]  # C text for a number of lanes side by side


@dataclass(frozen=True)
class Quick:
    """A cheaper fold of the same elements, whose accumulator shows whether it will do.

    A work-item folds its share of the elements by it.  If the outcome is trusted, the accumulator
    of the whole reduction adopts it; if not, the work-item reads its share again.

    Attributes:
        fold: What it folds; the names of its types differ from the whole reduction's.
        trusted: C condition, given what selects a lane of the fields of accumulator ``a``: whether
            it is as good as the whole reduction, which folds ``count`` elements.
        adopt: Statements that turn accumulator ``r``, neutral so far, into what ``a`` stands for.
    """

    fold: Reduction
    trusted: Callable[[str], str]
    adopt: str


@dataclass(frozen=True)
class Reduction:
    """One reduction on given element types.

    Attributes:
        name: What it computes.
        inputs: Elements of the inputs: one, two for ``dot``, more for a map of several arrays.
        per_row: Whether the second input holds one element per result (``var``'s centre).
        lane: State of a lane; fields may be of any size.
        update: Statements that fold ``x`` (``x_re``, ``x_im``; likewise ``y``) into state ``a``;
            ``step`` counts the elements that the lane has seen.
        acc: Accumulator that travels between lanes.
        lift: Statements that make accumulator ``r`` of state ``a``; ``INDEX`` is the index of
            the element that the state's ``step`` points to.
        block: Steps between lifts, 0 for once at the end.
        result: Element of the result.
        totals: C declarations of the final values from accumulator ``a``.
        finish: C expression of the result from those, ``a`` and ``count`` elements.
        vectorizable: Whether the text holds for vectors.
        indexed: Whether the state remembers a step.
        preamble: C functions that the text calls.
        quick: What is tried first, if anything.
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
        """What kernels call the inputs."""
        return ("x", "y", *(f"y{k}" for k in range(2, len(self.inputs))))[: len(self.inputs)]

    @property
    def folds(self) -> tuple[Reduction, ...]:
        """What folds elements in the order of trying: the quick form, if any, and itself."""
        return (self.quick.fold, self) if self.quick else (self,)

    @property
    def lift_cost(self) -> float:
        """What lifts cost, against those of one sum every :data:`BLOCK` steps of a real input."""
        if not self.block:
            return 0
        return len(self.lane.fields) * BLOCK / (self.block * self.inputs[0].components)

    @property
    def streamed(self) -> tuple[Element, ...]:
        """The inputs whose every element is read."""
        return self.inputs[:1] if self.per_row else self.inputs

    @property
    def value(self) -> str:
        """C expression of what is stored: ``finish`` in the type of the result."""
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
    """How ``update`` calls the parts of an input element."""
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
