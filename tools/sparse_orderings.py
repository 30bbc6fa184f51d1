"""Compare the orderings of portable_gpu.sparse, and METIS's where pymetis is installed.

python tools/sparse_orderings.py [PROBLEM ...]

A problem is poisson2d:400, poisson3d:60, elasticity:32, or a file (.mtx).  Seconds are those of
the process, all threads together, the best of three.  The first call compiles; it is not counted.
"""

from __future__ import annotations

import sys
import time

from portable_gpu.bench.sparse_problems import problem
from portable_gpu.errors import UnsupportedError
from portable_gpu.sparse.elimination import eliminate
from portable_gpu.sparse.graph import Graph
from portable_gpu.sparse.ordering import order

PROBLEMS = ("poisson3d:30", "poisson3d:60", "poisson2d:400", "elasticity:32")
METHODS = ("nd", "metis", "amd", "mmd", "rcm")


def main() -> None:
    """Print a line for each problem and method."""
    print(f"{'problem':24} {'method':6} {'nnz(L)':>11} {'flops':>9} {'seconds':>8}")
    for name in sys.argv[1:] or PROBLEMS:
        graph = Graph.from_matrix(problem(name))
        for method in METHODS:
            try:
                perm, _ = order(graph, method)
            except UnsupportedError:
                continue
            result = eliminate(graph.indptr, graph.indices, perm)
            seconds = min(timed(graph, method) for _ in range(3))
            print(
                f"{name:24} {method:6} {result.nnz:11d} {result.flops:9.3e} {seconds:8.3f}",
                flush=True,
            )


def timed(graph: Graph, method: str) -> float:
    """Seconds of the process for one ordering."""
    start = time.process_time()
    order(graph, method)
    return time.process_time() - start


if __name__ == "__main__":
    main()
