# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compare a trace's calls with those of a single-stepped run of the same program, at the same place in memory.

The order of entries of every thread is compared: image, function and stack pointer of each. The oracle takes one thing
from gilk: which bytes are a function, for without that there are no calls (analysis' ``image.spans``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import IO, Any

import gilk
from gilk.engines.follow.tracing import Tracing
from gilk.image.model import Image
from gilk.trace.flow import CallState, Flow
from tests.behaviour.harness import Command, Ran, redirected
from tests.oracle import Arrival, step_arrivals

_NO_RANDOMIZE = 0x0040000
_libc = ctypes.CDLL(None)
Name = tuple[str, str]  # image and function
Address = tuple[str, int]  # image, and the address in it as linked


@dataclass(frozen=True)
class Call:
    """An entry, and its caller: the call of the same thread that was under way and had been entered last."""

    callee: Name
    caller: Name | None


@dataclass
class Traced:
    """The trace of a whole run. ``calls`` are by pid and tid, in order; ``before`` are the functions entered before
    it."""

    report: dict[str, Any]
    calls: dict[tuple[int, int], list[Call]]
    before: list[Name]
    images: dict[str, Image]
    followed: dict[Address, Name]
    dynamic: bool
    ran: Ran


@dataclass
class Stepped:
    """The oracle's run of the same. ``whole`` is whether the program got to its end."""

    calls: dict[int, list[Call]]
    under_way: list[Name]
    whole: bool


def trace(command: Command, stdin: bytes = b"", scope: Sequence[str] = ()) -> Traced:
    """Trace the command from its first instruction on, with all its calls and without address randomization."""
    before = _libc.personality(ctypes.c_ulong(0xFFFFFFFF))
    _libc.personality(ctypes.c_ulong(before | _NO_RANDOMIZE))
    try:
        with redirected(stdin) as (out, err):
            return _trace([str(word) for word in command], scope, out, err)
    finally:
        _libc.personality(ctypes.c_ulong(before))


def _trace(command: list[str], scope: Sequence[str], out: IO[bytes], err: IO[bytes]) -> Traced:
    running = gilk.prepare_trace((), command, None, scope=scope, everything=True)
    process = running.processes[0]
    try:
        running.begin()
        dynamic = any(process.files.interpreter(loaded.path) for loaded in process.loaded())
        running.wait(None, lambda: False, lambda progress: None)
        result = running.finish()
        end = process.wait()
        report = gilk.trace_report(running, result).to_json()
    finally:
        process.keeper.leave()
    flow = running.flow()
    assert flow is not None
    assert end is not None
    for file in (out, err):
        file.seek(0)
    images = {path.name: process.image(path) for path in process.files._open if path.name != "exe"}
    ran = Ran(end.code, out.read(), err.read())
    return Traced(report, *_calls(flow), images, _followed(running), dynamic, ran)


def _followed(running: Tracing) -> dict[Address, Name]:
    found: dict[Address, Name] = {}
    for follower in running._followers:
        for made in follower._made:
            for start, name in zip(made.starts, made.names, strict=True):
                found[made.loaded.name, start] = made.loaded.name, name
    return found


def _calls(flow: Flow) -> tuple[dict[tuple[int, int], list[Call]], list[Name]]:
    rows = flow.table.select(["pid", "tid", "image", "function", "parent", "state"]).to_pylist()
    names = [(row["image"], row["function"]) for row in rows]
    recorded = [row["state"] != CallState.BEFORE for row in rows]
    calls: dict[tuple[int, int], list[Call]] = {}
    for row, name, own in zip(rows, names, recorded, strict=True):
        if own:
            parent = row["parent"]
            caller = names[parent] if parent >= 0 and recorded[parent] else None
            calls.setdefault((row["pid"], row["tid"]), []).append(Call(name, caller))
    return calls, [name for name, own in zip(names, recorded, strict=True) if not own]


# The oracle.


def stepped(command: Command, traced: Traced, stdin: bytes = b"", steps: int = 0, children: bool = False) -> Stepped:
    """Run the same command one instruction at a time, for ``steps`` instructions at most."""
    starts: dict[str, list[int]] = {}
    for image in traced.images.values():
        starts[image.name] = [span.start for span in image.spans]
    found, whole = step_arrivals([str(word) for word in command], starts, stdin=stdin, steps=steps, children=children)
    threads: dict[int, list[Arrival]] = {}
    for one in found:
        threads.setdefault(one.thread, []).append(one)
    first = found[0].thread
    under_way: list[Name] = []
    calls = {}
    for number, arrivals in threads.items():
        since = _linked(arrivals, traced) if number == first else 0
        calls[number], waiting = _nested(arrivals, since, traced)
        under_way += waiting
    return Stepped(calls, under_way, whole)


def _linked(arrivals: list[Arrival], traced: Traced) -> int:
    """The arrival at which a trace of a launched program begins: the linker's second report that it has mapped
    libraries."""
    if not traced.dynamic:
        return 0
    said = [n for n, one in enumerate(arrivals) if _name(one.image, one.address, traced)[1] == "_dl_debug_state"]
    return said[1]


def _name(image: str, address: int, traced: Traced) -> Name:
    span = traced.images[image].span_at(address)
    return image, span.name if span else ""


def _nested(arrivals: list[Arrival], since: int, traced: Traced) -> tuple[list[Call], list[Name]]:
    """The calls from arrival ``since`` on, and the functions that were under way then."""
    stack: list[tuple[int, Name, bool]] = []
    calls: list[Call] = []
    waiting: list[Name] = []
    for number, one in enumerate(arrivals):
        while stack and stack[-1][0] < one.highest and not _is_first(stack[-1][1], traced):
            stack.pop()  # the call has returned
        if number == since:
            waiting = [name for _, name, _ in stack]
        followed = traced.followed.get((one.image, one.address))
        if followed is None or one.how == "r" or _own_loop(one, traced):
            continue
        while stack and stack[-1][0] <= one.sp + _words(followed):
            stack.pop()
        if number >= since:
            calls.append(Call(followed, stack[-1][1] if stack and stack[-1][2] else None))
        stack.append((one.sp, followed, number >= since))
    return calls, waiting


def _words(name: Name) -> int:
    """The bytes that a stub has pushed before it jumped to the function: 16 for lazy binding, else 0."""
    return 16 if name[1].startswith("_dl_runtime_resolve") else 0


def _is_first(name: Name, traced: Traced) -> bool:
    """Whether it is the entry point of a program or the linker, which is not called, does not return, and takes its
    arguments off the stack."""
    image = traced.images[name[0]]
    span = image.span_at(image.entry)
    return span is not None and span.name == name[1]


def _own_loop(one: Arrival, traced: Traced) -> bool:
    """Whether a function jumped to its own start."""
    image = traced.images.get(one.source_image)
    if one.how != "j" or one.source_image != one.image or image is None:
        return False
    source, target = image.span_at(one.source), image.span_at(one.address)
    return source is not None and target is not None and source.name.removesuffix(".cold") == target.name


def difference(expected: Sequence[Call], found: Sequence[Call], prefix: bool) -> str:
    """The first place where the two differ, with its surroundings; '' if they agree. A bounded run of the oracle
    ends in the middle."""
    for n, (ours, theirs) in enumerate(zip_longest(found, expected)):
        if theirs is None and prefix:
            return ""
        if ours != theirs:
            around = "\n".join(
                f"  {number} {expected[number]}" for number in range(max(0, n - 8), min(n + 5, len(expected)))
            )
            return f"call {n}: {ours}, where the oracle has {theirs}\n{around}"
    return ""
