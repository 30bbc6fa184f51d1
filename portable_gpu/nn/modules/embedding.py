"""The module of embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.arguments import flag, real_number, whole
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import ArgumentError
from portable_gpu.nn import init
from portable_gpu.nn.modules.base import Module
from portable_gpu.nn.modules.linear import positive
from portable_gpu.nn.parameter import ModuleParameter
from portable_gpu.ops.embedding.api import embedding, embedding_backward
from portable_gpu.runtime.engine import Engine


class Embedding(Module):
    """Rows of a weight by indices, as ``torch.nn.Embedding``; see ``nn.embedding``.

    With ``max_norm``, ``forward`` changes the weight in place.  Where an optimiser keeps a copy in
    float32 of a weight of 16 bits, that copy is not limited.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        *,
        dtype: Any = np.float32,
        engine: Engine | None = None,
    ) -> None:
        """Draw the weight from the standard normal distribution; the row of padding is 0."""
        rows = positive(num_embeddings, "num_embeddings")
        values = init.normal((rows, positive(embedding_dim, "embedding_dim")), as_dtype(dtype))
        self.padding_idx = padding_idx
        self.max_norm = None if max_norm is None else real_number(max_norm, "max_norm")
        self.norm_type = real_number(norm_type, "norm_type")
        self.scale_grad_by_freq = flag(scale_grad_by_freq, "scale_grad_by_freq")
        if padding_idx is not None:
            row = whole(padding_idx, "padding_idx")
            if not -rows <= row < rows:
                raise ArgumentError(f"padding_idx is {row}, and there are {rows} rows")
            values[row] = 0
        self.weight = ModuleParameter(values, engine)

    def forward(self, input: Any) -> Any:
        """Gather rows by an array of integers."""
        result = embedding(input, self.weight.data, self.padding_idx, self.max_norm, self.norm_type)
        self._input = input
        return result

    def backward(self, grad_output: Any) -> None:
        """Add the gradient of the weight; indices have none."""
        (indices,), rows = self._from_forward("_input"), self.weight.shape[0]
        options = self.padding_idx, self.scale_grad_by_freq
        self.weight.add_grad(
            lambda out: embedding_backward(grad_output, indices, rows, *options, out=out)
        )
