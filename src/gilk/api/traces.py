# SPDX-License-Identifier: LGPL-2.1-or-later
"""Traces: every call from one event to another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.api.processes import hold
from gilk.api.runs import check_output, report
from gilk.cache.columns import DamagedColumnError
from gilk.engines.follow.adapt import Budget
from gilk.engines.follow.scope import TraceScope
from gilk.engines.follow.tracing import Tracing
from gilk.engines.follow.tree_tracing import TreeTracing
from gilk.errors import UsageError
from gilk.render import timeline_index
from gilk.render.timeline_index import Progress
from gilk.render.timeline_parts import TimelineParts
from gilk.render.trace_report import TraceReport
from gilk.runs.kernels import kernel_of
from gilk.runs.outcome import Result
from gilk.session.request import Request
from gilk.session.request import parse as request_of
from gilk.spec import event

if TYPE_CHECKING:
    from gilk.api.watched_kernel import WatchedKernel
    from gilk.targets.kernel.channel import Sink

__all__ = [
    "DamagedColumnError", "TimelineParts", "TraceReport", "Tracing", "prepare_kernel_trace", "prepare_trace",
    "timeline_parts", "timeline_parts_again", "trace_report", "trace_report_of_file",
]  # fmt: skip

_INTERRUPTS = "irq"  # the word for interrupts among globs; no function of the kernel has this name


def prepare_trace(
    pids: Sequence[int] = (),
    command: Sequence[str] = (),
    output: str | Path | None = None,
    start: str = "now",
    stop: str = "exit",
    scope: Sequence[str] = (),
    skip: Sequence[str] = (),
    everything: bool = False,
    kernel: Sequence[str] = (),
    machine: str = "",
    modules: Sequence[Path] = (),
    depth: int = 0,
    follow: bool = False,
) -> Tracing:
    """Attach to processes, and launch the command, for a trace; no probe is in yet.

    ``start`` and ``stop`` are events (spec/event.py), ``scope`` and ``skip`` globs of functions (spec/functions.py).
    ``everything``: follow also functions that are called so often that this slows the program down. ``kernel``: globs
    of functions of the kernel, which are followed while one of the processes is in them; with ``irq`` among them, also
    in an interrupt on a processor that one of the processes was last seen on. ``machine``: another machine, which has
    the kernel and runs ``command``; its functions are followed whoever calls them. ``modules`` are loaded there first.
    ``depth``: how many levels of calls within calls belong to the trace; 0 for all. ``follow``: follow also the
    programs that the processes execute, and the processes that they start. Raises GilkError; then all processes are let
    go.
    """
    first, last, chosen = event.parse(start), event.parse(stop), TraceScope.parse(scope, skip)
    if follow:
        _check_followed((first, last), bool(kernel) or bool(machine))
    budget = None if everything else Budget()
    requests = _of_kernel(kernel)
    file = None if output is None else Path(output)
    check_output(file)
    if modules and not machine:
        raise UsageError("no-machine", "--module needs --on", "use --on lab: a crash there does no harm")
    target, elsewhere = kernel_of(requests, bool(pids), machine)
    if elsewhere is not None:
        elsewhere.load(modules)
    held = hold(pids, command if elsewhere is None else ())
    made = TreeTracing if follow else Tracing
    return made(
        held, requests, file, tuple(command), target, elsewhere,
        start=first, stop=last, scope=chosen, budget=budget, depth=depth, interrupts=_INTERRUPTS in kernel,
    )  # fmt: skip


def _of_kernel(globs: Sequence[str]) -> list[Request]:
    """The requests that time the functions of the kernel that globs name; interrupts alone mean all functions."""
    named = [glob for glob in globs if glob != _INTERRUPTS] or (["*"] if globs else [])
    return [request_of(f"kernel:{glob}:entry=time") for glob in named]


def _check_followed(events: Sequence[event.Event], is_of_kernel: bool) -> None:
    """Check that events and kernel suit a trace of a tree of processes. Raises UsageError `cannot-follow`."""
    if is_of_kernel:
        what = "--follow is about processes of this machine, not about a kernel"
        raise UsageError("cannot-follow", what, "leave out --follow, or ask for that in a trace of its own")
    for each in events:
        if isinstance(each, event.Reach):
            what = f"with --follow, {each.text} could be of any program; a trace of a tree has no such events"
            raise UsageError("cannot-follow", what, "use now, after:, for:, signal:, key: or exit")


def prepare_kernel_trace(
    kernel: WatchedKernel, globs: Sequence[str], command: Sequence[str], take: Sink, output: str | Path,
    start: str = "now", stop: str = "exit", depth: int = 0,
) -> Tracing:  # fmt: skip
    """A trace of the functions of a watched kernel that ``globs`` name, all for none; no probe is in yet. ``command``
    runs there meanwhile, if it is not empty, and its output is given to ``take``. Raises GilkError."""
    events = event.parse(start), event.parse(stop)
    for each in events:
        event.check_of_kernel(each)
    check_output(Path(output))
    return kernel.trace(_of_kernel(globs or ("*",)), command, take, Path(output), events, depth)


def trace_report(running: Tracing, result: Result) -> TraceReport:
    """A trace's result in the form that is shown."""
    summed = running.summary()
    return _report(running, result, summed.states, summed.threads)


def trace_report_of_file(running: Tracing, result: Result, progress: Progress) -> TraceReport:
    """The same for a trace that was kept in its file only, in bounded memory: the calls are counted in the index of its
    time line, which is in the cache then. ``progress``: as in `timeline_parts`. Raises StoreError."""
    if not result.file:
        return _report(running, result, {}, 0)
    found = timeline_parts(result.file, progress).index
    return _report(running, result, found.states(), len({(track.pid, track.tid) for track in found.tracks}))


def _report(running: Tracing, result: Result, calls: dict[str, int], threads: int) -> TraceReport:
    return TraceReport(
        run=report(result),
        traced=running.traced(),
        functions=running.functions,
        refused=running.refused,
        activation_ms=running.activation_ms,
        calls=calls,
        threads=threads,
    )


def timeline_parts(path: str | Path, progress: Progress = lambda _done, _of: None) -> TimelineParts:
    """The time line of a file of samples, which gives its parts one by one.

    Its index is read from the cache, or made; then ``progress`` is called with how many samples have been read, and how
    many there are. Raises StoreError.
    """
    return timeline_index.opened(Path(path), progress)


def timeline_parts_again(path: str | Path) -> TimelineParts:
    """The same, with a fresh index, after a `DamagedColumnError`. Raises StoreError."""
    return timeline_index.again(Path(path))
