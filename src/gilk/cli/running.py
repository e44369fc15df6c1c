# SPDX-License-Identifier: LGPL-2.1-or-later
"""The common parts of ``gilk run``, ``gilk trace`` and ``gilk experiment``: signals, the terminal, and the end."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import click

from gilk.cli.duration import Duration
from gilk.cli.failure import INTERRUPTED
from gilk.cli.progress import SOON, in_lines, progress, say, working
from gilk.cli.unheard import hurry
from gilk.errors import TargetError, UsageError

if TYPE_CHECKING:
    from gilk.api import runs

_POLL = 0.02  # seconds
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Report(Protocol):
    """The report of a session that has ended, as text and as JSON."""

    def render(self, *, verbose: bool = False) -> str: ...

    def to_json(self) -> dict[str, Any]: ...


class LaunchedEnd(Protocol):
    """The end of a launched process; ``code`` is its exit status, as a shell gives it."""

    @property
    def code(self) -> int: ...


class Stop:
    """A flag that the first SIGINT, SIGTERM or SIGHUP sets, upon which a session ends in good order. The next signal
    ends gilk within seconds, whatever it waits for (unheard.py), and the keeper undoes everything.

    A launched program that shares the terminal (``shared``) may handle the first SIGINT itself, so that signal does not
    count here. ``count`` is the number of signals that counted.
    """

    def __init__(self, shared: bool = False) -> None:
        self.count = 0
        self._left_to_it = int(shared)
        self._last = 0
        self._at_once = False

    def __call__(self) -> bool:
        return self.count > 0

    def arrived(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._left_to_it:
            self._left_to_it -= 1
            if not self._at_once:
                return
        self.count, self._last = self.count + 1, number
        if self.count > 1:
            hurry(number)
        if self._at_once or self.count == 2:
            self._end()

    @contextmanager
    def afterwards(self) -> Iterator[None]:
        """In the block, which comes when the session has ended, the next signal raises an exception at once."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _end(self) -> NoReturn:
        self._at_once = False  # the next signal must not disturb the undoing
        raise KeyboardInterrupt if self._last == signal.SIGINT else SystemExit(128 + self._last)

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.arrived)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """In the block, a signal raises an exception at once, because there is nothing to report yet."""
        self._at_once = True
        try:
            if self.count:
                self._end()
            yield
        finally:
            self._at_once = False


