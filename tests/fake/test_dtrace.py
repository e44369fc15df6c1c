# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses of D are executed as often as the program's own instructions, and with the right arguments."""

from __future__ import annotations

import pytest

from gilk.engines.dtrace.tracing import Engine, Firing, Happening
from gilk.trace.d.events import Faulted
from tests.fake.dtrace import tracing
from tests.fake.program import Program
from tests.fake.sessions import alone, code, data, ours, program
from tests.fake.target import FakeProcess

FUNCTIONS = ("leaf", "loop", "recursive", "tail", "choose", "work")


def traced(one: Program, text: str, patch: pytest.MonkeyPatch) -> tuple[Engine, list[Happening]]:
    """The events of a whole run, and the engine, at the end of which nothing of D's is left in the program."""
    of = tracing(FakeProcess(one), text, patch)
    of.begin()
    assert of.refused == []
    one.finish()
    found = list(of.poll(final=True))
    assert not [*of.losses(), *of.corruptions()]
    of.take_out()
    of.end()
    return of, found


def values(found: list[Happening]) -> list[int]:
    """The values of 8 bytes that the clauses traced, one for each firing."""
    return [int.from_bytes(one.data[:8], "little") for one in found if isinstance(one, Firing)]


def keyed(of: Engine, number: int = 1) -> dict[bytes, int]:
    """The first word of each row of an aggregation, by its key up to the first zero."""
    return {
        key.split(b"\0")[0]: words[0] for (which, key), words in of.aggregations.snapshot().items() if which == number
    }


def test_counts_and_sums_are_those_of_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    one = program()
    arguments = one.watch("leaf", "rdi")
    of, _ = traced(one, "pid$target:a.out::entry { @[probefunc] = count(); @s[probefunc] = sum(arg0); }", monkeypatch)
    executed = alone()[1]
    counted = keyed(of)
    assert {name: counted[name.encode()] for name in FUNCTIONS} == {name: executed[one.at(name)] for name in FUNCTIONS}
    assert keyed(of, 2)[b"leaf"] == sum(arguments)
    assert data(one) == alone()[2]


def test_records_come_in_the_order_of_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    one = program()
    arguments = one.watch("leaf", "rdi")
    _, found = traced(one, "pid$target:a.out:leaf:entry { trace(arg0); }", monkeypatch)
    assert values(found) == arguments


def test_thread_local_variables_are_separate_for_each_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are interleaved: each return finds the argument of its own thread's entry."""
    one = program()
    for _ in range(3):
        one.spawn("worker", 4)
    text = (
        "pid$target:a.out:tail:entry { self->n = arg0; } pid$target:a.out:tail:return { trace(self->n); self->n = 0; }"
    )
    arguments = one.watch("tail", "rdi")
    _, found = traced(one, text, monkeypatch)
    assert sorted(values(found)) == sorted(arguments)
    of_thread: dict[int, list[int]] = {}
    for each in found:
        assert isinstance(each, Firing)
        of_thread.setdefault(each.tid, []).append(int.from_bytes(each.data[:8], "little"))
    workers = [of_thread[tid] for tid in sorted(of_thread) if tid != one.pid]
    assert len(workers) == 3 and workers[0] == workers[1] == workers[2]


def test_exit_ends_the_session_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = program()
    arguments = one.watch("leaf", "rdi")
    text = "pid$target:a.out:leaf:entry { trace(arg0); } pid$target:a.out:recursive:entry { exit(3); }"
    of, found = traced(one, text, monkeypatch)
    assert of.exit_status == 3
    *before, last = found
    assert isinstance(last, Firing) and last.probe.function == "recursive"
    assert 0 < len(before) < len(arguments)
    assert values(before) == arguments[: len(before)]


def test_a_faulting_load_is_reported_and_the_program_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    one = program()
    _, found = traced(one, "pid$target:a.out:work:entry { trace(*(int *)8); }", monkeypatch)
    assert [each.address for each in found if isinstance(each, Faulted)] == [8] * alone()[1][one.at("work")]
    assert one.ended[one.pid].result == alone()[0]


def test_clauses_read_memory_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clause reads a variable of the program, with the value that it has at that moment."""
    one = program()
    text = f"pid$target:a.out:work:entry {{ trace(*(unsigned long *){one.at('total')}); }}"
    totals: list[int] = []
    at = one.at("work")
    one.emulator.watch(at, at + 1, lambda _: totals.append(one.word("total")))
    _, found = traced(one, text, monkeypatch)
    assert values(found) == totals
    assert totals[-1] > totals[1] > 0


def test_clauses_are_removed_while_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    one = program()
    before = code(one)
    of = tracing(FakeProcess(one), "pid$target:a.out::entry { @ = count(); }", monkeypatch)
    of.begin()
    one.rounds(3)
    assert code(one) != before
    assert of.take_out() is True
    assert (code(one), ours(one)) == (before, [])
    assert one.finish() == alone()[0]


def test_usdt_semaphores_count_the_listeners() -> None:
    """The semaphore counts the listeners, until the last one ends."""
    one = program()
    process = FakeProcess(one)
    (main,) = process.loaded()
    counter = one.at("listeners"), str(main.path)

    def listeners() -> int:
        return int.from_bytes(one.space.read(counter[0], 2), "little")

    process.keeper.set_up("test", 1 << 16, 1 << 16)
    raised = process.raise_semaphores([counter, counter])
    assert (len(raised), listeners()) == (2, 2)
    process.keeper.lower_semaphores(raised[:1])
    assert listeners() == 1
    assert process.raise_semaphores([(one.at("work"), str(main.path))]) == []  # this is the address of no variable
    assert process.keeper.close() is True
    assert (listeners(), ours(one)) == (0, [])
