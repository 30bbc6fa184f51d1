"""A user's expression as C functions: of single values, and of vectors.

The text is written for single values.  A vector function is the same text with vectors for the
names wherever that means the same (:class:`_Parser` knows the rules), and else one call for each
component.  Where a compiler does not inline OpenCL's built-ins, one ``exp`` of 8 floats takes about
as long as one of a single float (docs/experiments.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from portable_gpu.codegen.operators import component, vector

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||<<|>>|[<>=!]=|[-+*/%&|^~!<>?:(),]))"
)
_FLOAT_LITERAL = re.compile(
    r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w.])"
)
_DOUBLE_CONSTANT = re.compile(r"\bM_(?!\w+_[FH]\b)\w+")
_FLOATING = ("float", "double")
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_FUNCTIONS = """
acos acosh acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi cbrt ceil clamp copysign cos
cosh cospi degrees erf erfc exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin fmod hypot lgamma
log log10 log1p log2 mad max maxmag min minmag mix nextafter pow powr radians remainder rint
round rsqrt sign sin sinh sinpi smoothstep sqrt step tan tanh tanpi tgamma trunc native_cos
native_divide native_exp native_exp10 native_exp2 native_log native_log10 native_log2
native_powr native_recip native_rsqrt native_sin native_sqrt native_tan
"""
#: Built-ins that are of vectors, component by component, what they are of single values.
_OF_FLOATS = frozenset(_FUNCTIONS.split())
_OF_INTEGERS = frozenset(("clamp", "max", "min"))
_TESTS = frozenset(("isfinite", "isinf", "isnan", "isnormal"))


def with_literals_of(text: str, ctype: str) -> str:
    """``text`` with its floating literals of ``ctype``: C takes ``0.5`` and ``M_PI`` for double."""
    if ctype == "double":
        return text
    return _DOUBLE_CONSTANT.sub(r"\g<0>_F", _FLOAT_LITERAL.sub(r"\1f", text))


@dataclass(frozen=True)
class Function:
    """An expression as a C function for each number of lanes.

    Attributes:
        name: Of the C function; with ``width`` lanes, followed by the width.
        text: The expression.
        parameters: Its names, each with the C type that it comes in.
        compute: The C type that all of them are converted to.
        result: The C type that is returned.
        truth: Whether what counts is only if the outcome differs from 0: 1 is returned, or 0.
        by_component: Whether functions of vectors always call that of single values.
    """

    name: str
    text: str
    parameters: tuple[tuple[str, str], ...]
    compute: str
    result: str
    truth: bool = False
    by_component: bool = False

    def called(self, width: int) -> str:
        """The C function's name for a number of lanes."""
        return self.name if width == 1 else f"{self.name}_{width}"

    def vectors(self, width: int) -> str | None:
        """The body's expression in vectors; ``None`` where it would not mean the same."""
        found = _of_vectors(
            self.text, frozenset(n for n, _ in self.parameters), self.compute, width
        )
        if found is None:
            return None
        text, is_mask = found
        t = vector(self.compute, width)
        if self.truth:
            mask = text if is_mask else f"(({text}) != ({t})(0))"
            return f"CONVERT({vector(self.result, width)}, {mask} & 1)"
        if is_mask:
            text = f"(({text}) ? ({t})(1) : ({t})(0))"
        if self.result == self.compute:
            return text
        return f"CONVERT({vector(self.result, width)}, {text})"

    def define(self, width: int) -> str:
        """The C text of the function for ``width`` lanes; those of vectors may call that of one."""
        result = vector(self.result, width)
        body = f"({self.text})" + (" != 0" if self.truth else "")
        if width > 1:
            whole = None if self.by_component else self.vectors(width)
            if whole is None:
                return self._by_component(width)
            body = whole
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
        if ctype == self.compute:
            return f"{name}__in"
        to = vector(self.compute, width)
        return f"({to}){name}__in" if width == 1 else f"CONVERT({to}, {name}__in)"

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


# -- from single values to vectors


class _NotOfVectors(Exception):  # noqa: N818  # no error: there is another way
    """The text may mean something else in vectors."""


@dataclass(frozen=True)
class _Term:
    """A part of an expression, in C.

    Attributes:
        text: It.
        kind: ``constant``: of literals only, a single value.  ``value``: a vector of the type
            computed in.  ``integer``: such a vector, where C would have an int.  ``mask``: a vector
            of 0 and -1, where C would have an int, 0 or 1.
        floats: Whether a constant is floating.
    """

    text: str
    kind: str
    floats: bool = False


def _of_vectors(
    text: str, names: frozenset[str], ctype: str, width: int
) -> tuple[str, bool] | None:
    """The expression ``text`` in vectors of ``names``, and whether it is a mask."""
    try:
        parser = _Parser(text, names, ctype, width)
        term = parser.whole()
    except _NotOfVectors:
        return None
    if term.kind == "mask":
        return term.text, True
    return parser.wide(term), False


