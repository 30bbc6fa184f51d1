"""Epilogues: operations on each element of a matrix product before it is stored.

A user builds an :class:`Epilogue` of stages and of the arrays that they read.  A :class:`Stage`
has the C expression of one step.  A kernel's text depends only on the stages; the arrays are bound
at launch.  ``cl_kernels/common/epilogue.cl.mako`` applies the stages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args

from portable_gpu.arguments import of_kind, one_of
from portable_gpu.codegen import axes
from portable_gpu.codegen.expression import check_expression, check_label, check_name
from portable_gpu.codegen.parameters import Parameter, operand, scalars
from portable_gpu.codegen.syntax import NoTree, parsed
from portable_gpu.codegen.terms import Helper, Terms
from portable_gpu.dtypes import Element
from portable_gpu.errors import ArgumentError, ArgumentTypeError, DTypeError

# Names that the kernel's text around an expression uses.
_TAKEN = re.compile(r"v|row|col|e\d*(_\w+)?|R|MUL|MAD|UPDATED|RESULT|EPILOGUE|scaled|\w+_t")
Domain = Literal["any", "real", "floating"]
Spread = Literal["row", "column", "matrix"]
_SPREADS: tuple[str, ...] = get_args(Spread)


@dataclass(frozen=True)
class Stage:
    """One step, ``v = expression``.

    Attributes:
        name: The name of the step in messages and comments.
        expression: A C expression of ``v`` (the value so far), ``row``, ``col`` (``long``), and
            ``e`` if the stage has an operand.  ``R(0.5)`` is a literal of the type computed in;
            ``MUL(x, y)`` is a product, complex if the value is complex.  Without these two, an
            expression of real numbers may use what that of ``elementwise`` may, but ``//``.
        spread: How the operand spreads over C: one element per ``row``, per ``column``, or a
            ``matrix``; ``None`` without one.
        domain: The kind of values that the expression is defined for.
        operands: The names of the operands, if the stage has several; each is spread as a matrix.
            A single operand is named ``e``.

    Raises:
        ArgumentTypeError, ArgumentError: ``expression`` is not an expression, ``name`` is not one
            line of text, ``spread`` or ``domain`` is unknown, or an operand's name means something
            else.
    """

    name: str
    expression: str
    spread: Spread | None = None
    domain: Domain = "any"
    operands: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_label(self.name, "name")
        check_expression(self.expression, "expression")
        if self.spread is not None:
            one_of(self.spread, _SPREADS, "per")
        one_of(self.domain, get_args(Domain), "domain")
        for name in of_kind(self.operands, tuple, "operands"):
            if _TAKEN.fullmatch(check_name(name, "the name of an array")):
                raise ArgumentError(
                    f"the name of an array is {name!r}, which means something else in an "
                    f"epilogue; expected another, such as {name}_array"
                )

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the operands in the expression."""
        return self.operands or (("e",) if self.spread else ())

    def written(self, compute: Element) -> tuple[str, tuple[Helper, ...]]:
        """The expression in C for values of ``compute``, and the functions that it calls.

        An expression of real numbers is translated as ``elementwise`` translates it.  It is taken
        unchanged as C text if it has ``R``, ``MUL`` or syntax that only C has, and if the values
        are complex or bool.
        """
        if compute.complex or compute.boolean:
            return self.expression, ()
        floating = compute.real if compute.floating else "float"
        names, places = frozenset(("v", *self.reads)), {"row": "long", "col": "long"}
        terms = Terms(names, compute.real, 1, floating, cuts=not compute.floating, others=places)
        try:
            tree = parsed(self.expression)
            if tree is None:
                return self.expression, ()
            return terms.as_result(terms.term(tree), compute.real), tuple(terms.helpers)
        except (NoTree, ArgumentError):  # the compiler reports errors in the text
            return self.expression, ()

    def check(self, compute: Element) -> None:
        """Raise DTypeError if the stage is not defined on values of ``compute``."""
        fits = {
            "any": True,
            "real": not compute.complex,
            "floating": compute.floating and not compute.complex,
        }
        if not fits[self.domain]:
            raise DTypeError(
                f"epilogue stage {self.name} takes {self.domain} values; "
                f"the product is computed in {compute.value}"
            )


