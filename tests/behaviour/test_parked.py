# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs whose signal handlers switch stacks: most of what runs waits in a handler, where no thread is."""

from __future__ import annotations

from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.programs.build import build

ENOUGH = 20000


@pytest.mark.parametrize("instrument", ["count", "stamp", "time"])
@pytest.mark.parametrize("variant", ["default", "static"])
def test_contexts_that_wait_in_handlers_go_on(instrument: str, variant: str) -> None:
    """24 of them, most amid a patch when it goes: it stays until they have left it, and is gone afterwards."""
    with Loop([build("green", variant)]) as loop, gilk.attach(loop.pid) as target:
        for _ in range(5):
            with target.session() as session:
                session.insert("green:hot:" + ("entry" if instrument == "time" else "blocks"), instrument)
                if instrument == "count":
                    assert wait_for(lambda session=session: sum(session.counts().values()) > ENOUGH)
                else:  # none may come, where the first context is given up amid its record
                    for _ in range(20):
                        session.poll()
            assert session.restored is True
            assert differences(loop.pid) == []
            assert wait_for(lambda: leftovers(loop.pid) == [])


def test_handlers_see_the_program_while_others_wait(tmp_path: Path) -> None:
    """A note is kept in the context itself: there may be more of them than threads, blocks or slots."""
    source = tmp_path / "plain.c"
    source.write_text("#include <gilk.h>\nvoid plain(unsigned iid) { (void)iid; for (volatile int i = 0; i < 50; i++); }\n")
    with Loop([build("green")]) as loop, gilk.attach(loop.pid) as target:
        with target.session() as session:
            session.insert("green:hot:blocks", f"{source}:plain")
            session.insert("green:take_turns:entry", "count")
            assert wait_for(lambda: sum(session.counts().values()) > 200)
        assert session.restored is True
        assert differences(loop.pid) == []
