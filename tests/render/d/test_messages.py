# SPDX-License-Identifier: LGPL-2.1-or-later
"""The messages on standard error."""

from __future__ import annotations

import pytest

from gilk.lang.d.probes import DProbe
from gilk.lang.syntax.source import Diagnostic, Span
from gilk.render.d.messages import LOSSES, Fault, Messages
from gilk.trace.d.events import DropKind

SAY = Messages()
BEGIN = DProbe(1, "dtrace", "", "", "BEGIN")


def test_texts_of_notices() -> None:
    assert SAY.matched("script", "X", 8) == "dtrace: script 'X' matched 8 probes\n"
    assert SAY.matched("description", "syscall:::entry ", 1) == (
        "dtrace: description 'syscall:::entry ' matched 1 probe\n"
    )
    assert SAY.destructive() == "dtrace: allowing destructive actions\n"
    assert Messages(quiet=True).matched("script", "X", 8) == Messages(quiet=True).destructive() == ""


def test_messages_begin_with_the_name_of_the_command() -> None:
    assert Messages("gilk dtrace").lowered("buffer size", 1 << 10) == "gilk dtrace: buffer size lowered to 1k\n"


DROPS = [
    (DropKind.PRINCIPAL, 1, "1 drop on CPU 2"),
    (DropKind.AGGREGATION, 3, "3 aggregation drops on CPU 2"),
    (DropKind.DYNAMIC, 1, "1 dynamic variable drop"),
    (DropKind.SPECULATION, 1, "1 speculative drop"),
    (DropKind.SPECULATION_BUSY, 1, "1 failed speculation (available buffer(s) still busy)"),
    (DropKind.SPECULATION_UNAVAILABLE, 3, "3 failed speculations (no speculative buffer available)"),
    (DropKind.STACK, 2, "2 jstack()/ustack() string table overflows"),
    (DropKind.DBLERROR, 1, "1 error in ERROR probe enabling"),
    (DropKind.NESTED, 2, "2 nested firings dropped, as clauses ran there"),
    (DropKind.SHALLOW, 1, "1 firing dropped, as no stack was left"),
    (DropKind.THROTTLED, 3, "3 times the kernel held back samples on CPU 2"),
]


@pytest.mark.parametrize(("kind", "count", "text"), DROPS)
def test_texts_of_drops(kind: DropKind, count: int, text: str) -> None:
    assert SAY.drop(kind, count, cpu=2) == f"dtrace: {text}\n"
    assert SAY.drop(kind, count, cpu=2, tagged=True) == f"dtrace: [{LOSSES[kind][0]}] {text}\n"


def test_every_drop_has_an_example() -> None:
    assert {kind for kind, *_ in DROPS} == set(DropKind) == set(LOSSES)


@pytest.mark.parametrize(
    ("fault", "address", "pc", "text"),
    [
        (Fault.DIVIDE_BY_ZERO, 5, 123, "divide-by-zero at BPF pc 123"),
        (Fault.BAD_ADDRESS, 0, 7, "invalid address (0x0) at BPF pc 7"),
        (Fault.BAD_ADDRESS, -1, None, "invalid address"),
        (Fault.BAD_ALIGNMENT, 0x11, None, "invalid alignment (0x11)"),
        (Fault.ILLEGAL_OPERATION, 0, None, "illegal operation"),
        (Fault.NO_SCRATCH, 0, None, "out of scratch space"),
        (Fault.KERNEL_PRIVILEGE, 9, None, "invalid kernel access"),
        (Fault.USER_PRIVILEGE, 9, None, "invalid user access"),
        (Fault.TUPLE_OVERFLOW, 0, None, "tuple stack overflow"),
        (Fault.BAD_STACK, 16, None, "bad stack (0x10)"),
        (Fault.BAD_SIZE, 16, None, "invalid size (0x10)"),
        (Fault.BAD_INDEX, 8, 9, "index out of bounds (8) at BPF pc 9"),
        (Fault.BAD_INDEX, (1 << 64) - 1, None, "index out of bounds (-1)"),
        (Fault.LIBRARY, 0, None, "library-level fault"),
        (77, 0, None, "unknown fault"),
    ],
)
def test_texts_of_faults(fault: int, address: int, pc: int | None, text: str) -> None:
    begin = "dtrace: error in dt_clause_4 for probe ID 1 (dtrace:::BEGIN): "
    assert SAY.fault("dt_clause_4", BEGIN, fault, address, pc) == f"{begin}{text}\n"


def test_texts_of_faults_of_the_consumer() -> None:
    text = SAY.library_fault("dt_clause_0", BEGIN, 'couldn\'t freopen() "/x": Permission denied')
    assert text.endswith('(dtrace:::BEGIN): couldn\'t freopen() "/x": Permission denied\n')
    assert SAY.library_fault("dt_clause_0", BEGIN, "setopt() is told apart", apart=True).endswith(" apart\n\n")


WRONG = Diagnostic("D_PROTO_LEN", Span(0, 1), "trace( ) prototype mismatch: 0 args passed, 1 expected")


def test_texts_about_scripts_that_do_not_compile() -> None:
    begin = "dtrace: failed to compile script F: "
    assert SAY.rejected("F", 18, WRONG) == f"{begin}line 18: {WRONG.message}\n"
    assert SAY.rejected("F", 18, WRONG, tagged=True) == f"{begin}[D_PROTO_LEN] line 18: {WRONG.message}\n"


def test_texts_about_specifiers_that_match_nothing() -> None:
    none = Diagnostic("D_PDESC_ZERO", Span(0, 1), "probe description syscall::foo:entry does not match any probes")
    assert SAY.bad_specifier("S", none) == f"dtrace: invalid probe specifier S: {none.message}\n"
    assert SAY.bad_specifier("S", none, tagged=True).startswith("dtrace: invalid probe specifier S: [D_PDESC_ZERO] p")
    assert SAY.bad_specifier("S", WRONG, line=1).endswith(f"S: line 1: {WRONG.message}\n")


def test_sizes_are_printed_with_units() -> None:
    assert SAY.lowered("buffer size", 512 << 10) == "dtrace: buffer size lowered to 512k\n"
    assert SAY.lowered("aggregation size", 4 << 20) == "dtrace: aggregation size lowered to 4m\n"
    assert SAY.lowered("buffer size", 1025) == "dtrace: buffer size lowered to 1025 bytes\n"
