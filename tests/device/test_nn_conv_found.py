"""Timed variants of convolutions, and the answers that are kept on disk."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from device_arrays import from_device, on_device

from portable_gpu import folders, nn
from portable_gpu.errors import ArgumentError, ArgumentTypeError
from portable_gpu.ops.conv import answers
from portable_gpu.ops.conv.answers import TimedAlgorithm
from portable_gpu.ops.conv.api import problem_of_call
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.ops.conv.shapes import Options
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.engine import Engine

X = np.random.default_rng(0).standard_normal((2, 4, 9, 9)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((6, 2, 3, 3)).astype(np.float32)
OPTIONS: dict[str, Any] = {"groups": 2, "padding": 1}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for answers alone; programs stay in the usual one."""
    folder = tmp_path / "answers"
    monkeypatch.setattr(answers, "DiskCache", SimpleNamespace(default=lambda: DiskCache(folder)))
    monkeypatch.setattr(answers, "_answers", {})
    monkeypatch.setattr(folders, "_warned", set())
    return folder


def host(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else from_device(array)


def asked(engine: Engine) -> ConvProblem:
    """The problem of the tests' convolution."""
    prepared = problem_of_call(
        "forward", (X, W), Options(2, 1, 1, 1, 2), precision=None, workspace_limit=None, out=None,
        engine=engine, queue=None,
    )  # fmt: skip
    assert prepared is not None
    return prepared[1]


def taken(engine: Engine) -> str:
    """The variant that a call with ``algo="found"`` takes: the one whose bits it has."""
    got = nn.conv2d(X, W, algo="found", engine=engine, **OPTIONS)
    plan = next(plan for key, plan in engine._plans.items() if key[1:] == ("found", None))
    assert np.array_equal(got, nn.conv2d(X, W, algo=_name(plan), engine=engine, **OPTIONS))
    return _name(plan)


def _name(plan: Any) -> str:
    return {"OneLaunch": "direct", "Steps": "im2col"}[type(plan).__name__]


def of_other_process(engine: Engine, *names: str) -> None:
    """Replace the answer on disk, as another process does: this one remembers its own."""
    mine = dict(answers._answers)
    timed = [TimedAlgorithm(name, 1e-3 * k, 0) for k, name in enumerate(names, 1)]
    answers.store(asked(engine), engine.target, timed)
    answers._answers.clear()
    answers._answers.update(mine)


def test_every_direction_is_timed(engine: Engine) -> None:
    for x, w in ((X, W), (on_device(engine, X), on_device(engine, W))):
        timed = nn.find_conv2d(x, w, engine=engine, **OPTIONS)
        assert {"direct", "im2col"} <= {one.algo for one in timed}
        assert [one.seconds for one in timed] == sorted(one.seconds for one in timed)
        assert all(one.workspace > 0 for one in timed if one.algo == "im2col")
        expected = nn.conv2d(x, w, algo=timed[0].algo, engine=engine, **OPTIONS)
        bias = np.zeros(6, np.float32) if x is X else on_device(engine, np.zeros(6, np.float32))
        for passed in (None, bias):
            got = nn.conv2d(x, w, passed, algo="found", engine=engine, **OPTIONS)
            np.testing.assert_array_equal(host(got), host(expected))
        y = expected
        by_input = nn.find_conv2d_input(X.shape, w, y, engine=engine, **OPTIONS)
        by_weight = nn.find_conv2d_weight(x, W.shape, y, engine=engine, **OPTIONS)
        assert by_input
        assert by_weight
        dx = nn.conv2d_input(X.shape, w, y, algo="found", engine=engine, **OPTIONS)
        repeated = nn.conv_transpose2d(y, w, algo="found", engine=engine, **OPTIONS)
        np.testing.assert_array_equal(host(repeated), host(dx))
        nn.conv2d_weight(x, W.shape, y, algo="found", engine=engine, **OPTIONS)


def test_an_answer_is_needed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, with that of another layout, and with that of another version."""
    other = Engine(queue=engine.queue)
    with pytest.raises(ArgumentError, match=r"not been timed .*\.find_conv2d"):
        nn.conv2d(X, W, algo="found", engine=other, **OPTIONS)
    of_other_process(other, "direct", "im2col")
    assert taken(other) == "direct"
    last = on_device(other, np.ascontiguousarray(X.transpose(0, 2, 3, 1))).transpose((0, 3, 1, 2))
    with pytest.raises(ArgumentError, match="not been timed"):
        nn.conv2d(last, on_device(other, W), algo="found", engine=other, **OPTIONS)
    other = Engine(queue=engine.queue)
    newer = {**answers.versions(engine.target), "driver": "a later one"}
    monkeypatch.setattr(answers, "versions", lambda _: newer)
    with pytest.raises(ArgumentError, match="not been timed"):
        nn.conv2d(X, W, algo="found", engine=other, **OPTIONS)


def test_another_process_changes_the_answer(engine: Engine) -> None:
    """An engine keeps the answer that it has read; a later one reads the file."""
    of_other_process(engine, "direct", "im2col")
    first = Engine(queue=engine.queue)
    assert taken(first) == "direct"
    of_other_process(engine, "no such variant", "im2col", "direct")
    assert taken(first) == "direct"
    second = Engine(queue=engine.queue)
    assert taken(second) == "im2col"
    np.testing.assert_array_equal(
        nn.conv2d(X, W, algo="found", workspace_limit=0, engine=second, **OPTIONS),
        nn.conv2d(X, W, algo="direct", engine=second, **OPTIONS),
    )
    fastest = nn.find_conv2d(X, W, engine=first, **OPTIONS)[0].algo
    if fastest in ("direct", "im2col"):
        assert taken(first) == fastest


def test_a_limit_of_one_image(engine: Engine) -> None:
    """Two images at a time were timed, and a variant that can compute one at a time is taken."""
    timed = {one.algo: one for one in nn.find_conv2d(X, W, engine=engine, **OPTIONS)}
    of_other_process(engine, "im2col", "direct")
    for limit, algo in ((timed["im2col"].workspace - 1, "im2col"), (0, "direct")):
        options = {**OPTIONS, "workspace_limit": limit}
        got = nn.conv2d(X, W, algo="found", engine=Engine(queue=engine.queue), **options)
        np.testing.assert_array_equal(got, nn.conv2d(X, W, algo=algo, engine=engine, **options))


@pytest.mark.parametrize("kept", [0, 30, -1])
def test_a_damaged_answer_is_none(engine: Engine, folder: Path, kept: int) -> None:
    of_other_process(engine, "direct")
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:kept])
    other = Engine(queue=engine.queue)
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(ArgumentError, match="not been timed"),
    ):
        nn.conv2d(X, W, algo="found", engine=other, **OPTIONS)
    assert nn.find_conv2d(X, W, engine=other, **OPTIONS)
    nn.conv2d(X, W, algo="found", engine=other, **OPTIONS)


@pytest.mark.parametrize(
    "payload",
    [
        b"null", b"3", b"{", b'{"a": 1}', b'[["direct", 1]]', b"[[1, 2, 3]]", b"\xff",
        b'[[["direct"], 1.0, 0]]', b"[" * 100_000,
    ],
)  # fmt: skip
def test_an_entry_of_another_form_is_none(engine: Engine, folder: Path, payload: bytes) -> None:
    """Its hash is right: another program wrote it."""
    of_other_process(engine, "direct")
    (file,) = folder.iterdir()
    DiskCache(folder).write(file.name, payload)
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(ArgumentError, match="not been timed"),
    ):
        nn.conv2d(X, W, algo="found", engine=Engine(queue=engine.queue), **OPTIONS)


def test_a_folder_whose_name_is_too_long(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is that of the process, as without a folder."""
    disk = DiskCache(Path("/" + "a" * 300))
    monkeypatch.setattr(answers, "DiskCache", SimpleNamespace(default=lambda: disk))
    monkeypatch.setattr(folders, "_warned", set())
    other = Engine(queue=engine.queue)
    with pytest.raises(ArgumentError, match="not been timed"):
        nn.conv2d(X, W, algo="found", engine=other, **OPTIONS)


def test_arrays_without_a_queue(engine: Engine) -> None:
    """Arrays of pyopencl without a queue are accepted if the call has one."""
    x, w = (cla.to_device(engine.queue, array).with_queue(None) for array in (X, W))
    out = cla.zeros(engine.queue, (2, 6, 9, 9), np.float32).with_queue(None)
    assert nn.find_conv2d(x, w, out=out, engine=engine, queue=engine.queue, **OPTIONS)
    np.testing.assert_allclose(
        out.with_queue(engine.queue).get(), nn.conv2d(X, W, engine=engine, **OPTIONS), atol=1e-4
    )


def test_without_a_disk(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ``PORTABLE_GPU_CACHE=off``."""
    monkeypatch.setattr(answers, "DiskCache", SimpleNamespace(default=lambda: DiskCache(None)))
    nn.find_conv2d(X, W, engine=engine, **OPTIONS)
    nn.conv2d(X, W, algo="found", engine=engine, **OPTIONS)


def test_threads(engine: Engine, folder: Path) -> None:
    """Threads that time the same convolution, and others that call it meanwhile."""
    nn.find_conv2d(X, W, engine=engine, **OPTIONS)
    expected, errors = nn.conv2d(X, W, engine=engine, **OPTIONS), list[Exception]()

    def work(number: int) -> None:
        try:
            for _ in range(3):
                if number % 2:
                    nn.find_conv2d(X, W, engine=engine, **OPTIONS)
                got = nn.conv2d(X, W, algo="found", engine=engine, **OPTIONS)
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(list(folder.iterdir())) == 1


def test_what_is_refused(engine: Engine) -> None:
    """As by the call itself; and an empty result has nothing to time."""
    with pytest.raises(ArgumentError, match="groups is 5"):
        nn.find_conv2d(X, W, groups=5, engine=engine)
    with pytest.raises(ArgumentError, match="workspace_limit is -1"):
        nn.find_conv2d(X, W, workspace_limit=-1, engine=engine, **OPTIONS)
    with pytest.raises(ArgumentTypeError, match="wait_for"):
        nn.find_conv2d(X, W, wait_for=3, engine=engine, **OPTIONS)  # type: ignore[arg-type]
    assert nn.find_conv2d(X[:0], W, engine=engine, **OPTIONS) == []
