"""The devices of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable_gpu.arguments import of_kind
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.registry import default_engine


def engines_of(engine: Any) -> Sequence[Engine]:
    """Return the engines of ``engine=``.

    Raises:
        ArgumentTypeError: It is no engine.
    """
    if engine is None:
        return (default_engine(),)
    return (of_kind(engine, Engine, "engine", "a portable_gpu.Engine or None"),)
