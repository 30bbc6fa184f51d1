"""The normal form of an OpenCL text: neither a renaming nor another layout changes it.

Comments and white space are left out.  Each identifier that the text itself declares (functions,
parameters, variables, types, fields and macros) becomes a number in the order of declaration, by
C's scopes.  Numbers, strings, keywords, built-in functions and the names that options define stay.

A macro may name what is declared where it is used, and a directive what is defined later.  Such a
name has a number of its own, ``m``, which every declaration of the name carries too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

_TOKEN = re.compile(
    r"""(?P<skip>/\*.*?\*/|//[^\n]*|\\\n|[ \t\r\f\v]+)
    |(?P<line>\n)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|\.\.\.|\+\+|--|->|<<|>>|&&|\|\||\#\#|[-<>=!+*/%&|^]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_TYPE = re.compile(
    r"(?:bool|u?char|u?short|u?int|u?long|float|double|half|void|size_t|ptrdiff_t|u?intptr_t"
    r"|signed|unsigned|event_t)(?:2|3|4|8|16)?"
)
_QUALIFIERS = frozenset((
    "const", "volatile", "restrict", "__restrict", "static", "inline", "extern", "typedef",
    "register", "kernel", "__kernel", "global", "__global", "local", "__local", "private",
    "__private", "constant", "__constant",
))  # fmt: skip
_ATTRIBUTE = "__attribute__"
_KINDS = frozenset(("struct", "union", "enum"))
#: What begins no declaration.
_STATEMENTS = frozenset((
    "return", "else", "goto", "case", "default", "do", "sizeof", "if", "while", "for", "switch",
    "break", "continue", "asm", "__asm__",
))  # fmt: skip
_RESERVED = _QUALIFIERS | _STATEMENTS | _KINDS | {_ATTRIBUTE, "defined"}
#: What follows a name where it is declared; the empty string is the end of a directive.
_AFTER = frozenset(("=", ";", ",", "[", "(", ")", ":", _ATTRIBUTE, ""))
_digests: dict[tuple[bytes, frozenset[str]], str] = {}


def canonical(text: str, defined: Iterable[str] = ()) -> str:
    """The normal form of a text, a statement or a directive a line.

    Args:
        text: The OpenCL text.
        defined: Names that options define.
    """
    return _canonical(text, frozenset(defined))


def digest(text: str, defined: Iterable[str] = ()) -> str:
    """Twelve hexadecimal digits of a hash of the normal form, remembered."""
    names = frozenset(defined)
    key = sha256(text.encode()).digest(), names
    result = _digests.get(key)
    if result is None:
        result = sha256(_canonical(text, names).encode()).hexdigest()[:12]
        _digests[key] = result
    return result


def defined_by(options: Iterable[str]) -> frozenset[str]:
    """The names that compiler options define."""
    return frozenset(item[2:].split("=")[0] for item in options if item.startswith("-D"))


def _canonical(text: str, defined: frozenset[str]) -> str:
    tokens = _tokens(text)
    first = _Form(tokens, defined, {})
    result = first.written()
    declared = first.inner | set(first.top)
    used = [
        name for name in first.loose if name in (declared if first.loose[name] else first.inner)
    ]
    if not used:
        return result
    return _Form(tokens, defined, {name: f"m{k}" for k, name in enumerate(used)}).written()


def _tokens(text: str) -> list[tuple[str, str]]:
    """Kinds and texts of all tokens; each directive has an ``end``.

    Behind the name of a macro without parameters is a ``:=``, which parts it from its meaning.
    """
    result: list[tuple[str, str]] = []
    inside, ended = False, -1
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup or "", match[0]
        if kind == "skip":
            continue
        begins = not inside and token == "#" and not text[ended + 1 : match.start()].strip(" \t")
        if kind == "line":
            ended = match.start()
            if inside:
                result.append(("end", ""))
            inside = False
            continue
        if begins:
            inside = True
            result.append(("directive", "#"))
            continue
        result.append((kind, token))
        names_macro = inside and [item for _, item in result[-3:-1]] == ["#", "define"]
        if names_macro and text[match.end() : match.end() + 1] != "(":
            result.append(("sign", ":="))
    return [*result, ("end", "")] if inside else result


@dataclass
class _Bracket:
    """An open bracket.

    Attributes:
        kind: ``block``, ``fields``, ``values``, ``parameters`` or ``other``.
        scoped: Whether names that are declared in it end with it.
        declares: Whether the current statement declares something.
    """

    kind: str
    scoped: bool = False
    declares: bool = False


