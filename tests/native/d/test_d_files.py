# SPDX-License-Identifier: LGPL-2.1-or-later
"""The files of the thread's descriptors, and its directory, agree with the kernel's /proc and with Python's system
calls."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.trace.d.memory import MemoryOptions
from tests.native.d.session import Session, Shared

pytestmark = pytest.mark.usefixtures("either_host")
STRSIZE = 256
_shared = Shared(MemoryOptions(1, strsize=STRSIZE, globals_size=512))


@pytest.fixture
def session() -> Iterator[Session]:
    made = _shared.session()
    yield made
    made.end()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "some file"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDWR | os.O_APPEND)
    os.lseek(fd, 7, os.SEEK_SET)
    yield fd
    os.close(fd)


def test_facts_of_a_files_descriptor_agree_with_proc(session: Session, opened: int) -> None:
    far = fcntl.fcntl(opened, fcntl.F_DUPFD, 1000)
    for fd in (opened, far):
        assert session.text("fdpath", fd) == os.readlink(f"/proc/self/fd/{fd}").encode()
        assert session.fdoffset(fd) == 7
        assert session.fdflags(fd) & (os.O_RDWR | os.O_APPEND) == os.O_RDWR | os.O_APPEND
    os.close(far)


def test_the_mount_of_a_file_agrees_with_proc(session: Session, opened: int, either_host: str) -> None:
    (line,) = (line for line in Path(f"/proc/self/fdinfo/{opened}").read_text().splitlines() if "mnt_id" in line)
    assert session.fdmount(opened) == (int(line.split()[1]) if either_host == "process" else 0)


def test_a_pipe_has_the_path_in_proc_and_offset_zero(session: Session) -> None:
    ends = os.pipe()
    try:
        assert session.text("fdpath", ends[0]) == os.readlink(f"/proc/self/fd/{ends[0]}").encode()
        assert session.fdoffset(ends[0]) == 0
    finally:
        for end in ends:
            os.close(end)


@pytest.mark.parametrize("fd", [-1, 987654, 2147483647, 1 << 31])
def test_an_invalid_descriptor_has_no_path(session: Session, fd: int) -> None:
    assert session.text("fdpath", fd) == b"<none>"
    assert (session.fdoffset(fd), session.fdflags(fd), session.fdmount(fd)) == (0, 0, -1)


def test_the_working_directory_agrees_with_proc(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert session.text("cwd") == bytes(tmp_path)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert session.text("cwd") == b"<unknown>"


def test_a_directory_with_a_too_long_path_is_unknown(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert session.text("cwd") == b"<unknown>"


def test_vtimestamp_agrees_with_the_threads_clock(session: Session, either_host: str) -> None:
    if either_host == "process":
        before = time.thread_time_ns()
        assert before <= session.vtimestamp() <= time.thread_time_ns()
