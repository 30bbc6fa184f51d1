"""A kernel's integers as one argument: the fields of a struct, the largest first.

Sizes, strides and offsets are most of what a kernel takes, and a launch costs time for each
argument: on PoCL 0.8 us for a kernel without integers, 2.2 for one of 50
(``tools/launch_arguments.py``).  Templates declare them one by one.
"""

from __future__ import annotations

import re

#: C's types of integers, and their bytes.
BYTES = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8,
}  # fmt: skip
#: How the names of fields begin that have no meaning.
PADDING = "padding_"
_HEAD = re.compile(r"__kernel\b[^;{]*?\bvoid\s+(\w+)\s*\(([^()]*)\)\s*\{")
_DECLARED = re.compile(rf"\s*(?:const\s+)?({'|'.join(BYTES)})\s+(\w+)\s*")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|.)*)", re.MULTILINE)
#: Fewer stay as they are.
_SEVERAL = 2


def gathered(text: str) -> str:
    """The text, each of whose kernels takes its integers as ``integers``, a struct of its own.

    A body declares those that it names.  It may name one that it does not read, for a macro or a
    variable of its own can have the name: hence ``(void)``.
    """
    macros = {name: set(re.findall(r"\w+", meaning)) for name, meaning in _MACRO.findall(text)}
    found, end = list[str](), 0
    for head in _HEAD.finditer(text):
        declared = [(one.strip(), _DECLARED.fullmatch(one)) for one in head[2].split(",")]
        fields = [(match[1], match[2]) for _, match in declared if match]
        if len(fields) < _SEVERAL:
            continue
        fields += _padding(fields)
        fields.sort(key=lambda field: -BYTES[field[0]])
        struct = f"{head[1]}_integers_t"
        others = [one for one, match in declared if not match]
        body = text[head.end() : _end_of_block(text, head.end())]
        read = _with_macros(set(re.findall(r"\w+", body)), macros)
        found += [
            text[end : head.start()],
            "typedef struct {\n",
            *(f"    {ctype} {name};\n" for ctype, name in fields),
            f"}} {struct};\n\n{text[head.start() : head.start(2)]}",
            ", ".join([*others, f"const {struct} integers"]),
            ")\n{",
            *(
                f"\n    {ctype} {name} = integers.{name}; (void){name};"
                for ctype, name in fields
                if name in read
            ),
        ]
        end = head.end()
    return "".join([*found, text[end:]])


def _padding(fields: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Fields that make the struct a multiple of its largest one: rusticl takes no size beyond."""
    sizes = [BYTES[ctype] for ctype, _ in fields]
    rest = -sum(sizes) % max(sizes)
    return [
        (ctype, PADDING + ctype) for ctype in ("uint", "ushort", "uchar") if rest & BYTES[ctype]
    ]


def _with_macros(words: set[str], macros: dict[str, set[str]]) -> set[str]:
    """Words, and those of macros among them: of conditional ones, perhaps more than are used."""
    found, more = set[str](), words
    while more:
        found |= more
        more = set().union(*(macros.get(word, ()) for word in more)) - found
    return found


def _end_of_block(text: str, start: int) -> int:
    """Where the block ends that is open at ``start``."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.start()
    return len(text)
