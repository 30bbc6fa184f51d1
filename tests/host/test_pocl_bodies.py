"""Kernels as wrappers of one function: texts in, texts out."""

from __future__ import annotations

import pytest

from portable_gpu.runtime.pocl_bodies import options, wrapped, wrappers

HEAD = "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))\n"
SCALE = (
    "#define PART get_local_size(0)\n#define PART_TWICE(a) ((a) * 2 * PART)\n"
    "#define WHOLE(a) ((a) * 2)\n"
    "// A __local array, and a barrier, are words of a comment.\n"
    f"{HEAD}void scale(__global const float *restrict x, __global float *y, "
    "const scale_integers_t integers)\n"
    "{\n    long n = integers.n; (void)n;\n"
    "    for (long i = get_group_id(0); i < n; i += get_num_groups(0)) { y[i] = WHOLE(x[i]); }\n}\n"
)


def test_the_kernel_calls_its_body() -> None:
    text = wrapped(SCALE, 256)
    assert wrappers(SCALE) == []
    assert wrappers(text) == ["scale"]
    body, kernel = text.split(HEAD)
    assert "static __attribute__((noinline, min_vector_width(256))) void scale_body(" in body
    assert "const size_t group_id_0, const size_t num_groups_0)" in body
    assert "for (long i = group_id_0; i < n; i += num_groups_0) {" in body
    assert kernel.endswith(
        "{\n    scale_body(x, y, integers, get_group_id(0), get_num_groups(0));\n}\n"
    )


def test_lines_keep_their_numbers() -> None:
    text = wrapped(SCALE.replace("*y, ", "*y,\n    "), 256)
    lines = SCALE.replace("*y, ", "*y,\n    ").splitlines()
    assert (
        text.splitlines()[len(lines) - 2]
        .replace("group_id_0", "get_group_id(0)")
        .replace("num_groups_0", "get_num_groups(0)")
        == lines[-2]
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long n =", "__local int m[1]; long n ="),
        ("y[i] = ", "barrier(CLK_LOCAL_MEM_FENCE); y[i] = "),
        ("y[i] = ", "y[i + PART] = "),
        ("y[i] = ", "y[i + get_work_dim()] = "),
        ("y[i] = ", "y[i + get_local_id(axis)] = "),
        ("(1, 1, 1)", "(4, 1, 1)"),
        ("y[i] = WHOLE", "y[i] = PART_TWICE"),
        (HEAD, f"static uint first(void)\n{{\n    return PART;\n}}\n{HEAD}"),
        (HEAD, f"static uint first(void)\n{{\n    return get_global_id(0);\n}}\n{HEAD}"),
    ],
)
def test_what_stays_as_it_is(old: str, new: str) -> None:
    text = SCALE.replace(old, new)
    assert wrapped(text, 256) == text
    assert wrappers(text) == []


def test_only_one_of_two() -> None:
    other = SCALE.replace("scale", "other").replace("y[i] = ", "barrier(1); y[i] = ")
    text = wrapped(SCALE + other + SCALE.replace("scale", "third"), 512)
    assert wrappers(text) == ["scale", "third"]
    assert other.partition(HEAD)[2] in text


def test_functions_apart() -> None:
    marked = (
        "static inline void add(__global float *y,\n    int x)\n{\n    //@noinline\n"
        "    *y += x;\n}\n"
    )
    plain = marked.replace("add", "subtract").replace("//@noinline", "").replace("+=", "-=")
    text = wrapped(plain + marked + SCALE, 512)
    assert text.startswith(plain.replace("inline ", "inline __attribute__((always_inline)) "))
    apart = "static __attribute__((noinline, min_vector_width(512))) void add(__global float *y,\n"
    assert apart + marked.partition("\n")[2] in text
    unsafe = f"static uint first(void)\n{{\n    return get_global_id(0);\n}}\n{marked}"
    assert wrapped(unsafe, 512) == unsafe


def test_comments_in_a_head_and_in_a_body_change_nothing() -> None:
    text = """
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void f(__global float *y,  // out, of n
       const long n)  // count
{
    y[n] = get_global_id(0);  // not get_global_id(1)
}
"""
    made = wrapped(text, 256)
    assert "f_body(y, n, get_global_id(0));" in made
    assert made.count("const size_t") == 1


@pytest.mark.parametrize(
    ("lines", "inlined"), [(1, True), (4, True), (5, False)], ids=["one", "four", "five"]
)
def test_short_functions_are_always_inlined(lines: int, inlined: bool) -> None:
    function = (
        "static inline void f(float *x,\n    int n)\n{\n" + "    x[n] += 1;\n" * lines + "}\n"
    )
    text = wrapped(function + SCALE, 256)
    assert ("static inline __attribute__((always_inline)) void f(float *x," in text) == inlined
    assert text.count("always_inline") == inlined


def test_clang_optimises_only_texts_with_other_kernels_and_marked_texts() -> None:
    (option,) = options(wrapped(SCALE, 256))
    assert option.endswith("\t-disable-llvm-passes")
    waits = SCALE.replace("{\n", "{\n    barrier(CLK_LOCAL_MEM_FENCE);\n", 1)
    others = wrapped(waits.replace("void scale", "void other") + SCALE, 256)
    assert wrappers(others) == ["scale"]
    marked = wrapped("static void f(int n)\n{\n    //@optimised_twice\n}\n" + SCALE, 256)
    assert wrappers(marked) == ["scale"]
    assert options(SCALE) == options(others) == options(marked) == ()
