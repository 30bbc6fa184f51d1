"""The tree of an expression in C, of single values or of vectors, with a type for each part.

A part is of the type computed in, unless a cast, a function or a floating literal says otherwise.
Comparisons are masks: 0 and 1, of vectors 0 and -1; as operands of arithmetic, they count as 0 and
1.  Integers wrap around in their own width, as NumPy's do and C's do not.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from portable_gpu.codegen.literals import (
    FLOATING,
    cast_from,
    fits,
    literal,
    of_floating_type,
    wider,
)
from portable_gpu.codegen.names import (
    ALIASES,
    INTEGER_FUNCTIONS,
    OF_FLOATS,
    OF_FLOATS_BY_INTEGERS,
    TESTS,
)
from portable_gpu.codegen.operators import SCALAR_BYTES, vector
from portable_gpu.codegen.syntax import Called, Cast, Literal, Name, Node, NoTree
from portable_gpu.errors import ArgumentError, UnsupportedError

#: A function in C that a text calls: its def in ``cl_kernels/common``, the C type, and the width.
Helper = tuple[str, str, int]
_CONSTANTS = re.compile(
    r"INFINITY|NAN|MAXFLOAT|M_[A-Z0-9]+_?[A-Z0-9]*|(?:FLT|DBL)_(?:MAX|MIN|EPSILON)"
)
_CONVERSION = re.compile(
    r"(?:convert|as)_(u?(?:char|short|int|long)|float|double)(?:_sat)?(?:_rt[ezpn])?"
)
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le,
    ">=": operator.ge,
}  # fmt: skip
_ON_LITERALS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
}  # fmt: skip
#: The largest exponent, or shift, of a literal by a literal.
_MAX_EXPONENT = 1024
_SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True)
class Term:
    """A term of an expression, in C.

    Attributes:
        text: The C text; a text of more than one word is in brackets.
        kind: A scalar C type, ``complex``, ``mask``, ``integer`` (an integer literal) or
            ``constant`` (a floating constant).
        value: The value of an integer literal.
    """

    text: str
    kind: str
    value: int = 0


class Terms:
    """Translates the terms of an expression to C."""

    def __init__(
        self,
        names: frozenset[str],
        ctype: str,
        width: int,
        floating: str,
        boolean: bool = False,
        cuts: bool = False,
        others: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Keep the types that the expression is computed in.

        Args:
            names: The names of the inputs of type ``ctype``.
            ctype: The C type computed in (``int`` for bool).
            width: The number of lanes of a vector.
            floating: The C type of floating literals, and of functions of floats.
            boolean: Whether the inputs are bool; their terms are masks then.
            cuts: Whether the result is an integer, so that fractions are cut off.
            others: The names and the C types of inputs of other types.
        """
        self._others = others
        self._names, self._ctype, self._width = names, ctype, width
        self._floating, self._boolean, self._cuts = floating, boolean, cuts
        #: The functions that the text calls.
        self.helpers: dict[Helper, None] = {}

    # -- from one kind to another

    def type(self, ctype: str) -> str:
        """The C type of a vector of the width's lanes."""
        return vector(ctype, self._width)

    @property
    def mask_type(self) -> str:
        """The C type of a mask of values of the type computed in."""
        return vector(_SIGNED[SCALAR_BYTES[self._ctype]] if self._width > 1 else "int", self._width)

    def as_type(self, term: Term, ctype: str) -> str:
        """The text of a term as a value of a scalar type, or a vector of it."""
        if term.kind == ctype:
            return term.text
        if term.kind == "integer":
            return self._literal(term.value, ctype)
        if term.kind == "constant":
            text = term.text if ctype == self._floating else f"({ctype})({term.text})"
            return text if self._width == 1 else f"(({self.type(ctype)})({text}))"
        if self._width > 1:
            if term.kind != "mask" or ctype != self._ctype:
                raise NoTree
            return f"({term.text} ? ({self.type(ctype)})(1) : ({self.type(ctype)})(0))"
        if term.kind == "complex":
            raise UnsupportedError(f"{term.text} is complex; expected a real number")
        return cast_from(term.text, term.kind, ctype)

    def as_mask(self, term: Term) -> str:
        """The text of a term as a condition."""
        if term.kind == "mask":
            return term.text
        if term.kind == "integer":
            return self._truth(term.value != 0)
        if term.kind == "constant" and self._width > 1:
            raise NoTree
        zero = "0" if self._width == 1 else f"({self.type(self._of(term))})(0)"
        return f"({term.text} != {zero})"

    def as_result(self, term: Term, ctype: str) -> str:
        """The text of a term as the C type that a function of single values returns."""
        if term.kind == "integer":  # which has the type computed in
            term = Term(self._literal(term.value, self._ctype), self._ctype)
        if ctype[-1] == "2":
            return f"(({ctype})({self.as_type(term, ctype[:-1])}, 0))"
        return self.as_type(term, ctype)

    def _truth(self, value: bool) -> str:
        if self._width == 1:
            return "1" if value else "0"
        return f"(({self.mask_type})({-1 if value else 0}))"

    def _literal(self, value: int, ctype: str) -> str:
        text = literal(value, ctype)
        return text if self._width == 1 else f"(({self.type(ctype)})({text}))"

    def _of(self, *terms: Term) -> str:
        """The C type in which an operation on terms is computed."""
        result = ""
        for term in terms:
            kind = {"mask": "", "integer": "", "constant": self._floating}.get(term.kind, term.kind)
            result = wider(result, kind) if result and kind else result or kind
        result = result or self._ctype
        if self._width > 1 and result != self._ctype:
            raise NoTree
        return result

    def call(self, helper: str, ctype: str, *texts: str) -> str:
        """The call of a function of ``cl_kernels/common``."""
        self.helpers[helper, ctype, self._width] = None
        return f"{helper}__{self.type(ctype)}({', '.join(texts)})"

    def _alone(self) -> None:
        """Refuse vectors: the operation is computed for single values only."""
        if self._width > 1:
            raise NoTree

    # -- the tree

    def term(self, node: Node) -> Term:
        """The part of the text that a node is.

        Raises:
            NoTree: There is none of this width, or the text uses names of C that are not known.
        """
        if isinstance(node, Literal):
            return self._number(node)
        if isinstance(node, Name):
            return self._name(node.word)
        if isinstance(node, Cast):
            return self._cast(node.ctype, self.term(node.operand))
        if isinstance(node, Called):
            return self._called(node.name, [self.term(operand) for operand in node.operands])
        operands = [self.term(operand) for operand in node.operands]
        if len(operands) == 1:
            return self.unary(node.sign, *operands)
        if node.sign == "?":
            return self.choice(*operands)
        return self.binary(node.sign, *operands)

    def _number(self, node: Literal) -> Term:
        if node.kind == "imaginary":
            raise ArgumentError(
                f"{node.text}j is complex, and the expression is computed in real numbers; "
                "expected complex inputs"
            )
        if node.kind == "integer":
            digits = node.text.rstrip("uUlL")
            octal = digits[0] == "0" and digits.isdigit() and len(digits) > 1
            return Term(node.text, "integer", int(digits, 8 if octal else 0))
        return Term(of_floating_type(node.text.rstrip("fF"), self._floating), "constant")

    def _name(self, word: str) -> Term:
        if word in self._names:
            if self._boolean:
                zero = "0" if self._width == 1 else f"({self.type(self._ctype)})(0)"
                return Term(f"({word} != {zero})", "mask")
            return Term(word, self._ctype)
        if word in self._others:
            return Term(word, self._others[word])
        if word in ("true", "false"):
            return Term(self._truth(word == "true"), "mask")
        if not _CONSTANTS.fullmatch(word):
            raise NoTree
        if word.startswith("M_") and self._floating == "float" and not word.endswith("_F"):
            word += "_F"
        return Term(word, "constant")

    def _cast(self, ctype: str, term: Term) -> Term:
        if ctype == "bool":
            return Term(self.as_mask(term), "mask")
        self._alone()
        return Term(f"({self.as_type(term, ctype)})", ctype)

    def choice(self, condition: Term, chosen: Term, other: Term) -> Term:
        """``condition ? chosen : other``."""
        mask = self.as_mask(condition)
        if chosen.kind == other.kind == "mask":
            if self._width == 1:
                return Term(f"({mask} ? {chosen.text} : {other.text})", "mask")
            return Term(f"(({mask} & {chosen.text}) | (~{mask} & {other.text}))", "mask")
        t = self._of(chosen, other)
        return Term(f"({mask} ? {self.as_type(chosen, t)} : {self.as_type(other, t)})", t)

    def unary(self, sign: str, term: Term) -> Term:
        """``-``, ``+``, ``~`` and ``!``."""
        if sign == "!" or (sign == "~" and term.kind == "mask"):
            return Term(f"(!{self.as_mask(term)})", "mask")
        if term.kind == "integer":
            value = {"-": -term.value, "+": term.value, "~": ~term.value}[sign]
            return Term(str(value), "integer", value)
        if term.kind == "constant" and sign != "~":
            return Term(f"({sign}{term.text})", "constant")
        t = self._of(term)
        if t in FLOATING:
            if sign == "~":
                raise ArgumentError("~ takes integers and truth values; the operand is floating")
            return Term(f"({sign}{self.as_type(term, t)})", t)
        text = self.as_type(term, t)
        if sign == "-":
            return self._wrapped("-", t, self._literal(0, t), text)
        return Term(text if sign == "+" else self._narrowed(f"~{text}", t), t)

    def binary(self, sign: str, left: Term, right: Term) -> Term:
        """An operator of two operands."""
        if sign in ("&&", "||"):
            sign = sign if self._width == 1 else sign[0]
            return Term(f"({self.as_mask(left)} {sign} {self.as_mask(right)})", "mask")
        if left.kind == right.kind == "mask" and (
            sign in "&|^" or (self._boolean and sign in "+*")
        ):
            sign = {"+": "|", "*": "&"}.get(sign, sign)
            return Term(f"({left.text} {sign} {right.text})", "mask")
        if left.kind == right.kind == "integer":
            return self._folded(sign, left, right)
        if sign in _COMPARISONS:
            return self._compared(sign, left, right)
        if sign in ("<<", ">>"):
            return self._shifted(sign, left, right)
        if sign == "**":
            return self.power(left, right)
        t = self._of(left, right)
        a, b = self.as_type(left, t), self.as_type(right, t)
        if t in FLOATING:
            if sign in ("&", "|", "^"):
                raise ArgumentError(f"{sign} takes integers and truth values, not floats")
            if sign in ("//", "%"):
                self._alone()
                return Term(self.call("floor_divide" if sign == "//" else "mod", t, a, b), t)
            kind = "constant" if left.kind == right.kind == "constant" else t
            return Term(f"({a} {sign} {b})", kind)
        if sign == "*" and t in ("char", "short") and -1 in (left.value, right.value):
            return self.unary("-", right if left.value == -1 else left)
        if sign in ("+", "-", "*"):
            return self._wrapped(sign, t, a, b)
        if sign in ("&", "|", "^"):
            return Term(self._narrowed(f"{a} {sign} {b}", t), t)
        return self._divided(sign, t, a, b, right)

    def _divided(self, sign: str, t: str, a: str, b: str, right: Term) -> Term:
        """A quotient or remainder of integers, by 0 and of the least one as NumPy's."""
        self._alone()
        if sign == "/" and right.kind == "integer" and right.value > 0 and fits(right.value, t):
            return Term(self._narrowed(f"{a} / {b}", t), t)
        name = {"/": "divide", "//": "floor_divide", "%": "mod"}[sign]
        return Term(self.call(name, t, a, b), t)

    def _wrapped(self, sign: str, t: str, a: str, b: str) -> Term:
        """A sum, difference or product of integers; C leaves it open for signed ones."""
        if t in ("char", "short") and sign == "-":
            return Term(self.call("subtract", t, a, b), t)
        unsigned = "u" + t.removeprefix("u")
        if self._width > 1:
            if t == unsigned:
                return Term(f"({a} {sign} {b})", t)
            u, s = self.type(unsigned), self.type(t)
            return Term(f"as_{s}(as_{u}({a}) {sign} as_{u}({b}))", t)
        if t in ("uint", "ulong"):
            return Term(f"({a} {sign} {b})", t)
        inner = "ulong" if t == "long" else "uint"
        return Term(f"(({t})(({inner}){a} {sign} ({inner}){b}))", t)

    def _narrowed(self, text: str, t: str) -> str:
        """An operation of C on integers, which C computes as int if they are narrow."""
        return f"(({t})({text}))" if SCALAR_BYTES[t] < 4 and self._width == 1 else f"({text})"

    def _folded(self, sign: str, left: Term, right: Term) -> Term:
        """An operation on two literals."""
        a, b = left.value, right.value
        if sign in _COMPARISONS:
            return Term(self._truth(_COMPARISONS[sign](a, b)), "mask")
        floats = self._ctype in FLOATING and not self._boolean
        if floats and (sign == "/" or (sign == "**" and -_MAX_EXPONENT <= b < 0 != a)):
            a, b = (a, b) if sign == "/" else (1, a**-b)
            return Term(f"({literal(a, self._ctype)} / {literal(b, self._ctype)})", "constant")
        if (b == 0 and sign in "//%") or (
            sign in ("**", "<<", ">>") and not 0 <= b <= _MAX_EXPONENT
        ):
            raise ArgumentError(f"{a} {sign} {b} is not an integer that can be computed with")
        value = _ON_LITERALS[sign](a, b)
        return Term(str(value), "integer", value)

    def _compared(self, sign: str, left: Term, right: Term) -> Term:
        if left.kind == "integer":
            return self._compared(_MIRRORED.get(sign, sign), right, left)
        t = self._of(left, right)
        if right.kind == "integer" and t not in FLOATING and not fits(right.value, t):
            # What no value of the type is: all are less, or all are greater.
            return Term(self._truth(_COMPARISONS[sign](0, 1 if right.value > 0 else -1)), "mask")
        return Term(f"({self.as_type(left, t)} {sign} {self.as_type(right, t)})", "mask")

    def _shifted(self, sign: str, left: Term, right: Term) -> Term:
        t = self._of(left, right)
        if t in FLOATING:
            raise ArgumentError(f"{sign} takes integers, not floats")
        bits = 8 * SCALAR_BYTES[t]
        a = self.as_type(left, t)
        if right.kind == "integer" and 0 <= right.value < bits:
            if self._width > 1:
                return Term(f"({a} {sign} {self._literal(right.value, t)})", t)
            if sign == ">>":
                return Term(self._narrowed(f"{a} >> {right.value}", t), t)
            inner = "ulong" if bits == 64 else "uint"
            return Term(f"(({t})(({inner}){a} << {right.value}))", t)
        self._alone()
        name = "left_shift" if sign == "<<" else "right_shift"
        return Term(self.call(name, t, a, self.as_type(right, t)), t)

    def power(self, left: Term, right: Term) -> Term:
        """``left ** right``; a small literal exponent is written out as products."""
        t = self._of(left, right)
        if right.kind == "integer":
            if t not in FLOATING and right.value < 0:
                raise ArgumentError(
                    f"an integer to the power {right.value} is not an integer; expected floats"
                )
            if right.value == 2 and re.fullmatch(r"\w+", left.text):
                return self.binary("*", left, left)
            if right.value == 2:
                return Term(self.call("square", t, self.as_type(left, t)), t)
        a, b = self.as_type(left, t), self.as_type(right, t)
        if t in FLOATING:
            return Term(f"pow({a}, {b})", t)
        self._alone()
        return Term(self.call("power", t, a, b), t)

    # -- functions

    def _called(self, word: str, given: list[Term]) -> Term:
        if word in self._names:
            raise NoTree
        conversion = _CONVERSION.fullmatch(word)
        if conversion and len(given) == 1:
            self._alone()
            operand = self.as_type(given[0], self._of(given[0]))
            return Term(f"{word}({operand})", conversion[1])
        name = ALIASES.get(word, word)
        return self.function(name, word, given)

    def function(self, name: str, word: str, given: list[Term]) -> Term:
        """The call of a function by our name for it, which the text calls ``word``."""
        if name in OPERATORS and len(given) == OPERATORS[name][1]:
            sign, count = OPERATORS[name]
            if sign == "?":
                return self.choice(*given)
            return self.unary(sign, *given) if count == 1 else self.binary(sign, *given)
        method = _METHODS.get(name)
        if method is not None:
            low, high, write = method
            if not low <= len(given) <= high:
                number = str(low) if low == high else f"{low} or more"
                raise ArgumentError(f"{word} takes {number} arguments, and has {len(given)}")
            return write(self, given)
        if name in TESTS and len(given) == 1:
            t = self._of(given[0])
            if t in FLOATING:
                return Term(f"{name}({self.as_type(given[0], t)})", "mask")
            return Term(self._truth(name in ("isfinite", "isnormal")), "mask")
        if name in INTEGER_FUNCTIONS and given:
            t = self._of(*given)
            if t not in FLOATING:
                self._alone()
                return Term(f"(({t}){name}({', '.join(self.as_type(g, t) for g in given)}))", t)
        if name in OF_FLOATS and given:
            t = self._of_floats(word, given)
            return Term(f"{name}({', '.join(self.as_type(g, t) for g in given)})", t)
        if name in OF_FLOATS_BY_INTEGERS and len(given) == 2:
            self._alone()
            t = self._of_floats(word, given[:1])
            return Term(f"{name}({self.as_type(given[0], t)}, {self.as_type(given[1], 'int')})", t)
        raise NoTree

    def _of_floats(self, word: str, given: list[Term]) -> str:
        """The C type of a function of floats; integers are converted to it."""
        t = self._of(*given)
        if t in FLOATING:
            return t
        if self._cuts:
            raise ArgumentError(
                f"{word} takes floats, and the inputs' common dtype is of integers; convert, as in "
                f"{word}((float)x), or ask for a floating dtype="
            )
        self._alone()
        return self._floating

    def _extreme(self, helper: str, given: list[Term]) -> Term:
        if all(g.kind == "mask" for g in given) and self._boolean:
            sign = "&" if helper == "minimum" else "|"
            return Term(f"({f' {sign} '.join(g.text for g in given)})", "mask")
        t = self._of(*given)
        text = self.as_type(given[0], t)
        for other in given[1:]:
            text = self.call(helper, t, text, self.as_type(other, t))
        return Term(text, t)

    def _absolute(self, given: list[Term]) -> Term:
        (term,) = given
        if term.kind == "mask":
            return term
        t = self._of(term)
        text = self.as_type(term, t)
        if t in FLOATING:
            return Term(f"fabs({text})", t)
        return term if t[0] == "u" else Term(self.call("absolute", t, text), t)

    def _sign(self, given: list[Term]) -> Term:
        t = self._of(*given)
        return Term(self.call("sign_of", t, self.as_type(given[0], t)), t)

    def _real(self, given: list[Term]) -> Term:
        return given[0]

    def _imaginary(self, given: list[Term]) -> Term:
        t = self._of(given[0])
        return Term(self._literal(0, t), t)

    def _fmod(self, given: list[Term]) -> Term:
        t = self._of(*given)
        a, b = (self.as_type(g, t) for g in given)
        if t in FLOATING:
            return Term(f"fmod({a}, {b})", t)
        self._alone()
        return Term(self.call("remainder_of", t, a, b), t)

    def _exclusive(self, given: list[Term]) -> Term:
        a, b = (self.as_mask(g) for g in given)
        return Term(f"({a} ^ {b})", "mask")

    def _clip(self, given: list[Term]) -> Term:
        return self._extreme("minimum", [self._extreme("maximum", given[:2]), given[2]])

    def _clamp(self, given: list[Term]) -> Term:
        t = self._of(*given)
        return Term(f"clamp({', '.join(self.as_type(g, t) for g in given)})", t)

    def _square(self, given: list[Term]) -> Term:
        return self.power(given[0], Term("2", "integer", 2))

    def _reciprocal(self, given: list[Term]) -> Term:
        return self.binary("/", Term("1", "integer", 1), given[0])

    def _angle(self, given: list[Term]) -> Term:
        t = self._of_floats("angle", given)
        return Term(f"atan2({self._literal(0, t)}, {self.as_type(given[0], t)})", t)


