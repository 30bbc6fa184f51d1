"""Run ``portable-gpu check-isa`` from a checkout, with its arguments."""

from __future__ import annotations

import sys

from portable_gpu.cli import main

if __name__ == "__main__":
    sys.exit(main(["check-isa", *sys.argv[1:]]))
