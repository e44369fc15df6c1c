# SPDX-License-Identifier: LGPL-2.1-or-later
"""The part of ptrace(2) that gilk needs. One OS thread must make all calls for a tracee."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import time
from collections.abc import Callable, Collection
from typing import Any

from gilk.errors import TargetError
from gilk.targets.alive import is_alive, is_going
from gilk.targets.reaping import WALL, reaping, taken
from gilk.targets.status import status_of

PEEKUSER, CONT, DETACH, SETREGS, GETREGS = 3, 7, 17, 13, 12
SYSCALL, SINGLESTEP = 24, 9
SEIZE, INTERRUPT, LISTEN = 0x4206, 0x4207, 0x4208
SETOPTIONS, GETEVENTMSG = 0x4200, 0x4201
GETSIGINFO, SETSIGINFO, GETSIGMASK, SETSIGMASK = 0x4202, 0x4203, 0x420A, 0x420B
SECCOMP_GET_FILTER = 0x420C

O_TRACESYSGOOD, O_TRACEFORK, O_TRACEVFORK, O_TRACECLONE, O_TRACEEXEC = 1, 2, 4, 8, 16
O_EXITKILL, O_SUSPEND_SECCOMP = 1 << 20, 1 << 21
O_FOLLOW = O_TRACEFORK | O_TRACEVFORK | O_TRACECLONE | O_TRACEEXEC
EVENT_FORK, EVENT_VFORK, EVENT_CLONE, EVENT_EXEC, EVENT_STOP = 1, 2, 3, 4, 128
BEGINNINGS = (EVENT_FORK, EVENT_VFORK, EVENT_CLONE)

SIGTRAP, SIGSTOP = 5, 19


class Registers(ctypes.Structure):
    """struct user_regs_struct, sys/user.h."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
            *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
        )
    ]

    def copy(self) -> Registers:
        return Registers.from_buffer_copy(self)


_TGKILL = 234
PATIENCE = 10.0  # seconds that a thread is given for work of microseconds
_LONGEST = 0.05  # seconds to wait for a SIGCHLD, should none come
_BRISK = 20
_TRIES = 5
_told = False
_before: set[signal.Signals | int] = set()

_libc = ctypes.CDLL(None, use_errno=True)
_ptrace: Callable[..., int] = _libc.ptrace
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def call(request: int, tid: int, address: int = 0, data: Any = 0) -> int:
    """Make a ptrace request; returns its result. Raises ProcessLookupError when the thread is gone or not stopped, and
    OSError otherwise."""
    pointer = (
        ctypes.cast(ctypes.byref(data), ctypes.c_void_p)
        if isinstance(data, ctypes._SimpleCData | ctypes.Structure)
        else data
    )
    result = _ptrace(request, tid, address, pointer)
    if result == -1:
        code = ctypes.get_errno()
        if code:
            raise OSError(code, os.strerror(code))
    return result


def seize(tid: int, options: int = 0) -> None:
    """Attach to a thread (PTRACE_SEIZE). Raises TargetError `no-such-process`, `no-permission`, `already-traced`."""
    try:
        call(SEIZE, tid, 0, options)
    except ProcessLookupError:
        raise TargetError("no-such-process", f"there is no process {tid}") from None
    except PermissionError:
        raise denied(tid) from None


def seized(tid: int, options: int = 0) -> bool:
    """Seize a thread; returns False if it ends just now. If this process traces it already, it has executed a program
    since it was seized, and is the first thread of its process now. Raises as seize() does."""
    for more in reversed(range(_TRIES)):
        try:
            seize(tid, options)
            break
        except TargetError:
            if is_going(tid):
                return False
            if tracer_of(tid) == os.getpid():
                break
            if not more:  # else it may have been another first thread, which has made room for this one
                raise
    return True


def denied(tid: int) -> TargetError:
    """The error to raise when attaching was not permitted, with the reason as far as /proc tells."""
    tracer = tracer_of(tid)
    if tracer:
        return TargetError(
            "already-traced",
            f"process {tid} is being traced by process {tracer}",
            "only one tracer at a time can attach",
        )
    return TargetError(
        "no-permission",
        f"no permission to attach to process {tid}",
        "be its owner (and look at /proc/sys/kernel/yama/ptrace_scope), or have CAP_SYS_PTRACE",
    )


def tracer_of(tid: int) -> int:
    """The pid, in our namespace, of the process that traces a thread; 0 if it is not traced or has gone."""
    with contextlib.suppress(OSError):
        return int(status_of(tid).get(b"TracerPid", b"0"))
    return 0


def get_registers(tid: int) -> Registers:
    registers = Registers()
    call(GETREGS, tid, 0, registers)
    return registers


def set_registers(tid: int, registers: Registers) -> None:
    call(SETREGS, tid, 0, registers)


def get_mask(tid: int) -> int:
    """The blocked signals of a thread, bit n-1 for signal n."""
    mask = ctypes.c_uint64()
    call(GETSIGMASK, tid, 8, mask)
    return mask.value


