"""A user's expression as C functions: of single values, and of vectors.

A vector function is the same tree with vectors for the names wherever that means the same
(:mod:`portable_gpu.codegen.terms` has the rules), and else one call for each component.  Where a
compiler does not inline OpenCL's built-ins, one ``exp`` of 8 floats takes about as long as one of a
single float (docs/experiments/elementwise.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from portable_gpu.codegen.complex_terms import ELEMENTARY, ComplexTerms
from portable_gpu.codegen.literals import FLOATING, cast_from, intermediate_type
from portable_gpu.codegen.names import MAGNITUDES
from portable_gpu.codegen.operators import SCALAR_BYTES, component, vector
from portable_gpu.codegen.source import render
from portable_gpu.codegen.syntax import NoTree, parsed
from portable_gpu.codegen.terms import Helper, Term, Terms

_FLOAT_LITERAL = re.compile(
    r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w.])"
)
_DOUBLE_CONSTANT = re.compile(r"\bM_(?!\w+_[FH]\b)\w+")
_COMPLEX = ("float2", "double2")


def with_literals_of(text: str, ctype: str) -> str:
    """``text`` with its floating literals of ``ctype``: C takes ``0.5`` and ``M_PI`` for double."""
    if ctype == "double":
        return text
    return _DOUBLE_CONSTANT.sub(r"\g<0>_F", _FLOAT_LITERAL.sub(r"\1f", text))


@dataclass(frozen=True)
class Function:
    """An expression as a C function for each number of lanes.

    Attributes:
        name: The name of the C function; the version for vectors has the width as its suffix.
        text: The expression.
        parameters: The name and the C type of each parameter.
        compute: The C type that all parameters are converted to; ``float2`` and ``double2`` are
            complex, and have no vectors.
        result: The C type of the result.
        truth: Whether the function returns 1 if the expression differs from 0, and 0 otherwise.
        boolean: Whether the inputs are bool: 0 or 1, computed as ``int``.
        by_component: Whether the versions for vectors call the scalar version for each component.
    """

    name: str
    text: str
    parameters: tuple[tuple[str, str], ...]
    compute: str
    result: str
    truth: bool = False
    boolean: bool = False
    by_component: bool = False

    @property
    def _real(self) -> str:
        """The C type of the real part of ``compute``."""
        return self.compute.removesuffix("2") if self.compute in _COMPLEX else self.compute

    @property
    def _floating(self) -> str:
        """The C type of floating literals."""
        if self._real in FLOATING:
            return self._real
        return "double" if self.result in ("double", "double2") else "float"

    def called(self, width: int) -> str:
        """The name of the C function for ``width`` lanes."""
        return self.name if width == 1 else f"{self.name}_{width}"

    def _written(self, width: int) -> tuple[Term, Terms] | None:
        """The expression in C, and its translator; ``None`` if it cannot be translated.

        Raises:
            ArgumentError, UnsupportedError: The type computed in does not have an operation.
        """
        tree = parsed(self.text)
        if tree is None:
            return None
        names = frozenset(name for name, _ in self.parameters)
        kind = ComplexTerms if self.compute in _COMPLEX else Terms
        cuts = not self.truth and self.result not in (*FLOATING, *_COMPLEX)
        terms = kind(names, self._real, width, self._floating, self.boolean, cuts)
        try:
            return terms.term(tree), terms
        except NoTree:
            return None

    @property
    def kind(self) -> str | None:
        """The kind of the result, as :attr:`Term.kind`; ``None`` where only a compiler knows."""
        written = self._written(1)
        return None if written is None else written[0].kind

    def helpers(self, width: int) -> list[Helper]:
        """The C functions that the scalar version and the version of ``width`` lanes call."""
        helpers = dict.fromkeys(self._single()[1])
        if width > 1 and not self.by_component:
            helpers |= dict.fromkeys((self._wide(width) or ("", []))[1])
        return list(helpers)

    def vectors(self, width: int) -> str | None:
        """The expression of the body in vectors; ``None`` if vectors would give another result."""
        translation = self._wide(width)
        return None if translation is None else translation[0]

    def _wide(self, width: int) -> tuple[str, list[Helper]] | None:
        """The expression of the body in vectors, and the functions that it calls."""
        written = None if self.compute in _COMPLEX else self._written(width)
        if written is None or self.result in _COMPLEX:
            return None
        term, terms = written
        t = vector(self.compute, width)
        try:
            if self.truth:
                true = "1" if SCALAR_BYTES[self.compute] >= 4 else f"({terms.mask_type})(1)"
                text = f"CONVERT({vector(self.result, width)}, {terms.as_mask(term)} & {true})"
                return text, list(terms.helpers)
            if term.kind == "mask":
                text = f"({term.text} ? ({t})(1) : ({t})(0))"
            else:
                text = terms.as_type(term, self.compute)
        except NoTree:
            return None
        if self.result != self.compute:
            between = intermediate_type(self.compute, self.result)
            if between:
                text = f"CONVERT({vector(between, width)}, {text})"
            text = f"CONVERT({vector(self.result, width)}, {text})"
        return text, list(terms.helpers)

    def _single(self) -> tuple[str, list[Helper]]:
        """The expression of the body in scalars, and the functions that it calls."""
        written = self._written(1)
        if written is None:
            text = f"({with_literals_of(self.text, self._floating)})"
            return text + " != 0" * self.truth, []
        term, terms = written
        text = terms.as_mask(term) if self.truth else terms.as_result(term, self.result)
        return text, list(terms.helpers)

    def define(self, width: int) -> str:
        """The C text of the function for ``width`` lanes; it may call the scalar version."""
        result = vector(self.result, width)
        body = None
        if width == 1:
            body = self._single()[0]
        elif not self.by_component:
            body = self.vectors(width)
        if body is None:
            return self._by_component(width)
        names = ", ".join(f"{vector(ctype, width)} {name}__in" for name, ctype in self.parameters)
        if width == 1:
            names = ", ".join(
                f"{ctype} {name}__in" if ctype != self.compute else f"{ctype} {name}"
                for name, ctype in self.parameters
            )
        computed = vector(self.compute, width)
        converted = "".join(
            f"    const {computed} {name} = {self._converted(name, ctype, width)};\n"
            for name, ctype in self.parameters
            if width > 1 or ctype != self.compute
        )
        return (
            f"static inline {result} {self.called(width)}({names or 'void'})\n"
            f"{{\n{converted}    return {body};\n}}"
        )

    def _converted(self, name: str, ctype: str, width: int) -> str:
        argument = f"{name}__in"
        if ctype == self.compute:
            return argument
        to = vector(self.compute, width)
        if width > 1:
            if self.boolean and ctype in FLOATING:
                return f"CONVERT({to}, {argument} != ({vector(ctype, width)})(0))"
            between = intermediate_type(ctype, self.compute)
            if between:
                argument = f"CONVERT({vector(between, width)}, {argument})"
            return f"CONVERT({to}, {argument})"
        if ctype in _COMPLEX:
            if self.boolean:
                return f"({argument}.x != 0 || {argument}.y != 0)"
            if self.compute in _COMPLEX:
                return f"convert_{to}({argument})"
            return cast_from(f"{argument}.x", ctype.removesuffix("2"), to)
        if self.compute in _COMPLEX:
            return f"({to})(({self._real}){argument}, 0)"
        return f"({argument} != 0)" if self.boolean else cast_from(argument, ctype, to)

    def _by_component(self, width: int) -> str:
        result = vector(self.result, width)
        names = ", ".join(f"{vector(ctype, width)} {name}" for name, ctype in self.parameters)
        calls = ", ".join(
            f"{self.name}({', '.join(name + component(width, j) for name, _ in self.parameters)})"
            for j in range(width)
        )
        return (
            f"static inline {result} {self.called(width)}({names or 'void'})\n"
            f"{{\n    return ({result})({calls});\n}}"
        )


def helper_texts(helpers: Iterable[Helper]) -> str:
    """The C text of functions that expressions call, each once."""
    files = dict[str, list[Helper]](arithmetic=[], magnitudes=[], complex=[], complex_functions=[])
    for helper in dict.fromkeys(helpers):
        elementary = "complex_functions" if helper[0] in ELEMENTARY else "complex"
        real = "magnitudes" if helper[0] in MAGNITUDES else "arithmetic"
        files[elementary if helper[0].startswith("complex_") else real].append(helper)
    return "\n".join(render(f"common/{file}", helpers=some) for file, some in files.items() if some)
