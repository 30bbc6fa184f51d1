"""The explanation of a convolution, and the kernels of typical ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.arguments import flag, of_kind
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import DTypeError, UnsupportedError
from portable_gpu.ops.conv.commands.cases import DIRECTIONS, problem, with_epilogue
from portable_gpu.ops.conv.problem import Direction
from portable_gpu.ops.conv.variants import check_algorithm, check_limit, of_algorithm, variants
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable


def explain(
    question: Question,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    precision: str = "ieee",
    algo: str = "auto",
    workspace_limit: int | None = None,
    channels_last: bool = False,
    epilogue: Epilogue | None = None,
) -> Explanation:
    """Which variant the convolution of contiguous arrays takes, and why; no device is needed.

    Raises:
        ArgumentError: There are not the 7 sizes N, C, H, W, K, R, S, or an option is wrong.
        DTypeError: The dtype is not real and floating.
        ShapeError: An array of the epilogue does not broadcast to the result.
    """
    operation, sizes, elem = question.operation, question.sizes, question.elem
    if not elem.floating or elem.complex:
        raise DTypeError(f"{operation} takes real floating dtypes, not {question.dtype}")
    asked = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    last = flag(channels_last, "channels_last")
    p = problem(DIRECTIONS[operation], sizes, elem, asked, last, precision)
    if epilogue is not None:
        p = with_epilogue(p, of_kind(epilogue, Epilogue, "epilogue", "an Epilogue or None"))
    n, c, h, w, k, r, s = sizes
    algorithm, limit = check_algorithm(algo), check_limit(workspace_limit)
    candidates = of_algorithm(p, question.target, question.table, algorithm, limit)
    return question.answer(candidates, f"{n} x {c} x {h} x {w} with {k} filters of {r} x {s},")


def specializations(
    direction: Direction, target: Target, dtype: np.dtype[Any]
) -> list[Specialization]:
    """The kernels of typical convolutions for a target and a dtype.

    Raises:
        UnsupportedError: The dtype is not real and floating.
    """
    if not element(dtype).floating or element(dtype).complex:
        raise UnsupportedError(f"convolutions of {dtype}")
    texts: dict[str, Specialization] = {}
    # Depthwise, two channels a group, and the few channels of a first layer.
    typical = ((64, 64, 1, False), (64, 64, 1, True), (64, 32, 1, False), (3, 1, 2, True))
    for channels, groups, stride, channels_last in typical:
        asked = {"stride": stride, "padding": 1, "dilation": 1, "groups": groups}
        sizes = (8, channels, 56, 56, 64, 3, 3)
        p = problem(direction, sizes, element(dtype), asked, channels_last)
        shown = [p] if direction != "forward" else [p, with_epilogue(p, Epilogue().relu())]
        for item in shown:
            for variant in variants(item, target, TuningTable.shipped()):
                specs = variant.texts()
                texts |= {spec.key: spec for spec in specs if spec.name.startswith("conv/")}
    return list(texts.values())