#: Makes a stage of the library, or returns it again: its checks cost more than a small call.
_known_stage = lru_cache(maxsize=64)(Stage)


class Reader(Protocol):
    """The map from an index over several axes to a place in the array of a stage."""

    @property
    def rank(self) -> int: ...  # noqa: D102  # see ops/gemm/reader.py

    def parameters(self, name: str) -> list[Parameter]: ...  # noqa: D102


class Placed(Protocol):
    """The layout of a stage's array: element type, and strides along the rows and columns of C.

    If it has a reader, the rows run over several axes, and ``row`` is not read.
    """

    @property
    def elem(self) -> Element: ...  # noqa: D102  # see the class

    @property
    def row(self) -> int: ...  # noqa: D102

    @property
    def col(self) -> int: ...  # noqa: D102

    @property
    def reader(self) -> Reader | None: ...  # noqa: D102


@dataclass(frozen=True)
class Finish:
    """The epilogue of a kernel that has no GemmProblem.

    It has those attributes of a GemmProblem that the templates of epilogues read.

    Attributes:
        compute: The element type of the values.
        epilogue: The stages; at least one.
        extras: The layouts of the stages' arrays, in order.
        transposed: Whether the kernel's rows are C's columns.
        batch: The extents of the batch axes; always empty.
    """

    compute: Element
    epilogue: tuple[Stage, ...]
    extras: tuple[Placed, ...]
    transposed: bool = False
    batch: tuple[int, ...] = ()


def stored_operands(extras: Sequence[Placed], rank: int = 0) -> list[Parameter]:
    """The kernel parameters of the stages' arrays ``e0``, ``e1`` ..., with ``rank`` batch axes."""
    result = []
    for k, extra in enumerate(extras):
        batch = [f"e{k}_batch{axis}" for axis in range(rank)]
        result += operand(f"{extra.elem.name}_t", f"e{k}")
        for name, ctype in strides_of(f"e{k}", extra).items():
            result += scalars(ctype, name)
        result += scalars("long", *batch)
    return result


def strides_of(name: str, extra: Placed) -> dict[str, str]:
    """Return the C types of the strides and extents that place an element of an array, by names."""
    if extra.reader is None:
        return {f"{name}_row": "long", f"{name}_col": "long"}
    return {parameter.name: parameter.ctype for parameter in extra.reader.parameters(name)}


def offset_of(name: str, extra: Placed) -> str:
    """Return the C expression of the offset of an array's element at (row, col)."""
    if extra.reader is None:
        return f"row * {name}_row + col * {name}_col"
    places = axes.digits(f"{name}_axis", extra.reader.rank, "(int)row")
    return f"{axes.offset('axis', name, places)} + col * {name}_col"


