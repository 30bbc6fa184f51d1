"""What is explained is what is built, for random problems on every recorded device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from random_problems import TABLE, problems
from recorded_devices import RECORDED

from portable_gpu.codegen.signature import arguments
from portable_gpu.ops.candidate import bind_best, ranked, spread
from portable_gpu.ops.explanation import explanation
from portable_gpu.ops.gemm.candidates import candidates as gemm_candidates
from portable_gpu.ops.gemm.catalogue import contiguous
from portable_gpu.targets import Target, detect
from portable_gpu.tuning.costs import DeviceCosts


class Recorder:
    """Stands in for an engine: notes the texts that plans launch, and looks at their arguments."""

    maps_host_memory = False
    own_queue = context = None

    def __init__(self, target: Target) -> None:
        self.target, self.table = target, TABLE
        self.programs = SimpleNamespace(launch=self._launch)
        self.names: list[str] = []

    def _launch(
        self, spec: Any, kernel: str, *given: Any, as_bits: Any = (), kept: Any = None
    ) -> Any:
        constants, buffers, scalars, *_ = given
        arguments(spec.text, kernel, constants, buffers, scalars, as_bits, kept)
        if spec.name not in self.names[-1:]:  # slabs launch the same text over and over
            self.names.append(spec.name)
        return lambda *_: None

    def plan(self, key: Any, make: Any) -> Any:
        """A plan of a part; or what is asked of a device: that its units work, which they do."""
        return True if "work" in key[0] else make()

    def bring(self, values: Any) -> None:
        """A table that a plan keeps."""

    def allocate(self, nbytes: int) -> None:
        """Memory for a tensor map."""

    def state(self, queue: None) -> Any:
        """Where a tensor map is made."""
        return SimpleNamespace(event=lambda _: SimpleNamespace(wait=lambda: None))


@pytest.mark.parametrize("device", RECORDED)
def test_the_best_is_built(device: str) -> None:
    target = detect(RECORDED[device][0])
    for name, every in problems(target, sorted(RECORDED).index(device), each=3):
        engine: Any = Recorder(target)
        told = explanation("", every, target)
        bind_best(engine, every)
        assert set(engine.names) == set(told.kernels), name
        assert engine.names[-1] == told.kernels[-1], name
        assert next(iter(told.estimates)) == ranked(every, DeviceCosts.of("device", target))[0].way


@pytest.mark.parametrize(
    ("device", "some"),
    [
        (
            "H200",
            {
                *("gemm/wgmma", "gemm/tensor_map", "gemm/mma", "gemm/repack", "gemm/skinny"),
                *("factor/cholesky", "factor/solve"),
            },
        ),
        (
            "MI250",
            {
                "gemm/mfma",
                "gemm/gemm",
                "gemm/direct",
                "gemv/long_rows",
                "reduce/columns",
                "elementwise/tiles",
            },
        ),
        (
            "PoCL",
            {
                "gemm/packed",
                "gemm/packed_whole",
                "gemv/cpu_rows",
                "reduce/cpu_columns",
                "fft/cpu",
            },
        ),
    ],
)
def test_every_way_gives_its_kernels_what_they_declare(device: str, some: set[str]) -> None:
    target = detect(RECORDED[device][0])
    seen = set()
    few = "few columns", gemm_candidates(contiguous(4096, 8, 4096, np.float16), target, TABLE)
    for _, every in (*problems(target, 4), few):
        engine: Any = Recorder(target)
        for one in every:
            one.bind(engine)
        seen |= set(engine.names)
    assert seen >= some


@pytest.mark.parametrize("device", ["H200", "MI250", "PoCL"])
def test_ways_have_names_of_their_own_and_estimates(device: str) -> None:
    target = detect(RECORDED[device][0])
    for name, every in problems(target, 0):
        assert len({one.way for one in every}) == len(every), name
        assert all(one.device >= 0 and one.launches >= 1 for one in every), name
        assert {one.kind for one in spread(every)} == {one.kind for one in every}, name


def test_launches_count() -> None:
    """A tiny product of 16-bit floats whose rows no copy engine takes is one launch."""
    h200 = detect(RECORDED["H200"][0])
    every = gemm_candidates(contiguous(90, 28, 2, np.float16, (), "T", "T"), h200, TABLE)
    assert explanation("", every, h200).path == "direct"
    large = gemm_candidates(contiguous(900, 280, 2000, np.float16, (), "T", "T"), h200, TABLE)
    assert explanation("", large, h200).path.startswith("wgmma")
