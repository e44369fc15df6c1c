# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk dtrace -p A -p B`: one D program for several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.trace.d.values import Integer
from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, run_gilk, wait_for
from tests.programs.build import build

HOT = "pid$target:a.out:hot:entry"
#: Clauses that end once both processes have been seen.
BOTH = "{ seen[pid] = 1; @[pid] = count(); } tick-10ms /seen[$1] && seen[$2]/ { exit(0); }"


@pytest.fixture
def two() -> Iterator[tuple[Loop, Loop]]:
    with Loop([build("hot8")]) as one, Loop([build("hot8")]) as other:
        yield one, other


def clean(*loops: Loop) -> bool:
    return all((differences(loop.pid), leftovers(loop.pid)) == ([], []) for loop in loops)


def rows(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in (line.split() for line in text.splitlines() if line.strip())}


def test_target_names_all_processes_and_they_share_global_variables(two: tuple[Loop, Loop]) -> None:
    pids = [str(loop.pid) for loop in two]
    done = run_gilk("dtrace", "-q", "-p", pids[0], "-p", pids[1], "-n", f"{HOT} {BOTH}", *pids)
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)
    assert sorted(found) == sorted(pids) and all(found.values())
    assert clean(*two)


@pytest.mark.stress
def test_descriptions_name_each_process_by_its_pid(two: tuple[Loop, Loop]) -> None:
    pids = [str(loop.pid) for loop in two]
    text = (
        "pid$1:a.out:hot:entry { seen[1] = pid; @[probeprov] = count(); @wrong = sum(pid != $1); }"
        "pid$2:a.out:hot:entry { seen[2] = pid; @[probeprov] = count(); @wrong = sum(pid != $2); }"
        'tick-10ms /seen[1] && seen[2]/ { printa("%s %@d\\n", @); printa("wrong %@d\\n", @wrong); exit(0); }'
    )
    done = run_gilk("dtrace", "-q", "-n", text, *pids)
    assert done.returncode == 0, done.stderr
    said = rows(done.stdout.split("wrong")[0])
    assert sorted(said) == [f"pid{pid}" for pid in sorted(pids)]
    assert "wrong 0" in done.stdout
    assert clean(*two)


def test_a_session_of_several_processes_lasts_until_the_last_has_ended() -> None:
    with Loop([build("hot8")]) as other:
        one = Loop([build("hot8")])
        words = [sys.executable, "-m", "gilk", "dtrace", "-q", "-p", str(one.pid), "-p", str(other.pid)]
        text = f'{HOT} {{ @[pid] = count(); }} {HOT} /!told[pid]++/ {{ system("echo seen %d", pid); }}'
        with subprocess.Popen(
            [*words, "-w", "-n", text], env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True
        ) as tracer:
            assert tracer.stdout is not None
            wanted = {f"seen {one.pid}\n", f"seen {other.pid}\n"}
            while wanted and (line := tracer.stdout.readline()):  # two threads may see that it was not told yet
                wanted.discard(line)
            assert not wanted
            one.finish()
            assert wait_for(lambda: not Path(f"/proc/{one.pid}").exists())
            assert tracer.poll() is None
            assert not clean(other)
            tracer.send_signal(signal.SIGINT)
            out = tracer.communicate(timeout=250)[0]
        assert tracer.returncode == 0
        assert sorted(set(rows(out)) - {"seen"}) == sorted(map(str, (one.pid, other.pid)))
        assert clean(other)


@pytest.mark.stress
def test_a_description_needs_to_match_in_one_of_the_processes_only(two: tuple[Loop, Loop]) -> None:
    with Loop([build("recursion")]) as third:
        words = ["dtrace", "-q", "-p", str(two[0].pid), "-p", str(third.pid)]
        done = run_gilk(*words, "-n", "pid$target:a.out:left_hand:entry { trace(pid); exit(0); }")
        assert (done.returncode, done.stdout.strip()) == (0, str(third.pid)), done.stderr
        done = run_gilk(*words, "-n", "pid$target:a.out:nosuch:entry { exit(0); }")
        assert done.returncode == 1 and "none of the processes has one" in done.stderr
        assert clean(two[0], third)


def test_a_killed_session_leaves_all_processes_as_they_were(two: tuple[Loop, Loop]) -> None:
    pids = [str(loop.pid) for loop in two]
    words = [
        sys.executable,
        "-m",
        "gilk",
        "dtrace",
        "-q",
        "-p",
        pids[0],
        "-p",
        pids[1],
        "-n",
        f"{HOT} {{ @ = count(); }}",
    ]
    with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}) as tracer:
        assert wait_for(lambda: not clean(two[0]) and not clean(two[1]))
        tracer.kill()
    assert wait_for(lambda: clean(*two))


def test_a_missing_process_is_an_error_and_the_other_is_let_go(two: tuple[Loop, Loop]) -> None:
    done = run_gilk("dtrace", "-p", str(two[0].pid), "-p", "4194303", "-n", f"{HOT} {{ exit(0); }}")
    assert done.returncode == 1 and "there is no process 4194303" in done.stderr
    assert clean(*two)


@pytest.mark.parametrize("more", [["--on", "lab"], ["-l"], ["-e"], ["-c", "true"]])
def test_options_about_one_process_are_refused_for_several(two: tuple[Loop, Loop], more: list[str]) -> None:
    pids = [word for loop in two for word in ("-p", str(loop.pid))]
    done = run_gilk("dtrace", *pids, *more, "-n", f"{HOT} {{ }}")
    assert done.returncode in (1, 2) and done.stderr
    assert "boot" not in done.stderr and "Traceback" not in done.stderr
    assert clean(*two)


@pytest.mark.stress
def test_a_session_of_several_processes_from_python(two: tuple[Loop, Loop]) -> None:
    pids = [loop.pid for loop in two]
    with gilk.dtrace(f"{HOT} {BOTH}", pid=pids, arguments=[str(pid) for pid in pids]) as session:
        found = [event for event in session if isinstance(event, gilk.events.Snapshot)]
    (snapshot,) = found
    assert sorted(row.keys[0].value for row in snapshot.rows if isinstance(row.keys[0], Integer)) == sorted(pids)
    assert clean(*two)
