# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs: run in processes, their events, and what is printed of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from gilk.engines.dtrace.asked import Asked, Preprocess, let_go, prepare
from gilk.engines.dtrace.compiled import DoesNotCompile, ProgramText, Wrong
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.enabling import NoSuchProbe
from gilk.engines.dtrace.iterated import DtraceSession
from gilk.engines.dtrace.outlet import Aside, Outlet, Pages
from gilk.engines.dtrace.provided import write_header, write_objects
from gilk.errors import UsageError
from gilk.render.d.printf import formatted
from gilk.trace.d import events, values
from gilk.trace.destination import check as check_output

__all__ = [
    "Aside", "Asked", "Consumer", "DoesNotCompile", "DtraceSession", "NoSuchProbe", "Outlet", "Pages", "Preprocess",
    "ProgramText", "Wrong", "check_output", "dtrace", "dtrace_events", "events", "let_go", "prepare", "values",
    "write_header", "write_objects",
]  # fmt: skip


def dtrace(
    program: str | Path,
    pid: int | Sequence[int] | None = None,
    command: Sequence[str] = (),
    arguments: Sequence[str] = (),
    options: Mapping[str, str | None] = MappingProxyType({}),
    follow: bool = False,
    machine: str = "",
) -> DtraceSession:
    """A session of D: a program in one process, which runs or is launched, in several that run, or in none; or in a
    kernel.

    ``program``: the text of the program, or the Path of a script. ``pid``: the pid of a process, or several, in all of
    which it runs as one program. ``arguments``: the values of $1, $2... ``options``: those of -x by name; the value of
    a flag is None. ``follow``: instrument the processes and programs that the process starts, too. ``machine``: the
    machine in whose kernel the program runs, and on which processes and commands are: ``here``, ``lab`` (a fresh
    virtual machine) or ``ssh:HOST``. Use the session as a context manager:

        with gilk.dtrace('pid$target:libc.so.6:malloc:entry { @ = count(); }', pid=4711) as session:
            for event in session:       # gilk.events
                ...

    Commands of system() print to standard error; freopen() and ftruncate() only make events. Raises UsageError
    `two-processes`.
    """
    given = ("s", str(program)) if isinstance(program, Path) else ("n", program)
    pids = () if pid is None else (pid,) if isinstance(pid, int) else tuple(dict.fromkeys(pid))
    if pids and command:
        raise UsageError("two-processes", "pid and command exclude each other")
    first, others = (pids[0], pids[1:]) if pids else (None, ())
    asked = Asked(
        (given,), tuple(arguments), tuple(options.items()), first, tuple(command), machine=machine, follow=follow,
        others=others,
    )  # fmt: skip
    return DtraceSession(asked, Aside(), formatted)


def dtrace_events(consumer: Consumer, stop: Callable[[], bool], outlet: Outlet) -> Iterator[events.Event]:
    """The events of a consumer that has started, until the program ends or ``stop`` returns True.

    ``outlet`` carries out system() and freopen().
    """
    return consumer.events(stop, outlet, formatted)
