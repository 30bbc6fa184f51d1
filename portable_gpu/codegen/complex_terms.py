"""Translation of expressions of complex numbers, which are pairs ``float2`` or ``double2``.

All inputs are complex.  ``abs``, ``real``, ``imag`` and ``angle`` are real, and terms that are
computed only from real terms are real.
"""

from __future__ import annotations

from portable_gpu.codegen.literals import literal
from portable_gpu.codegen.names import TESTS
from portable_gpu.codegen.syntax import Literal
from portable_gpu.codegen.terms import OPERATORS, Term, Terms
from portable_gpu.errors import ArgumentError, UnsupportedError

#: The ends of the names of the C functions that compute operators and comparisons.
_ARITHMETIC = {"*": "multiply", "/": "divide", "**": "power"}
_COMPARISONS = {"==": "equal", "<": "less", "<=": "less_equal"}
_MIRRORED = {">": "<", ">=": "<="}
#: Functions of one complex number whose result is complex.
_FUNCTIONS = frozenset(
    (
        "cos", "cosh", "exp", "log", "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "tan",
        "tanh",
    )
)  # fmt: skip
#: The further C functions that a C function calls.
_NEEDS = {
    "complex_power": ("complex_multiply", "complex_divide", "complex_exp", "complex_log"),
    "complex_tan": ("complex_tanh",), "complex_sign": ("complex_absolute",),
    "complex_minimum": ("complex_less_equal",), "complex_maximum": ("complex_less_equal",),
}  # fmt: skip
#: The functions in ``cl_kernels/common/complex_functions.cl.mako``.
ELEMENTARY = frozenset(
    f"complex_{name}"
    for name in ("cos", "cosh", "exp", "log", "power", "sin", "sinh", "sqrt", "tan", "tanh")
)
#: Functions of one complex number whose result is real, and the C functions that compute them.
_REAL_FUNCTIONS = {"absolute": "complex_absolute", "angle": "complex_angle"}


class ComplexTerms(Terms):
    """Translates the terms of an expression whose inputs are complex."""

    def _complex(self, term: Term) -> str:
        """The text of a term as a pair."""
        if term.kind == "complex":
            return term.text
        return f"(({self._ctype}2)({self.as_type(term, self._ctype)}, 0))"

    def call(self, helper: str, ctype: str, *texts: str) -> str:
        """See :meth:`Terms.call`."""
        for other in _NEEDS.get(helper, ()):
            self.helpers[other, ctype, 1] = None
        return super().call(helper, ctype, *texts)

    def as_type(self, term: Term, ctype: str) -> str:
        """See :meth:`Terms.as_type`."""
        return self._complex(term) if ctype == "complex" else super().as_type(term, ctype)

    def as_mask(self, term: Term) -> str:
        """See :meth:`Terms.as_mask`."""
        if term.kind == "complex":
            return self.call("complex_truth", self._ctype, term.text)
        return super().as_mask(term)

    def as_result(self, term: Term, ctype: str) -> str:
        """See :meth:`Terms.as_result`; a real result is the real part of a complex term."""
        if ctype[-1] != "2":
            if term.kind == "complex":
                term = Term(f"({term.text}).x", self._ctype)
            return super().as_result(term, ctype)
        text = self._complex(term)
        return text if ctype == f"{self._ctype}2" else f"convert_{ctype}({text})"

    def _number(self, node: Literal) -> Term:
        if node.kind != "imaginary":
            return super()._number(node)
        if node.text.isdigit():
            text = literal(int(node.text), self._ctype)
        else:
            text = super()._number(Literal(node.text, "floating")).text
        return Term(f"(({self._ctype}2)(0, {text}))", "complex")

    def _name(self, word: str) -> Term:
        return Term(word, "complex") if word in self._names else super()._name(word)

    def unary(self, sign: str, term: Term) -> Term:
        """See :meth:`Terms.unary`."""
        if term.kind != "complex" or sign == "!":
            return super().unary(sign, term)
        if sign == "~":
            raise ArgumentError("~ takes integers and truth values; the operand is complex")
        return Term(f"({sign}{term.text})", "complex")

    def binary(self, sign: str, left: Term, right: Term) -> Term:
        """See :meth:`Terms.binary`."""
        if "complex" not in (left.kind, right.kind) or sign in ("&&", "||"):
            return super().binary(sign, left, right)
        if sign in _MIRRORED:
            return self.binary(_MIRRORED[sign], right, left)
        if sign == "!=":
            return Term(f"(!{self.binary('==', left, right).text})", "mask")
        if sign == "**" and right.kind == "integer" and right.value == 2:
            return self.function("square", "square", [left])
        a, b = self._complex(left), self._complex(right)
        if sign in ("+", "-"):
            return Term(f"({a} {sign} {b})", "complex")
        if sign in _ARITHMETIC:
            return Term(self.call(f"complex_{_ARITHMETIC[sign]}", self._ctype, a, b), "complex")
        if sign in _COMPARISONS:
            return Term(self.call(f"complex_{_COMPARISONS[sign]}", self._ctype, a, b), "mask")
        raise ArgumentError(f"{sign} takes real numbers; an operand is complex")

    def function(self, name: str, word: str, given: list[Term]) -> Term:
        """See :meth:`Terms.function`."""
        t = self._ctype
        texts = [g.text for g in given]
        is_real = all(g.kind != "complex" for g in given)
        if is_real or name in OPERATORS or name == "logical_xor":
            return super().function(name, word, given)
        if name in ("minimum", "maximum") and len(given) > 1:
            text, *others = [self._complex(g) for g in given]
            for other in others:
                text = self.call(f"complex_{name}", t, text, other)
            return Term(text, "complex")
        if len(given) > 1:
            raise UnsupportedError(f"{word} of complex numbers is not supported")
        if name in _REAL_FUNCTIONS:
            return Term(self.call(_REAL_FUNCTIONS[name], t, *texts), t)
        if name in ("real", "imag"):
            return Term(f"({texts[0]}).{'x' if name == 'real' else 'y'}", t)
        if name == "conjugate":
            return Term(self.call("complex_conjugate", t, *texts), "complex")
        if name in TESTS and name != "isnormal":
            return Term(self.call(f"complex_{name}", t, *texts), "mask")
        if name in _FUNCTIONS:
            return Term(self.call(f"complex_{name}", t, *texts), "complex")
        raise UnsupportedError(f"{word} of complex numbers is not supported")
