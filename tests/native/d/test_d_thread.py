# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's facts about the thread in which a probe fires, compared with /proc, which counts priorities from 100."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from gilk.trace.d.memory import MemoryOptions
from tests.native.d.session import Session, Shared

pytestmark = pytest.mark.usefixtures("either_host")
_shared = Shared(MemoryOptions(1, strsize=64, globals_size=512))


@pytest.fixture
def session() -> Iterator[Session]:
    made = _shared.session()
    yield made
    made.end()


def told() -> tuple[str, int, int]:
    """The thread's name, priority and niceness."""
    name, _, rest = Path("/proc/thread-self/stat").read_text().partition("(")[2].rpartition(") ")
    words = rest.split()
    return name, int(words[15]) + 100, int(words[16])


def seen(session: Session) -> tuple[str, int, int]:
    name = session.text("threadname") or b""
    return name.decode(), session.threadpriority(), session.threadnice()


def test_facts_of_the_thread_agree_with_proc(session: Session) -> None:
    assert seen(session) == told()


def test_facts_of_a_named_thread_with_low_priority_agree_with_proc(session: Session) -> None:
    found: list[tuple[str, int, int]] = []

    def work() -> None:
        os.setpriority(os.PRIO_PROCESS, 0, 7)  # Linux: of the thread
        Path("/proc/thread-self/comm").write_text("fifteen letters")
        found.extend((seen(session), told()))

    thread = Thread(target=work)
    thread.start()
    thread.join(60)
    assert found[0] == found[1] == ("fifteen letters", 127, 7)


def test_facts_of_a_real_time_thread_agree_with_proc(session: Session) -> None:
    found: list[tuple[str, int, int]] = []

    def work() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
        except PermissionError:
            return
        found.extend((seen(session), told()))

    thread = Thread(target=work)
    thread.start()
    thread.join(60)
    if not found:
        pytest.skip("threads of real time are not permitted here")
    assert found[0] == found[1]
    assert found[0][1] == 94