class _Form:
    """The tokens of a text, written with numbers for names.

    Attributes:
        inner: Names that are declared inside of functions.
        top: Names that are declared outside of functions.
        loose: Names that macros use, apart from their own parameters and variables, and names that
            are used before they are declared; of each whether it is of the second kind.
    """

    def __init__(
        self, tokens: list[tuple[str, str]], defined: frozenset[str], free: dict[str, str]
    ) -> None:
        self._tokens, self._defined, self._free = tokens, defined, free
        self.top: dict[str, str] = {}
        self._scopes = [self.top]
        self._fields: dict[str, str] = {}
        self._brackets = [_Bracket("block")]
        self._declared: set[int] = set()  # the places of names that are about to be declared
        self._count = 0
        self.inner: set[str] = set()
        self.loose: dict[str, bool] = {}

    def written(self) -> str:
        """The normal form."""
        words: list[str] = []
        k, tokens = 0, self._tokens
        self._begin(0)
        while k < len(tokens):
            kind, token = tokens[k]
            if kind == "directive":
                k = self._directive(k, words)
                self._begin(k)
                continue
            words.append(self._name(k) if kind == "name" else token)
            self._step(k)
            if token in ("{", "}", ";") and self._brackets[-1].kind != "other":
                words.append("\n")
            k += 1
        return re.sub(r" *\n[ \n]*", "\n", " ".join(words)).strip() + "\n"

    def _directive(self, k: int, words: list[str]) -> int:
        """Write a line of the preprocessor; the place behind it is returned."""
        end = k
        while self._tokens[end][0] != "end":
            end += 1
        words += ["\n", "#"]
        scopes, brackets = len(self._scopes), self._brackets
        defines = self._tokens[k + 1][1] == "define"
        first = k + 1
        if defines:
            name = self._tokens[k + 2][1]
            words += ["define", self._declare(name, self._scopes[0])]
            first = k + 3
            self._scopes.append({})
            self._brackets = [_Bracket("block")]
            if self._tokens[first][1] == "(":
                while self._tokens[first][1] != ")":
                    kind, token = self._tokens[first]
                    is_name = kind == "name"
                    words.append(self._declare(token, self._scopes[-1]) if is_name else token)
                    first += 1
                words.append(")")
                first += 1
            self._begin(first)
        for at in range(first, end):
            kind, token = self._tokens[at]
            if kind != "name":
                words.append(token)
            elif defines:
                words.append(self._name(at, scopes))
            else:
                words.append(self._resolved(at))
            if defines:
                self._step(at)
        words.append("\n")
        del self._scopes[scopes:]
        self._brackets = brackets
        return end + 1

    # -- brackets and statements

    def _step(self, k: int) -> None:
        """Follow token k: brackets, and where statements begin."""
        token, top = self._tokens[k][1], self._brackets[-1]
        before = self._tokens[k - 1][1] if k else ""
        if token in ("(", "["):
            of_function = token == "(" and k - 1 in self._declared
            if of_function:
                self._scopes.append({})
            self._brackets.append(_Bracket("parameters" if of_function else "other"))
            if of_function or (token == "(" and before == "for"):
                self._begin(k + 1)
        elif token == "{":
            self._open(k, top, before)
        elif token in (")", "]") and len(self._brackets) > 1:
            closed = self._brackets.pop()
            if closed.kind == "parameters" and not self._has_body(k + 1) and len(self._scopes) > 1:
                self._scopes.pop()
        elif token == "}" and len(self._brackets) > 1:
            closed = self._brackets.pop()
            if closed.scoped and len(self._scopes) > 1:
                self._scopes.pop()
            if closed.kind == "block":
                self._brackets[-1].declares = False
                self._begin(k + 1)
            elif closed.kind == "fields":
                self._further(k + 1)
        elif token == ";":
            top.declares = False
            if top.kind in ("block", "fields"):
                self._begin(k + 1)
        elif token == ",":
            if top.kind == "parameters":
                self._begin(k + 1)
            elif top.declares:
                self._further(k + 1)

    def _open(self, k: int, top: _Bracket, before: str) -> None:
        if before in ("=", ",", "return") or top.kind == "values":
            self._brackets.append(_Bracket("values"))
        elif before in _KINDS or (k > 1 and self._tokens[k - 2][1] in _KINDS):
            self._brackets.append(_Bracket("fields"))
            self._begin(k + 1)
        else:
            if not self._closes_parameters(k - 1):
                self._scopes.append({})
            self._brackets.append(_Bracket("block", scoped=True))
            self._begin(k + 1)

    def _has_body(self, k: int) -> bool:
        """Whether a function's body follows its parameters."""
        k = self._past_attributes(k)
        return k < len(self._tokens) and self._tokens[k][1] == "{"

    def _closes_parameters(self, k: int) -> bool:
        """Whether the parenthesis that ends at k holds a function's parameters."""
        depth = 0
        while k >= 0:
            token = self._tokens[k][1]
            if token == ")":
                depth += 1
            elif token == "(":
                depth -= 1
            if depth == 0:
                break
            k -= 1
        if k < 1 or self._tokens[k][1] != "(":
            return False
        if self._tokens[k - 1][1] == _ATTRIBUTE:
            return self._closes_parameters(k - 2)
        return k - 1 in self._declared

    def _past_attributes(self, k: int) -> int:
        """Return the place behind attributes, and behind macros with arguments in their place."""
        tokens = self._tokens
        while k + 1 < len(tokens) and tokens[k][0] == "name" and tokens[k + 1][1] == "(":
            end, depth = k + 1, 0
            while end < len(tokens):
                depth += (tokens[end][1] == "(") - (tokens[end][1] == ")")
                end += 1
                if depth == 0:
                    break
            is_macro = (
                tokens[k][1] not in _STATEMENTS and end < len(tokens) and tokens[end][0] == "name"
            )
            if tokens[k][1] != _ATTRIBUTE and not is_macro:
                break
            k = end
        return k

    def _begin(self, k: int) -> None:
        """Note the name that a statement, or a parameter, from token k on declares."""
        names, last = 0, -1  # names that may be of a type, and the last one
        tokens = self._tokens
        while k < len(tokens):
            k = self._past_attributes(k)
            kind, token = tokens[k] if k < len(tokens) else ("end", "")
            if token in _QUALIFIERS or (token == "*" and names):
                k += 1
                continue
            if token in _KINDS:
                k += 1
                if tokens[k][0] == "name" and tokens[k + 1][1] == "{":
                    self._declared.add(k)
                if "{" in (tokens[k][1], tokens[k + 1][1]):
                    self._brackets[-1].declares = True
                    return
            elif kind != "name" or token in _STATEMENTS:
                break
            names, last, k = names + 1, k, k + 1
        following = tokens[k][1] if k < len(tokens) else ""
        if names > 1 and following in _AFTER and not _TYPE.fullmatch(tokens[last][1]):
            self._declared.add(last)
            self._brackets[-1].declares = self._brackets[-1].kind != "parameters"

    def _further(self, k: int) -> None:
        """Note the next name of a declaration."""
        tokens = self._tokens
        while k < len(tokens) and (tokens[k][1] == "*" or tokens[k][1] in _QUALIFIERS):
            k += 1
        if k < len(tokens) and tokens[k][0] == "name":
            self._declared.add(k)

    # -- names

    def _name(self, k: int, of_macro: int = 0) -> str:
        """Return what stands for the name that is token k.

        Args:
            k: Which token.
            of_macro: In the meaning of a macro, at which scope its own begin.
        """
        token = self._tokens[k][1]
        if k in self._declared:
            if self._brackets[-1].kind == "fields":
                self._fields[token] = f"f{self._count}"
                self._count += 1
                return self._fields[token]
            if len(self._scopes) > 1:
                self.inner.add(token)
            return self._declare(token, self._scopes[-1])
        if of_macro and not any(token in scope for scope in self._scopes[of_macro:]):
            self.loose.setdefault(token, False)
            if token in self._free and self._tokens[k - 1][1] not in (".", "->"):
                return self._free[token]
        return self._resolved(k)

    def _resolved(self, k: int) -> str:
        token, before = self._tokens[k][1], self._tokens[k - 1][1] if k else ""
        if before in (".", "->"):
            return self._fields.get(token, token)
        for scope in reversed(self._scopes):
            if token in scope:
                return scope[token]
        self.loose[token] = True
        return self._free.get(token, token)

    def _declare(self, name: str, scope: dict[str, str]) -> str:
        """A number for a name; the same again for what has one outside of functions."""
        if name in self._defined or name in _RESERVED:
            return name
        if scope is not self._scopes[0] or name not in scope:
            scope[name] = f"n{self._count}{self._free.get(name, '')}"
            self._count += 1
        return scope[name]
