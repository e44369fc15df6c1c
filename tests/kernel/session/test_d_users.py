# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses in a kernel see user space correctly: stacks are those that ftrace records, memory is that of the program."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import ran
from tests.kernel.session.test_d_programs import shell
from tests.programs.build import compile_to

pytestmark = pytest.mark.xdist_group("lab")
TIMES = 20
FRAMES = ("-O0", "-fno-omit-frame-pointer")  # so that leaf functions have frames too
BEGIN = """\
cd /sys/kernel/tracing
echo > trace; echo 1 > options/userstacktrace; echo 1 > events/syscalls/sys_enter_getpgid/enable
"""
END = """\
cd /sys/kernel/tracing
cat trace
echo 0 > events/syscalls/sys_enter_getpgid/enable; echo 0 > options/userstacktrace
"""
STACKS = """
    syscall::getpgid:entry /execname == "deep"/ { @[ustack()] = count(); @two[ustack(2)] = count(); }
    END { printa("%k = %@d\\n", @); printa("two %k = %@d\\n", @two); }"""


@pytest.fixture(scope="module")
def deep(exchange: Path) -> list[str]:
    """The command of a program whose functions have frames and known addresses."""
    here = Path(__file__).parent
    library = compile_to(exchange / "libopenedlater.so", [here / "later.c"], (*FRAMES, "-shared", "-fPIC"))
    program = compile_to(exchange / "deep", [here / "deep.c"], (*FRAMES, "-no-pie", "-fno-pie"))
    return [str(program), str(TIMES), str(library)]


def addresses(program: str) -> dict[str, int]:
    said = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {name: int(address, 16) for address, name in re.findall(r"^(\w+) [tT] (\S+)$", said, re.MULTILINE)}


def stacks(lines: list[str]) -> Counter[tuple[str, ...]]:
    """The number of times that each stack was counted; frames are as printed."""
    found: Counter[tuple[str, ...]] = Counter()
    frames: list[str] = []
    for line in lines:
        if line.strip().startswith("= "):
            found[tuple(frames)] += int(line.split()[1])
            frames = []
        elif line.strip() and not line.startswith("two"):
            frames.append(line.strip())
    return found


def test_user_stacks_are_those_that_ftrace_records(kernel: KernelTarget, guest: Guest, deep: list[str]) -> None:
    """The process has ended by the time that its stacks are printed, and it opened a library late."""
    shell(guest, BEGIN)
    done = ran(kernel, STACKS, deep, clausetime="200000")
    walked = [
        tuple(int(address, 16) for address in re.findall(r"<(\w+)>", one))
        for one in re.findall(r"<user stack trace>\n((?: =>.*\n)+)", shell(guest, END))
    ]
    at = addresses(deep[0])
    own = range(min(at.values()), max(at.values()) + 1)
    theirs = Counter(tuple(each for each in one if each in own) for one in walked if any(e in own for e in one))
    ours: Counter[tuple[int, ...]] = Counter()
    text = list(stacks(done.lines).elements())
    for frames in text:
        if len(frames) > 2:
            named = [re.fullmatch(r"deep`(\w+)(?:\+0x(\w+))?", frame) for frame in frames]
            ours[tuple(at[each[1]] + int(each[2] or "0", 16) for each in named if each)] += 1
    assert ours == theirs and ours.total() == 2 * TIMES
    assert sum(any(re.match(r"libopenedlater\.so`later\+0x", frame) for frame in each) for each in text) == TIMES
    short = [each for each in text if len(each) == 2]
    assert len(short) == 2 * TIMES and all(re.match(r"deep`middle\+0x", each[1]) for each in short)
    assert not guest.complaints()


@pytest.mark.stress
def test_single_user_addresses_have_names_too(kernel: KernelTarget, deep: list[str]) -> None:
    text = """
        syscall::getpgid:entry /pid == $target && uregs[R_RDI] == arg0/ {
            @[usym(ucaller), umod(ucaller), ustackdepth > 4] = count(); @at[uaddr(uregs[R_RIP])] = count(); }
        END { printa("%A %A %d %@d\\n", @); printa("%A %@d\\n", @at); }"""
    done = ran(kernel, text, deep)
    assert done.lines[0].split() == ["deep`middle", "deep", "1", str(2 * TIMES)]
    assert re.fullmatch(rf"deep`innermost\+0x\w+ +{2 * TIMES}", done.lines[1].strip())


@pytest.mark.stress
def test_a_kernel_task_has_no_user_stack(kernel: KernelTarget) -> None:
    text = """
        sched:::on-cpu /curthread->mm == NULL/ { @[ustackdepth, ucaller] = count(); n++; }
        sched:::on-cpu /n > 100/ { exit(0); }
        END { printa("%d %d\\n", @); }"""
    assert ran(kernel, text).lines == ["0 0"]


def test_memory_read_from_the_process_is_what_it_writes(kernel: KernelTarget) -> None:
    """The memory is read as a string, as so many bytes, and as a number; missing memory is a fault, and so are too
    many bytes."""
    text = """
        syscall::write:entry /pid == $target/ {
            printf("%s|%s|%x|%s\\n", stringof(copyin(arg1, arg2)), stringof(copyin(arg1, 3)), *(int *)copyin(arg1, 4),
                copyinstr(arg1, 5)); }
        syscall::write:entry /pid == $target/ { trace((int)copyin(0x10, 4)); printf("not here\\n"); }
        syscall::write:entry /pid == $target/ {
            this->n = 100000; trace((int)copyin(arg1, this->n)); printf("nor here\\n"); }"""
    done = ran(kernel, text, ["sh", "-c", "printf abcdefgh > /dev/null"])
    assert done.lines == ["abcdefgh|abc|64636261|abcd"]
    assert (done.errors.count("invalid address"), done.errors.count("invalid size")) == (1, 1)
