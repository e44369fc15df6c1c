# SPDX-License-Identifier: LGPL-2.1-or-later
"""D probes in libraries that a program opens while it is traced; test_opened_later.py has instruments and traces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, run_gilk
from tests.behaviour.test_opened_later import Opener
from tests.programs.build import build

ROUNDS = 12
CALLS = 10 * ROUNDS
ARGUMENTS = [round_ + call for round_ in range(ROUNDS) for call in range(10)]
UNWATCHED = """
import sys
from gilk.errors import TargetError
from gilk.session.broker.library_watch import LibraryWatch
def refuse(*_):
    raise TargetError("cannot-watch", "for a test")
LibraryWatch.put_gate = refuse
from gilk.cli.main import run
sys.exit(run())
"""


def test_d_says_that_hits_may_be_missing_though_the_program_has_ended() -> None:
    """A program that opens libraries only for an instant leaves nothing to see."""
    words = [sys.executable, "-c", UNWATCHED, "dtrace", "-Z", "-q", "-n", CLAUSES, "-c", f"{build('dlopen')} 3"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT})
    assert ["use_plugin", "3"] in numbers(done.stdout)
    assert "also those that nobody saw" in done.stderr and "for a test" in done.stderr


CLAUSES = """
pid$target:plugin.so:plugin_hot:entry { @calls[probefunc] = count(); @sum = sum(arg0); self->entered = 1; }
pid$target:plugin*:plugin_hot:return /self->entered/ { @returns = count(); self->entered = 0; }
pid$target:plugin.so:on_load:entry { @calls[probefunc] = count(); }
pid$target:a.out:use_plugin:entry { @calls[probefunc] = count(); }
"""


def numbers(text: str) -> list[list[str]]:
    return sorted(line.split() for line in text.splitlines() if line.split() and line.split()[-1].isdigit())


def test_d_probes_fire_in_a_library_opened_later() -> None:
    """Thread-local variables are shared by the code that was there and the code that came later."""
    program = build("dlopen")
    done = run_gilk("dtrace", "-Z", "-q", "-n", CLAUSES, "-c", f"{program} {ROUNDS}")
    assert done.returncode == 0, done.stderr
    found = numbers(done.stdout.partition("ok dlopen")[2])
    assert found == sorted([["on_load", str(ROUNDS)], ["use_plugin", str(ROUNDS)], ["plugin_hot", str(CALLS)],
                            [str(CALLS)], [str(sum(ARGUMENTS))]]), done.stderr  # fmt: skip
    assert "opened later, and instrumented first: plugin.so" in done.stderr


def test_d_refuses_a_library_that_is_not_open_without_z() -> None:
    done = run_gilk("dtrace", "-n", "pid$target:plugin.so:plugin_hot:entry {}", "-c", f"{build('dlopen')} 1")
    assert done.returncode != 0
    assert "does not match any probes" in done.stderr


def test_d_probes_fire_in_libraries_that_followed_programs_open() -> None:
    program = build("dlopen")
    clause = "pid$target::plugin_hot:entry { @[execname, pid == $target] = count(); @all = count(); }"
    done = run_gilk("dtrace", "--follow", "-Z", "-q", "-n", clause, "-c", f"sh -c '{program} 3; {program} 4; true'")
    assert done.returncode == 0, done.stderr
    assert ["dlopen", "0", "70"] in numbers(done.stdout)


def test_d_probes_fire_in_libraries_that_several_processes_open(tmp_path: Path) -> None:
    """When the command is interrupted, both processes go on with their own code."""
    program = (
        r"""tick-10ms /!said/ { printf("begun\n"); said = 1; } pid$target::plugin_hot:entry { @[pid] = count(); }"""
    )
    first, second = Opener(tmp_path), Opener(tmp_path)
    words = ["dtrace", "-q", "-Z", "-n", program, "-p", str(first.pid), "-p", str(second.pid)]
    with subprocess.Popen([sys.executable, "-m", "gilk", *words], env={**os.environ, **ENVIRONMENT}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:  # fmt: skip
        assert done.stdout is not None and done.stdout.readline() == "begun\n"
        first.turn(6)
        second.turn(3)
        done.send_signal(signal.SIGINT)
        text, errors = done.communicate(timeout=120)
    assert numbers(text) == sorted([[str(first.pid), "3"], [str(second.pid), "2"]]), errors
    for each in (first, second):
        assert (differences(each.pid), leftovers(each.pid)) == ([], [])
        each.turn(2)
        each.process.kill()
        each.process.communicate()


def test_json_of_d_says_which_library_was_opened_later() -> None:
    done = run_gilk("dtrace", "--json", "-Z", "-n", "pid$target::plugin_hot:entry { @ = count(); }", "-c",
                    f"{build('dlopen')} 2")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "opened later, and instrumented first: plugin.so" in done.stdout
