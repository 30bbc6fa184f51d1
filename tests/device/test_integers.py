"""Kernels whose integers are one struct: values that a call changes, others, and layouts."""

from __future__ import annotations

import numpy as np
import pyopencl.array as cla

from portable_gpu import Engine
from portable_gpu.codegen.parameters import (
    BYTES,
    SCALARS,
    buffer,
    head,
    laid_out,
    scalars,
    with_structs,
)
from portable_gpu.codegen.specialization import Specialization

_NAMES = [f"{ctype}_{k}" for k, ctype in enumerate((*reversed(BYTES), *BYTES, "char"))]
_NOTED = laid_out(
    [buffer("long", "x", writes=True), *(p for n in _NAMES for p in scalars(n.split("_")[0], n))]
)
_TEXT = f"""
__kernel void {head("noted", _NOTED)}
{{
    if (get_global_id(0) == 0) {{
{"".join(f"        x[{k}] = {name};" for k, name in enumerate(_NAMES))}
    }}
}}
"""


def test_integers_of_every_type(engine: Engine) -> None:
    text = with_structs(_TEXT, {"noted": _NOTED})
    assert "noted_integers_t integers)" in text
    spec = Specialization("test/integers", text, engine.target.options, kernels={"noted": _NOTED})
    kinds = [SCALARS[name.split("_")[0]] for name in _NAMES]
    values = [int(np.iinfo(kind).max) - k for k, kind in enumerate(kinds)]
    lowest = [int(np.iinfo(kind).min) + k for k, kind in enumerate(kinds)]
    changing = ["long_1", "uchar_9", "char_8"]
    constants = {n: v for n, v in zip(_NAMES, values, strict=True) if n not in changing}
    assert set(changing) < set(_NAMES)
    launch = engine.programs.launch(spec, "noted", constants, ["x"], changing, (1,), (1,))
    x = cla.zeros(engine.queue, len(_NAMES), np.int64)
    places = [_NAMES.index(name) for name in changing]
    for operand in (values, lowest, lowest, values):
        launch(engine.state(), (x.base_data,), tuple(operand[place] for place in places))
        expected = [operand[k] if k in places else value for k, value in enumerate(values)]
        assert x.get().view(np.uint64).tolist() == [value % 2**64 for value in expected]
