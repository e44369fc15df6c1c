# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pages that hold something, among those that were reserved: they are the ones that were written to."""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gilk.targets import used_pages
from gilk.targets.used_pages import used

PAGE, NOT_HUGE = 4096, 15  # MADV_NOHUGEPAGE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@contextmanager
def reserved(size: int) -> Iterator[int]:
    at = _libc.mmap(None, size, 3, 0x4022, -1, 0)  # PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    if at == ctypes.c_void_p(-1).value:
        pytest.skip("so much cannot be reserved here")
    _libc.madvise(at, size, NOT_HUGE)
    yield at
    _libc.munmap(at, size)


@pytest.fixture
def pagemap() -> Iterator[int]:
    descriptor = os.open("/proc/self/pagemap", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def write(at: int, pages: list[int]) -> None:
    for page in pages:
        ctypes.memset(at + page * PAGE, 1, 1)


@pytest.mark.parametrize("asks", [True, False])
def test_used_pages_are_those_that_were_written_to(pagemap: int, asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not asks:
        monkeypatch.setattr(used_pages, "PAGEMAP_SCAN", 0)
    monkeypatch.setattr(used_pages, "_ROOM", 2)
    pages = 3 * used_pages._PART // PAGE
    part = pages // 3
    with reserved(pages * PAGE) as at:
        write(at, [0, 5, 6, 9, 700, 701, 702, part - 1, part, 2 * part, pages - 1])
        found = [((low - at) // PAGE, (high - at) // PAGE) for low, high in used(pagemap, at, at + pages * PAGE)]
        assert found == [
            (0, 1), (5, 7), (9, 10), (700, 703), (part - 1, part + 1), (2 * part, 2 * part + 1), (pages - 1, pages)
        ]  # fmt: skip
        assert list(used(pagemap, at + 10 * PAGE, at + 700 * PAGE)) == []


def test_unused_terabytes_are_not_read(pagemap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program under AddressSanitizer has reserved some twenty."""
    size, asked = 16 << 40, []

    def counted(*given: object) -> int:
        asked.append(given)
        return int(fcntl.ioctl(*given))  # type: ignore[call-overload]

    def forbidden(*given: object) -> bytes:
        raise AssertionError(given)

    with reserved(size) as at:
        write(at, [0, size // PAGE - 1])
        if not supported(pagemap, at):
            pytest.skip("this kernel cannot be asked for pages that are used")
        monkeypatch.setattr(used_pages.os, "pread", forbidden)
        monkeypatch.setattr(used_pages, "fcntl", type("Counted", (), {"ioctl": staticmethod(counted)}))
        assert list(used(pagemap, at, at + size)) == [(at, at + PAGE), (at + size - PAGE, at + size)]
    assert len(asked) == 1


def supported(pagemap: int, at: int) -> bool:
    scan = used_pages._Scan(size=ctypes.sizeof(used_pages._Scan), start=at, end=at + PAGE)
    try:
        fcntl.ioctl(pagemap, used_pages.PAGEMAP_SCAN, scan)
    except OSError:
        return False
    return True
