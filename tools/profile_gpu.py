"""An NVIDIA GPU's counters of this library's kernels.

    python tools/profile_gpu.py record FOLDER fft 262144:64,16384:1000 --dtype complex64
    ncu --set full -o FOLDER/profile python tools/profile_gpu.py replay FOLDER
    ncu -i FOLDER/profile.ncu-rep --page source --csv > FOLDER/source.csv
    python tools/profile_gpu.py report FOLDER

NVIDIA's profiler knows CUDA alone.  So ``record`` keeps the PTX that the driver made of each
launch of a call, and its arguments, and ``replay`` launches them by cupy, once each, and prints
their times, which are those of cold caches.  ``report`` prints a warp's instructions by kind, and
what warps wait for.
"""

from __future__ import annotations

import argparse
import csv
import pickle
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu import Engine
from portable_gpu.bench.cases import cases, operands
from portable_gpu.ops.registry import BENCHMARKS
from portable_gpu.ops.sizes import parse_sizes
from portable_gpu.runtime.launch import Launch

#: Kinds of SASS instructions, by how their names begin.
KINDS = {
    "float": r"FADD|FMUL|FFMA|DADD|DMUL|DFMA|HADD|HMUL|HFMA|HGMMA|HMMA|MUFU",
    "local": r"LDS|STS|ATOMS",
    "global": r"LDG|STG|LD\.|ST\.|ATOM|RED|UBLKCP|UTMALDG",
    "barrier": r"BAR|SYNCS|WARPSYNC|BSYNC|BSSY",
    "branch": r"BRA|EXIT|CALL|RET",
    "compare": r"ISETP|FSETP|SEL|FSEL|PLOP|UISETP|USEL|VIMNMX|IMNMX",
    "constant": r"LDC|ULDC|S2R|S2UR|CS2R",
    "move": r"MOV|IMAD\.MOV|SHFL|PRMT|R2UR",
}


def record(folder: Path, operation: str, sizes: str, dtype: str) -> None:
    """Call each case once, and keep its launches."""
    folder.mkdir(parents=True, exist_ok=True)
    engine, retained = Engine(), list[tuple[Any, ...]]()
    enqueue = Launch.__call__
    made: list[tuple[Launch, Any, Any]] = []

    def recorded(
        self: Launch, state: Any, buffers: Any, scalars: Any = (), wait: Any = None
    ) -> Any:
        made.append((self, buffers, scalars))
        return enqueue(self, state, buffers, scalars, wait)

    Launch.__call__ = recorded  # type: ignore[method-assign,assignment]
    for case in cases(operation, [dtype], parse_sizes(sizes), on_cpu=False):
        arrays = [cla.to_device(engine.queue, item) for item in operands(case)]
        result: Any = BENCHMARKS[case.operation].call(case, arrays, engine)()
        extents = "_".join(map(str, (case.batch or 1, *case.extents)))
        for k, (launch, buffers, scalars) in enumerate(made):
            name = f"{case.operation}_{extents}_{case.dtype}_{k}"
            retained.append((name, *_described(engine, launch, buffers, scalars)))
            (folder / f"{name}.ptx").write_bytes(_ptx(launch))
        made.clear()
        del arrays, result
    (folder / "launches.pickle").write_bytes(pickle.dumps(retained))


def _described(engine: Engine, launch: Launch, buffers: Any, scalars: Any) -> tuple[Any, ...]:
    """The kernel's name, its grid, and its arguments by place: values, tables, sizes of rooms."""
    original = launch._arguments
    result = original.passed(scalars)
    for place, table in original.kept:
        result[place] = np.empty(table.size, np.uint8)
        cl.enqueue_copy(engine.queue, result[place], table)
    for place, buffer in zip(launch.places, buffers, strict=True):
        result[place] = ("room", int(buffer.size), int(buffer.int_ptr))
    return launch.bind().kernel.function_name, launch._sizes, result


def _ptx(launch: Launch) -> bytes:
    """The driver's text, where what it asks the OpenCL queue for is a constant or the grid."""
    program: Any = launch.bind().kernel.get_info(cl.kernel_info.PROGRAM)
    text = program.get_info(cl.program_info.BINARIES)[0].rstrip(b"\0").decode()
    text = re.sub(r"mov\.b32\s+(%r\d+), %envreg6;", r"mov.u32 \1, %nctaid.x;", text)
    return re.sub(r"%envreg[0-5];", "0;", text).encode()


def replay(folder: Path) -> None:
    """Launch each kernel, and print its time."""
    import cupy

    for name, kernel, (grid, group, _), arguments in _launches(folder):
        launch = cupy.RawModule(path=str(folder / f"{name}.ptx")).get_function(kernel)
        rooms: dict[int, Any] = {}
        inputs = []
        for _, value in sorted(arguments.items()):
            if isinstance(value, tuple):
                _, nbytes, address = value
                value = rooms.setdefault(address, cupy.zeros(nbytes, cupy.uint8))
            inputs.append(
                cupy.asarray(value) if isinstance(value, np.ndarray) and value.ndim else value
            )
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        launch(tuple(a // b for a, b in zip(grid, group, strict=True)), group, tuple(inputs))
        end.record()
        end.synchronize()
        time = cupy.cuda.get_elapsed_time(begin, end) * 1e3
        print(f"{name}: {time:.1f} us, {launch.num_regs} registers")


def _launches(folder: Path) -> list[tuple[Any, ...]]:
    return list(pickle.loads((folder / "launches.pickle").read_bytes()))


def report(folder: Path) -> None:
    """Print instructions and stalls of each launch."""
    tables: list[list[dict[str, str]]] = []
    header: list[str] = []
    for row in csv.reader((folder / "source.csv").open()):
        if "Instructions Executed" in row:
            header = row
            tables.append([])
        elif len(row) == len(header) and tables:
            tables[-1].append(dict(zip(header, row, strict=True)))
    for (name, *_), table in zip(_launches(folder), tables, strict=True):
        warps = int(table[0]["Instructions Executed"])
        kinds, stalls = defaultdict[str, float](float), Counter[str]()
        for line in table:
            kinds[_kind(line["Source"])] += int(line["Instructions Executed"]) / warps
            for column, samples in line.items():
                if column.startswith("stall_") and "Not Issued" not in column:
                    stalls[column.removeprefix("stall_")] += int(samples)
        total = max(1, sum(stalls.values()))
        print(f"{name}: {sum(kinds.values()):.0f} instructions of each of {warps} warps")
        print("   ", ", ".join(f"{k} {n:.0f}" for k, n in sorted(kinds.items(), key=_most)))
        print("   ", ", ".join(f"{k} {100 * n // total} %" for k, n in stalls.most_common(7)))


def _most(item: tuple[str, float]) -> float:
    return -item[1]


def _kind(source: str) -> str:
    name = re.sub(r"^@!?U?P\w+\s+", "", source.strip())
    return next((kind for kind, names in KINDS.items() if re.match(names, name)), "integer")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    steps = parser.add_subparsers(dest="step", required=True)
    first = steps.add_parser("record")
    first.add_argument("folder", type=Path)
    first.add_argument("operation")
    first.add_argument("sizes")
    first.add_argument("--dtype", default="float32")
    for name in ("replay", "report"):
        steps.add_parser(name).add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.step == "record":
        record(options.folder, options.operation, options.sizes, options.dtype)
    else:
        (replay if options.step == "replay" else report)(options.folder)


if __name__ == "__main__":
    main()
