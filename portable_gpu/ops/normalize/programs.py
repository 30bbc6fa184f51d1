"""The programs of kernels of rows: a statistic over each row, then a map over the row.

A :class:`RowProgram` is the C text of one function.  Kernels apply it to vectors of elements of a
row or, on CPUs, of neighbouring rows; all operators and built-ins in the texts apply to scalars and
to vectors.  In a text, ``TYPE`` is the type of such a vector and ``ROW`` that of a row's values;
``COUNT`` is the number of elements of a row.  A row that stays in registers or in a cache is folded
in several phases, each of which knows the results of those before; a row that is read from memory
for each fold has one phase, ``stream``, whose accumulators are rescaled or moved as it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from portable_gpu.codegen.operators import Accumulator, Field, vector

#: The C names of one vector of each input that is read by elements.
Values = Mapping[str, str]
_LEAST = {"float": "-FLT_MAX", "double": "-DBL_MAX"}


@dataclass(frozen=True)
class Phase:
    """One fold over the row.

    Attributes:
        fields: The accumulators and their neutral elements.
        step: Gives statements that fold some vectors of values into the accumulator ``s``.
        combine: Statements that fold the accumulator ``b`` into ``a``; of type ``TYPE``.
        finish: Statements that declare values of the row, of type ``ROW``, from ``s``.
    """

    fields: tuple[tuple[str, str], ...]
    step: Callable[[Sequence[Values]], str]
    combine: str
    finish: str

    def accumulator(self, name: str, real: str) -> Accumulator:
        """The accumulator as C: one field for each of ``fields``."""
        fields = tuple(Field(f, real, i.replace("LEAST", _LEAST[real])) for f, i in self.fields)
        return Accumulator(
            name, fields, lambda width: self.combine.replace("TYPE", vector(real, width))
        )


@dataclass(frozen=True)
class RowProgram:
    """One function of rows.

    Attributes:
        name: The name of the function.
        inputs: The inputs with a value for each element (or broadcast along some axes).
        row_inputs: The inputs with a value for each row.
        index: The input with the number of an element of each row, if there is one.
        tables: The inputs with a value for each element of which ``picks`` alone are read.
        scalars, integers: The names of the numbers.
        phases: The folds of a row that is kept.
        stream: The fold of a row that is read anew for the map.
        outputs: The results with a value for each element: their expressions.
        row_outputs: The results with a value for each row.
        updated: The row outputs whose old value is read, as ``old_`` and the name.
        picks: The inputs of which ``at_`` and the name is the element that the index names.  Where
            there is an index, ``counts`` is 1 if it is an element and not ``ignore``, else 0.
        before: Statements before the first phase.
    """

    name: str
    inputs: tuple[str, ...]
    phases: tuple[Phase, ...] = ()
    stream: Phase | None = None
    outputs: tuple[tuple[str, str], ...] = ()
    row_inputs: tuple[str, ...] = ()
    index: str = ""
    scalars: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    row_outputs: tuple[tuple[str, str], ...] = ()
    updated: tuple[str, ...] = ()
    picks: tuple[str, ...] = ()
    before: str = ""

    @property
    def element_names(self) -> tuple[str, ...]:
        """The operands with strides along the row."""
        return (*self.inputs, *(name for name, _ in self.outputs), *self.tables)

    @property
    def row_names(self) -> tuple[str, ...]:
        """The operands with one value for a row."""
        index = (self.index,) if self.index else ()
        return (*self.row_inputs, *index, *(name for name, _ in self.row_outputs))

    @property
    def operands(self) -> tuple[str, ...]:
        """All operands, in the order of the plan: inputs, results."""
        outputs = (*self.outputs, *self.row_outputs)
        index = (self.index,) if self.index else ()
        return (
            *self.inputs,
            *self.tables,
            *self.row_inputs,
            *index,
            *(name for name, _ in outputs),
        )


def sums(finish: str, **terms: str) -> Phase:
    """Sums of expressions of the values of one element."""

    def step(values: Sequence[Values]) -> str:
        return " ".join(f"s.{f} += {t.format(**v)};" for v in values for f, t in terms.items())

    combine = " ".join(f"a.{name} += b.{name};" for name in terms)
    return Phase(tuple((name, "0") for name in terms), step, combine, finish)


# -- softmax


def _largest(values: Sequence[Values]) -> str:
    return " ".join(f"s.m = fmax(s.m, {v['x']});" for v in values)


_MAXIMUM = Phase((("m", "LEAST"),), _largest, "a.m = fmax(a.m, b.m);", "const ROW m = s.m;")


def online(finish: str, **terms: str) -> Phase:
    """The maximum of x, the sum z of exp(x - maximum), and further sums.

    The sum is rescaled where the maximum grows.  Of minus infinity alone, the maximum is the least
    finite number, and the sum 0.
    """

    def step(values: Sequence[Values]) -> str:
        largest = "s.m"
        for v in values:
            largest = f"fmax({largest}, {v['x']})"
        powers = " + ".join(f"exp({v['x']} - c)" for v in values)
        more = " ".join(f"s.{f} += {t.format(**v)};" for v in values for f, t in terms.items())
        moved = f"s.z = s.z * exp(s.m - c) + ({powers}); s.m = c;"
        return f"{{ const TYPE c = {largest}; {moved} }} {more}"

    combine = (
        "{ const TYPE c = fmax(a.m, b.m); a.z = a.z * exp(a.m - c) + b.z * exp(b.m - c); a.m = c; }"
    )
    more = " ".join(f"a.{name} += b.{name};" for name in terms)
    fields = (("m", "LEAST"), ("z", "0"), *((name, "0") for name in terms))
    declared = f"const ROW m = s.m; {finish}"
    return Phase(fields, step, f"{combine} {more}", declared)


def _softmax(is_log: bool) -> RowProgram:
    finish = "const ROW scale = log(s.z);" if is_log else "const ROW scale = 1 / s.z;"
    result = "{x} - m - scale" if is_log else "exp({x} - m) * scale"
    powers = sums(finish, z="exp({x} - m)")
    return RowProgram(
        "log_softmax" if is_log else "softmax",
        ("x",),
        (_MAXIMUM, powers),
        online(finish),
        (("y", result),),
    )


def _softmax_backward(is_log: bool) -> RowProgram:
    term, result = ("{dy}", "{dy} - exp({y}) * d") if is_log else ("{dy} * {y}", "{y} * ({dy} - d)")
    phase = sums("const ROW d = s.d;", d=term)
    name = "log_softmax_backward" if is_log else "softmax_backward"
    return RowProgram(name, ("dy", "y"), (phase,), phase, (("dx", result),))


# -- normalisation

_SCALE = "const ROW rstd = 1 / sqrt(variance + eps);"
_CENTRE = "({x} - mean)"


def _moments() -> Phase:
    """The mean and the sum of squares about it, of lanes that are merged (Chan et al., 1983)."""

    def step(values: Sequence[Values]) -> str:
        k, total = len(values), " + ".join(v["x"] for v in values)
        squares = " + ".join(f"({v['x']} - centre) * ({v['x']} - centre)" for v in values)
        return (
            f"{{ const TYPE centre = ({total}) / {k}, apart = centre - s.mu; s.c += {k}; "
            f"const TYPE part = {k} / s.c; s.mu += apart * part; "
            f"s.q += {squares} + apart * apart * ({k} - {k} * part); }}"
        )

    combine = (
        "{ const TYPE c = a.c + b.c, part = b.c / fmax(c, (TYPE)(1)), apart = b.mu - a.mu; "
        "a.mu += apart * part; a.q += b.q + apart * apart * (a.c * part); a.c = c; }"
    )
    finish = f"const ROW mean = s.mu, variance = s.q / COUNT; {_SCALE}"
    return Phase((("c", "0"), ("mu", "0"), ("q", "0")), step, combine, finish)


def _affine(value: str, flags: frozenset[str]) -> str:
    """The weight and the bias: elements (w, b) or one of each row (row_w, row_b)."""
    for name, plus in (("w", " * "), ("row_w", " * "), ("b", " + "), ("row_b", " + ")):
        if name in flags:
            value += plus + (name if name.startswith("row") else f"{{{name}}}")
    return value


def _named(names: Sequence[str], flags: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in flags)


def _norm(flags: frozenset[str]) -> RowProgram:
    """With ``rms``, of the root mean square; ``stats`` and ``running`` are further results."""
    squares = f"const ROW variance = s.q / COUNT; {_SCALE}"
    phases: tuple[Phase, ...] = (sums(squares, q="{x} * {x}"),)
    stream, centred, stats = phases[0], "{x}", [("rstd", "rstd")]
    if "rms" not in flags:
        means = sums("const ROW mean = s.t / COUNT;", t="{x}")
        phases = (means, sums(squares, q=f"{_CENTRE} * {_CENTRE}"))
        stream, centred, stats = _moments(), _CENTRE, [("mean", "mean"), *stats]
    running = [
        ("running_mean", "old_running_mean + momentum * (mean - old_running_mean)"),
        (
            "running_var",
            "old_running_var + momentum * (variance * (COUNT / (COUNT - 1)) - old_running_var)",
        ),
    ]
    updated = running if "running" in flags else []
    return RowProgram(
        "norm",
        ("x", *_named(("w", "b"), flags)),
        phases,
        stream,
        (("y", _affine(f"{centred} * rstd", flags)),),
        _named(("row_w", "row_b"), flags),
        scalars=("eps", "momentum") if updated else ("eps",),
        row_outputs=(*(stats if "stats" in flags else ()), *updated),
        updated=tuple(name for name, _ in updated),
    )


def _norm_backward(flags: frozenset[str]) -> RowProgram:
    """With ``fixed``, of statistics that do not depend on x; ``dw`` and ``db`` are results."""
    grad = "({dy} * {w})" if "w" in flags else "{dy}"
    centred = "{x}" if "rms" in flags else _CENTRE
    terms = {"b": f"{grad} * {centred}"} | ({} if "rms" in flags else {"a": grad})
    finish = "const ROW slope = s.b * rstd * rstd / COUNT;"
    result = f"{grad} - {centred} * slope"
    if "rms" not in flags:
        finish += " const ROW shift = s.a / COUNT;"
        result += " - shift"
    if "fixed" in flags:
        finish, result = "", grad
    factor = "rstd * row_w" if "row_w" in flags else "rstd"
    phase = sums(finish, **terms)
    rows = (("dw", "s.b * rstd"), ("db", "s.a"))
    return RowProgram(
        "norm_backward",
        ("dy", "x", *_named(("w",), flags)),
        (phase,),
        phase,
        (("dx", f"{factor} * ({result})"),),
        (*(() if "rms" in flags else ("mean",)), "rstd", *_named(("row_w",), flags)),
        row_outputs=tuple(item for item in rows if item[0] in flags),
    )


def _affine_backward(flags: frozenset[str]) -> RowProgram:
    """The gradients of weight and bias; a row is what one element of them was applied to."""
    centred = "{x}" if "rms" in flags else "({x} - {mean})"
    terms = {"dw": f"{{dy}} * {centred} * {{rstd}}", "db": "{dy}"}
    names = _named(("dw", "db"), flags)
    phase = sums("", **{name: terms[name] for name in names})
    means = () if "rms" in flags else ("mean",)
    return RowProgram(
        "affine_backward",
        ("dy", "x", *means, "rstd"),
        (phase,),
        phase,
        row_outputs=tuple((name, f"s.{name}") for name in names),
    )


# -- losses

_FRACTION = "({p} * (1 - smoothing) + smoothing / COUNT)"


def _where(value: str) -> str:
    """A value of rows whose index counts; 0 of others."""
    return f"(counts > (ROW)(0) ? ({value}) : (ROW)(0))"


def _entropy_phases(
    flags: frozenset[str], finish: str = "const ROW least = log(s.z);"
) -> tuple[tuple[Phase, ...], Phase]:
    """The sum of exp(x), of which ``finish`` makes the rows' value, and sums over the classes."""
    terms: dict[str, str] = {}
    weighted = "{w} * " if "w" in flags else ""
    if "probabilities" in flags:
        terms = {"u": weighted + _FRACTION, "v": f"{weighted}{_FRACTION} * {{x}}"}
    elif "smooth" in flags:
        terms = {"u": "{w}" if "w" in flags else "1", "v": f"{weighted}{{x}}"}
    finish += "".join(f" const ROW {name} = s.{name};" for name in terms)
    powers = sums(finish, z="exp({x} - m)", **terms)
    return (_MAXIMUM, powers), online(finish, **terms)