#: NumPy's and Python's names of operators, and how many operands they have.
OPERATORS = {
    "where": ("?", 3), "add": ("+", 2), "subtract": ("-", 2), "multiply": ("*", 2),
    "divide": ("/", 2), "floor_divide": ("//", 2), "mod": ("%", 2), "power": ("**", 2),
    "negative": ("-", 1), "positive": ("+", 1), "invert": ("~", 1), "left_shift": ("<<", 2),
    "right_shift": (">>", 2), "bitwise_and": ("&", 2), "bitwise_or": ("|", 2),
    "bitwise_xor": ("^", 2), "logical_and": ("&&", 2), "logical_or": ("||", 2),
    "logical_not": ("!", 1), "equal": ("==", 2), "not_equal": ("!=", 2), "less": ("<", 2),
    "greater": (">", 2), "less_equal": ("<=", 2), "greater_equal": (">=", 2),
}  # fmt: skip
_MANY = 16
_METHODS: Mapping[str, tuple[int, int, Callable[[Any, list[Term]], Term]]] = {
    "minimum": (2, _MANY, lambda terms, given: terms._extreme("minimum", given)),
    "maximum": (2, _MANY, lambda terms, given: terms._extreme("maximum", given)),
    "absolute": (1, 1, Terms._absolute),
    "sign": (1, 1, Terms._sign),
    "conjugate": (1, 1, Terms._real),
    "real": (1, 1, Terms._real),
    "imag": (1, 1, Terms._imaginary),
    "angle": (1, 1, Terms._angle),
    "fmod": (2, 2, Terms._fmod),
    "logical_xor": (2, 2, Terms._exclusive),
    "clip": (3, 3, Terms._clip),
    "clamp": (3, 3, Terms._clamp),
    "square": (1, 1, Terms._square),
    "reciprocal": (1, 1, Terms._reciprocal),
}
