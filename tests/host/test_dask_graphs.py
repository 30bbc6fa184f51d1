"""Graphs of Dask arrays: their shapes, what is refused, shares of a host.  No device is used."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask.array as da

import portable_gpu.multi.dask as pd
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.multi.dask import device, slots
from portable_gpu.multi.dask.graph import FAN_IN, Graph, add_tree
from portable_gpu.multi.dask.product_tasks import piece

X = da.ones((6, 4), chunks=(2, 4), dtype=np.float32)
SQUARE = da.ones((4, 4), chunks=2, dtype=np.float32)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "dask.md"


def test_nothing_opens_a_device_before_a_task_runs() -> None:
    text = """
import dask.array as da, pickle
import portable_gpu.multi.dask as pd
from portable_gpu.runtime import fork
x = da.ones((8, 8), chunks=(4, 8), dtype="float32")
graphs = [pd.matmul(x, x.T), pd.sum(x), pd.var(x, 0), pd.argmax(x), pd.gram_matrix(x), *pd.qr(x),
          *pd.nearest_neighbors(x, x, 2), pd.fft(x), pd.map_blocks(abs, x, dtype=x.dtype)]
pickle.dumps([graph.dask for graph in graphs]), pickle.dumps(pd.DevicePlugin(warm_up=["sum"]))
assert not fork._is_in_use
"""
    subprocess.run([sys.executable, "-c", text], check=True)


@pytest.mark.parametrize("count", [1, 2, 8, 9, 64, 65, 200])
def test_a_tree_keeps_the_order_and_merges_a_fixed_number(count: int) -> None:
    graph: Graph = {}
    leaves: list[Any] = [("x", i) for i in range(count)]
    add_tree(graph, ("y",), leaves, "merge", "finish")  # type: ignore[arg-type]

    def run(key: Any) -> str:
        if key not in graph:
            return str(key[1])
        name, keys = graph[key]
        assert 1 <= len(keys) <= FAN_IN
        return f"{name[0]}({' '.join(run(one) for one in keys)})"

    text = run(("y",))
    assert text.startswith("f(")
    assert [int(n) for n in text.replace("f(", "").replace("m(", "").replace(")", "").split()] == [
        *range(count)
    ]


def test_pieces_of_a_product_are_within_the_limit() -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        m, n, k = (int(one) for one in random.integers(1, 5000, 3))
        limit = int(random.integers(12, 1 << 27))
        pairs = [(np.empty((0, k)), np.empty((k, 0)))]
        rows, columns, depth = piece(pairs, m, n, 4, limit)
        assert 1 <= rows <= m
        assert 1 <= columns <= n
        assert 1 <= depth <= k
        used = (2 * depth * (rows + columns) + rows * columns) * 4
        assert used <= limit or rows == columns == depth == 1
    assert piece(pairs, m, n, 4, None) == (m, n, k)


def test_slots_are_taken_in_order_and_are_free_after_a_kill(tmp_path: Path) -> None:
    group = f"test-{os.getpid()}"
    first = slots.take_slot(group, 2)
    assert first is not None
    assert first.number == 0
    text = (
        "import sys, time; from portable_gpu.multi.dask.slots import take_slot; "
        f"slot = take_slot({group!r}, 2); print(slot.number, flush=True); time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"1\n"
        assert slots.take_slot(group, 2) is None
        other.kill()
    second = slots.take_slot(group, 2)
    assert second is not None
    assert second.number == 1
    first.release()
    third = slots.take_slot(group, 2)
    assert third is not None
    assert third.number == 0


def test_gpus_are_shared_out_from_the_rank_on(monkeypatch: pytest.MonkeyPatch) -> None:
    selected: dict[str, int] = {}

    def take(group: str, count: int) -> slots.Slot | None:
        if selected.get(group, 0) >= count:
            return None
        selected[group] = selected.get(group, 0) + 1
        return slots.Slot(selected[group] - 1, Path(os.devnull).open("rb"))

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    monkeypatch.setattr(device, "take_slot", take)
    monkeypatch.setattr(device, "identity", lambda one, index: index)
    gpus: Any = [(f"0:{i}", Named(f"GPU {i}")) for i in range(3)]
    got = [device._free_device(gpus, 2, rank)[0].name for rank in (1, 0, 1, 5, 4, 3)]
    assert got == ["GPU 1", "GPU 0", "GPU 2", "GPU 2", "GPU 1", "GPU 0"]
    with pytest.raises(PortableGPUError, match=r"0:0 GPU 0, .* 2 on each"):
        device._free_device(gpus, 2, 0)


def test_public_names_are_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in pd.__all__ if f"`{name}" not in page] == []


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: pd.matmul(np.ones((2, 2)), X), ArgumentTypeError, "a is of type ndarray"),
        (lambda: pd.matmul(X, X), ShapeError, r"axis 1 of a has extent 4 and axis 0 of b 6"),
        (lambda: pd.matmul(X, da.ones(())), ShapeError, "with axes"),
        (lambda: pd.matmul(X[None], X), ShapeError, "do not fit"),
        (lambda: pd.matmul(X[None], SQUARE, precision="x"), ArgumentError, "precision is 'x'"),
        (lambda: pd.matmul(X, SQUARE, precision="x"), ArgumentError, "precision is 'x'"),
        (lambda: pd.tensordot(X, X, 3), ArgumentError, "axes is 3"),
        (lambda: pd.tensordot(X, X, ((0, 0), (0, 0))), ShapeError, "each once"),
        (lambda: pd.tensordot(X, X, (0, 2)), AxisError, "axis 2"),
        (lambda: pd.tensordot(X, X, "a"), ArgumentTypeError, "axes is 'a'"),
        (lambda: pd.gram_matrix(SQUARE), ArgumentError, r"x.rechunk\(\{1: -1\}\)"),
        (lambda: pd.gram_matrix(X[0]), ShapeError, r"shape \(4,\)"),
        (lambda: pd.gram_matrix(X.astype(int)), ArgumentError, "int64"),
        (lambda: pd.qr(X.T.rechunk({1: -1})), ShapeError, "as many rows"),
        (lambda: pd.qr(X.astype(np.float16)), DTypeError, "float16"),
        (lambda: pd.sum(X.astype("M8[s]")), DTypeError, "datetime"),
        (lambda: pd.sum(X[X > 0]), ArgumentError, "compute_chunk_sizes"),
        (lambda: pd.sum(X, 2), AxisError, "axis 2"),
        (lambda: pd.sum(X, (0, 0)), ShapeError, "0"),
        (lambda: pd.sum(X.astype(complex), dtype=float), DTypeError, "complex"),
        (lambda: pd.mean(X, dtype=int), DTypeError, "int64"),
        (lambda: pd.max(X[:0]), ShapeError, "no elements"),
        (lambda: pd.argmin(X, (0, 1)), ArgumentTypeError, "axis"),
        (lambda: pd.var(X, ddof="a"), ArgumentTypeError, "ddof"),
        (lambda: pd.sum(X, keepdims="a"), ArgumentTypeError, "keepdims"),
        (lambda: pd.vdot(X, SQUARE), ShapeError, "equal shapes"),
        (lambda: pd.nearest_neighbors(X, X, 7), ArgumentError, "k is 7; expected 1 to 6"),
        (lambda: pd.nearest_neighbors(X, X[:, :3]), ShapeError, "4 coordinates"),
        (lambda: pd.nearest_neighbors(X, X.astype(float)), DTypeError, "convert one"),
        (lambda: pd.fft(X, axis=0), ArgumentError, "axis 0 of x is cut into 3 chunks"),
        (lambda: pd.rfft(X.astype(complex)), DTypeError, "real"),
        (lambda: pd.fft(X, norm="x"), ArgumentError, "norm"),
        (lambda: pd.fft(X, 0), ArgumentError, "invalid number"),
        (lambda: pd.map_blocks(1, X, dtype=float), ArgumentTypeError, "function"),
        (lambda: pd.map_blocks(abs, 1, dtype=float), ArgumentTypeError, "no Dask array"),
        (lambda: pd.map_blocks(abs, X, SQUARE, dtype=float), ShapeError, "differ"),
        (lambda: pd.map_blocks(abs, X, dtype=float, chunks=((6,), (4,))), ShapeError, "chunks"),
        (lambda: pd.from_npy(3), ArgumentTypeError, "path is 3"),
        (lambda: pd.from_npy("/nowhere.npy"), FileNotFoundError, "nowhere"),
        (lambda: pd.from_npy(__file__), ArgumentError, "not a .npy file"),
        (lambda: pd.DevicePlugin(3), ArgumentTypeError, "device is 3"),
        (lambda: pd.DevicePlugin(cache=3), ArgumentTypeError, "cache is 3"),
        (lambda: pd.DevicePlugin(warm_up="sum"), ArgumentTypeError, "warm_up is 'sum'"),
        (lambda: pd.DevicePlugin(cores=0), ArgumentError, "cores is 0"),
        (lambda: pd.DevicePlugin(workers_per_host="a"), ArgumentTypeError, "workers_per_host"),
        (lambda: pd.DevicePlugin(precision="x"), ArgumentError, "precision"),
        (lambda: pd.use_devices("tcp://host"), ArgumentTypeError, "client is 'tcp://host'"),
        (lambda: pd.info(None), ArgumentTypeError, "client is None"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("name", "n"), [("fft", None), ("ifft", 5), ("rfft", 7), ("irfft", None), ("irfft", 9)]
)
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex64"])
def test_shapes_and_dtypes_of_transforms(name: str, n: int | None, dtype: str) -> None:
    if name == "rfft" and dtype == "complex64":
        return
    x = da.ones((5, 4, 6), chunks=(2, 4, 3), dtype=dtype)
    result = getattr(pd, name)(x, n, 1)
    expected = getattr(np.fft, name)(np.ones((5, 4, 6)), n, 1)
    kind = expected.dtype.kind + ("4" if dtype in ("float16", "float32", "complex64") else "8")
    assert result.shape == expected.shape
    assert result.chunks == ((2, 2, 1), (expected.shape[1],), (3, 3))
    assert result.dtype == {"f4": "f4", "f8": "f8", "c4": "c8", "c8": "c16"}[kind]


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "max", "any"])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "complex64"]
)
def test_dtypes_of_reductions(name: str, dtype: str) -> None:
    x = da.ones((5, 4), chunks=2, dtype=dtype)
    assert getattr(pd, name)(x, 0).dtype == getattr(np, name)(np.ones((5, 4), dtype), 0).dtype


def test_a_file_of_another_shape_than_in_the_graph_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((6, 4), np.float32))
    x = pd.from_npy(tmp_path / "x.npy", (2, 4))
    assert x.compute(scheduler="synchronous").sum() == 24
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    with pytest.raises(ArgumentError, match=r"float32 of shape \(3, 4\) now, and had float32 of"):
        x.compute(scheduler="synchronous")


def test_the_tasks_of_a_product_take_whole_rows_and_columns() -> None:
    a, b = da.ones((6, 8), chunks=(2, 3)), da.ones((8, 5), chunks=(4, 3))
    result = pd.matmul(a, b)
    assert result.chunks == ((2, 2, 2), (3, 2))
    tasks = [key for key in result.dask if key[0] == result.name]
    assert len(tasks) == 6
    # Chunks of 3, 3, 2 and of 4, 4 rows: both are cut into 3, 1, 2, 2.
    layer = result.dask.layers[result.name]
    _, left, right = layer[result.name, 0, 0]
    assert len(left) == len(right) == 4
    assert pickle.loads(pickle.dumps(result)).name == result.name
    assert reduce(lambda x, y: x and y, (pd.matmul(a, b).name == result.name for _ in range(2)))
