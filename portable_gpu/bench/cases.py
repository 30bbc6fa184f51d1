"""What is timed: one operation on one size, and the sizes of a default run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from portable_gpu.bench.sizes import Size, parse_sizes
from portable_gpu.dtypes import PRECISIONS, dtype_of, element
from portable_gpu.errors import ArgumentError

REDUCTIONS = ("sum", "dot", "max", "argmax", "nrm2")
#: What can be asked for, and what each name stands for.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "sum": ("sum",),
    "reduce": REDUCTIONS,
    **{name: (name,) for name in REDUCTIONS if name != "sum"},
    "gemv": ("gemv",),
    "gemm": ("gemm",),
    "all": (*REDUCTIONS, "gemv", "gemm"),
    "roofline": (*REDUCTIONS, "gemv", "gemm"),
}
_ORDERED = ("max", "argmax")  # not for complex numbers
_NARROW = ("float16", "bfloat16")
_TRANSPOSES = {"gemv": ("N", "T"), "gemm": ("NN", "NT", "TN", "TT")}


@dataclass(frozen=True)
class Case:
    """One operation on one size.

    Attributes:
        operation: ``sum dot max argmax nrm2 gemv gemm``.
        extents: Shape of a reduction's arrays; (m, n) of gemv's matrix; (m, k, n) of gemm.
        dtype: NumPy name of the element type.
        manner: Of gemm: the ``precision`` of float32 products (``bf16x6``), or the dtype of the
            result of 16-bit floats (``float32``); empty as it is by default.
        axis: Of a reduction; all of them where it is ``None``.
        trans: N or T for gemv, two of them for gemm.
        batch: Products of a batch; ``None`` for a single one.
    """

    operation: str
    extents: tuple[int, ...]
    dtype: str = "float32"
    axis: int | None = None
    trans: str = ""
    batch: int | None = None
    manner: str = ""

    @property
    def precision(self) -> str:
        """As :func:`portable_gpu.gemm` takes it."""
        return self.manner if self.manner in PRECISIONS else "ieee"

    @property
    def result(self) -> str:
        """NumPy name of the result's element type."""
        return self.dtype if self.manner in ("", *PRECISIONS) else self.manner

    @property
    def type(self) -> str:
        """The dtype, and the manner, as ``--dtype`` takes them."""
        return f"{self.dtype}:{self.manner}" if self.manner else self.dtype

    @property
    def size(self) -> str:
        """The size as ``--sizes`` takes it."""
        text = "x".join(_short(extent) for extent in self.extents)
        variant = self.trans if self.axis is None else str(self.axis)
        batch = "" if self.batch is None else f"{self.batch}:"
        return f"{batch}{text}" + (f"/{variant}" if variant else "")

    def __str__(self) -> str:
        return f"{self.operation} {self.size} {self.type}"

    @property
    def flop(self) -> int:
        """Floating-point operations; comparisons count as such."""
        complex_ = element(dtype_of(self.dtype)).complex
        if self.operation in ("gemv", "gemm"):
            return (8 if complex_ else 2) * prod(self.extents) * (self.batch or 1)
        each = {"dot": 8 if complex_ else 2, "nrm2": 4 if complex_ else 2}
        return each.get(self.operation, 2 if complex_ else 1) * prod(self.extents)

    @property
    def bytes(self) -> int:
        """The least traffic: every operand moved once."""
        if self.operation == "gemm":
            m, k, n = self.extents
            count = (m * k + k * n) * (self.batch or 1)
            written = m * n * (self.batch or 1) * element(dtype_of(self.result)).itemsize
            return count * element(dtype_of(self.dtype)).itemsize + written
        if self.operation == "gemv":
            m, n = self.extents
            count = m * n + m + n
        else:
            count = prod(self.extents) * (2 if self.operation == "dot" else 1)
            if self.axis is not None:
                count += prod(self.extents) // self.extents[self.axis]
        return count * element(dtype_of(self.dtype)).itemsize

    @property
    def command(self) -> str:
        """The command that times this case alone."""
        return f"portable-gpu bench {self.operation} --sizes {self.size} --dtype {self.type}"


def cases(
    operation: str, dtypes: Sequence[str], sizes: Sequence[Size] | None, on_cpu: bool
) -> list[Case]:
    """The cases of a run.

    Args:
        operation: A key of :data:`OPERATIONS`.
        dtypes: NumPy names of floating-point types; for gemm a :attr:`Case.manner` may follow,
            after a colon.
        sizes: What to time; the defaults of the kind of device without it.
        on_cpu: Whether these are the defaults of a CPU.

    Raises:
        ArgumentError: An unknown operation, or sizes that it does not take.
    """
    if operation not in OPERATIONS:
        raise ArgumentError(f"no benchmark {operation!r}; there are: {', '.join(OPERATIONS)}")
    found: list[Case] = []
    for asked in dtypes:
        dtype, _, manner = asked.partition(":")
        _check_manner(asked, dtype, manner, operation)
        elem = element(dtype_of(dtype))
        if not elem.floating:
            raise ArgumentError(f"--dtype has {dtype}; floating-point types are timed")
        for name in OPERATIONS[operation]:
            if elem.complex and name in _ORDERED:
                continue
            for size in sizes or _default_sizes(name, operation, on_cpu):
                timed = _cases_of(name, operation, dtype, size)
                found += [replace(case, manner=manner) for case in timed]
    if not found:
        raise ArgumentError(f"{operation} has nothing to time in {', '.join(dtypes)}")
    return list(dict.fromkeys(found))


