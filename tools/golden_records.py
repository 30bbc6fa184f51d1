"""Check what the library would do with some 3000 random problems on devices it does not have.

    python tools/golden_records.py check            # the code against tests/golden
    python tools/golden_records.py update           # after an intended change
    python tools/golden_records.py diff             # HEAD's records against the code
    python tools/golden_records.py diff main        # another revision's against the code
    python tools/golden_records.py diff v0.3 main   # two revisions, or folders of checkouts

A record has the chosen way of each problem, its configuration, its launches, and a hash of each
text, which a renaming does not change.  ``diff`` shows what changed, and the differences of the
texts: those of another revision are rendered from a checkout of it in a temporary folder.  No
device is needed.  ``check`` takes 100 s on two cores, and ends with 1 if anything changed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from difflib import unified_diff
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from canonical_text import canonical, defined_by  # noqa: E402  # found by the line above
from random_problems import Problem  # noqa: E402
from recorded_devices import RECORDED  # noqa: E402
from recorder import recorded, target_of, texts_of  # noqa: E402
from records import KINDS, Change, Pair, Record, compared, file_name  # noqa: E402

GOLDEN = Path("tests", "golden")
#: Pairs, and texts, that are shown.
_PAIRS, _TEXTS = 40, 10
_PROCESSES = 2

Texts = dict[tuple[str, str], str]  # by device and hash


class Source:
    """Records, and the code that made them.

    Attributes:
        name: A revision, or a folder.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.folder = Path(name) if Path(name).is_dir() else None

    def record(self, device: str) -> Record | None:
        """The stored record of a device, if there is one."""
        file = file_name(device)
        if self.folder is not None:
            places = self.folder / GOLDEN / file, self.folder / file
            result = [place for place in places if place.is_file()]
            return Record.read(result[0].read_text(encoding="utf-8")) if result else None
        shown = _git("show", f"{self.name}:{(GOLDEN / file).as_posix()}")
        return Record.read(shown.stdout.decode()) if shown.returncode == 0 else None

    def texts(self, wanted: dict[str, list[str]]) -> Texts:
        """The texts of some problems of each device; none where there is only a folder of records.

        A process of its own renders them, by the code that made the records.
        """
        root = self._checkout() if self.folder is None else self.folder
        tool = root / "tools" / Path(__file__).name
        if not tool.is_file():
            print(f"{self.name} has no {tool.name}, so its texts are not shown")
            return {}
        ran = subprocess.run(
            [sys.executable, str(tool.resolve()), "texts"], input=json.dumps(wanted), text=True,
            stdout=subprocess.PIPE, check=True, env=os.environ | {"PYTHONPATH": ""},
        )  # fmt: skip
        return {(device, key): text for device, key, text in json.loads(ran.stdout)}

    def _checkout(self) -> Path:
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="golden-")
            archive = _git("archive", self.name)
            archive.check_returncode()
            with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
                tar.extractall(self._temporary.name, filter="data")
        return Path(self._temporary.name)


class Code(Source):
    """This checkout's code, whose records are made now."""

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__(str(ROOT))
        self.name = "the code"
        self._made = {record.device: record for record in made(devices)}

    def record(self, device: str) -> Record | None:
        """The record of a device."""
        return self._made.get(device)


def made(devices: Sequence[str]) -> Iterable[Record]:
    """The records of devices, by two processes."""
    with ProcessPoolExecutor(_PROCESSES) as pool:
        yield from pool.map(recorded, devices)


def check(devices: Sequence[str]) -> int:
    """Compare the code with the stored records."""
    begin = time.perf_counter()
    changes = differences(Source(str(ROOT)), Code(devices), devices)
    pairs = sum(len(item.pairs) for device in devices if (item := Source(str(ROOT)).record(device)))
    show(changes)
    print(
        f"{pairs} pairs of a problem and one of {len(devices)} devices, {len(changes)} of them "
        f"changed; {time.perf_counter() - begin:.0f} s"
    )
    if changes:
        print(
            "If it is meant: python tools/golden_records.py update, and commit tests/golden with "
            "the change.\nThe texts' differences: python tools/golden_records.py diff"
        )
    return int(bool(changes))


def update(devices: Sequence[str]) -> int:
    """Write the records of the code."""
    begin, size = time.perf_counter(), 0
    folder = ROOT / GOLDEN
    folder.mkdir(exist_ok=True)
    if len(devices) == len(RECORDED):
        known = {file_name(device) for device in devices}
        for file in folder.glob("*.json"):
            if file.name not in known:
                file.unlink()
    changed = 0
    for record in made(devices):
        file, text = folder / file_name(record.device), record.written()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            changed += 1
        size += len(text)
    took = time.perf_counter() - begin
    print(f"{changed} of {len(devices)} files written; {size} bytes in all; {took:.0f} s")
    return 0


def differences(old: Source, new: Source, devices: Sequence[str]) -> list[Change]:
    """The differences between the records of two sources."""
    result: list[Change] = []
    for device in devices:
        records = [
            source.record(device) or Record(device, "", {}) for source in (old, new)
        ]  # fmt: skip
        result += compared(*records)
    return result


def diff(a: str, b: str | None, devices: Sequence[str], pairs: int, texts: int, form: str) -> int:
    """Show the differences of two sources, and of their texts."""
    old, new = Source(a), Code(devices) if b is None else Source(b)
    for source in (old, new):
        if not any(source.record(device) for device in devices):
            print(f"{source.name} has no records", file=sys.stderr)
            return 2
    changes = differences(old, new, devices)
    show(changes, pairs)
    show_texts(old, new, changes, texts, form)
    return 0


