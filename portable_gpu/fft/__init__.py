"""Discrete Fourier transforms, by the names and arguments of ``scipy.fft``."""

from portable_gpu.fft.backend import ScipyBackend
from portable_gpu.fft.complex import fft2, fftn, ifft, ifft2, ifftn
from portable_gpu.fft.cosine import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from portable_gpu.fft.helper import (
    fftfreq,
    fftshift,
    ifftshift,
    next_fast_len,
    prev_fast_len,
    rfftfreq,
)
from portable_gpu.fft.real import (
    hfft,
    hfft2,
    hfftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft2,
    rfftn,
)
from portable_gpu.fft.transforms import TRANSFORMS
from portable_gpu.ops.fft.api import fft, rfft

__all__ = [
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "next_fast_len",
    "prev_fast_len",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "scipy_backend",
]

scipy_backend = ScipyBackend(TRANSFORMS)
