# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk restore` where contexts of the program wait in signal handlers amid patches."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError
from tests.behaviour.harness import cpu, differences, ended, wait_for
from tests.behaviour.parked_program import (
    CALLS,
    DEEP,
    goes_on,
    heard,
    parked,
    signal_amid_a_patch,
    signal_behind,
    signal_inside,
    tell,
)
from tests.seldom import seldom
from tests.targets.test_restore import CLIENT, session_in


def test_a_context_waiting_in_a_patch_goes_on_after_gilk_restore() -> None:
    with parked() as program:
        with session_in(program.pid, CLIENT.replace("hot:blocks", "parked:work:blocks-post")) as keeper:
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"parked\n"
            os.kill(keeper, signal.SIGKILL)
        gilk.restore(program.pid)
        assert differences(program.pid) == []
        goes_on(program)


def restored_in(program: subprocess.Popen[bytes], instrument: str, steps: int) -> bool:
    """Interrupt a patch of a program after so many instructions, kill client and keeper, and restore. Returns whether
    the context that waits was led out."""
    insertion = CLIENT.replace("hot:blocks", "parked:work:blocks-post").replace('"count"', repr(instrument))
    with session_in(program.pid, insertion) as keeper:
        ticks = cpu(program.pid)
        wait_for(lambda: cpu(program.pid) > ticks + 1)  # the thread has its buffer
        signal_inside(program.pid, steps)
        assert heard(program) == b"parked\n"
        os.kill(keeper, signal.SIGKILL)
    restored = gilk.restore(program.pid)
    assert differences(program.pid) == []
    return not restored.waiting


@pytest.mark.parametrize("instrument", seldom(["args", "count", "stamp"], 1))
def test_restore_leads_a_handler_that_waits_out_of_its_patch(instrument: str) -> None:
    """Nobody who knows the plans is left; but the runtime's table has the places in the patches. A frame may lie across
    two pages, in which case its context stays: not in three programs, one after the other."""
    for _ in range(3):
        with parked() as program:
            led = [restored_in(program, instrument, 2)]
            for steps in (9, 16):
                tell(program, b"g")
                led.append(restored_in(program, instrument, steps))
            goes_on(program)
        if all(led):
            return
    raise AssertionError("the contexts stay")


@pytest.mark.stress
def test_restore_refuses_new_sessions_while_a_handler_waits_in_a_function_of_gilk(tmp_path: Path) -> None:
    """Another session would end by taking from the handler what it needs there: the program died by SIGSEGV. The
    functions that patches call are not in the runtime's table."""
    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    insertion = CLIENT.replace("hot:blocks", "parked:work:blocks-post").replace('"count"', f'"{source}:deep"')
    with parked() as program:
        with session_in(program.pid, insertion) as keeper:
            signal_behind(program.pid, CALLS)
            assert heard(program) == b"parked\n"
            os.kill(keeper, signal.SIGKILL)  # who knew the way out of the patch
        for _ in range(2):
            assert gilk.restore(program.pid).waiting
            with pytest.raises(TargetError) as caught, gilk.attach(program.pid) as target, target.session():
                pass
            assert caught.value.slug == "gs-in-use"
        ticks = cpu(program.pid)
        tell(program, b"g")
        assert wait_for(lambda: cpu(program.pid) > ticks)  # the first context has gone on, and out of the patch
        os.kill(program.pid, signal.SIGUSR1)
        assert heard(program) == b"parked\n", ended(program)
        assert differences(program.pid) == []
        restored = gilk.restore(program.pid, force=True)  # its old frame is in memory still
        assert restored.bytes == {}
        with gilk.attach(program.pid) as target, target.session() as session:
            session.insert("parked:work:blocks-post", "count")
        assert session.restored is True
        goes_on(program)
