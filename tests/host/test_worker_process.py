"""Worker processes end with the main process, also if it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

_MAIN = """
import multiprocessing, os, time
from portable_gpu.bench.worker_process import settle

def work(ready):
    settle()
    ready.send(os.getpid())
    time.sleep(600)

if __name__ == "__main__":
    receiver, sender = multiprocessing.Pipe(duplex=False)
    multiprocessing.get_context("spawn").Process(target=work, args=(sender,)).start()
    print(receiver.recv(), flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_worker_ends_when_its_main_process_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(_MAIN)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as main:
        assert main.stdout is not None
        worker = int(main.stdout.readline())
        main.kill()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the worker has not ended")
