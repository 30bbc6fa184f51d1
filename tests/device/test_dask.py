"""Operations on Dask arrays: values, devices of workers, killed workers.

Most values are small integers, whose sums are exact in any order, so results are compared bit for
bit with NumPy's.  One cluster of two workers serves all tests.
"""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client, LocalCluster

import portable_gpu.multi.dask as pd
from portable_gpu import errors
from portable_gpu.errors import (
    DeviceNotFoundError,
    NotPositiveDefiniteError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.multi.dask.device import WorkerDevice
from portable_gpu.multi.dask.product_tasks import sum_of_products
from portable_gpu.runtime.engine import Engine

CHUNKS = (4, 3)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers, each with a core, whose programs are compiled without PoCL's optimiser."""
    settings = {
        "distributed.deploy.lost-worker-timeout": "10m",  # until a killed one has restarted
        "distributed.worker.multiprocessing-method": "spawn",
    }
    with pytest.MonkeyPatch.context() as patch, dask.config.set(settings):
        patch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as made,
        ):
            pd.use_devices(made)
            yield made


def cut(values: np.ndarray[Any, Any], chunks: Any = None) -> da.Array:
    return da.from_array(values, chunks=chunks or (CHUNKS * 2)[: values.ndim])


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float64)


def drawn_product(seed: int) -> tuple[da.Array, np.ndarray[Any, Any]]:
    """A product of stacks that broadcast, whose chunks are drawn; some have no elements."""
    random = np.random.default_rng(seed)

    def chunks(extent: int) -> tuple[int, ...]:
        cuts = np.sort(random.integers(0, extent + 1, random.integers(0, 3)))
        return tuple(np.diff(cuts, prepend=0, append=extent).tolist())

    m, k, n = random.integers(1, 6, 3)
    batches = [random.choice([1, 3], random.integers(0, 3)) for _ in range(2)]
    a, b = numbers(*batches[0], m, k, seed=seed), numbers(*batches[1], k, n, seed=seed + 1)
    left, right = (cut(x, tuple(chunks(extent) for extent in x.shape)) for x in (a, b))
    return pd.matmul(left, right), a @ b


def test_each_worker_has_a_device_and_its_share_of_the_cores(client: Client) -> None:
    reports = pd.info(client)
    assert sorted(report.rank for report in reports.values()) == [0, 1]
    assert len({report.process for report in reports.values()}) == 2
    if len(os.sched_getaffinity(0)) < 2 or next(iter(reports.values())).memory_limit:
        return  # one core cannot be shared out; GPUs are not
    cores = list(client.run(lambda: os.sched_getaffinity(0)).values())
    assert not cores[0] & cores[1]
    if "pthread" in next(iter(reports.values())).device:
        assert {report.cores for report in reports.values()} == {len(cores[0])}


