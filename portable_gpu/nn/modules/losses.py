"""Modules of losses, which take a target as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.arguments import one_of, real_number, whole
from portable_gpu.nn.modules.base import Buffer, Module
from portable_gpu.ops.floats import floating
from portable_gpu.ops.normalize import losses
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray

_REDUCTIONS = ("none", "mean", "sum")


class _Loss(Module):
    """The base of losses: ``forward(input, target)``, and a gradient of 1 by default."""

    _name: str
    weight: Buffer | None = None

    def __init__(self, reduction: str = "mean") -> None:
        """Take the reduction, ``"mean"``, ``"sum"`` or ``"none"``."""
        self.reduction = one_of(reduction, _REDUCTIONS, "reduction")

    def __call__(self, input: Any, target: Any) -> Any:  # type: ignore[override]
        """Compute the loss; an array of NumPy is copied to the device first."""
        return self.forward(self._on_device(input, "input"), target)

    def _options(self) -> dict[str, Any]:
        return {"reduction": self.reduction}

    def forward(self, input: Any, target: Any) -> Any:  # type: ignore[override]
        """Compute the loss, one for each target or their mean or sum."""
        result = getattr(losses, self._name)(input, target, **self._options())
        self._saved = input, target, result.shape
        return result

    def backward(self, grad_output: Any = None) -> Any:
        """Compute the gradient of the input."""
        (saved,) = self._from_forward("_saved")
        x, target, shape = saved
        if grad_output is None:
            grad_output = asarray(np.ones(shape, x.dtype), queue=x.queue)
        gradient = getattr(losses, f"{self._name}_backward")
        return gradient(grad_output, x, target, **self._options())


class MSELoss(_Loss):
    """See ``nn.mse_loss``."""

    _name = "mse_loss"


class NLLLoss(_Loss):
    """See ``nn.nll_loss``."""

    _name = "nll_loss"

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        *,
        engine: Engine | None = None,
    ) -> None:
        """Take the arguments of ``nn.nll_loss`` except for the arrays ``input`` and ``target``."""
        super().__init__(reduction)
        if weight is not None:
            self.weight = Buffer(floating(weight, "weight"), engine)
        self.ignore_index = whole(ignore_index, "ignore_index")

    def _options(self) -> dict[str, Any]:
        weight = None if self.weight is None else self.weight.data
        return {**super()._options(), "weight": weight, "ignore_index": self.ignore_index}


class CrossEntropyLoss(NLLLoss):
    """See ``nn.cross_entropy``."""

    _name = "cross_entropy"

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        engine: Engine | None = None,
    ) -> None:
        """Take the arguments of ``nn.cross_entropy`` except for ``input`` and ``target``."""
        super().__init__(weight, ignore_index, reduction, engine=engine)
        self.label_smoothing = real_number(label_smoothing, "label_smoothing")

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "label_smoothing": self.label_smoothing}
