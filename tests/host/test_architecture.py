"""Vendors' names occur only where devices are distinguished."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A trailing _nv or _amd is part of an OpenCL query's own name, and no match.
_VENDOR = re.compile(
    r"\b(nvidia|cuda|amd|radeon|rocm|gcn|rdna|intel|apple|arm|mali|qualcomm|adreno)(?![a-z])", re.I
)
_DEVICE_MACRO = re.compile(r"\b(\w+_DEVICE|CUDA_SM|DPP|SUBGROUP_FUNCTIONS)\b")


def python_files() -> list[Path]:
    package = ROOT / "portable_gpu"
    telling_apart = {package / "targets", package / "isa"}
    return sorted(p for p in package.rglob("*.py") if not telling_apart & set(p.parents))


def kernel_files() -> list[Path]:
    kernels = ROOT / "cl_kernels"
    return sorted(
        path
        for path in kernels.rglob("*.mako")
        if path.parent.name not in ("common", "subgroup") and not path.name.startswith("mainloop_")
    )


def test_there_are_files() -> None:
    assert len(python_files()) > 500
    assert len(kernel_files()) > 200


def words_of_code(path: Path) -> Iterator[tuple[int, str]]:
    """Identifiers and strings with their lines; comments and docstrings are prose."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr


def vendors_in(path: Path) -> list[str]:
    words = words_of_code(path)
    package = ROOT / "portable_gpu"
    if path.is_relative_to(package / "sparse") or path == package / "cli" / "solve.py":
        # There it is the ordering by approximate minimum degrees.
        words = ((line, re.sub(r"\bamd\b", "", word)) for line, word in words)
    return [f"{path}:{line}: {word}" for line, word in words if _VENDOR.search(word)]


def test_python_names_no_vendor() -> None:
    result = [place for path in python_files() for place in vendors_in(path)]
    assert not result, "ask the target for a fact instead (portable_gpu/targets)"


def devices_in(path: Path) -> list[str]:
    code = re.sub(r"##.*|//.*|/\*.*?\*/", "", path.read_text(encoding="utf-8"))
    lines = code.splitlines()
    return [f"{path}: {x}" for x in lines if _DEVICE_MACRO.search(x) or _VENDOR.search(x)]


def test_kernels_do_not_tell_devices_apart() -> None:
    result = [place for path in kernel_files() for place in devices_in(path)]
    assert not result, "call a subgroup_ function instead (cl_kernels/subgroup)"


def test_work_groups_synchronise_by_one_mechanism() -> None:
    words = re.compile(
        r"\b((DEVICE|GROUP)_FENCE|(LOAD|STORE)_PUBLISHED\w*|atomic_(inc|add|dec|sub))\b"
    )
    kernels = ROOT / "cl_kernels"
    result = {
        path.relative_to(kernels).as_posix()
        for path in kernels.rglob("*.mako")
        if words.search(re.sub(r"##.*|//.*", "", path.read_text(encoding="utf-8")))
    }
    assert result == {
        "common/prelude.cl.mako", "group/cells.cl.mako", "group/fix_up.cl.mako",
        "group/waiting.cl.mako",
    }, "use cl_kernels/group"  # fmt: skip


def test_templates_are_short() -> None:
    kernels = ROOT / "cl_kernels"
    for path in sorted(kernels.rglob("*.mako")):
        lines = path.read_text(encoding="utf-8").splitlines()
        name = path.relative_to(kernels)
        assert len(lines) <= 120, f"{name} has {len(lines)} lines; move a part to a file of its own"
        long = [number for number, line in enumerate(lines, 1) if len(line) > 120]
        assert not long, f"{name} has more than 120 columns in lines {long}"


def test_templates_have_no_variadic_macros() -> None:
    """OpenCL C has none: clang takes them, NVIDIA's compiler does not."""
    files = (ROOT / "cl_kernels").rglob("*.mako")
    variadic = [p.name for p in files if "__VA_ARGS__" in p.read_text(encoding="utf-8")]
    assert not variadic


def test_the_ladder_stands_in_one_file() -> None:
    ladder = re.compile(r"^#(if|elif)\b.*\bDEVICE\s*==", re.MULTILINE)
    files = [p for p in (ROOT / "cl_kernels").rglob("*.mako") if ladder.search(p.read_text())]
    outside = [p for p in files if not p.name.startswith("mainloop_")]
    assert [p.relative_to(ROOT).as_posix() for p in outside] == [
        "cl_kernels/subgroup/subgroup.cl.mako"
    ]


def test_what_is_inside_pyopencl_has_one_door() -> None:
    private = re.compile(r"\b(cl|cla|pyopencl)\._[a-zA-Z]|\._set_arg")
    package = ROOT / "portable_gpu"
    users = [p for p in package.rglob("*.py") if private.search(p.read_text(encoding="utf-8"))]
    assert users == [package / "runtime" / "inside_pyopencl.py"]


def test_pyopencl_computes_nothing() -> None:
    """Its kernels of arrays take no account of strides; ``bench`` alone times them."""
    kernels = re.compile(r"pyopencl\.(elementwise|reduction|scan|clmath|clrandom|algorithm)\b")
    functions = re.compile(r"\bcla\.(\w+)")
    package = ROOT / "portable_gpu"
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(package / "bench"):
            continue
        assert not kernels.search(text), path
        allowed = {"to_device", "empty"}  # inputs of checks
        if path in (package / "runtime" / "array.py", package / "typing.py"):
            allowed = {"Array"}  # elsewhere DEVICE_KINDS tells device arrays
        assert set(functions.findall(text)) <= allowed, path


def test_no_dtype_is_compared_with_none() -> None:
    comparison = re.compile(r"[=!]= bfloat16\(")  # None without ml_dtypes: NumPy's float64
    users = [p for p in (ROOT / "portable_gpu").rglob("*.py") if comparison.search(p.read_text())]
    assert not users


def test_no_code_names_a_product() -> None:
    """Measurements of a device are in ``docs/experiments`` and ``tuning/data``."""
    products = re.compile(r"\b(H[12]00|A100|B200|MI\d{3}|RTX|Arc A\d|Radeon|EPYC|Xeon|Zen \d)\b")
    example = 'name="NVIDIA H200",'  # the facts of a class's example device
    for folder, suffix in (("portable_gpu", "py"), ("cl_kernels", "mako")):
        for path in (ROOT / folder).rglob(f"*.{suffix}"):
            text = path.read_text(encoding="utf-8").replace(example, "")
            assert not products.search(text), path


def test_a_class_name_means_one_thing() -> None:
    """No two modules of the package have classes of one name."""
    counts = Counter(
        node.name
        for path in (ROOT / "portable_gpu").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in counts.items() if count > 1]


#: Classes whose long constructions are by position: ``Product`` and ``PoolingWindow`` are made by
#: each call, also a repeated one, and keywords take longer; the fields of ``Architecture`` are the
#: columns of a table.
_BY_POSITION = {"Architecture", "PoolingWindow", "Product"}
_MOST_POSITIONS = 7


def long_constructions(path: Path) -> list[str]:
    """Constructions with more arguments by position than a reader can tell apart."""
    result = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or len(node.args) <= _MOST_POSITIONS:
            continue
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name == "cls" or (name.lstrip("_")[:1].isupper() and name not in _BY_POSITION):
            result.append(f"{path}:{node.lineno}: {name}")
    return result


def test_constructions_of_many_fields_name_them() -> None:
    result = [place for path in python_files() for place in long_constructions(path)]
    assert not result, "name the fields"
