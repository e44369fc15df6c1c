# SPDX-License-Identifier: LGPL-2.1-or-later
"""Members of groups: chosen by number and name, watched for, and told by advice to join and to leave."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import gilk
from gilk.engines.aspect.membership import Members, read_choices
from gilk.engines.aspect.tending import Tender, may_ask
from gilk.errors import GilkError
from gilk.lang.aspect.woven import GroupChange
from tests.behaviour.advised import Rounds, aspects, build, rounds
from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, run_gilk, wait_for

PROGRAM = """
#include <unistd.h>
NOINLINE long hit(long k) { __asm__ volatile(""); return 2 * k; }
static void one_round(void)
{
	static long n;

	printf("%d %ld\\n", (int)getpid(), hit(++n));
}
"""
#: A child is forked amid a call, and goes on by itself, making calls.
FORKING = """
#include <signal.h>
#include <unistd.h>
#include <sys/wait.h>
NOINLINE long hit(long k) { __asm__ volatile(""); return 2 * k; }
NOINLINE int forks(int k) { __asm__ volatile(""); return fork(); }
static void one_round(void)
{
	static int child;
	long n;

	if (child) {
		kill(child, SIGKILL);
		child = waitpid(child, 0, 0) != child;
	} else if (!(child = forks(0))) {
		for (n = 1;; n++)
			hit(n), usleep(1000);
	}
	printf("%d\\n", child);
}
"""
COUNTED = 'group A; A: call(long hit(long k)) then { report("%ld", k); };'


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("groups"), PROGRAM)


@pytest.fixture
def named(program: Path, tmp_path: Path) -> Path:
    """A copy of the program with a unique name."""
    path = tmp_path / f"gk{os.getpid()}"
    shutil.copy(program, path)
    return path


class Weaver:
    """`gilk weave --json` in the background, until it is told to end."""

    def __init__(self, *words: str | Path) -> None:
        command = [sys.executable, "-m", "gilk", "weave", "--json", *map(str, words)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}
        )
        assert self._process.stdout is not None
        self.begun = json.loads(self._process.stdout.readline())["woven"]

    def end(self) -> tuple[list[dict[str, Any]], str]:
        """End the weaver. Returns the lines that it has printed since, and its messages."""
        process = self._process
        assert process.stdout is not None and process.stderr is not None
        process.send_signal(signal.SIGINT)
        with process:
            return [json.loads(line) for line in process.stdout], process.stderr.read()


@contextmanager
def several(path: Path, count: int) -> Iterator[list[Rounds]]:
    with ExitStack() as stack:
        yield [stack.enter_context(rounds(path)) for _ in range(count)]


def is_woven(pid: int) -> bool:
    return bool(differences(pid))


def test_members_by_name_are_the_processes_that_run_at_the_start(named: Path, program: Path, tmp_path: Path) -> None:
    with several(named, 2) as (one, two), rounds(program) as other:
        weaver = Weaver(aspects(tmp_path, COUNTED), "-g", f"A=name:{named.name}")
        assert weaver.begun == {str(one.pid): 1, str(two.pid): 1}
        with rounds(named) as late:
            for each in (one, two, other, late):
                each.ask()
            said, _ = weaver.end()
        assert sorted(line["report"]["pid"] for line in said if "report" in line) == sorted((one.pid, two.pid))
        assert [(differences(each.pid), leftovers(each.pid)) for each in (one, two)] == [([], []), ([], [])]


def test_watched_for_processes_join_when_they_begin_and_leave_when_they_end(named: Path, tmp_path: Path) -> None:
    """There is none at the beginning; one that comes is woven, and one that ends is not the end of the weaving."""
    began = time.monotonic()
    weaver = Weaver(aspects(tmp_path, COUNTED), "-g", f"A=all:{named.name[:5]}*{named.name[5:]}")
    for _ in range(2):
        with rounds(named) as one:
            assert wait_for(lambda one=one: is_woven(one.pid))
            one.ask()
    said, _ = weaver.end()
    assert [line["report"]["text"] for line in said if "report" in line] == ["1", "1"]
    assert [one["matches"] for one in said[-1]["aspects"]] == [[2]]
    assert [one["functions"] for one in said[-1]["processes"]] == [1, 1]
    for one in said[-1]["processes"]:
        (late,) = re.findall(r"^woven (\d+\.\d\d) s after it had begun", one["notes"][0])
        assert float(late) < time.monotonic() - began


def come_and_go(named: Path, place: Path, count: int) -> None:
    """Processes begin and end while the weaver looks for them: every third one ends, woven or not yet. Those that stay
    are woven, nobody is refused, and all of them are left as they were."""
    weaver = Weaver(aspects(place, COUNTED), "-g", f"A=all:{named.name}")
    with ExitStack() as stack:
        running = list[Rounds]()
        for n in range(count):
            running.append(stack.enter_context(rounds(named)))
            if n % 3 == 2:
                assert running.pop(0).end() == 0
        assert wait_for(lambda: all(is_woven(one.pid) for one in running), 300)
        for one in running:
            one.ask()
        said, _ = weaver.end()
        assert sorted(line["report"]["pid"] for line in said if "report" in line) == sorted(one.pid for one in running)
        assert not [line for line in said if "refused" in line]
        assert [(differences(one.pid), leftovers(one.pid)) for one in running] == [([], [])] * len(running)


def test_processes_come_and_go_while_they_are_watched_for(named: Path, tmp_path: Path) -> None:
    come_and_go(named, tmp_path, 4)


@pytest.mark.stress
def test_twenty_processes_come_and_go_while_they_are_watched_for(named: Path, tmp_path: Path) -> None:
    come_and_go(named, tmp_path, 20)


def test_children_of_a_process_join_when_they_begin(program: Path, tmp_path: Path) -> None:
    """A shell that was there before begins a program, which is woven."""
    shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert shell.stdin is not None and shell.stdout is not None
    weaver = Weaver(aspects(tmp_path, COUNTED), "-g", f"A=children:{shell.pid}")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    shell.stdin.write(f"{program} < {fifo}\n")
    shell.stdin.flush()
    with fifo.open("w") as lines:
        assert wait_for(lambda: any(map(is_woven, children(shell.pid))))
        lines.write("\n")
        lines.flush()
        pid = int(shell.stdout.readline().split()[0])
    said, _ = weaver.end()
    assert [line["report"]["pid"] for line in said if "report" in line] == [pid]
    with shell:
        shell.stdin.close()
    assert shell.returncode == 0


def test_a_forked_child_has_its_parents_advice_until_the_weaving_ends(tmp_path: Path) -> None:
    """The child was forked while its parent was amid advice in place."""
    text = """group A;
