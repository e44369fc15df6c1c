# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions of which the compiler has made copies: gilk says where calls have no advice, or refuses. readelf counts the
copies."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.errors import UsageError
from tests.behaviour.advised import Rounds, aspects, build, rounds
from tests.behaviour.harness import run_gilk

PROGRAM = """
volatile long seen;
static inline __attribute__((always_inline)) long check(long n) { seen += n; return n > 5 ? -1 : n; }
long (*volatile by_pointer)(long n) = check;
NOINLINE long deep(long n) { __asm__ volatile(""); return n; }
NOINLINE long first(long n) { return check(n) + 1; }
NOINLINE long second(long n) { return check(n + 1) + check(n + 2); }
static inline __attribute__((always_inline)) long around(long n) { long r = deep(n); seen += r; return r; }
NOINLINE long outside(long n) { long r = around(n) + 1; __asm__ volatile(""); return r; }
long (*volatile other_pointer)(long n) = around;
static void one_round(void)
{
	outside(deep(other_pointer(2))); /* before the round is answered for */
	printf("%ld %ld %ld\\n", first(1), second(1), by_pointer(1));
}
"""
REFUSED = "call(long check(long n)) then inplace { return 100; };"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("copies"), PROGRAM)


@pytest.fixture
def running(program: Path) -> Iterator[Rounds]:
    with rounds(program) as one:
        yield one


def test_a_function_with_copies_is_refused(running: Rounds, program: Path, tmp_path: Path) -> None:
    said = subprocess.run(["readelf", "--debug-dump=info", "-W", program], capture_output=True, text=True, check=True)
    parts = said.stdout.split("DW_TAG_inlined_subroutine")[1:]
    copies = sum("DW_AT_abstract_origin" in one and _names_check(said.stdout, one) for one in parts)
    with gilk.attach(running.pid) as target, pytest.raises(UsageError, match=f"inlined in {copies} places") as error:
        gilk.weave(aspects(tmp_path, REFUSED), target)
    assert error.value.slug == "inlined"
    assert running.ask() == "2 5 1"


def _names_check(dump: str, part: str) -> bool:
    """Whether an inlined copy in readelf's output is one of check()."""
    origin = part.split("DW_AT_abstract_origin")[1].split("<0x")[1].split(">")[0]
    return "check" in dump.split(f"<{origin}>: Abbrev")[1].split("Abbrev Number")[0]


def test_a_partial_aspect_names_the_copies_that_it_does_without(running: Rounds, tmp_path: Path) -> None:
    with gilk.attach(running.pid) as target:
        with gilk.weave(aspects(tmp_path, "partial " + REFUSED), target) as woven:
            assert running.ask() == "2 5 100"
        (summary,) = woven.summaries()
    (note,) = summary.notes
    assert note.startswith("left out: check is inlined in 3 places (") and "first:+0x" in note and "second:+0x" in note


def test_a_dry_run_has_copies(running: Rounds, tmp_path: Path) -> None:
    path = aspects(tmp_path, REFUSED + "call(long first(long n)) then { };")
    said = run_gilk("weave", path, "-p", str(running.pid), "--dry-run", "--json")
    assert said.returncode == 1
    refused, woven = json.loads(said.stdout)["shadows"]
    assert refused["copies"].startswith("inlined in 3 places") and "(inlined)" in refused["refused"]
    assert (woven["copies"], woven["refused"]) == ("", None)


def test_a_dry_run_has_tactics_and_what_the_c_uses(running: Rounds, tmp_path: Path) -> None:
    """The woven session has the same tactics; nm would show the same undefined names."""
    text = "%{ #include <stdlib.h> %} call(long deep(long n)) && return(r) then after { srand(r); free(0); };"
    path = aspects(tmp_path, text)
    with gilk.attach(running.pid) as target, gilk.weave(path, target, dry_run=True) as woven:
        (dry,) = woven.shadows
        assert dry.calls == ("free", "srand")
        woven.weave()
        found = woven.processes[0].session.tactics()
    assert dict(dry.tactics) == {name: number for name, number in found.items() if number}
    assert sum(dict(dry.tactics).values()) == dry.points


def test_a_control_flow_is_found_on_the_stack_through_a_copy(running: Rounds, tmp_path: Path) -> None:
    """deep() is called three times: in around() itself, in its copy, and outside of both."""
    flow = "controlflow(call(long around(..)), call(long deep(long n)));"
    with gilk.attach(running.pid) as target:
        with gilk.weave(aspects(tmp_path, "walk " + flow), target) as woven:
            running.ask()
            (counts,) = woven.counts()
        with pytest.raises(UsageError, match="around is inlined in 1 place"):
            gilk.weave(aspects(tmp_path, flow), target)
    assert counts.matches == (2,)
