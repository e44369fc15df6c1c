# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names with ends of lines in them: what another process calls itself and its files forges no line of what the kernel
says of it. The kernel escapes newlines only (fs/proc/array.c, fs/proc/task_mmu.c)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gilk.errors import UsageError
from gilk.session.broker import control
from gilk.session.broker.control import ControlServer
from gilk.targets import bounds
from gilk.targets.bounds import backing_at
from gilk.targets.maps import holders, read_maps
from gilk.targets.status import status_of
from tests.behaviour.waiting import PATIENCE

FORGED, NAME = 0x1234567000, "gilk-code-forged"
LIAR = """
import ctypes, mmap, os, sys
ctypes.CDLL(None).prctl(15, b"a\\rForged:\\t1", 0, 0, 0)  # PR_SET_NAME
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
memory = mmap.mmap(file, 4096)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[int]:
    """A process that has mapped a file the name of which ends in the line of another mapping."""
    directory = tmp_path / f"a\r{FORGED:x}-{FORGED + 4096:x} r-xp 00000000 00:01 5 "
    directory.mkdir()
    words = [sys.executable, "-c", LIAR, directory / f"memfd:{NAME}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        yield program.pid


def test_file_names_with_line_ends_forge_no_mappings(liar: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(NAME in mapping.path and "\r" in mapping.path for mapping in read_maps(liar)), "else it shows nothing"
    assert liar not in holders(NAME)
    (mapping,) = (each for each in read_maps(liar) if NAME in each.path)
    for asks in (True, False):
        found = backing_at(liar, mapping.start)
        assert found is not None
        assert (found.start, found.end, found.inode) == (mapping.start, mapping.end, mapping.inode)
        assert backing_at(liar, FORGED) is None, asks
        monkeypatch.setattr(bounds, "PROCMAP_QUERY", 0)  # as before Linux 6.11


def test_process_names_with_line_ends_forge_no_status(liar: int) -> None:
    assert b"\r" in Path(f"/proc/{liar}/comm").read_bytes(), "else it shows nothing"
    found = status_of(liar)
    assert b"Forged" not in found and int(found[b"Pid"]) == liar


def test_sockets_with_the_pid_of_a_weaver_do_not_hide_it() -> None:
    """Each user may take some, with another user's number in it."""
    own, found = os.getpid(), list[object]()
    with ExitStack() as stack, ControlServer(lambda words: {"heard": words["what"]}) as server:
        for user in range(os.geteuid() + 1, os.geteuid() + 30):
            decoy = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            decoy.bind(f"\0gilk-weave-{user}-{own}".encode())
            decoy.listen()

        def asking() -> None:
            try:
                found.append(control.ask(own, {"what": 7}))
            except UsageError as error:
                found.append(error.slug)

        thread = threading.Thread(target=asking)
        thread.start()
        while thread.is_alive():
            server.answer()
            thread.join(0.01)
        thread.join(PATIENCE)
    assert found == [{"heard": 7}]