A: call(int forks(int k)) then inplace { return proceed(); };
A: call(long hit(long k)) && return(r) && if (k % 50 == 0) then after { report("%d: %ld", pid(), r); };
"""
    with rounds(build(tmp_path, FORKING)) as parent, gilk.attach(parent.pid) as target:
        with gilk.weave(aspects(tmp_path, text), target) as weaving:
            child, seen = int(parent.ask()), list[str]()
            assert wait_for(lambda: bool(seen.extend(one.text for one in weaving.reports()) or len(seen) >= 2))
            assert seen[:2] == [f"{child}: 100", f"{child}: 200"]
        for each in (parent.pid, child):
            assert (differences(each), leftovers(each)) == ([], [])
        assert parent.ask() == "0"


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def test_nothing_is_woven_if_one_process_is_refused(program: Path, tmp_path: Path) -> None:
    with rounds(program) as good, subprocess.Popen(["sleep", "1000"]) as bad:
        try:
            members = ("-p", str(good.pid), "-p", str(bad.pid))
            done = run_gilk("weave", aspects(tmp_path, COUNTED), *members, "--for", "1")
            assert (done.returncode, "(no-such-function)" in done.stderr) == (2, True)
            assert (differences(good.pid), leftovers(good.pid)) == ([], [])
            done = run_gilk("weave", aspects(tmp_path, COUNTED), *members, "--at-least", "2", "--for", "1")
            assert (done.returncode, "(no-such-function)" in done.stderr) == (2, True)
            done = run_gilk("weave", aspects(tmp_path, COUNTED), *members[:2], "--at-least", "2", "--for", "1")
            assert (done.returncode, "--at-least 2: there is 1" in done.stderr) == (2, True)
            weaver = Weaver(aspects(tmp_path, COUNTED), *members, "--at-least", "1")
            assert weaver.begun == {str(good.pid): 1}
            good.ask()
            said, _ = weaver.end()
        finally:
            bad.kill()
        assert [line["refused"]["slug"] for line in said if "refused" in line] == ["no-such-function"]
        assert [line["report"]["text"] for line in said if "report" in line] == ["1"]


def test_advice_has_processes_join_and_leave(program: Path, tmp_path: Path) -> None:
    """The call that asks to join is still without the advice, and the one that asks to leave still has it."""
    text = """group A; group B;
