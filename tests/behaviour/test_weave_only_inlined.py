# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects over functions that are inlined wherever they are called, so that nm knows none of them. The same program,
built so that the functions are not inlined, has the same calls."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import gilk
from gilk.errors import UsageError
from tests.behaviour.advised import OPTIONS, aspects, build, rounds
from tests.behaviour.harness import run_gilk

PROGRAM = """
volatile long sum;
NOINLINE long deep(long n) { sum += n; return sum; }
static INLINED long gone(long n) { sum += 3; long r = deep(n); __asm__ volatile("" : "+r"(r) : : "memory"); return r; }
NOINLINE long first(long n) { return gone(n) + 1; }
NOINLINE long second(long n) { return n > 1 ? gone(n + 1) + gone(n + 2) : n; }
static void one_round(void) { printf("%ld\\n", first(1) + second(2) + second(1)); }
"""
INLINING, PLAIN = "-DINLINED=inline __attribute__((always_inline))", "-DINLINED=NOINLINE"
OBSERVED = """
call(long gone(long n)) then { report("gone %ld", n); };
call(long gone(long n)) then after { report("gone %ld left", n); };
call(long deep(long n)) then { report("deep %ld", n); };
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = build(tmp_path_factory.mktemp("gone"), PROGRAM, *OPTIONS, INLINING)
    assert " gone" not in subprocess.run(["nm", built], capture_output=True, text=True, check=True).stdout
    return built


def _reported(program: Path, file: Path) -> tuple[str, list[str]]:
    with rounds(program) as running, gilk.attach(running.pid) as target, gilk.weave(file, target) as woven:
        answer = running.ask()
        texts = [one.text for one in woven.reports()]
    (summary,) = woven.summaries()
    assert summary.restored
    return answer, texts


def test_functions_without_code_are_observed_at_their_copies(program: Path, tmp_path: Path) -> None:
    file = aspects(tmp_path, OBSERVED)
    at_copies = _reported(program, file)
    assert at_copies == _reported(build(tmp_path, PROGRAM, *OPTIONS, PLAIN), file)
    assert at_copies[1][:3] == ["gone 1", "deep 1", "gone 1 left"] and len(at_copies[1]) == 9


def test_an_aspect_about_such_a_function_alone_is_woven(program: Path, tmp_path: Path) -> None:
    _, texts = _reported(program, aspects(tmp_path, 'call(long program:gone(long n)) then { report("%ld", n); };'))
    assert texts == ["1", "3", "4"]


def test_a_dry_run_tells_of_such_functions(program: Path, tmp_path: Path) -> None:
    with rounds(program) as running:
        said = run_gilk("weave", aspects(tmp_path, OBSERVED), "-p", str(running.pid), "--dry-run", "--json")
    found = {one["function"]: one for one in json.loads(said.stdout)["shadows"]}
    assert sorted(found["gone"]["advised_copies"]) == ["inlined copy in first", "inlined copy in second"]
    assert found["gone"]["copies"].startswith("inlined in 3 places") and found["gone"]["points"] >= 6


def test_a_control_flow_is_found_through_their_copies(program: Path, tmp_path: Path) -> None:
    flow = "controlflow(call(long gone(..)), call(long deep(long n)));"
    with rounds(program) as running, gilk.attach(running.pid) as target:
        with gilk.weave(aspects(tmp_path, "walk " + flow), target) as woven:
            running.ask()
            (counts,) = woven.counts()
        with pytest.raises(UsageError, match="gone is inlined in 3 places") as error:
            gilk.weave(aspects(tmp_path, flow), target)
    assert counts.matches == (3,) and error.value.slug == "inlined"


def test_advice_in_their_place_is_refused_by_name(program: Path, tmp_path: Path) -> None:
    with rounds(program) as running, gilk.attach(running.pid) as target:
        with pytest.raises(UsageError, match="gone is inlined in 3 places") as error:
            gilk.weave(aspects(tmp_path, "call(long gone(long n)) then inplace { return n; };"), target)
        assert error.value.slug == "inlined"


def test_without_debug_information_the_message_says_that_nothing_is_known(tmp_path: Path) -> None:
    stripped = build(tmp_path, PROGRAM, "-O2", INLINING)
    with rounds(stripped) as running, gilk.attach(running.pid) as target:
        with pytest.raises(UsageError, match="no function") as error:
            gilk.weave(aspects(tmp_path, "call(long program:gone(long n)) then { };"), target)
    assert error.value.slug == "no-such-function" and "no debug information to tell" in error.value.hint
