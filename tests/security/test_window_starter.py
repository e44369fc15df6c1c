# SPDX-License-Identifier: LGPL-2.1-or-later
"""A server that was taken over speaks to the starter of its window directly, which is root: it starts the window's
programs, kills those alone, and takes nothing else for a question.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gilk.web.grants import Grants, handed
from gilk.web.starter import LONGEST, WORDS, ListeningPlace, Starter
from tests.behaviour.harness import wait_for
from tests.web.served import PATIENCE

Json = dict[str, Any]


@dataclass
class Spoken:
    """A starter to which the test is the server."""

    end: socket.socket
    noting: int
    audit: Path
    place: Path
    thread: threading.Thread
    fds: list[int] = field(default_factory=list)

    def send(self, packet: bytes, fds: tuple[int, ...] = ()) -> tuple[Json, list[int]]:
        """The answer to a packet, and its descriptors."""
        socket.send_fds(self.end, [packet], fds)
        data, found, _, _ = socket.recv_fds(self.end, LONGEST, 8)
        self.fds += found
        return json.loads(data), found

    def ask(self, word: str, value: Any) -> tuple[Json, list[int]]:
        return self.send(json.dumps({"id": 7, word: value}).encode())

    def close(self) -> None:
        """End, as a server does: all its descriptors are closed."""
        self.end.close()
        while self.fds:
            os.close(self.fds.pop())

    def slug(self, packet: bytes, fds: tuple[int, ...] = ()) -> str:
        said, found = self.send(packet, fds)
        assert not found
        return str(said.get("error", {}).get("slug", ""))


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Spoken]:
    """It has to end when the server does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(PATIENCE)
    notes, noting = os.pipe()
    audit = os.open(tmp_path / "audit", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    memory = handed(Grants())
    place = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        thread = threading.Thread(
            target=Starter(theirs, memory, notes, audit, ListeningPlace.of(place)).serve, daemon=True
        )  # fmt: skip
        thread.start()
        spoken = Spoken(ours, noting, tmp_path / "audit", place, thread)
        yield spoken
        spoken.close()
        os.close(noting)
        thread.join(PATIENCE)
        assert not thread.is_alive()
    for each in (notes, audit, memory):
        os.close(each)


MALFORMED = [
    b"x", b"[]", b"{}", b"5", b"null", b'"start"', b"{" * 2000, b"[" * 4000, b"\xff\xfe", b'{"id": 1}',
    b'{"start": "host"}', b'{"id": true, "start": "host"}', b'{"id": "1", "start": "host"}',
    b'{"id": 1, "start": "host", "kill": 1}', b'{"id": 1, "start": 1}', b'{"id": 1, "start": ["host"]}',
    b'{"id": 1, "start": null}', b'{"id": 1, "kill": "1"}', b'{"id": 1, "kill": true}', b'{"id": 1, "kill": 1.5}',
    b'{"id": 1, "exec": "sh"}', b'{"id": 1, "__class__": "x"}', b'{"id": 1, "id": 2}',
    b'{"id": 1, "start": "' + b"x" * LONGEST + b'"}',
]  # fmt: skip


def test_malformed_packets_are_refused(starter: Spoken) -> None:
    for packet in MALFORMED:
        assert starter.slug(packet) == "bad-request", packet
    given = b'{"id": 1, "start": "reach_worker"}'
    with open("/dev/null") as null:
        assert starter.slug(given, (null.fileno(),) * 8) == "bad-request", "descriptors are no part of a question"
    assert starter.ask("start", "reach_worker")[0]["pid"], "the control: it goes on"


@pytest.mark.parametrize("name", [
    "sh", "/bin/sh", "gilk.web.host", "../host", "host.x", "serve", "starter", "host\0", "host ", "", "HOST", "-c",
    "x" * 1000,
])  # fmt: skip
def test_other_programs_are_not_started(starter: Spoken, name: str) -> None:
    said, fds = starter.ask("start", name)
    assert said["error"]["slug"] == "not-granted" and said["id"] == 7 and not fds


def test_it_kills_its_own_programs_alone(starter: Spoken) -> None:
    said, fds = starter.ask("start", "reach_worker")
    assert len(fds) == 3
    pidfd = fds[2]
    another = subprocess.Popen(["sleep", "1000"])
    try:
        for pid in (another.pid, os.getpid(), 1, 0, -1, -said["pid"], 1 << 40):
            assert starter.ask("kill", pid)[0]["error"]["slug"] == "no-such-process", pid
        assert another.poll() is None, "it runs"
        assert not select.select([pidfd], [], [], 0)[0]
        assert "error" not in starter.ask("kill", said["pid"])[0]
        assert select.select([pidfd], [], [], PATIENCE)[0]
        assert wait_for(lambda: starter.ask("kill", said["pid"])[0].get("error", {}).get("slug") == "no-such-process")
    finally:
        another.kill()
        another.wait()


def test_programs_end_with_the_server(starter: Spoken) -> None:
    """A packet that is not read is lost with the server, and so are the descriptors in it."""
    pidfd = os.dup(starter.ask("start", "reach_worker")[1][2])
    starter.end.send(b'{"id": 1, "start": "worker"}')
    starter.close()
    assert select.select([pidfd], [], [], PATIENCE)[0]
    os.close(pidfd)
    assert wait_for(lambda: not starter.place.exists()), "the window's socket is removed"


def test_another_file_in_the_place_of_the_socket_stays(starter: Spoken) -> None:
    starter.place.unlink()
    starter.place.write_text("mine")
    starter.end.close()
    starter.thread.join(PATIENCE)
    assert not starter.thread.is_alive() and starter.place.read_text() == "mine"


def test_the_audit_is_only_appended_to(starter: Spoken) -> None:
    for line in (b"one\n", b"two\n"):
        os.write(starter.noting, line)
    assert wait_for(lambda: starter.audit.read_bytes() == b"one\ntwo\n")


def test_a_server_that_takes_no_answers_holds_nothing_up(starter: Spoken) -> None:
    starter.end.setblocking(False)
    sent = 0
    while sent < 2000:
        try:
            starter.end.send(b"x")
            sent += 1
        except BlockingIOError:
            if not select.select([], [starter.end], [], 0.2)[1]:
                break
    os.write(starter.noting, b"still\n")
    assert wait_for(lambda: starter.audit.read_bytes() == b"still\n")


def test_the_vocabulary_is_closed() -> None:
    assert set(WORDS) == {"start", "kill"}, "a new word needs tests here"
