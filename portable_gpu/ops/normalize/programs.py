"""The programs of kernels of rows: a statistic over each row, then a map over the row.

A :class:`RowProgram` is the C text of one function.  Kernels apply it to vectors of elements of a
row or, on CPUs, of neighbouring rows; all operators and built-ins in the texts apply to scalars and
to vectors.  A row that stays in registers or in a cache is folded in several phases, each of which
may use the values that those before it declare; a row that is read from memory for each fold has
one phase, ``stream``, whose accumulators are rescaled or moved as it goes on.

The names in the texts, and where they stand for something:

============== ========================================================= ===========================
``TYPE``       the type of a vector of elements                          everywhere
``ROW``        the type of a value of the row                            everywhere
``COUNT``      the number of elements of the row                         everywhere
``LEAST``      the least finite number                                   neutral elements
``{x}``        a vector of the input ``x``                               ``step``, ``outputs``
``s.f``        the field ``f`` of the accumulator                        ``step``, ``finish``
``a.f b.f``    the field ``f`` of two accumulators, of which the first   ``combine``
               becomes the result
``x``          the value of the row input or number ``x``                everywhere but ``combine``
``old_x``      the value of the row output ``x`` before the call         ``row_outputs``
``at_x``       the element of ``x`` that the index names, or 0           everywhere but ``combine``
``counts``     1 if the index names an element and is not ``ignore``,    everywhere but ``combine``
               else 0
``IS_INDEX``   ``IS_INDEX(p, q)`` is p in the element that the index     ``outputs``
               names, and q in others
============== ========================================================= ===========================

What ``before`` or the ``finish`` of a phase declares is known to all later texts.  Several programs
use these names: ``m``, the maximum of x; ``mean`` and ``rstd``, the mean and ``1 / sqrt(variance +
eps)``; ``log_sum``, the logarithm of the sum of ``exp(x - m)``, and ``inverse``, its reciprocal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from portable_gpu.ops.normalize.row_program import MAXIMUM, Phase, RowProgram, Values, online, sums

# -- softmax


def _softmax(is_log: bool) -> RowProgram:
    finish = "const ROW scale = log(s.z);" if is_log else "const ROW scale = 1 / s.z;"
    result = "{x} - m - scale" if is_log else "exp({x} - m) * scale"
    exponentials = sums(finish, z="exp({x} - m)")
    return RowProgram(
        "log_softmax" if is_log else "softmax",
        ("x",),
        (MAXIMUM, exponentials),
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
    """The mean and the sum of squared distances from it, merged as by Chan et al. (1983).

    An infinite mean stays infinite: where the difference of two means is not finite, the result is
    their sum, as in a sum of all elements.
    """

    def merged(a: str, b: str) -> str:
        return f"{a} += apart - apart == (TYPE)(0) ? apart * part : {b};"

    def step(values: Sequence[Values]) -> str:
        k, total = len(values), " + ".join(v["x"] for v in values)
        squares = " + ".join(f"({v['x']} - centre) * ({v['x']} - centre)" for v in values)
        return (
            f"{{ const TYPE centre = ({total}) / {k}, apart = centre - s.mu; s.c += {k}; "
            f"const TYPE part = {k} / s.c; {merged('s.mu', 'centre')} "
            f"s.q += {squares} + apart * apart * ({k} - {k} * part); }}"
        )

    combine = (
        "{ const TYPE c = a.c + b.c, part = b.c / fmax(c, (TYPE)(1)), apart = b.mu - a.mu; "
        f"{merged('a.mu', 'b.mu')} a.q += b.q + apart * apart * (a.c * part); a.c = c; }}"
    )
    finish = f"const ROW mean = s.mu, variance = s.q / COUNT; {_SCALE}"
    return Phase((("c", "0"), ("mu", "0"), ("q", "0")), step, combine, finish)


def _affine(value: str, flags: frozenset[str]) -> str:
    """The weight and the bias: elements (w, b) or one of each row (row_w, row_b)."""
    for name, plus in (("w", " * "), ("row_w", " * "), ("b", " + "), ("row_b", " + ")):
        if name in flags:
            value += plus + (name if name.startswith("row") else f"{{{name}}}")
    return value


def _present(names: Sequence[str], flags: frozenset[str]) -> tuple[str, ...]:
    """The operands whose names are flags."""
    return tuple(name for name in names if name in flags)


def _norm(flags: frozenset[str]) -> RowProgram:
    """Return the program of a normalisation by variance, or by the mean square with ``rms``.

    ``stats`` and ``running`` are further results.
    """
    squares = f"const ROW variance = s.q / COUNT; {_SCALE}"
    phases: tuple[Phase, ...] = (sums(squares, q="{x} * {x}"),)
    stream, centred, stats = phases[0], "{x}", [("rstd", "rstd")]
    if "rms" not in flags:
        means = sums("const ROW mean = s.t / COUNT;", t="{x}")
        phases = (means, sums(squares, q=f"{_CENTRE} * {_CENTRE}"))
        stream, centred, stats = _moments(), _CENTRE, [("mean", "mean"), *stats]
    running = [
        ("running_mean", "(1 - momentum) * old_running_mean + momentum * mean"),
        (
            "running_var",
            "(1 - momentum) * old_running_var + momentum * (variance * (COUNT / (COUNT - 1)))",
        ),
    ]
    updated = running if "running" in flags else []
    return RowProgram(
        "norm",
        ("x", *_present(("w", "b"), flags)),
        phases,
        stream,
        (("y", _affine(f"{centred} * rstd", flags)),),
        _present(("row_w", "row_b"), flags),
        scalars=("eps",),
        varying=("momentum",) if updated else (),
        row_outputs=(*(stats if "stats" in flags else ()), *updated),
        updated=tuple(name for name, _ in updated),
    )


def _norm_backward(flags: frozenset[str]) -> RowProgram:
    """Return the program of the gradients of a normalisation.

    With ``fixed``, the statistics do not depend on x.  ``dw`` and ``db``, the gradients of a weight
    and a bias of rows, are sums over a row, so there is no weight of elements with them.
    ``dw_parts`` and ``db_parts`` are each group's sums for a weight and a bias of elements.
    """
    rows = {"dw": "s.sum_grad_x * rstd", "db": "s.sum_grad"}
    results = _present(tuple(rows), flags)
    assert not results or not {"w", "rms"} & flags, "dw and db are of row_w"
    grad = "({dy} * {w})" if "w" in flags else "{dy}"
    centred = "{x}" if "rms" in flags else _CENTRE
    factor = "rstd * row_w" if "row_w" in flags else "rstd"
    is_fixed = "fixed" in flags
    of_x: tuple[str, ...] = () if is_fixed and not results else ("x",)
    means = ("mean",) if of_x and "rms" not in flags else ()
    base = RowProgram(
        "norm_backward",
        ("dy", *of_x, *_present(("w",), flags)),
        outputs=(("dx", f"{factor} * {grad}"),),
        row_inputs=(*means, "rstd", *_present(("row_w",), flags)),
        row_outputs=tuple((name, rows[name]) for name in results),
    )
    if not of_x:
        return base
    finish, result = "const ROW slope = s.sum_grad_x * rstd * rstd / COUNT;", f"{centred} * slope"
    terms = {"sum_grad_x": f"{grad} * {centred}"}
    if "rms" not in flags:
        terms["sum_grad"] = grad
        finish += " const ROW shift = s.sum_grad / COUNT;"
        result += " - shift"
    phase = sums("" if is_fixed else finish, **terms)
    if not is_fixed:
        base = replace(base, outputs=(("dx", f"{factor} * ({grad} - {result})"),))
    parts = {"dw_parts": f"{{dy}} * {centred} * rstd", "db_parts": "{dy}"}
    summed = _present(tuple(parts), flags)
    outputs = (*base.outputs, *((name, parts[name]) for name in summed))
    return replace(base, phases=(phase,), stream=phase, outputs=outputs, sums=summed)


def _affine_backward(flags: frozenset[str]) -> RowProgram:
    """The gradients of weight and bias; each row has the values to which one element applies."""
    centred = "{x}" if "rms" in flags else "({x} - {mean})"
    terms = {"dw": f"{{dy}} * {centred} * {{rstd}}", "db": "{dy}"}
    names = _present(("dw", "db"), flags)
    phase = sums("", **{name: terms[name] for name in names})
    means = () if "rms" in flags else ("mean",)
    return RowProgram(
        "affine_backward",
        ("dy", "x", *means, "rstd"),
        (phase,),
        phase,
        row_outputs=tuple((name, f"s.{name}") for name in names),
    )


def _affine_totals(flags: frozenset[str]) -> RowProgram:
    """The gradients of weight and bias from their parts."""
    names = _present(("dw", "db"), flags)
    phase = sums("", **{name: f"{{{name}_parts}}" for name in names})
    results = tuple((name, f"s.{name}") for name in names)
    inputs = tuple(f"{name}_parts" for name in names)
    return RowProgram("affine_totals", inputs, (phase,), phase, row_outputs=results)


# -- losses

_FRACTION = "({p} * (1 - smoothing) + smoothing / COUNT)"


def _if_counted(value: str, kind: str = "ROW") -> str:
    """A value for rows whose index counts, and 0 for other rows, also where the value is NaN."""
    return f"(counts > (ROW)(0) ? ({value}) : ({kind})(0))"


def _entropy_base(name: str, flags: frozenset[str]) -> RowProgram:
    """The operands of a cross entropy, without its results."""
    weights = _present(("w",), flags)
    if "probabilities" in flags:
        return RowProgram(name, ("x", "p", *weights), scalars=("smoothing",))
    base = RowProgram(name, ("x",), index="t", integers=("ignore",), picks=("x", *weights))
    if "smooth" in flags:
        return replace(base, inputs=("x", *weights), scalars=("smoothing",))
    return replace(base, tables=weights)


def _over_classes(
    base: RowProgram, finish: str, flags: frozenset[str], names: Sequence[str]
) -> RowProgram:
    """A cross entropy with its folds: the sum z of exp(x - m), and named sums over the classes.

    They are ``sum_w``, of the weights, and ``sum_wx``, of weighted x; both are multiplied by the
    probabilities where there are any, and neither is needed where an index alone is the target.
    """
    terms: dict[str, str] = {}
    weighted = "{w} * " if "w" in flags else ""
    if "probabilities" in flags:
        terms = {"sum_w": weighted + _FRACTION, "sum_wx": f"{weighted}{_FRACTION} * {{x}}"}
    elif "smooth" in flags:
        terms = {"sum_w": "{w}" if "w" in flags else "1", "sum_wx": f"{weighted}{{x}}"}
    terms = {name: terms[name] for name in names if name in terms}
    finish += "".join(f" const ROW {name} = s.{name};" for name in terms)
    exponentials = sums(finish, z="exp({x} - m)", **terms)
    return replace(base, phases=(MAXIMUM, exponentials), stream=online(finish, **terms))


def _entropy(flags: frozenset[str]) -> RowProgram:
    """The loss of each row, and its weight in a mean."""
    base = _over_classes(
        _entropy_base("entropy", flags), "const ROW log_sum = log(s.z);", flags,
        ("sum_w", "sum_wx"),
    )  # fmt: skip
    of_classes = "(m + log_sum) * sum_w - sum_wx"
    if "probabilities" in flags:
        return replace(base, row_outputs=(("loss", of_classes),))
    weight = "at_w" if "w" in flags else "(ROW)(1)"
    loss = f"{weight} * (log_sum - (at_x - m))"
    if "smooth" in flags:
        loss = f"(1 - smoothing) * {loss} + smoothing / COUNT * ({of_classes})"
    return replace(base, row_outputs=(("loss", _if_counted(loss)), ("weight", _if_counted(weight))))


def _entropy_backward(flags: frozenset[str]) -> RowProgram:
    """With ``total``, the gradient is divided by the weights' sum."""
    base = _over_classes(
        _entropy_base("entropy_backward", flags), "const ROW inverse = 1 / s.z;", flags, ("sum_w",)
    )
    base = replace(
        base, scalars=(*base.scalars, "scale"), row_inputs=("g", *_present(("total",), flags))
    )
    slope = "g * scale / total" if "total" in flags else "g * scale"
    softmax, weighted = "exp({x} - m) * inverse", "{w} * " if "w" in flags else ""
    if "probabilities" in flags:
        result = f"slope * ({softmax} * sum_w - {weighted}{_FRACTION})"
        return replace(base, before=f"const ROW slope = {slope};", outputs=(("dx", result),))
    weight = "at_w" if "w" in flags else "(ROW)(1)"
    before = f"const ROW slope = {_if_counted(slope)};"
    if "smooth" in flags:
        before += f" const ROW share = slope * {weight} * (1 - smoothing);"
        before += " const ROW even = slope * smoothing / COUNT;"
        result = f"{softmax} * (share + even * sum_w) - IS_INDEX(share, 0) - {weighted}even"
    else:
        before += f" const ROW share = slope * {weight};"
        result = f"{softmax} * share - IS_INDEX(share, 0)"
    return replace(base, before=before, outputs=(("dx", _if_counted(result, "TYPE")),))