def set_mask(tid: int, mask: int) -> None:
    call(SETSIGMASK, tid, 8, ctypes.c_uint64(mask))


def event_message(tid: int) -> int:
    """The tid of the new thread or process, while its maker is in the event stop (PTRACE_GETEVENTMSG)."""
    message = ctypes.c_ulong()
    call(GETEVENTMSG, tid, 0, message)
    return message.value


class SignalInfo(ctypes.Structure):
    """siginfo_t, as raw bytes."""

    _fields_ = [("content", ctypes.c_uint64 * 16)]


def get_info(tid: int) -> SignalInfo:
    info = SignalInfo()
    call(GETSIGINFO, tid, 0, info)
    return info


def set_info(tid: int, info: SignalInfo) -> None:
    call(SETSIGINFO, tid, 0, info)


def send(pid: int, tid: int, number: int) -> None:
    """Send a signal to one thread (tgkill(2))."""
    _libc.syscall(_TGKILL, pid, tid, number)


class Late(Exception):
    """A thread has neither stopped nor ended within the time given."""


def wait(tid: int, seconds: float = PATIENCE) -> int:
    """Wait for a thread to stop or end; returns its wait status. Raises Late, and ProcessLookupError when the thread is
    not, or no longer, ours to wait for.

    The end of a main thread is not reported until all other threads have ended and been waited for (kernel/exit.c,
    delay_group_leader): it is looked for, and raises ProcessLookupError, too.
    """
    deadline, rounds = time.monotonic() + seconds, 0
    while True:
        has_ended = rounds % _BRISK == 1 and not is_alive(tid)
        status = stopped(tid)
        if status is not None:
            return status
        if has_ended:
            raise ProcessLookupError(errno.ESRCH, "no such thread any more")
        if time.monotonic() > deadline:
            raise Late
        _rest(rounds)
        rounds += 1


def stopped(tid: int) -> int | None:
    """The wait status of a thread that has stopped or ended; None while it runs. Raises as wait() does."""
    reaped = taken(tid)
    if reaped is not None:
        return reaped
    try:
        got, status = os.waitpid(tid, WALL | os.WNOHANG)
    except ChildProcessError:
        raise ProcessLookupError(errno.ESRCH, "no such thread") from None
    return status if got else None


def reaped_meanwhile(*tids: Collection[int]) -> contextlib.AbstractContextManager[None]:
    """A context in which threads are seized while others of their process, ``tids``, already are (reaping.py)."""
    return reaping(*tids) if _told else contextlib.nullcontext()


def is_stopped(tid: int) -> bool:
    """Whether a thread is in a stop that it has not left since, for its tracer to do something with it."""
    try:
        call(PEEKUSER, tid)
    except OSError:
        return False
    return True


def _rest(rounds: int) -> None:
    """Pause until something may have changed. The kernel reports a tracee's stop by SIGCHLD, which this process can
    wait for where it is blocked (be_told); elsewhere the pauses are short, so that the caller looks again and again."""
    if _told:
        signal.sigtimedwait((signal.SIGCHLD,), _LONGEST)
    else:
        pause(rounds)


def pause(rounds: int) -> None:
    """Pause between two looks at a running thread, which stops within microseconds; the shortest sleep takes longer
    (prctl(2), PR_SET_TIMERSLACK), so the first rounds only yield."""
    if rounds < _BRISK:
        os.sched_yield()
    else:
        time.sleep(min(0.001, 0.00002 * (rounds - _BRISK)))


def be_told(mask: Collection[int] | None = None) -> None:
    """Block SIGCHLD from now on, so that waits are ended by it, and SIGALRM (reaping.py). No other thread of the
    process may take them. ``mask``: the signals that were blocked before, if SIGCHLD is blocked already."""
    global _told, _before
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # no SIGCHLD is sent to a process that ignores it
    signal.signal(signal.SIGALRM, lambda *_: None)  # it must not end this process, whatever becomes of the mask
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGALRM))
    _before = set(blocked if mask is None else mask)
    _told = True


def as_before() -> None:
    """Restore the signal mask in a child that is going to execute another program."""
    if _told:
        signal.pthread_sigmask(signal.SIG_SETMASK, _before)


def is_syscall_stop(status: int) -> bool:
    """Whether a wait status is that of a system call stop, given O_TRACESYSGOOD."""
    return os.WIFSTOPPED(status) and os.WSTOPSIG(status) == SIGTRAP | 0x80


def is_event_stop(status: int) -> bool:
    """Whether a wait status is that of a PTRACE_EVENT_STOP: from PTRACE_INTERRUPT, a group stop or a new thread."""
    return status >> 16 == EVENT_STOP


def thread_ids(pid: int) -> list[int]:
    """The tids of all threads of a process. Raises TargetError `no-such-process`."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        raise TargetError("no-such-process", f"there is no process {pid}") from None
