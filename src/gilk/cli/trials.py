# SPDX-License-Identifier: LGPL-2.1-or-later
"""The operations that gilk depends on, as `gilk doctor` tries them: each once, on a child of its own.

A file that says "allowed" can be wrong (seccomp, SELinux, containers, kernels
built differently); an operation that was just done cannot. Every trial runs in
a forked child or on one, so that what fails there does not fail here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gilk.api import machine
from gilk.cli.checks import Check, Status, verdict
from gilk.errors import CompileError

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207  # <sys/ptrace.h>
MFD_EXEC = 0x10  # <linux/memfd.h>, Linux 6.3: required where vm.memfd_noexec is set
PAGE = mmap.PAGESIZE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _returns(value: int) -> bytes:
    return bytes([0xB8, value, 0, 0, 0, 0xC3])  # mov eax, value; ret


def _call(address: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(address)())


def _code_mapping(value: int) -> int:
    """The address of a shared executable mapping that returns `value`, written through another mapping of the same
    memory: nothing is ever writable and executable at once."""
    try:
        fd = os.memfd_create("gilk-doctor", os.MFD_CLOEXEC | MFD_EXEC)
    except OSError:  # before Linux 6.3 the flag is unknown, and not needed
        fd = os.memfd_create("gilk-doctor", os.MFD_CLOEXEC)
    os.truncate(fd, PAGE)
    with mmap.mmap(fd, PAGE) as view:
        view[:6] = _returns(value)
    return _map(fd, mmap.MAP_SHARED)


def _map(fd: int, flags: int) -> int:
    address = _libc.mmap(None, PAGE, mmap.PROT_READ | mmap.PROT_EXEC, flags, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(address)


def _exit_status(work: Callable[[], int]) -> int:
    """The value that `work` returns in a forked child; 128 + n if signal n ends it; 255 if it raises."""
    pid = os.fork()
    if pid == 0:
        status = 255
        try:
            status = work()
        finally:
            os._exit(status)
    return _reap(pid)


def _reap(pid: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def dual_mapping() -> Check:
    status = _exit_status(lambda: _call(_code_mapping(42)))
    found = "runs" if status == 42 else f"refused (status {status})"
    means = "patches lie in shared memory that gilk writes and the program only executes"
    fix = "a policy forbids it: sysctl vm.memfd_noexec=0, or SELinux's execmem"
    return Check("memfd", verdict(status == 42), found, means, fix)


@contextmanager
def _sleeper(then: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """(pid, fd): a forked child that waits until fd is closed, then exits with what `then` returns."""
    ours, theirs = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(ours)
        os.close(theirs)
        raise
    if pid == 0:
        status = 255
        try:
            os.close(theirs)
            os.read(ours, 1)
            status = then()
        finally:
            os._exit(status)
    os.close(ours)
    try:
        yield pid, theirs
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(theirs)
        os.waitpid(pid, 0)


def _ptrace(request: int, pid: int) -> None:
    if _libc.ptrace(request, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _seize(pid: int) -> None:
    """Attach to `pid` and wait until it stands still."""
    _ptrace(PTRACE_SEIZE, pid)
    _ptrace(PTRACE_INTERRUPT, pid)
    os.waitpid(pid, 0)


def attach_child() -> Check:
    try:
        with _sleeper(lambda: 0) as (pid, _):
            _seize(pid)
            _ptrace(PTRACE_DETACH, pid)
        found, good = "attached to a child and let go", True
    except OSError as error:
        found, good = f"refused: {error.strerror}", False
    means = "programs that gilk starts can be instrumented"
    return Check("ptrace", verdict(good), found, means, "in a container: docker run --cap-add SYS_PTRACE")


def attach_stranger() -> Check:
    """Attach to a process that is no descendant of the one that attaches: its sibling."""
    with _sleeper(lambda: 0) as (pid, _):
        good = _exit_status(lambda: _libc.ptrace(PTRACE_SEIZE, pid, None, None) & 1) == 0
    found = "attached to a process of the same user" if good else "refused"
    means = "`-p PID` works on processes that gilk did not start"
    fix = "sudo sysctl kernel.yama.ptrace_scope=0, or run gilk as root"
    return Check("attach", verdict(good, Status.WARN), found, means, fix)


def write_code() -> Check:
    """Write to read-only code of a traced child through /proc/PID/mem; the child's exit status proves it."""
    address = _private_code(41)
    try:
        status = _patched_status(address, _returns(43))
        found = "wrote a child's code, and it ran" if status == 43 else f"no effect (status {status})"
    except OSError as error:
        status, found = -1, f"refused: {error.strerror}"
    finally:
        _libc.munmap(address, PAGE)
    means = "splices are written this way, without making code writable"
    return Check("procmem", verdict(status == 43), found, means, "boot without proc_mem.force_override=never")


def _private_code(value: int) -> int:
    fd = os.memfd_create("gilk-doctor", os.MFD_CLOEXEC)
    try:
        os.write(fd, _returns(value).ljust(PAGE, b"\xcc"))
        return _map(fd, mmap.MAP_PRIVATE)
    finally:
        os.close(fd)


def _patched_status(address: int, code: bytes) -> int:
    with _sleeper(lambda: _call(address)) as (pid, wake):
        _seize(pid)
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(code)
        _ptrace(PTRACE_DETACH, pid)
        os.write(wake, b"x")
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return status.si_status if status else -1


# Instruments are compiled with these flags, of which old or unusual compilers lack some.
INSTRUMENT = "long gilk_trial(long x) { return x + __builtin_ia32_rdgsbase64(); }\n"
FLAGS = ("-O2", "-ffreestanding", "-mgeneral-regs-only", "-mfsgsbase", "-nostdlib", "-static", "-no-pie")
LINK = ("-Wl,-Ttext=0x10000", "-Wl,-e,gilk_trial", "-Wl,--build-id=none")


def compile_instrument() -> Check:
    """Compile an instrument and link it to a fixed address, as gilk will."""
    means = "compiles instruments written in C and the run-time library, and gives them the address where they will lie"
    fix = "apt install gcc, or pip install 'gilk[cc]'"
    try:
        command = machine.compiler()
    except CompileError as error:
        return Check("cc", Status.MISSING, error.message, means, fix)
    trouble = _compile(command)
    found = " ".join(command) + (f" fails: {trouble}" if trouble else " compiles and links")
    return Check("cc", verdict(not trouble), found, means, fix)


def _compile(command: Sequence[str]) -> str:
    """The first line of what went wrong; empty if nothing did."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = [*command, *FLAGS, *LINK, "-x", "c", "-", "-o", f"{directory}/trial"]
        try:
            done = subprocess.run(arguments, input=INSTRUMENT, capture_output=True, text=True)
        except OSError as error:
            return str(error.strerror)
    return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0] if done.returncode else ""


TRIALS: tuple[Callable[[], Check], ...] = (
    attach_child, attach_stranger, dual_mapping, write_code, compile_instrument,
)  # fmt: skip