def test_results(client: Client) -> None:
    """All functions in one graph, against NumPy.

    By one worker: two would compile each kernel at the same time.
    """
    a, b, stack = numbers(9, 7), numbers(7, 5, seed=1), numbers(3, 9, 7, seed=2)
    x, y, z = cut(a), cut(b, (3, 2)), cut(stack)
    tall = np.random.default_rng(3).standard_normal((40, 4))
    t = cut(tall, (11, 4))
    odd = tall.copy()
    odd[29, 0] = np.inf
    with_nan = stack.copy()
    with_nan[1, 8, 2] = with_nan[2, 0, 0] = np.nan
    points = numbers(20, 4, seed=5)
    exact = [
        (pd.matmul(x, y), a @ b),
        (pd.matmul(z, y), stack @ b),
        (pd.matmul(x[0], y), a[0] @ b),
        (pd.matmul(x, y[:, 1]), a @ b[:, 1]),
        (pd.matmul(x.astype(int), y.astype(int)), a.astype(int) @ b.astype(int)),
        (pd.tensordot(z, cut(stack.transpose(1, 2, 0)), ((1, 2), (0, 1))),
         np.tensordot(stack, stack.transpose(1, 2, 0), ((1, 2), (0, 1)))),
        (pd.gram_matrix(cut(a, (2, 7))), a.T @ a),
        (pd.sum(z), stack.sum()),
        (pd.sum(z, 0, keepdims=True), stack.sum(0, keepdims=True)),
        (pd.max(cut(with_nan)), with_nan.max()),
        (pd.any(z), True),
        (pd.count_nonzero(z), np.count_nonzero(stack)),
        (pd.mean(z), stack.mean()),
        (pd.argmax(z), stack.argmax()),
        (pd.argmax(cut(with_nan)), with_nan.argmax()),
        (pd.argmax(z, 1), stack.argmax(1)),
        (pd.vdot(x, x + 1), np.vdot(a, a + 1)),
        (pd.nearest_neighbors(cut(points, (6, 4)), cut(points, (9, 4)), 1)[0], np.zeros((20, 1))),
    ]  # fmt: skip
    exact += [drawn_product(seed) for seed in range(20)]
    q, r = pd.qr(t)
    close = [
        (pd.var(cut(stack + 2.0**40), ddof=1), stack.var(ddof=1)),
        (pd.mean(cut(odd), 0), [np.inf, *tall[:, 1:].mean(0)]),
        (pd.var(cut(odd), 0), [np.nan, *tall[:, 1:].var(0)]),
        (pd.nrm2(z), np.linalg.norm(stack)),
        (r, np.linalg.qr(tall)[1] * np.sign(np.diag(np.linalg.qr(tall)[1]))[:, None]),
        (pd.matmul(q, r), tall),
        (pd.gram_matrix(q), np.eye(4)),
        (pd.fft(t, axis=1), np.fft.fft(tall, axis=1)),
        (pd.map_blocks(lambda u, v, w: u * v + w, t, t, 2.0, dtype=tall.dtype), tall**2 + 2),
    ]
    worker = next(iter(pd.info(client)))
    graphs = [one for one, _ in exact + close]
    got = dask.compute(*graphs, workers=[worker], allow_other_workers=False)
    for (array, expected), values in zip(exact + close, got, strict=True):
        assert array.shape == np.shape(values) == np.shape(expected)
        assert array.dtype == np.asarray(values).dtype
    for (array, expected), values in zip(exact, got[: len(exact)], strict=True):
        np.testing.assert_array_equal(values, expected, err_msg=array.name)
    for (array, expected), values in zip(close, got[len(exact) :], strict=True):
        np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-13, err_msg=array.name)