def _one_command(_ctx: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The callback of -c. It refuses several commands: to take the last would silently drop the others."""
    if len(values) > 1:
        raise UsageError("two-commands", "-c is given more than once, and one command is launched")
    return values[0] if values else None


def command_option(more: str = "") -> Callable[[_Command], _Command]:
    """The option -c; its help ends with ``more``."""
    return click.option(
        "-c", "--command", "line", multiple=True, callback=_one_command,
        help=f"A command line to launch, split as a shell would{more}.",
    )  # fmt: skip


def verbose_option(more: str) -> Callable[[_Command], _Command]:
    """The option -v; ``more`` names in its help what the report adds."""
    return click.option("-v", "--verbose", is_flag=True, help=f"Report also {more}.")


#: The option --for, in nanoseconds; None: no limit.
lasting_option = click.option(
    "--for", "lasting", type=Duration("2, 1.5s or 500ms"), metavar="TIME", help="Take everything out after so long."
)

#: The option --when-idle, in nanoseconds; None: do not wait.
when_idle_option = click.option(
    "--when-idle", type=Duration("2, 1.5s or 500ms"), metavar="TIME",
    help="Take it out at a moment at which no call with advice is under way, for which to wait so long.",
)  # fmt: skip


def split_command(line: str | None, command: tuple[str, ...]) -> tuple[str, ...]:
    """The words of the command to launch, from -c or after --; () if neither is given. Raises UsageError
    `two-commands`, `bad-command`."""
    if line is not None and command:
        raise UsageError("two-commands", "give a command with -c or after --, not both")
    try:
        return tuple(shlex.split(line)) if line is not None else command
    except ValueError as error:
        raise UsageError("bad-command", f"{line!r}: {error}") from None


def begun(running: runs.Run, stop: Stop, silent: bool) -> None:
    """Put all probes in. From here on, signals set ``stop``."""
    stop.install()
    with working("analysing and planning", not silent):
        running.begin(stop.at_once())


def carry_out(
    running: runs.Run, seconds: float | None, stop: Stop, silent: bool, shares_terminal: bool,
    until: Callable[[], bool], look: Callable[[runs.Progress], None] = lambda _state: None,
) -> runs.Result:  # fmt: skip
    """Run a session from the first probe that goes in until the last one is out. ``look`` is called again and again
    with the run's progress."""
    begun(running, stop, silent)
    with progress(not silent and not shares_terminal) as show:

        def see(state: runs.Progress) -> None:
            look(state)
            show(state)

        running.wait(seconds, until, see)
    with in_lines("taking all out", not silent, first=SOON):
        return running.finish()


@contextmanager
def let_go_at_last(running: runs.Run) -> Iterator[None]:
    """At the end of the block, whatever happens there, have the keepers leave their processes as they were."""
    try:
        yield
    finally:
        for process in running.processes:
            process.keeper.leave()


def carry_out_for_user(
    running: runs.Run, seconds: float | None, launched: bool, as_json: bool, quiet: bool,
    report: Callable[[runs.Result], Report], verbose: bool = False,
    look: Callable[[runs.Progress], None] = lambda _state: None,
) -> int:  # fmt: skip
    """Run a session, print its report, and return the exit status, which is that of the launched program. ``look`` is
    called with the run's progress as it goes on.

    A launched program has the terminal and gets its Ctrl-C itself, so the first SIGINT does not end the session.
    """
    stop = Stop(shared=launched and running.elsewhere is None)
    with let_go_at_last(running):
        result = carry_out(running, seconds, stop, quiet or as_json, launched, stop, look)
        told = summed_up(report, result, stop, quiet or as_json)
        if not quiet and not as_json:
            click.echo(told.render(verbose=verbose), nl=False, err=launched)
        status = exit_status(running, stop) if launched else warned(result, quiet or as_json)
    if as_json:
        import json

        from gilk.render.names import with_names

        sys.stdout.flush()
        click.echo(json.dumps(with_names(told.to_json())))
    return status


def warned(result: runs.Result, silent: bool) -> int:
    """The exit status of a command about processes that it has not launched: that of errors about targets if code is
    not what it was, else 0. If nothing is printed otherwise (``silent``), the user is told here."""
    if result.restored is not False:
        return 0
    if silent:
        say("the code is NOT what it was before")
        for note in result.notes:
            say(note)
    return TargetError.exit_status


def summed_up(report: Callable[[runs.Result], Report], result: runs.Result, stop: Stop, silent: bool) -> Report:
    """The report of a session that has ended, which may take long to make: the user is told that nothing of it is in
    the processes any more. A signal ends the work at once; then the file that the session has written is named."""
    what = f"all is taken out; summing up {result.numbers['records']} records"
    try:
        with stop.afterwards(), in_lines(what, not silent, first=SOON):
            return report(result)
    except (KeyboardInterrupt, SystemExit):
        if result.file:
            say(f"not summed up; the file is whole, and gilk show {result.file} reads it")
        raise


def exit_status(running: runs.Run, stop: Stop) -> int:
    """The exit status of the launched program, once it has ended; INTERRUPTED if the user has ended the wait. If its
    machine was lost, the exit status of that error."""
    if running.lost is not None:
        return running.lost.exit_status
    if running.elsewhere is not None:
        status = running.elsewhere.status
        return INTERRUPTED if status is None else status
    return status_of(running.processes[-1].wait, stop)


def status_of(wait: Callable[[], LaunchedEnd | None], stop: Stop) -> int:
    """The exit status of a launched program, once it has ended; INTERRUPTED if the user has ended the wait."""
    while (end := wait()) is None:
        if stop():
            return INTERRUPTED
        signal.sigtimedwait((signal.SIGCHLD,), _POLL)
    return end.code
