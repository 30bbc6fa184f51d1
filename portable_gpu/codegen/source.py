"""Find and render kernel templates; an error shows the lines around it, numbered."""

from __future__ import annotations

import hashlib
import marshal
import posixpath
import re
import sys
import traceback
from functools import lru_cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import mako
from mako import codegen
from mako.exceptions import (
    MakoException,
    RichTraceback,
    SyntaxException,
    TopLevelLookupException,
)
from mako.lexer import Lexer
from mako.lookup import TemplateCollection
from mako.template import ModuleTemplate, Template

from portable_gpu.errors import RenderError, is_of_signal


@lru_cache(maxsize=1)
def kernel_folder() -> Path:
    """The folder ``cl_kernels``: inside the installed package, or next to it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "cl_kernels", package.parent / "cl_kernels"):
        if (folder / "common").is_dir():
            return folder
    raise RenderError(f"no cl_kernels folder in or beside {package}; reinstall portable_gpu")


class Store(Protocol):
    """Files that only this user can write, and that are checked when they are read."""

    def read(self, key: str) -> bytes | None:
        """Return what was written, if it is there and intact."""

    def write(self, key: str, payload: bytes) -> None:
        """Keep a payload."""


class _Templates(TemplateCollection):  # type: ignore[misc]  # Mako has no types
    """The kernel templates; each is compiled at its first use.

    Mako's own ``TemplateLookup`` holds a lock while it compiles, and a call from a signal handler
    would wait for that lock forever.  With this class such a call compiles the template again.
    """

    def __init__(self) -> None:
        self._compiled: dict[str, Template] = {}
        self.store: Store | None = None

    def get_template(self, uri: str, relativeto: str | None = None) -> Template:
        """The template of an absolute ``uri``: its path in the folder of kernels."""
        template = self._compiled.get(uri)
        if template is None:
            path = kernel_folder() / uri.lstrip("/")
            if not path.is_file():
                raise TopLevelLookupException(f"there is no {path}")
            template = self._compiled[uri] = self._compile(uri, path)
        return template

    def _compile(self, uri: str, path: Path) -> Template:
        text = path.read_text()
        parts = (mako.__version__, _PYTHON, repr(_OPTIONS), uri, text)
        key = hashlib.sha256("\0".join(("template", *parts)).encode()).hexdigest()
        stored = None if self.store is None else self.store.read(key)
        if stored is None:
            name, source = re.sub(r"\W", "_", uri), self._module_source(uri, path, text)
            code = compile(source, name, "exec")
            if self.store is not None:
                self.store.write(key, marshal.dumps((name, source, code)))
        else:
            name, source, code = marshal.loads(stored)
        module = ModuleType(name)
        exec(code, module.__dict__)
        return ModuleTemplate(
            module, template_filename=str(path), module_source=source, template_source=text,
            lookup=self,
        )  # fmt: skip

    def _module_source(self, uri: str, path: Path, text: str) -> str:
        """Return the text of the Python module that Mako makes of a template.

        ``mako.template.Template`` would compile the module too, but without returning its code.
        """
        while True:
            try:
                node = Lexer(text, str(path)).parse()
                return str(codegen.compile(node, uri, str(path), **_OPTIONS))
            except SyntaxException as error:
                # Python's parser raises SystemError if a signal handler uses the parser meanwhile.
                if "SystemError" not in str(error):
                    raise

    def adjust_uri(self, uri: str, relativeto: str) -> str:
        """``uri`` relative to the template at ``relativeto``."""
        return posixpath.join(posixpath.dirname(relativeto), uri)


#: The options by which Mako compiles a template.
_OPTIONS = {
    "default_filters": ["str"],
    "buffer_filters": (),
    "generate_magic_comment": False,
    "strict_undefined": True,
    "imports": [
        "from portable_gpu.codegen import axes",
        "from portable_gpu.codegen.names import MAGNITUDES",
        "from portable_gpu.codegen.operators import Sums, component, vector",
    ],
}
#: The version of Python's compiled code, and its level of optimisation, which drops assertions.
_PYTHON = f"{sys.implementation.cache_tag} {MAGIC_NUMBER.hex()} {sys.flags.optimize}"
_templates = _Templates()


def keep_modules(store: Store) -> None:
    """Keep the Python modules of compiled templates for later processes.

    Mako takes 9 ms of a processor to compile a template, and some ten are compiled for a call.
    The first store of a process stays.
    """
    if _templates.store is None:
        _templates.store = store


def kernel_names() -> tuple[str, ...]:
    """The names (``family/name``) of all templates with kernels of operations."""
    folder = kernel_folder()
    shared = ("common", "subgroup", "group", "bench")
    return tuple(
        sorted(
            path.relative_to(folder).as_posix().removesuffix(".cl.mako")
            for path in folder.glob("*/*.cl.mako")
            if path.parent.name not in shared and not path.name.startswith("_")
        )
    )


def render(name: str, **context: Any) -> str:
    """The OpenCL text of template ``name`` (``reduce/rows``).

    Raises:
        RenderError: The template does not exist or failed; the message shows the lines around
            the failure, numbered.
    """
    try:
        text = _templates.get_template(f"/{name}.cl.mako").render(**context)
    except Exception as error:
        cause: BaseException | None = error
        while isinstance(cause, IndexError):  # Mako may raise it while it handles another error
            cause = cause.__context__
        if cause is not None and (not isinstance(cause, Exception) or is_of_signal(cause)):
            raise cause from None  # an exception of a signal handler, such as KeyboardInterrupt
        raise RenderError(f"template {name} failed: {_describe(error)}") from error
    return _squeeze(str(text))


def numbered(text: str, around: int | None = None, context: int = 12) -> str:
    """``text`` with line numbers; only ``context`` lines on each side of line ``around``."""
    lines = text.splitlines()
    first, last = 1, len(lines)
    if around is not None:
        first, last = max(1, around - context), min(last, around + context)
    return "\n".join(f"{i:5d}  {lines[i - 1]}" for i in range(first, last + 1))


def _describe(error: Exception) -> str:
    if not isinstance(error, MakoException):
        trace = RichTraceback()
        frames = [r for r in trace.records if r[6] is not None]
        if frames:
            _, _, _, _, filename, line, _, source = frames[-1][:8]
            line = line or _first_use(error, source)
            lines = numbered(source or "", line, 4) if source and line else ""
            return f"{error!r} at {filename}:{line}\n{lines}"
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _first_use(error: Exception, source: str | None) -> int | None:
    """The first line with an undefined name.  Mako looks up all names first, and gives no line."""
    name = re.match(r"'(\w+)' is not defined", str(error))
    if name is None:
        return None
    lines = enumerate((source or "").splitlines(), 1)
    return next((i for i, line in lines if re.search(rf"\b{name[1]}\b", line)), None)


@lru_cache(maxsize=64)
def _squeeze(text: str) -> str:
    """Drop the blank lines that control structures leave behind, keeping single ones."""
    out: list[str] = []
    for line in (raw.rstrip() for raw in text.splitlines()):
        if line or (out and out[-1]):
            out.append(line)
    return "\n".join(out).strip() + "\n"