B: call(long hit(long k)) then { report("%ld", k); };
A: call(long hit(long k)) && if (k == 1) then { join(B, pid()); };
A: call(long hit(long k)) && if (k == 1000) then { leave(B, pid()); };
"""
    with rounds(program) as one, gilk.attach(one.pid) as target:
        weaving = gilk.weave(aspects(tmp_path, text), target, groups={one.pid: ["A"]})
        members = Members(read_choices(f"A={one.pid}"), ["A", "B"])
        refused = dict[int, GilkError]()
        with weaving, Tender(weaving, members, refused.__setitem__) as tender:
            one.ask()
            assert list(weaving.reports()) == []
            assert (tender.tend(), refused) == (False, {})
            assert [each.groups for each in weaving.processes] == [("A", "B")]
            for _ in range(999):
                one.ask()
            assert [each.text for each in weaving.reports()] == [str(n) for n in range(2, 1001)]
            tender.tend()
            assert [each.groups for each in weaving.processes] == [("A",)]
            one.ask()
            assert list(weaving.reports()) == []
            assert refused == {}
        assert (differences(one.pid), leftovers(one.pid)) == ([], [])


@pytest.mark.parametrize(
    "words", ["A", "=1", "A=", "A=x", "A=1,", "A=name:", "A=some:x", "A=children:x", "A=12345678901", "B=1", "A=²"]
)
def test_bad_members_are_refused_by_name(words: str, tmp_path: Path) -> None:
    done = run_gilk("weave", aspects(tmp_path, COUNTED), "-g", words)
    assert (done.returncode != 0, "(bad-group)" in done.stderr, done.stdout) == (True, True, ""), done.stderr


def test_a_member_name_without_a_process_is_refused(tmp_path: Path) -> None:
    done = run_gilk("weave", aspects(tmp_path, COUNTED), "-g", "A=name:nobody-is-called-so")
    assert "(no-such-process)" in done.stderr


def test_a_process_may_add_only_processes_of_its_own_user_to_groups(program: Path) -> None:
    """A process of root may ask for all processes, one of another user only for that user's, whatever it writes into
    the memory of its records."""
    with rounds(program) as roots, subprocess.Popen(["setpriv", "--reuid", "65534", "sleep", "1000"]) as others:
        try:
            assert wait_for(lambda: os.stat(f"/proc/{others.pid}").st_uid == 65534)
            assert may_ask(GroupChange(roots.pid, "A", others.pid, True))
            assert may_ask(GroupChange(others.pid, "A", others.pid, True))
            assert not may_ask(GroupChange(others.pid, "A", roots.pid, True))
            assert not may_ask(GroupChange(others.pid, "A", 1, True))
            assert not may_ask(GroupChange(others.pid, "A", 1 << 22, True))
        finally:
            others.kill()
