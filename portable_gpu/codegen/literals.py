"""Literals and conversions in C."""

from __future__ import annotations

from portable_gpu.codegen.operators import SCALAR_BYTES

FLOATING = ("float", "double")


def fits(value: int, ctype: str) -> bool:
    """Return whether an integer type of C holds a value."""
    bits = 8 * SCALAR_BYTES[ctype]
    if ctype[0] == "u":
        return 0 <= value < (1 << bits)
    return -(1 << (bits - 1)) <= value < (1 << (bits - 1))


def literal(value: int, ctype: str) -> str:
    """Return an integer as a literal of a C type; it wraps around in an integer type."""
    if ctype in FLOATING:
        text = f"{value}.0{'f' if ctype == 'float' else ''}"
        return f"({text})" if value < 0 else text
    bits = 8 * SCALAR_BYTES[ctype]
    value &= (1 << bits) - 1
    if ctype[0] != "u" and value >> (bits - 1):
        value -= 1 << bits
    end = {"uint": "u", "long": "L", "ulong": "UL"}.get(ctype, "")
    if value == -(1 << (bits - 1)) and bits >= 32:  # its positive number is not of the type
        return f"({value + 1}{end} - 1)"
    text = f"{value}{end}"
    if bits < 32:
        return f"(({ctype}){text})"
    return f"({text})" if value < 0 else text


def of_floating_type(text: str, ctype: str) -> str:
    """Return a floating literal with the suffix of its type."""
    return text if ctype == "double" else f"{text}f"


def intermediate_type(given: str, ctype: str) -> str | None:
    """Return the type to which a value is converted before its conversion to ``ctype``.

    It is ``None`` where the value is converted directly.

    Args:
        given: The type of the value.
        ctype: The type of the result.

    C does not define the conversion of a floating-point number to an integer type that cannot hold
    it.  By way of a longer integer type, results are those of NumPy on a PC.
    """
    if given not in FLOATING:
        return None
    return {"uint": "long"}.get(ctype, "int" if SCALAR_BYTES[ctype] < 4 else None)


def cast_from(text: str, given: str, ctype: str) -> str:
    """Return the conversion of a single value of the C type ``given`` to another type."""
    between = intermediate_type(given, ctype)
    return f"(({ctype})({between}){text})" if between else f"(({ctype}){text})"


def wider(a: str, b: str) -> str:
    """Return the C type in which an operation on values of two types is computed."""
    if a == b:
        return a
    if "complex" in (a, b):
        return "complex"
    floats = [t for t in (a, b) if t in FLOATING]
    if floats:
        return "double" if "double" in floats else "float"
    rank = {t: (SCALAR_BYTES[t], t[0] == "u") for t in (a, b)}
    return max((a, b), key=rank.__getitem__)
