# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure the cost of woven aspects on a call or an access, beside the call or access alone and the figures of
Arachne's paper, in one run.

Each row is a round of the calls or accesses that it names: the least time of many bursts, and the number of
instructions of one round. The program counts the instructions itself, by single steps of the processor. `python -m
bench --only aspect` prints the rows as a table, with the time to weave a file.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import gilk
from bench import aspect_peers
from bench.advice import NOW, compile_to, timed
from bench.measure import Programs, Row

LIBRARY = """
long one(long a, long b) { return a + b + 1; }
long two(long a, long b) { return a ^ b; }
long three(long a, long b) { return a - b; }
long four(long a, long b) { return a | b; }
long five(long a, long b) { return a & b; }
long six(long a, long b) { return b - a; }
long outer(long a, long b) { volatile long kept = a; return one(kept, b) + 1; }
long opened(long a, long b) { return a + b; }
"""
#: The program's commands: `oN` and `sN` open N instances, `oN` with N keys and `sN` with one; `k` has a block watched;
#: `#R` counts the instructions of a round R, `R` times it, and `~R` times 50 rounds that take long. The functions are
#: called through the PLT.
MAIN = (
    NOW
    + """
#include <signal.h>
long one(long a, long b), two(long a, long b), three(long a, long b), outer(long a, long b), opened(long a, long b);
long four(long a, long b), five(long a, long b), six(long a, long b);
volatile long counter;
static volatile long *stored, steps;
static long pool[192][8]; /* the block in the middle is watched, far from all else */
__attribute__((noinline)) char *block(long n) { return (char *)pool[96 + n]; }
__attribute__((noinline)) void drop(char *b) { __asm__ volatile("nop;nop;nop;nop" : : "r"(b)); } /* room for a jump */
static void stepped(int number) { (void)number; steps++; }
static inline __attribute__((always_inline)) long round_of(char what, long sum, long n)
{
	switch (what) {
	case '0': return sum;
	case 'n': __asm__ volatile(".rept 100\\n\\tnop\\n\\t.endr"); return sum;
	case 'N': __asm__ volatile(".rept 200\\n\\tnop\\n\\t.endr"); return sum;
	case '6': sum += four(7, n); sum += five(7, n); sum += six(7, n); /* and the others */
	case '3': sum += one(7, n); sum += two(7, n); return sum + three(7, n);
	case '2': sum += one(7, n); return sum + two(7, n);
	case 'm': return sum + two(1000000, n);
	case 'f': return sum + outer(sum, n);
	case 'g': return sum + counter;
	case 'w': counter = n; return sum;
	case 'b': case 'e': *stored = n; return sum;
	case 'B': case 'E': return sum + *stored;
	}
	return sum + one(sum, n);
}
static long counted(char what)
{
	long sum = 0;
	for (long n = 0; n < 8; n++) sum = round_of(what, sum, n); /* the first have buffers to get */
	steps = 0;
	signal(SIGTRAP, stepped); /* only here: whoever uses debug registers needs the signal */
	__asm__ volatile("pushfq\\n\\torq $0x100, (%%rsp)\\n\\tpopfq" : : : "memory", "cc");
	sum = round_of(what, sum, 8);
	__asm__ volatile("pushfq\\n\\tandq $~0x100, (%%rsp)\\n\\tpopfq" : "+r"(sum) : : "memory", "cc");
	return steps;
}
int main(void)
{
	char line[16];
	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		char what = line[0];
		double least = 1e9;
		long sum = 0, instances = 0;
		if (what == 'o' || what == 's') {
			sscanf(line + 1, "%ld", &instances);
			for (long n = 0; n < instances; n++) sum += opened(1000000 + (what == 'o' ? n : 0), n);
			printf("0 %ld\\n", sum);
			continue;
		}
		if (what == 'k') {
			printf("0 %d\\n", block(0) != 0);
			continue;
		}
		if (what == '#')
			what = line[1];
		stored = pool[what == 'b' || what == 'B' ? 96 : 128];
		if (line[0] == '#') {
			printf("%ld %d\\n", counted(what), 0);
			continue;
		}
		if (line[0] == '~') {
			double began = now();
			for (long n = 1; n <= 50; n++) sum = round_of(line[1], sum, n);
			printf("%.3f %d\\n", (now() - began) / 50, (int)(sum & 1));
			continue;
		}
		for (int burst = 0; burst < 200; burst++) {
			double began = now();
			for (long n = 0; n < 2000; n++) sum = round_of(what, sum, n);
			double took = (now() - began) / 2000;
			if (took < least) least = took;
		}
		printf("%.3f %d\\n", least, (int)(sum & 1));
	}
	return 0;
}
"""
)


