"""The transforms by their names, which are those of ``scipy.fft``."""

from __future__ import annotations

import portable_gpu.fft.complex as of_complex
import portable_gpu.fft.cosine as of_cosine
import portable_gpu.fft.real as of_real
from portable_gpu.ops.fft.api import fft, rfft

TRANSFORMS = {
    name: function
    for module in (of_complex, of_real, of_cosine)
    for name, function in vars(module).items()
    if getattr(function, "__module__", None) == module.__name__ and not name.startswith("_")
} | {"fft": fft, "rfft": rfft}
