"""Modules of linear layers."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from portable_gpu.arguments import MAX_INT, flag, shown, whole
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import ArgumentError
from portable_gpu.nn import init
from portable_gpu.nn.linear import linear, linear_backward
from portable_gpu.nn.modules.base import Module
from portable_gpu.nn.parameter import ModuleParameter
from portable_gpu.runtime.engine import Engine


def positive(value: Any, name: str) -> int:
    """``value``, if it is an integer above 0.

    Raises:
        ArgumentTypeError, ArgumentError: It is not.
    """
    number = whole(value, name)
    if not 1 <= number <= MAX_INT:
        raise ArgumentError(f"{name} is {shown(value)}; expected an integer from 1 to {MAX_INT}")
    return number


class Linear(Module):
    """``x @ weight.T + bias`` along the last axis, as ``torch.nn.Linear``; see ``nn.linear``."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Draw the weight, (out_features, in_features), and the bias, within 1 / sqrt(fan_in)."""
        n, m = positive(in_features, "in_features"), positive(out_features, "out_features")
        kind = as_dtype(dtype)
        self.weight = ModuleParameter(init.kaiming_uniform((m, n), kind), engine)
        self.bias: ModuleParameter | None = None
        if flag(bias, "bias"):
            self.bias = ModuleParameter(init.uniform((m,), 1 / sqrt(n), kind), engine)

    def forward(self, input: Any) -> Any:
        """See :func:`portable_gpu.nn.linear`."""
        bias = None if self.bias is None else self.bias.data
        result = linear(input, self.weight.data, bias)
        self._input = input
        return result

    def backward(self, grad_output: Any) -> Any:
        """See :func:`portable_gpu.nn.linear_backward`."""
        (x,), w = self._from_forward("_input"), self.weight.data

        def gradient(number: int, out: Any) -> Any:
            mask = [k == number for k in range(3)]
            outs: Any = tuple(out if k == number else None for k in range(3))
            return linear_backward(grad_output, x, w, output_mask=mask, out=outs)[number]

        self.weight.add_grad(lambda out: gradient(1, out))
        if self.bias is not None:
            self.bias.add_grad(lambda out: gradient(2, out))
        return gradient(0, None)
