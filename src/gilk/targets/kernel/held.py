# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs a command, and stops it where its tracing begins: a program of its own, which is started through a relay.

    python3 -I -S -c TEXT PLACE COMMAND...

It writes its pid to standard error, as a line, and becomes COMMAND. A process that it has left behind traces it
(ptrace(2)) until it is at PLACE, and leaves it there, untraced and stopped, for a SIGCONT to let it go on:

    linked      where the dynamic linker reports that all libraries are in place (``_dl_debug_state`` with ``r_state``
                RT_CONSISTENT, link.h), before their constructors run; a program without one at its first instruction
    main        where main() is about to begin. A program that ends before, or whose main() cannot be found, is killed.

It imports the standard library only, for it runs where nothing is installed. If the tracer dies, the command does,
too. Children that the command forks before it is at PLACE go on untraced.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

_PEEKUSER, _POKEUSER, _CONT, _SINGLESTEP, _DETACH, _GETEVENTMSG, _SEIZE = 3, 6, 7, 9, 17, 0x4201, 0x4206
_O_FORK, _O_EXEC, _O_EXITKILL = 2, 16, 1 << 20
_EVENT_FORK, _EVENT_EXEC = 1, 4
_WALL = 0x40000000  # __WALL
_RIP, _RDI = 16 * 8, 14 * 8  # offsets in struct user_regs_struct, sys/user.h
_AT_BASE, _AT_ENTRY = 7, 9
_INT3 = b"\xcc"
_DEBUG_STATE, _DEBUG = "_dl_debug_state", "_r_debug"
_R_STATE = 24  # the offset of r_state in struct r_debug
_FUNC, _OBJECT, _DYNAMIC = 2, 1, 3  # STT_FUNC, STT_OBJECT, ET_DYN
_SYMBOLS = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM
_MOST_STEPS = 200  # a limit on the instructions from a program's entry to where its main() is handed over
_LONGEST = 15  # bytes of an instruction

_ptrace: Callable[..., int] = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]  # type: ignore[attr-defined]
_ptrace.restype = ctypes.c_long  # type: ignore[attr-defined]


class NotHeld(Exception):
    """The command has ended, or has executed another program."""


