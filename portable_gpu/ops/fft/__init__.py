"""Discrete Fourier transforms: of complex and of real sequences, of any length, along any axes.

The public functions are :mod:`portable_gpu.fft`'s.
"""