@dataclass(frozen=True, eq=False)
class Epilogue:
    """Stages applied in order to each element of ``alpha * A @ B + beta * C``.

    Start from an empty one and chain: ``Epilogue().bias(b).gelu()``.  An Epilogue never changes;
    every method returns a new one.  Arrays may have leading batch axes and broadcast to C.

    Attributes:
        stages: The steps.
        arrays: The operands of the stages, in order.
    """

    stages: tuple[Stage, ...] = ()
    arrays: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        expected = "a tuple; start from Epilogue() and chain, which"
        for stage in of_kind(self.stages, tuple, "stages", expected):
            of_kind(stage, Stage, "an element of stages")
        reads = sum(len(stage.reads) for stage in self.stages)
        if len(of_kind(self.arrays, tuple, "arrays", expected)) != reads:
            raise ArgumentError(f"the stages read {reads} arrays, and there are {len(self.arrays)}")

    def __repr__(self) -> str:
        steps = "; ".join(f"{stage.name}: {stage.expression}" for stage in self.stages)
        return f"<Epilogue {steps or 'of no stages'}>"

    def bias(self, array: Any, per: Spread = "column") -> Epilogue:
        """``v + array``, one element per column of C (shape (..., n)) or per row ((..., m))."""
        return self._reads("v + e", array, per, "bias")

    def scale(self, array: Any, per: Spread = "column") -> Epilogue:
        """``v * array``, one element per column (shape (..., n)) or per row ((..., m))."""
        return self._reads("MUL(v, e)", array, per, "scale")

    def add(self, array: Any) -> Epilogue:
        """``v + array``: a residual that broadcasts to C's shape."""
        return self._reads("v + e", array, "matrix", "residual add")

    def relu(self) -> Epilogue:
        """``max(v, 0)``; NaN stays NaN."""
        return self._then(_known_stage("relu", "v < 0 ? 0 : v", domain="real"))

    def gelu(self) -> Epilogue:
        """``v * Phi(v)`` by the error function (Hendrycks & Gimpel, arXiv:1606.08415)."""
        expression = "R(0.5) * v * erfc(v * -R(0.70710678118654752440))"
        return self._then(_known_stage("gelu", expression, domain="floating"))

    def gelu_tanh(self) -> Epilogue:
        """The tanh approximation of :meth:`gelu` (same source)."""
        inner = "R(0.79788456080286535588) * (v + R(0.044715) * v * v * v)"
        expression = f"R(0.5) * v * (R(1.0) + tanh({inner}))"
        return self._then(_known_stage("gelu_tanh", expression, domain="floating"))

    def sigmoid(self) -> Epilogue:
        """``1 / (1 + exp(-v))``."""
        expression = "R(1.0) / (R(1.0) + exp(-v))"
        return self._then(_known_stage("sigmoid", expression, domain="floating"))

    def tanh(self) -> Epilogue:
        """``tanh(v)``."""
        return self._then(_known_stage("tanh", "tanh(v)", domain="floating"))

    def apply(
        self,
        expression: str,
        array: Any = None,
        per: Spread = "matrix",
        *,
        name: str = "user's own",
        **arrays: Any,
    ) -> Epilogue:
        """A step of your own: an expression of ``v``, ``row``, ``col`` and arrays.

        ``Epilogue().apply("v > 6 ? 6 : v")``.  An array is ``e``; several have the names by which
        they are given, and broadcast to C as in NumPy:
        ``Epilogue().apply("(v - mean) * scale", mean=mean, scale=scale)``.  See :class:`Stage` for
        what else the expression may use.

        Raises:
            ArgumentTypeError, ArgumentError: As :class:`Stage`; ``array`` and ``arrays`` are both
                given.
        """
        one_of(per, _SPREADS, "per")
        if arrays:
            if array is not None:
                raise ArgumentError("array is given beside arrays by name; give all by name")
            for key, value in arrays.items():
                if value is None:
                    raise ArgumentTypeError(f"{key} is None; expected an array")
            stage = Stage(name, expression, "matrix", operands=tuple(arrays))
            return self._then(stage, *arrays.values())
        if array is None:
            return self._then(Stage(name, expression))
        return self._then(Stage(name, expression, per), array)

    def _reads(self, expression: str, array: Any, per: Spread, what: str) -> Epilogue:
        if array is None:
            raise ArgumentTypeError(f"{what}: array is None; expected an array")
        one_of(per, _SPREADS, "per")
        name = what if per == "matrix" else f"{what} per {per}"
        return self._then(_known_stage(name, expression, per), array)

    def _then(self, stage: Stage, *arrays: Any) -> Epilogue:
        """Append a stage and the arrays that it reads, whose number fits."""
        following = object.__new__(Epilogue)
        following.__dict__.update(stages=(*self.stages, stage), arrays=(*self.arrays, *arrays))
        return following
