# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tries each operation on processes that gilk depends on once, for `gilk doctor`, each on a child of its own.

A file that says "allowed" can be wrong (seccomp, SELinux, containers, kernels built differently); an operation that has
just been done cannot. Every trial runs in a forked child or on one, so that its failure does no harm here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gilk.targets import debug_registers, ptrace

MFD_EXEC = 0x10  # <linux/memfd.h>, Linux 6.3: required where vm.memfd_noexec is set
PAGE = mmap.PAGESIZE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _returns(value: int) -> bytes:
    return bytes([0xB8, value, 0, 0, 0, 0xC3])  # mov eax, value; ret


def _call(address: int) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(address)())


def _code_mapping(value: int) -> int:
    """The address of a shared executable mapping with a function that returns `value`, written through another mapping
    of the same memory: nothing is ever writable and executable at once."""
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


def run_from_two_mappings(value: int) -> int:
    """The status of a child that executes code, in memory that is mapped twice, which returns ``value``; another status
    if that is not allowed."""
    return _exit_status(lambda: _call(_code_mapping(value)))


@contextmanager
def _sleeper(then: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """A context with (pid, fd): a forked child that waits until fd is written to or closed, then exits with the status
    that `then` returns."""
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


def _seize(pid: int) -> None:
    """Attach to `pid` and wait until it stands still."""
    ptrace.call(ptrace.SEIZE, pid)
    ptrace.call(ptrace.INTERRUPT, pid)
    os.waitpid(pid, 0)


def attach_to_child() -> None:
    """Attach to a child and let it go. Raises OSError."""
    with _sleeper(lambda: 0) as (pid, _):
        _seize(pid)
        ptrace.call(ptrace.DETACH, pid)


def may_attach_to_sibling() -> bool:
    """Whether a process may attach to a process of the same user that is no descendant of it."""
    with _sleeper(lambda: 0) as (pid, _):
        return _exit_status(lambda: ptrace.call(ptrace.SEIZE, pid) & 1) == 0


def write_code(value: int, wrong: int) -> int:
    """The status of a traced child that would return ``wrong``, from read-only code, after the code was rewritten
    through /proc/PID/mem to return ``value``. Raises OSError."""
    address = _private_code(wrong)
    try:
        with _sleeper(lambda: _call(address)) as (pid, wake):
            _seize(pid)
            _write(pid, address, _returns(value))
            ptrace.call(ptrace.DETACH, pid)
            os.write(wake, b"x")
            status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            return status.si_status if status else -1
    finally:
        _libc.munmap(address, PAGE)


def _private_code(value: int) -> int:
    fd = os.memfd_create("gilk-doctor", os.MFD_CLOEXEC)
    try:
        os.write(fd, _returns(value).ljust(PAGE, b"\xcc"))
        return _map(fd, mmap.MAP_PRIVATE)
    finally:
        os.close(fd)


def _write(pid: int, address: int, code: bytes) -> None:
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(address)
        memory.write(code)


def free_debug_registers() -> tuple[int, int, str]:
    """How many debug registers a thread can have now, of how many, and why it can have no more, or ""."""
    free, why = debug_registers.free_registers()
    return free, debug_registers.MOST, why
