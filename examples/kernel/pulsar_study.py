#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Are gilk's times right? Two tracers see the same forks, and are compared event by event.

    python3 examples/kernel/pulsar_study.py [DIRECTORY [BURSTS FORKS MILLISECONDS]]

In a virtual machine with a stock kernel, pulsar.c forks in bursts (GILK, section 4.1): 96 forks in three steps. An
instrument in C is at the entries of the functions that make, end and wait for a process, and the kernel's own function
tracer, ftrace, watches the same functions by the same counter. Both must have seen the same events, each task's in the
same order. The difference between the two times of an event is the skew.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
from studying import compiled, directory, figure, samples_of, save, shell, text_of

import gilk
from gilk import Kernel, c

FUNCTIONS = ("kernel_clone", "do_exit", "kernel_wait4")
PROGRAM = "pulsar"
TRACING = "cd /sys/kernel/tracing\n"
START = """echo x86-tsc > trace_clock
echo 8192 > saved_cmdlines_size
echo 4096 > buffer_size_kb
echo {names} > set_ftrace_filter
echo function > current_tracer"""
STOP = """cat trace
cat per_cpu/cpu*/stats | grep -E '^(overrun|dropped)' >&2
echo nop > current_tracer
echo > set_ftrace_filter
echo local > trace_clock
echo > trace"""
LINE = re.compile(r"^ *(?P<task>.+)-(?P<tid>\d+) +\[\d+\] \S+ +(?P<tsc>\d+): (?P<function>\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Event:
    """An entry of a function. ``time`` is in ns since gilk's session began."""

    time: int
    tid: int
    function: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """The same events as both tracers saw them. ``skew`` is gilk's time less ftrace's, in ns, of every event in the
    order of ftrace. ``swapped`` is the number of neighbours that gilk saw in the other order, at most ``widest`` ns
    apart."""

    gilk: list[Event]
    ftrace: list[Event]
    skew: NDArray[np.int64]
    swapped: int
    widest: int
    restored: bool


def study(kernel: Kernel, program: Path, bursts: int, forks: int, milliseconds: int) -> Comparison:
    before = text_of(kernel, FUNCTIONS)
    with kernel.session() as session:
        who = c(Path(__file__).with_name("waits.c"), "whose")
        for probe in session.insert([kernel.function(name).entry for name in FUNCTIONS], who):
            print(f"{probe.row.point}: {probe.tactic or probe.refusal}", flush=True)
        shell(kernel, TRACING + START.format(names=" ".join(FUNCTIONS)))
        table = samples_of(kernel, session, [str(program), *map(str, (bursts, forks, milliseconds))])
        told = shell(kernel, TRACING + STOP)
        restored = bool(session.restored) and text_of(kernel, FUNCTIONS) == before
        rows = [row for row in table.to_pylist() if row["text"] == PROGRAM]
        ours = [Event(row["time"], row["tid"], row["function"]) for row in rows]
        found = [line for line in LINE.finditer(told) if line["task"] == PROGRAM]
        times = session.clock.to_ns(np.array([int(line["tsc"]) for line in found], np.uint64)) - session.start
    theirs = [Event(t, int(e["tid"]), e["function"]) for t, e in zip(times.tolist(), found, strict=True)]
    return compare(ours, theirs, restored)


def compare(ours: list[Event], theirs: list[Event], restored: bool) -> Comparison:
    """Compare the tracers event by event: the n-th event of a task for one is the n-th for the other. Raises
    ValueError if they differ."""
    pairs = matched(ours, theirs)
    skew = np.array([a.time - b.time for a, b in pairs], np.int64)
    times = np.array([a.time for a, _ in pairs], np.int64)
    back = times[:-1] - times[1:]
    return Comparison(ours, theirs, skew, int((back > 0).sum()), int(max(back.max(initial=0), 0)), restored)


def matched(ours: list[Event], theirs: list[Event]) -> list[tuple[Event, Event]]:
    """Pairs of the same event, in the order of ``theirs``. Raises ValueError if they differ."""
    waiting: defaultdict[int, list[Event]] = defaultdict(list)
    for event in reversed(ours):
        waiting[event.tid].append(event)
    pairs = []
    for event in theirs:
        mine = waiting[event.tid].pop() if waiting[event.tid] else None
        if mine is None or mine.function != event.function:
            raise ValueError(f"ftrace has {event}, gilk has {mine}")
        pairs.append((mine, event))
    if rest := [event for left in waiting.values() for event in left]:
        raise ValueError(f"ftrace does not have {len(rest)} of gilk's events, such as {rest[0]}")
    return pairs


def forks_of(events: list[Event]) -> list[float]:
    """The time of each fork, in seconds since the first."""
    times = [event.time for event in events if event.function == "kernel_clone"]
    return [(time - times[0]) / 1e9 for time in times]


def report(result: Comparison) -> None:
    print(f"\n{'':16}{'gilk':>8}{'ftrace':>8}")
    for name in FUNCTIONS:
        print(f"{name:16}{count(result.gilk, name):8}{count(result.ftrace, name):8}")
    least, median, most = result.skew.min(), np.median(result.skew), result.skew.max()
    print("\nEvery task's events are the same, in the same order.")
    print(
        f"Of {len(result.skew) - 1} neighbours {result.swapped} have changed places, at most {result.widest} ns apart."
    )
    print(
        f"gilk is behind ftrace, which comes first at an entry, by {median:.0f} ns, at least {least}, at most {most}."
    )
    print(f"The kernel's text is {'what it was, byte for byte' if result.restored else 'NOT what it was'}.")


def count(events: list[Event], function: str) -> int:
    return sum(event.function == function for event in events)


def draw(result: Comparison, path: Path) -> None:
    """Draw the steps of the forks, as both tracers saw them, and the skew."""
    made, (steps, skews) = figure(10, 4, columns=2)
    for name, events, style in (("ftrace", result.ftrace, "-x"), ("gilk", result.gilk, "o")):
        times = forks_of(events)
        steps.plot(times, range(len(times)), style, markersize=5, fillstyle="none", linewidth=0.8, label=name)
    steps.set(
        xlabel="time in s since the first fork", ylabel="number of the fork", title="Forks, as two tracers saw them"
    )
    steps.legend()
    skew = np.maximum(result.skew / 1000, 0.1)
    skews.hist(skew, bins=np.geomspace(skew.min(), skew.max() * 1.01, 50).tolist())
    skews.set(xlabel="gilk's time less ftrace's, in µs", ylabel="events", title="Skew", xscale="log")
    save(made, path)


def main() -> int:
    place = directory(sys.argv)
    bursts, forks, milliseconds = map(int, sys.argv[2:5]) if len(sys.argv) > 4 else (3, 32, 2000)
    with tempfile.TemporaryDirectory() as name:
        program = compiled(PROGRAM, Path(name))
        print("starting a virtual machine with a stock kernel, and reading its code", flush=True)
        with gilk.kernel("lab") as kernel:
            result = study(kernel, program, bursts, forks, milliseconds)
    report(result)
    draw(result, place / "pulsar.png")
    return 0 if result.restored else 1


if __name__ == "__main__":
    sys.exit(main())