def _likelihood(flags: frozenset[str]) -> RowProgram:
    """The negative of the element that the index names, with its weight; only this one is read."""
    weights = _present(("w",), flags)
    weight = "at_w" if weights else "(ROW)(1)"
    return RowProgram(
        "likelihood",
        (),
        tables=("x", *weights),
        index="t",
        integers=("ignore",),
        picks=("x", *weights),
        row_outputs=(("loss", _if_counted(f"-{weight} * at_x")), ("weight", _if_counted(weight))),
    )


def _likelihood_backward(flags: frozenset[str]) -> RowProgram:
    """With ``total``, the gradient is divided by the weights' sum."""
    weights = _present(("w",), flags)
    weight = "at_w" if weights else "(ROW)(1)"
    slope = "g * scale / total" if "total" in flags else "g * scale"
    return RowProgram(
        "likelihood_backward",
        (),
        outputs=(("dx", "IS_INDEX(share, 0)"),),
        tables=weights,
        row_inputs=("g", *_present(("total",), flags)),
        index="t",
        integers=("ignore",),
        picks=weights,
        scalars=("scale",),
        before=f"const ROW share = {_if_counted(f'-({slope}) * {weight}')};",
    )


def _target_weights(flags: frozenset[str]) -> RowProgram:
    """The weight of each index; only the number of classes of ``x`` matters."""
    weights = _present(("w",), flags)
    weight = "at_w" if weights else "(ROW)(1)"
    return RowProgram(
        "target_weights",
        (),
        tables=("x", *weights),
        index="t",
        integers=("ignore",),
        picks=weights,
        row_outputs=(("weight", _if_counted(weight)),),
    )


