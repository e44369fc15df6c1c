# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weavings that are taken out at a moment at which no call with advice is under way. The program shows it: a call
that returns with its advice has 100 added, a call without it nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.behaviour.advised import Rounds, build, rounds, waiting
from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, run_gilk, wait_for
from tests.behaviour.test_weave_persist import kill

PATIENCE = 250.0
AFTER = "call(long held(long n)) then inplace { return proceed() + 100; };"
#: ``left`` is a call that longjmp() leaves, from far below the place where the thread waits then.
HELD = """
#include <setjmp.h>
static jmp_buf back;
NOINLINE long left(long n) { if (n) longjmp(back, 1); __asm__ volatile(""); return n; }
NOINLINE long deep(long n) { char room[8192]; __asm__ volatile("" : : "r"(room) : "memory"); return left(n) + room[0]; }
NOINLINE long held(long n) { if (!setjmp(back)) deep(n); return waiter(n) + 1; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("idle"), waiting(HELD, "held", 5))


@contextmanager
def woven(target: Rounds, place: Path, text: str = AFTER, *more: str) -> Iterator[int]:
    path = place / "some.aspect"
    path.write_text(text)
    done = run_gilk("weave", path, "-p", str(target.pid), "-d", *more)
    assert done.returncode == 0, done.stderr
    try:
        yield int(done.stdout)
    finally:
        run_gilk("aspect", "remove", done.stdout.strip())


def remove(number: int, *more: str) -> tuple[int, str]:
    done = run_gilk("aspect", "remove", str(number), *more)
    return done.returncode, done.stderr


def test_removal_when_idle_waits_for_a_call_under_way(program: Path, tmp_path: Path) -> None:
    with rounds(program) as target, woven(target, tmp_path) as number:
        assert target.ask() == "waits"
        status, said = remove(number, "--when-idle", "0")
        assert (status != 0, f"held (process {target.pid})" in said, "(busy)" in said) == (True, True, True), said
        assert differences(target.pid), "it is as it was"
        remover = subprocess.Popen(
            [sys.executable, "-m", "gilk", "aspect", "remove", str(number), "--when-idle", f"{PATIENCE:.0f}s"],
            env={**os.environ, **ENVIRONMENT}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert target.ask() == "107"
        assert (remover.communicate(timeout=PATIENCE)[1], remover.returncode) == ("", 0)
        assert (differences(target.pid), leftovers(target.pid)) == ([], [])
        assert [target.ask(), target.ask()] == ["waits", "7"]


def test_removal_when_idle_waits_for_a_call_of_an_inlined_copy(tmp_path: Path) -> None:
    inlined = """
