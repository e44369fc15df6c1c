# SPDX-License-Identifier: LGPL-2.1-or-later
"""Options: their values, when they may be set, and sizes for which there is no memory."""

from __future__ import annotations

import dataclasses

import pytest

from gilk.engines.dtrace import consumer as consumers
from gilk.engines.dtrace.tracing import Engine
from gilk.errors import UsageError
from gilk.lang.d.options import DYNAMIC, REFUSED, ROWS, BadOption, Options
from gilk.trace.d.events import Lowered
from gilk.trace.d.records import ClauseRecord
from tests.lang.d.sessions import consumer


@pytest.mark.parametrize("name", sorted({*ROWS} - DYNAMIC))
def test_most_options_cannot_be_changed_while_tracing(name: str) -> None:
    with pytest.raises(BadOption, match="illegal when tracing is active"):
        Options().set(name, "1", active=True)


def test_no_option_is_both_supported_and_refused() -> None:
    assert not REFUSED.keys() & ROWS.keys()
    assert ROWS.keys() >= DYNAMIC


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bufsize", "8388608t"),
        ("bufpolicy", "none"),
        ("bufresize", "no"),
        ("amin", "Stable/Stable"),
        ("amin", ""),
        ("evaltime", "late"),
        ("switchrate", "0"),
        ("nspec", "²"),
        ("strsize", "2m"),
        ("switchrate", "9" * 5000),
    ],
)
def test_invalid_values_of_options_are_refused(name: str, value: str) -> None:
    with pytest.raises(BadOption, match="Invalid value"):
        Options().set(name, value)


def test_buffer_sizes_are_lowered_until_they_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    real = consumers.Engine

    def limited(program: object, enabled: object, options: Options, process: None) -> Engine:
        if options.number("bufsize") > 1 << 20 or options.number("specsize") > 1 << 21:
            raise OSError(12, "Cannot allocate memory")
        return real(program, enabled, options, process)  # type: ignore[arg-type]

    monkeypatch.setattr(consumers, "Engine", limited)
    session = consumer("#pragma D option bufsize=64m\nBEGIN { exit(0); }")
    lowered = {each.option: each.size for each in session.start() if isinstance(each, Lowered)}
    assert lowered == {"bufsize": 1 << 20, "specsize": 1 << 21, "aggsize": 1 << 21}
    manual = consumer("#pragma D option bufresize=manual\nBEGIN { exit(0); }")
    with pytest.raises(UsageError, match="is more memory than there is"):
        manual.start()


def test_without_temporal_records_are_ordered_by_processor() -> None:
    session = consumer("BEGIN { exit(0); }")
    session.start()
    records = [ClauseRecord(1, time, 1, cpu, b"") for time, cpu in ((1, 1), (2, 0), (3, 1), (4, 0))]
    assert session.tracing._ordered(records) == records
    session.options.set("temporal", "no", active=True)
    assert [record.tsc for record in session.tracing._ordered(records)] == [2, 4, 1, 3]
    assert [dataclasses.astuple(record)[3] for record in session.tracing._ordered(records)] == [0, 0, 1, 1]


def test_strsize_has_room_for_at_least_one_character() -> None:
    options = Options()
    options.set("strsize", "2")
    with pytest.raises(BadOption, match="Invalid value"):
        options.set("strsize", "1")
    assert options.number("strsize") == 2
