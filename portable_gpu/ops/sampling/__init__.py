"""Kernels of padding, pooling and interpolation: sums and choices of few elements of an axis."""
