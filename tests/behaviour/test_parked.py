# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs whose signal handlers switch stacks: most contexts wait in a handler, where no thread is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError
from gilk.targets import changing, spawning
from tests.behaviour.harness import Loop, differences, ended, leftovers, wait_for
from tests.behaviour.parked_program import (
    BEGINS,
    COUNTS,
    DEEP,
    READS_OWNER,
    RESERVES,
    blocked_in_read,
    check_led_out,
    computes_again,
    goes_on,
    heard,
    parked,
    signal_amid_a_patch,
    signal_behind,
    tell,
    with_three_bytes,
)
from tests.programs.build import build
from tests.seldom import seldom

ENOUGH = 20000
#: An instrument that is over when there is a letter to be read.
STAYS = """
#include <gilk.h>
void stay(unsigned iid)
{
    char letter;
    long got;
    (void)iid;
    __asm__ volatile("syscall" : "=a"(got) : "0"(0L), "D"(0L), "S"(&letter), "d"(1L) : "rcx", "r11", "memory");
}
"""


@pytest.mark.parametrize("instrument", seldom(["stamp", "time", "count"], 1))
@pytest.mark.parametrize("variant", seldom(["default", "static"], 1))
def test_contexts_that_wait_in_signal_handlers_go_on(instrument: str, variant: str) -> None:
    """Most of the 24 contexts are amid a patch when it is taken out: it stays until they have left it, and is gone
    afterwards."""
    with Loop([build("green", variant)]) as loop, gilk.attach(loop.pid) as target:
        for _ in range(5):
            with target.session() as session:
                session.insert("green:hot:" + ("entry" if instrument == "time" else "blocks"), instrument)
                if instrument == "count":
                    assert wait_for(lambda session=session: sum(session.counts().values()) > ENOUGH)
                else:  # no record may come, if the first context stops amid its record
                    for _ in range(20):
                        session.poll()
            assert session.restored is True
            assert differences(loop.pid) == []
            assert wait_for(lambda: leftovers(loop.pid) == [])


@pytest.mark.stress
def test_handlers_see_the_original_address_while_other_contexts_wait(tmp_path: Path) -> None:
    """The note is kept in the context itself, so there may be more of them than threads, blocks or slots."""
    source = tmp_path / "plain.c"
    source.write_text(
        "#include <gilk.h>\nvoid plain(unsigned iid) { (void)iid; for (volatile int i = 0; i < 50; i++); }\n"
    )
    with Loop([build("green")]) as loop, gilk.attach(loop.pid) as target:
        with target.session() as session:
            session.insert("green:hot:blocks", f"{source}:plain")
            session.insert("green:take_turns:entry", "count")
            assert wait_for(lambda: sum(session.counts().values()) > 200)
        assert session.restored is True
        assert differences(loop.pid) == []


def test_a_context_that_never_comes_back_is_led_out_of_its_patch() -> None:
    """Whether it comes back is not known; so nothing of gilk's would ever be taken out, and no other session let in."""
    with parked() as program, gilk.attach(program.pid) as target:
        for letter in (b"g", b"g", b""):
            with target.session() as session:
                session.insert("parked:work:blocks-post", "count")
                signal_amid_a_patch(program.pid)
                assert heard(program) == b"parked\n"
            assert session.restored is True
            assert not session.notes
            assert differences(program.pid) == [] and leftovers(program.pid) == []
            tell(program, letter)
        goes_on(program)


@pytest.mark.parametrize("kind", seldom(["deep", "stamp", "count", "args"], 1))
def test_contexts_inside_the_functions_of_instruments_are_led_out(kind: str, tmp_path: Path) -> None:
    """A C instrument is called by way of the runtime, and calls functions of its own."""
    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    check_led_out(f"{source}:deep" if kind == "deep" else kind, range(3, 100, 12))


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["count", "stamp", "args", "deep"])
def test_contexts_at_every_instruction_of_instruments_are_led_out(kind: str, tmp_path: Path) -> None:
    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    check_led_out(f"{source}:deep" if kind == "deep" else kind, range(1, 200))


def test_a_context_resumes_in_a_removed_patch_and_waits_again() -> None:
    """The context goes on in the patch when the session has ended, though its handler was shown the original
    address."""
    with parked() as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            counts = session.insert("parked:work:blocks-post", "count")
            session.insert("parked:ask:entry", "count")
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"parked\n"
            session.remove(counts)
            tell(program, b"s")
            assert heard(program) == b"parked\n"
        assert session.restored is True
        assert differences(program.pid) == []
        goes_on(program)


