"""What is explained is what is built, for random problems on every recorded device."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recorded_devices import RECORDED

from portable_gpu.codegen.signature import arguments
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.candidate import Candidate, bind_best, ranked, spread
from portable_gpu.ops.elementwise.candidates import candidates as elementwise_candidates
from portable_gpu.ops.elementwise.catalogue import problem as expression_of
from portable_gpu.ops.explanation import explanation
from portable_gpu.ops.gemm.candidates import candidates as gemm_candidates
from portable_gpu.ops.gemm.catalogue import contiguous
from portable_gpu.ops.gemv.plan import candidates as gemv_candidates
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.reduce.candidates import candidates as reduce_candidates
from portable_gpu.ops.reduce.catalogue import problem as reduction_of
from portable_gpu.targets import Target, detect
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import TuningTable

TABLE = TuningTable.shipped()
EACH = 12  # problems of a family on a device


class Recorder:
    """Stands in for an engine: notes the texts that plans launch, and looks at their arguments."""

    maps_host_memory = False
    own_queue = None

    def __init__(self, target: Target) -> None:
        self.target, self.table = target, TABLE
        self.programs = SimpleNamespace(launch=self._launch)
        self.names: list[str] = []

    def _launch(self, spec: Any, kernel: str, *given: Any, as_bits: Any = ()) -> Any:
        constants, buffers, scalars, *_ = given
        arguments(spec.text, kernel, constants, buffers, scalars, as_bits)
        if spec.name not in self.names[-1:]:  # slabs launch the same text over and over
            self.names.append(spec.name)
        return lambda *_: None

    def plan(self, key: Any, make: Any) -> bool:
        """What is asked of a device: that its units work, which they do."""
        assert "work" in key[0]
        return True

    def allocate(self, nbytes: int) -> None:
        """Memory for a tensor map."""

    def state(self, queue: None) -> Any:
        """Where a tensor map is made."""
        return SimpleNamespace(event=lambda _: SimpleNamespace(wait=lambda: None))


def extent(rng: random.Random, most: int) -> int:
    return int(np.exp(rng.uniform(0, np.log(most + 1))))


def problems(target: Target, seed: int) -> Iterator[tuple[str, list[Candidate]]]:
    """Candidates of random problems of every family."""
    rng = random.Random(seed)
    dtypes = ["float32", "float16", "int32"] + ["float64"] * target.fp64
    for _ in range(EACH):
        dtype = dtype_of(rng.choice([*dtypes, "bfloat16", "complex64"]))
        m, n, k = (extent(rng, rng.choice((20, 300, 5000))) for _ in range(3))
        batch = (extent(rng, 50),) if rng.random() < 0.3 else ()
        trans = rng.choice("NT"), rng.choice("NT")
        asked = contiguous(m, n, k, dtype, batch, *trans)
        asked = replace(asked, precision=rng.choice(("ieee", "tf32", "bf16x3")))
        yield f"{asked}", gemm_candidates(asked, target, TABLE)
    for _ in range(EACH):
        m, n = extent(rng, 100_000), extent(rng, 20_000)
        strides = rng.choice(((n, 1), (1, m), (2 * n, 2), (n, -1)))
        vector = GemvProblem(element(dtype_of(rng.choice(dtypes))), m, n, *strides, 1, 1)
        yield f"{vector}", gemv_candidates(vector, target, TABLE)
    for _ in range(EACH):
        shape = tuple(extent(rng, 3000) for _ in range(rng.choice((1, 2, 3))))
        axis = rng.choice((None, *range(len(shape))))
        operation = rng.choice(("sum", "max", "argmin", "var", "nrm2", "any"))
        dtype = dtype_of(rng.choice(("float32", "float16")))
        fold = reduction_of(operation, shape, axis, dtype, target)
        yield f"{fold}", reduce_candidates(fold, target, TABLE)
        sum_of_two = expression_of("x + y", dtype, shape, {})
        yield f"{sum_of_two}", elementwise_candidates(sum_of_two, target, TABLE)


@pytest.mark.parametrize("device", RECORDED)
def test_the_best_is_built(device: str) -> None:
    target = detect(RECORDED[device][0])
    for name, every in problems(target, sorted(RECORDED).index(device)):
        engine: Any = Recorder(target)
        told = explanation("", every, target)
        bind_best(engine, every)
        assert set(engine.names) == set(told.kernels), name
        assert engine.names[-1] == told.kernels[-1], name
        assert next(iter(told.estimates)) == ranked(every, DeviceCosts.of("device", target))[0].way


@pytest.mark.parametrize(
    ("device", "some"),
    [
        ("H200", {"gemm/wgmma", "gemm/tensor_map", "gemm/mma", "gemm/repack", "gemm/skinny"}),
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
        ("PoCL", {"gemm/packed", "gemm/packed_whole", "gemv/cpu_rows", "reduce/cpu_columns"}),
    ],
)
def test_every_way_gives_its_kernels_what_they_declare(device: str, some: set[str]) -> None:
    target = detect(RECORDED[device][0])
    seen = set()
    for _, every in problems(target, 2):
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