def _call(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    """Make a ptrace request; returns its result. Raises OSError."""
    ctypes.set_errno(0)
    result = _ptrace(request, pid, address, data)
    if result == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def text() -> str:
    """The text of this program, for `python3 -c`."""
    with open(os.path.abspath(__file__), encoding="utf-8") as file:
        return file.read()


# The files of programs.


def symbols(data: bytes, wanted: Sequence[str]) -> Mapping[str, int]:
    """The addresses of those of the symbols ``wanted`` that an ELF file defines. Raises struct.error, IndexError for a
    file that is no ELF file for 64 bits."""
    at, size, count = (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58))
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + number * size) for number in range(count)]
    found: dict[str, int] = {}
    for kind, start, length, link in ((each[1], each[4], each[5], each[6]) for each in sections):
        if kind in _SYMBOLS:
            _, _, _, _, names, names_size, *_ = sections[link]
            texts = data[names : names + names_size]
            found.update(_defined(data[start : start + length // 24 * 24], texts, wanted))
    return found


def _defined(table: bytes, texts: bytes, wanted: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The defined functions and objects with these names in a symbol table, with their addresses."""
    names = {name.encode(): name for name in wanted}
    for name, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", table):
        if section and info & 15 in (_FUNC, _OBJECT):
            text = texts[name : texts.find(b"\0", name)] if name else b""
            if text in names:
                yield names[text], value


def _file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _auxiliary(pid: int) -> Mapping[int, int]:
    data = _file(f"/proc/{pid}/auxv")
    return dict(struct.iter_unpack("<QQ", data[: len(data) // 16 * 16]))


def _mapped_at(pid: int, address: int) -> tuple[int, int, str]:
    """Start and end of the mapping that ``address`` lies in, and the path of its file. Raises LookupError."""
    for line in _file(f"/proc/{pid}/maps").decode(errors="surrogateescape").splitlines():
        extent, _, _, _, _, *path = line.split(maxsplit=5)
        start, end = (int(number, 16) for number in extent.split("-"))
        if start <= address < end:
            return start, end, "".join(path)
    raise LookupError(address)


# The tracer.


class HoldingTracer:
    """Traces a process from its execve(2) on, up to a place. All methods raise NotHeld, OSError."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._memory = -1

    def seize(self) -> None:
        _call(_SEIZE, self._pid, 0, _O_FORK | _O_EXEC | _O_EXITKILL)

    def wait_for_exec(self) -> None:
        arrived = 0
        while True:
            status = self._wait()
            if status >> 16 == _EVENT_EXEC:
                self._memory = os.open(f"/proc/{self._pid}/mem", os.O_RDWR)
                return
            arrived = 0 if status >> 16 else os.WSTOPSIG(status)
            _call(_CONT, self._pid, 0, arrived)

    def run_until_linked(self) -> None:
        """Let the dynamic linker work until all libraries are in place; do nothing if there is no such linker."""
        base = _auxiliary(self._pid).get(_AT_BASE, 0)
        try:
            known = symbols(_file(_mapped_at(self._pid, base)[2]), (_DEBUG_STATE, _DEBUG)) if base else {}
        except (struct.error, IndexError, LookupError):
            return
        if len(known) == 2:
            state = base + known[_DEBUG] + _R_STATE
            self._run_to(base + known[_DEBUG_STATE], lambda: not any(os.pread(self._memory, 4, state)))

    def run_to_main(self) -> None:
        """Let the program run until main() is about to begin. Raises LookupError if it cannot be found."""
        entry = _auxiliary(self._pid)[_AT_ENTRY]
        data = _file(f"/proc/{self._pid}/exe")
        kind, linked = struct.unpack_from("<H", data, 16)[0], struct.unpack_from("<Q", data, 24)[0]
        main = symbols(data, ("main",)).get("main", 0)
        if main:
            self._run_to(main + (entry - linked if kind == _DYNAMIC else 0))
        else:
            self._run_to(entry)
            self._run_to(self._handed_over(*_mapped_at(self._pid, entry)[:2]))

    def leave_stopped(self) -> None:
        """Let go of the process, which then is stopped before it executes anything."""
        os.kill(self._pid, signal.SIGSTOP)
        _call(_DETACH, self._pid)

    def _handed_over(self, low: int, high: int) -> int:
        """The address of main() between ``low`` and ``high``, found by steps from the program's entry: it is the first
        argument of __libc_start_main, however that is called. Raises LookupError."""
        before = _call(_PEEKUSER, self._pid, _RIP)
        for _ in range(_MOST_STEPS):
            _call(_SINGLESTEP, self._pid)
            self._wait()
            here, first = (_call(_PEEKUSER, self._pid, register) for register in (_RIP, _RDI))
            if not 0 <= here - before <= _LONGEST and low <= first < high:
                return first
            before = here
        raise LookupError("main")

    def _run_to(self, address: int, wanted: Callable[[], bool] = lambda: True) -> None:
        """Let the process run until it reaches ``address`` and ``wanted`` returns true."""
        kept, arrived = os.pread(self._memory, 1, address), 0
        os.pwrite(self._memory, _INT3, address)
        while True:
            _call(_CONT, self._pid, 0, arrived)
            status = self._wait()
            if status >> 16 == _EVENT_FORK:
                self._spare(address, kept)
            arrived = 0 if status >> 16 else os.WSTOPSIG(status)
            if arrived == signal.SIGTRAP and _call(_PEEKUSER, self._pid, _RIP) == address + 1:
                arrived = 0
                os.pwrite(self._memory, kept, address)
                _call(_POKEUSER, self._pid, _RIP, address)
                if wanted():
                    return
                _call(_SINGLESTEP, self._pid)
                self._wait()
                os.pwrite(self._memory, _INT3, address)

    def _wait(self) -> int:
        """The wait status of the process, which has stopped."""
        _, status = os.waitpid(self._pid, _WALL)
        if not os.WIFSTOPPED(status) or (self._memory >= 0 and status >> 16 == _EVENT_EXEC):
            raise NotHeld
        return status

    def _spare(self, address: int, kept: bytes) -> None:
        """Let a child that the process has forked go, without the breakpoint that it has inherited."""
        number = ctypes.c_ulong()
        _ptrace(_GETEVENTMSG, self._pid, 0, ctypes.cast(ctypes.byref(number), ctypes.c_void_p))
        _, status = os.waitpid(number.value, _WALL)
        if os.WIFSTOPPED(status):
            memory = os.open(f"/proc/{number.value}/mem", os.O_RDWR)
            os.pwrite(memory, kept, address)
            os.close(memory)
            _call(_DETACH, number.value)


def _trace(pid: int, place: str, ready: int) -> None:
    """Trace the process ``pid`` up to the place; a byte to ``ready`` tells that it is traced."""
    tracer = HoldingTracer(pid)
    tracer.seize()
    os.write(ready, b"!")
    os.close(ready)
    try:
        tracer.wait_for_exec()
        (tracer.run_to_main if place == "main" else tracer.run_until_linked)()
        tracer.leave_stopped()
    except NotHeld:
        pass
    except (LookupError, OSError, struct.error):
        os.kill(pid, signal.SIGKILL)


def _traced(place: str) -> bool:
    """Have a process, which is no child of this one, trace this one; returns whether it does."""
    told, ready = os.pipe()
    own = os.getpid()
    child = os.fork()
    if not child:
        os.close(told)
        try:
            if not os.fork():
                os.setsid()  # a signal to the command's group is not for its tracer
                _trace(own, place, ready)
        finally:
            os._exit(0)
    os.close(ready)
    os.waitpid(child, 0)
    done = os.read(told, 1)
    os.close(told)
    return bool(done)


def _environment() -> dict[bytes, bytes]:
    """The environment as this program was given it: Python may change the locale in its own."""
    return dict(each.partition(b"=")[::2] for each in _file("/proc/self/environ").split(b"\0") if each)


def main(arguments: list[str]) -> int:
    """Become the command; returns its exit status, as a shell gives it, if that cannot be."""
    place, *words = arguments
    if not _traced(place):
        os.write(2, b"the command cannot be traced\n")
        return 126
    os.write(2, b"%d\n" % os.getpid())
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and an exec would hand that on
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(words[0], words, _environment())
    except OSError as error:
        os.write(2, os.fsencode(f"{words[0]}: {error.strerror}\n"))
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
