# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure the cost of advice on a call, beside the call alone and LD_PRELOAD, all in one run: ``python -m
bench.advice``.

The call is to a library's function that adds two numbers. Each figure is the least of many bursts.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gilk
from gilk import AdvisedSession, advice

SIGNATURE = "long work(long a, long b)"
LIBRARY = "long work(long a, long b) { return a + b + 1; }"
#: `now` returns the time in nanoseconds.
NOW = """
#include <stdio.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
"""
MAIN = (
    NOW
    + """
long work(long a, long b);
int main(void)
{
	char line[8];
	setvbuf(stdout, 0, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		double least = 1e9;
		long sum = 0;
		for (int burst = 0; burst < 400; burst++) {
			double began = now();
			for (long n = 0; n < 20000; n++) sum = work(sum, n);
			double took = (now() - began) / 20000;
			if (took < least) least = took;
		}
		printf("%.3f %d\\n", least, (int)(sum & 1));
	}
	return 0;
}
"""
)
REPLACED = "long work(long a, long b) { return 0; }"
WRAPPED = """
#define _GNU_SOURCE
#include <dlfcn.h>
long work(long a, long b)
{
	static long (*next)(long, long);
	if (!next) next = (long (*)(long, long))dlsym(RTLD_NEXT, "work");
	return next(a, b);
}
"""
ADVISED = {
    "before": ("void f(long a, long b) { }", "before"),
    "in place, without the call": ("long f(long a, long b) { return 0; }", "inplace"),
    "in place, pass()": ("long f(long a, long b) { if (b >= 0) pass(); return 0; }", "inplace"),
    "in place, one proceed()": ("long f(long a, long b) { return proceed(); }", "inplace"),
    "in place, one proceed(b, a)": ("long f(long a, long b) { return proceed(b, a); }", "inplace"),
    "after, an argument kept": ("long f(long r, long a, long b) { return r ^ a; }", "after"),
}


def compile_to(place: Path, name: str, source: str, *options: str) -> Path:
    path = place / f"{name}.c"
    path.write_text(source)
    output = place / name
    subprocess.run(["gcc", "-O2", "-o", output, path, *options], check=True)
    return output


class Timed:
    """The running program, which answers each line of input with the ns that a call takes."""

    def __init__(self, path: Path, preload: Path | None = None) -> None:
        environment = {**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})}
        self.process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self) -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[0])


@contextlib.contextmanager
def timed(path: Path, preload: Path | None = None) -> Iterator[Timed]:
    program = Timed(path, preload)
    with program.process:
        yield program
        assert program.process.stdin
        program.process.stdin.close()


def measured(place: Path) -> Iterator[tuple[str, float]]:
    """Pairs of what was called, and how, and the ns that a call took."""
    work = compile_to(place, "libwork.so", LIBRARY, "-shared", "-fPIC")
    main = compile_to(place, "main", MAIN, f"-Wl,-rpath,{place}", str(work))
    with timed(main) as program:
        yield "the call alone", program.ask()
    for name, source in (("LD_PRELOAD, without the call", REPLACED), ("LD_PRELOAD, with the call", WRAPPED)):
        library = compile_to(place, f"{name.split(',')[1].strip().replace(' ', '-')}.so", source, "-shared", "-fPIC")
        with timed(main, library) as program:
            yield name, program.ask()
    for name, (text, when) in ADVISED.items():
        with timed(main) as program, gilk.attach(program.process.pid) as target, target.advising(threads=16) as session:
            put_in(session, text, when)
            yield f"advice {name}", program.ask()


def put_in(session: AdvisedSession, text: str, when: str) -> None:
    session.advise("libwork.so:work:entry", advice(text, "f", SIGNATURE, when))


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        rows = list(measured(Path(place)))
    alone = rows[0][1]
    for name, nanoseconds in rows:
        print(f"{name:36} {nanoseconds:8.2f} ns {nanoseconds - alone:+8.2f} ns {nanoseconds / alone:6.1f}x")


if __name__ == "__main__":
    main()
