# SPDX-License-Identifier: LGPL-2.1-or-later
"""Questions that a copy of this process answers: it sees what this one has in memory, reads through it, and can be
ended without harm to it."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gilk.errors import TargetError, UsageError
from gilk.web.forked import Answers, ForkedWorker, Read

PATIENCE = 60.0
SLOW = UsageError("d-too-slow", "that was given up")
KNOWN = ["before"]


def answers(read: Read) -> Answers:
    def raises() -> dict[str, Any]:
        raise UsageError("no-such-probe", "there is none")

    return {
        "known": lambda: {"known": list(KNOWN), "pid": os.getpid()},
        "read": lambda path: {"text": read(path).decode()},
        "raises": raises,
        "sleeps": lambda: time.sleep(1000) or {},
        "fills": lambda: {"size": len(bytearray(1 << 40))},
        "descriptors": lambda: {"open": [link(number) for number in os.listdir("/proc/self/fd")]},
    }


def link(number: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except FileNotFoundError:  # the descriptor that has listed the others
        return ""


@pytest.fixture
def worker() -> Iterator[ForkedWorker]:
    found = ForkedWorker(answers, lambda path: Path(path).read_bytes())
    with contextlib.closing(found):
        yield found


def ask(worker: ForkedWorker, what: str, within: float = PATIENCE, **given: Any) -> Any:
    found = worker.ask({"id": 7, "ask": what, "given": given}, within, SLOW)
    assert found["id"] == 7
    return found.get("ok", found.get("error"))


def test_a_copy_knows_what_was_known_when_it_was_made(worker: ForkedWorker) -> None:
    first = ask(worker, "known")
    assert first["known"] == ["before"] and first["pid"] != os.getpid()
    KNOWN.append("later")
    assert ask(worker, "known") == first, "it is the same copy"
    worker.close()
    assert ask(worker, "known")["known"] == ["before", "later"]
    KNOWN.remove("later")


def test_files_are_read_by_the_original(worker: ForkedWorker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("its text")
    assert ask(worker, "read", path=str(tmp_path / "file")) == {"text": "its text"}


def test_errors_of_reading_are_those_of_the_original(tmp_path: Path) -> None:
    def make(read: Read) -> Answers:
        def number(path: str) -> dict[str, Any]:
            try:
                read(path)
            except OSError as error:
                return {"errno": error.errno}
            return {}

        return {"number": number}

    with contextlib.closing(ForkedWorker(make, lambda path: Path(path).read_bytes())) as worker:
        assert ask(worker, "number", path=str(tmp_path / "none")) == {"errno": errno.ENOENT}
        assert ask(worker, "number", path=str(tmp_path)) == {"errno": errno.EISDIR}


def test_errors_are_told(worker: ForkedWorker) -> None:
    assert ask(worker, "raises")["slug"] == "no-such-probe"


def test_a_copy_that_takes_too_long_is_killed_and_replaced(worker: ForkedWorker) -> None:
    before = ask(worker, "known")["pid"]
    with pytest.raises(UsageError, match="given up"):
        ask(worker, "sleeps", 0.2)
    assert not Path(f"/proc/{before}").exists()
    assert ask(worker, "known")["pid"] != before


def test_a_copy_that_takes_too_much_memory_ends_alone(worker: ForkedWorker) -> None:
    with pytest.raises(TargetError, match="the process that did this has ended"):
        ask(worker, "fills")
    assert ask(worker, "known")["known"] == ["before"]


def test_a_copy_has_no_descriptors_of_the_original(worker: ForkedWorker, tmp_path: Path) -> None:
    """Only its two pipes, the standard streams, and the one that lists them."""
    with (tmp_path / "held").open("w"):
        found = ask(worker, "descriptors")["open"]
    assert len(found) == 6 and not any("held" in path for path in found)
