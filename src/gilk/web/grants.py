# SPDX-License-Identifier: LGPL-2.1-or-later
"""The targets that a window may reach. They are fixed when the window starts, and nothing in a browser can
change them.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gilk.api.running import Seen, look_at, processes
from gilk.errors import TargetError, UsageError
from gilk.values import dataclass

Json = dict[str, Any]

KERNEL = "kernel"
LAB, HERE, _SSH = "lab", "here", "ssh:"  # machines, as for --on
_PROCESS, _FILE = "pid-", "file-"
_TITLES = {KERNEL: "the kernel of this machine", HERE: "the kernel of this machine", LAB: "the kernel of the lab"}
_MOST_FILES = 500  # the most files that are listed
_FIXED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


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
        return self.real_experiment(file_of(identity))

    def real_experiment(self, path: Path) -> Path:
        """The same for a path. Raises TargetError `not-granted`."""
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
            self.check_machine(identity)
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

    def _process(self, identity: str) -> str:
        number, when = number_and_birth(identity)
        self.check_process(number, when)
        return f"pid:{number}"

    def birth_of(self, pid: int) -> int:
        """The birth of a process that is known by its number only. Raises TargetError `not-granted`."""
        one = look_at(pid)
        if one is None or not self.holds(one):
            raise TargetError("not-granted", f"this window may not reach process {pid}", f"gilk web --pid {pid}")
        return one.born

    def check_kernels(self, machine: str, targets: Iterable[str]) -> None:
        """Check that an experiment needs no other machine than that of the window, and no other kernel. ``machine``: as
        for --on, or ''. Raises TargetError `not-granted`.
        """
        needed = machine or (HERE if KERNEL in targets else "")
        if needed:
            self.check_machine(needed)

    def check_machine(self, machine: str) -> None:
        """Check that a machine is that of the window. Raises TargetError `not-granted`."""
        if machine != self.machine:
            message = f"this window does not reach {title_of(machine)}, to instrument it"
            raise TargetError("not-granted", message, f"start it with gilk web --on {machine}")

    def check_acts(self) -> None:
        """Check that the window may change something. Raises TargetError `read-only`."""
        if not self.acts:
            raise TargetError("read-only", "this window was started with --read-only", "start another one without it")

    def check_c(self) -> None:
        """Check that instruments may be in C. Raises TargetError `not-granted`."""
        if not self.c:
            raise TargetError("not-granted", "this window takes no instruments in C", "gilk web --allow-c does")

    def check_process(self, pid: int, born: int) -> None:
        """Check that process ``pid`` is within reach, and the one born at ``born``. Another can get its number as soon
        as it has ended, unless it is held. Raises TargetError `not-granted`, `target-changed`.
        """
        one = look_at(pid)
        if one is None or one.born != born:
            raise TargetError("target-changed", f"process {pid} has ended", "the overview lists those there are")
        if not self.holds(one):
            raise TargetError("not-granted", f"this window may not reach process {pid}", f"gilk web --pid {pid}")

    def file(self, identity: str) -> Path:
        """The real path of a file within reach. Raises TargetError `not-granted`, UsageError `bad-target`."""
        return self.real_file(file_of(identity))

    def real_file(self, path: Path) -> Path:
        """The same for a path. Raises TargetError `not-granted`."""
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(folder) for folder in self.folders):
            raise TargetError("not-granted", f"{path} lies below no directory of this window's", "gilk web --files DIR")
        return real

    def to_json(self) -> Json:
        """The grants as JSON values; paths are texts."""
        return {
            "users": sorted(self.users), "pids": sorted(self.pids), "files": list(map(str, self.files)),
            "kernel": self.kernel, "acts": self.acts, "experiments": list(map(str, self.experiments)),
            "traces": None if self.traces is None else str(self.traces), "machine": self.machine, "c": self.c,
        }  # fmt: skip

    @classmethod
    def of_json(cls, found: Json) -> Grants:
        """The grants that ``to_json`` has returned."""
        files, experiments = (tuple(map(Path, found[name])) for name in ("files", "experiments"))
        traces = None if found["traces"] is None else Path(found["traces"])
        return cls(
            frozenset(found["users"]), frozenset(found["pids"]), files, found["kernel"], found["acts"], experiments,
            traces, found["machine"], found["c"],
        )  # fmt: skip


def handed(grants: Grants) -> int:
    """A descriptor for children of the window: memory with the grants, which nobody can change any more."""
    memory = os.memfd_create("gilk-grants", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    data = memoryview(json.dumps(grants.to_json()).encode())
    while data:
        data = data[os.write(memory, data) :]
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _FIXED)
    return memory


def taken() -> Grants:
    """The grants of this process's window, whose descriptor is on the command line; it is closed."""
    memory = int(sys.argv[3])
    try:
        return Grants.of_json(json.loads(os.pread(memory, os.fstat(memory).st_size, 0)))
    finally:
        os.close(memory)


def number_and_birth(identity: str) -> tuple[int, int]:
    """The number and the birth of a process, from its identity. Raises UsageError `bad-target`."""
    number, _, when = identity.removeprefix(_PROCESS).partition("-")
    digits = number.isascii() and number.isdecimal() and when.isascii() and when.isdecimal()
    if not (identity.startswith(_PROCESS) and digits and len(number) < 10 and len(when) < 20):
        raise UsageError("bad-target", f"{identity!r} is no process", "the overview lists them")
    return int(number), int(when)


def is_process(identity: str) -> bool:
    """Whether an identity is that of a process."""
    return identity.startswith(_PROCESS)


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
