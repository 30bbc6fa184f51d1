"""Sparse Cholesky factors: analysis on the host, numbers on any OpenCL device."""