static inline __attribute__((always_inline)) long held(long n) { return waiter(n) + 1; }
NOINLINE long caller(long n) { long r = held(n); __asm__ volatile(""); return r; }
long (*volatile pointer)(long n) = held;
"""
    program = build(tmp_path, waiting(inlined, "caller", 5), "-O2", "-g", "-pthread")
    text = "call(long held(long n)) then after { };"
    with rounds(program) as target, woven(target, tmp_path, text) as number:
        assert target.ask() == "waits"
        status, said = remove(number, "--when-idle", "0")
        assert (status != 0, f"held (process {target.pid})" in said, "(busy)" in said) == (True, True, True), said
        assert target.ask() == "7"
        assert remove(number, "--when-idle", "0") == (0, "")


def test_without_when_idle_a_call_goes_on_without_its_advice(program: Path, tmp_path: Path) -> None:
    """Negative control."""
    with rounds(program) as target, woven(target, tmp_path) as number:
        assert target.ask() == "waits"
        assert remove(number) == (0, "")
        assert target.ask() == "7"


def test_removal_when_idle_does_not_wait_for_abandoned_calls(program: Path, tmp_path: Path) -> None:
    text = "call(long left(long n)) then inplace { return proceed(); };"
    with rounds(program) as target, woven(target, tmp_path, text) as number:
        assert target.ask() == "waits"
        assert remove(number, "--when-idle", "0") == (0, "")
        assert target.ask() == "7"


def test_removal_when_idle_does_not_wait_for_calls_with_advice_before_them(program: Path, tmp_path: Path) -> None:
    with rounds(program) as target, woven(target, tmp_path, "call(long held(long n)) then { };") as number:
        assert target.ask() == "waits"
        assert remove(number, "--when-idle", "0") == (0, "")
        assert target.ask() == "7"


@pytest.mark.parametrize("waits", ["0", f"{PATIENCE:.0f}s"])
def test_an_ending_weaver_waits_for_calls_and_names_those_still_under_way(
    program: Path, tmp_path: Path, waits: str
) -> None:
    path = tmp_path / "some.aspect"
    path.write_text(AFTER)
    with rounds(program) as target:
        words = ["weave", path, "-p", str(target.pid), "--when-idle", waits]
        weaver = subprocess.Popen(
            [sys.executable, "-m", "gilk", *words], env={**os.environ, **ENVIRONMENT}, stderr=subprocess.PIPE, text=True
        )
        assert weaver.stderr
        for line in weaver.stderr:
            if line.startswith("woven"):
                break
        else:
            pytest.fail("nothing was woven")
        assert target.ask() == "waits"
        weaver.send_signal(signal.SIGINT)
        if waits == "0":
            assert f"go on without advice: held (process {target.pid})" in weaver.communicate(timeout=PATIENCE)[1]
            assert target.ask() == "7"
        else:
            assert target.ask() == "107"
            assert "without advice" not in weaver.communicate(timeout=PATIENCE)[1]
        assert weaver.returncode == 0
        assert wait_for(lambda: (differences(target.pid), leftovers(target.pid)) == ([], []))


def test_removal_when_idle_waits_for_each_of_several_processes(program: Path, tmp_path: Path) -> None:
    with rounds(program) as one, rounds(program) as other, woven(one, tmp_path, AFTER, "-p", str(other.pid)) as number:
        assert one.ask() == "waits"
        status, said = remove(number, "--when-idle", "100ms")
        assert (status != 0, str(one.pid) in said, str(other.pid) in said) == (True, True, False)
        assert [other.ask(), other.ask()] == ["waits", "107"]
        assert one.ask() == "107"
        assert remove(number, "--when-idle", "0") == (0, "")
        assert [differences(each.pid) for each in (one, other)] == [[], []]


def test_removal_when_idle_is_refused_after_the_weaver_has_gone(program: Path, tmp_path: Path) -> None:
    with rounds(program) as target, woven(target, tmp_path, AFTER, "--persist") as number:
        kill(number)
        status, said = remove(number, "--when-idle", "1s")
        assert (status, "(usage)" in said) == (2, True)
        assert differences(target.pid)
        assert remove(number) == (0, "")


def test_when_idle_is_refused_for_a_kernel_before_anything_is_woven(tmp_path: Path) -> None:
    path = tmp_path / "k.aspect"
    path.write_text("group A; A: call(void f(void)); K: call(int ksys_sync(void));")
    done = run_gilk("weave", path, "--on", "lab", "--when-idle", "1s", "-c", "true")
    assert (done.returncode, "(usage)" in done.stderr) == (2, True), done.stderr


def inside(target: Rounds, path: Path) -> dict[str, list[int]]:
    """The threads that are in each function, by a dry run."""
    done = run_gilk("weave", path, "-p", str(target.pid), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    return {one["function"]: one["inside"] for one in json.loads(done.stdout)["shadows"]}


def test_a_dry_run_names_the_threads_that_are_in_the_functions(program: Path, tmp_path: Path) -> None:
    """A thread waits in waiter(), called by held(); deep() has called left(), which longjmp() has left."""
    path = tmp_path / "some.aspect"
    path.write_text("call(long held(..)); call(long deep(..)); call(long left(..)); call(int main(..));")
    with rounds(program) as target:
        assert target.ask() == "waits"
        (waiting,) = {int(one) for one in os.listdir(f"/proc/{target.pid}/task")} - {target.pid}
        assert inside(target, path) == {"held": [waiting], "deep": [], "left": [], "main": [target.pid]}
        said = run_gilk("weave", path, "-p", str(target.pid), "--dry-run").stdout
        assert re.search(f":held: .*; thread {waiting} in it now\n", said), said
        assert (differences(target.pid), leftovers(target.pid), target.ask()) == ([], [], "7")
