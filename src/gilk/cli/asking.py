# SPDX-License-Identifier: LGPL-2.1-or-later
"""The common parts of the commands that ask a process a question: `syscalls`, `mallocs`, `locks`, `slow`,
`offcpu` and `top`."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gilk.api import ahead
from gilk.cli.mangled import mangled_option
from gilk.cli.progress import working
from gilk.cli.running import Stop, command_option, lasting_option, split_command
from gilk.errors import UsageError

if TYPE_CHECKING:
    from gilk.api.questions import Answer, Question, QuestionRecord

Command = TypeVar("Command", bound=Callable[..., Any])


def target_options(command: Command) -> Command:
    """Add the options and the argument that name the process to ask, how long to ask it, and how to print the
    answer."""
    for option in reversed(
        (
            click.option("-p", "--pid", type=int, help="A running process."),
            command_option(),
            lasting_option,
            click.option("-n", "--limit", type=click.IntRange(0), default=25, show_default=True,
                         help="How many rows to print; 0: all."),
            click.option("--json", "as_json", is_flag=True,
                         help="Print the answer as one JSON object, the last line of standard output."),
            click.option("-q", "--quiet", is_flag=True, help="No progress."),
            mangled_option,
            click.argument("words", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def one_target(given: dict[str, Any]) -> tuple[str, ...]:
    """The words of the command to launch; () if a process is given. A keeper is started ahead. Raises UsageError
    `no-target`."""
    command = split_command(given["line"], given["words"])
    if bool(command) == (given["pid"] is not None):
        raise UsageError("no-target", "one process is asked", "give -p PID, -c 'COMMAND' or -- COMMAND")
    ahead.expect(process=True, runs=False)
    return command


def ask(question: Question, given: dict[str, Any]) -> int:
    """Ask, print the answer, and return the exit status. ``given`` has the values of target_options."""
    answer = asked(question, given)
    _print(question, answer, given, launches(given))
    return int(answer.status)


def launches(given: dict[str, Any]) -> bool:
    """Whether gilk launches a command, which then owns the terminal."""
    return given["pid"] is None


def asked(
    question: Question,
    given: dict[str, Any],
    began: Callable[[int], None] = lambda _pid: None,
    now_and_then: Callable[[], None] = lambda: None,
) -> Answer:
    """Ask the process, and return its answer. ``began`` is called with the number of the process once all probes are
    in; ``now_and_then`` is called again and again until the end."""
    command = one_target(given)
    from gilk.api.questions import answered, session_of

    silent = given["quiet"] or given["as_json"]
    stop, deadline = Stop(shared=bool(command)), _Deadline(given["lasting"])
    stop.install()

    def until() -> bool:
        now_and_then()
        return stop() or deadline.passed()

    def told(pid: int) -> None:
        began(pid)
        if not silent and not command:
            _say_asked(pid, given["lasting"])

    session = session_of(question, given["pid"], command, until, lambda: _at_once("planning", silent, stop))
    with _at_once("compiling", silent, stop):
        session.__enter__()
    try:
        return answered(question, session, _teller(question, given["as_json"], bool(command)), told)
    finally:
        session.__exit__(None, None, None)


@contextlib.contextmanager
def _at_once(what: str, silent: bool, stop: Stop) -> Iterator[None]:
    """Work within which Ctrl-C ends the command at once; progress is shown unless it is ``silent``."""
    with working(what, not silent), stop.at_once():
        yield


def _say_asked(pid: int, lasting: int | None) -> None:
    """Say on a terminal that the question is asked: the command may print nothing for a long time from now on."""
    if sys.stderr.isatty():
        end = "Ctrl-C ends it, and shows the answer" if lasting is None else "Ctrl-C ends it earlier"
        click.echo(f"asking process {pid}; {end}", err=True)


class _Deadline:
    """A deadline ``lasting`` ns after passed() is first called, which is when all probes are in; None means never."""

    def __init__(self, lasting: int | None) -> None:
        self._lasting, self._begun = lasting, 0

    def passed(self) -> bool:
        self._begun = self._begun or time.monotonic_ns()
        return self._lasting is not None and time.monotonic_ns() - self._begun >= self._lasting


def _teller(question: Question, as_json: bool, launched: bool) -> Callable[[QuestionRecord], None]:
    from gilk.render.question import record_text

    def tell(record: QuestionRecord) -> None:
        if not as_json:
            click.echo(record_text(question, record), nl=False, err=launched)

    return tell


def _print(question: Question, answer: Any, given: dict[str, Any], launched: bool) -> None:
    from gilk.render.question import to_json, to_text

    if given["as_json"]:
        sys.stdout.flush()
        click.echo(json.dumps(to_json(question, answer)))
    else:
        click.echo(to_text(question, answer, given["limit"]), nl=False, err=launched)
