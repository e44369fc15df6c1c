# SPDX-License-Identifier: LGPL-2.1-or-later
"""The facts about the machine that `gilk doctor` can read without trying anything.

A check is a function of no arguments that returns a :class:`Check`; FACTS lists them in the order in which they are
shown. Checks that have to try something are in :mod:`gilk.cli.trials`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from gilk.api import machine as this_machine
from gilk.values import dataclass

AT_HWCAP2 = 26  # <elf.h>
HWCAP2_FSGSBASE = 1 << 1  # arch/x86/include/uapi/asm/hwcap2.h
OLDEST_KERNEL = (5, 9)  # the first that lets programs write the GS base
ROOM_WANTED = 1 << 30  # bytes for the cache and for samples; a busy minute of timed calls is about this
MAPS_WANTED = 65530  # the kernel's default


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"  # gilk works, with a limit that `means` describes
    MISSING = "missing"  # gilk does not work


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report: the fact, its consequence for the user, and a way to get what is missing."""

    name: str
    status: Status
    found: str
    means: str
    fix: str = ""


def verdict(good: bool, otherwise: Status = Status.MISSING) -> Status:
    return Status.OK if good else otherwise


def machine() -> Check:
    found = platform.machine()
    good = found == "x86_64" and sys.maxsize > 1 << 32 and sys.platform == "linux"
    means = "gilk writes 64-bit x86 code, for Linux"
    return Check("machine", verdict(good), f"{found} {sys.platform}", means, "use a 64-bit x86 machine and Python")


def python() -> Check:
    good = sys.version_info >= (3, 11)
    return Check("python", verdict(good), platform.python_version(), "3.11 or later", "install python3.11 or later")


def kernel() -> Check:
    release = platform.release()
    good = _kernel_version(release) >= OLDEST_KERNEL
    means = "5.9 or later: older ones do not let a program set its own GS base, where gilk keeps its buffers"
    return Check("kernel", verdict(good), release, means, "install a newer kernel")


def _kernel_version(release: str) -> tuple[int, ...]:
    numbers = release.split("-", 1)[0].split(".")
    return tuple(int(number) for number in numbers[:2] if number.isdigit())


def fsgsbase() -> Check:
    """Check that the kernel has enabled the FSGSBASE instructions, which AT_HWCAP2 tells; the processor's flag is
    not enough."""
    good = bool(ctypes.CDLL(None).getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE)
    means = "a thread finds its buffer by the GS base, set without a system call"
    fix = "boot without `nofsgsbase`, on a processor of 2012 (Intel) or 2015 (AMD) or later"
    return Check("fsgsbase", verdict(good), "enabled" if good else "not enabled", means, fix)


def tsc() -> Check:
    flags = this_machine.processor_flags()
    lacking = [flag for flag in ("constant_tsc", "nonstop_tsc") if flag not in flags]
    found = f"not {' nor '.join(lacking)}" if lacking else "constant, never stops"
    means = "timestamps are read from the processor's counter; where it varies, times are not comparable across cores"
    return Check("tsc", verdict(not lacking, Status.WARN), found, means, "count with it, but do not trust durations")


def yama() -> Check:
    """Check the scope of Yama's restriction of ptrace; Documentation/admin-guide/LSM/Yama.rst describes the four
    scopes."""
    path = Path("/proc/sys/kernel/yama/ptrace_scope")
    scope = path.read_text().strip() if path.exists() else "no Yama"
    means = {
        "1": "only programs started by gilk, unless root: `gilk run -- COMMAND` works, `-p PID` is refused",
        "2": "only with CAP_SYS_PTRACE",
        "3": "nobody may trace until the next boot",
    }.get(scope, "your own processes can be attached to")
    privileged = has_capability(CAP_SYS_PTRACE)
    good = scope in ("0", "no Yama") or (privileged and scope != "3")
    status = verdict(good, Status.WARN if scope == "1" else Status.MISSING)
    found = f"scope {scope}{', CAP_SYS_PTRACE' if privileged else ''}" if scope.isdigit() else scope
    return Check("yama", status, found, means, "sudo sysctl kernel.yama.ptrace_scope=0, or run gilk as root")


CAP_SYS_PTRACE = 19  # <linux/capability.h>


def has_capability(number: int) -> bool:
    effective = int(_own_status(b"CapEff") or "0", 16)
    return bool(effective >> number & 1)


def _own_status(field: bytes) -> str:
    """The value of a line of this process's /proc/self/status; "" if the kernel has no such line."""
    return this_machine.status_of("self").get(field, b"").decode()


def seccomp() -> Check:
    mode = {"0": "no filter", "1": "strict", "2": "filtered"}.get(_own_status(b"Seccomp"), "unknown")
    means = "a container's filter may refuse ptrace or memfd_create; the trials above tell"
    return Check("seccomp", verdict(mode == "no filter", Status.WARN), mode, means, "docker run --cap-add SYS_PTRACE")


def shadow_stack() -> Check:
    features = _own_status(b"x86_Thread_features")
    good = "shstk" not in features
    means = "programs that run with a user shadow stack get fewer tactics: returns must match calls"
    fix = "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off COMMAND"
    return Check("shstk", verdict(good, Status.WARN), features or "off", means, fix)


def maps() -> Check:
    count = int(Path("/proc/sys/vm/max_map_count").read_text())
    means = "memory mappings a process may have; patches of very large plans take some hundreds"
    fix = f"sudo sysctl vm.max_map_count={MAPS_WANTED}"
    return Check("maps", verdict(count >= MAPS_WANTED, Status.WARN), str(count), means, fix)


def symbols() -> Check:
    local = any(Path("/usr/lib/debug/.build-id").glob("*/*.debug"))
    server = os.environ.get("DEBUGINFOD_URLS", "")
    found = ", ".join(filter(None, ["/usr/lib/debug" if local else "", "debuginfod" if server else ""])) or "none"
    means = "names for the static functions of stripped programs; without them these are called by address"
    fix = "apt install PACKAGE-dbgsym (deb.debian.org/debian-debug), or let debuginfod-find fetch into /usr/lib/debug"
    return Check("symbols", verdict(found != "none", Status.WARN), found, means, fix)


def names() -> Check:
    program = shutil.which("c++filt")
    means = "names of C++ and Rust as their source has them; without it they are shown as the linker has them"
    return Check("names", verdict(program is not None, Status.WARN), program or "none", means, "apt install binutils")


def room() -> Check:
    """Check the free space where gilk keeps analyses and compiled code; the directory is not created."""
    means = "analyses and compiled instruments are kept here, and found again by content"
    fix = "free some space, or set GILK_CACHE to a directory of yours, below none that others can write to"
    place = this_machine.cache_place()
    wanted, why = place.path, place.why
    if wanted is None:
        return Check("cache", Status.WARN, "; ".join(why) or "no home directory", f"nothing is kept: {means}", fix)
    existing = next(path for path in (wanted, *wanted.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    good = free >= ROOM_WANTED and os.access(existing, os.W_OK)
    found = "; ".join((f"{wanted}, {free / (1 << 30):.1f} GiB free", *why))
    return Check("cache", verdict(good and not why, Status.WARN), found, means, fix)


FACTS: tuple[Callable[[], Check], ...] = (
    machine, python, kernel, fsgsbase, tsc, yama, seccomp,
    shadow_stack, maps, symbols, names, room,
)  # fmt: skip
