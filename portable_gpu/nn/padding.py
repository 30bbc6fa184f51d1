"""Padding of arrays, and its gradient."""

from portable_gpu.ops.sampling.padding import pad, pad_backward

__all__ = ["pad", "pad_backward"]