def _entropy_operands(flags: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The operands of a cross entropy but its results."""
    if "probabilities" in flags:
        return {"inputs": ("x", "p", *_named(("w",), flags)), "scalars": ("smoothing",)}
    is_smooth, weights = "smooth" in flags, _named(("w",), flags)
    return {
        "inputs": ("x", *weights) if is_smooth else ("x",),
        "tables": () if is_smooth else weights,
        "scalars": ("smoothing",) if is_smooth else (),
        "integers": ("ignore",),
        "picks": ("x", *weights),
    }


def _entropy(flags: frozenset[str]) -> RowProgram:
    """The loss of each row, and its weight in a mean."""
    phases, stream = _entropy_phases(flags)
    operands = _entropy_operands(flags)
    if "probabilities" in flags:
        only = (("loss", "(m + least) * u - v"),)
        return RowProgram("entropy", phases=phases, stream=stream, row_outputs=only, **operands)  # type: ignore[arg-type]
    weight = "at_w" if "w" in flags else "(ROW)(1)"
    loss = f"{weight} * (least - (at_x - m))"
    if "smooth" in flags:
        loss = f"(1 - smoothing) * {loss} + smoothing / COUNT * ((m + least) * u - v)"
    rows = (("loss", _where(loss)), ("weight", _where(weight)))
    return RowProgram(
        "entropy",
        phases=phases,
        stream=stream,
        index="t",
        row_outputs=rows,
        **operands,  # type: ignore[arg-type]
    )


def _entropy_backward(flags: frozenset[str]) -> RowProgram:
    """With ``total``, the gradient is divided by the weights' sum."""
    phases, stream = _entropy_phases(flags, "const ROW inverse = 1 / s.z;")
    operands = _entropy_operands(flags)
    operands["scalars"] = (*operands["scalars"], "scale")
    operands["row_inputs"] = ("g", *_named(("total",), flags))
    slope = "g * scale / total" if "total" in flags else "g * scale"
    power, weighted = "exp({x} - m) * inverse", "{w} * " if "w" in flags else ""
    if "probabilities" in flags:
        before = f"const ROW slope = {slope};"
        result = f"slope * ({power} * u - {weighted}{_FRACTION})"
        index = ""
    else:
        weight, index = "at_w" if "w" in flags else "(ROW)(1)", "t"
        before = f"const ROW slope = {_where(slope)}; ROW share = slope * {weight};"
        result = f"{power} * share - IS_INDEX(share, 0)"
        if "smooth" in flags:
            before += " share *= 1 - smoothing; const ROW even = slope * smoothing / COUNT;"
            result = f"{power} * (share + even * u) - IS_INDEX(share, 0) - even"
            result += " * {w}" if "w" in flags else ""
        before = before.replace("const ROW slope", "ROW slope")
    return RowProgram(
        "entropy_backward",
        phases=phases,
        stream=stream,
        outputs=(("dx", result),),
        index=index,
        before=before,
        **operands,  # type: ignore[arg-type]
    )


def _likelihood(flags: frozenset[str]) -> RowProgram:
    """The negative element that the index names, with its weight; no element else is read."""
    weights = _named(("w",), flags)
    weight = "at_w" if weights else "(ROW)(1)"
    return RowProgram(
        "likelihood",
        (),
        tables=("x", *weights),
        index="t",
        integers=("ignore",),
        picks=("x", *weights),
        row_outputs=(("loss", _where(f"-{weight} * at_x")), ("weight", _where(weight))),
    )


def _likelihood_backward(flags: frozenset[str]) -> RowProgram:
    weights = _named(("w",), flags)
    weight = "at_w" if weights else "(ROW)(1)"
    slope = "g * scale / total" if "total" in flags else "g * scale"
    return RowProgram(
        "likelihood_backward",
        (),
        outputs=(("dx", "IS_INDEX(share, 0)"),),
        tables=weights,
        row_inputs=("g", *_named(("total",), flags)),
        index="t",
        integers=("ignore",),
        picks=weights,
        scalars=("scale",),
        before=f"const ROW share = {_where(f'-({slope}) * {weight}')};",
    )


def _weights(flags: frozenset[str]) -> RowProgram:
    """The weight of each index."""
    weights = _named(("w",), flags)
    weight = "at_w" if weights else "(ROW)(1)"
    return RowProgram(
        "weights",
        (),
        tables=("x", *weights),
        index="t",
        integers=("ignore",),
        picks=weights,
        row_outputs=(("weight", _where(weight)),),
    )


def _total(flags: frozenset[str]) -> RowProgram:
    """The sum of x, divided by that of ``weight`` where there is one; or of (x - y) squared."""
    term = "({x} - {y}) * ({x} - {y})" if "y" in flags else "{x}"
    terms = {"v": term} | ({"u": "{weight}"} if "weight" in flags else {})
    phase = sums("", **terms)
    result = "s.v / s.u" if "weight" in flags else "s.v * scale"
    scalars = () if "weight" in flags else ("scale",)
    names = ("x", *_named(("y", "weight"), flags))
    return RowProgram(
        "total", names, (phase,), phase, scalars=scalars, row_outputs=(("result", result),)
    )


@cache
def program(name: str, flags: frozenset[str] = frozenset()) -> RowProgram:
    """The program of a name; flags are its variants, such as with ``weight`` or with ``bias``."""
    return _PROGRAMS[name](flags)


_PROGRAMS: dict[str, Callable[[frozenset[str]], RowProgram]] = {
    "softmax": lambda flags: _softmax(False),
    "log_softmax": lambda flags: _softmax(True),
    "softmax_backward": lambda flags: _softmax_backward(False),
    "log_softmax_backward": lambda flags: _softmax_backward(True),
    "norm": _norm,
    "norm_backward": _norm_backward,
    "affine_backward": _affine_backward,
    "entropy": _entropy,
    "entropy_backward": _entropy_backward,
    "likelihood": _likelihood,
    "likelihood_backward": _likelihood_backward,
    "weights": _weights,
    "total": _total,
}
