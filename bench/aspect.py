# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cost of woven aspects on a call or an access, beside that alone, all in one run: ``python -m bench.aspect``.

Each row is what a round of the calls that it names takes, the least of many bursts. For sequences also how the round
grows with instances that others have open, and what it takes to weave a file.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import gilk
from bench.advice import NOW, compile_to, timed

LIBRARY = """
long one(long a, long b) { return a + b + 1; }
long two(long a, long b) { return a ^ b; }
long three(long a, long b) { return a - b; }
long outer(long a, long b) { volatile long kept = a; return one(kept, b) + 1; }
long opened(long a, long b) { return a + b; }
"""
MAIN = NOW + """
long one(long a, long b), two(long a, long b), three(long a, long b), outer(long a, long b), opened(long a, long b);
volatile long counter;
static long pool[2][8];
__attribute__((noinline)) char *block(long n) { return (char *)pool[n]; }
__attribute__((noinline)) void drop(char *b) { __asm__ volatile("" : : "r"(b)); }
int main(void)
{
	char line[16];
	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		double least = 1e9;
		long sum = 0, instances = 0;
		if (line[0] == 'o') {
			sscanf(line + 1, "%ld", &instances);
			for (long n = 0; n < instances; n++) sum += opened(1000000 + n, 0);
			printf("0 %ld\\n", sum);
			continue;
		}
		if (line[0] == 'k') {
			printf("0 %d\\n", block(0) != 0);
			continue;
		}
		volatile long *stored = pool[line[0] != 'b'];
		__asm__ volatile("" : "+r"(stored));
		for (int burst = 0; burst < 200; burst++) {
			double began = now();
			for (long n = 0; n < 2000; n++) {
				if (line[0] == '3') { sum += one(7, n); sum += two(7, n); sum += three(7, n); }
				else if (line[0] == 'f') sum += outer(sum, n);
				else if (line[0] == 'g') sum += counter;
				else if (line[0] == 'w') counter = n;
				else if (line[0] == 'b' || line[0] == 'e') *stored = n;
				else sum += one(sum, n);
			}
			double took = (now() - began) / 2000;
			if (took < least) least = took;
		}
		printf("%.3f %d\\n", least, (int)(sum & 1));
	}
	return 0;
}
"""
_ONE = "call(long one(long a, long b))"
_WRITE = ("seq(call(char *block(long n)) && return(b); write(b, 64) && in(a.out:main) then { } *; "
          "call(void drop(char *b)));")  # fmt: skip
_THREE = "call(long one(long k, long b)); call(long two(long k, long b)); call(long three(long k, long b))"
#: By name of a row: the calls of a round, the aspect, and how many instances others have open.
ROWS = {
    "before, a condition that is false": ("1", f"{_ONE} && if (b < 0) then {{ report(\"%ld\", b); }};", 0),
    "before, empty advice": ("1", f"{_ONE} then {{ }};", 0),
    "in place, without the call": ("1", f"{_ONE} then inplace {{ return 0; }};", 0),
    "in place, a condition that is false": ("1", f"{_ONE} && if (b < 0) then inplace {{ return 0; }};", 0),
    "in place, one proceed()": ("1", f"{_ONE} then inplace {{ return proceed(); }};", 0),
    "after, an argument kept": ("1", f"{_ONE} && return(r) && if (r == a) then after {{ report(\"%ld\", r); }};", 0),
    "sequence of three, perthread": ("3", f"perthread seq({_THREE.replace('long k', 'long a')});", 0),
    "sequence of three, keyed": ("3", f"unique(k) seq({_THREE});", 0),
    **{
        f"the same, {n} others open{more}": ("3", f"instances {n + 9} seq((call(long one(long k, long {one})) || "
            f"call(long opened(long k, long {one}))); call(long two(long k, long {two})); call(long three(long k, long "
            f"{three})));", n)
        for n, more, one, two, three in (
            (100, "", "b", "c", "d"), (4000, "", "b", "c", "d"), (4000, ", one key the same", "b", "b", "b")
        )
    },
    "control flow of two, inside": ("f", f"controlflow(call(long outer(long c, long d)), {_ONE}) then {{ }};", 0),
    "control flow of two, not inside": ("1", f"controlflow(call(long outer(long c, long d)), {_ONE}) then {{ }};", 0),
    "global read, a condition that is false": ("g", "readGlobal(long counter) && value(v) && if (v < 0) then { };", 0),
    "global read, in place": ("g", "readGlobal(long counter) then inplace { return 1; };", 0),
    "global read, in place, proceed()": ("g", "readGlobal(long counter) then inplace { return proceed(); };", 0),
    "global write, old and value, before": ("w", "writeGlobal(long counter) && old(o) && value(v) then { };", 0),
    "global write, in place": ("w", "writeGlobal(long counter) && value(v) then inplace { proceed(v); };", 0),
    "write by address, of other memory": ("e", _WRITE, 0),
    "write by address, of a watched block": ("b", _WRITE, 0),
}  # fmt: skip


def measured(place: Path) -> Iterator[tuple[str, float, float]]:
    """A row's name, and the ns of a round with and without the aspect."""
    work = compile_to(place, "libwork.so", LIBRARY, "-shared", "-fPIC", "-fno-optimize-sibling-calls")
    main = compile_to(place, "main", MAIN, f"-Wl,-rpath,{place}", str(work))
    for name, (what, text, instances) in ROWS.items():
        path = place / "woven.aspect"
        path.write_text(text)
        with timed(main) as program:
            alone = ask(program.process, what)
            with gilk.attach(program.process.pid) as target, gilk.weave(path, target):
                ask(program.process, f"o{instances}")
                ask(program.process, "k")
                yield name, ask(program.process, what), alone


def ask(program: subprocess.Popen[str], line: str) -> float:
    assert program.stdin and program.stdout
    program.stdin.write(f"{line}\n")
    program.stdin.flush()
    return float(program.stdout.readline().split()[0])


def woven_in(place: Path) -> tuple[float, float]:
    """Seconds to weave a file of one pointcut the first time and again; the C is compiled each time."""
    path = place / "woven.aspect"
    path.write_text(f"{_ONE} then {{ }};")
    found = []
    with timed(place / "main") as program:
        for _ in range(2):
            began = time.perf_counter()
            with gilk.attach(program.process.pid) as target, gilk.weave(path, target):
                found.append(time.perf_counter() - began)
    return found[0], found[1]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for row, nanoseconds, alone in measured(Path(name)):
            print(f"{row:38} {nanoseconds:9.2f} ns {nanoseconds - alone:+9.2f} ns {nanoseconds / alone:7.1f}x")
        first, again = woven_in(Path(name))
        print(f"to weave one pointcut: {first:.2f} s, again {again:.2f} s")


if __name__ == "__main__":
    main()
