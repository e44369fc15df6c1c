# SPDX-License-Identifier: LGPL-2.1-or-later
"""Control flows that are looked for on the stack (`walk`), and calls that are compared with it (`verify`)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gilk
from tests.behaviour.advised import aspects, build, rounds
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.test_weave_flow import FLOW
from tests.seldom import seldom

WALKED = """
aspect star: walk controlflowstar(call(long first(long)), call(long second(..)), call(long last(long c)));
aspect strict: walk controlflow(call(long second(long)), call(long last(long c)));
aspect three: walk controlflow(call(long first(long)), call(long second(long)), call(long last(long c)));
aspect called: call(long last(long c)) && from(between, program:first);
aspect entered: call(long last(long c));
aspect several: call(long last(long c)) && from(program:b*, program:f*, program:s*);
"""
HOOKED = ("-finstrument-functions", "-fno-optimize-sibling-calls", "-fno-inline", "-fno-ipa-cp")
WAYS = ["-O0", "-O2 -fomit-frame-pointer -fno-pie -no-pie"]


@pytest.mark.parametrize("optimised", WAYS)
def test_walked_control_flows_match_as_often_as_the_compilers_hooks_say(tmp_path: Path, optimised: str) -> None:
    path = aspects(tmp_path, WALKED)
    seen = [0] * 5
    with rounds(build(tmp_path, FLOW, *optimised.split(), *HOOKED)) as program:
        program.ask()
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert [one.function for one in weaving.shadows] == ["last"], "there is nothing at the functions around"
            for _ in range(3):
                seen = [a + int(b) for a, b in zip(seen, program.ask().split(), strict=True)]
            counts = weaving.counts()
        by_second = seen[1]
        assert [one.matches[0] for one in counts] == [*seen, by_second + seen[3]]
        assert min(seen) > 10, "all of them happen"
        assert [one.unwalked for one in counts] == [0] * 6
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
#include <stdlib.h>
static void *back[5];
static volatile int n, times, jumps;
NOINLINE long last(long c) { __asm__ volatile(""); return c + 1; }
NOINLINE void leave(void) { __builtin_longjmp(back, 1); }
NOINLINE long first(long a) { if (jumps) leave(); long r = last(a); __asm__ volatile(""); return r; }
NOINLINE long deep(long a) { volatile char *room = alloca(4096); room[0] = 1; long r = last(a); __asm__ volatile(""); return r + room[0]; }
static void one_round(void)
{
	long sum = 0;

	for (n = 0; n < 7; n++) {
		jumps = n %% 2;
		if (!__builtin_setjmp(back)) sum += first(n);
		sum += deep(n);
	}
	printf("%ld\\n", sum);
}
""".replace("%%", "%")
#: `last` is called seven times below `deep`, three of them after `first` was left, and four times by `first`.
DEEP, BY_FIRST, LEAVES = 7, 4, 3


def test_a_call_that_was_left_is_on_record_and_not_on_the_stack(tmp_path: Path) -> None:
    """The compiler's own jump, which calls no function. gdb counts the calls of `last` within `first`."""
    path = aspects(
        tmp_path,
        """
        aspect recorded: verify controlflowstar(call(long first(long a)), call(long last(long c)));
        aspect walked: walk controlflowstar(call(long first(long)), call(long last(long c)));
        """,
    )
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


ACCESSES = """
static volatile int counter; static volatile long sum;
NOINLINE void direct(int n) { counter = n; __asm__ volatile(""); }
NOINLINE void between(int n) { direct(n); counter += n; __asm__ volatile(""); }
__attribute__((force_align_arg_pointer)) NOINLINE void outer(int n) { volatile char room[64] __attribute__((aligned(64)));
	room[0] = (char)n; between(n); counter = counter + room[0]; direct(n); __asm__ volatile(""); }
NOINLINE void other(int n) { direct(n); between(n); __asm__ volatile(""); }
static void one_round(void)
{
	for (int n = 1; n < 6; n++) { outer(n); other(n); }
	printf("%d %ld\\n", counter, sum);
}
"""
WRITES = """
aspect strict: walk verify controlflow(call(void outer(int)), writeGlobal(int counter)) && value(v) then after { };
aspect two: walk verify controlflow(call(void outer(int)), call(void direct(int)), writeGlobal(int counter));
aspect star: walk verify controlflowstar(call(void outer(int)), writeGlobal(int counter));
aspect all: verify writeGlobal(int counter);
aspect calls: verify call(void outer(int n)) then inplace { proceed(n); };
"""
#: Of each of five rounds: the writes in `outer` itself, in its call of `direct`, below it, and all.
WRITTEN = [5 * 1, 5 * 1, 5 * 4, 5 * 7]


