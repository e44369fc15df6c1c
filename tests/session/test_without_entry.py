# SPDX-License-Identifier: LGPL-2.1-or-later
"""If the entry of a function is refused, its returns are not recorded either."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gilk.engines.follow.refused import without_entry
from gilk.trace.probes import RecordKind


def asked(start: int, kind: RecordKind, spliced: bool, whole: int = 0) -> tuple[Any, Any]:
    wanted = SimpleNamespace(function=SimpleNamespace(start=start, whole=whole))
    return wanted, SimpleNamespace(row=SimpleNamespace(kind=kind), tactic="jump" if spliced else None)


def test_returns_are_not_recorded_if_the_entry_is_refused() -> None:
    pairs = [
        asked(10, RecordKind.ENTRY, False), asked(10, RecordKind.RETURN, True), asked(10, RecordKind.RETURN, False),
        asked(50, RecordKind.RETURN, True, whole=10),
        asked(20, RecordKind.ENTRY, True), asked(20, RecordKind.RETURN, True), asked(20, RecordKind.RETURN, False),
        asked(30, RecordKind.HEAD, False), asked(30, RecordKind.RETURN, True),
    ]  # fmt: skip
    wanted, probes = zip(*pairs, strict=True)
    assert without_entry(wanted, probes) == [probes[1], probes[3], probes[8]]
