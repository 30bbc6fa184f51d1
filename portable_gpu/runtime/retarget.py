"""Instructions that a driver's assembler knows and its front end does not ask for.

A driver that compiles OpenCL C to PTX names the plain architecture (``.target sm_90``) in it, and
its assembler then refuses the instructions of the architecture-specific one (``sm_90a``), although
the device has them.  A kernel may write such an instruction as a marked PTX comment, on one line::

    asm volatile("//@sm_90a wgmma.fence.sync.aligned;" ::: "memory");

The program is built twice: from the source, where the line is a comment whose operands are filled
in nevertheless; then from the resulting PTX, with the marks lifted and the target named by them.
The second program's binary is cached like any other.
"""

from __future__ import annotations

import re

_MARK = re.compile(r"//@(sm_\d+a) ")
_TARGET = re.compile(r"^(\.target\s+)sm_\d+\b", re.MULTILINE)


def is_marked(text: str) -> bool:
    """Whether a source has instructions for :func:`retarget` to uncover."""
    return _MARK.search(text) is not None


def retarget(ptx: str) -> str:
    """PTX with its marked instructions uncovered, for the architecture that the marks name.

    Args:
        ptx: What the driver made of a marked source.

    Raises:
        ValueError: The text is no PTX with marks: it has none, marks of several architectures, or
            no target to replace.
    """
    architectures = set(_MARK.findall(ptx))
    if len(architectures) != 1:
        found = ", ".join(sorted(architectures)) or "none"
        raise ValueError(f"the marks of one architecture are expected; found {found}")
    text, count = _TARGET.subn(rf"\g<1>{architectures.pop()}", ptx)
    if count != 1:
        raise ValueError(f"one .target line is expected; found {count}")
    return _MARK.sub("", text)
