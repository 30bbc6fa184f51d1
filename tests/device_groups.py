"""Groups of one and of two devices of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import portable_gpu as pg
from portable_gpu.errors import UnsupportedError
from portable_gpu.multi import DeviceGroup


@contextmanager
def one_and_two() -> Iterator[tuple[DeviceGroup, DeviceGroup]]:
    """Yield a group of one device, and one of it and another: GPUs, or sub-devices of the CPU.

    The engines have no second engine for small calls.
    """
    if pg.default_engine().target.facts.type == "cpu":
        try:
            two = DeviceGroup(2)
        except UnsupportedError as error:
            pytest.skip(str(error))
    else:
        with DeviceGroup("all") as every:
            devices = [engine.device for engine in every.engines]
        if len(devices) < 2:
            pytest.skip("there is one GPU")
        two = DeviceGroup(devices[:2])
    with two, DeviceGroup([two.engines[0].device]) as one:
        for engine in (*one.engines, *two.engines):
            engine.caller = None
        yield one, two