class _Parser:
    """Reads an expression from left to right, by C's precedence."""

    def __init__(self, text: str, names: frozenset[str], ctype: str, width: int) -> None:
        self._tokens: list[tuple[str, str]] = []
        at, text = 0, text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _NotOfVectors
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()
        self._tokens.append(("end", ""))
        self._names = names
        self._type = vector(ctype, width)
        self._floating = ctype in _FLOATING
        self._ctype = ctype

    def whole(self) -> _Term:
        """All of the text."""
        term = self._choice()
        self._expect("")
        return term

    def wide(self, term: _Term) -> str:
        """The text of a term as a vector of the type computed in."""
        if term.kind == "constant":
            if term.floats and not self._floating:
                raise _NotOfVectors
            return f"(({self._type})({term.text}))"
        if term.kind == "mask":
            return f"({term.text} ? ({self._type})(1) : ({self._type})(0))"
        return term.text

    def _mask(self, term: _Term) -> str:
        if term.kind == "mask":
            return term.text
        if term.kind == "constant":
            raise _NotOfVectors
        return f"({term.text} != ({self._type})(0))"

    def _choice(self) -> _Term:
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        chosen = self._choice()
        self._expect(":")
        other = self._choice()
        mask = self._mask(condition)
        text = f"({mask} ? {self.wide(chosen)} : {self.wide(other)})"
        return _Term(text, "value" if self._is_value(chosen, other) else "integer")

    def _is_value(self, *terms: _Term) -> bool:
        """Whether C's type of an operation on ``terms`` is the one computed in."""
        return any(term.kind == "value" or term.floats for term in terms) or self._ctype == "int"

    def _binary(self, level: int) -> _Term:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._tokens[0][1] in _LEVELS[level]:
            sign = self._tokens.pop(0)[1]
            left = self._combine(left, sign, self._binary(level + 1))
        return left

    def _combine(self, left: _Term, sign: str, right: _Term) -> _Term:
        if left.kind == right.kind == "constant":
            floats = (left.floats or right.floats) and sign in "+-*/"
            return _Term(f"({left.text} {sign} {right.text})", "constant", floats)
        if sign in ("&&", "||"):
            return _Term(f"({self._mask(left)} {sign[0]} {self._mask(right)})", "mask")
        decides = (left,) if sign in ("<<", ">>") else (left, right)  # on C's type of the result
        if not self._is_value(*decides):
            raise _NotOfVectors
        # An integer divided by 0 may end the process: only where the text's own condition lets it.
        if not self._floating and sign in "/%":
            raise _NotOfVectors
        if self._floating and sign in ("%", "&", "|", "^", "<<", ">>"):
            raise _NotOfVectors
        text = f"({self.wide(left)} {sign} {self.wide(right)})"
        return _Term(text, "mask" if sign[0] in "=!" or sign in ("<", ">", "<=", ">=") else "value")

    def _unary(self) -> _Term:
        if self._take("-"):
            return self._signed("-", self._unary())
        if self._take("+"):
            return self._signed("+", self._unary())
        if self._take("!"):
            return _Term(f"(!{self._mask(self._unary())})", "mask")
        if self._take("~"):
            if self._floating:
                raise _NotOfVectors
            return self._signed("~", self._unary())
        return self._primary()

    def _signed(self, sign: str, term: _Term) -> _Term:
        if term.kind == "constant":
            return _Term(f"({sign}{term.text})", "constant", term.floats)
        if not self._is_value(term):
            raise _NotOfVectors
        return _Term(f"({sign}{self.wide(term)})", "value")

    def _primary(self) -> _Term:
        kind, word = self._tokens.pop(0)
        if kind == "number":
            return self._number(word)
        if kind == "name":
            return self._call(word) if self._take("(") else self._name(word)
        if word == "(":
            term = self._choice()
            self._expect(")")
            return term
        raise _NotOfVectors

    def _number(self, word: str) -> _Term:
        if word[:2].lower() == "0x" or not re.search(r"[.eEfF]", word):
            # Others may be wider than the type computed in, or octal.
            plain = re.fullmatch(r"0[xX][0-9a-fA-F]+|0|[1-9]\d*", word)
            if not self._floating and (plain is None or int(word, 0) >= 1 << 31):
                raise _NotOfVectors
            return _Term(word, "constant")
        if word[-1] not in "fF" and self._ctype != "double":
            raise _NotOfVectors
        return _Term(word, "constant", True)

    def _name(self, word: str) -> _Term:
        if word in self._names:
            return _Term(word, "value")
        if word in ("INFINITY", "NAN") or word in ("M_PI", "M_E") or re.fullmatch(r"M_\w+_F", word):
            return _Term(word, "constant", True)
        raise _NotOfVectors

    def _call(self, word: str) -> _Term:
        if word in self._names or word not in (
            _OF_FLOATS | _TESTS if self._floating else _OF_INTEGERS
        ):
            raise _NotOfVectors
        given = [self._choice()]
        while self._take(","):
            given.append(self._choice())
        self._expect(")")
        if not self._is_value(*given):
            raise _NotOfVectors
        text = f"{word}({', '.join(self.wide(term) for term in given)})"
        return _Term(text, "mask" if word in _TESTS else "value")

    def _take(self, word: str) -> bool:
        if self._tokens[0][1] == word and word:
            self._tokens.pop(0)
            return True
        return False

    def _expect(self, word: str) -> None:
        if self._tokens.pop(0)[1] != word:
            raise _NotOfVectors
