# SPDX-License-Identifier: LGPL-2.1-or-later
"""Control flows that are looked for on the stack (`walk`), and calls that are compared with it (`verify`)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import gilk
from tests.behaviour.advised import aspects, build, rounds
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.test_weave_flow import FLOW

WALKED = """
aspect star: walk controlflowstar(call(long first(long)), call(long second(..)), call(long last(long c)));
aspect strict: walk controlflow(call(long second(long)), call(long last(long c)));
aspect three: walk controlflow(call(long first(long)), call(long second(long)), call(long last(long c)));
aspect called: call(long last(long c)) && from(between, program:first);
aspect entered: call(long last(long c));
"""
HOOKED = ("-finstrument-functions", "-fno-optimize-sibling-calls", "-fno-inline", "-fno-ipa-cp")
WAYS = ["-O0", "-O2 -fomit-frame-pointer -fno-pie -no-pie"]


@pytest.mark.parametrize("optimised", WAYS)
def test_what_matches_is_what_the_compilers_hooks_see(tmp_path: Path, optimised: str) -> None:
    path = aspects(tmp_path, WALKED)
    seen = [0] * 5
    with rounds(build(tmp_path, FLOW, *optimised.split(), *HOOKED)) as program:
        program.ask()
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert [one.function for one in weaving.shadows] == ["last"], "there is nothing at the functions around"
            for _ in range(3):
                seen = [a + int(b) for a, b in zip(seen, program.ask().split(), strict=True)]
            counts = weaving.counts()
        assert [one.matches[0] for one in counts] == seen
        assert min(seen) > 10, "all of them happen"
        assert [one.unwalked for one in counts] == [0] * 5
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])


@pytest.mark.parametrize("optimised", WAYS)
def test_calls_that_return_agree_with_the_stack(tmp_path: Path, optimised: str) -> None:
    """The same program, which leaves no function by a jump here."""
    verified = """
        aspect star: verify controlflowstar(call(long first(long)), call(long second(..)), call(long last(long c)));
        aspect after: verify call(long second(long c)) && return(r) then after { };
        """
    source = FLOW.replace("longjmp(back, 1)", "return 1")
    with rounds(build(tmp_path, source, *optimised.split(), *HOOKED)) as program:
        program.ask()
        path = aspects(tmp_path, verified)
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            star = int(program.ask().split()[0])
            counts = weaving.counts()
        assert counts[0].matches[0] == star > 10
        assert counts[1].matches[0] > 10
        assert [(one.unwalked, one.disagreed) for one in counts] == [(0, 0)] * 2


LEFT = """
#include <alloca.h>
#include <setjmp.h>
#include <stdlib.h>
static jmp_buf back;
static volatile int n, times, jumps;
NOINLINE long last(long c) { __asm__ volatile(""); return c + 1; }
NOINLINE long first(long a) { if (jumps) longjmp(back, 1); long r = last(a); __asm__ volatile(""); return r; }
NOINLINE long deep(long a) { volatile char *room = alloca(4096); room[0] = 1; long r = last(a); __asm__ volatile(""); return r + room[0]; }
static void one_round(void)
{
	long sum = 0;

	for (n = 0; n < 7; n++) {
		jumps = n %% 2;
		if (!setjmp(back)) sum += first(n);
		sum += deep(n);
	}
	printf("%ld\\n", sum);
}
""".replace("%%", "%")
#: `last` is called seven times below `deep`, three of them after `first` was left, and four times by `first`.
DEEP, BY_FIRST, LEAVES = 7, 4, 3


def test_a_call_that_was_left_is_on_record_and_not_on_the_stack(tmp_path: Path) -> None:
    """gdb counts the calls of `last` that have `first` around them."""
    path = aspects(tmp_path, """
        aspect recorded: verify controlflowstar(call(long first(long a)), call(long last(long c)));
        aspect walked: walk controlflowstar(call(long first(long)), call(long last(long c)));
        """)
    binary = build(tmp_path, LEFT)
    around = gdb_stacks(binary, "last")
    assert [sum("first" in one for one in around), len(around)] == [BY_FIRST, BY_FIRST + DEEP]
    with rounds(binary) as program:
        said = program.ask()
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert program.ask() == said
            recorded, walked = weaving.counts()
            texts = {one.text for one in weaving.reports()}
        assert walked.matches[0] == BY_FIRST
        assert recorded.matches[0] == BY_FIRST + LEAVES
        assert (recorded.disagreed, walked.disagreed, recorded.unwalked) == (LEAVES, 0, 0)
        assert texts == {"verify: a call of first is recorded as under way, but is not on the stack"}


def gdb_stacks(binary: Path, function: str, *arguments: str, rounds: int = 1) -> list[list[str]]:
    """The names of the functions around each call of ``function``, innermost first, as gdb has them."""
    script = f"""
set pagination off
set confirm off
break *{function}
commands
silent
printf "STOP\\n"
backtrace
continue
end
run
"""
    commands = binary.with_name("stacks.gdb")
    commands.write_text(script)
    given = ["gdb", "-nx", "-batch", "-x", str(commands), "--args", str(binary), *arguments]
    done = subprocess.run(given, input="\n" * rounds, capture_output=True, text=True, timeout=300, check=True)
    stops = done.stdout.split("STOP\n")[1:]
    return [re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([\w.]+)", one, re.MULTILINE) for one in stops]
