# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads that run are found where they are, and are left as they were; those that sleep are not found."""

from __future__ import annotations

import subprocess

import pytest

from gilk.session.dtrace.enabling import NoSuchProbe
from tests.behaviour.harness import Loop, differences, leftovers
from tests.lang.d.sessions import consumer
from tests.programs.build import build
from tests.providers.sessions import traced

_PROGRAM = """
    pid$target:a.out:text_hash:entry { self->met = 1; }
    profile-199 { @a["at home"] = sum(pid == $target && uregs[R_RIP] == arg1 && arg0 == 0 && execname == "work"); }
    profile-199 { this->byte = *(char *)uregs[R_RSP]; @s["stack"] = count(); }
    profile-199 { @n["all"] = count(); n++; }
    profile-199 /self->met/ { @m["met"] = count(); met = 1; }
    profile-199 { printf("%s\\n", ""); @w[umod(arg1)] = count(); }
    profile-199 /n >= 40 && met/ { exit(0); }"""


def test_where_threads_run() -> None:
    """Also in patches, which count as the code that they stand for; self-> variables are those of the other probes."""
    with Loop([build("work")]) as loop:
        done = traced(_PROGRAM, pid=loop.pid)
        found = done.numbers()
        assert found["all"] == found["at home"] == found["stack"] >= 40
        assert found["met"] > 0
        assert not [line for line in done.lines if "0x" in line or "gilk" in line]
        assert (done.errors, differences(loop.pid), leftovers(loop.pid)) == ("", [], [])


def test_a_stack_is_that_of_the_sample() -> None:
    """Whatever the thread has done since: each leads from where it was to where the program began."""
    program = """int n; profile-499 { @[ustack()] = count(); n++; }
        profile-499 /n == 60/ { exit(0); } END { printf("stacks\\n"); printa("%k\\nend\\n", @); }"""
    with Loop([build("work")]) as loop:
        done = traced(program, pid=loop.pid)
    stacks = " ".join(done.lines).split("stacks ", 1)[1].split(" end")
    assert len(stacks) > 3
    assert not [stack for stack in stacks[:-1] if not stack.endswith("`_start+0x21")], stacks


def test_who_sleeps_is_not_found() -> None:
    with subprocess.Popen(["sleep", "100"]) as asleep:
        done = traced("profile-499 { @ = count(); } tick-200ms { exit(0); }", pid=asleep.pid)
        assert done.lines == [] and asleep.poll() is None
        asleep.kill()


def test_without_a_process_there_is_none() -> None:
    with pytest.raises(NoSuchProbe):
        consumer("profile-97 { trace(1); }")
