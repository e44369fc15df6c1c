# SPDX-License-Identifier: LGPL-2.1-or-later
"""A machine that calls, returns, jumps and switches stacks, and keeps books of what really happened: the oracle for
flows."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from gilk.trace.about import About, Tally
from gilk.trace.clock import Clock
from gilk.trace.probes import ProbeRow
from gilk.trace.samples import NAME, schema
from gilk.trace.store import Writer
from gilk.trace.traced import TraceDescription

IMAGES = {"user": "prog", "kernel": "kernel"}


class _Stopped(Exception):
    pass


@dataclass
class Call:
    """A call as it really happened. `end` is None while it runs; `left` if it did not return."""

    function: str
    start: int
    tid: int
    sp: int
    parent: Call | None
    lane: str = "user"
    end: int | None = None
    left: bool = False


@dataclass
class Thread:
    tid: int
    top: int
    stack: list[Call] = field(default_factory=list)
    kernel: list[Call] = field(default_factory=list)


@dataclass
class Machine:
    """The machine: its threads, its calls, and its records as (time, pid, tid, function, lane, kind, sp)."""

    random: random.Random
    threads: list[Thread] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    records: list[tuple[int, int, int, str, str, str, int]] = field(default_factory=list)
    now: int = 0
    pending: dict[int, list[Call]] = field(default_factory=dict)

    def thread(self) -> Thread:
        self.threads.append(Thread(len(self.threads) + 1, 0x7000_0000 + (len(self.threads) << 24)))
        return self.threads[-1]

    def call(self, thread: Thread, function: str, lane: str = "user") -> Call:
        self.now += self.random.randrange(1, 9)
        self._settle(thread)
        stack = thread.kernel if lane == "kernel" else thread.stack
        if stack:
            sp = stack[-1].sp - self._frame(stack[-1])
        else:
            sp = 0x1000_4000 + (thread.tid << 14) - 64 if lane == "kernel" else thread.top
        parent = stack[-1] if stack else thread.stack[-1] if lane == "kernel" and thread.stack else None
        made = Call(function, self.now, thread.tid, sp, parent, lane)
        stack.append(made)
        self.calls.append(made)
        self._record(made, "entry")
        return made

    def ret(self, thread: Thread) -> None:
        self.now += self.random.randrange(1, 9)
        self._settle(thread)
        call = (thread.kernel or thread.stack).pop()
        call.end = self.now
        self._record(call, "return")

    def jump(self, thread: Thread, levels: int) -> None:
        """Leave the last `levels` calls by longjmp; no record shows that before the next event in user space."""
        for _ in range(levels):
            call = thread.stack.pop()
            call.left = True
            self.pending.setdefault(thread.tid, []).append(call)

    def _settle(self, thread: Thread) -> None:
        for call in self.pending.pop(thread.tid, []):
            call.end = self.now

    @staticmethod
    def _frame(call: Call) -> int:
        """The size of the call's frame, which is the same for all calls that it makes."""
        return 16 * (1 + hash((call.start, call.sp)) % 5)

    def _record(self, call: Call, side: str) -> None:
        self.records.append((self.now, 1, call.tid, call.function, call.lane, f"time-{side}", call.sp))

    def samples(self, start: int = 0) -> pa.Table:
        """The samples from the `start`-th record on."""
        return samples(self.records[start:])


def run(seed: int, steps: int, threads: int = 2, kernel: bool = False) -> Machine:
    """A machine that has made a random walk."""
    machine = Machine(random.Random(seed))
    for _ in range(threads):
        machine.thread()
    for _ in range(steps):
        thread = machine.random.choice(machine.threads)
        depth = len(thread.stack)
        choice = machine.random.random()
        if thread.kernel:
            if choice < 0.4 and len(thread.kernel) < 5:
                machine.call(thread, machine.random.choice("xyz"), "kernel")
            else:
                machine.ret(thread)
        elif choice < 0.1 and kernel and depth and thread.tid not in machine.pending:
            machine.call(thread, "sys", "kernel")
        elif choice < 0.5 and depth < 30:
            machine.call(thread, machine.random.choice("abcd"))
        elif choice < 0.55 and depth > 2:
            machine.jump(thread, machine.random.randrange(1, depth - 1))
        elif depth:
            machine.ret(thread)
    return machine


