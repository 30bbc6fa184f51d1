"""List the OpenCL devices, as ``portable-gpu info [--json]`` does."""

import sys

from portable_gpu.cli import main

sys.exit(main(["info", *sys.argv[1:]]))
