# SPDX-License-Identifier: LGPL-2.1-or-later
"""Judge whether a test gave what it should: its exit status, its error tag, and its output apart from what always
differs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from conformance_suite.case import Case

_ADDRESS = re.compile(r"0x[0-9a-f]+")
_COUNTER = re.compile(r" ?at BPF pc (?:NNN|\d+)")  # addresses of BPF instructions, which gilk has not
#: Lines of debugging output and of progress.
_DEBUG = re.compile(r"^(?:[a-z_]+ DEBUG \d+: .*|gilk: [a-z ]+, \d+ s)\n?", re.MULTILINE)
_UNSUPPORTED = 67  # the status by which a script says that it cannot run here
_SHOWN = 160


@dataclass(frozen=True)
class Ran:
    """The result of a test's run. ``status`` is None if the deadline ended the run."""

    status: int | None
    output: str
    errors: str

    @property
    def whole(self) -> str:
        errors = _DEBUG.sub("", self.errors)
        return self.output + (f"-- @@stderr --\n{errors}" if errors else "")


@dataclass(frozen=True)
class Verdict:
    """The judgement of a test. ``result`` is passed, tag (the tag is right, the words are not), failed or skipped."""

    result: str
    why: str = ""


def judge(case: Case, ran: Ran, whole: str) -> Verdict:
    """The verdict on a run. ``whole`` is its output and errors, after the test's own filter."""
    wrong = _status(case, ran)
    if wrong is not None:
        return wrong
    expected = case.beside(".r")
    if not expected.exists():
        return Verdict("passed")
    ordered = "nosort" in case.directives
    wanted, got = (_lines(text, ordered, case.kind == "drp") for text in (expected.read_text(errors="replace"), whole))
    if wanted == got:
        return Verdict("passed")
    return Verdict("tag" if case.tag else "failed", _difference(wanted, got))


def _status(case: Case, ran: Ran) -> Verdict | None:
    if "Traceback (most recent call last)" in ran.errors:
        return Verdict("failed", "a traceback")
    if ran.status is None:
        return None if "timeout-success" in case.directives else Verdict("failed", "its deadline ended it")
    if ran.status == _UNSUPPORTED:
        return Verdict("skipped", "it says that it cannot be run here")
    if case.tag.startswith(("D_", "DTRACEDROP_")) and f"[{case.tag}]" not in ran.errors:
        return Verdict("failed", f"no [{case.tag}]: {_last(ran)}")
    wanted = 1 if case.kind == "err" else 0
    return None if ran.status == wanted else Verdict("failed", f"status {ran.status}, not {wanted}: {_last(ran)}")


def _last(ran: Ran) -> str:
    lines = [line for line in ran.errors.splitlines() if line.strip()]
    return lines[-1][:_SHOWN] if lines else ""


def _lines(text: str, ordered: bool, drops: bool) -> list[str]:
    """The lines to compare: addresses are made alike, messages about drops are left out if ``drops``, and lines are
    sorted unless their order counts."""
    lines = [_COUNTER.sub("", _ADDRESS.sub("{ptr}", line)) for line in text.splitlines()]
    lines = [line for line in lines if not (drops and "[DTRACEDROP" in line)]
    return lines if ordered else sorted(lines)


def _difference(wanted: list[str], got: list[str]) -> str:
    lacking, more = Counter(wanted) - Counter(got), Counter(got) - Counter(wanted)
    words = [f"lacks {line!r}" for line in list(lacking)[:1]] + [f"has {line!r}" for line in list(more)[:1]]
    return ", ".join(words)[: 2 * _SHOWN] or "its lines are in another order"
