"""The output of a process to a terminal, which may differ from what it writes elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def on_terminal(script: str) -> str:
    """Return the output of a Python script to a terminal; it must succeed."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", script], stdout=follower, stderr=follower)
    os.close(follower)
    written = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        written += part
    os.close(leader)
    assert process.wait(60) == 0, written
    return written.decode()
