# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads that do not leave the code of instruments when they are asked to, on a machine that is busy enough."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

import gilk
from gilk.targets import changing, movement, spawning
from gilk.targets.movement import Busy, Movement
from gilk.targets.places import Places
from gilk.targets.thread import Thread
from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.behaviour.parked_program import (
    DEEP,
)
from tests.programs.build import build
from tests.seldom import seldom


@pytest.mark.parametrize("kind", seldom(["deep", "stamp", "count", "args"], 1))
def test_memory_goes_when_threads_leave_an_instrument_late(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may be on its way to a thread at each look at it, on a machine that is busy enough: then its patch is
    taken out all the same. The threads check their work all the time."""

    def stays(self: Movement, thread: Thread, old: Places, new: Places) -> NoReturn:
        raise Busy

    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    monkeypatch.setattr(changing, "_PATIENCE", 0.2)
    monkeypatch.setattr(Movement, "_settle", stays)
    spawning.begin()  # a keeper, which has that patience
    with Loop([build("hot8")]) as loop, gilk.attach(loop.pid) as target:
        for _ in range(6):
            with target.session() as session:
                session.insert("hot8:*:blocks", f"{source}:deep" if kind == "deep" else kind)
                wait_for(lambda session=session: session.poll() is not None)
            assert session.restored is True
            assert not session.notes
            assert differences(loop.pid) == [] and leftovers(loop.pid) == []


@pytest.mark.parametrize("kind", seldom(["args", "count", "stamp"], 1))
def test_threads_that_cannot_go_on_are_led_between_instruments(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals may come to a thread faster than it is stopped. The threads check their work all the time."""
    monkeypatch.setattr(movement, "_LONGEST", -1.0)
    monkeypatch.setattr(movement, "_TRIES", 0)
    spawning.begin()  # a keeper, which lets no thread go on
    with Loop([build("hot8")]) as loop, gilk.attach(loop.pid) as target, target.session() as session:
        session.insert("hot8:*:entry", "count")
        for _ in range(8):
            probes = session.insert("hot8:*:blocks", kind)
            wait_for(lambda: session.poll() is not None)
            session.remove(probes)
        session.close()
        assert session.restored is True
        assert not session.notes
        assert differences(loop.pid) == [] and leftovers(loop.pid) == []
