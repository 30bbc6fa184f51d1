"""Two worker processes with a device each: products, statistics, QR and neighbours of Dask arrays.

Needs the extra ``dask``.
"""

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import portable_gpu.multi.dask as pd


def standardised(x, mean, deviation):
    """A function of device arrays: each chunk is copied to the device once, and back once."""
    return (x - mean) / deviation


def main() -> None:
    """Start the workers, and compute."""
    # A worker that is killed needs longer than 15 s to be back on a busy machine.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "10m"})
    with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
        for report in pd.use_devices(client, warm_up=["gemm"]).values():
            print(f"rank {report.rank}: {report.device}, {report.cores} cores")

        table = da.random.default_rng(1).normal(3, 2, (20_000, 64), chunks=(5_000, 64))
        table = table.astype(np.float32).persist()

        mean, deviation = dask.compute(pd.mean(table), pd.std(table))
        print(f"mean {mean:.3f}, deviation {deviation:.3f}")
        scores = pd.map_blocks(standardised, table, mean, deviation, dtype=np.float32)

        covariance = (pd.gram_matrix(scores) / len(table)).compute()
        print("largest entry of the covariance off the diagonal:",
              np.abs(covariance - np.diag(np.diag(covariance))).max())  # fmt: skip

        q, r = pd.qr(scores)
        error = pd.max(abs(pd.matmul(q, r) - scores)).compute()
        print("largest error of Q R:", error)
        assert error < 1e-4

        distances, indices = dask.compute(*pd.nearest_neighbors(scores, scores[:100], 3))
        print("the nearest neighbours of row 0:", indices[0], distances[0])
        assert (indices[:, 0] == np.arange(100)).all()


if __name__ == "__main__":  # workers are started by spawn, and import this file
    main()
