"""What each operation builds for a target and a dtype, by name, with no device at hand.

A module of this package that has kernels names them in ``CATALOGUE``::

    CATALOGUE: dict[str, Build] = {"sum": _default_specializations}
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from portable_gpu import ops
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.targets import Target

#: The specializations that an operation would build by default for a target and a dtype.
Build: TypeAlias = Callable[[Target, np.dtype[Any]], list[Specialization]]


def catalogue() -> dict[str, Build]:
    """Every operation of every module in ``portable_gpu.ops``."""
    entries: dict[str, Build] = {}
    for module in pkgutil.iter_modules(ops.__path__, f"{ops.__name__}."):
        if module.name != __name__:
            entries.update(getattr(import_module(module.name), "CATALOGUE", {}))
    return entries