def test_neighbours(client: Client) -> None:
    """Against all distances; of equal ones the smaller index is first."""
    random = np.random.default_rng(4)
    points = random.standard_normal((300, 4)) + 100
    points[7] = points[250] = points[120]
    queries = points[::11]
    distances, indices = dask.compute(
        *pd.nearest_neighbors(cut(points, (70, 4)), cut(queries, (20, 4)), 5)
    )
    squares = np.square(queries[:, None] - points).sum(-1)
    expected = np.argsort(squares, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(
        distances, np.sqrt(np.take_along_axis(squares, expected, 1)), rtol=8 * np.finfo(float).eps
    )


def test_columns_that_depend_on_each_other(client: Client) -> None:
    """QR refuses what two passes cannot make orthogonal."""
    x = np.random.default_rng(6).standard_normal((40, 4))
    x[:, 3] = x[:, 2] + 1e-9 * x[:, 3]
    with pytest.raises(NotPositiveDefiniteError, match=r"dask\.array\.linalg\.qr"):
        dask.compute(*pd.qr(cut(x, (11, 4))))


def test_errors_of_tasks_name_what_was_wrong(client: Client) -> None:
    x = cut(numbers(9, 7))
    with pytest.raises(ShapeError, match=r"function returned shape \(.,\) for a chunk of"):
        pd.map_blocks(lambda u: u[:, 0], x, dtype=x.dtype).compute()


def test_a_file_is_read_by_the_workers(client: Client, tmp_path: Path) -> None:
    values = numbers(9, 7)
    np.save(tmp_path / "x.npy", values)
    x = pd.from_npy(tmp_path / "x.npy", CHUNKS)
    assert max(len(str(task)) for task in x.dask.values()) < 1000  # no values in the graph
    np.testing.assert_array_equal(pd.sum(x).compute(), values.sum())


def killed_while_it_computes(x: Any, folder: str = "") -> Any:
    """The Gram matrix of a chunk; the first three calls end their process in a call of a device."""
    for attempt in range(3):
        try:
            Path(folder, str(attempt)).touch(exist_ok=False)
        except FileExistsError:
            continue
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
        while True:
            x.T @ x
    return x.T @ x


@pytest.mark.divided("workers of Dask that start anew")
def test_killed_workers_cost_no_bits(client: Client, tmp_path: Path) -> None:
    """Three times in a row a worker is killed in a call of its device; and one worker does all."""
    values = np.random.default_rng(5).standard_normal((64, 8))
    x = cut(values, (16, 8))
    folder = tmp_path / "kills"
    folder.mkdir()

    def graph(where: Path) -> list[da.Array]:
        squares = pd.map_blocks(
            killed_while_it_computes, x, dtype=x.dtype, chunks=((8,) * 4, (8,)), folder=str(where)
        )
        return [squares, pd.sum(squares), pd.matmul(x, x.T), *pd.qr(x)]

    for attempt in range(3):
        (tmp_path / str(attempt)).touch()
    first = next(iter(pd.info(client)))
    alone = dask.compute(*graph(tmp_path), workers=[first], allow_other_workers=False)
    before = pd.info(client)
    killed = dask.compute(*graph(folder))
    assert len(list(folder.iterdir())) == 3
    for left, right in zip(alone, killed, strict=True):
        np.testing.assert_array_equal(left, right)
    deadline = time.monotonic() + 200
    while len(after := pd.info(client)) < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
    assert {report.rank for report in after.values()} == {0, 1}
    assert set(after) != set(before)


def test_a_worker_without_a_device_fails_its_tasks(client: Client) -> None:
    """It does not take another device than the one that was asked for."""
    x = cut(numbers(9, 7))
    try:
        with pytest.raises(DeviceNotFoundError, match="nonsense"):
            pd.use_devices(client, "nonsense")
        assert pd.info(client) == {}
        with pytest.raises(DeviceNotFoundError, match=r"this worker has no device: .*nonsense"):
            pd.sum(x).compute()
    finally:
        assert len(pd.use_devices(client)) == 2
    np.testing.assert_array_equal(pd.sum(x + 0).compute(), numbers(9, 7).sum())


def test_errors_keep_what_they_say() -> None:
    """Distributed changes how exceptions are pickled: it restores some without ``__init__``."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, errors.PortableGPUError)]
    assert len(kinds) > 20
    for kind in kinds:
        needed = [
            (1,) if name == "index" else 1
            for name, parameter in inspect.signature(kind.__init__).parameters.items()
            if parameter.default is parameter.empty and parameter.kind < parameter.VAR_POSITIONAL
        ]
        error = kind("the message", *needed[2:])  # after self and the message
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is kind
        assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))


@pytest.mark.divided("workers of Dask that start anew")
def test_the_example_runs_as_it_stands() -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "dask_cluster.py"
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rank 1: " in done.stdout


def test_two_workers_in_one_process_are_refused() -> None:
    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as made,
        pytest.raises(UnsupportedError, match="processes=True"),
    ):
        pd.use_devices(made, workers_per_host=1)


class Apart(WorkerDevice):
    """A device whose memory is not the host's."""

    @property
    def uses_host_memory(self) -> bool:
        return False


@pytest.mark.parametrize("limit", [None, 1000])
def test_products_are_streamed_to_devices_with_their_own_memory(
    engine: Engine, limit: int | None
) -> None:
    """Whole pairs, and pieces within 1000 bytes."""
    pairs = [(numbers(9, k, seed=k), numbers(k, 8, seed=k + 1)) for k in (7, 4, 0, 9)]
    expected = sum(a @ b for a, b in pairs)
    dtype = np.dtype(np.float32)
    pairs = [(a.astype(dtype), b.astype(dtype)) for a, b in pairs]
    got = sum_of_products(pairs, 9, 8, dtype, None, Apart(engine, limit))
    np.testing.assert_array_equal(got, expected)
