# SPDX-License-Identifier: LGPL-2.1-or-later
"""The lines around the traced values."""

from __future__ import annotations

from gilk.lang.d.probes import DProbe
from gilk.render.d.records import FlowIndent, end, flow_prefix, header, prefix
from gilk.render.d.style import Style
from gilk.render.d.trace import trace
from gilk.trace.d.values import Integer, Text

BEGIN = DProbe(1, "dtrace", "", "", "BEGIN")
LOUD, TESTING = Style(), Style(testing=True)


def test_a_default_record() -> None:
    assert header(LOUD) == b"CPU     ID                    FUNCTION:NAME\n"
    assert prefix(LOUD, 0, BEGIN) == b"  0      1                           :BEGIN "
    assert prefix(LOUD, 3, DProbe(1234567, "fbt", "vmlinux", "f", "entry")) == (
        b"  3 1234567                          f:entry "
    )
    assert end(LOUD) == b"\n"


def test_output_in_the_form_of_dtraces_test_suite() -> None:
    record = prefix(TESTING, 5, BEGIN) + trace(Text(b"hello world 1")) + end(TESTING)
    assert header(TESTING) + record + prefix(TESTING, 0, BEGIN) + trace(Integer(7, 4)) + end(TESTING) == (
        b"                   FUNCTION:NAME\n"
        b"                          :BEGIN   hello world 1                    \n"
        b"                          :BEGIN           7\n"
    )


def test_with_quiet_no_headers_are_printed() -> None:
    style = Style(quiet=True)
    assert header(style) + prefix(style, 0, BEGIN) + end(style) == b""


READ = DProbe(10, "syscall", "vmlinux", "read", "entry")
READ_END = DProbe(11, "syscall", "vmlinux", "read", "return")
INNER = DProbe(12, "fbt", "vmlinux", "__x64_sys_read", "entry")
INNER_END = DProbe(13, "fbt", "vmlinux", "__x64_sys_read", "return")
TICK = DProbe(14, "profile", "", "", "tick-1s")


def flow(style: Style, *steps: tuple[DProbe, int]) -> list[bytes]:
    lines, state = [], FlowIndent()
    for probe, clause in steps:
        line, state = flow_prefix(style, 0, probe, clause, state)
        lines.append(line)
    return lines


def test_flowindent_indents_calls() -> None:
    steps = [(READ, 1), (INNER, 1), (TICK, 2), (INNER_END, 1), (READ_END, 1), (READ_END, 1)]
    assert flow(Style(flow=True, testing=True), *steps) == [
        b" => read                                  ",
        b"   -> __x64_sys_read                      ",
        b"    | :tick-1s                            ",
        b"   <- __x64_sys_read                      ",
        b" <= read                                  ",
        b" <= read                                  ",
    ]
    assert flow(Style(flow=True), steps[0]) == [b"  0  => read                                  "]


def test_flowindent_has_its_own_header_also_with_quiet() -> None:
    assert header(Style(flow=True, quiet=True)) == b"CPU FUNCTION                                 \n"
    assert header(Style(flow=True, testing=True)) == b"FUNCTION                                 \n"


def test_flowindent_indents_an_entry_once_for_all_its_clauses() -> None:
    lines = flow(Style(flow=True, testing=True), (READ, 1), (READ, 2), (READ, 2), (INNER, 1))
    found = [line.rstrip() for line in lines]
    assert found == [b" => read", b"  | read:entry", b"   => read", b"     -> __x64_sys_read"]


def test_names_that_end_in_entry_are_not_taken_for_entries() -> None:
    carpentry = DProbe(1, "app1", "app", "f", "carpentry")
    method = DProbe(2, "app1", "app", "f", "method-entry")
    lines = flow(Style(flow=True, testing=True), (carpentry, 1), (method, 1))
    assert [line.rstrip() for line in lines] == [b"| f:carpentry", b" -> f"]
