"""The check of PoCL's cache, which only one thread of a process makes."""

from __future__ import annotations

import threading
import time

import pytest

from portable_gpu.runtime import pocl_entries


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that have checked all entries, which takes a while."""
    result: list[str] = []

    def check() -> None:
        time.sleep(0.05)
        result.append(threading.current_thread().name)

    monkeypatch.setattr(pocl_entries, "_state", "")
    monkeypatch.setattr(pocl_entries, "_discard_all_damaged", check)
    return result


def test_threads_wait_for_the_one_that_checks(checks: list[str]) -> None:
    seen: list[int] = []

    def build() -> None:
        pocl_entries.discard_damaged()
        seen.append(len(checks))

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 8


def test_a_check_that_a_signal_ends_is_made_again(
    checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pocl_entries._discard_all_damaged

    def interrupted() -> None:
        pocl_entries.discard_damaged()  # by a handler that builds: it does not wait for itself
        raise KeyboardInterrupt

    monkeypatch.setattr(pocl_entries, "_discard_all_damaged", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pocl_entries.discard_damaged()
    monkeypatch.setattr(pocl_entries, "_discard_all_damaged", whole)
    pocl_entries.discard_damaged()
    assert len(checks) == 1
