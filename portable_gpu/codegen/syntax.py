"""A user's expression as a tree: operators of C and of Python, calls, casts, literals.

The precedence is that of C; Python's ``**``, ``//``, ``and``, ``or``, ``not`` and ``a if c else b``
have their usual positions.  A text with other parts of C (members, indices, assignments) has no
tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from portable_gpu.errors import ArgumentError

_TOKEN = re.compile(
    r"\s*(?:(?P<imaginary>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[jJ])(?!\w)"
    r"|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)(?![\w.])"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\*\*|//|&&|\|\||<<|>>|[<>=!]=|[-+*/%&|^~!<>?:(),]))"
)
#: C's scalar types by the words of a cast.
_TYPES = {name: name for name in ("float", "double", "bool")} | {
    sign + name: sign + name for sign in ("", "u") for name in ("char", "short", "int", "long")
}
_WORDS = {"and": "&&", "or": "||", "True": "true", "False": "false"}
_LEVELS = (
    ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "//", "%"),
)  # fmt: skip
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")


@dataclass(frozen=True)
class Literal:
    """A number, as it is written in the text."""

    text: str
    kind: str  # integer, floating, imaginary


@dataclass(frozen=True)
class Name:
    """An input, or a constant of C."""

    word: str


@dataclass(frozen=True)
class OperatorNode:
    """An operator: ``- + ~ !`` with one operand, ``?`` with three, all others with two."""

    sign: str
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Called:
    """A function with its arguments."""

    name: str
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Cast:
    """A conversion to a scalar type of C."""

    ctype: str
    operand: Node


Node = Literal | Name | OperatorNode | Called | Cast


class NoTree(Exception):  # noqa: N818  # no error: the text is passed to the compiler unchanged
    """The text has syntax that this parser does not support."""


@lru_cache(maxsize=1024)
def parsed(text: str) -> Node | None:
    """Return the tree of an expression; ``None`` if it has syntax that is not supported.

    Raises:
        ArgumentError: A comparison without parentheses is an operand of another comparison, which
            means one thing in Python and another in C.
    """
    try:
        return _Parser(text).whole()
    except NoTree:
        return None


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens = text, list[tuple[str, str]]()
        at, stripped = 0, text.strip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise NoTree
            kind, word = str(match.lastgroup), match[str(match.lastgroup)]
            self._tokens.append((kind, _WORDS.get(word, word)))
            at = match.end()
        self._tokens.append(("end", ""))

    def whole(self) -> Node:
        """Return the tree of the whole text."""
        tree = self._choice()
        self._expect("")
        return tree

    def _choice(self) -> Node:
        first = self._either()
        if self._take("?"):
            chosen = self._choice()
            self._expect(":")
            return OperatorNode("?", (first, chosen, self._choice()))
        if self._take("if"):
            condition = self._either()
            self._expect("else")
            return OperatorNode("?", (condition, first, self._choice()))
        return first

    def _either(self) -> Node:
        left = self._both()
        while self._take("||"):
            left = OperatorNode("||", (left, self._both()))
        return left

    def _both(self) -> Node:
        left = self._negated()
        while self._take("&&"):
            left = OperatorNode("&&", (left, self._negated()))
        return left

    def _negated(self) -> Node:
        if self._take("not"):
            return OperatorNode("!", (self._negated(),))
        return self._binary(0)[0]

    def _binary(self, level: int) -> tuple[Node, bool]:
        """Return the operation at this or a higher level of precedence, and whether it compares."""
        if level == len(_LEVELS):
            return self._unary(), False
        left, compares = self._binary(level + 1)
        while self._tokens[0][1] in _LEVELS[level]:
            sign = self._tokens.pop(0)[1]
            right, also = self._binary(level + 1)
            if sign in _COMPARISONS and (compares or also):
                raise ArgumentError(
                    f"expression is {self._text!r}: comparisons in a row mean one thing in Python "
                    "and another in C; write 'a < b && b < c', or brackets"
                )
            left, compares = OperatorNode(sign, (left, right)), sign in _COMPARISONS
        return left, compares

    def _unary(self) -> Node:
        for sign in "-+!~":
            if self._take(sign):
                return OperatorNode(sign, (self._unary(),))
        if self._tokens[0][1] == "(" and self._tokens[1][1] in _TYPES:
            self._expect("(")
            ctype = _TYPES[self._tokens.pop(0)[1]]
            self._expect(")")
            return Cast(ctype, self._unary())
        base = self._primary()
        return OperatorNode("**", (base, self._unary())) if self._take("**") else base

    def _primary(self) -> Node:
        kind, word = self._tokens.pop(0)
        if kind == "imaginary":
            return Literal(word[:-1], "imaginary")
        if kind == "number":
            is_integer = word[:2].lower() == "0x" or not re.search(r"[.eEfF]", word)
            return Literal(word, "integer" if is_integer else "floating")
        if kind == "name" and word not in ("if", "else", "not", "&&", "||"):
            return Called(word, self._arguments()) if self._take("(") else Name(word)
        if word == "(":
            inner = self._choice()
            self._expect(")")
            return inner
        raise NoTree

    def _arguments(self) -> tuple[Node, ...]:
        if self._take(")"):
            return ()
        arguments = [self._choice()]
        while self._take(","):
            arguments.append(self._choice())
        self._expect(")")
        return tuple(arguments)

    def _take(self, word: str) -> bool:
        if self._tokens[0][1] == word and word:
            self._tokens.pop(0)
            return True
        return False

    def _expect(self, word: str) -> None:
        if self._tokens.pop(0)[1] != word:
            raise NoTree
