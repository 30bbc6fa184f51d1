"""Messages of errors of a driver's compiler."""

from __future__ import annotations

import re
from itertools import islice

import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError

# PoCL: "error: FILE:88:53: expected expression"; others: "FILE:88:53: error: expected expression".
_ERROR = re.compile(
    r"^error: [^\n]*?:(\d+):\d+(?: <[^>\n]*>)?: ([^\n]+)"
    r"|^(?:[^\n]*:)?(\d+):\d+:\s+(?:fatal )?error: ([^\n]+)",
    re.MULTILINE,
)
#: The message of ptxas for a function without a definition.
_UNRESOLVED = re.compile(r": (Unresolved extern function [^\n]+)")
_MAX_ERRORS = 3  # shown in a message: later ones mostly follow from the first
_MAX_LOG_LINES = 10  # shown of a log that names no line of the text


def names_a_line(log: str) -> bool:
    """Return whether a compiler's log has an error with the number of a line."""
    return _ERROR.search(log) is not None


def of_expression(error: BuildError, name: str, text: str) -> BuildError:
    """Return an error for a user's expression, whose message starts with it and the reason."""
    match, unresolved = _ERROR.search(error.log), _UNRESOLVED.search(error.log)
    if match:
        reason = (match[2] or match[4]).strip()
    else:
        reason = unresolved[1] if unresolved else "the compiler's words follow"
    return BuildError(
        f"{name} {text!r} does not compile: {reason}\n{error}", error.source, error.log
    )


def build_message(spec: Specialization, log: str, device: cl.Device) -> str:
    """Return a message of a few lines that ends with the compiler's errors and their lines."""
    lines = spec.text.splitlines()
    errors = []
    for match in islice(_ERROR.finditer(log), _MAX_ERRORS):
        at = int(match[1] or match[3])
        text = lines[at - 1].strip() if at <= len(lines) else ""
        errors.append(f"line {at}:  {text}\n    {match[2] or match[4]}")
    return "\n".join(
        (
            f"kernel {spec.name} failed to build on {device.name.strip()}; "
            "its text is this error's `source`, all that the compiler said its `log`",
            *(errors or log.strip().splitlines()[-_MAX_LOG_LINES:]),
        )
    )
