"""The record of a family, by which the commands find its operations.

``ops/<family>/commands/family.py`` makes one, and :mod:`portable_gpu.ops.registry` lists it::

    Family ─┬─ operations   OperationRecord  public functions        explain, render, check-isa,
            │                                                        warm-up
            ├─ benchmarks   Benchmark        timed cases             bench
            ├─ tuning       Tuning           problems of policies    tune
            ├─ checks                        checks of results       selftest
            └─ kernels      Compiled         checks of assembly      check-isa

Functions of a record take a :class:`~portable_gpu.ops.case.Case`: one operation on one size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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


def _no_section(case: Case) -> str:
    return ""


def _no_call(case: Case, arrays: Sequence[Any], library: Any) -> Call | None:
    return None


def _as_it_is(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    if variant:
        raise ArgumentError(f"{case.operation} has no variant {variant!r}")
    yield case


#: The variant of a case that is the gradient of its operation.
BACKWARD = "backward"


def forward_or_backward(case: Case, variant: str, _alone: bool) -> Iterator[Case]:
    """The case itself, or the gradient of its operation.

    Raises:
        ArgumentError: It is neither.
    """
    if variant not in ("", BACKWARD):
        raise ArgumentError(f"{case.operation} has no variant {variant!r}; expected {BACKWARD}")
    yield replace(case, trans=variant)


@dataclass(frozen=True)
class Typical:
    """The calls of an operation that ``warm_up`` makes.

    Attributes:
        sizes: The typical sizes.
        options: Gives the options of each call of a size.
        common: Whether ``warm_up()`` without names includes the operation.
        function: The function to call, if it is not the operation's own.
    """

    sizes: tuple[Shape, ...]
    options: Callable[[Shape], list[dict[str, Any]]] = _one_call
    common: bool = False
    function: Callable[..., Any] | None = None


@dataclass(frozen=True)
class OperationRecord:
    """A public function.

    Attributes:
        name: The function's name in ``portable_gpu`` or ``portable_gpu.linalg``.
        function: The function.
        explain: Explains which path a call takes.
        specializations: The kernels that it builds by default; ``None`` if another operation has
            the same ones.
        compiled: The dtypes for which ``check-isa`` compiles the kernels, unless it compiles all.
        extents: The number of extents of a size; ``None`` for any number.
        shapes: Gives the shapes of the stored operands of a case.
        options: Gives the keyword arguments of the function, and of ``explain``, for a case.
        transposes: The options, of one letter each, that transpose an operand.
        exact: Whether results are exact; then there are no cases of complex numbers.
        typical: The calls of ``warm_up``; ``None`` if there are none.
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
    """The sizes for each kind of device; comma lists as ``--sizes`` takes them."""

    cpu: str
    gpu: str

    def of(self, on_cpu: bool) -> str:
        """The sizes for a kind of device."""
        return self.cpu if on_cpu else self.gpu


@dataclass(frozen=True)
class RandomSizes:
    """Random sizes of one kind; ``bench hunt`` has a row for each dtype.

    Attributes:
        name: The name of the kind.
        dtypes: The dtypes of the rows.
        draw: Draws a size from a source of random numbers, for a CPU or not.
    """

    name: str
    dtypes: tuple[str, ...]
    draw: Callable[[random.Random, bool], Size]


@dataclass(frozen=True)
class Contested:
    """An operation for which ``bench dispatch`` compares the library's choice with all variants.

    Attributes:
        draw: Draws a random size, for a CPU or not.
        problem: Gives the problem of a case of contiguous arrays.
        variants: Gives the variants of a problem, for a target and a table.
        nbytes: Gives the bytes of each operand of a case, in the order that plans take them; the
            last operand is the output.
        scalars: The scalars of a call.
        calibrated: The numbers of cases that ``calibrate`` fits to and holds back, by dtype.
        alone: Gives the estimated seconds of a problem on one thread of a CPU and the number of
            its launches, for the engine of the calling thread; ``None`` if calls choose threads by
            bytes and flop.
    """

    draw: Callable[[random.Random, bool], Size]
    problem: Callable[[Case], Any]
    variants: Callable[..., list[Variant]]
    nbytes: Callable[[Case], tuple[int, ...]]
    scalars: tuple[float, ...]
    calibrated: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    alone: Callable[[Any, Engine], tuple[float, int]] | None = None