@dataclass(frozen=True)
class Construct:
    """An aspect to measure. ``what`` is the command of its round, ``instances`` the command that opens other
    instances first. ``paper`` is the paper's ratio to the plain operation, in cycles; None if the paper has no such
    row."""

    what: str
    text: str
    instances: str = "o0"
    paper: float | None = None


@dataclass(frozen=True)
class Cost:
    """The cost of a round with the aspect, and of the round ``alone``: time in ns, and the number of instructions."""

    name: str
    took: float
    alone: float
    steps: int
    steps_alone: int

    @property
    def ratio(self) -> float:
        return self.took / self.alone


_ONE = "call(long one(long a, long b))"
_THREE = "call(long one(long k, long b)); call(long two(long k, long c)); call(long three(long k, long d))"
_SIX = "call(long four(long k, long e)); call(long five(long k, long f)); call(long six(long k, long g)); " + _THREE
# The second arguments have different names, or they would be keys.
_OTHERS = """instances 4200 seq((call(long one(long k, long b)) || call(long opened(long k, long b)));
    call(long two(long k, long {})); call(long three(long k, long {})));"""
_MOVED = """instances 200 seq(call(long opened(long k, long b));
    call(long two(long k, long c)) *; call(long three(long k, long d)));"""
_ON_STACK = "(call(long outer(long, long)), call(long one(long a, long b))) then { };"
_FLOW = "(call(long outer(long c, long d)), call(long one(long a, long b))) then { };"


def _alias(access: str) -> str:
    """The text of an aspect about accesses to a block that the program has asked for."""
    watched = f"{access}(b, 64) && in(main:main, main:counted) then {{ }} *"
    return f"seq(call(char *block(long n)) && return(b); {watched}; call(void drop(char *b)));"


_TWO = _THREE.rpartition(";")[0]
_PER_THREAD = "perthread seq({});"
_READ, _WRITE = "readGlobal(long counter)", "writeGlobal(long counter)"
_FALSE = "if (b < 0)"
CONSTRUCTS = {
    "call before, a condition that is false": Construct("1", f'{_ONE} && {_FALSE} then {{ report("%ld", b); }};'),
    "call before": Construct("1", f"{_ONE} then {{ }};"),
    "call in place, without the call": Construct("1", f"{_ONE} then inplace {{ return 0; }};", paper=28 / 21),
    "call in place, a condition that is false": Construct("1", f"{_ONE} && {_FALSE} then inplace {{ return 0; }};"),
    "call in place, one proceed()": Construct("1", f"{_ONE} then inplace {{ return proceed(); }};"),
    "call after, an argument kept": Construct(
        "1", f'{_ONE} && return(r) && if (r == a) then after {{ report("%ld", r); }};'
    ),
    "sequence of two, perthread": Construct("2", _PER_THREAD.format(_TWO)),
    "sequence of three, perthread": Construct("3", _PER_THREAD.format(_THREE), paper=201 / 63),
    "sequence of six, perthread": Construct("6", _PER_THREAD.format(_SIX)),
    "sequence of three, keyed": Construct("3", f"unique(k) seq({_THREE});", paper=201 / 63),
    "the same, 100 others open": Construct("3", _OTHERS.format("c", "d"), "o100"),
    "the same, 4000 others open": Construct("3", _OTHERS.format("c", "d"), "o4000"),
    "the same, 4000 others open, one key the same": Construct("3", _OTHERS.format("b", "b"), "o4000"),
    "a call that moves one instance": Construct("m", _MOVED, "s1"),
    "a call that moves 10 instances": Construct("m", _MOVED, "s10"),
    "a call that moves 100 instances": Construct("m", _MOVED, "s100"),
    "control flow of two, inside": Construct("f", f"controlflow{_FLOW}", paper=228 / 42),
    "control flow of two, not inside": Construct("1", f"controlflow{_FLOW}"),
    "control flow of two, not strict, inside": Construct("f", f"controlflowstar{_FLOW}", paper=228 / 42),
    "control flow of two, on the stack": Construct("f", f"walk controlflow{_ON_STACK}", paper=228 / 42),
    "control flow of two, not on the stack": Construct("1", f"walk controlflow{_ON_STACK}"),
    "call before, verified": Construct("1", f"verify {_ONE} then {{ }};"),
    "global read, a condition that is false": Construct("g", f"{_READ} && value(v) && if (v < 0) then {{ }};"),
    "global read, in place": Construct("g", f"{_READ} then inplace {{ return 1; }};", paper=2762),
    "global read, in place, proceed()": Construct("g", f"{_READ} then inplace {{ return proceed(); }};", paper=2762),
    "global write, old and value, before": Construct("w", f"{_WRITE} && old(o) && value(v) then {{ }};"),
    "global write, in place": Construct("w", f"{_WRITE} && value(v) then inplace {{ proceed(v); }};"),
    "read by address, of other memory": Construct("E", _alias("read")),
    "read by address, of a watched block": Construct("B", _alias("read"), paper=9729),
    "write by address, of other memory": Construct("e", _alias("write")),
    "write by address, of a watched block": Construct("b", _alias("write")),
}


