# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs: instruments at points of processes and of the kernel, and the samples that they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gilk.api.processes import hold
from gilk.errors import UsageError
from gilk.render.histogram import by_function
from gilk.render.period import to_json as period_json
from gilk.render.period import to_text as period_text
from gilk.render.report import RunReport
from gilk.runs import clause_request, strategy
from gilk.runs.clause_request import ClauseRequest, ClauseSessions
from gilk.runs.kernels import kernel_of
from gilk.runs.outcome import Result
from gilk.runs.periods import Periods
from gilk.runs.progress import Progress
from gilk.runs.run import Run
from gilk.runs.strategy import Chosen
from gilk.session.request import Builtin, CFunction, Request
from gilk.trace.destination import check as check_output
from gilk.trace.period import Period

__all__ = [
    "CFunction", "Period", "Periods", "Progress", "Request", "Result", "Run", "RunReport", "args", "c", "check_output",
    "count", "parse_request", "period_json", "period_text", "prepare_run", "regs", "report", "stamp", "time",
]  # fmt: skip

AnyRequest = Request | Chosen | ClauseRequest
count, stamp, args, regs, time = Builtin.COUNT, Builtin.STAMP, Builtin.ARGS, Builtin.REGS, Builtin.TIME


def c(source: str | Path, function: str) -> CFunction:
    """The instrument that is ``function`` of the C file ``source``."""
    return CFunction(Path(source), function)


def parse_request(text: str, longer_than: int = 0) -> AnyRequest:
    """Read a request: ``POINTS[/CONDITION/]=INSTRUMENT``, or ``FUNCTIONS=@STRATEGY``.

    ``longer_than``: ns; calls that take less leave no record with the instruments `time` and `stack`. Raises
    UsageError.
    """
    return clause_request.parse(text, longer_than) or strategy.parse(text)


def prepare_run(
    requests: Sequence[AnyRequest],
    pids: Sequence[int],
    command: Sequence[str],
    output: str | Path | None = None,
    machine: str = "",
    flight: bool = False,
    follow: bool = False,
    waits: bool = False,
) -> Run:
    """Attach to processes, and launch the command, for a run; no probe is in yet.

    ``machine``: the machine that has the kernel and runs the command, '' for this one (runs/elsewhere.py). ``flight``:
    a full buffer of the kernel keeps its newest records, not its oldest. ``follow``: the programs that the processes
    execute, and the processes that they start, get the instruments, too. ``waits``: points that match nothing yet may
    be in libraries that are opened later. Raises GilkError; then all processes are let go.
    """
    if follow:
        _check_followed(requests, machine)
    _check_together(requests, machine)
    _check_options(requests, machine, flight, waits)
    file = None if output is None else Path(output)
    check_output(file)
    kernel, elsewhere = kernel_of(requests, bool(pids), machine)
    held = hold(pids, command if elsewhere is None else ())
    plain = [request for request in requests if isinstance(request, Request)]
    clauses = [request for request in requests if isinstance(request, ClauseRequest)]
    sessions = _clause_sessions() if clauses else None
    if follow:
        from gilk.runs.followed import FollowedRun  # imported here, as few runs follow

        return FollowedRun(held, plain, file, tuple(command), clauses=clauses, clause_sessions=sessions)
    if len(plain) + len(clauses) == len(requests):
        return Run(
            held, plain, file, tuple(command), kernel, elsewhere, flight, clauses=clauses, clause_sessions=sessions,
            waits=waits,
        )  # fmt: skip
    from gilk.runs.experiment import run as experiment_run  # imported here: few runs have strategies

    chosen = [request for request in requests if not isinstance(request, ClauseRequest)]
    return experiment_run.of_requests(held, chosen, file, tuple(command), kernel, elsewhere, flight)


def _clause_sessions() -> ClauseSessions:
    from gilk.engines.clauses.session import session_of  # imported here, as few runs have clauses

    return session_of


def _check_options(requests: Sequence[AnyRequest], machine: str, flight: bool, waits: bool) -> None:
    """Check that the options are about what is requested. Raises UsageError `usage`, `flight-in-kernel`."""
    if waits and (machine or any(isinstance(request, Chosen) for request in requests)):
        raise UsageError("usage", "-Z is about points in libraries of processes here, and not about strategies")
    if flight and not any(request.of_kernel for request in requests):
        raise UsageError("flight-in-kernel", "--flight is about buffers in the kernel, and no point is in the kernel")


def _check_together(requests: Sequence[AnyRequest], machine: str) -> None:
    """Check that requests that need clauses of D are not mixed with others that cannot be. Raises UsageError
    `no-clause-there`."""
    if not any(isinstance(request, ClauseRequest) for request in requests):
        return
    hint = "ask for them in a run of its own"
    if machine:
        what = "stacks, conditions, --longer-than, usdt: and syscall: are about processes of this machine"
        raise UsageError("no-clause-there", what, hint)
    if any(isinstance(request, Chosen) for request in requests):
        what = "stacks, conditions, --longer-than, usdt: and syscall: do not go together with strategies"
        raise UsageError("no-clause-there", what, hint)


def _check_followed(requests: Sequence[AnyRequest], machine: str) -> None:
    """Check that all requests can be carried out in a tree of processes. Raises UsageError `cannot-follow`."""
    hint = "leave out --follow, or ask for that in a run of its own"
    if machine or any(request.of_kernel for request in requests):
        raise UsageError("cannot-follow", "--follow is about processes of this machine, not about a kernel", hint)
    if any(isinstance(request, Chosen) for request in requests):
        raise UsageError("cannot-follow", "--follow takes points, and no strategies", hint)


def report(result: Result, by: str = "") -> RunReport:
    """A run's result in the form that is shown. ``by``: how counts are grouped, `program`, `process`, or '' for not at
    all."""
    notes = list(result.notes)
    if result.calls is not None:
        lacking = any(each.point.endswith(":post") for each in result.refused_points)
        how = "a jump, an exception or a return that was refused" if lacking else "a jump or an exception"
        calls = result.calls
        parts = (
            (calls.abandoned, f"left by {how}"),
            (calls.open + calls.orphans, "at the edges: entered before, or still under way"),
            (calls.cut, "cut by dropped records"),
        )
        if any(number for number, _ in parts):
            text = ", ".join(f"{number} {what}" for number, what in parts if number)
            notes.append(f"{sum(number for number, _ in parts)} timed calls are not whole: {text}")
    return RunReport(
        counts=result.counts,
        **result.numbers,
        tactics=result.tactics,
        refusals=result.refusals,
        refused_points=result.refused_points,
        inlined=result.inlined,
        restored=result.restored,
        partial=result.partial,
        notes=notes,
        latency=by_function(result.calls.table) if result.calls is not None else {},
        file=result.file,
        programs=result.programs,
        by=by,
        stacks=result.stacks,
        spent=result.spent,
    )
