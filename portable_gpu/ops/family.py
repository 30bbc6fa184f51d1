"""The record of a family: all that the commands have to know of its operations.

``ops/<family>/family.py`` makes one, and :mod:`portable_gpu.ops.registry` lists it::

    Family ─┬─ operations   OperationRecord  what it computes        explain, render, check-isa,
            │                                                        warm-up
            ├─ benchmarks   Benchmark        what is timed           bench
            ├─ tuning       Tuning           what a policy must do   tune
            ├─ checks                        what it must give       selftest
            └─ kernels      Compiled         what its text must be   check-isa

Functions of a record take a :class:`~portable_gpu.ops.case.Case`: one operation on one size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from portable_gpu.checking.check import Check
from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.explanation import Explainer
from portable_gpu.ops.ladder import Ladder
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case
    from portable_gpu.ops.variant import Variant

Call: TypeAlias = Callable[[], Any]
#: The specializations that an operation would build by default for a target and a dtype.
Build: TypeAlias = Callable[[Target, np.dtype[Any]], list[Specialization]]
#: The dtypes in which ``check-isa`` compiles the operations that stand for their family.
USUAL_DTYPES = ("float32", "float64", "float16", "complex64", "int8")


def _one_operand(case: Case) -> tuple[Shape, ...]:
    return (case.extents,)


def _no_options(case: Case) -> dict[str, Any]:
    return {}


def _one_call(extents: Shape) -> list[dict[str, Any]]:
    return [{}]


def _as_they_are(case: Case, inputs: Operands) -> Operands:
    return inputs


def _no_call(case: Case, arrays: Sequence[Any], library: Any) -> Call | None:
    return None


def _as_it_is(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    if variant:
        raise ArgumentError(f"{case.operation} has no variant {variant!r}")
    yield case


@dataclass(frozen=True)
class Typical:
    """What ``warm_up`` builds of an operation.

    Attributes:
        sizes: Typical ones.
        options: The calls to make with a size, by the options of each.
        common: Whether it is built where no operation is named.
        function: What is called, if not the operation's own function.
    """

    sizes: tuple[Shape, ...]
    options: Callable[[Shape], list[dict[str, Any]]] = _one_call
    common: bool = False
    function: Callable[..., Any] | None = None


@dataclass(frozen=True)
class OperationRecord:
    """A public function.

    Attributes:
        name: As it is called in ``portable_gpu``, or in ``portable_gpu.linalg``.
        function: The function.
        explain: Says which path a call takes, and why.
        specializations: What it builds by default; ``None`` where that is another one's.
        compiled: The dtypes in which ``check-isa`` compiles that, unless all are asked for.
        extents: How many numbers a size has; ``None`` for any.
        shapes: Shapes of the operands of a case, as stored.
        options: What the function, and its explanation, take for a case by keyword.
        transposes: The options that say whether an operand is transposed, a letter each.
        exact: Whether results are exact; complex numbers are then not taken.
        typical: What ``warm_up`` builds; ``None`` where nothing is typical.
    """

    name: str
    function: Callable[..., Any]
    explain: Explainer
    specializations: Build | None = None
    compiled: tuple[str, ...] = ("float32",)
    extents: int | None = None
    shapes: Callable[[Case], tuple[Shape, ...]] = _one_operand
    options: Callable[[Case], dict[str, Any]] = _no_options
    transposes: tuple[str, ...] = ()
    exact: bool = False
    typical: Typical | None = None


@dataclass(frozen=True)
class Sizes:
    """Comma lists as ``--sizes`` takes them, by kind of device."""

    cpu: str
    gpu: str

    def of(self, on_cpu: bool) -> str:
        """Those of a kind of device."""
        return self.cpu if on_cpu else self.gpu


@dataclass(frozen=True)
class RandomSizes:
    """Sizes of one kind, at random: ``bench hunt`` has a row of them for each dtype.

    Attributes:
        name: Of the kind.
        dtypes: Of the rows.
        draw: One size, given a source of random numbers, and whether it is for a CPU.
    """

    name: str
    dtypes: tuple[str, ...]
    draw: Callable[[random.Random, bool], Size]


@dataclass(frozen=True)
class Contested:
    """An operation whose choices ``bench dispatch`` times against every way by hand.

    Attributes:
        draw: A random size, for a CPU or not.
        problem: Of a case, of contiguous arrays.
        variants: Of a problem, a target and a table.
        nbytes: Of the operands of a case; all but the last one are inputs.
        scalars: Of a call.
    """

    draw: Callable[[random.Random, bool], Size]
    problem: Callable[[Case], Any]
    variants: Callable[..., list[Variant]]
    nbytes: Callable[[Case], tuple[int, ...]]
    scalars: tuple[float, ...]


@dataclass(frozen=True)
class Benchmark:
    """How an operation is timed.

    Attributes:
        sizes: What is timed unless sizes are named.
        roofline: The same for the picture of the roofline.
        flop: Floating-point operations of a case; comparisons count as such.
        bytes: The least traffic of a case: every operand moved once.
        oracle: Given a case and its operands, finds the error of a result.
        form: How errors describe a size.
        label: How pictures do.
        operands: What is made of random operands, uniform in [-1, 1), before they are used; they
            stay as they are.
        like_numpy: The same call in a library of NumPy's names (NumPy, PyTorch, CuPy), given a
            case, its operands and the library; ``None`` where that has none.
        by_flop: Whether its rate is told in flop, not in bytes.
        more_sizes: Further ones where the whole family is timed.
        variants: The cases of a size, given what follows its slash and whether the operation was
            asked for by its own name; none where only others of the family have such a variant.
        batched: Whether a size may have a batch.
        manners: By dtype, what may follow it after a colon: see :attr:`Case.manner`.
        call: Our call, given a case and whether arrays are NumPy's; by default the operation's
            function with its options.
        on_matrix_units: Whether the roof of matrix units is above it.
        ladders: The ladders that lead to it on an engine's device (``bench --ladder``).
        random: What ``bench hunt`` draws, a kind each.
        contested: What ``bench dispatch`` times.
    """

    sizes: Sizes
    roofline: Sizes
    flop: Callable[[Case], int]
    bytes: Callable[[Case], int]
    oracle: Callable[[Case, Operands], Oracle]
    form: str
    label: str
    operands: Callable[[Case, Operands], Operands] = _as_they_are
    like_numpy: Callable[[Case, Sequence[Any], Any], Call | None] = _no_call
    by_flop: bool = False
    more_sizes: Sizes | None = None
    variants: Callable[[Case, str, bool], Iterator[Case]] = _as_it_is
    batched: bool = False
    manners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    call: Callable[[Case, bool], PublicCall] | None = None
    on_matrix_units: bool = False
    ladders: Callable[[Engine], list[Ladder]] | None = None
    random: tuple[RandomSizes, ...] = ()
    contested: Contested | None = None


@dataclass(frozen=True)
class Tuning:
    """What the tuner does for a family's policies.

    Attributes:
        operation: What is timed.
        shapes: Every kind of problem that has rows of its own, large and small.
        grid: By operation, other problems, on none of which a winner may be slower: rows serve
            shapes that nobody raced.
        edge_checks: What a policy must get right: checks at the edges of its tile
            (:meth:`Policy.edges`) in a dtype, given the problems that it is for.
    """

    operation: str
    shapes: Sizes
    grid: Mapping[str, Sizes]
    edge_checks: Callable[[tuple[int, int, int], np.dtype[Any], Sequence[Case]], Iterator[Check]]


@dataclass(frozen=True)
class Compiled:
    """What ``check-isa`` asks of a kernel's assembly, beside what it asks of every kernel's.

    Attributes:
        shown: The operation for which the documentation shows the kernel; empty if it does not.
        folds: Whether lanes fold values, and so exchange them as the target says.
        matrix: Whether the inner loop has matrix instructions.
        fma_share: Of an inner loop of multiply-adds, their least share among its vector and local
            memory instructions for a policy.
        strided: Whether its loops go over memory alone, and multiply places by strides.
    """

    shown: str = ""
    folds: bool = False
    matrix: bool = False
    fma_share: Callable[[Policy | None], float] | None = None
    strided: bool = False


@dataclass(frozen=True)
class Family:
    """A folder of kernels, and the public functions that they compute.

    Attributes:
        name: The folder's, which names of kernels in tuning tables begin with.
        operations: The public functions.
        checks: What selftest runs, given the dtypes that the device has.
        benchmarks: What is timed, by operation; the family's name stands for all of them, unless it
            is one of them.
        tuning: Of its policies; ``None`` where it has none.
        kernels: What compiled kernels are held to, by template.
    """

    name: str
    operations: tuple[OperationRecord, ...]
    checks: Callable[[Sequence[np.dtype[Any]]], Iterator[Check]]
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)
    tuning: Tuning | None = None
    kernels: Mapping[str, Compiled] = field(default_factory=dict)
