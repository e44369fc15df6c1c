# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace names the functions that it does not follow, and follows those at whose entries it has probes.

The refused point of a function here lies in a restartable sequence, whose code the kernel requires to stay in place, so
that no tactic can ever splice it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gilk.render.flow_tree import TreeLimits, tree_json, tree_text
from gilk.trace.flow import CallState, Flow
from gilk.trace.reading import read
from gilk.trace.traced import Unended, Unfollowed
from tests.behaviour.harness import plain, run_gilk
from tests.programs.build import NO_ROOM, compile_text
from tests.seldom import seldom

#: `half` returns within a restartable sequence; all of `sealed` is one. Both call `leaf`.
SOURCE = r"""
#include <stdio.h>
long half(long), sealed(long), leaf(long);
__asm__(".macro sequence from, to\n"
	".pushsection __rseq_cs, \"aw\"\n"
	".balign 32\n"
	".long 0, 0\n"
	".quad \\from, (\\to - \\from), aborted\n"
	".popsection\n"
	".endm\n"
	".macro calls name\n"
	".globl \\name\n"
	".type \\name, @function\n"
	"\\name:\n"
	".cfi_startproc\n"
	"sub $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"call leaf\n"
	"add $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"\\name\\()_returns:\n"
	"ret\n"
	"\\name\\()_end:\n"
	".cfi_endproc\n"
	".size \\name, . - \\name\n"
	".balign 16\n"
	".endm\n"
	".text\n"
	".long 0x53053053\n"
	"aborted: ud2\n"
	".balign 16\n"
	"calls half\n"
	"sequence half_returns, half_end\n"
	"calls sealed\n"
	"sequence sealed, sealed_end\n");
__attribute__((noipa)) long leaf(long n) { return n + 1; }
__attribute__((noipa)) long whole(long n) { long s = sealed(n); return half(half(n)) + s + leaf(n); }
__attribute__((noipa)) long other(long n) { return leaf(n) + n; }
int main(void)
{
	long sum = 0;
	for (int i = 0; i < 5; i++)
		sum += whole(i) + other(i);
	printf("%ld\n", sum);
	return 0;
}
"""

#: Small functions one after the other, as gcc -O0 lays them out; each returns by `pop %rbp; ret`, or by `leave; ret`.
DENSE = r"""
#include <stdlib.h>
#include <unistd.h>
static void *mem;
void *mem_alloc(void) { mem = malloc(64); return mem; }
void mem_free(void *m) { free(m); }
int bar(void) { usleep(10); return 0; }
int foo(void) { mem_free(mem_alloc()); bar(); return 1; }
int main(void) { foo(); foo(); return 0; }
"""


def traced(where: Path, program: Path, *words: str) -> tuple[Flow, dict[str, Any], str]:
    """Trace all functions of the program. Returns the recorded calls, and the report as JSON and as text."""
    file = where / "trace.parquet"
    told = run_gilk("trace", "-o", file, "--scope", f"{program.name}:", *words, "--", program)
    done = run_gilk("trace", "--json", "-o", file, "--scope", f"{program.name}:", *words, "--", program)
    assert (told.returncode, done.returncode) == (0, 0), told.stderr + done.stderr
    assert told.stdout.encode() == plain([program]).stdout
    flow = read(file).flow
    return flow, json.loads(done.stdout.splitlines()[-1]), told.stderr


def edges(flow: Flow) -> Counter[tuple[str, str]]:
    """The number of calls, by caller and function; the caller is "" at the top."""
    rows = flow.table.select(["function", "parent"]).to_pylist()
    return Counter((rows[r["parent"]]["function"] if r["parent"] >= 0 else "", r["function"]) for r in rows)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("program"), "sequences", SOURCE, NO_ROOM, "-O1")


def test_a_function_whose_return_is_refused_is_followed_and_closed_by_its_caller(program: Path, tmp_path: Path) -> None:
    flow, report, text = traced(tmp_path, program)
    assert flow.unended == (Unended("half", "sequences", "rseq"),)
    assert report["trace"]["unended"] == [{"function": "half", "image": "sequences", "reason": "rseq"}]
    assert "1 function followed without all returns, which are closed by what comes later: half of seq" in text
    called = edges(flow)
    assert called["main", "whole"] == called["main", "other"] == called["other", "leaf"] == 5
    assert called["whole", "half"] == called["half", "leaf"] == 10
    assert flow.is_state(CallState.CLOSED).sum() == 10
    assert not flow.is_state(CallState.LEFT).any()
    names = flow.table["function"].to_pylist()
    assert {names[n] for n in flow.is_state(CallState.CLOSED).nonzero()[0]} == {"half"}


def test_a_function_that_is_not_followed_is_named_with_its_callers(program: Path, tmp_path: Path) -> None:
    flow, report, text = traced(tmp_path, program)
    assert flow.unfollowed == (Unfollowed("sealed", "sequences", "rseq", ("whole",)),)
    missing = {"function": "sealed", "image": "sequences", "reason": "rseq", "callers": ["whole"]}
    assert report["trace"]["unfollowed"] == [missing]
    assert report["trace"]["functions_refused"] == 1
    assert "1 function not followed: sealed of sequences (rseq)\n" in text
    called = edges(flow)
    assert called["whole", "leaf"] == 10, "what it calls is called by its caller"
    assert not any("sealed" in pair for pair in called)
    tree = tree_text(flow, TreeLimits()).splitlines()
    assert tree[0] == "not followed, for they cannot be instrumented: sequences:sealed"
    whole = next(n for n, line in enumerate(tree) if line.endswith(" whole"))
    assert tree[whole + 1].strip() == "[not followed: sealed]"
    assert sum("[not followed" in line for line in tree) == 1
    assert '"not_followed": ["sealed"]' in json.dumps(tree_json(flow, TreeLimits()))
    shown = run_gilk("show", tmp_path / "trace.parquet").stdout
    assert "not followed, for they cannot be instrumented: sequences:sealed" in shown
    assert "followed without all their returns: sequences:half" in shown


def test_a_run_names_refused_returns_of_timed_functions(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.parquet"
    done = run_gilk("run", "-o", file, "-i", "sequences:half:entry=time", "-i", "whole:entry=time", "--", program)
    assert "  sequences:half:@1:post: rseq\n" in done.stderr
    assert "10 timed calls are not whole: 9 left by a jump, an exception or a return that was refused" in done.stderr
    flow = read(file).flow
    assert flow.is_state(CallState.CLOSED).sum() == 10
    assert edges(flow)["whole", "half"] == 10


@pytest.mark.parametrize("level", seldom(["-O1", "-O0", "-Os"], 1))
def test_every_function_of_a_program_without_padding_is_in_the_tree(level: str, tmp_path: Path) -> None:
    flags = (level, "-fno-inline", "-fno-builtin", "-fno-ipa-pure-const", "-fno-pie", "-no-pie")
    program = compile_text(tmp_path, "dense", DENSE, NO_ROOM, *flags, "-falign-functions=1")
    flow, _, _ = traced(tmp_path, program)
    assert flow.unfollowed == ()
    called = edges(flow)
    assert called["main", "foo"] == 2
    assert called["foo", "mem_alloc"] == called["foo", "mem_free"] == called["foo", "bar"] == 2
