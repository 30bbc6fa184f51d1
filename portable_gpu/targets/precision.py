"""Double precision, which not all devices have."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.dtypes import element
from portable_gpu.errors import UnsupportedError
from portable_gpu.targets.target import Target


def require_fp64(target: Target, *dtypes: np.dtype[Any]) -> None:
    """Raise UnsupportedError if one of ``dtypes`` needs double precision that the target lacks."""
    if target.fp64:
        return
    wide = list(dict.fromkeys(str(dtype) for dtype in dtypes if element(dtype).needs_fp64))
    if wide:
        raise UnsupportedError(
            f"{target.facts.name} has no double precision (cl_khr_fp64), which {', '.join(wide)} "
            f"need{'s' if len(wide) == 1 else ''}; use float32 or complex64"
        )
