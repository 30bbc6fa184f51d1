"""The module of attention with several heads."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from portable_gpu.arguments import flag
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.nn import init
from portable_gpu.nn.linear import linear, one_gradient
from portable_gpu.nn.modules.base import Module
from portable_gpu.nn.modules.linear import Linear, positive
from portable_gpu.nn.parameter import ModuleParameter
from portable_gpu.ops.attention.functions import (
    native_scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
)
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.gemm import matmul
from portable_gpu.ops.random.api import dropout as dropped
from portable_gpu.ops.random.mask import probability
from portable_gpu.ops.reduce import mean
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray
from portable_gpu.runtime.views import as_array

_NAMES = ("query", "key", "value")


class MultiheadAttention(Module):
    """Attention of several heads between linear layers, as ``torch.nn.MultiheadAttention``.

    A query that sees no key has a context of zeros, where torch has NaN.  ``bias_k``, ``bias_v``
    and ``add_zero_attn`` are not supported.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = np.float32,
        engine: Engine | None = None,
        seed: int | None = None,
    ) -> None:
        """Draw the weights of projections within ``sqrt(6 / (fan_in + fan_out))``; biases are 0.

        Args:
            embed_dim, num_heads: The extent of rows, and the number of heads, which divides it.
            dropout: The probability with which an element of the softmax is set to 0 in training.
            bias: Whether projections have biases.
            kdim, vdim: The extents of rows of keys and of values; ``embed_dim`` by default.
            batch_first: Whether arrays are (N, L, E) and not (L, N, E).
            dtype, engine: The dtype and the engine of the parameters.
            seed: The seed of dropout; by default the next one after ``manual_seed``.

        Raises:
            ArgumentTypeError, ArgumentError: A number is not of its kind or range.
        """
        extent, heads = positive(embed_dim, "embed_dim"), positive(num_heads, "num_heads")
        if extent % heads:
            raise ArgumentError(
                f"embed_dim is {extent} and num_heads {heads}; expected a multiple of num_heads"
            )
        self.embed_dim, self.num_heads = extent, heads
        self.dropout = probability(dropout, "dropout")
        self.batch_first, kind = flag(batch_first, "batch_first"), as_dtype(dtype)
        extents = (extent, *(
            extent if width is None else positive(width, name)
            for width, name in ((kdim, "kdim"), (vdim, "vdim"))
        ))  # fmt: skip
        self._is_joined = set(extents) == {extent}
        if self._is_joined:
            values = init.xavier_uniform((3 * extent, extent), kind)
            self.in_proj_weight = ModuleParameter(values, engine)
        else:
            for name, width in zip("qkv", extents, strict=True):
                values = init.xavier_uniform((extent, width), kind)
                setattr(self, f"{name}_proj_weight", ModuleParameter(values, engine))
        self.in_proj_bias: ModuleParameter | None = None
        if flag(bias, "bias"):
            self.in_proj_bias = ModuleParameter(init.filled((3 * extent,), 0, kind), engine)
        self.out_proj = Linear(extent, extent, bias, dtype=dtype, engine=engine)
        if self.out_proj.bias is not None:
            self.out_proj.bias.set(init.filled((extent,), 0, kind))
        self._extents = extents
        self.seed, self.calls = init.next_seed() if seed is None else seed, 0

    def __call__(self, query: Any, key: Any = None, value: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """Compute the output; arrays of NumPy are copied to the device of the parameters first."""
        first = self._on_device(query, "query")
        second = first if key is None or key is query else self._on_device(key, "key")
        third = second if value is None or value is key else self._on_device(value, "value")
        return self.forward(first, second, third, **options)

    def forward(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """Compute the output, and the probabilities if they are requested.

        Args:
            query: Shape (L, N, E), with ``batch_first`` (N, L, E), or (L, E).
            key, value: Shapes (S, N, kdim) and (S, N, vdim), or as ``query``; ``key`` is ``query``
                by default, and ``value`` is ``key``.
            key_padding_mask: Shape (N, S), or (S,): bool, true for keys that are left out, or
                numbers that are added to products.
            need_weights: Whether probabilities are returned; they take memory of their shape, and
                ``backward`` does not take their gradient.
            attn_mask: Shape (L, S) or (N * num_heads, L, S), as ``key_padding_mask``.
            average_attn_weights: Whether the probabilities are means over the heads.
            is_causal: Whether query i sees only keys up to i; ignored with an ``attn_mask``.

        Returns:
            The output, of the shape of ``query``, and ``None`` or the probabilities, of shape
            (N, L, S) or (N, num_heads, L, S), without N where ``query`` has none.
        """
        key = query if key is None else key
        value = key if value is None else value
        arrays, is_single = self._checked((query, key, value)), query.ndim == 2
        n, queries, keys = self._sizes(arrays[0], arrays[1])
        causal, wanted = flag(is_causal, "is_causal"), flag(need_weights, "need_weights")
        is_mean = flag(average_attn_weights, "average_attn_weights")
        mask, is_alone = self._mask(
            (n, queries, keys), key_padding_mask, attn_mask, causal, wanted, query
        )
        rate = self.dropout if self.training else 0.0
        options: dict[str, Any] = {
            "dropout_p": rate, "is_causal": is_alone, "seed": self.seed, "offset": self.calls
        }  # fmt: skip
        context = Array(query.queue, arrays[0].shape, query.dtype)
        q, k, v = (self._heads(part) for part in self._project(arrays))
        y, sums = native_scaled_dot_product_attention(
            q, k, v, mask, **options, out=(self._heads(context), None)
        )
        result = self.out_proj.forward(context)
        weights = self._weights(q, k, sums, mask, rate, is_mean) if wanted else None
        self.calls += bool(rate)
        self._saved = arrays, (q, k, v), y, sums, mask, options, is_single
        if is_single:
            result = result.reshape(query.shape)
            weights = weights if weights is None else weights[0]
        return result, weights

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradients of query, key and value, and add those of the parameters.

        Returns:
            The gradient of ``query`` where it is the key and the value as well; else those of the
            three arrays.
        """
        (saved,) = self._from_forward("_saved")
        arrays, (q, k, v), y, sums, mask, options, is_single = saved
        shape = (*arrays[0].shape[:-1], self.embed_dim)
        if is_single:
            without = [n for k, n in enumerate(shape) if k != self._batch_axis]
            grad_output = self._gradient(grad_output, without).reshape(shape)
        else:
            grad_output = self._gradient(grad_output, shape)
        grad = self._heads(self.out_proj.backward(grad_output))
        shapes = [(*array.shape[:2], self.embed_dim) for array in arrays]
        grads = [Array(q.queue, shape, q.dtype) for shape in shapes]
        scaled_dot_product_attention_backward(
            grad, q, k, v, y, sums, mask, out=tuple(map(self._heads, grads)), **options
        )
        self._add_grads(grads, arrays)
        results = [
            one_gradient(0, grad, x, weight, None)
            for grad, x, weight in zip(grads, arrays, self._weights_of(), strict=True)
        ]
        if _is_one(arrays):
            results = [elementwise("a + b + c", **dict(zip("abc", results, strict=True)))]
        if is_single:
            results = [
                result.reshape([n for k, n in enumerate(result.shape) if k != self._batch_axis])
                for result in results
            ]
        return results[0] if len(results) == 1 else tuple(results)

    def _add_grads(self, grads: list[Any], arrays: list[Any]) -> None:
        """Add the gradients of the weights and biases of the three projections."""
        e, weights = self.embed_dim, self._weights_of()

        def joined(which: int, out: Any) -> Any:
            """Return the gradients of weights (1) or biases (2), one after the other."""
            shape = (3 * e, *(weights[0].shape[1:] if which == 1 else ()))
            result = Array(grads[0].queue, shape, grads[0].dtype) if out is None else out
            for k, (grad, x, weight) in enumerate(zip(grads, arrays, weights, strict=True)):
                one_gradient(which, grad, x, weight, result[k * e : k * e + e])
            return result

        if self.in_proj_bias is not None:
            self.in_proj_bias.add_grad(lambda out: joined(2, out))
        if self._is_joined:
            self.in_proj_weight.add_grad(lambda out: joined(1, out))
            return
        for k, name in enumerate("qkv"):

            def of_weight(out: Any, k: int = k) -> Any:
                return one_gradient(1, grads[k], arrays[k], weights[k], out)

            getattr(self, f"{name}_proj_weight").add_grad(of_weight)

    def _checked(self, arrays: tuple[Any, ...]) -> list[Any]:
        """Return the three arrays, with an axis of the batch, after a check of their shapes."""
        rank, axis = arrays[0].ndim, self._batch_axis
        for array, name, extent in zip(arrays, _NAMES, self._extents, strict=True):
            if rank not in (2, 3) or array.ndim != rank or array.shape[-1] != extent:
                raise ShapeError(
                    f"{name} has shape {array.shape}; "
                    f"expected 2 or 3 axes as in query, the last of extent {extent}"
                )
        if rank == 2:  # an array that is passed twice stays one object
            views = {id(x): x.reshape((*x.shape[:axis], 1, *x.shape[axis:])) for x in arrays}
            return [views[id(array)] for array in arrays]
        query, key, value = (array.shape[:2] for array in arrays)
        if key != value or key[axis] != query[axis]:
            shapes = ", ".join(f"{n} {x.shape}" for n, x in zip(_NAMES, arrays, strict=True))
            raise ShapeError(f"{shapes}; expected one batch, and as many values as keys")
        return list(arrays)

    @property
    def _batch_axis(self) -> int:
        return 0 if self.batch_first else 1

    def _sizes(self, query: Any, key: Any) -> tuple[int, int, int]:
        """Return the sizes of the batch, of the queries and of the keys."""
        axis = self._batch_axis
        return query.shape[axis], query.shape[1 - axis], key.shape[1 - axis]

    def _heads(self, array: Any) -> Any:
        """Return an array of rows as a view (N, heads, rows, elements)."""
        split = array.reshape((*array.shape[:2], self.num_heads, array.shape[2] // self.num_heads))
        return split.transpose((0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3))

    def _project(self, arrays: list[Any]) -> list[Any]:
        """Return the projections of query, key and value; those of one array are one product."""
        bias = None if self.in_proj_bias is None else self.in_proj_bias.data
        e, starts = self.embed_dim, (0, self.embed_dim, 2 * self.embed_dim)
        if self._is_joined and _is_one(arrays):
            every = linear(arrays[0], self.in_proj_weight.data, bias)
            return [every[..., start : start + e] for start in starts]
        return [
            linear(array, weight, None if bias is None else bias[start : start + e])
            for array, weight, start in zip(arrays, self._weights_of(), starts, strict=True)
        ]

    def _weights_of(self) -> list[Any]:
        """Return the weights of the projections of query, key and value."""
        if not self._is_joined:
            return [getattr(self, f"{name}_proj_weight").data for name in "qkv"]
        e = self.embed_dim
        return [self.in_proj_weight.data[start : start + e] for start in (0, e, 2 * e)]

    def _mask(
        self,
        sizes: tuple[int, int, int],
        padding: Any,
        attn_mask: Any,
        is_causal: bool,
        need_weights: bool,
        query: Any,
    ) -> tuple[Any, bool]:
        """Return the mask of attention, and whether attention is causal without a mask for that.

        The mask is true for keys that are seen, or has numbers that are added to products.

        Args:
            sizes: See :meth:`_sizes`.
            padding, attn_mask, is_causal, need_weights: As :meth:`forward` takes them.
            query: The query, whose dtype and queue the mask has.
        """
        n, queries, keys = sizes
        masks = []
        if attn_mask is not None:
            mask = self._as_mask(attn_mask, "attn_mask", query)
            if mask.shape not in ((queries, keys), (n * self.num_heads, queries, keys)):
                raise ShapeError(
                    f"attn_mask has shape {mask.shape}; expected {(queries, keys)} or "
                    f"{(n * self.num_heads, queries, keys)}"
                )
            shape = (1, 1) if mask.ndim == 2 else (n, self.num_heads)
            masks.append(mask.reshape((*shape, queries, keys)))
        elif is_causal and (need_weights or padding is not None):
            later = np.triu(np.ones((1, 1, queries, keys), bool), 1)
            masks.append(asarray(later, queue=query.queue))
        if padding is not None:
            mask = self._as_mask(padding, "key_padding_mask", query)
            if mask.shape != (n, keys) and (n != 1 or mask.shape != (keys,)):
                raise ShapeError(f"key_padding_mask has shape {mask.shape}; expected {(n, keys)}")
            masks.append(mask.reshape((n, 1, 1, keys)))
        if not masks:
            return None, is_causal
        if all(mask.dtype == bool for mask in masks):
            text = "a ? 0 : 1" if len(masks) == 1 else "a ? 0 : b ? 0 : 1"
            return elementwise(text, **dict(zip("ab", masks, strict=False)), dtype=bool), False
        if len(masks) == 1:
            return masks[0], False
        terms = [
            f"({name} ? low : 0)" if mask.dtype == bool else name
            for name, mask in zip("ab", masks, strict=True)
        ]
        arrays: dict[str, Any] = dict(zip("ab", masks, strict=True))
        if any(mask.dtype == bool for mask in masks):
            arrays["low"] = -np.inf
        return elementwise(" + ".join(terms), **arrays, dtype=query.dtype), False

    def _as_mask(self, given: Any, name: str, query: Any) -> Any:
        """Return a mask on the device, after a check of its dtype."""
        mask = as_array(given, name)
        if mask.dtype not in (np.dtype(bool), query.dtype):
            raise DTypeError(f"{name} is {mask.dtype}; expected bool or {query.dtype}")
        return asarray(mask, queue=query.queue)

    def _weights(self, q: Any, k: Any, sums: Any, mask: Any, rate: float, is_mean: bool) -> Any:
        """Return the probabilities.

        Args:
            q, k, mask: The queries and keys of all heads, and the mask of attention.
            sums: The logarithm of each query's sum of exponentials.
            rate: The probability of dropout.
            is_mean: Whether probabilities are means over the heads.
        """
        arrays = {"s": matmul(q, k.transpose((0, 1, 3, 2))), "z": sums.reshape((*sums.shape, 1))}
        # A query that sees no key has a logarithm of -infinity.
        numbers: dict[str, Any] = {"f": 1 / sqrt(max(1, q.shape[-1])), "low": -3e38}
        text = "z < low ? 0 : exp(s * f - z)"
        if mask is not None:
            arrays["m"] = mask
            is_seen = mask.dtype == bool
            text = f"m ? ({text}) : 0" if is_seen else "z < low ? 0 : exp(s * f + m - z)"
        weights = elementwise(text, **arrays, **numbers, dtype=q.dtype)
        if rate:
            weights = dropped(weights, rate, seed=self.seed, offset=self.calls)
        return mean(weights, axis=1) if is_mean else weights


def _is_one(arrays: list[Any]) -> bool:
    """Whether query, key and value are one array."""
    return arrays[0] is arrays[1] is arrays[2]
