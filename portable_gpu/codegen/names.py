"""The functions that an expression may call: OpenCL's own, and NumPy's and Python's names."""

from __future__ import annotations

import re

_FLOATS = """
acos acosh acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi cbrt ceil copysign cos cosh
cospi degrees erf erfc exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin hypot lgamma log log10
log1p log2 mad maxmag minmag mix nextafter pow powr radians remainder rint round rsqrt sin sinh
sinpi smoothstep sqrt step tan tanh tanpi tgamma trunc native_cos native_divide native_exp
native_exp10 native_exp2 native_log native_log10 native_log2 native_powr native_recip native_rsqrt
native_sin native_sqrt native_tan half_cos half_divide half_exp half_exp10 half_exp2 half_log
half_log10 half_log2 half_powr half_recip half_rsqrt half_sin half_sqrt half_tan logb
"""
#: Built-in functions of floats that apply to each component of a vector.
OF_FLOATS = frozenset(_FLOATS.split())
#: Built-ins of a float and an int.
OF_FLOATS_BY_INTEGERS = frozenset(("ldexp", "pown", "rootn"))
#: Built-ins of integers that give integers of the same type.
INTEGER_FUNCTIONS = frozenset(
    ("abs_diff", "add_sat", "clz", "ctz", "hadd", "mad24", "mad_hi", "mad_sat", "mul24", "mul_hi",
     "popcount", "rhadd", "rotate", "sub_sat")
)  # fmt: skip
#: Functions in ``cl_kernels/common/magnitudes.cl.mako``.
MAGNITUDES = frozenset(("absolute", "maximum", "minimum", "sign_of", "square", "subtract"))
TESTS = frozenset(("isfinite", "isinf", "isnan", "isnormal"))
#: Other names of functions; the meanings are those of NumPy, and of Python's built-ins.
ALIASES = {
    "abs": "absolute", "min": "minimum", "max": "maximum", "conj": "conjugate",
    "true_divide": "divide", "bitwise_not": "invert", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
    "bitwise_count": "popcount", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh",
    "deg2rad": "radians", "rad2deg": "degrees", "fix": "trunc",
}  # fmt: skip
#: Functions of float32 that are inlined on a CPU, ``cl_kernels/common/cpu_functions.cl.mako``.
INLINED = frozenset(("exp", "expm1", "tanh", "log1p", "erfc", "fabs"))
_WITHOUT_BUILT_INS = INLINED | (MAGNITUDES - {"absolute"}) | {"clip"}
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")


def _called(text: str) -> set[str]:
    """The functions that an expression calls."""
    names = {ALIASES.get(name, name) for name in _CALL.findall(text)}
    return {"fabs" if name == "absolute" else name for name in names}


def inlined(text: str, ctype: str) -> list[str]:
    """The functions of an expression, computed in a C type, that are inlined on a CPU."""
    return sorted(_called(text) & INLINED) if ctype == "float" else []


def calls_others(text: str) -> bool:
    """Whether an expression calls built-in functions that are not inlined on a CPU."""
    return not _called(text) <= _WITHOUT_BUILT_INS
