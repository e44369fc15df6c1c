# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the other tests look at a process with sees what is gilk's, and nothing else."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from tests.behaviour.harness import leftovers


@pytest.mark.parametrize("name", ["gilk-code-1-ab", "gilk-data-1-ab", "gilk-memory-1-ab", "gilk-raised-1-ab"])
def test_memory_of_gilk_is_left_over(name: str) -> None:
    fd = os.memfd_create(name)
    os.ftruncate(fd, mmap.PAGESIZE)
    assert leftovers(os.getpid()) == [f"{fd} -> /memfd:{name} (deleted)"]
    with mmap.mmap(fd, mmap.PAGESIZE):
        os.close(fd)
        mapping, own_descriptor = leftovers(os.getpid())
        assert mapping.endswith(f" /memfd:{name} (deleted)") and own_descriptor.endswith(f" -> /memfd:{name} (deleted)")
    assert leftovers(os.getpid()) == []


def test_a_file_of_the_cache_is_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path))
    with open(tmp_path / "blob", "w") as file:
        assert leftovers(os.getpid()) == [f"{file.fileno()} -> {tmp_path}/blob"]


def test_a_checkout_called_gilk_is_not(tmp_path: Path) -> None:
    path = tmp_path / "gilk" / "memfd:gilk-code-1"
    path.parent.mkdir()
    path.write_bytes(bytes(mmap.PAGESIZE))
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        assert "gilk" in Path("/proc/self/maps").read_text()
        assert leftovers(os.getpid()) == []
