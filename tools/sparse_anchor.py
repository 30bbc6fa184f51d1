"""Time sparse factorisations and solves on the default device, and by cuDSS if that is given.

    python tools/sparse_anchor.py [--cudss libcudss.so.1] [--ordering grid] poisson:60 ...

Of each problem it prints seconds of the analysis, of a refactorisation and of solves with 1 and 64
right-hand sides, the residuals, and the device's time by kernels.  cuDSS is its
library's path, and needs cupy.
``grid`` is nested dissection by the planes of the grid that the problem is made on.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import scipy.sparse as sp

from portable_gpu import Engine
from portable_gpu.runtime.launch import Launch
from portable_gpu.sparse.factor import Factor
from portable_gpu.sparse.symbolic import Symbolic, analyze

Array = Any
RIGHT = (1, 64)


def poisson(n: int) -> Array:
    """The 7-point Laplacian of n^3 points."""
    item = np.ones(n)
    line = sp.diags([-item[:-1], 2 * item, -item[:-1]], [-1, 0, 1])
    unit = sp.identity(n)
    parts = ((line, unit, unit), (unit, line, unit), (unit, unit, line))
    return sum(sp.kron(sp.kron(a, b), c) for a, b, c in parts).tocsr()


def elasticity(n: int, nu: float = 0.3) -> Array:
    """Linear elasticity on n^3 hexahedra, 8 nodes and 2-point Gauss each; one face is fixed."""
    lam, mu = nu / ((1 + nu) * (1 - 2 * nu)), 1 / (2 * (1 + nu))
    stiffness = np.diag([2 * mu] * 3 + [mu] * 3)
    stiffness[:3, :3] += lam
    corner = np.array([[x, y, z] for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)], float)
    element = np.zeros((24, 24))
    for point in corner / np.sqrt(3):
        gradient = np.empty((8, 3))
        for a in range(3):
            others = [b for b in range(3) if b != a]
            rest = np.prod([1 + corner[:, b] * point[b] for b in others], axis=0)
            gradient[:, a] = corner[:, a] * rest / 4
        strain = np.zeros((6, 24))
        for k, (x, y, z) in enumerate(gradient):
            part = [[x, 0, 0], [0, y, 0], [0, 0, z], [y, x, 0], [0, z, y], [z, 0, x]]
            strain[:, 3 * k : 3 * k + 3] = part
        element += strain.T @ stiffness @ strain / 8
    m = n + 1
    z, y, x = np.meshgrid(*[np.arange(n)] * 3, indexing="ij")
    near = [(dz * m + dy) * m + dx for dz in (0, 1) for dy in (0, 1) for dx in (0, 1)]
    nodes = ((z * m + y) * m + x).ravel()[:, None] + np.array(near)
    freedom = (3 * nodes[:, :, None] + np.arange(3)).reshape(-1, 24)
    places = np.repeat(freedom, 24, 1).ravel(), np.tile(freedom, (1, 24)).ravel()
    whole = sp.coo_matrix((np.tile(element.ravel(), len(freedom)), places)).tocsr()
    free = np.arange(3 * m**3) >= 3 * m * m
    return whole[free][:, free].tocsr()


#: Problems by name: what makes them, the shape of their grid, and unknowns of a point.
PROBLEMS: dict[str, tuple[Callable[[int], Array], Callable[[int], tuple[int, ...]], int]] = {
    "poisson": (poisson, lambda n: (n, n, n), 1),
    "elasticity": (elasticity, lambda n: (n, n + 1, n + 1), 3),
}


def by_planes(shape: tuple[int, ...], unknowns: int) -> Array:
    """Order a grid by nested dissection: both sides of its middle plane, and then the plane."""
    result: list[Array] = []

    def cut(points: Array) -> None:
        axis = int(np.argmax(points.shape))
        if points.size <= 8 or points.shape[axis] < 3:
            result.append(points.ravel())
            return
        middle = points.shape[axis] // 2
        low, plane, high = np.split(points, [middle, middle + 1], axis)
        cut(low)
        cut(high)
        result.append(plane.ravel())

    cut(np.arange(np.prod(shape)).reshape(shape))
    return (unknowns * np.concatenate(result)[:, None] + np.arange(unknowns)).ravel()


class Timed:
    """Seconds of the device by kernels, of all launches on a queue that keeps time."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue = queue
        self._launches: list[tuple[str, cl.Event]] = []

    def __enter__(self) -> Timed:
        self._call = call = Launch.__call__
        launches = self._launches

        def recorded(launch: Launch, *args: Any, **options: Any) -> Any:
            event = call(launch, *args, **options)
            if event is not None:
                launches.append((launch._make.args[0].name, event))  # type: ignore[attr-defined]
            return event

        Launch.__call__ = recorded  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Launch.__call__ = self._call  # type: ignore[method-assign]

    def report(self) -> str:
        """Launches and milliseconds of each kernel, and what lay between launches."""
        self.queue.finish()
        result: dict[str, list[float]] = defaultdict(list)
        for name, event in self._launches:
            result[name].append((event.profile.end - event.profile.start) * 1e-6)
        first, last = self._launches[0][1], self._launches[-1][1]
        whole = (last.profile.end - first.profile.start) * 1e-6
        busy = sum(map(sum, result.values()))
        rows = sorted(result.items(), key=lambda item: -sum(item[1]))
        lines = [f"{name} {len(each)} x: {sum(each):.3f} {_listed(each)}" for name, each in rows]
        return f"{whole:.2f} ms, between launches {whole - busy:.2f}; " + ", ".join(lines)


