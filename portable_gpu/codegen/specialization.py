"""A Specialization: the OpenCL text and the compiler options for one target and one policy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from portable_gpu.codegen.parameters import Declared, Parameter, head, laid_out, with_structs
from portable_gpu.codegen.source import render
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy
from portable_gpu.version import __version__

_TEXTS = 64  # texts for which results are kept


@dataclass(frozen=True)
class Specialization:
    """OpenCL text and compiler options, ready to build on any device of the target's kind.

    Attributes:
        name: The template's name (``reduce/rows``).
        text: The OpenCL C source.
        options: Compiler options, the ``-D`` facts among them.
        policy: The policy that the text was rendered with, if the kernel has one.
        kernels: The parameters of each kernel, as a launch passes them.
    """

    name: str
    text: str
    options: tuple[str, ...]
    policy: Policy | None = None
    kernels: Declared = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def key(self) -> str:
        """A hash of text, options and library version: the key of the caches."""
        return _key(__version__, self.name, self.text, *self.options)

    def parameters(self, kernel: str) -> Sequence[Parameter]:
        """The parameters of a kernel.

        Raises:
            LookupError: The text declares no such kernel.
        """
        if kernel not in self.kernels:
            raise LookupError(f"the text declares no kernel {kernel}")
        return self.kernels[kernel]


def distinct(texts: Iterable[Specialization]) -> list[Specialization]:
    """Return the texts, each of them once."""
    return list({spec.key: spec for spec in texts}.values())


def specialize(name: str, target: Target, kernels: Declared, **context: Any) -> Specialization:
    """Render a template for a target.

    Args:
        name: The template.
        target: The target.
        kernels: The parameters of the template's kernels.
        context: The template's variables.

    Raises:
        RenderError: The template failed.
    """
    passed = tuple([(kernel, laid_out(declared)) for kernel, declared in kernels.items()])
    heads = {kernel: head(kernel, parameters) for kernel, parameters in passed}
    text = _with_structs(render(name, target=target, kernel=heads.__getitem__, **context), passed)
    return Specialization(name, text, target.options, context.get("policy"), dict(passed))


# Shapes share texts, so what follows from a rendered text is found once.


@lru_cache(maxsize=_TEXTS)
def _with_structs(rendered: str, kernels: tuple[tuple[str, tuple[Parameter, ...]], ...]) -> str:
    return with_structs(rendered, dict(kernels))


@lru_cache(maxsize=_TEXTS)
def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
