# SPDX-License-Identifier: LGPL-2.1-or-later
"""Running processes are chosen by number, by name and by their parent; each is instrumented once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.api.processes import hold
from gilk.errors import TargetError, UsageError
from gilk.targets.selecting import PatternPid, chosen
from tests.behaviour.harness import children, mortal, run_gilk, wait_for
from tests.programs.build import compile_text

SOURCE = r"""
#include <unistd.h>
__attribute__((noipa)) void tick(void) { usleep(1000); }
int main(void)
{
	write(1, "ready\n", 6);
	for (;;)
		tick();
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program with a unique name."""
    return compile_text(tmp_path, f"gk{os.getpid()}", SOURCE, "-O1", "-w")


@pytest.fixture
def family(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A shell that has begun the program twice."""
    with subprocess.Popen(["sh", "-c", f"{program} & {program} & wait"], stdout=subprocess.DEVNULL) as shell:
        try:
            assert wait_for(lambda: all_are(program, children(shell.pid), 2))
            yield shell
        finally:
            for pid in children(shell.pid):
                os.kill(pid, 9)
            shell.wait()


def all_are(program: Path, pids: list[int], count: int) -> bool:
    return [Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids] == [program.name] * count


def seen(file: Path, *words: str) -> set[int]:
    """The processes that have samples in a run with these options."""
    done = run_gilk("run", "-i", "tick:entry=stamp", "-o", file, *words, "--for", "200ms")
    assert done.returncode == 0, done.stderr
    return set(gilk.read(file).samples["pid"].to_pylist())


def test_processes_are_chosen_by_name_and_by_parent(program: Path, family: subprocess.Popen[bytes]) -> None:
    found = tuple(sorted(children(family.pid)))
    assert chosen((), [program.name[:-1] + "?"], ()) == found
    assert chosen((), (), [family.pid]) == found
    assert chosen(found[1:], [program.name], [family.pid]) == (found[1], found[0])
    with pytest.raises(TargetError) as refused:
        chosen((), (), found[:1])
    assert refused.value.slug == "no-such-process"


def test_a_process_of_a_pattern_that_has_ended_is_left_out(program: Path) -> None:
    """One that was given by its number is missed."""
    with mortal([program]) as alive, mortal([program]) as other:
        found = chosen((), [program.name], ())
        assert set(found) == {alive.pid, other.pid}
        other.kill()
        other.wait()
        held = hold(found, ())
        assert [one.pid for one in held] == [alive.pid]
        assert all(one.close() for one in held)
        for missed in (chosen((other.pid,), [program.name], ()), (PatternPid(other.pid),)):
            with pytest.raises(TargetError) as refused:
                hold(missed, ())
            assert refused.value.slug == "no-such-process"


def test_all_processes_of_a_name_are_instrumented(
    program: Path, family: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    file, two = tmp_path / "seen.parquet", set(children(family.pid))
    with mortal([program]) as third:
        assert seen(file, "--name", program.name) == {*two, third.pid}
        assert seen(file, "--children-of", str(family.pid)) == two
        assert seen(file, "--children-of", str(family.pid), "-p", str(third.pid)) == {*two, third.pid}
        assert seen(file, "-p", ",".join(map(str, two))) == two


def test_by_user(program: Path) -> None:
    """The oracle is pgrep(1)."""
    if os.geteuid():
        pytest.skip("only root can be another user")
    for place in (program, *program.parents):
        if place.owner() == "root" and place != Path("/tmp"):
            place.chmod(place.stat().st_mode | 0o055)
    with subprocess.Popen([program], stdout=subprocess.PIPE, user=65534) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            before, mine, after = owned(), set(chosen((), (), (), ["65534"])), owned()
            assert process.pid in mine <= before | after
            assert process.pid in chosen((), (), (), ["nobody"])
        finally:
            process.kill()


def owned() -> set[int]:
    told = subprocess.run(["pgrep", "-u", "65534"], capture_output=True, text=True, check=True).stdout
    return set(map(int, told.split()))


@pytest.mark.parametrize("user", ["nobody-is-called-so", "", "\0", "-1", "9" * 30])
def test_users_that_there_are_not(user: str) -> None:
    with pytest.raises(UsageError) as refused:
        chosen((), (), (), [user])
    assert refused.value.slug == "no-such-user"
    done = run_gilk("run", "-i", "main:entry=count", "--user", "nobody-is-called-so")
    assert done.returncode == 2 and "no-such-user" in done.stderr


def test_by_control_group(program: Path) -> None:
    """The oracle is ps(1); the process is in the groups of the test itself."""
    with mortal([program]) as process:
        words = ["ps", "-o", "cgroup=", "-ww", "-p", str(process.pid)]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        groups = [path for each in told.split(",") if (path := each.rpartition(":")[2].strip("/"))]
        if not groups:
            pytest.skip("all processes are in the roots of the hierarchies")
        for group in groups:
            for glob in (group, "/" + group, group.split("/")[0], group[:-1] + "?"):
                assert process.pid in chosen((), (), (), (), [glob])
            with pytest.raises(TargetError, match="control group"):
                chosen((), (), (), (), [group + "/no-such-group"])
        with pytest.raises(TargetError, match="control group"):
            chosen((), (), (), (), [groups[0][:-1]])


@pytest.mark.parametrize("words", [["-p", "1,"], ["-p", "x"], ["-p", "-1"], ["--children-of", "x"], ["-p", "1 2"]])
def test_processes_that_do_not_exist_are_an_error(words: list[str]) -> None:
    done = run_gilk("run", "-i", "main:entry=count", *words)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
