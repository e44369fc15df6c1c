# SPDX-License-Identifier: LGPL-2.1-or-later
"""A launched program has the files that it was given, and none of gilk's; a session leaves no files open."""

from __future__ import annotations

import gc
import os
from contextlib import suppress

import pytest

import gilk
from gilk.session.broker.client_session import ClientSession
from gilk.session.session import Session
from tests.behaviour.harness import Loop, plain, run
from tests.programs.build import build


def test_a_launched_program_has_no_open_file_of_gilk() -> None:
    command = ["/bin/ls", "/proc/self/fd"]
    assert run(["*:entry=count"], command).visible == plain(command).visible


def test_a_launched_program_inherits_every_file_that_it_was_given() -> None:
    """The shell's `3<file` passes such a file."""
    reading, writing = os.pipe()
    os.write(writing, b"handed over\n")
    os.close(writing)
    ran = run(["*:entry=count"], ["/bin/cat", f"/dev/fd/{reading}"], pass_fds=(reading,))
    os.close(reading)
    assert (ran.status, ran.stdout) == (0, b"handed over\n"), ran.stderr


@pytest.mark.parametrize("kind", [ClientSession, Session])
def test_a_session_leaves_no_file_open_in_the_client(kind: type[ClientSession | Session]) -> None:
    """``Session`` is the kind that aspects and advice use too."""

    def shared() -> list[str]:
        gc.collect()  # a mapped object stays open until then
        return [link for link in files() if link.startswith("/memfd:gilk-")]

    with Loop([build("hot8")]) as loop:
        before = shared()
        with gilk.attach(loop.pid) as target:
            session = kind(target.process, points=4, threads=8, ring=1 << 12)
            with session:
                session.insert("hot:entry", "count")
                assert len(shared()) > len(before)
        del session
        assert shared() == before


def files() -> list[str]:
    """The names of the files that this process has open."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the directory itself
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(links)
