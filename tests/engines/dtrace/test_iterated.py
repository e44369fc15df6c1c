# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk.dtrace`: the events of a D program in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk
from gilk.engines.dtrace.asked import Asked, let_go, prepare
from gilk.errors import CompileError, UsageError
from gilk.render.d.printf import formatted
from gilk.trace.d import events
from gilk.trace.d.values import Integer, Text
from tests.behaviour.harness import Loop, differences, leftovers
from tests.lang.d.sessions import Pages
from tests.programs.build import build

HOT = "pid$target:a.out:text_hash:entry"


def test_events_are_iterated_in_order_until_exit() -> None:
    program = 'BEGIN { trace(6 * 7); @["k"] = count(); exit(3); }'
    with gilk.dtrace(program) as session:
        kinds = [(type(event), event) for event in session]
    assert [kind for kind, _ in kinds] == [
        *(events.Matched, events.Began, events.ProbeFired, events.Printed, events.RecordEnded),
        *(events.Ended, events.Snapshot, events.Exited),
    ]
    assert kinds[3][1] == events.Printed("trace", (Integer(42, 4),))
    assert kinds[-1][1] == events.Exited(3, None)


def test_stopping_a_session_ends_it_as_exit_does() -> None:
    with Loop([build("work")]) as loop:
        program = f"{HOT} {{ @ = count(); trace(arg0); }} END {{ trace($1); }}"
        with gilk.dtrace(program, loop.pid, (), ["5"], {"bufsize": "64k"}) as session:
            found: list[events.Event] = []
            for event in session:
                found.append(event)
                if isinstance(event, events.Printed):
                    session.stop()
        assert not differences(loop.pid) and not leftovers(loop.pid)
    assert found[-1] == events.Exited(0, True)
    (snapshot,) = (event for event in found if isinstance(event, events.Snapshot))
    printed = [event for event in found if isinstance(event, events.Printed)]
    lost = sum(event.count for event in found if isinstance(event, events.Dropped))
    assert snapshot.rows[0].totals[0] == Integer(len(printed) - 1 + lost, 8, signed=False)
    assert printed[-1].values == (Integer(5, 4),)  # of END


def test_leaving_the_iteration_early_removes_all_probes() -> None:
    with Loop([build("work")]) as loop:
        with gilk.dtrace(f"{HOT} {{ trace(arg0); }}", loop.pid) as session:
            assert any(isinstance(event, events.Printed) for event in session)
            assert differences(loop.pid)
        assert not differences(loop.pid) and not leftovers(loop.pid) and loop.alive()


def test_a_script_file_takes_arguments_and_options(tmp_path: Path) -> None:
    (tmp_path / "x.d").write_text("BEGIN { trace(copyinstr((uintptr_t)0)); exit(0); }\nERROR { trace($$1); exit(1); }")
    with gilk.dtrace(tmp_path / "x.d", arguments=["word"], options={"strsize": "16", "quiet": None}) as session:
        printed = [event.values for event in session if isinstance(event, events.Printed)]
    assert printed == [(Text(b"word"),)]


def test_errors_leave_the_process_unchanged() -> None:
    with Loop([build("work")]) as loop:
        with (
            pytest.raises(CompileError, match=r"^\[D_IDENT_UNDEF\] failed") as bad,
            gilk.dtrace("BEGIN { x; }", loop.pid),
        ):
            pass
        assert bad.value.slug == "bad-d-program"
        with pytest.raises(UsageError) as none, gilk.dtrace("pid$target:a.out:nothing:entry", loop.pid):
            pass
        assert none.value.slug == "no-such-probe"
        assert not differences(loop.pid) and not leftovers(loop.pid)
    with pytest.raises(UsageError, match="exclude each other"):
        gilk.dtrace("BEGIN", 1, ["true"])


def test_a_caller_can_tell_that_probes_are_being_taken_out() -> None:
    """In a kernel this may take minutes."""
    with Loop([build("work")]) as loop:
        consumer = prepare(Asked((("n", f"{HOT} {{ exit(0); }}"),), options=(("quiet", None),), pid=loop.pid))
        seen: list[bool] = []

        @contextmanager
        def leaving() -> Iterator[None]:
            seen.append(bool(differences(loop.pid)))
            yield
            seen.append(bool(differences(loop.pid)))

        try:
            consumer.compile()
            assert not list(consumer.start())
            consumer.leaving = leaving
            assert any(isinstance(event, events.Ended) for event in consumer.events(lambda: False, Pages(), formatted))
        finally:
            let_go(consumer)
    assert seen == [True, False]
