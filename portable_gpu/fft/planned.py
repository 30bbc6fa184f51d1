"""Plans of transforms: checks, choice of kernels and build are done once, for loops."""

from __future__ import annotations

from typing import Any

import pyopencl as cl

import portable_gpu.fft.complex as of_complex
import portable_gpu.fft.cosine as of_cosine
import portable_gpu.fft.real as of_real
from portable_gpu.arguments import one_of
from portable_gpu.ops.fft.functions import fft, rfft
from portable_gpu.ops.planned import PlannedCall
from portable_gpu.runtime.engine import Engine

#: The functions that may be planned, by name.
TRANSFORMS = {
    name: function
    for module in (of_complex, of_real, of_cosine)
    for name, function in vars(module).items()
    if getattr(function, "__module__", None) == module.__name__ and not name.startswith("_")
} | {"fft": fft, "rfft": rfft}


def plan_fft(
    x: Any,
    kind: str = "fft",
    *,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    **options: Any,
) -> PlannedCall:
    """Prepare a transform of arrays like ``x``, as :func:`portable_gpu.plan` prepares any call.

    Args:
        x: An array of the shape, strides and dtype that the plan will be called with; its elements
            are not read.
        kind: The name of a transform: ``"fft"``, ``"irfftn"`` ...
        engine, queue: As that function takes them.
        options: Its other arguments, by their names.

    Returns:
        A callable ``plan(x)``.

    Raises:
        ArgumentError: There is no such transform, or it has no such argument.
        Other errors: As the function.
    """
    function = TRANSFORMS[one_of(kind, TRANSFORMS, "kind")]
    return PlannedCall(function, (x,), options, engine, queue)
