# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hundreds of functions of the Java virtual machine itself, in a program whose code it compiles, whose small heap it
collects, and whose threads it starts: the program prints the same as undisturbed, and goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import gilk
from gilk.trace.reading import read
from tests.behaviour.harness import differences, leftovers, plain, run
from tests.behaviour.test_fibers import traced
from tests.behaviour.test_languages import attending, java

pytestmark = pytest.mark.stress
#: A heap in which each round is collected, in part and as a whole.
SMALL = ("-Xmx24m", "-XX:+UseG1GC")


def collecting(place: Path) -> list[str]:
    """The command of the program of test_languages.py, with a small heap."""
    command = java(place)
    return [command[0], *SMALL, *command[1:]]


def test_instruments_in_a_running_virtual_machine_do_not_disturb_it(tmp_path: Path) -> None:
    command = collecting(tmp_path)
    inserts = [
        ("*G1*Region*", "count"),
        ("*CollectedHeap*", "time"),
        ("*CompileBroker*", "time"),
        ("*JavaThread*", "count"),
    ]
    with attending(command) as program:
        undisturbed = [program.poke() for _ in range(2 * len(inserts))]
    with attending(command) as program:
        said, pid = [], program.process.pid
        for functions, instrument in inserts:
            with gilk.attach(pid) as target, target.session() as session:
                probes = session.insert(f"libjvm.so:{functions}:entry", instrument)
                assert sum(probe.tactic is not None for probe in probes) >= 40
                said.append(program.poke())
                assert (sum(session.counts().values()) if instrument == "count" else len(session.poll())) > 0
            assert session.restored
            said.append(program.poke())
            assert (differences(pid), leftovers(pid)) == ([], [])
        assert said == undisturbed


def test_a_trace_of_the_collector_has_its_calls_whole(tmp_path: Path) -> None:
    command, trace = collecting(tmp_path), tmp_path / "trace.parquet"
    with attending(command) as program:
        undisturbed = [program.poke() for _ in range(3)]
    with attending(command) as program:
        pid = program.process.pid
        said = [
            program.poke(),
            traced(program.process, trace, "libjvm.so:*G1*Region*", "\n").rstrip("\n"),
            program.poke(),
        ]
        assert said == undisturbed
        assert (differences(pid), leftovers(pid)) == ([], [])
    states = Counter(row["state"] for row in read(trace).flow.table.to_pylist())
    assert states["whole"] > 100
    assert states["cut"] == 0


def test_collections_of_a_launched_virtual_machine_are_counted_as_it_logs_them(tmp_path: Path) -> None:
    """The library is opened by the program `java`, after gilk has begun; each collection is seen from the first on."""
    command, log = collecting(tmp_path), tmp_path / "log"
    words, lines = [command[0], f"-Xlog:gc:file={log}", *command[1:]], b"\n" * 3
    expected = plain(words, lines)
    counts = ["libjvm.so:*STWGCTimer*register_gc_start*:entry=time", "libjvm.so:*G1*Region*:entry=count"]
    ran = run(counts, words, lines, late=True)
    assert (expected.status, ran.visible) == (0, expected.visible)
    pauses = [line for line in log.read_text().splitlines() if "Pause Young" in line or "Pause Full" in line]
    (timed,) = (each["count"] for name, each in ran.report["latency"].items() if "register_gc_start" in name)
    assert timed == len(pauses) > 0
    regions = [count for point, count in ran.report["counts"].items() if point.startswith("libjvm.so:")]
    assert (len(regions) > 300, sum(regions) > 0) == (True, True)
    assert (ran.report["restored"], ran.report["partial"], ran.report["drops"]) == (True, False, 0)