@pytest.mark.parametrize("optimised", seldom(["-O2 -fomit-frame-pointer", "-O0", "-O1 -fno-omit-frame-pointer"], 1))
def test_accesses_are_found_within_calls(tmp_path: Path, optimised: str) -> None:
    path = aspects(tmp_path, WRITES)
    binary = build(tmp_path, ACCESSES, *optimised.split(), "-g", "-fno-optimize-sibling-calls")
    with rounds(binary) as program:
        said = program.ask()
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert program.ask() == said
            counts = weaving.counts()
        assert [one.matches[0] for one in counts] == [*WRITTEN, 5]
        assert [(one.unwalked, one.disagreed) for one in counts] == [(0, 0)] * 5
        assert program.ask() == said


SIGNALLED = """
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
static volatile long ticks;
NOINLINE long last(long c) { ticks += c; __asm__ volatile(""); return c; }
static void handler(int s) { last(s > 0); }
NOINLINE void sends(int s) { raise(s); __asm__ volatile(""); }
NOINLINE void outer(int s) { sends(s); last(1); __asm__ volatile(""); }
NOINLINE void other(int s) { sends(s); last(1); __asm__ volatile(""); }
static void *thread(void *unused)
{
	stack_t stack = {malloc(1 << 16), 0, 1 << 16};

	sigaltstack(&stack, 0);
	for (int n = 0; n < 10; n++) { outer(SIGUSR1); other(SIGUSR1); outer(SIGUSR2); other(SIGUSR2); }
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, 0);
	free(stack.ss_sp);
	return unused;
}
static void one_round(void)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	pthread_t threads[3];

	sigaction(SIGUSR1, &action, 0);
	action.sa_flags = 0;
	sigaction(SIGUSR2, &action, 0);
	for (int n = 0; n < 3; n++) pthread_create(threads + n, 0, thread, 0);
	for (int n = 0; n < 3; n++) pthread_join(threads[n], 0);
	puts("done");
}
"""


def test_calls_of_signal_handlers_are_within_the_interrupted_functions(tmp_path: Path) -> None:
    """On the thread's own stack, and on an alternate one. gdb shows that the frames are there."""
    path = aspects(
        tmp_path,
        """
        aspect star: walk verify controlflowstar(call(void outer(int)), call(long last(long c)));
        aspect strict: walk verify controlflow(call(void outer(int)), call(long last(long c)));
        aspect sends: verify call(void sends(int s)) then inplace { proceed(); };
        """,
    )
    binary = build(tmp_path, SIGNALLED)
    around = gdb_stacks(binary, "last")
    assert [len(around), sum("outer" in one for one in around)] == [240, 120]
    assert sum("handler" in one and "outer" in one for one in around) == 60
    with rounds(binary) as program:
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert program.ask() == "done"
            counts = weaving.counts()
        assert [one.matches[0] for one in counts] == [120, 60, 120]
        assert [(one.unwalked, one.disagreed) for one in counts] == [(0, 0)] * 3


OPENED = """
#include <dlfcn.h>
#include <stdlib.h>
long last(long c) { __asm__ volatile(""); return c + 1; }
NOINLINE long outer(long (*through)(long (*)(long), long), long n) { long r = through(last, n); __asm__ volatile(""); return r; }
static long (*through)(long (*)(long), long);
static void one_round(void)
{
	if (!through) { through = dlsym(dlopen(getenv("OPENED"), RTLD_NOW), "through"); puts("opened"); return; }
	printf("%ld\\n", outer(through, 7));
}
"""
THROUGH = 'long through(long (*f)(long), long n) { char room[300]; __asm__ volatile("" : : "r"(room) : "memory"); return f(n) + 1; }\n'


def test_the_stack_is_walked_through_a_library_that_is_opened_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, library = tmp_path / "through.c", tmp_path / "libthrough.so"
    source.write_text(THROUGH)
    hidden = ("-O2", "-fomit-frame-pointer", "-shared", "-fPIC")
    subprocess.run(["gcc", *hidden, "-o", library, source], check=True)
    monkeypatch.setenv("OPENED", str(library))
    path = aspects(tmp_path, "aspect star: walk controlflowstar(call(long outer(..)), call(long last(long c)));")
    with rounds(build(tmp_path, OPENED)) as program:
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert program.ask() == "opened"
            assert program.ask() == "9"
            before = weaving.counts()[0]
            assert (before.matches[0], before.unwalked) == (0, 1), "the first walk meets it, and says so"
            list(weaving.reports())
            assert program.ask() == "9"
            after = weaving.counts()[0]
            assert (after.matches[0], after.unwalked) == (1, 1)