def show(changes: Sequence[Change], most: int = _PAIRS) -> None:
    """Print what changed, a line for each pair."""
    if not changes:
        return
    kinds = Counter(kind for item in changes for kind in item.kinds)
    counts = [f"{kinds[kind]} {kind}" for kind in (*KINDS, "new", "gone", "options") if kinds[kind]]
    print(f"{len(changes)} pairs changed: {', '.join(counts)}")
    for item in changes[:most]:
        print(f"  {item.device}: {item.problem or 'the options of all texts'}")
        for line in _told(item):
            print(f"      {line}")
    if len(changes) > most:
        print(f"  ... and {len(changes) - most} more (diff --pairs)")


def _told(one: Change) -> list[str]:
    old, new = one.old, one.new
    if old is None or new is None:
        return [", ".join(one.kinds)]
    result = []
    if "way" in one.kinds:
        result.append(f"way: {old.path} ({old.way}) -> {new.path} ({new.way})")
    if "configuration" in one.kinds:
        result.append(f"configuration: {_fields(old, new)}")
    if "launches" in one.kinds:
        if old.launches == new.launches:
            result.append("launches: arguments or tables that stay")
        else:
            result.append(f"launches: {'; '.join(old.launches)} -> {'; '.join(new.launches)}")
    if "text" in one.kinds:
        names = dict.fromkeys(name for name, _, _ in one.texts)
        result.append(f"text: {', '.join(names) or 'the order'}")
    return result


def _fields(old: Pair, new: Pair) -> str:
    def values(pair: Pair) -> dict[str, Any]:
        fields = {
            f"{name}.{field}": value
            for name, _, *more in pair.texts
            for policy in more
            for field, value in policy.items()
        }
        return pair.policy | fields

    before, after = values(old), values(new)
    names = [
        name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)
    ]
    return ", ".join(f"{n} {before.get(n, '-')} -> {after.get(n, '-')}" for n in names) or "order"


def show_texts(old: Source, new: Source, changes: Sequence[Change], most: int, form: str) -> None:
    """Print the differences of texts, each once; every template has its turn."""
    pairs: dict[tuple[str, str, str], list[Change]] = defaultdict(list)
    for item in changes:
        for key in item.texts:
            pairs[key].append(item)
    if not pairs or not most:
        return
    order = _by_turns(sorted(pairs, key=lambda key: -len(pairs[key])))
    names: dict[str, list[str]] = defaultdict(list)
    for key in order[:most]:
        names[pairs[key][0].device].append(pairs[key][0].problem)
    before, after = old.texts(names), new.texts(names)
    seen = set[tuple[str, ...]]()
    for key in order[:most]:
        (name, left, right), item = key, pairs[key][0]
        lines = []
        for texts, digest in ((before, left), (after, right)):
            text = texts.get((item.device, digest), "")
            if digest and not text:
                print(f"\n({name} {digest} was not rendered: the record is of another code)")
            if form == "canonical":
                text = canonical(text, defined_by(target_of(item.device).options))
            lines.append(text.splitlines())
        shown = list(unified_diff(*lines, old.name, new.name, lineterm="", n=2))
        changed = tuple(line for line in shown[2:] if line[0] in "+-")
        if changed not in seen:
            seen.add(changed)
            print(f"\n== {name}, in {len(pairs[key])} pairs, here {item.device}: {item.problem}")
            print("\n".join(shown))
    if len(order) > most:
        print(f"\n... and {len(order) - most} more texts (--texts)")


def _by_turns(keys: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """One text of each template, then a second one of each, and so on."""
    turns, before = [], Counter[str]()
    for key in keys:
        turns.append((before[key[0]], key))
        before[key[0]] += 1
    return [key for _, key in sorted(turns, key=lambda turn: turn[0])]


def texts() -> int:
    """Render the texts that the standard input asks for; a step of ``diff``."""
    result = []
    for device, problems in json.load(sys.stdin).items():
        some = []
        for item in dict.fromkeys(problems):
            family, data = item.split(" ", 1)
            some.append(Problem(family, json.loads(data)))
        result += [(device, key, text) for key, _, text in texts_of(device, some)]
    json.dump(result, sys.stdout)
    return 0


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("check", "compare the code with the stored records"),
        ("update", "store the records of the code"),
        ("diff", "show what changed between two sources"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument(
            "--device", action="append", choices=list(RECORDED), metavar="NAME",
            help="only this one of tests/recorded_devices.py",
        )  # fmt: skip
        if name == "diff":
            command.add_argument("a", nargs="?", default="HEAD", help="a revision, or a folder")
            command.add_argument("b", nargs="?", help="likewise; without it the code as it is")
            command.add_argument("--pairs", type=int, default=_PAIRS, help="how many to show")
            command.add_argument("--texts", type=int, default=_TEXTS, help="how many to show")
            command.add_argument(
                "--canonical", dest="form", action="store_const", const="canonical",
                default="rendered", help="compare the texts' normal forms",
            )  # fmt: skip
    commands.add_parser("texts", help="render the texts that stdin asks for (a step of diff)")
    options = parser.parse_args()
    if options.command == "texts":
        return texts()
    devices = options.device or list(RECORDED)
    if options.command == "check":
        return check(devices)
    if options.command == "update":
        return update(devices)
    return diff(options.a, options.b, devices, options.pairs, options.texts, options.form)


if __name__ == "__main__":
    sys.exit(main())
