"""Modules of linear layers."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from portable_gpu.arguments import MAX_INT, flag, shown, whole
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import ArgumentError
from portable_gpu.nn import init
from portable_gpu.nn.linear import linear, one_gradient
from portable_gpu.nn.modules.base import Module
from portable_gpu.nn.parameter import ModuleParameter
from portable_gpu.runtime.engine import Engine


def positive(value: Any, name: str) -> int:
    """Return ``value``, an integer above 0, as an int.

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
        (x,), weight = self._from_forward("_input"), self.weight.data
        self.weight.add_grad(lambda out: one_gradient(1, grad_output, x, weight, out))
        if self.bias is not None:
            self.bias.add_grad(lambda out: one_gradient(2, grad_output, x, weight, out))
        return one_gradient(0, grad_output, x, weight, None)
