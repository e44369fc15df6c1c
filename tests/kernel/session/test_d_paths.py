# SPDX-License-Identifier: LGPL-2.1-or-later
"""fds[], cwd and paths in a live stock kernel, beside those that /proc and strace show of the same run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import ran
from tests.kernel.session.test_d_programs import shell
from tests.programs.build import compile_to

pytestmark = pytest.mark.xdist_group("lab")
STRSIZE = 256
CLOSES = 0o2000000  # O_CLOEXEC, which belongs to the descriptor, not to the file
RACES = 2000  # the same as in paths.c
TEXT = """
    syscall::fcntl:entry /execname == "paths" && arg1 == 3/ {
        printf("a|%d|%s|%s|%s\\n", (int)arg0, fds[arg0].fi_pathname, fds[arg0].fi_name, fds[arg0].fi_dirname);
    }
    syscall::fcntl:entry /execname == "paths" && arg1 == 3/ {
        printf("b|%s|%s|%d|%o\\n", fds[arg0].fi_fs, fds[arg0].fi_mount, fds[arg0].fi_offset, fds[arg0].fi_oflags);
    }
    syscall::fcntl:entry /execname == "paths" && arg1 == 3/ { printf("c|%s|%s\\n", cwd, root); }
    syscall::fcntl:entry /execname == "paths" && arg1 == 1/ { @races[fds[arg0].fi_pathname] = count(); }
    END { printa("race|%s|%@d\\n", @races); }"""


@dataclass(frozen=True)
class Told:
    """The lines of the program about /proc, of strace, and of the clauses."""

    proc: list[list[str]]
    traced: list[str]
    names: list[list[str]]
    facts: list[list[str]]
    places: list[list[str]]
    races: list[list[str]]
    mounts: dict[str, tuple[str, str]]
    directory: str


@pytest.fixture(scope="module")
def told(kernel: KernelTarget, guest: Guest, exchange: Path) -> Told:
    source = Path(__file__).with_name("paths.c")
    program = compile_to(exchange / "paths", [source], ("-O2", "-static", "-pthread"))
    proc, traced, mounts = (exchange / f"paths.{name}" for name in ("proc", "strace", "mounts"))
    shell(guest, "mkdir -p /tmp/paths && mount -t tmpfs none /tmp/paths && mkdir /tmp/paths/inner")
    strace = f"strace -f -y -e trace=fcntl -s 4096 -o {traced} {program} /tmp/paths/inner {proc}"
    command = ["sh", "-c", f"{strace} && cat /proc/self/mountinfo > {mounts}"]
    done = ran(kernel, TEXT, command, strsize=str(STRSIZE), clausetime="200000")
    shell(guest, "umount /tmp/paths/inner/mounted /tmp/paths")
    assert not done.errors and done.restored and not guest.complaints()
    rows = [line.split("|") for line in done.lines]
    lines = [line.split() for line in mounts.read_text().splitlines()]
    return Told(
        [line.split("|") for line in proc.read_text().splitlines()],
        re.findall(r"fcntl\((.*), F_GETFL\)", traced.read_text()),
        *([row[1:] for row in rows if row[0] == kind] for kind in ("a", "b", "c", "race")),
        mounts={line[0]: (line[4], line[line.index("-") + 1]) for line in lines},
        directory="/tmp/paths/inner",
    )


def test_paths_are_those_that_proc_and_strace_show(told: Told) -> None:
    seen = [row for row in told.names if row[1] != "<none>"]
    assert len(seen) == len(told.proc) >= 23
    cut = 0
    for (number, path, name, directory), (fd, link, _) in zip(seen, told.proc, strict=True):
        assert number == fd
        if path.startswith("..."):
            cut += 1
            assert link.endswith(path[3:]) and (len(link) >= STRSIZE or link.count("/") > 30)
        else:
            assert path == link
        if link.startswith("/"):
            assert name == os.path.basename(link) or link == "/" == name
        else:
            assert (name, directory) == (path, ".")
        if link.startswith("/") and not path.startswith("..."):
            assert directory == os.path.dirname(link)
    assert cut == 2  # one too deep, and one too long
    by_strace = {re.sub(r"^\d+<|>$", "", each) for each in told.traced if "<" in each}
    plain = {path for _, path, _, _ in seen if path.startswith(told.directory) and "(deleted)" not in path}
    assert len(plain) >= 5 and plain <= by_strace


def test_numbers_that_are_no_descriptors_have_no_path(told: Told) -> None:
    assert [row for row in told.names if row[1] == "<none>"] == [[n, *["<none>"] * 3] for n in ("-1", "1000")]


def test_other_facts_of_descriptors_are_those_in_proc(told: Told) -> None:
    rows = [row for row, (_, path, *_) in zip(told.facts, told.names, strict=True) if path != "<none>"]
    known = 0
    outside = len(told.proc) - 4  # the last four have another root
    for at, ((kind, mount, offset, flags), (_, link, info)) in enumerate(zip(rows, told.proc, strict=True)):
        facts = dict(re.findall(r"(\w+): +(\S+)", info))
        assert int(offset) == int(facts["pos"])
        assert int(flags, 8) == int(facts["flags"], 8) & ~CLOSES
        if facts["mnt_id"] in told.mounts:
            known += 1
            assert kind == told.mounts[facts["mnt_id"]][1]
            assert mount == told.mounts[facts["mnt_id"]][0] or at >= outside
        elif link.startswith(("pipe", "socket", "anon")):
            assert (kind, mount) == (f"{re.split('[:_]', link)[0]}{'_inode' * link.startswith('anon')}fs".replace(
                "pipefs", "pipefs").replace("socketfs", "sockfs"), "<unknown>")  # fmt: skip
    assert known >= 14


def test_directories_are_those_of_the_task(told: Told) -> None:
    """A root is shown as the first process sees it, whose own root may differ from the command's."""
    inside, root = told.places[:-4], told.places[0][1]
    assert len(inside) >= 20 and all(each == [told.directory, root] for each in inside)
    assert told.places[-4:] == [["/", root.rstrip("/") + told.directory]] * 4


def test_a_path_that_changes_has_names_that_were_there(told: Told) -> None:
    assert sum(int(count) for _, count in told.races) == RACES
    assert all(re.fullmatch(f"{told.directory}/[on]*/racing", path) for path, _ in told.races)


def test_arguments_of_processes_are_those_in_proc(kernel: KernelTarget) -> None:
    """pr_psargs has the arguments of the running process, but is empty for a process that other probes pass as an
    argument."""
    text = """
        syscall::write:entry /pid == $target/ { printf("%s\\n", curpsinfo->pr_psargs); exit(0); }
        sched:::off-cpu /pid == $target/ { other += args[1]->pr_pid != pid && args[1]->pr_psargs != ""; }
        END { printf("%d\\n", other); }"""
    command = ["sh", "-c", "read line < /proc/self/cmdline; echo  done", "two  words", "", "x" * 300]
    done = ran(kernel, text, command, strsize=str(STRSIZE))
    assert done.lines == [" ".join(command)[:STRSIZE], "0"] and not done.errors
