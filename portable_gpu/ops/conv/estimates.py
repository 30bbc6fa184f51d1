"""The figures of estimates of convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.tuning.figures import Figures


@dataclass(frozen=True)
class ConvCosts(Figures):
    """The costs of convolutions relative to products and to plain copies.

    Attributes:
        direct_rate: The rate of direct sums, as a part of that of the best tiles of products.
        copy_time: The time of copies of windows, as a multiple of that of moving them once.
        winograd_time: The time of the transforms of ``winograd``, as the same multiple.
        transform_time: The time of the transforms of ``fft``, as a multiple of their own estimate.
        spectra_rate: The rate of products of spectra, as a part of that of the best tiles.
    """

    direct_rate: float
    copy_time: float
    winograd_time: float
    transform_time: float
    spectra_rate: float
