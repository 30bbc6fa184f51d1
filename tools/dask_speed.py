"""Time a product and nearest neighbours of Dask arrays against the same graphs in NumPy.

    python tools/dask_speed.py [--workers 2] [--size 4096] [--points 20000] [--turns 5]

Starts a cluster of worker processes on this machine, each with its device, or its share of the
cores.  The same graph is computed by turns with this library and with NumPy in its tasks; NumPy's
threads are the cores of the worker.  Prints seconds, CPU seconds of all workers, the medians'
ratios, and their geometric mean.  Then a worker copies chunks of 100 MB to its device and back, and
its resident memory is printed.  On a machine that does other work, CPU seconds are the measure.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import geometric_mean, median
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
from distributed import Client, LocalCluster, wait

import portable_gpu.multi.dask as pd
from portable_gpu.multi.dask import neighbors, product_tasks

Block = np.ndarray[Any, Any]
_OURS = {"sum_of_products": product_tasks.sum_of_products, "gemm": neighbors.gemm}


def numpy_product(pairs: Any, m: int, n: int, dtype: Any, *_: Any) -> Block:
    """The sum of products of pairs of matrices, in NumPy."""
    total = np.zeros((m, n), dtype)
    for a, b in pairs:
        total += a @ b
    return total


def numpy_gemm(a: Block, b: Block, *, alpha: float, epilogue: Any, **_: Any) -> Block:
    """The product of queries and points, in NumPy."""
    result: Block = a @ (alpha * b).T
    result += epilogue.arrays[0]
    return result


def use(numpy: bool) -> None:
    """Let the tasks of a worker compute with NumPy, or with this library."""
    product_tasks.sum_of_products = numpy_product if numpy else _OURS["sum_of_products"]
    neighbors.gemm = numpy_gemm if numpy else _OURS["gemm"]


def compare(
    client: Client, name: str, graph: Callable[[], Any], check: Callable[[Any], float], turns: int
) -> float:
    """Compute a graph by turns; return NumPy's median of CPU seconds divided by ours."""
    seconds: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for turn in range(turns + 1):
        for numpy in (False, True):
            client.run(use, numpy)
            before, start = sum(client.run(time.process_time).values()), time.perf_counter()
            result = dask.persist(*graph())
            wait(result)
            spent = time.perf_counter() - start
            cpu = sum(client.run(time.process_time).values()) - before
            if turn:
                seconds[numpy].append((spent, cpu))
            elif not numpy:
                print(f"{name}: error {check(result):.2g} of the bound", flush=True)
            del result
    ratios = []
    for which, label in ((0, "seconds"), (1, "CPU seconds")):
        ours, theirs = (median(one[which] for one in seconds[numpy]) for numpy in (False, True))
        ratios.append(theirs / ours)
        print(f"{name}: {label} {ours:.2f}, NumPy {theirs:.2f}, ratio {theirs / ours:.2f}")
    return ratios[1]


def main() -> None:
    """Start a cluster and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=4096, help="extent of the square product")
    parser.add_argument("--chunk", type=int, default=1024)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--coordinates", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--round-trips", type=int, default=200)
    options = parser.parse_args()
    dask.config.set({"distributed.deploy.lost-worker-timeout": "10m"})
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=1) as cluster,
        Client(cluster) as client,
    ):
        for report in pd.use_devices(client).values():
            print(f"rank {report.rank}: {report.device}, {report.cores} cores")
        n, chunk = options.size, options.chunk
        random = da.random.default_rng(1)
        a, b = (
            random.standard_normal((n, n), chunks=chunk).astype(np.float32).persist()
            for _ in range(2)
        )
        points = random.standard_normal((options.points, options.coordinates), chunks=(4096, -1))
        points = points.astype(np.float32).persist()
        queries = points[: options.points // 5].rechunk((1024, -1)).persist()
        wait([a, b, points, queries])

        def product_error(result: Any) -> float:
            """By a random vector: |(A B) v - A (B v)| as a share of its bound."""
            v = np.random.default_rng(2).choice([-1.0, 1.0], n)
            left = np.asarray(result[0].astype(float).dot(v).compute())
            right = a.astype(float).dot(b.astype(float).dot(v)).compute()
            bound = (abs(a).astype(float).dot(abs(b).astype(float).dot(np.ones(n)))).compute()
            return float(np.max(np.abs(left - right) / (n * 2.0**-24 * bound)))

        def neighbours_error(result: Any) -> float:
            """The first ten queries against all distances, as a share of float32's rounding."""
            distances, indices = dask.compute(result[0][:10], result[1][:10])
            p, q = dask.compute(points.astype(float), queries[:10].astype(float))
            exact = np.sqrt(np.square(q[:, None] - p).sum(-1))
            best = np.sort(exact, axis=1)[:, : distances.shape[1]]
            actual = np.take_along_axis(exact, indices, 1)
            bound = 4 * (options.coordinates + 4) * 2.0**-24 * np.maximum(best, 1)
            return float(
                np.max(np.maximum(np.abs(actual - best), np.abs(distances - best)) / bound)
            )

        turns = options.turns
        ratios = [
            compare(client, f"product of {n}", lambda: [pd.matmul(a, b)], product_error, turns),
            compare(
                client, f"10 neighbours in {options.points} points",
                lambda: pd.nearest_neighbors(points, queries, 10), neighbours_error, turns,
            ),
        ]  # fmt: skip
        print(f"geometric mean of CPU seconds' ratios: {geometric_mean(ratios):.3f}")
        client.run(use, False)
        worker = next(iter(pd.info(client)))
        x = da.ones((1, 25_000_000), chunks=(1, -1), dtype=np.float32).persist(workers=[worker])
        wait(x)
        for trip in range(options.round_trips):
            copy = pd.map_blocks(abs_plus, x, float(trip), dtype=np.float32)
            wait(copy.persist(workers=[worker]))
            if trip in (0, 1, 2, 5, 10, 20, 50, 100) or trip == options.round_trips - 1:
                memory = client.run(lambda: psutil.Process().memory_info().rss, workers=[worker])
                print(f"round trip {trip}: {memory[worker] / 2**20:.0f} MiB resident", flush=True)


def abs_plus(x: Any, trip: float) -> Any:
    """The absolute values of a device array plus a number."""
    return abs(x) + trip


if __name__ == "__main__":
    main()
