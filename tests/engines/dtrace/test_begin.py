# SPDX-License-Identifier: LGPL-2.1-or-later
"""BEGIN runs before any other probe fires."""

from __future__ import annotations

import pytest

from gilk.engines.dtrace.tracing import Firing
from gilk.trace.d.layout import State
from tests.lang.d.sessions import consumer


def test_no_probe_fires_before_begin_is_over() -> None:
    session = consumer("BEGIN { trace(1); } tick-1hour { trace(2); }")
    session.start()
    engine = session.tracing
    (tick,) = (probe for probe, _ in engine.enabled.ticks)

    def fired() -> list[str]:
        return [one.probe.name for one in engine.poll(final=True) if isinstance(one, Firing)]

    assert (engine.memory.state, fired()) == (State.ACTIVE, ["BEGIN"])
    engine.memory.state = State.BEGINNING
    engine._fire(tick)
    assert fired() == []
    engine.memory.state = State.ACTIVE
    engine._fire(tick)
    assert fired() == ["tick-1hour"]


@pytest.mark.parametrize(
    ("text", "status"), [("BEGIN { exit(3); }", 3), ("BEGIN { x = 0; y = 1 / x; } ERROR { exit(4); }", 4)]
)
def test_a_program_that_begin_ends_does_not_become_active(text: str, status: int) -> None:
    session = consumer(f"{text} BEGIN {{ trace(1); }}")
    session.start()
    assert (session.tracing.active, session.exit_status) == (False, status)
