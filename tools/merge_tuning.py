"""Take rows that ``portable-gpu tune`` has stored for a user into the shipped tables.

    python tools/merge_tuning.py ~/.config/portable_gpu/tuning.json

Each row goes to the file of its device in ``portable_gpu/tuning/data`` and replaces an older one of
the same key.  Rows without the tuner's evidence are refused, because their gain cannot be checked.
Read the difference before you commit it.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from portable_gpu.tuning.store import store
from portable_gpu.tuning.table import read_rows

DATA = Path(__file__).parents[1] / "portable_gpu" / "tuning" / "data"
EVIDENCE = {"baseline", "speed_up", "spread", "driver", "date", "problem"}


def merge(source: Path, folder: Path = DATA) -> list[Path]:
    """Merge the rows of ``source``; returns the files written.

    Raises:
        TuningFileError: ``source`` cannot be read.
        ValueError: A row lacks evidence; nothing is written then.
    """
    by_file: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_rows(source):
        missing = EVIDENCE - set(row.get("evidence", {}))
        if missing:
            key = f"{row['kernel']} {row['element']} {row['shape_class']} on {row['device']}"
            raise ValueError(f"the row {key} has no {', '.join(sorted(missing))}; tune it again")
        by_file[file_name(row["device"])].append(row)
    for name, rows in by_file.items():
        store(folder / name, rows)
    return [folder / name for name in by_file]


def file_name(device: str) -> str:
    """``nvidia_h200.json``."""
    return re.sub(r"[^a-z0-9]+", "_", device.lower()).strip("_") + ".json"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for written in merge(Path(sys.argv[1])):
        print(written)
