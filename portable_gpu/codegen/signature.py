"""The parameters of kernels whose family does not declare them: they are read from the text."""

from __future__ import annotations

import re

from portable_gpu.codegen.parameters import SCALARS, Parameter, head, laid_out

_HEAD = re.compile(r"__kernel\b[^;{]*?\bvoid\s+(\w+)\s*\(([^()]*)\)\s*\{")


def read(text: str) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each kernel of a text, which has no ``#include``.

    Raises:
        LookupError: A kernel takes a scalar of a type that no host passes.
    """
    return {head[1]: _parameters(head, text) for head in _HEAD.finditer(text)}


def with_heads(text: str) -> tuple[str, dict[str, tuple[Parameter, ...]]]:
    """The text with its kernels' heads as :func:`head` writes them, and their parameters.

    Raises:
        LookupError: As :func:`read`.
    """
    kernels, parts, end = dict[str, tuple[Parameter, ...]](), list[str](), 0
    for match in _HEAD.finditer(text):
        kernels[match[1]] = parameters = laid_out(_parameters(match, text))
        parts += [text[end : match.start(1)], head(match[1], parameters)]
        end = match.end(2) + 1
    return "".join([*parts, text[end:]]), kernels


def _parameters(head: re.Match[str], text: str) -> tuple[Parameter, ...]:
    return tuple(_parameter(one, text, head[1]) for one in head[2].split(","))


def _parameter(declared: str, text: str, kernel: str) -> Parameter:
    *words, name = re.findall(r"\w+|\*", declared)
    ctype = declared.strip().removesuffix(name).strip()
    if "*" in words:
        return Parameter(name, None, ctype=ctype)
    kind = words[-1]
    if kind not in SCALARS:
        alias = re.search(rf"\btypedef\s+(\w+)\s+{kind}\b", text)
        kind = alias[1] if alias else kind
    if kind not in SCALARS:
        raise LookupError(f"{kernel} takes {declared.strip()}, a type that no host passes")
    return Parameter(name, SCALARS[kind], ctype=ctype)
