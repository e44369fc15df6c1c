# SPDX-License-Identifier: LGPL-2.1-or-later
"""What users of gilk import, and all that the command line does.

    import gilk

    with gilk.attach(pid) as target, target.session() as session:
        session.insert("main:entry", gilk.count)
        session.insert([f.entry for f in target.functions("parse_*")], gilk.time)
        ...
        table = session.poll()          # an Arrow table of samples
        print(session.counts())

Everything heavy is imported where it is first needed: `gilk scan` of a file that
is known should not wait for Arrow.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from gilk.errors import CompileError, GilkError, ImageError, StoreError, TargetError, UsageError

if TYPE_CHECKING:
    from gilk import lab
    from gilk.arch.processor import flags as processor_flags
    from gilk.cache.place import intended as cache_place
    from gilk.engines.dtrace.ahead import expect as expect_dtrace
    from gilk.engines.dtrace.asked import Asked as DtraceRequest
    from gilk.engines.dtrace.asked import Preprocess
    from gilk.engines.dtrace.asked import let_go as let_go_dtrace
    from gilk.engines.dtrace.asked import prepare as prepare_dtrace
    from gilk.engines.dtrace.compiled import DoesNotCompile
    from gilk.engines.dtrace.consumer import Consumer
    from gilk.engines.dtrace.enabling import NoSuchProbe
    from gilk.engines.dtrace.iterated import DtraceSession
    from gilk.engines.dtrace.outlet import Aside as DtraceAside
    from gilk.engines.dtrace.outlet import Outlet as DtraceOutlet
    from gilk.engines.dtrace.outlet import Pages as DtracePages
    from gilk.engines.dtrace.provided import write_header as write_dtrace_header
    from gilk.engines.dtrace.provided import write_objects as write_dtrace_objects
    from gilk.engines.follow.tracing import Tracing
    from gilk.engines.scan.graph import cfg
    from gilk.engines.scan.scanning import scan
    from gilk.private import complaints
    from gilk.render.report import RunReport
    from gilk.render.trace_report import TraceReport
    from gilk.runs.elsewhere import Elsewhere
    from gilk.runs.experiment.file import Experiment
    from gilk.runs.experiment.run import Staged
    from gilk.runs.outcome import Result
    from gilk.runs.run import Progress, Run
    from gilk.runs.strategy import Chosen
    from gilk.session.base import Probe
    from gilk.session.broker.client_session import ClientSession as Session
    from gilk.session.kernel_session import KernelSession
    from gilk.session.places import BlockView, FunctionView, Place
    from gilk.session.request import Builtin, CFunction, Request
    from gilk.splice.figures import Survey
    from gilk.splice.graph import Graph
    from gilk.targets.base import Loaded
    from gilk.targets.kernel import admin as driver
    from gilk.targets.kernel.target import KernelTarget
    from gilk.targets.process import Process
    from gilk.targets.restore import restore
    from gilk.toolchain.compilers import compiler
    from gilk.trace.calls import pair as calls
    from gilk.trace.d import events
    from gilk.trace.d import values as dtrace_values
    from gilk.trace.reading import read

    count, stamp, args, regs, time = Builtin.COUNT, Builtin.STAMP, Builtin.ARGS, Builtin.REGS, Builtin.TIME

__all__ = [
    "BlockView", "CFunction", "CompileError", "Consumer", "DoesNotCompile", "DtraceAside", "DtraceOutlet",
    "DtracePages", "DtraceRequest", "DtraceSession", "Experiment",
    "FunctionView", "GilkError", "Graph", "ImageError", "NoSuchProbe",
    "Preprocess", "let_go_dtrace", "prepare_dtrace", "Kernel", "Loaded", "Place", "Probe", "Progress", "Request",
    "Result", "Run", "RunReport", "Session", "Staged", "StoreError", "Survey", "Target", "Tracing", "TargetError",
    "UsageError", "args", "attach", "c", "cache_place", "calls", "cfg", "check_output", "compiler", "complaints",
    "count", "driver", "dtrace", "dtrace_events", "dtrace_values", "events", "expect_dtrace", "kernel", "lab", "launch",
    "load_experiment", "parse_request", "prepare_experiment", "prepare_run", "prepare_trace", "processor_flags", "read",
    "regs", "report", "restore", "scan", "stamp", "time", "trace_report", "write_dtrace_header",
    "write_dtrace_objects",
]  # fmt: skip

_INTERRUPTS = "irq"  # no function of the kernel's is called so
_MODULES = {
    "lab": "gilk.lab",
    "driver": "gilk.targets.kernel.admin",
    "events": "gilk.trace.d.events",
    "dtrace_values": "gilk.trace.d.values",
}
#: Where the names are that are imported on first use; `:` leads to one by another name.
_LAZY = {
    **dict.fromkeys(("BlockView", "FunctionView", "Place"), "gilk.session.places"),
    **dict.fromkeys(("CFunction", "Request"), "gilk.session.request"),
    **{name: f"gilk.session.request:Builtin.{name.upper()}" for name in ("count", "stamp", "args", "regs", "time")},
    **dict.fromkeys(("Progress", "Result", "Run"), "gilk.runs.run"),
    "Tracing": "gilk.engines.follow.tracing",
    "Experiment": "gilk.runs.experiment.file",
    "Staged": "gilk.runs.experiment.run",
    "Probe": "gilk.session.base",
    "Session": "gilk.session.broker.client_session:ClientSession",
    "Graph": "gilk.splice.graph",
    "Survey": "gilk.splice.figures",
    "cfg": "gilk.engines.scan.graph",
    "scan": "gilk.engines.scan.scanning",
    "Loaded": "gilk.targets.base",
    "RunReport": "gilk.render.report",
    "calls": "gilk.trace.calls:pair",
    "read": "gilk.trace.reading",
    "restore": "gilk.targets.restore",
    "Consumer": "gilk.engines.dtrace.consumer",
    "DoesNotCompile": "gilk.engines.dtrace.compiled",
    "NoSuchProbe": "gilk.engines.dtrace.enabling",
    "DtraceSession": "gilk.engines.dtrace.iterated",
    "Preprocess": "gilk.engines.dtrace.asked",
    "DtraceRequest": "gilk.engines.dtrace.asked:Asked",
    **{f"Dtrace{name}": f"gilk.engines.dtrace.outlet:{name}" for name in ("Aside", "Outlet", "Pages")},
    "prepare_dtrace": "gilk.engines.dtrace.asked:prepare",
    "let_go_dtrace": "gilk.engines.dtrace.asked:let_go",
    "write_dtrace_header": "gilk.engines.dtrace.provided:write_header",
    "write_dtrace_objects": "gilk.engines.dtrace.provided:write_objects",
    "expect_dtrace": "gilk.engines.dtrace.ahead:expect",
    "compiler": "gilk.toolchain.compilers",
    "cache_place": "gilk.cache.place:intended",
    "complaints": "gilk.private",
    "processor_flags": "gilk.arch.processor:flags",
}


def __getattr__(name: str) -> Any:
    """A public name that is not imported yet (PEP 562)."""
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, path = _LAZY[name].partition(":")
    value: Any = importlib.import_module(module)
    for part in (path or name).split("."):
        value = getattr(value, part)
    globals()[name] = value
    return value


def c(source: str | Path, function: str) -> CFunction:
    """The instrument ``function`` of a C file."""
    from gilk.session.request import CFunction

    return CFunction(Path(source), function)


class Target:
    """A process that gilk is attached to, or has launched. As a context manager it lets go at the end."""

    def __init__(self, held: Process) -> None:
        self.process = held

    def __enter__(self) -> Target:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.process.__exit__(kind, *rest)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def images(self) -> tuple[Loaded, ...]:
        """Main program first."""
        return self.process.loaded()

    def functions(self, glob: str = "*", image: str = "") -> tuple[FunctionView, ...]:
        """Functions by name; ``image`` is a glob for other images than the main program. Raises UsageError."""
        from gilk.session import places

        return tuple(places.functions(self.process, glob, image))

    def function(self, name: str, image: str = "") -> FunctionView:
        """The first function of that name. Raises UsageError `no-such-function`."""
        from gilk.session import places

        return next(places.functions(self.process, name, image))

    def session(self, points: int = 1 << 18, threads: int = 1024, ring: int = 4 << 20) -> Session:
        """Probes that live until the session is closed; there may be several, of other processes too.

        Raises TargetError.
        """
        from gilk.session.broker.client_session import ClientSession

        return ClientSession(self.process, points, threads, ring)

    def resume(self) -> None:
        """Let a launched program run: it waits, before any of its code, until then."""
        self.process.release()

    def wait(self) -> int | None:
        """The exit status of a launched program, as a shell gives it, once it has ended."""
        end = self.process.wait(block=False)
        return end.code if end else None

    def close(self) -> bool:
        """Undo everything; whether all code is what it was."""
        return self.process.close()


class Kernel:
    """A kernel to put probes in. Use as a context manager, or call close()."""

    def __init__(self, target: KernelTarget, elsewhere: Elsewhere | None) -> None:
        self.target = target
        self._elsewhere = elsewhere

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def functions(self, glob: str = "*") -> tuple[FunctionView, ...]:
        """Functions of the kernel and its modules by name. Raises UsageError."""
        from gilk.session import places

        return tuple(places.functions(self.target, glob, "kernel"))

    def function(self, name: str) -> FunctionView:
        """The first function of that name. Raises UsageError `no-such-function`."""
        return self.functions(name)[0]

    def session(
        self, points: int = 1 << 16, ring: int = 1 << 20, mode: Literal["drop", "flight"] = "drop"
    ) -> KernelSession:
        """Probes that live until the session is closed. Raises TargetError, when the driver is not loaded for one.

        ``mode``: where a buffer of ``ring`` bytes is full, ``drop`` the newest record or, as a flight recorder, the
        oldest. Either is counted. The latter keeps records in the kernel until close(), or newest().
        """
        from gilk.session.kernel_session import KernelSession

        return KernelSession(self.target, points, ring, mode == "flight")

    def start(self, command: Sequence[str]) -> None:
        """Run a command on the other machine; its output is ours. Raises UsageError `no-machine`, TargetError."""
        if self._elsewhere is None:
            raise UsageError("no-machine", "this is the local kernel: start the command yourself, with subprocess")
        self._elsewhere.start(command)

    @property
    def status(self) -> int | None:
        """The exit status of that command, once it has ended; that is noticed while a session is polled."""
        return self._elsewhere.status if self._elsewhere is not None else None

    def close(self) -> None:
        """Let go of the machine; one of the lab ends with that."""
        self.target.link.close()
        if self._elsewhere is not None:
            self._elsewhere.close()


def kernel(machine: str | lab.Machine = "") -> Kernel:
    """This machine's kernel, or another's: ``ssh:HOST``, or ``lab`` or a ``gilk.lab.Machine``, a fresh virtual one."""
    return Kernel(*_kernel_at(machine))


def _kernel_at(machine: str | lab.Machine) -> tuple[KernelTarget, Elsewhere | None]:
    from gilk.runs.elsewhere import reach
    from gilk.targets.kernel.link import LocalLink
    from gilk.targets.kernel.target import KernelTarget

    if not machine:
        return KernelTarget(LocalLink()), None
    elsewhere = reach(machine)
    return KernelTarget(elsewhere.link), elsewhere


def attach(pid: int) -> Target:
    """Raises TargetError `no-such-process`, `no-permission`, `already-traced`."""
    from gilk.targets import process

    return Target(process.attach(pid))


def launch(command: Sequence[str], environment: dict[str, str] | None = None, directory: str = "") -> Target:
    """Start a program and stop it before its own code runs; ``resume()`` lets it go. Raises TargetError."""
    from gilk.targets import process

    return Target(process.start(list(command), environment, directory))


def parse_request(text: str) -> Request | Chosen:
    """``POINTS=INSTRUMENT``, or ``FUNCTIONS=@STRATEGY``. Raises UsageError."""
    from gilk.runs import strategy

    return strategy.parse(text)


def prepare_run(
    requests: Sequence[Request | Chosen],
    pids: Sequence[int],
    command: Sequence[str],
    output: Path | None = None,
    machine: str = "",
    flight: bool = False,
) -> Run:
    """Attach and launch, with nothing put in yet. Raises GilkError; then everything is let go.

    ``machine``: where the kernel and the command are, if not here (runs/elsewhere.py). ``flight``: the newest
    records of the kernel are kept, not the oldest.
    """
    from gilk.runs.experiment import run as experiment_run
    from gilk.runs.run import Run
    from gilk.session.request import Request

    if flight and not any(request.of_kernel for request in requests):
        raise UsageError("flight-in-kernel", "--flight is about buffers in the kernel, and no point is in the kernel")
    check_output(output)
    kernel, elsewhere = _kernel_of(requests, bool(pids), machine)
    held = _held(pids, command if elsewhere is None else ())
    plain = [request for request in requests if isinstance(request, Request)]
    if len(plain) == len(requests):
        return Run(held, plain, output, tuple(command), kernel, elsewhere, flight)
    return experiment_run.of_requests(held, requests, output, tuple(command), kernel, elsewhere, flight)


def check_output(path: Path | None, appends: bool = False) -> None:
    """Raises StoreError `cannot-write` where ``path`` cannot be made or, if it ``appends``, be written to."""
    from gilk.trace import destination

    destination.check(path, appends)


def _held(pids: Sequence[int], command: Sequence[str], alone: bool = False) -> list[Process]:
    """Processes attached to, and one launched; all are let go when one cannot be had. ``alone``: with nobody else."""
    from gilk.targets import process

    held: list[Process] = []
    try:
        held += [process.attach(pid) for pid in pids]
        if command:
            held.append(process.start(list(command)))
        for one in held if alone else ():
            one.have_alone()
    except BaseException:
        for one in held:
            one.kill_unstarted()
            one.close()
        raise
    return held


def prepare_trace(
    pids: Sequence[int] = (),
    command: Sequence[str] = (),
    output: Path | None = None,
    start: str = "now",
    stop: str = "exit",
    scope: Sequence[str] = (),
    skip: Sequence[str] = (),
    everything: bool = False,
    kernel: Sequence[str] = (),
    machine: str = "",
    modules: Sequence[Path] = (),
    depth: int = 0,
) -> Tracing:
    """A trace of processes, with nothing put in yet. Raises GilkError; then everything is let go.

    ``start`` and ``stop`` are events (spec/event.py), ``scope`` and ``skip`` globs (spec/functions.py).
    ``everything``: follow also what is called so often that following it slows the program down.
    ``kernel``: globs of functions of the kernel to be followed while one of the processes is in them, and, with
    ``irq``, while an interrupt is, on a processor that one of them was last seen on; ``machine``:
    whose, and where ``command`` runs, if not here: then the functions are followed whoever calls them. ``modules`` are
    loaded there first. ``depth``: how many levels of calls within calls belong to the trace; 0 for all.
    """
    from gilk.engines.follow.adapt import Budget
    from gilk.engines.follow.scope import TraceScope
    from gilk.engines.follow.tracing import Tracing
    from gilk.session.request import parse as request_of
    from gilk.spec import event

    first, last, chosen = event.parse(start), event.parse(stop), TraceScope.parse(scope, skip)
    budget = None if everything else Budget()
    globs = [glob for glob in kernel if glob != _INTERRUPTS] or (["*"] if kernel else [])
    requests = [request_of(f"kernel:{glob}:entry=time") for glob in globs]
    check_output(output)
    if modules and not machine:
        raise UsageError("no-machine", "--module needs --on", "use --on lab: a crash there does no harm")
    target, elsewhere = _kernel_of(requests, bool(pids), machine)
    if elsewhere is not None:
        elsewhere.load(modules)
    held = _held(pids, command if elsewhere is None else (), alone=True)
    return Tracing(
        held, requests, output, tuple(command), target, elsewhere,
        start=first, stop=last, scope=chosen, budget=budget, depth=depth, interrupts=_INTERRUPTS in kernel,
    )  # fmt: skip


def _kernel_of(
    requests: Sequence[Request | Chosen], processes: bool, machine: str
) -> tuple[KernelTarget | None, Elsewhere | None]:
    """The kernel that is asked for, if one is."""
    if machine and (processes or not all(request.of_kernel for request in requests)):
        raise UsageError("remote-kernel-only", f"on {machine}, points are kernel:FUNCTION:WHERE")
    if machine or any(request.of_kernel for request in requests):
        return _kernel_at(machine)
    return None, None


def load_experiment(path: Path) -> Experiment:
    """Raises UsageError `bad-experiment`, and what is wrong with its points."""
    from gilk.runs.experiment import file as experiment

    return experiment.load(path)


def prepare_experiment(experiment: Experiment, number: int = 1) -> Staged:
    """Repetition ``number``: attached and launched, with nothing put in yet. Raises GilkError."""
    from gilk.runs.experiment import targets as experiment_targets

    wanted = [item.wanted for item in experiment.items]
    return experiment_targets.prepare(experiment, number, *_kernel_of(wanted, False, experiment.machine))


def dtrace(
    program: str | Path,
    pid: int | None = None,
    command: Sequence[str] = (),
    arguments: Sequence[str] = (),
    options: Mapping[str, str | None] = MappingProxyType({}),
) -> DtraceSession:
    """A D program, its text or the path of a script, in a process that runs or is launched, or in none.

    ``arguments``: $1, $2... ``options``: those of -x; a flag has None. Used as

        with gilk.dtrace('pid$target:libc.so.6:malloc:entry { @ = count(); }', pid=4711) as session:
            for event in session:       # gilk.events
                ...

    Commands of system() print to standard error; freopen() and ftruncate() are only told of, by events.
    """
    from gilk.engines.dtrace.asked import Asked
    from gilk.engines.dtrace.iterated import DtraceSession
    from gilk.engines.dtrace.outlet import Aside
    from gilk.render.d.printf import formatted

    given = ("s", str(program)) if isinstance(program, Path) else ("n", program)
    if pid is not None and command:
        raise UsageError("two-processes", "pid and command exclude each other: one process is traced")
    asked = Asked((given,), tuple(arguments), tuple(options.items()), pid, tuple(command))
    return DtraceSession(asked, Aside(), formatted)


def dtrace_events(consumer: Consumer, stop: Callable[[], bool], outlet: DtraceOutlet) -> Iterator[events.Event]:
    """Yield the events of a consumer that has started, until it ends or ``stop`` returns True.

    ``outlet`` carries out system() and freopen().
    """
    from gilk.render.d.printf import formatted

    return consumer.events(stop, outlet, formatted)


def report(result: Result) -> RunReport:
    """A run's result in the form that is shown."""
    from gilk.render.histogram import by_function
    from gilk.render.report import RunReport

    notes = list(result.notes)
    if result.calls is not None:
        lost = result.calls.abandoned + result.calls.open + result.calls.orphans + result.calls.cut
        if lost:
            lacking = any(each.point.endswith(":post") for each in result.refused_points)
            how = "a jump, an exception or a return that was refused" if lacking else "a jump or an exception"
            notes.append(
                f"{lost} timed calls are not whole: {result.calls.abandoned} left by {how}, "
                f"{result.calls.open} still under way, {result.calls.orphans} entered before, "
                f"{result.calls.cut} cut by dropped records"
            )
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
    )


def trace_report(running: Tracing, result: Result) -> TraceReport:
    """A trace's result in the form that is shown."""
    from gilk.render.trace_report import TraceReport

    flow = running.flow()
    return TraceReport(
        run=report(result),
        traced=running.traced(),
        functions=running.functions,
        refused=running.refused,
        activation_ms=running.activation_ms,
        calls=flow.states if flow is not None else {},
        threads=len(flow.threads) if flow is not None else 0,
    )
