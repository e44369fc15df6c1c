# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that cannot be enabled: the first are named on lines of their own, and the others are summed up."""

from __future__ import annotations

from gilk.lang.d.probes import DProbe
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.refused import NAMED, remaining, told_lacking
from gilk.render.d.style import Style
from gilk.trace.d.events import Refused


def refused(number: int, why: str) -> Refused:
    name = f"function{number}"
    return Refused(DProbe(number, "fbt", "vmlinux", name, "entry"), f"{why} at kernel:{name}:entry")


def test_the_first_are_named_and_the_others_summed_up() -> None:
    events = [refused(number, "thunk" if number % 3 else "unsafe") for number in range(NAMED + 9)]
    printer = Printer(Messages("dtrace"), Style())
    *said, last = told_lacking(printer, events).splitlines(keepends=True)
    assert len(said) == NAMED
    assert said[1] == "dtrace: fbt:vmlinux:function1:entry: cannot be enabled: thunk at kernel:function1:entry\n"
    assert last == f"dtrace: {remaining(events)}\n"
    assert remaining(events) == "9 more probes cannot be enabled, which --json names: 6 thunk, 3 unsafe"


def test_nothing_is_summed_up_if_all_are_named() -> None:
    assert remaining([refused(number, "thunk") for number in range(NAMED)]) == ""
