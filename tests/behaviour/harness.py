# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run programs with and without gilk, and look at them from outside.

The functions that tell whether a target is unharmed read /proc and use ptrace themselves: none of them asks gilk.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.behaviour.ready import ReadyGilk
from tests.behaviour.waiting import PATIENCE, ended, give_way, programs
from tests.behaviour.waiting import cpu as cpu
from tests.behaviour.waiting import state as state
from tests.behaviour.waiting import wait_for as wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENT = {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
Command = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Ran:
    """The end of a program and its output. ``report`` is gilk's, empty for a plain run."""

    status: int
    stdout: bytes
    stderr: bytes
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def visible(self) -> tuple[int, bytes, bytes]:
        """Everything by which a user of the program could tell two runs apart."""
        return self.status, self.stdout, self.stderr


def plain(command: Command, stdin: bytes = b"", **options: Any) -> Ran:
    done = subprocess.run([str(word) for word in command], input=stdin, capture_output=True, **options)
    return Ran(done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stdout, done.stderr)


def run_gilk(
    *arguments: str | os.PathLike[str], errors: str = "strict", env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command line of this checkout. ``errors`` is as in bytes.decode(); ``env`` is its whole environment, if
    it is not that of the tests."""
    environment = {**os.environ, **ENVIRONMENT} if env is None else dict(env)
    done = _ended(list(map(str, arguments)), environment, **options)
    out, err = (each.decode(errors=errors) for each in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def _ended(words: list[str], environment: dict[str, str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run gilk with these words until it ends. If the options allow it, the command is forked from a process that
    has imported gilk already."""
    ready = _ready(environment)
    if options.keys() <= {"input", "cwd", "timeout"} and ready.takes(words, environment):
        directory = os.fspath(options.get("cwd") or os.getcwd())
        made = ready.run(words, options.get("input"), environment, directory, options.get("timeout"))
        return subprocess.CompletedProcess(["gilk", *words], *made)
    return subprocess.run([sys.executable, "-m", "gilk", *words], capture_output=True, env=environment, **options)


_kept: list[ReadyGilk] = []


def _ready(environment: dict[str, str]) -> ReadyGilk:
    """The process that forks commands; a new one if the last has gone."""
    if not _kept or not _kept[-1].there:
        _kept.append(ReadyGilk(environment))
    return _kept[-1]


def run(inserts: Sequence[str], command: Command, stdin: bytes = b"", **options: Any) -> Ran:
    """Run ``gilk run --json -i ... -- command``, and separate the command's own output from the report. ``late``: the
    points may be in libraries that the command opens later."""
    flags = ["-Z"] * options.pop("late", False) + [word for insert in inserts for word in ("-i", insert)]
    words = ["run", "--json", *flags, "--", *map(str, command)]
    env = {**os.environ, **ENVIRONMENT, **options.pop("env", {})}
    done = _ended(words, env, input=stdin, **options)
    # The report need not begin a line: a program's own output may end without a newline.
    at = max(done.stdout.rfind(b'{"counts"'), done.stdout.rfind(b'{"error"'))
    try:
        report = json.loads(done.stdout[at:])
    except ValueError:
        raise AssertionError(f"no report: {done.stdout[-2000:]!r} {done.stderr[-4000:].decode()}") from None
    return Ran(done.returncode, done.stdout[:at], done.stderr, report)


@contextlib.contextmanager
def redirected(stdin: bytes = b"") -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """In the block, the descriptors 0, 1 and 2 of this process lead to files; a program launched there inherits
    them."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(stdin)
        source.seek(0)
        kept = [os.dup(fd) for fd in range(3)]
        try:
            for fd, file in enumerate((source, out, err)):
                os.dup2(file.fileno(), fd)
            yield out, err
        finally:
            for fd, old in enumerate(kept):
                os.dup2(old, fd)
                os.close(old)


class ToldByLetters:
    """A program that does what single letters on its standard input tell it."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, letter: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(letter.encode())


class Loop:
    """A test program in loop mode. At the end its input is closed, and the program must have found that all its checks
    held.

    Its priority is lower than the test's, unless ``gives_way`` is False.
    """

    def __init__(self, command: Command, gives_way: bool = True, **options: Any) -> None:
        self.process = subprocess.Popen(
            [*map(str, command), "loop"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        assert self.process.stdout
        programs.add(self.process)
        line = b"skipped"
        while line.startswith(b"skipped"):
            line = self.process.stdout.readline()
        assert line == b"ready\n", (line, ended(self.process))
        if gives_way:
            give_way(self.pid)
        self.output = ""
        self._said = bytearray()
        self._heard = threading.Condition()
        self._lines = 0  # the number of lines that line() has returned
        self._end_of_line = 0  # the bytes of output in these lines
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Read the program's output all the time: with a full pipe the program would stand still after some seconds."""
        assert self.process.stdout
        while data := self.process.stdout.read1(1 << 16):
            with self._heard:
                self._said += data
                self._heard.notify_all()

    def line(self) -> str:
        """The next line that the program prints. Raises AssertionError if none comes."""
        with self._heard:
            begin = self._end_of_line
            came = self._heard.wait_for(lambda: self._said.find(b"\n", begin) >= 0, PATIENCE)
            assert came, f"line {self._lines + 1} does not come: {ended(self.process)}"
            end = self._said.index(b"\n", begin)
            self._lines, self._end_of_line = self._lines + 1, end + 1
            return self._said[begin:end].decode()

    @property
    def pid(self) -> int:
        return self.process.pid

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if error is not None:
            if isinstance(error, Exception):  # a skipped test has no failure to explain
                error.add_note(ended(self.process))
            self.process.kill()
            self._end()
            return
        self.finish()

    def _end(self) -> bytes:
        """End the program. Returns its standard error."""
        assert self.process.stdin and self.process.stdout and self.process.stderr
        with self.process.stdin, self.process.stdout, self.process.stderr:
            self.process.stdin.close()
            self._reader.join(PATIENCE)
            error = self.process.stderr.read()
        self.process.wait(PATIENCE)
        return bytes(error)

    def finish(self) -> str:
        """The whole output of the program. Raises AssertionError if one of its own checks failed."""
        if not self.output:
            err = self._end()
            assert (self.process.returncode, err) == (0, b""), (ended(self.process), err)
            self.output = self._said.decode()
            assert self.output.splitlines()[-1].startswith("ok ")
        return self.output

    def alive(self) -> bool:
        return self.process.poll() is None


@contextlib.contextmanager
def mortal(command: Command) -> Iterator[subprocess.Popen[bytes]]:
    """A test program in loop mode that the test itself will end, so that its checks are not asked for."""
    words = [*map(str, command), "loop"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            programs.add(program)
            assert program.stdout is not None and program.stdout.readline() == b"ready\n", ended(program)
            give_way(program.pid)
            yield program
        finally:
            program.kill()


# Functions that look at a process.


def signals(pid: int) -> dict[str, str]:
    """The signal masks and dispositions of every thread that has not just ended, without the pending signals."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for line in status.splitlines():
            if line.startswith(("SigBlk", "SigIgn", "SigCgt")):
                found[f"{task.name} {line.split()[0]}"] = line.split()[1]
    return found


def deaf(pid: int) -> list[str]:
    """The threads that block all signals, as a program does for a moment while it makes a thread."""
    masks = {name: int(mask, 16) for name, mask in signals(pid).items() if "SigBlk" in name}
    return [name for name, mask in masks.items() if mask.bit_count() > 60]


def _mappings(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/maps").read_text().splitlines()


def differences(pid: int) -> list[str]:
    """The places where executable memory differs from the file that it was mapped from."""
    found = []
    for line in _mappings(pid):
        fields = line.split(maxsplit=5)
        if "x" not in fields[1] or len(fields) < 6 or not fields[5].startswith("/") or "memfd:" in fields[5]:
            continue
        start, end = (int(part, 16) for part in fields[0].split("-"))
        live = _content(pid, start, end - start, line)
        if live is None:
            continue
        with open(_file(pid, fields), "rb") as file:
            file.seek(int(fields[2], 16))
            kept = file.read(end - start)
        at = (
            next((i for i, (a, b) in enumerate(zip(live, kept, strict=False)) if a != b), None)
            if live[: len(kept)] != kept
            else None
        )
        if at is not None:
            found.append(
                f"{fields[5]}+{int(fields[2], 16) + at:#x}: {live[at : at + 8].hex()}, not {kept[at : at + 8].hex()}"
            )
    return found


def _content(pid: int, start: int, size: int, line: str) -> bytes | None:
    """The bytes of the mapping that ``line`` of its maps is about; None if it is not mapped any more. It may be
    unmapped and mapped again meanwhile, more than once; or it is of a program that the process executes only now, which
    is in another memory."""
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                memory.seek(start)
                return memory.read(size)
        except OSError:
            if not _is_mapped(pid, line):
                return None
    raise AssertionError(f"cannot be read, though it is mapped: {start:#x}")


def _is_mapped(pid: int, line: str) -> bool:
    try:
        return line in _mappings(pid)
    except OSError:
        return False


def _file(pid: int, fields: list[str]) -> str:
    """A path to the mapped file, also if the file was replaced meanwhile."""
    return f"/proc/{pid}/map_files/{fields[0]}" if fields[5].rstrip().endswith("(deleted)") else fields[5].rstrip()


def leftovers(pid: int) -> list[str]:
    """The mappings and file descriptors of gilk's own memory, or of files in gilk's cache."""
    maps = [line for line in _mappings(pid) if _is_gilks(line.split(maxsplit=5)[5:])]
    fds = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            fds += [f"{link.name} -> {os.readlink(link)}"] if _is_gilks([os.readlink(link)]) else []
    return maps + fds


def _is_gilks(path: list[str]) -> bool:
    """Whether a path is of gilk's memory or cache. A search for "gilk" would also find every file in a checkout of
    that name."""
    cache = os.environ.get("GILK_CACHE")
    ours = ("/memfd:gilk-", f"{cache}/") if cache else ("/memfd:gilk-",)
    return any(each.startswith(ours) for each in path)


def children(pid: int) -> list[int]:
    """The children of the process's main thread; none once it has ended."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_SEIZE, _INTERRUPT, _DETACH, _GETREGS = 0x4206, 0x4207, 17, 12
_GS_BASE = 22  # word of struct user_regs_struct


def gs_bases(pid: int) -> set[int]:
    """The GS bases of all threads. The threads are stopped for it, which some system calls answer with EINTR."""
    found = set()
    for tid in map(int, os.listdir(f"/proc/{pid}/task")):
        registers = (ctypes.c_uint64 * 27)()
        if _libc.ptrace(_SEIZE, tid, None, None) != 0:
            continue  # the thread has ended meanwhile
        _libc.ptrace(_INTERRUPT, tid, None, None)
        if not os.WIFSTOPPED(os.waitpid(tid, 0x40000000)[1]):
            continue
        _libc.ptrace(_GETREGS, tid, None, ctypes.cast(registers, ctypes.c_void_p))
        found.add(int(registers[_GS_BASE]))
        _libc.ptrace(_DETACH, tid, None, None)
    return found
