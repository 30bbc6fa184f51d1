"""Convolutions and correlations, by the names and arguments of ``scipy.signal``."""

from portable_gpu.signal.convolution import convolve, correlate, fftconvolve, oaconvolve

__all__ = ["convolve", "correlate", "fftconvolve", "oaconvolve"]
