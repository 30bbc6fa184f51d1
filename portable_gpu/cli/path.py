"""How commands say which path a device takes."""

from __future__ import annotations

from portable_gpu.targets import Target


def path_of(target: Target) -> str:
    """``class nvidia, lanes exchange by warp_shuffle, sub-group of 32``."""
    forced = " (forced)" if target.forced else ""
    size = target.subgroup_size
    group = "a work-item is its own sub-group" if size == 1 else f"sub-groups of {size}"
    step = ", in lock-step" if target.lockstep else ""
    return f"class {target.device_class}{forced}, exchange {target.exchange}, {group}{step}"
