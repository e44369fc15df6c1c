# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's answers about the mapping at an address agree with /proc/PID/maps, whichever way the kernel is asked."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gilk.errors import TargetError
from gilk.targets import bounds
from gilk.targets.maps import read_maps
from tests.behaviour.harness import Loop
from tests.programs.build import build


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    """Stop all threads of a child, one of which might be loading a library."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("request_number", [bounds.PROCMAP_QUERY, bounds.PROCMAP_QUERY + 100])
def test_bounds_of_mappings_agree_with_proc_maps(request_number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second request number is unknown to all kernels."""
    monkeypatch.setattr(bounds, "PROCMAP_QUERY", request_number)
    with Loop([build("threads")]) as loop, _standing_still(loop.pid), bounds.bounds_in(loop.pid) as at:
        maps = [mapping for mapping in read_maps(loop.pid) if mapping.path.startswith("/")]
        assert len(maps) > 5
        for mapping in maps:
            whole = mapping.start, mapping.end
            assert at(mapping.start) == at(mapping.end - 1) == at(mapping.start + 8) == whole
            assert at(mapping.start - 1) != whole != at(mapping.end)
        assert at(0) is None


def test_bounds_of_a_missing_process_are_an_error() -> None:
    with pytest.raises(TargetError) as raised, bounds.bounds_in((1 << 22) + 1):
        pass
    assert raised.value.slug == "no-such-process"


def test_bounds_of_gilks_own_mappings() -> None:
    here = read_maps(os.getpid())[0]
    with bounds.bounds_in(os.getpid()) as at:
        assert at(here.start) == (here.start, here.end)


@pytest.mark.parametrize("asked", [True, False])
def test_the_mapped_file_and_offset_at_an_address_are_found(asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds whether the kernel can be asked about one address, or has to list all mappings."""
    if not asked:
        monkeypatch.setattr(bounds, "PROCMAP_QUERY", bounds.PROCMAP_QUERY + 100)
    fd = os.memfd_create("test")
    try:
        os.ftruncate(fd, 3 * 4096)
        with mmap.mmap(fd, 4096, offset=2 * 4096) as memory:
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            found = bounds.backing_at(os.getpid(), address + 5)
            assert found is not None and found.start <= address < found.end
            assert found.offset + address - found.start == 2 * 4096
            held = os.fstat(fd)
            assert (found.device, found.inode) == (held.st_dev, held.st_ino)
    finally:
        os.close(fd)
    assert bounds.backing_at(os.getpid(), 0) is None