def samples(records: list[tuple[int, int, int, str, str, str, int]]) -> pa.Table:
    """A table of records as a session writes them; a `gap` is a record of that kind."""
    time, pid, tid, function, lane, kind, sp = (
        (list(column) for column in zip(*records, strict=True)) if records else [[]] * 7
    )
    named = [f if k != "gap" else None for f, k in zip(function, kind, strict=True)]
    sides = [k[5:].replace("head", "entry") for k in kind]
    point = [f and f"{IMAGES[side]}:{f}:{s}" for f, side, s in zip(named, lane, sides, strict=True)]
    return pa.table(
        {
            "time": pa.array(time, pa.int64()),
            "pid": pa.array(pid, pa.int32()),
            "tid": pa.array(tid, pa.int32()),
            "thread": pa.array([f"t{each}" for each in tid], pa.string()).cast(NAME),
            "point": pa.array(point, pa.string()).cast(NAME),
            "function": pa.array(named, pa.string()).cast(NAME),
            "kind": pa.array(kind, pa.string()).cast(NAME),
            "sp": pa.array(sp, pa.uint32()),
        }
    )


def write(path: Path, records: list[tuple[int, int, int, str, str, str, int]], tally: Tally | None = None) -> Path:
    """Write a file as a session leaves it, and return its path."""
    functions = "".join(dict.fromkeys(f for _, _, _, f, lane, _, _ in records if lane == "user" and len(f) == 1))
    longer = [f for _, _, _, f, lane, kind, _ in records if lane == "user" and len(f) > 1 and kind != "gap"]
    kernel = tuple(dict.fromkeys(f for _, _, _, f, lane, kind, _ in records if lane == "kernel" and kind != "gap"))
    writer = Writer(path, schema({0}), about([*functions, *dict.fromkeys(longer)], kernel))
    missing = pa.nulls(len(records), pa.int64())
    writer.write(samples(records).append_column("value", missing).select(schema({0}).names).cast(schema({0})))
    return writer.close(
        tally or Tally(partial=False, trace=TraceDescription(records[0][0], records[-1][0], "now", "exit"))
    )


def nested(
    *calls: Any, tid: int = 1, sp: int = 0x7000_0000, start: int = 0
) -> list[tuple[int, int, int, str, str, str, int]]:
    """The records of calls, each given as (function, ns in itself, *calls). A name that begins with `k:` is the
    kernel's, with `~` a call that is left, with `!` one in which everything stops. Time begins at `start`."""
    found: list[tuple[int, int, int, str, str, str, int]] = []

    def one(call: Any, now: int, depth: int) -> int:
        name, own, *inner = call
        lane = "kernel" if name.startswith("k:") else "user"
        plain = name.removeprefix("k:").lstrip("!~")
        pointer = 0x1000_4000 + (tid << 14) - 64 * depth if lane == "kernel" else sp - 64 * depth
        found.append((now, 1, tid, plain, lane, "time-entry", pointer))
        if plain != name.removeprefix("k:") and "!" in name[:3]:
            raise _Stopped
        now += own // 2
        for each in inner:
            now = one(each, now, depth + 1)
        now += own - own // 2
        if not name.removeprefix("k:").startswith("~"):
            found.append((now, 1, tid, plain, lane, "time-return", pointer))
        return now

    now = start
    try:
        for call in calls:
            now = one(call, now, 0)
    except _Stopped:
        pass
    return found


def about(functions: Iterable[str] = "abcd", kernel: tuple[str, ...] = ("x", "y", "z", "sys")) -> About:
    """The description of a session with probes at all of the machine's functions."""
    names = [*((f, "prog") for f in functions), *((f, "kernel") for f in kernel)]
    sides = [(name, image, side) for name, image in names for side in ("entry", "return")]
    probes = [
        ProbeRow(n + 1, f"{image}:{name}:{side}", name, image, f"time-{side}")
        for n, (name, image, side) in enumerate(sides)
    ]
    return About("box", ("prog",), (1,), 0, 0, Clock(0, 0, 1.0), tuple(probes))
