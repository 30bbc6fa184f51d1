"""Program binaries that both of PoCL's CPU drivers load from one entry on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import pyopencl as cl
import pytest

import portable_gpu as pg
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.runtime import program as program_module
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.pocl_binary import Driver
from portable_gpu.runtime.program import ProgramCache

Pair = tuple[cl.Device, cl.Device]
X = np.random.default_rng(3).standard_normal((37, 61))


@pytest.fixture
def drivers(engine: Engine) -> Pair:
    """The devices with worker threads, and on the calling thread."""
    caller = Engine(engine.device).caller
    if caller is None:
        pytest.skip(f"{engine.device.platform.name} has no device that runs on the calling thread")
    return engine.device, caller.device


@pytest.fixture(params=["workers first", "calling thread first"])
def ordered(drivers: Pair, request: pytest.FixtureRequest) -> Pair:
    """One builds and the other loads, either way."""
    return drivers if request.param == "workers first" else (drivers[1], drivers[0])


def opened(device: cl.Device, folder: Path) -> Engine:
    """An engine with nothing in memory.  It chooses texts as if it had one thread."""
    engine = Engine(device, caller=False)
    engine.target = replace(engine.target, compute_units=1)
    engine.programs = ProgramCache(engine.context, device, DiskCache(folder))
    return engine


def do_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = program_module.compiled

    def loads(context: object, device: object, content: str | bytes, options: object) -> object:
        assert isinstance(content, bytes), "this text is on disk"
        return compiled(context, device, content, options)  # type: ignore[arg-type]

    monkeypatch.setattr(program_module, "compiled", loads)


def results(engine: Engine) -> list[np.ndarray]:
    return [
        pg.sum(X, axis=0, engine=engine),
        pg.matmul(X[:9], X[:9].T, engine=engine),
        pg.elementwise("2 * x", x=X, engine=engine),
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_each_driver_loads_what_the_other_built(
    ordered: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (opened(device, tmp_path) for device in ordered)
    built = results(first)
    files = contents(tmp_path)
    assert len(files) == len(first.programs) > 0
    do_not_compile(monkeypatch)
    for item, other in zip(built, results(second), strict=True):
        np.testing.assert_array_equal(item, other)
    np.testing.assert_allclose(built[0], X.sum(axis=0), rtol=1e-12, atol=1e-12)
    assert contents(tmp_path) == files
    np.testing.assert_array_equal(results(opened(ordered[0], tmp_path))[0], built[0])


SPEC = Specialization("test/one", "__kernel void one(__global int *x) { x[0] = 1; }\n", ())


def test_one_context_compiles_for_all(
    ordered: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, contexts = program_module.compiled, list[int]()

    def recording(context: cl.Context, device: object, content: object, options: object) -> object:
        if isinstance(content, str):
            contexts.append(context.int_ptr)
        return compiled(context, device, content, options)  # type: ignore[arg-type]

    monkeypatch.setattr(program_module, "compiled", recording)
    monkeypatch.setattr(program_module, "_compilers", WeakValueDictionary())
    first, second = (opened(device, tmp_path / device.name[:3]) for device in ordered)
    for engine in (first, second):
        engine.programs.program(SPEC)
        assert engine.programs.compiled["programs"] == 1
    assert contexts == [first.context.int_ptr] * 2
    first.programs = second.programs  # the first context has no cache any more
    second.programs.program(replace(SPEC, text=SPEC.text.replace("1", "2")))
    assert contexts[2:] == [second.context.int_ptr]


def test_options_that_change_after_the_engine_are_part_of_the_key(
    drivers: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = [opened(drivers[0], tmp_path) for _ in range(3)]
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
    engines[0].programs.program(SPEC)
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "")
    engines[1].programs.program(SPEC)
    assert len(list(tmp_path.iterdir())) == 2
    do_not_compile(monkeypatch)
    engines[2].programs.program(SPEC)


def test_a_header_of_another_form_is_not_shared(
    drivers: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portable_gpu.runtime.pocl_binary._fnv", lambda _: b"\x01" * 8)
    for k, device in enumerate(drivers, 1):
        opened(device, tmp_path).programs.program(SPEC)
        assert len(list(tmp_path.iterdir())) == k
    do_not_compile(monkeypatch)
    for device in drivers:
        opened(device, tmp_path).programs.program(SPEC)


def test_an_entry_that_the_other_driver_refuses_is_built_again(
    ordered: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ordered
    opened(first, tmp_path).programs.program(SPEC)
    (file,) = tmp_path.iterdir()
    size = file.stat().st_size
    with monkeypatch.context() as broken:
        broken.setattr(Driver, "with_hash", lambda _, kept: kept)  # PoCL finds the wrong hash
        opened(second, tmp_path).programs.program(SPEC)
    (file,) = tmp_path.iterdir()
    assert abs(file.stat().st_size - size) < 1000
    do_not_compile(monkeypatch)
    opened(second, tmp_path).programs.program(SPEC)


def test_binaries_of_other_makers() -> None:
    driver = Driver(("-x", "-y"), b"abcdefgh")
    other = Driver(("-x", "-y"), b"ABCDEFGH")
    made = b"poclbin\0abcdefgh and more"
    retained = driver.without_hash(made)
    assert retained is not None
    assert driver.with_hash(retained) == made
    assert other.with_hash(retained) == b"poclbin\0ABCDEFGH and more"
    for strange in (b"", b"poclbin\0", b"poclbin\0ABCDEFGH and more", b"\x7fELF", made[:-20]):
        assert driver.without_hash(strange) is None
    for strange in (b"", b"poclbin\0", made):
        assert driver.with_hash(strange) is None