def _check_manner(asked: str, dtype: str, manner: str, operation: str) -> None:
    """Refuse what :attr:`Case.manner` does not say.

    Raises:
        ArgumentError: The operation has no manners, or the dtype not this one.
    """
    if ":" not in asked:
        return
    known = PRECISIONS if dtype == "float32" else ("float32",) if dtype in _NARROW else ()
    if operation != "gemm" or manner not in known:
        raise ArgumentError(
            f"--dtype has {asked!r}; for gemm there are float32:PRECISION "
            f"({', '.join(PRECISIONS)}), float16:float32 and bfloat16:float32"
        )


def _cases_of(name: str, asked: str, dtype: str, size: Size) -> Iterator[Case]:
    """The variants of one size that fit an operation; none where a group's other members do."""
    if name in REDUCTIONS:
        yield from _reductions(name, asked, dtype, size)
        return
    extents = 3 if name == "gemm" else 2
    form = "m x k x n, perhaps with a batch" if name == "gemm" else "rows x columns"
    if len(size.extents) != extents or (size.batch is not None and name != "gemm"):
        raise ArgumentError(f"{'x'.join(map(str, size.extents))} is no size: {name} takes {form}")
    known = _TRANSPOSES[name]
    if size.variant and size.variant not in known:
        raise ArgumentError(f"{name} has no variant {size.variant!r}; there are {', '.join(known)}")
    square = len(set(size.extents)) == 1
    every = known if name == "gemv" or (square and size.batch is None) else known[:1]
    for trans in (size.variant,) if size.variant else every:
        yield Case(name, size.extents, dtype, trans=trans, batch=size.batch)


def _reductions(name: str, asked: str, dtype: str, size: Size) -> Iterator[Case]:
    if size.batch is not None:
        raise ArgumentError(f"{name} takes no batch; give a shape, such as 4096x4096")
    if size.variant:
        axes = [str(axis) for axis in range(len(size.extents))]
        if name != "sum" or size.variant not in axes:
            if asked == name:
                raise ArgumentError(f"{name} has no variant {size.variant!r}; sum has an axis")
            return
        yield Case(name, size.extents, dtype, axis=int(size.variant))
    elif len(size.extents) == 1 or asked == name:
        yield Case(name, (prod(size.extents),) if name != "sum" else size.extents, dtype)
    elif name == "sum":
        yield from (Case(name, size.extents, dtype, axis=i) for i in range(len(size.extents)))


# Extents of gemv and gemm are those of the founding texts and of peers' open issues: tall and
# flat matrices, CLBlast #520 (8 x 3200 x 3200), #333 (400 x 1100000 x 400).
_DEFAULTS = {
    ("reduce", True): "2^20,2^22,2^24,2^26",
    ("reduce", False): "2^24,2^26,2^28,2^30",
    ("axes", True): "4096x4096/0,4096x4096/1",
    ("axes", False): "8192x8192/0,8192x8192/1,2^20x100/0,2^20x100/1",
    ("gemv", True): "16384x16,16384x32,16384x128,4096x4096,64x262144",
    ("gemv", False): "2^20x16,2^20x32,2^20x128,16384x4096,4096x16384,64x2^20",
    ("gemm", True): "512x512x512,1000x1000x1000,1024x1024x1024,2048x2048x2048,3000x3000x3000,"
    "8x3200x3200,4096x64x4096,400x100000x400,1000:32x32x32",
    ("gemm", False): "1024x1024x1024,2048x2048x2048,4096x4096x4096,8192x8192x8192,1000x1000x1000,"
    "3000x3000x3000,5001x5001x5001,8x4096x4096,1x4096x4096,400x1100000x400,1024:64x64x64",
}
_ROOFLINE = {
    ("reduce", True): "2^24",
    ("reduce", False): "2^28",
    ("gemv", True): "16384x32,4096x4096",
    ("gemv", False): "2^20x32,16384x4096",
    ("gemm", True): "1024x1024x1024/NN,2048x2048x2048/NN,8x3200x3200,4096x64x4096,1000:32x32x32",
    (
        "gemm",
        False,
    ): "1024x1024x1024/NN,4096x4096x4096/NN,8x4096x4096,400x1100000x400,1024:64x64x64",
}


def _default_sizes(name: str, asked: str, on_cpu: bool) -> Sequence[Size]:
    family = "reduce" if name in REDUCTIONS else name
    if asked == "roofline":
        return parse_sizes(_ROOFLINE[family, on_cpu])
    sizes = parse_sizes(_DEFAULTS[family, on_cpu])
    if name == "sum" and asked in ("reduce", "all"):
        sizes += parse_sizes(_DEFAULTS["axes", on_cpu])
    return sizes


def _short(extent: int) -> str:
    """``2^20`` for large powers of two."""
    power = extent.bit_length() - 1
    return f"2^{power}" if power > 14 and extent == 1 << power else str(extent)
