"""The library's operations on Dask arrays: tasks of many processes and machines.

Chunks are NumPy arrays while they travel between tasks; arrays on a device exist inside a task
only.  :func:`use_devices` gives each worker of a cluster its device.  Nothing here opens a device
when it is imported, or when a graph is built.
"""

from importlib.util import find_spec

from portable_gpu.errors import how_to_install

for _package in ("dask", "distributed"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"portable_gpu.multi.dask needs the package {_package}: {how_to_install('dask')}",
            name=_package,
        )

from portable_gpu.multi.dask.blocks import from_npy, map_blocks  # noqa: E402
from portable_gpu.multi.dask.factors import qr  # noqa: E402
from portable_gpu.multi.dask.neighbors import nearest_neighbors  # noqa: E402
from portable_gpu.multi.dask.products import gram_matrix, matmul, tensordot  # noqa: E402
from portable_gpu.multi.dask.reductions import (  # noqa: E402
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    mean,
    min,
    nrm2,
    prod,
    std,
    sum,
    var,
    vdot,
)
from portable_gpu.multi.dask.transforms import (  # noqa: E402
    fft,
    fftn,
    ifft,
    ifftn,
    irfft,
    rfft,
)
from portable_gpu.multi.dask.worker import (  # noqa: E402
    DevicePlugin,
    WorkerInfo,
    info,
    use_devices,
)

__all__ = [
    "DevicePlugin",
    "WorkerInfo",
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "fft",
    "fftn",
    "from_npy",
    "gram_matrix",
    "ifft",
    "ifftn",
    "info",
    "irfft",
    "map_blocks",
    "matmul",
    "max",
    "mean",
    "min",
    "nearest_neighbors",
    "nrm2",
    "prod",
    "qr",
    "rfft",
    "std",
    "sum",
    "tensordot",
    "use_devices",
    "var",
    "vdot",
]
