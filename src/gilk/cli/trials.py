# SPDX-License-Identifier: LGPL-2.1-or-later
"""The trials of `gilk doctor`: it tries each operation that gilk depends on, on processes of its own and with the
compiler."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence

from gilk.api import machine
from gilk.cli.checks import Check, Status, verdict
from gilk.errors import CompileError


def dual_mapping() -> Check:
    status = machine.trials.run_from_two_mappings(42)
    found = "runs" if status == 42 else f"refused (status {status})"
    means = "patches lie in shared memory that gilk writes and the program only executes"
    fix = "a policy forbids it: sysctl vm.memfd_noexec=0, or SELinux's execmem"
    return Check("memfd", verdict(status == 42), found, means, fix)


def attach_child() -> Check:
    try:
        machine.trials.attach_to_child()
        found, good = "attached to a child and let go", True
    except OSError as error:
        found, good = f"refused: {error.strerror}", False
    means = "programs that gilk starts can be instrumented"
    return Check("ptrace", verdict(good), found, means, "in a container: docker run --cap-add SYS_PTRACE")


def attach_stranger() -> Check:
    """Try to attach to a process that is no descendant of the tracer: a sibling."""
    good = machine.trials.may_attach_to_sibling()
    found = "attached to a process of the same user" if good else "refused"
    means = "`-p PID` works on processes that gilk did not start"
    fix = "sudo sysctl kernel.yama.ptrace_scope=0, or run gilk as root"
    return Check("attach", verdict(good, Status.WARN), found, means, fix)


def write_code() -> Check:
    """Try to write to read-only code of a traced child through /proc/PID/mem; the child's exit status is the proof."""
    try:
        status = machine.trials.write_code(43, wrong=41)
        found = "wrote a child's code, and it ran" if status == 43 else f"no effect (status {status})"
    except OSError as error:
        status, found = -1, f"refused: {error.strerror}"
    means = "splices are written this way, without making code writable"
    return Check("procmem", verdict(status == 43), found, means, "boot without proc_mem.force_override=never")


# Instruments are compiled with these flags, of which old or unusual compilers lack some.
INSTRUMENT = "long gilk_trial(long x) { return x + __builtin_ia32_rdgsbase64(); }\n"
FLAGS = ("-O2", "-ffreestanding", "-mgeneral-regs-only", "-mfsgsbase", "-nostdlib", "-static", "-no-pie")
LINK = ("-Wl,-Ttext=0x10000", "-Wl,-e,gilk_trial", "-Wl,--build-id=none")


def compile_instrument() -> Check:
    """Try to compile an instrument and to link it to a fixed address, as gilk does for instruments in C. If that does
    not work it is a warning, as long as gilk's own runtime came compiled."""
    means = "instruments in C, conditions, stacks, D programs and the commands made of these take a compiler"
    means += "" if machine.has_runtime() else ", and so does gilk's own runtime, for anything else"
    fix = "apt install gcc, or pip install 'gilk[cc]'"
    otherwise = Status.WARN if machine.has_runtime() else Status.MISSING
    try:
        command = machine.compiler()
    except CompileError as error:
        return Check("cc", otherwise, error.message, means, fix)
    trouble = _compile(command)
    found = " ".join(command) + (f" fails: {trouble}" if trouble else " compiles and links")
    return Check("cc", verdict(not trouble, otherwise), found, means, fix)


def _compile(command: Sequence[str]) -> str:
    """The first line of the compiler's complaint; "" if the instrument was compiled."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = [*command, *FLAGS, *LINK, "-x", "c", "-", "-o", f"{directory}/trial"]
        try:
            done = subprocess.run(arguments, input=INSTRUMENT, capture_output=True, text=True)
        except OSError as error:
            return str(error.strerror)
    return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0] if done.returncode else ""


def debug_registers() -> Check:
    """Try to have all debug registers of the processor for a thread. How many are missing can be told, and not who has
    them."""
    free, every, why = machine.trials.free_debug_registers()
    found = f"{free} of {every} are free" + (f": {why}" if why else "")
    means = "aspects that say `debugreg` have them watch variables"
    fix = "end other debuggers and `perf record -e mem:...`; sysctl kernel.perf_event_paranoid=2, or run gilk as root"
    return Check("debugreg", verdict(free == every, Status.WARN), found, means, fix)


TRIALS: tuple[Callable[[], Check], ...] = (
    attach_child, attach_stranger, dual_mapping, write_code, compile_instrument, debug_registers,
)  # fmt: skip
