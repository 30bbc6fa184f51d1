"""A kernel of a convolution as direct sums: what it is rendered with, and its work-items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portable_gpu.codegen.parameters import Parameter, buffer
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.targets import Target


@dataclass(frozen=True)
class ConvKernel:
    """The kernel of one problem, and the partition of its work.

    Attributes:
        name: The template, and the kernel function.
        parameters: The parameters of the kernel after the source, the filters, the bias and the
            result.
        context: The values of the template's parameters.
        constants: The arguments of every launch.
        items: The number of work-items.
    """

    name: str
    parameters: Sequence[Parameter]
    context: Mapping[str, Any]
    constants: Mapping[str, int]
    items: int

    def specialization(self, target: Target) -> Specialization:
        """The text and options of the kernel."""
        ctype = f"{self.context['elem'].name}_t"
        parameters = [
            *(buffer(ctype, name, restrict=False) for name in ("s", "f", "bias")),
            buffer(ctype, "t", writes=True, restrict=False),
            *self.parameters,
        ]
        return specialize(f"conv/{self.name}", target, {self.name: parameters}, **self.context)
