# SPDX-License-Identifier: LGPL-2.1-or-later
"""The targets that a window may reach. They are fixed when the window starts, and nothing in a browser can
change them.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

from gilk.api.running import Seen, look_at, processes
from gilk.errors import TargetError, UsageError
from gilk.values import dataclass
from gilk.web.children import ToldError

KERNEL = "kernel"
LAB, HERE, _SSH = "lab", "here", "ssh:"  # machines, as for --on
_PROCESS, _FILE = "pid-", "file-"
_TITLES = {KERNEL: "the kernel of this machine", HERE: "the kernel of this machine", LAB: "the kernel of the lab"}
_MOST_FILES = 500  # the most files that are listed


@dataclass(frozen=True, slots=True)
class Grants:
    """The targets within reach: the processes of ``users`` and the processes ``pids``; programs and files below the
    directories ``files``. ``experiments``: the directories in which experiments are written and run, with their
    workloads. ``traces``: the directory for the traces that the window makes. ``machine``: the one machine whose
    kernel is instrumented, as for --on, or ''. ``acts``: the window may also change
    something, not only look. ``c``: instruments may be in C, which is code that runs in the processes.
    """

    users: frozenset[int] = frozenset()
    pids: frozenset[int] = frozenset()
    files: tuple[Path, ...] = ()
    kernel: bool = False
    acts: bool = True
    experiments: tuple[Path, ...] = ()
    traces: Path | None = None
    machine: str = ""
    c: bool = False

    @property
    def folders(self) -> list[Path]:
        """The directories below which files are shown, without repeats."""
        kept = () if self.traces is None else (self.traces,)
        return list(dict.fromkeys((*self.files, *self.experiments, *kept)))

    def holds(self, one: Seen) -> bool:
        return one.user in self.users or one.pid in self.pids

    def processes(self) -> list[Seen]:
        """All processes within reach, the youngest first."""
        return sorted(filter(self.holds, processes()), key=lambda one: -one.born)

    def programs(self) -> tuple[list[Path], int]:
        """Files that may be programs or libraries, in the given directories, and the number of those that are
        left out.
        """
        there = (path for folder in self.files for path in sorted(folder.iterdir()))
        found = [path for path in there if _is_program(path)]
        return found[:_MOST_FILES], max(0, len(found) - _MOST_FILES)

    def experiment_files(self) -> list[Path]:
        """The experiments in the given directories, at most _MOST_FILES."""
        return [path for folder in self.experiments for path in sorted(folder.glob("*.toml"))][:_MOST_FILES]

    def experiment(self, identity: str) -> Path:
        """The file of an experiment, which need not exist yet. Raises TargetError `not-granted`, UsageError
        `bad-target`.
        """
        path = file_of(identity)
        real = Path(os.path.realpath(path))
        if path.suffix != ".toml" or real.suffix != ".toml" or real.parent not in self.experiments:
            message = f"{path} is no experiment (NAME.toml) in a directory of this window's"
            raise TargetError("not-granted", message, "gilk web --experiments DIR")
        return real

    def target(self, identity: str) -> str:
        """The target in the form that all commands use. Raises TargetError `not-granted`, `target-changed`, UsageError
        `bad-target`.
        """
        if identity == KERNEL:
            if not self.kernel:
                raise TargetError(
                    "not-granted", "this window may not reach the kernel", "start it with gilk web --kernel"
                )
            return KERNEL
        if is_machine(identity):
            if identity != self.machine:
                message = f"this window does not reach {title_of(identity)}, to instrument it"
                raise TargetError("not-granted", message, f"start it with gilk web --on {identity}")
            return identity
        if identity.startswith(_PROCESS):
            return self._process(identity)
        if identity.startswith(_FILE):
            return str(self.file(identity))
        raise UsageError("bad-target", f"{identity!r} is no target: pid-NUMBER-BIRTH, file-PATH, kernel or a machine")

    def instrumented(self) -> str:
        """The machine whose kernel is instrumented. Raises TargetError `not-granted` if there is none."""
        if not self.machine:
            why = "this window instruments no kernel"
            raise TargetError("not-granted", why, "start it with gilk web --on here, or lab")
        return self.machine

    def process(self, identity: str, refusal: str, hint: str) -> str:
        """The number of a process, as text. Raises TargetError and UsageError as `target` does, and for a target of
        another kind ToldError `not-running`, with ``refusal`` as its message.
        """
        name = self.target(identity)
        if not identity.startswith(_PROCESS):
            raise ToldError("not-running", refusal, hint)
        return name.removeprefix("pid:")

    def _process(self, identity: str) -> str:
        number, _, born = identity.removeprefix(_PROCESS).partition("-")
        if not (number.isdecimal() and born.isdecimal() and len(number) < 10):
            raise UsageError("bad-target", f"{identity!r} is no process", "the overview lists them")
        one = look_at(int(number))
        if one is None or one.born != int(born):
            raise TargetError("target-changed", f"process {number} has ended", "the overview lists those there are")
        if not self.holds(one):
            raise TargetError("not-granted", f"this window may not reach process {number}", f"gilk web --pid {number}")
        return f"pid:{number}"

    def file(self, identity: str) -> Path:
        """The real path of a file within reach. Raises TargetError `not-granted`, UsageError `bad-target`."""
        path = file_of(identity)
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(folder) for folder in self.folders):
            raise TargetError("not-granted", f"{path} lies below no directory of this window's", "gilk web --files DIR")
        return real


def born(identity: str) -> int:
    """The birth of a process, from its identity."""
    return int(identity.rpartition("-")[2])


def check_born(pid: int, when: int) -> None:
    """Check that process ``pid`` is the one born at ``when``. The process must be held, so that no other can get its
    number. Raises TargetError `target-changed`.
    """
    one = look_at(pid)
    if one is None or one.born != when:
        raise TargetError("target-changed", f"process {pid} has ended", "the overview lists those there are")


def is_machine(target: str) -> bool:
    """Whether a target is the kernel of a machine, which is instrumented there."""
    return target in (LAB, HERE) or target.startswith(_SSH)


def ssh_host(machine: str) -> str:
    """The host of a machine that is reached over ssh; '' of another."""
    return machine.removeprefix(_SSH) if machine.startswith(_SSH) else ""


def title_of(target: str) -> str:
    """The title of a target, which is given in the form of commands, for people."""
    if host := ssh_host(target):
        return f"the kernel of {host}"
    if target in _TITLES:
        return _TITLES[target]
    one = look_at(int(target.removeprefix("pid:"))) if target.startswith("pid:") else None
    return f"{sorted(one.names)[0]} ({one.pid})" if one is not None else target


def identity_of(one: Seen) -> str:
    """The identity of a process; a later process with its number has another."""
    return f"{_PROCESS}{one.pid}-{one.born}"


def identity_of_file(path: Path) -> str:
    return _FILE + base64.urlsafe_b64encode(os.fsencode(path)).decode().rstrip("=")


def file_of(identity: str) -> Path:
    """The path in a file's identity. Raises UsageError `bad-target`."""
    text = identity.removeprefix(_FILE)
    try:
        if "\0" in (found := os.fsdecode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))):
            raise ValueError("no path has a NUL")
        return Path(found)
    except ValueError:
        raise UsageError("bad-target", f"{text!r} is no file's name", "the overview lists them") from None


def _is_program(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False
