"""The description of what a kernel computes of a row, and phases that several programs share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from portable_gpu.codegen.operators import Accumulator, Field, vector

#: The C names of one vector of each input that is read by elements.
Values = Mapping[str, str]
_LEAST = {"float": "-FLT_MAX", "double": "-DBL_MAX"}


@dataclass(frozen=True)
class Phase:
    """One fold over the row.

    Attributes:
        fields: The accumulators and their neutral elements.
        step: Gives statements that fold some vectors of values into the accumulator ``s``.
        combine: Statements that fold the accumulator ``b`` into ``a``; of type ``TYPE``.
        finish: Statements that declare values of the row, of type ``ROW``, from ``s``.
    """

    fields: tuple[tuple[str, str], ...]
    step: Callable[[Sequence[Values]], str]
    combine: str
    finish: str

    def accumulator(self, name: str, real: str) -> Accumulator:
        """The accumulator as C: one field for each of ``fields``."""
        fields = tuple(Field(f, real, i.replace("LEAST", _LEAST[real])) for f, i in self.fields)
        return Accumulator(
            name, fields, lambda width: self.combine.replace("TYPE", vector(real, width))
        )

    @property
    def values(self) -> list[str]:
        """The names of the values that ``finish`` declares."""
        return re.findall(r"(\w+) = ", self.finish)


@dataclass(frozen=True)
class RowProgram:
    """One function of rows.

    Attributes:
        name: The name of the function.
        inputs: The inputs with a value for each element (or broadcast along some axes).
        row_inputs: The inputs with a value for each row.
        index: The input with the number of an element of each row, if there is one.
        tables: The inputs with a value for each element of which only those in ``picks`` are read.
        scalars, integers: The names of the numbers.
        varying: The names of further numbers, which may differ from call to call.
        phases: The folds of a row that is kept.
        stream: The fold of a row that is read anew for the map.
        outputs: The results with a value for each element: their expressions.
        row_outputs: The results with a value for each row.
        updated: The row outputs whose old value is read, as ``old_`` and the name.
        picks: The inputs of which ``at_`` and the name is the element that the index names.  Where
            there is an index, ``counts`` is 1 if it is an element and not ``ignore``, else 0.
        before: Statements before the first phase.
        sums: The outputs that are sums over the rows of a work-group.  A group adds them in a row
            of the output (CPUs), or in registers (GPUs).
    """

    name: str
    inputs: tuple[str, ...]
    phases: tuple[Phase, ...] = ()
    stream: Phase | None = None
    outputs: tuple[tuple[str, str], ...] = ()
    row_inputs: tuple[str, ...] = ()
    index: str = ""
    scalars: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()
    varying: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    row_outputs: tuple[tuple[str, str], ...] = ()
    updated: tuple[str, ...] = ()
    picks: tuple[str, ...] = ()
    before: str = ""
    sums: tuple[str, ...] = ()

    @property
    def element_names(self) -> tuple[str, ...]:
        """The operands with strides along the row."""
        return (*self.inputs, *(name for name, _ in self.outputs), *self.tables)

    def accumulator_bytes(self, real: str) -> int:
        """The bytes of the accumulators of a work-item: of all phases, or of the stream."""

        def nbytes(phases: Sequence[Phase]) -> int:
            return sum(phase.accumulator("", real).bytes for phase in phases)

        return max(nbytes(self.phases), nbytes((self.stream,) if self.stream else ()))

    @property
    def late(self) -> tuple[str, ...]:
        """The inputs that only outputs read.  A GPU's kernel does not keep them in registers.

        They are weights and biases, the same for many rows, so that they are in the caches.
        """
        phases = (*self.phases, *((self.stream,) if self.stream else ()))
        marked = {name: f"{{{name}}}" for name in self.inputs}
        folded = " ".join(phase.step([marked]) for phase in phases)
        return tuple(name for name in self.inputs if phases and f"{{{name}}}" not in folded)

    @property
    def early(self) -> tuple[str, ...]:
        """The inputs that are not late."""
        return tuple(name for name in self.inputs if name not in self.late)

    @property
    def row_names(self) -> tuple[str, ...]:
        """The operands with one value for a row."""
        index = (self.index,) if self.index else ()
        return (*self.row_inputs, *index, *(name for name, _ in self.row_outputs))

    @property
    def operands(self) -> tuple[str, ...]:
        """All operands, in the order of the plan: inputs, results."""
        outputs = (*self.outputs, *self.row_outputs)
        index = (self.index,) if self.index else ()
        return (
            *self.inputs,
            *self.tables,
            *self.row_inputs,
            *index,
            *(name for name, _ in outputs),
        )

    def calls(self, *names: str) -> list[str]:
        """Return the names of the functions that the program's texts call."""
        values = [{name: name for name in self.inputs}]
        phases = (*self.phases, *((self.stream,) if self.stream else ()))
        texts = [text for _, text in (*self.outputs, *self.row_outputs)]
        texts += [f"{phase.step(values)} {phase.combine} {phase.finish}" for phase in phases]
        return [name for name in names if any(f"{name}(" in text for text in texts)]


def sums(finish: str, **terms: str) -> Phase:
    """Sums of expressions of the values of one element."""

    def step(values: Sequence[Values]) -> str:
        return " ".join(f"s.{f} += {t.format(**v)};" for v in values for f, t in terms.items())

    combine = " ".join(f"a.{name} += b.{name};" for name in terms)
    return Phase(tuple((name, "0") for name in terms), step, combine, finish)


def _largest(values: Sequence[Values]) -> str:
    return " ".join(f"s.m = fmax(s.m, {v['x']});" for v in values)


MAXIMUM = Phase((("m", "LEAST"),), _largest, "a.m = fmax(a.m, b.m);", "const ROW m = s.m;")


def online(finish: str, **terms: str) -> Phase:
    """The maximum of x, the sum z of exp(x - maximum), and further sums.

    The sum is rescaled where the maximum grows.  If all elements are minus infinity, the maximum is
    the least finite number, and the sum is 0.
    """

    def step(values: Sequence[Values]) -> str:
        largest = "s.m"
        for v in values:
            largest = f"fmax({largest}, {v['x']})"
        exponentials = " + ".join(f"exp({v['x']} - c)" for v in values)
        more = " ".join(f"s.{f} += {t.format(**v)};" for v in values for f, t in terms.items())
        rescale = f"s.z = s.z * exp(s.m - c) + ({exponentials}); s.m = c;"
        return f"{{ const TYPE c = {largest}; {rescale} }} {more}"

    combine = (
        "{ const TYPE c = fmax(a.m, b.m); a.z = a.z * exp(a.m - c) + b.z * exp(b.m - c); a.m = c; }"
    )
    more = " ".join(f"a.{name} += b.{name};" for name in terms)
    fields = (("m", "LEAST"), ("z", "0"), *((name, "0") for name in terms))
    declared = f"const ROW m = s.m; {finish}"
    return Phase(fields, step, f"{combine} {more}", declared)
