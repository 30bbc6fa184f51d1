"""The job runs on the device, and along the path, that its environment names."""

import os

import numpy as np
import pytest

from portable_gpu.runtime.engine import Engine


@pytest.mark.tiny
def test_forced_class_is_taken(engine: Engine) -> None:
    forced = os.environ.get("PORTABLE_GPU_DEVICE_CLASS")
    if forced:
        assert engine.target.device_class == forced.partition("-")[0]
        assert not engine.target.lockstep


@pytest.mark.tiny
def test_subgroup_size_is_the_one_that_the_job_sets(engine: Engine) -> None:
    expected = os.environ.get("PORTABLE_GPU_TEST_SUBGROUP_SIZE")
    if expected is None:
        pytest.skip("the job sets none")
    assert engine.target.subgroup_size == int(expected)
    assert engine.target.exchange == "khr_subgroup"


@pytest.mark.tiny
def test_device_copies_what_it_is_given(engine: Engine) -> None:
    import pyopencl.array as cla

    numbers = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(cla.to_device(engine.queue, numbers).get(), numbers)