def _total(flags: frozenset[str]) -> RowProgram:
    """The sum of x, divided by that of ``divisor`` where there is one; or of (x - y) squared."""
    term = "({x} - {y}) * ({x} - {y})" if "y" in flags else "{x}"
    has_divisor = "divisor" in flags
    terms = {"sum_x": term} | ({"sum_divisor": "{divisor}"} if has_divisor else {})
    phase = sums("", **terms)
    result = "s.sum_x / s.sum_divisor" if has_divisor else "s.sum_x * scale"
    scalars = () if has_divisor else ("scale",)
    names = ("x", *_present(("y", "divisor"), flags))
    return RowProgram(
        "total", names, (phase,), phase, scalars=scalars, row_outputs=(("result", result),)
    )


@cache
def program(name: str, flags: frozenset[str] = frozenset()) -> RowProgram:
    """The program of a name and its variant.

    These are the flags:

    ==================================== =========================================================
    ``w`` ``b``                          weight and bias of elements; ``w`` of losses: of classes
    ``row_w`` ``row_b``                  weight and bias of rows
    ``rms``                              the mean is 0
    ``stats``                            the statistics are results
    ``running``                          running statistics are updated
    ``fixed``                            the statistics do not depend on x
    ``dw`` ``db``                        the gradients of weight and bias are results
    ``dw_parts`` ``db_parts``            their sums over the rows of each group are results
    ``probabilities``                    targets are probabilities, not indices
    ``smooth``                           targets are smoothed indices
    ``total``                            the gradient is divided by the sum of the weights
    ``y``                                squares of x - y are added
    ``divisor``                          the sum is divided by that of ``divisor``
    ==================================== =========================================================
    """
    make, known = _PROGRAMS[name]
    assert flags <= set(known.split()), f"{name} has the flags {known}, not {sorted(flags)}"
    return make(flags)


#: How each program is made, and its flags.
_PROGRAMS: dict[str, tuple[Callable[[frozenset[str]], RowProgram], str]] = {
    "softmax": (lambda flags: _softmax(False), ""),
    "log_softmax": (lambda flags: _softmax(True), ""),
    "softmax_backward": (lambda flags: _softmax_backward(False), ""),
    "log_softmax_backward": (lambda flags: _softmax_backward(True), ""),
    "norm": (_norm, "w b row_w row_b rms stats running"),
    "norm_backward": (_norm_backward, "w row_w rms fixed dw db dw_parts db_parts"),
    "affine_backward": (_affine_backward, "rms dw db"),
    "affine_totals": (_affine_totals, "dw db"),
    "entropy": (_entropy, "w probabilities smooth"),
    "entropy_backward": (_entropy_backward, "w probabilities smooth total"),
    "likelihood": (_likelihood, "w"),
    "likelihood_backward": (_likelihood_backward, "w total"),
    "target_weights": (_target_weights, "w"),
    "total": (_total, "y divisor"),
}
