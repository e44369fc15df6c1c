# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the other tests look at a process with sees what is gilk's, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.behaviour.harness import leftovers

MAKES = "import mmap, os, sys; fd = os.memfd_create(sys.argv[1]); os.ftruncate(fd, 4096); "
WAITS = "print(fd, flush=True); sys.stdin.read()"


@contextmanager
def process(code: str, argument: str) -> Iterator[tuple[int, int]]:
    """One of its own, since the tests' may have memory of sessions that are over; its number, and a descriptor of its."""
    words = [sys.executable, "-c", code + WAITS, argument]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as made:
        assert made.stdin and made.stdout
        with made.stdin:
            yield made.pid, int(made.stdout.readline())


@pytest.mark.parametrize("name", ["gilk-code-1-ab", "gilk-data-1-ab", "gilk-memory-1-ab", "gilk-raised-1-ab"])
def test_memory_of_gilk_is_left_over(name: str) -> None:
    with process(MAKES, name) as (pid, fd):
        assert leftovers(pid) == [f"{fd} -> /memfd:{name} (deleted)"]
    with process(MAKES + "kept = mmap.mmap(fd, 4096); os.close(fd);", name) as (pid, _):
        mapping, own_descriptor = leftovers(pid)
        assert mapping.endswith(f" /memfd:{name} (deleted)") and own_descriptor.endswith(f" -> /memfd:{name} (deleted)")
    with process(MAKES + "os.close(fd);", name) as (pid, _):
        assert leftovers(pid) == []


def test_a_file_of_the_cache_is_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path))
    opens = "import os, sys; fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR); "
    with process(opens, str(tmp_path / "blob")) as (pid, fd):
        assert leftovers(pid) == [f"{fd} -> {tmp_path}/blob"]


def test_a_checkout_called_gilk_is_not(tmp_path: Path) -> None:
    path = tmp_path / "gilk" / "memfd:gilk-code-1"
    path.parent.mkdir()
    path.write_bytes(bytes(4096))
    maps = "import mmap, os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); kept = mmap.mmap(fd, 4096, prot=mmap.PROT_READ); "
    with process(maps, os.fspath(path)) as (pid, _):
        assert "gilk" in Path(f"/proc/{pid}/maps").read_text()
        assert leftovers(pid) == []
