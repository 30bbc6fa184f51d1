"""Build the documentation: the public names from their docstrings, and the pages of docs/.

    python tools/build_docs.py [FOLDER]

Writes HTML to FOLDER (default build/docs); open its index.html, the README with its tour.  Fails if
a public name has no docstring.  Needs the extra [docs].
"""

from __future__ import annotations

import html
import inspect
import re
import sys
from pathlib import Path

import pdoc
import pdoc.render
from pdoc.render_helpers import to_html

import portable_gpu
from portable_gpu.version import __version__

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    "portable_gpu",
    "portable_gpu.fft",
    "portable_gpu.linalg",
    "portable_gpu.nn",
    "portable_gpu.signal",
    "portable_gpu.sparse",
    "portable_gpu.errors",
    "portable_gpu.targets",
    "portable_gpu.tuning.policy",
    "portable_gpu.tuning.table",
)
#: Methods of an engine that are for users; the others, like attributes that its docstring does not
#: name, are for the library.
ENGINE_METHODS = ("__init__", "close", "warm_up")
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; }} td, th {{ border: 1px solid #ccc; padding: .2em .6em; }}
pre {{ padding: .6em; font-size: 14px; white-space: pre-wrap; overflow-wrap: anywhere; }}
nav a {{ margin-right: 1em; }} td {{ overflow-wrap: anywhere; }}
{colours}
pre, .pdoc-code {{ background: #f6f6f6; }}
</style>
<nav>{links}</nav>
{body}
</html>
"""


def pages() -> dict[str, Path]:
    """The Markdown files, by the names of their HTML files."""
    result = {"index.html": ROOT / "README.md"}
    for path in sorted((ROOT / "docs").glob("*.md")):
        result[f"{path.stem.lower()}.html"] = path
    for path in sorted((ROOT / "docs").glob("*/*.md")):
        folder = path.parent.name
        name = folder if path.stem == "README" else f"{folder}_{path.stem.lower()}"
        result[f"{name}.html"] = path
    result["contributing.html"] = ROOT / "CONTRIBUTING.md"
    result["changelog.html"] = ROOT / "CHANGELOG.md"
    return result


def titles(names: dict[str, Path]) -> dict[str, str]:
    """The text of the links at the top of each page: the start and the functions first.

    A folder of docs/ has one link, to its README, which links to the others.
    """
    result = {"index.html": "Start", "portable_gpu.html": "Functions"}
    for name, path in names.items():
        if path.parent in (ROOT, ROOT / "docs"):
            result.setdefault(name, path.stem.replace("_", " ").title())
        elif path.stem == "README":
            result[name] = path.parent.name.title()
    return result


def put_functions_first() -> None:
    """Let pdoc list what users call, then the classes."""
    public = [name for name in portable_gpu.__all__ if not name.startswith("_")]
    portable_gpu.__all__ = sorted(public, key=lambda name: (name[0].isupper(), name))


def internals() -> set[str]:
    """Members of public classes that are not for users."""
    engine = portable_gpu.Engine
    named = set(re.findall(r"^    (\w+):", inspect.getdoc(engine) or "", re.MULTILINE))
    source = inspect.getsource(engine)
    members = {*vars(engine), *re.findall(r"self\.(\w+)", source)} - named - {*ENGINE_METHODS}
    return {f"portable_gpu.Engine.{name}" for name in members}


def write_page(out: Path, source: Path, links: str, names: dict[str, Path]) -> None:
    """Write a Markdown file as HTML, with links to the HTML of other pages."""
    by_path = {path: name for name, path in names.items()}

    def link(found: re.Match[str]) -> str:
        name = by_path.get((source.parent / found["path"]).resolve())
        return found[0] if name is None else f"]({name}{found['heading'] or ''})"

    text = source.read_text(encoding="utf-8")
    text = re.sub(r"\]\((?P<path>[^)#:]+\.md)(?P<heading>#[^)]*)?\)", link, text)
    title = text.splitlines()[0].lstrip("# ")
    out.write_text(
        PAGE.format(title=html.escape(title), links=links, body=to_html(text), colours=colours()),
        encoding="utf-8",
    )


def colours() -> str:
    """The style sheet of coloured code, pdoc's own."""
    folder = Path(pdoc.__file__).parent / "templates"
    return (folder / "syntax-highlighting.css").read_text(encoding="utf-8")


def undocumented() -> list[str]:
    """Public functions and classes without a docstring."""
    public = {name: getattr(portable_gpu, name) for name in portable_gpu.__all__}
    return [
        name
        for name, value in public.items()
        if (inspect.isfunction(value) or inspect.isclass(value)) and not inspect.getdoc(value)
    ]


def main() -> int:
    """Build everything; 1 if a docstring is missing."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs")
    if missing := undocumented():
        print(f"no docstring: {', '.join(missing)}")
        return 1
    names = pages()
    pdoc.render.configure(
        docformat="google", footer_text=f"portable_gpu {__version__}", show_source=False,
        math=False, template_directory=Path(__file__).parent / "docs_template",
    )  # fmt: skip
    pdoc.render.env.globals |= {"pages": titles(names), "internals": internals()}
    put_functions_first()
    pdoc.pdoc(*MODULES, "!portable_gpu.cli", output_directory=out)
    for page in [*out.rglob("portable_gpu*.html"), *(out / "portable_gpu").rglob("*.html")]:
        text = page.read_text(encoding="utf-8")  # Sphinx's ~, which pdoc does not know
        page.write_text(text.replace("<code>~<a", "<code><a"), encoding="utf-8")
    links = "".join(f'<a href="{name}">{title}</a>' for name, title in titles(names).items())
    for name, path in names.items():
        write_page(out / name, path, links, names)
    print(f"{len(names)} pages and {len(MODULES)} modules in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
