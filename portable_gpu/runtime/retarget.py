"""Instructions that a driver's assembler supports and its front end does not enable.

A driver that compiles OpenCL C to PTX writes the generic architecture (``.target sm_90``).  Its
assembler then refuses the instructions of the architecture-specific target (``sm_90a``), although
the device has them.  A kernel may write such an instruction as a marked PTX comment, on one line::

    asm volatile("//@sm_90a wgmma.fence.sync.aligned;" ::: "memory");

The program is built twice.  The first build is from the source; there the line is a comment, but
its operands are filled in.  The second build is from the resulting PTX, with the marks removed and
the target that they name.  The second program's binary is cached like any other.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"//@(sm_\d+a) ")
_TARGET = re.compile(r"^(\.target\s+)sm_\d+\b", re.MULTILINE)


def is_marked(text: str) -> bool:
    """Whether a source has marked instructions for :func:`retarget`."""
    return _MARK.search(text) is not None


def retarget(ptx: str) -> str:
    """PTX with its marked instructions enabled, for the architecture that the marks name.

    Args:
        ptx: The driver's PTX of a marked source.

    Raises:
        ValueError: The text has no marks, marks of several architectures, or no target to replace.
    """
    architectures = set(_MARK.findall(ptx))
    if len(architectures) != 1:
        marked = ", ".join(sorted(architectures)) or "none"
        raise ValueError(f"the marks of one architecture are expected; found {marked}")
    text, count = _TARGET.subn(rf"\g<1>{architectures.pop()}", ptx)
    if count != 1:
        raise ValueError(f"one .target line is expected; found {count}")
    return _MARK.sub("", text)
