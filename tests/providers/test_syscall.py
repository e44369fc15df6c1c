# SPDX-License-Identifier: LGPL-2.1-or-later
"""System calls of a process: as many as it makes, and as strace sees, with their arguments and results."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gilk.arch.syscalls import NAMES
from gilk.errors import TargetError
from gilk.lang.d.probes import described
from gilk.providers import syscall
from gilk.targets.process import attach
from tests.behaviour.harness import Loop, differences, leftovers, mortal
from tests.programs.build import build, compile_text
from tests.providers.sessions import traced

_HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
_PROGRAM = """
    syscall:::entry /pid == $target/ { @e[strjoin(probefunc, " entered")] = count(); }
    syscall:::return /pid == $target/ { @r[strjoin(probefunc, " returned")] = count(); }
    syscall:::return /pid == $target && errno/ { @f[strjoin(probefunc, " failed")] = count(); @n["errno"] = sum(errno);
    }
    syscall::close:entry /(int)arg0 == -1/ { @a["closed nothing"] = count(); self->closing = 1; }
    syscall::close:return /self->closing/ { @c["of which failed"] = count(); self->closing = 0; }
    syscall::close:return /errno == EBADF/ { @s["result"] = sum(arg0 + arg1); }
    syscall::read:return /errno == EINTR/ { @i["interrupted"] = count(); }
    syscall::getppid:entry /pid != $target/ { @["in the child"] = count(); }"""


def test_system_call_numbers_are_those_of_the_kernels_header() -> None:
    if not _HEADER.exists():
        pytest.skip("no headers of the kernel")
    told = dict(re.findall(r"#define __NR_(\w+) (\d+)", _HEADER.read_text()))
    assert {name: int(number) for name, number in told.items()}.items() <= {n: k for k, n in NAMES.items()}.items()


def test_every_system_call_fires_once(capfd: pytest.CaptureFixture[str]) -> None:
    """This includes calls whose number is only in the register, and a call that a handler interrupts with calls of
    its own."""
    command = [str(build("calls")), "40"]
    found = traced(_PROGRAM, *command)
    plain, through, failed, interrupted, handled = map(int, re.findall(r"\d+", capfd.readouterr().out))
    assert (plain, through, failed, interrupted) == (160, 160, 160, 5)
    seen, told = found.numbers(), _strace(command)
    assert seen["getppid entered"] == seen["getppid returned"] == plain + through
    assert seen["in the child"] == told["getppid"] - plain - through == 2
    assert seen["closed nothing"] == seen["of which failed"] == seen["close failed"] == failed
    assert seen["result"] == -2 * 9 * failed
    assert seen["interrupted"] == seen["read failed"] == seen["read entered"] == seen["read returned"] == interrupted
    assert seen["errno"] == 9 * failed + 4 * interrupted
    assert seen["getpgid entered"] == seen["getpgid returned"] == handled >= interrupted
    assert (found.refused, found.errors) == ({}, "")


def _strace(command: list[str]) -> dict[str, int]:
    """The number of each call, made by the process and by its child."""
    done = subprocess.run(["strace", "-f", "-o", "/dev/stdout", *command], capture_output=True, text=True)
    counts: dict[str, int] = {}
    for name in re.findall(r"^\d+ +(\w+)\(", done.stdout, re.MULTILINE):
        counts[name] = counts.get(name, 0) + 1
    return counts


def test_a_running_process_is_left_as_it_was() -> None:
    program = "syscall:::entry, syscall:::return { @ = count(); } syscall:::return /n++ > 300/ { exit(0); }"
    for name in ("calls", "vfork"):
        with Loop([build(name)]) as loop:
            done = traced(program, pid=loop.pid)
            assert done.restored and int(done.lines[0]) > 0
            assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


_OWN = ("syscalls", "signals", "fork", "vfork", "spawn", "exec", "threads", "setjmp", "smallstack", "sigpc", "work")


@pytest.mark.stress
@pytest.mark.parametrize("name", _OWN)
@pytest.mark.parametrize("variant", ["default", "static"])
def test_programs_behave_the_same_with_all_system_calls_probed(
    name: str, variant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = traced("syscall:::entry, syscall:::return { @ = count(); }", build(name, variant))
    assert capfd.readouterr().out.splitlines()[-1].startswith("ok ")
    assert int(done.lines[-1]) > 0


def test_system_calls_are_selected_by_name_and_glob() -> None:
    with Loop([build("work")]) as loop, attach(loop.pid) as process:

        def named(text: str) -> set[str]:
            return {":".join(probe.key) for probe in syscall.probes(process, described(text))}

        assert named("syscall::read:") == {"syscall:vmlinux:read:entry", "syscall:vmlinux:read:return"}
        preads = [f"syscall:vmlinux:{name}:entry" for name in ("pread64", "preadv", "preadv2")]
        assert named("syscall:vmlinux:pread*:entry") == set(preads)
        assert named("syscall::newstat:entry") == named("stat:entry") == {"syscall:vmlinux:stat:entry"}
        assert len(named("syscall:::")) == 2 * (len(NAMES) - 1)
        assert not named("syscall::rt_sigreturn:entry") | named("syscall:libc:read:entry") | named("fbt::read:entry")
        assert not any(probe.sites for probe in syscall.probes(process, described("syscall::exit*:return")))


def test_syscall_probes_are_refused_if_a_seccomp_filter_may_kill_for_them(tmp_path: Path) -> None:
    """The filter lets everything pass; but only the program knows what it examines."""
    program = compile_text(tmp_path, "filtered", _FILTERED)
    with mortal([program]) as running:
        with pytest.raises(TargetError) as caught:
            traced("syscall:::entry { @ = count(); }", pid=running.pid)
        assert caught.value.slug == "seccomp-blocks-syscall-probes"
        assert running.poll() is None


_FILTERED = """\
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
"""