@pytest.mark.parametrize("instrument", seldom(["stamp", "count"], 1))
def test_a_context_is_led_out_of_a_removed_patch_into_which_a_jump_is_inserted(instrument: str, tmp_path: Path) -> None:
    """It has not begun the work of the instrument, and never comes back during the session."""
    with parked(with_three_bytes(tmp_path)) as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            first = session.insert("parked:work:+0x8", instrument)
            signal_behind(program.pid, BEGINS[instrument])
            assert heard(program) == b"parked\n"
            session.remove(first)
            session.insert("parked:work:+0xb", "count")
        assert session.restored is True
        assert not session.notes
        assert differences(program.pid) == [] and leftovers(program.pid) == []
        goes_on(program)


@pytest.mark.parametrize("code", seldom([READS_OWNER, COUNTS], 1), ids=["before", "behind"])
def test_each_round_is_counted_once_though_contexts_are_led_to_other_patches(code: bytes, tmp_path: Path) -> None:
    """Two instructions of a loop are counted. A context that waits amid a patch is led to the one that replaces it, ten
    times; there it counts if it has not yet done so."""
    with parked(with_three_bytes(tmp_path)) as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            os.kill(program.pid, signal.SIGUSR1)
            assert heard(program) == b"parked\n"
            session.insert("parked:work:+0x3", "count")
            session.insert("parked:work:+0x8", "count")
            for _ in range(10):
                computes_again(program)
                signal_behind(program.pid, code)
                assert heard(program) == b"parked\n"
                more = session.insert("parked:work:+0xb", "count")
                session.remove(more)
            computes_again(program)
            os.kill(program.pid, signal.SIGUSR1)
            assert heard(program) == b"parked\n", ended(program)
            first, second, _ = session.counts().values()
            assert first > 10 and abs(first - second) <= 1
        assert session.restored is True
        goes_on(program)


def test_no_jump_is_inserted_where_a_waiting_context_would_return_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits in a patch that has gone, which leads back behind two instructions: to the middle of a jump, if one was
    put at the second. Its record is half written."""
    program_of = with_three_bytes(tmp_path)
    monkeypatch.setattr(changing, "_PATIENCE", 1.0)
    spawning.begin()  # a keeper, which has that patience
    with parked(program_of) as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            first = session.insert("parked:work:+0x8", "stamp")
            signal_behind(program.pid, RESERVES, session.poll)  # no record is reserved in a buffer that is full
            assert heard(program) == b"parked\n"
            session.remove(first)
            with pytest.raises(TargetError, match="handler that waits") as refused:
                session.insert("parked:work:+0xb", "count")
            assert refused.value.slug == "busy"
            computes_again(program)  # and has left the patch
            os.kill(program.pid, signal.SIGUSR1)
            assert heard(program) == b"parked\n", ended(program)
            session.insert("parked:work:+0xb", "count")
        assert session.restored is True
        assert differences(program.pid) == []
        goes_on(program)


@pytest.mark.stress
def test_a_waiting_context_goes_on_though_a_thread_does_not_leave_an_instrument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All goes without that thread when it has been waited for; yet the context finds where it was, and not only what
    its handler was shown."""
    source = tmp_path / "stays.c"
    source.write_text(STAYS)
    monkeypatch.setattr(changing, "_PATIENCE", 1.0)
    spawning.begin()  # a keeper, which has that patience
    with parked() as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            session.insert("parked:work:blocks-post", "count")
            session.insert("parked:ask:entry", f"{source}:stay")
            signal_amid_a_patch(program.pid)
            wait_for(lambda: blocked_in_read(program.pid))
        assert session.restored is True
        assert any("stays mapped" in note for note in session.notes)
        assert differences(program.pid) == []
        tell(program, b".")
        assert heard(program) == b"parked\n"
        goes_on(program)


def test_an_abandoned_signal_frame_in_a_patch_does_not_hold_a_session() -> None:
    """One handler was left by a jump, and nobody knows whether it will go on; another has returned."""
    with parked(build("leftover")) as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            session.insert("leftover:work:blocks-post", "count")
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"returns\n"
            tell(program, b"l")
            assert heard(program) == b"leaves\n"
        assert session.restored is True
        assert differences(program.pid) == []
        assert wait_for(lambda: leftovers(program.pid) == [])
        tell(program, b"e")
        assert program.wait() == 0