def _listed(each: list[float]) -> str:
    """Microseconds of a kernel's launches, if they are few."""
    return f"({' '.join(f'{1e3 * one:.0f}' for one in each)} us)" if 1 < len(each) < 50 else ""


def best(call: Callable[[], Any], wait: Callable[[], Any], runs: int = 5) -> float:
    """The least of several times of a call, in seconds."""
    result = []
    for _ in range(runs + 1):
        wait()
        start = time.perf_counter()
        call()
        wait()
        result.append(time.perf_counter() - start)
    return min(result[1:])


def ours(A: Array, symbolic: Symbolic, dtype: Any) -> None:
    """Print times and residuals of a problem."""
    device = Engine().device
    context = cl.Context([device])
    values = A.data.astype(dtype)
    for on_device in (False, True):
        properties = cl.command_queue_properties.PROFILING_ENABLE if on_device else 0
        queue = cl.CommandQueue(context, properties=properties)
        engine = Engine(queue=queue)
        operand = cla.to_device(queue, values)
        start = time.perf_counter()
        factor = Factor(symbolic, dtype, engine, queue)
        factor.refactorize(operand)
        queue.finish()
        planned = time.perf_counter() - start
        if not on_device:
            seconds = best(lambda: factor.refactorize(operand), queue.finish)  # noqa: B023
            rate = symbolic.flops / seconds * 1e-12
            print(f"  first {planned:.3f} s, refactorize {seconds:.5f} s ({rate:.2f} TFLOP/s)")
            factor.check()
        else:
            with Timed(queue) as timed:
                factor.refactorize(operand)
                print("  factor:", timed.report(), flush=True)
        for count in RIGHT:
            b = np.random.default_rng(0).standard_normal((len(symbolic.perm), count)).astype(dtype)
            right = cla.to_device(queue, b)
            x = factor.solve(right)
            queue.finish()
            if not on_device:
                seconds = best(lambda: factor.solve(right), queue.finish)  # noqa: B023
                got = x.get()
                size = abs(A) @ np.abs(got) + np.abs(b)
                error = float((np.abs(A @ got - b) / size).max())
                print(f"  solve {count}: {seconds:.5f} s, error {error:.1e}", flush=True)
            else:
                with Timed(queue) as timed:
                    factor.solve(right)
                    print(f"  solve {count}:", timed.report(), flush=True)


def cudss(path: str, A: Array) -> None:
    """Print times of cuDSS, called by ctypes: the constants are those of cudss.h."""
    import cupy as cp

    lib = ctypes.CDLL(path)
    pointer, i64 = ctypes.c_void_p, ctypes.c_int64

    def ok(status: int) -> None:
        if status:
            raise RuntimeError(f"cuDSS says {status}")

    lower = sp.tril(A).tocsr()
    lower.sort_indices()
    n, nnz = lower.shape[0], lower.nnz
    arrays = [cp.asarray(lower.indptr.astype(np.int32)), cp.asarray(lower.indices.astype(np.int32))]
    arrays.append(cp.asarray(lower.data))
    at = [pointer(array.data.ptr) for array in arrays]
    handle, config, data, matrix = pointer(), pointer(), pointer(), pointer()
    ok(lib.cudssCreate(ctypes.byref(handle)))
    ok(lib.cudssConfigCreate(ctypes.byref(config)))
    ok(lib.cudssDataCreate(handle, ctypes.byref(data)))
    real64, int32, definite, lower_, base0, by_columns = 1, 10, 3, 1, 0, 0
    ok(lib.cudssMatrixCreateCsr(
        ctypes.byref(matrix), i64(n), i64(n), i64(nnz), at[0], pointer(0), at[1], at[2], int32,
        int32, real64, definite, lower_, base0,
    ))  # fmt: skip
    times = {}
    for count in RIGHT:
        b = cp.asfortranarray(cp.random.standard_normal((n, count)))
        x = cp.zeros_like(b, order="F")
        dense = []
        for item in (b, x):
            address = pointer()
            ok(lib.cudssMatrixCreateDn(
                ctypes.byref(address), i64(n), i64(count), i64(n), pointer(item.data.ptr), real64,
                by_columns,
            ))  # fmt: skip
            dense.append(address)

        def phase(what: int) -> None:
            ok(lib.cudssExecute(handle, what, config, data, matrix, dense[1], dense[0]))  # noqa: B023

        wait = cp.cuda.Device().synchronize
        analysis, factor, refactor, solve = 3, 4, 8, 1008
        if count == RIGHT[0]:
            start = time.perf_counter()
            phase(analysis)
            wait()
            times["analysis"] = time.perf_counter() - start
            phase(factor)
            times["refactorize"] = best(lambda: phase(refactor), wait)  # noqa: B023
        times[f"solve {count}"] = best(lambda: phase(solve), wait)  # noqa: B023
    print("  cuDSS:", ", ".join(f"{name} {seconds:.5f} s" for name, seconds in times.items()))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="+", help="poisson:N or elasticity:N")
    parser.add_argument("--ordering", default="grid")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--cudss", help="the path of libcudss.so.1")
    options = parser.parse_args()
    for problem in options.problems:
        name, n = problem.split(":")
        make, shape, unknowns = PROBLEMS[name]
        A = make(int(n))
        ordering: Any = options.ordering
        if ordering == "grid":
            ordering = by_planes(shape(int(n)), unknowns)
        start = time.perf_counter()
        symbolic = analyze(A, ordering)
        print(f"{problem}: {symbolic!r}, analysis {time.perf_counter() - start:.2f} s", flush=True)
        ours(A, symbolic, options.dtype)
        if options.cudss:
            cudss(options.cudss, A)


if __name__ == "__main__":
    main()
