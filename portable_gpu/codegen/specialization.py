"""A Specialization: the OpenCL text and the compiler options for one target and one policy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from portable_gpu.codegen.integers import pack_integers
from portable_gpu.codegen.source import render
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy
from portable_gpu.version import __version__


@dataclass(frozen=True)
class Specialization:
    """OpenCL text and compiler options, ready to build on any device of the target's kind.

    Attributes:
        name: The template's name (``reduce/rows``).
        text: The OpenCL C source.
        options: Compiler options, the ``-D`` facts among them.
        policy: The policy that the text was rendered with, if the kernel has one.
    """

    name: str
    text: str
    options: tuple[str, ...]
    policy: Policy | None = None

    @cached_property
    def key(self) -> str:
        """A hash of text, options and library version: the key of the caches."""
        parts = (__version__, self.name, self.text, *self.options)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def specialize(name: str, target: Target, **context: Any) -> Specialization:
    """Render template ``name`` for ``target``; ``context`` holds the template's variables.

    Raises:
        RenderError: The template failed.
    """
    text = pack_integers(render(name, target=target, **context))
    return Specialization(name, text, target.options, context.get("policy"))