class Rounds:
    """The measured program, built at ``place``."""

    def __init__(self, place: Path) -> None:
        self._place = place
        library = compile_to(place, "libwork.so", LIBRARY, "-shared", "-fPIC", "-fno-optimize-sibling-calls")
        self.main = compile_to(place, "main", MAIN, "-mno-red-zone", "-w", f"-Wl,-rpath,{place}", str(library))

    @contextmanager
    def woven(self, name: str) -> Iterator[tuple[subprocess.Popen[str], int, float]]:
        """Run the program with one of CONSTRUCTS woven in. Yields the process, and the instructions and ns of a
        round before weaving."""
        one = CONSTRUCTS[name]
        path = self._place / "woven.aspect"
        path.write_text(one.text)
        with timed(self.main) as program:
            steps, alone = self.steps(program.process, one.what), ask(program.process, one.what)
            with gilk.attach(program.process.pid) as target, gilk.weave(path, target):
                ask(program.process, one.instances)
                ask(program.process, "k")
                yield program.process, steps, alone

    @staticmethod
    def steps(process: subprocess.Popen[str], what: str) -> int:
        """The instructions of a round, without those that surround it."""
        ask(process, "#0")  # binds the functions that the program calls
        return int(ask(process, f"#{what}") - ask(process, "#0"))

    def cost(self, name: str) -> Cost:
        what = CONSTRUCTS[name].what
        with self.woven(name) as (process, steps_alone, alone):
            steps = self.steps(process, what)
            return Cost(name, ask(process, what), alone, steps, steps_alone)

    def more(self, name: str) -> int:
        """The number of instructions that the aspect adds to a round. It does not depend on the machine's speed."""
        with self.woven(name) as (process, steps_alone, _):
            return self.steps(process, CONSTRUCTS[name].what) - steps_alone

    def nops(self) -> int:
        """The number of instructions counted for 100 nops, which checks the counting."""
        with timed(self.main) as program:
            return self.steps(program.process, "N") - self.steps(program.process, "n")

    def weaving(self) -> tuple[float, float]:
        """The seconds to weave a file of one pointcut, the first time and again; its C is compiled each time."""
        path = self._place / "woven.aspect"
        path.write_text(f"{_ONE} then {{ }};")
        found = []
        with timed(self.main) as program:
            for _ in range(2):
                began = time.perf_counter()
                with gilk.attach(program.process.pid) as target, gilk.weave(path, target):
                    found.append(time.perf_counter() - began)
        return found[0], found[1]


def ask(program: subprocess.Popen[str], line: str) -> float:
    assert program.stdin and program.stdout
    program.stdin.write(f"{line}\n")
    program.stdin.flush()
    return float(program.stdout.readline().split()[0])


def rows(programs: Programs, counts: tuple[int, ...]) -> Iterator[Row]:
    """Every figure. The programs of other sides are not needed."""
    with tempfile.TemporaryDirectory() as name:
        rounds = Rounds(Path(name))
        yield Row("aspect: 100 nops", "instructions", rounds.nops(), "")
        for construct in CONSTRUCTS:
            yield from _told(rounds.cost(construct))
        yield from aspect_peers.rows(Path(name), rounds.main, LIBRARY, ask)
        for when, seconds in zip(("", " again"), rounds.weaving(), strict=True):
            yield Row(f"aspect: to weave one pointcut{when}", "gilk", 1000 * seconds, "ms")


def _told(cost: Cost) -> Iterator[Row]:
    what, paper = f"aspect: {cost.name}", CONSTRUCTS[cost.name].paper
    yield Row(what, "gilk", cost.took)
    yield Row(what, "instructions", cost.steps, "")
    yield Row(what, "instructions alone", cost.steps_alone, "")
    yield Row(what, "times plain", cost.ratio, "x")
    if paper is not None:
        yield Row(what, "times plain, Arachne", paper, "x")
