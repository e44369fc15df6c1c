# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that check themselves do not notice that every one of their blocks is instrumented; the counts are exact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import gilk
from tests.behaviour.harness import Ran, plain, redirected, run
from tests.oracle import step
from tests.programs.build import build, names
from tests.seldom import seldom

#: Programs that see a limit (docs/limits.md): the program counter that a signal handler finds is that of the patch.
SEES_ADDRESSES = {"sigpc"}
#: Programs whose functions are also left otherwise than by their returns, or in other threads and processes.
LEFT = ("tailcall", "exceptions", "threads", "fork")
PROGRAMS = [name for name in names() if name not in SEES_ADDRESSES and name != "many"]
#: One program is enough, as this takes long.
WITH_LIBC = ["threads"]
VARIANTS = [
    ("work", "static"), ("work", "static-pie"), ("work", "nopie"), ("work", "stripped"), ("work", "static+stripped"),
    ("work", "nopie+stripped"), ("work", "O0"), ("work", "Os"), ("work", "O3"), ("work", "ibt"),
    ("jumptable", "Os"), ("jumptable", "nopie"), ("jumptable", "nopie+Os"), ("ifunc", "static"), ("ifunc", "now"),
    ("ifunc", "static-pie"), ("exceptions", "Os"), ("many", "n200"),
]  # fmt: skip
#: These plan a whole static libc each time.
SLOW_VARIANTS = {"static", "static-pie", "static+stripped"}
#: Combined variants, whose parts other combinations have one by one.
COMBINED = {
    ("work", "nopie+stripped"), ("jumptable", "nopie+Os"), ("jumptable", "nopie"), ("work", "Os"), ("ifunc", "now"),
    ("work", "O3"), ("work", "stripped"), ("exceptions", "Os"),
}  # fmt: skip
#: Programs with calls that do not return to their caller: they end by longjmp, an exception, exit, pthread_exit, exec,
#: or a ret to an address that was pushed (sb_pushes of shortblocks).
LEAVES_CALLS = {
    "backtrace", "exceptions", "exec", "fork", "setjmp", "spawn", "threads", "vfork", "unwind", "signals", "ucontext",
    "smallstack", "shortblocks",
}  # fmt: skip


def check(ran: Ran, expected: Ran) -> None:
    assert ran.visible == expected.visible
    assert ran.report["restored"] is True, ran.report["notes"]
    assert ran.report["drops"] == 0
    assert ran.report["points"]["spliced"] > 0


LONG = pytest.mark.stress
#: Both sides at once, below, are in every run, for programs whose code is each of another kind.
SHORT = {
    "avx", "dense", "exceptions", "fork", "interp", "jumptable", "redzone", "rseq", "setjmp", "shortblocks", "signals",
    "threads",
}  # fmt: skip
ONE_SIDE = [name if name in WITH_LIBC else pytest.param(name, marks=pytest.mark.stress) for name in PROGRAMS]
#: Tests of one side, and of the program alone.
OF_ONE_IMAGE = [pytest.param(name, marks=pytest.mark.stress) for name in PROGRAMS]


@pytest.mark.parametrize("name", OF_ONE_IMAGE)
def test_programs_behave_the_same_with_a_count_in_every_block(name: str) -> None:
    program = build(name)
    ran = run(["*:blocks=count"], [program])
    check(ran, plain([program]))
    assert sum(ran.report["counts"].values()) > 0


@pytest.mark.parametrize("name", OF_ONE_IMAGE)
def test_programs_behave_the_same_with_a_count_after_every_block(name: str) -> None:
    program = build(name)
    check(run(["*:blocks-post=count"], [program]), plain([program]))


@pytest.mark.parametrize("name", [name if name in SHORT else pytest.param(name, marks=LONG) for name in PROGRAMS])
def test_programs_behave_the_same_with_counts_before_and_after_every_block(name: str) -> None:
    program = build(name)
    check(run(["*:blocks=count", "*:blocks-post=count"], [program]), plain([program]))


@pytest.mark.stress
@pytest.mark.parametrize("name", ONE_SIDE)
def test_programs_behave_the_same_with_a_count_in_every_block_of_libc_too(name: str) -> None:
    program = build(name)
    check(run(["*:blocks=count", "libc.so.6:*:blocks=count"], [program]), plain([program]))


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        pytest.param(*each, marks=pytest.mark.stress) if each[1] in SLOW_VARIANTS or each in COMBINED else each
        for each in VARIANTS
    ],
)
def test_compiler_variants_behave_the_same_with_a_count_in_every_block(name: str, variant: str) -> None:
    program = build(name, variant)
    check(run(["*:blocks=count"], [program]), plain([program]))


