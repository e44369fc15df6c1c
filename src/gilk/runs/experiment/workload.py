# SPDX-License-Identifier: LGPL-2.1-or-later
"""Workloads: the programs that an experiment starts, held as its targets until all is in place, or a command beside
these.

gilk, not a shell, starts a pipeline that is a target, since each of its programs has to be held before its first
instruction. Keepers inherit the ends of the pipes with their programs. So a keeper has to go as soon as its program has
ended, or the neighbours would wait for an end of their input that never comes.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from gilk.errors import GilkError, TargetError, UsageError
from gilk.targets.process import Process
from gilk.targets.startup import start
from gilk.values import dataclass

_PATIENCE = 5.0  # seconds that a workload has to end, after it was asked to
_SHELL = frozenset("|&;<>()")


@dataclass(frozen=True, slots=True)
class Setting:
    """A command line, and the surroundings that it runs in. ``stdin`` and ``stdout`` are files; '' is gilk's own."""

    command: str
    directory: str = ""
    stdin: str = ""
    stdout: str = ""
    environment: tuple[tuple[str, str], ...] = ()


@dataclass
class Workload:
    """The programs of a workload; it ends with the last of them. ``held``: those that are targets; if there are none, a
    shell runs the command."""

    setting: Setting
    held: list[Process] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    _running: dict[int, int] = field(default_factory=dict)  # by pid, pidfds of running programs
    _shell: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start a workload that is no target; call it when the instruments are in. Raises TargetError
        `cannot-launch`."""
        if self.held:
            self._running = {program.pid: os.pidfd_open(program.pid) for program in self.held}
            return
        setting = self.setting
        with _files(setting) as (source, sink):
            options: dict[str, Any] = {"cwd": setting.directory or None, "env": _environment(setting)}
            try:
                # It gets a session of its own, so that all of it can be ended together.
                self._shell = subprocess.Popen(
                    ["sh", "-c", setting.command], stdin=source, stdout=sink, start_new_session=True, **options
                )
            except OSError as error:
                raise TargetError("cannot-launch", f"cannot run the workload: {error.strerror}") from None

    @property
    def running(self) -> list[int]:
        """A descriptor for each held program that runs; it can be read from when the program has ended."""
        return list(self._running.values())

    def over(self) -> bool:
        if self.held:
            return len(self.statuses) == len(self.held)
        return self._shell is not None and self._shell.poll() is not None

    def ended(self, program: Process) -> None:
        end = program.wait()
        self.statuses[program.pid] = end.code if end is not None else -1
        self._forget(program.pid)

    def _forget(self, pid: int) -> None:
        if pid in self._running:
            os.close(self._running.pop(pid))

    @property
    def status(self) -> int | None:
        """The exit status, as a shell gives it, of a pipeline its last program's; None if it has not ended, or if gilk
        has ended it."""
        if self.held:
            return self.statuses.get(self.held[-1].pid)
        return self._shell.returncode if self._shell is not None else None

    def end(self) -> None:
        """End all programs that still run."""
        for program in self.held:
            if program.pid not in self.statuses:
                _terminate(program)
            self._forget(program.pid)
        if self._shell is not None and self._shell.poll() is None:
            _end_group(self._shell)


def launch(setting: Setting) -> Workload:
    """Start every program of ``setting.command``, connected by pipes and stopped before its own code runs.

    Raises UsageError `bad-command`, TargetError `cannot-launch`; then nothing is left behind.
    """
    workload = Workload(setting)
    try:
        with _files(setting) as (source, sink):
            _launch(split(setting.command), workload, source, sink)
    except BaseException:
        for program in workload.held:
            program.kill_unstarted()
            with contextlib.suppress(GilkError):
                program.close()
        raise
    return workload


def script(setting: Setting) -> str:
    """A shell script that runs the setting on another machine."""
    quote = shlex.quote
    lines = [f"export {name}={quote(value)}" for name, value in setting.environment]
    lines += [f"cd {quote(setting.directory)} || exit"] if setting.directory else []
    lines += [f"exec <{quote(setting.stdin)}"] if setting.stdin else []
    lines += [f"exec >{quote(setting.stdout)}"] if setting.stdout else []
    return "\n".join([*lines, setting.command])


def split(command: str) -> list[list[str]]:
    """The programs of a pipeline, each as its words. Raises UsageError `bad-command` if the command needs a shell."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    programs: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word == "|":
                programs.append([])
            elif word and set(word) <= _SHELL:
                raise UsageError(
                    "bad-command", f"{command!r}: {word!r} needs a shell, but gilk starts the programs itself",
                    "use only | between programs, and the keys stdin, stdout, directory and environment",
                )  # fmt: skip
            else:
                programs[-1].append(word)
    except ValueError as error:
        raise UsageError("bad-command", f"{command!r}: {error}") from None
    if not all(programs):
        raise UsageError("bad-command", f"{command!r}: a program is missing before or after a |")
    return programs


def _launch(programs: Sequence[list[str]], workload: Workload, source: int | None, sink: int | None) -> None:
    setting = workload.setting
    previous = source
    for number, words in enumerate(programs):
        following, out = (None, sink) if number == len(programs) - 1 else os.pipe()
        try:
            with _standing_in(previous, out):
                workload.held.append(start(words, _environment(setting), setting.directory))
        finally:
            for fd in (previous if previous != source else None, out if out != sink else None):
                if fd is not None:
                    os.close(fd)
        previous = following


@contextlib.contextmanager
def _standing_in(source: int | None, sink: int | None) -> Iterator[None]:
    """A context in which gilk's own input and output are these, so that a keeper started meanwhile, and its program,
    inherit them."""
    kept: list[tuple[int, int]] = []
    try:
        for fd, other in ((0, source), (1, sink)):
            if other is not None:
                kept.append((fd, os.dup(fd)))
                os.dup2(other, fd)
        yield
    finally:
        for fd, old in kept:
            os.dup2(old, fd)
            os.close(old)


@contextlib.contextmanager
def _files(setting: Setting) -> Iterator[tuple[int | None, int | None]]:
    """A context with the opened stdin and stdout of the setting; None for gilk's own. Raises TargetError
    `cannot-launch`."""
    with contextlib.ExitStack() as stack:
        opened: list[int | None] = []
        for name, flags in ((setting.stdin, os.O_RDONLY), (setting.stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
            try:
                fd = os.open(Path(setting.directory, name), flags | os.O_CLOEXEC, 0o666) if name else None
            except OSError as error:
                raise TargetError("cannot-launch", f"{name}: {error.strerror}") from None
            if fd is not None:
                stack.callback(os.close, fd)
            opened.append(fd)
        yield opened[0], opened[1]


def _environment(setting: Setting) -> dict[str, str]:
    return {**os.environ, **dict(setting.environment)}


def _terminate(program: Process) -> None:
    with contextlib.suppress(ProcessLookupError, GilkError):
        if program.wait() is None:
            os.kill(program.pid, signal.SIGTERM)
            os.kill(program.pid, signal.SIGCONT)


def _end_group(shell: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(shell.pid, signal.SIGTERM)
    try:
        shell.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
