# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes of the clock are samples of processors if they are to say what only a sample tells."""

from __future__ import annotations

import pytest

from gilk.engines.dtrace.sampled import sampled
from tests.lang.d.sessions import consumer


@pytest.mark.parametrize(
    ("text", "alone", "in_process"),
    [
        ("tick-1 { trace(timestamp); }", False, False),
        ("tick-1 { self->a = 1; @ = count(); }", False, False),
        ("tick-1 { trace(execname); }", True, False),
        ("tick-1 /pid == 0/ { exit(0); }", True, False),
        ("tick-1 { @[arg1] = count(); }", True, False),
        ("tick-1 { @[ustack()] = count(); }", True, False),
        ("tick-1 { trace(uregs[R_PC]); }", True, False),
        ("profile-97 { @ = count(); }", True, False),
        ("profile-97 { @[arg1] = count(); }", True, False),
        ("profile-97 { @[arg0] = count(); }", True, True),
        ("profile-97 { @[func(arg0)] = count(); }", True, True),
        ("profile-97 { @[arg0, ustack()] = count(); }", True, False),
        ("profile-97 { self->a = arg0; }", True, False),
    ],
)
def test_questions_of_clauses_decide(text: str, alone: bool, in_process: bool) -> None:
    made = consumer(text)
    program, enabled = made.compiled.program, made.enabled
    assert [bool(sampled(program, enabled, has)) for has in (False, True)] == [alone, in_process]


def test_a_tick_is_a_sample_of_one_processor() -> None:
    made = consumer("tick-1 { trace(pid); } profile-97 { trace(pid); }")
    events = [event for _, event in sampled(made.compiled.program, made.enabled, False)]
    assert [(each.everywhere, each.period) for each in events] == [(False, 10**9), (True, 10**9 // 97)]