@dataclass(frozen=True)
class Benchmark:
    """The timed cases of an operation.

    Attributes:
        sizes: The default sizes.
        flop: Gives the floating-point operations of a case; comparisons count as such.
        bytes: Gives the least traffic of a case, in which each operand is moved once.
        oracle: Gives the function that computes the error of a result, for a case and its
            operands.
        form: The description of a size in error messages.
        label: The description of a size in pictures.
        operands: Makes the operands from random arrays, uniform in [-1, 1), which it does not
            change.
        like_numpy: Gives the call in a library with NumPy's names (NumPy, PyTorch, CuPy) for a
            case, its operands and the library; ``None`` if the library lacks the operation.
        by_flop: Whether the rate is given in flop/s instead of bytes/s.
        more_sizes: Further sizes for timings of the whole family.
        roofline: The sizes for the roofline picture; ``None`` if the operation is not in it, like
            most layers, whose points are all at the slope of the memory.
        layers: The sizes of ``bench layers``, which times layers of neural networks of all
            families; ``None`` if the operation is no such layer.
        named: For each name that stands for several sizes, the function that gives them.  It takes
            the size with the name, whose batch and variant they have.
        section: Gives the words that tell a case from other cases of the operation in the summary,
            such as a layout; cases with the same words have one mean.
        variants: Gives the cases of a size.  It takes the case, the text after the slash of the
            size, and whether the command names the operation itself.  It gives none if only other
            operations of the command have such a variant.
        batched: Whether a size may have a batch.
        manners: The texts that may follow a dtype after a colon; see :attr:`Case.manner`.
        call: Gives our call for a case, on NumPy arrays or not; by default the operation's
            function with its options.
        on_matrix_units: Whether the roof of matrix units applies.
        ladders: Gives the ladders of the operation on an engine's device (``bench --ladder``).
        random: The kinds of random sizes of ``bench hunt``.
        contested: The comparison of ``bench dispatch``.
    """

    sizes: Sizes
    flop: Callable[[Case], int]
    bytes: Callable[[Case], int]
    oracle: Callable[[Case, Operands], Oracle]
    form: str
    label: str
    operands: Callable[[Case, Operands], Operands] = _as_they_are
    like_numpy: Callable[[Case, Sequence[Any], Any], Call | None] = _no_call
    by_flop: bool = False
    more_sizes: Sizes | None = None
    roofline: Sizes | None = None
    layers: Sizes | None = None
    named: Mapping[str, Callable[[Size], Sequence[Size]]] = field(default_factory=dict)
    section: Callable[[Case], str] = _no_section
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
    """The problems on which the tuner measures and checks a family's policies.

    Attributes:
        operation: The operation that is timed.
        shapes: The sizes that are measured: large and small problems of each kind that has its own
            rows in the table.
        grid: Further problems, by operation.  A new policy must not be slower on any of them,
            because a row is also used for shapes that were not measured.
        edge_checks: Gives the checks that a policy must pass: sizes at the edges of its tile
            (:meth:`Policy.edges`), for a dtype and the problems that the policy is for.
    """

    operation: str
    shapes: Sizes
    grid: Mapping[str, Sizes]
    edge_checks: Callable[[tuple[int, int, int], np.dtype[Any], Sequence[Case]], Iterator[Check]]


@dataclass(frozen=True)
class Compiled:
    """The requirements of ``check-isa`` on a kernel's assembly that not all kernels have.

    Attributes:
        shown: The operation for which the documentation shows the kernel; empty if it does not.
        folds: Whether lanes combine values, for which they must use the target's exchange.
        matrix: Whether the inner loop must have matrix instructions.
        fma_share: Gives, for a policy, the smallest share of multiply-adds among the vector and
            local memory instructions of the inner loop.
        strided: Whether the loops only go over memory, with addresses computed from strides.
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
        name: The name of the folder; kernels in tuning tables have it as a prefix.
        operations: The public functions.
        checks: Gives the checks of selftest for the dtypes that the device has.
        benchmarks: The timed cases, by operation.  On the command line the family's name stands
            for all operations, unless one of them has that name.
        tuning: The problems of the tuner; ``None`` if the family has no policies.
        kernels: The requirements on the assembly, by template.
    """

    name: str
    operations: tuple[OperationRecord, ...]
    checks: Callable[[Sequence[np.dtype[Any]]], Iterator[Check]]
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)
    tuning: Tuning | None = None
    kernels: Mapping[str, Compiled] = field(default_factory=dict)