@pytest.mark.parametrize("variant", seldom(sorted(SLOW_VARIANTS, reverse=True), 1))
def test_compiler_variants_behave_the_same_with_a_count_at_every_entry(variant: str) -> None:
    """A static program contains the C library's functions too."""
    program = build("work", variant)
    check(run(["*:entry=count"], [program]), plain([program]))


#: Few enough calls for a late reader to keep every record.
AMOUNT = {
    "hot8": "2000", "work": "20", "recursion": "1", "fork": "1", "jumptable": "20", "avx": "20", "ifunc": "20", "tailcall": "20",
}  # fmt: skip
#: The number of calls that do not return: main and its caller exit, and tail_maybe of tailcall is left by a conditional
#: jump for odd numbers (docs/limits.md).
LEFT_CALLS = {"tailcall": 3 + 20 // 2}


def small(name: str) -> list[str | Path]:
    return [build(name), *([AMOUNT[name]] if name in AMOUNT else [])]


@pytest.mark.stress  # `time` puts the same stamp at entries
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_behave_the_same_with_a_stamp_at_every_entry(name: str) -> None:
    ran, expected = run(["*:entry=stamp"], small(name)), plain(small(name))
    assert ran.visible == expected.visible
    assert ran.report["restored"] is True


@pytest.mark.parametrize("name", [n if n in LEFT else pytest.param(n, marks=pytest.mark.stress) for n in PROGRAMS])
def test_programs_behave_the_same_with_every_function_timed(name: str) -> None:
    """For every call that was seen to begin, the end is seen, except for calls that are left in another way."""
    ran, expected = run(["*:entry=time"], small(name)), plain(small(name))
    assert ran.visible == expected.visible
    assert ran.report["restored"] is True
    if name not in LEAVES_CALLS and not ran.report["drops"]:
        lost = [note for note in ran.report["notes"] if "not whole" in note]
        assert not lost or int(lost[0].split()[0]) <= LEFT_CALLS.get(name, 3), lost


@pytest.mark.parametrize(
    ("command", "calls"),
    [(("jumptable", "20"), {"dense": 240, "shifted": 320}), (("shortblocks", "1"), {"sb_entry_loop": 1})],
    ids=["cold-parts", "loop-to-the-entry"],
)
def test_every_call_is_timed(command: tuple[str, str], calls: dict[str, int]) -> None:
    """This holds however the function is left, also from foo.cold, and however often it jumps back to its own start."""
    with redirected(), gilk.launch([str(build(command[0])), command[1]]) as target, target.session() as session:
        session.insert("*:entry", "time")
        target.resume()
        parts = []
        while target.process.wait(block=False) is None:
            parts.append(session.poll())
        found = gilk.calls(pa.concat_tables([*parts, session.poll(), session.close()], promote_options="default"))
    timed = Counter(found.table["function"].to_pylist())
    assert {name: timed[name] for name in calls} == calls
    assert not [name for name in timed if name.endswith(".cold")]


@pytest.mark.parametrize(
    "command",  # those marked take tens of millions of steps in the unwinder
    [pytest.param(("work", "3"), marks=LONG), ("jumptable", "2"), ("shortblocks", "1"), ("recursion", "1"), ("tailcall", "2"), ("redzone", "2"),
     pytest.param(("setjmp", "3"), marks=LONG), pytest.param(("exceptions", "2"), marks=LONG),
     pytest.param(("ipara", "2"), marks=LONG), pytest.param(("interp", "1"), marks=LONG),
     pytest.param(("backtrace", "2"), marks=LONG), pytest.param(("unwind", "2"), marks=LONG)],
    ids=lambda command: command[0],
)  # fmt: skip
def test_block_counts_are_those_of_single_steps(command: tuple[str, str]) -> None:
    """The counts are of every block of the main image, from its entry point on."""
    program, amount = build(command[0]), command[1]
    with redirected() as (out, _), gilk.launch([str(program), amount]) as target, target.session() as session:
        probes = {p.row.point: p for p in session.insert("*:blocks", gilk.count)}
        places = [block.pre.point for f in target.functions() for block in f.blocks]
        target.resume()
        while target.process.wait(block=False) is None:
            session.poll()
        session.close()
        counts = session.counts()
        out.seek(0)
        assert out.read().endswith(f"ok {command[0]}\n".encode())
    stepped = step([program, amount], {program.name: [p.address for p in places]}, start="entry", timeout=3000)
    assert stepped.status == 0
    expected: Counter[str] = Counter()
    for point in places:
        if probes[point.label].tactic is not None:
            expected[point.label] += stepped.counts[program.name, point.address]
    wrong = {label: (counts[label], n) for label, n in expected.items() if counts[label] != n}
    assert not wrong
    assert sum(n > 0 for n in expected.values()) > 5
