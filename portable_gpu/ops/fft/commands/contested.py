"""Random transforms, whose choices ``bench dispatch`` times."""

from __future__ import annotations

import random
from math import prod
from typing import TYPE_CHECKING

from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.family import Contested
from portable_gpu.ops.fft.commands.cases import fft_of
from portable_gpu.ops.fft.commands.random_sizes import COMPLEX
from portable_gpu.ops.fft.variants import variants
from portable_gpu.ops.sizes import Size

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def _draw(rng: random.Random, on_cpu: bool) -> Size:
    return rng.choice(COMPLEX).draw(rng, on_cpu)


def _nbytes(case: Case) -> tuple[int, ...]:
    """The bytes of the input and of the result."""
    problem = fft_of(case)
    input_bytes = prod(problem.shape_in) * dtype_of(case.dtype).itemsize
    return input_bytes, 2 * prod(problem.shape_out) * problem.real.itemsize


CONTESTED = Contested(_draw, fft_of, variants, _nbytes, (1.0,), {"float32": (24, 48)})
