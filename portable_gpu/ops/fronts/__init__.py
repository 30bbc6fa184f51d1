"""Kernels for the fronts of a sparse factorisation; one launch processes many fronts."""
