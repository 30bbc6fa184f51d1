"""Declare the OpenCL functions that a text uses, in place of clang's header.

PoCL includes ``opencl-c.h``, which declares all functions of OpenCL in 18,000 lines, and reads it
twice for each program.  This takes six times as long as the rest of the work on a small text.
The option :data:`NO_HEADER` defines the macro that guards the header against a second
inclusion, so PoCL leaves it out.  Types and constants come from another header.

:func:`declaring` puts declarations of those functions that a text names in front of the text.  It
declares all overloads of a function: without the one for ``double``, clang would convert the
argument to ``float``.  The conditions and attributes are those of the header, and so the machine
code is the same.

A text that calls another function of the header is compiled with the header.  So is a text that
does not compile with these declarations: a program cache then compiles it a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

from portable_gpu.codegen.c_text import COMMENT

#: The version of the declarations, which is part of the key of a program on disk.
VERSION = 1
#: The option with which PoCL includes no declarations of functions.
NO_HEADER = "-D_OPENCL_H_"

_SIGNED = {
    "char": "char", "uchar": "char", "short": "short", "ushort": "short", "int": "int",
    "uint": "int", "long": "long", "ulong": "long", "float": "int", "double": "long",
    "half": "short",
}  # fmt: skip
_EVERY = tuple(_SIGNED)
_INTEGERS, _REALS = _EVERY[:8], _EVERY[8:]
_LANES = ("", "2", "3", "4", "8", "16")
_WIDE = _LANES[1:]
#: The condition on which a type exists.
_CONDITIONS = {"double": "defined(cl_khr_fp64)", "half": "defined(cl_khr_fp16)"}
_NAMED = "defined(__opencl_c_named_address_space_builtins)"
_WRITABLE_SPACES = (
    ("__global", _NAMED), ("__local", _NAMED), ("__private", _NAMED),
    ("", "defined(__opencl_c_generic_address_space)"),
)  # fmt: skip
_READABLE_SPACES = (("__constant", ""), *_WRITABLE_SPACES)
_ATOMIC = (("__global", ""), ("__local", ""))
_ATOM_32 = tuple(
    (f"__{space}", f"defined(cl_khr_{space}_int32_base_atomics)") for space in ("global", "local")
)
_ATOM_64 = tuple((space, "defined(cl_khr_int64_base_atomics)") for space, _ in _ATOMIC)


class _Form(NamedTuple):
    """Overloads of a function.

    Attributes:
        result, parameters: Types.  In them ``g`` stands for each of ``types`` with each of
            ``lanes``, ``s`` for its scalar type, ``n`` for an ``int`` with its lanes, ``m`` and
            ``u`` for the signed and unsigned integer of its size with its lanes, and ``a`` for
            each of ``spaces``.
        types, lanes: Scalar types, and numbers of lanes.
        effect: An attribute of the function.
        spaces: Address spaces, each with the condition of its overloads.
    """

    result: str
    parameters: str
    types: tuple[str, ...] = _REALS
    lanes: tuple[str, ...] = _LANES
    effect: str = "const"
    spaces: tuple[tuple[str, str], ...] = (("", ""),)

    def declarations(self, name: str) -> Iterator[tuple[str, str]]:
        """The conditions and the declarations of its overloads."""
        effect = f"overloadable, {self.effect}" if self.effect else "overloadable"
        for kind, lanes, (space, condition) in product(self.types, self.lanes, self.spaces):
            signed = _SIGNED[kind] + lanes
            meaning = {
                "g": kind + lanes, "s": kind, "n": f"int{lanes}", "m": signed, "u": f"u{signed}",
                "a": space,
            }  # fmt: skip
            result, parameters = (
                " ".join(meaning.get(word, word) for word in text.split(" "))
                for text in (self.result, self.parameters.replace(",", " ,"))
            )
            conditions = dict.fromkeys((_CONDITIONS.get(kind, ""), condition))
            yield (
                " && ".join(filter(None, conditions)),
                f"{result} __attribute__(({effect})) {name}({parameters});\n",
            )


def _scalar(result: str, parameters: str, effect: str = "const") -> tuple[_Form]:
    return (_Form(result, parameters, ("int",), ("",), effect),)


def _mixed(
    parameters: str, with_scalars: str, types: tuple[str, ...] = _REALS
) -> tuple[_Form, ...]:
    return _Form("g", parameters, types), _Form("g", with_scalars, types, _WIDE)


def _test(parameters: str) -> tuple[_Form, ...]:
    return _Form("int", parameters, lanes=("",)), _Form("m", parameters, lanes=_WIDE)


def _atomic(parameters: str, *types: str) -> tuple[_Form]:
    return (_Form("s", parameters, types, ("",), "", _ATOMIC),)


def _atom(parameters: str) -> tuple[_Form, ...]:
    return (
        _Form("s", parameters, ("int", "uint"), ("",), "", _ATOM_32),
        _Form("s", parameters, ("long", "ulong"), ("",), "", _ATOM_64),
    )


_TABLE = {
    "acos acosh acospi asin asinh asinpi atan atanh atanpi cbrt ceil cos cosh cospi degrees erf "
    "erfc exp exp10 exp2 expm1 fabs floor lgamma log log10 log1p log2 logb radians rint round "
    "rsqrt sign sin sinh sinpi sqrt tan tanh tanpi tgamma trunc": (_Form("g", "g"),),
    "atan2 atan2pi copysign fdim fmod hypot maxmag minmag nextafter pow powr remainder": (
        _Form("g", "g, g"),
    ),
    "half_cos half_exp half_exp10 half_exp2 half_log half_log10 half_log2 half_recip half_rsqrt "
    "half_sin half_sqrt half_tan native_cos native_exp native_exp10 native_exp2 native_log "
    "native_log10 native_log2 native_recip native_rsqrt native_sin native_sqrt native_tan": (
        _Form("g", "g", ("float",)),
    ),
    "half_divide half_powr native_divide native_powr": (_Form("g", "g, g", ("float",)),),
    "fmax fmin": _mixed("g, g", "g, s"),
    "fma mad": (_Form("g", "g, g, g"),),
    "mix": _mixed("g, g, g", "g, g, s"),
    "step": _mixed("g, g", "s, g"),
    "smoothstep": _mixed("g, g, g", "s, s, g"),
    "ldexp": _mixed("g, n", "g, int"),
    "pown rootn": (_Form("g", "g, n"),),
    "ilogb": (_Form("n", "g"),),
    "isfinite isinf isnan isnormal signbit": _test("g"),
    "isequal isgreater isgreaterequal isless islessequal islessgreater isnotequal isordered "
    "isunordered": _test("g, g"),
    "add_sat hadd mul_hi rhadd rotate sub_sat": (_Form("g", "g, g", _INTEGERS),),
    "mad_hi mad_sat": (_Form("g", "g, g, g", _INTEGERS),),
    "abs": (_Form("u", "g", _INTEGERS),),
    "abs_diff": (_Form("u", "g, g", _INTEGERS),),
    "clz popcount": (_Form("g", "g", _INTEGERS),),
    "mul24": (_Form("g", "g, g", ("int", "uint")),),
    "mad24": (_Form("g", "g, g, g", ("int", "uint")),),
    "max min": _mixed("g, g", "g, s", _EVERY),
    "clamp": _mixed("g, g, g", "g, s, s", _EVERY),
    "bitselect": (_Form("g", "g, g, g", _EVERY),),
    "select": (_Form("g", "g, g, m", _EVERY), _Form("g", "g, g, u", _EVERY)),
    "get_global_id get_global_offset get_global_size get_group_id get_local_id get_local_size "
    "get_num_groups": _scalar("size_t", "uint"),
    "get_work_dim": _scalar("uint", "void"),
    "barrier": _scalar("void", "cl_mem_fence_flags", "convergent"),
    "mem_fence read_mem_fence write_mem_fence": _scalar("void", "cl_mem_fence_flags", ""),
    "prefetch": (_Form("void", "const __global g *, size_t", _EVERY, effect=""),),
    "atomic_add atomic_and atomic_max atomic_min atomic_or atomic_sub atomic_xor": _atomic(
        "volatile a s *, s", "int", "uint"
    ),
    "atomic_dec atomic_inc": _atomic("volatile a s *", "int", "uint"),
    "atomic_cmpxchg": _atomic("volatile a s *, s, s", "int", "uint"),
    "atomic_xchg": _atomic("volatile a s *, s", "int", "uint", "float"),
    "atom_add atom_sub atom_xchg": _atom("volatile a s *, s"),
    "atom_dec atom_inc": _atom("volatile a s *"),
    "atom_cmpxchg": _atom("volatile a s *, s, s"),
}
_FORMS = {name: forms for names, forms in _TABLE.items() for name in names.split()}
#: Names of functions that only the header declares; those with the :data:`_BEGINNINGS` are others.
#: Functions of vendors' extensions are not listed, because PoCL has none of them on CPUs.
_OTHERS = frozenset(
    ("all", "any", "bit_reverse", "capture_event_profiling_info", "create_user_event", "cross",
     "ctz", "distance", "dot", "enqueue_marker", "fast_distance", "fast_length",
     "fast_normalize", "fract", "frexp", "is_valid_event", "is_valid_reserve_id", "length",
     "lgamma_r", "modf", "nan", "normalize", "release_event", "remquo", "retain_event",
     "set_user_event_status", "shuffle", "shuffle2", "sincos", "upsample", "vload", "vstore",
     "wait_group_events")
)  # fmt: skip
_BEGINNINGS = (
    "async_", "atom_", "atomic_", "bitfield_", "dot_", "get_", "ndrange_", "read_image",
    "sub_group_", "work_group_", "write_image",
)  # fmt: skip
_SIZES = "(2|3|4|8|16)"
_CONVERSION = re.compile(
    rf"convert_((u?(?:char|short|int|long)|float|double|half){_SIZES}?)"
    r"(_sat)?(?:_rt[enpz])?"
)
_VECTOR_ACCESS = re.compile(rf"v(load|store){_SIZES}")
_HALF_ACCESS = re.compile(rf"v(load|store)(?:_half|(a)_half(?=\d)){_SIZES}?(_rt[enpz])?")
_NAME = re.compile(r"[a-z]\w+")


def declaring(text: str) -> str | None:
    """Return a text preceded by the declarations that it needs, or ``None`` if it needs the header.

    The lines of the text keep their numbers.
    """
    code = COMMENT.sub("", text)
    names = sorted(set(_NAME.findall(code)))
    if any(_is_other(name) and re.search(rf"\b{name}\s*\(", code) for name in names):
        return None
    by_condition: dict[str, list[str]] = {}
    for name in names:
        for condition, declarations in _of(name).items():
            by_condition.setdefault(condition, []).append(declarations)
    parts = list[str]()
    for condition, listed in by_condition.items():
        block = "".join(listed)
        for extension in ("cl_khr_fp64", "cl_khr_fp16"):
            if extension in condition:
                pragma = f"#pragma OPENCL EXTENSION {extension} :"
                block = f"{pragma} enable\n{block}{pragma} disable\n"
        parts.append(f"#if {condition}\n{block}#endif\n" if condition else block)
    return "".join([*parts, "#line 1\n", text])


def _is_other(name: str) -> bool:
    """Whether only the header declares functions of this name."""
    return name in _OTHERS or (name.startswith(_BEGINNINGS) and not _forms(name))


@cache
def _of(name: str) -> dict[str, str]:
    """Return the declarations of a function by their conditions; none of an unknown name."""
    by_condition: dict[str, str] = {}
    for form in _forms(name):
        for condition, declaration in form.declarations(name):
            by_condition[condition] = by_condition.get(condition, "") + declaration
    return by_condition


def _forms(name: str) -> tuple[_Form, ...]:
    if name in _FORMS:
        return _FORMS[name]
    if match := _CONVERSION.fullmatch(name):
        result, kind, lanes, saturated = match.groups()
        if saturated and kind in _REALS:
            return ()
        spaces = (("", _CONDITIONS.get(kind, "")),)
        return (_Form(result, "g", _EVERY, (lanes or "",), spaces=spaces),)
    if match := _VECTOR_ACCESS.fullmatch(name):
        access, lanes = match.groups()
        if access == "load":
            return (_Form("g", "size_t, const a s *", _EVERY, (lanes,), "pure", _READABLE_SPACES),)
        return (_Form("void", "g, size_t, a s *", _EVERY, (lanes,), "", _WRITABLE_SPACES),)
    if match := _HALF_ACCESS.fullmatch(name):
        access, _, lanes, rounding = match.groups()
        lanes = (lanes or "",)
        if access == "store":
            return (_Form("void", "g, size_t, a half *", _REALS[:2], lanes, "", _WRITABLE_SPACES),)
        if not rounding:
            return (
                _Form("g", "size_t, const a half *", _REALS[:1], lanes, "pure", _READABLE_SPACES),
            )
    return ()
