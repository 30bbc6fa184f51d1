"""Kernels for the fronts of a sparse factorisation, many of them in a launch."""