TAILS = """
NOINLINE long last(long c) { __asm__ volatile(""); return c + 1; }
NOINLINE long jumps(long c) { __asm__ volatile(""); return last(c + 1); }
NOINLINE long calls(long c) { long r = last(c); __asm__ volatile(""); return r + jumps(c) ; }
static void one_round(void) { printf("%ld\\n", calls(1)); }
"""


def test_a_function_that_is_gone_from_the_stack_is_refused_by_name(tmp_path: Path) -> None:
    text = "walk {}controlflowstar(call(long jumps(long)), call(long last(long c)));"
    options = ("-O2", "-foptimize-sibling-calls")
    with rounds(build(tmp_path, TAILS, *options)) as program, gilk.attach(program.pid) as target:
        with pytest.raises(gilk.GilkError) as raised:
            gilk.weave(aspects(tmp_path, text.format("")), target)
        assert raised.value.slug == "tail-call"
        assert raised.value.message.endswith("line 1: jumps may end in a jump to last, and is not on the stack then")
        with gilk.weave(aspects(tmp_path, text.format("partial ")), target) as weaving:
            program.ask()
            assert weaving.counts()[0].matches[0] == 0
            assert "jumps may end in a jump to last" in weaving.summaries()[0].notes[0]


FILTERED = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
NOINLINE long last(long c) { __asm__ volatile(""); return c + 1; }
NOINLINE long outer(long c) { long r = last(c * 3); __asm__ volatile(""); return r; }
static void one_round(void)
{
	struct sock_filter pass[] = {{BPF_RET, 0, 0, SECCOMP_RET_ALLOW}};
	struct sock_fprog filter = {1, pass};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	printf("%ld %d\\n", outer(1), prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}
"""


def test_a_process_that_may_be_killed_for_a_copy_of_its_stack_is_refused(tmp_path: Path) -> None:
    text = "{}controlflowstar(call(long outer(long)), call(long last(long c)));"
    with rounds(build(tmp_path, FILTERED)) as program:
        assert program.ask() == "4 0"
        with gilk.attach(program.pid) as target:
            with pytest.raises(gilk.GilkError) as raised:
                gilk.weave(aspects(tmp_path, text.format("walk ")), target)
            assert raised.value.slug == "may-not-look"
            with gilk.weave(aspects(tmp_path, text.format("")), target) as weaving:
                program.ask()
                assert weaving.counts()[0].matches[0] == 1
        assert differences(program.pid) == []


def test_bash_is_within_what_gdb_says(tmp_path: Path) -> None:
    """Commands of a file that bash sources, as gdb's backtraces have them."""
    sourced = tmp_path / "sourced"
    sourced.write_text("f() { true; : a b; }\nf\nfor n in 1 2; do eval 'f; true'; done\n")
    command = f"true; . {sourced}; f; true"
    path = aspects(
        tmp_path,
        """
        aspect all: verify call(int execute_command(..)) && return(r);
        aspect within: walk verify controlflowstar(call(int source_file(..)), call(int execute_command(..)));
        aspect evaluated: walk verify controlflowstar(call(int source_file(..)), call(int evalstring(..)),
            call(int execute_command(..)));
        """,
    )
    script = tmp_path / "bash"
    script.symlink_to("/bin/bash")
    around = gdb_stacks(script, "execute_command", "-c", command)
    expected = [len(around), sum("source_file" in one for one in around)]
    expected.append(sum("evalstring" in one and "source_file" in one[one.index("evalstring") :] for one in around))
    output = tmp_path / "woven.json"
    command_line = ["-m", "gilk", "weave", str(path), "-o", str(output), "-q", "--", "/bin/bash", "-c", command]
    subprocess.run([sys.executable, *command_line], timeout=300, check=True)
    found = json.loads(output.read_text().splitlines()[-1])["aspects"]
    assert [one["matches"][0] for one in found] == expected
    assert min(expected) >= 4
    assert [(one["unwalked"], one["disagreed"]) for one in found] == [(0, 0)] * 3


def gdb_stacks(binary: Path, function: str, *arguments: str, rounds: int = 1) -> list[list[str]]:
    """The names of the functions around each call of ``function``, innermost first, as gdb has them."""
    script = f"""
set pagination off
set confirm off
handle SIGUSR1 SIGUSR2 nostop noprint pass
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
