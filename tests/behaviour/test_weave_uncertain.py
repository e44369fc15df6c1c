# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names that only some alternatives bind: an instance that has such a name compares it, another instance binds it.
Random calls have the same results in a process as in the model."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import gilk
from tests.behaviour.advised import aspects
from tests.behaviour.harness import differences, leftovers, run_gilk
from tests.behaviour.woven_program import commanded

PROGRAM = """
#include <stdio.h>
#define NOINLINE __attribute__((noinline, noclone))
NOINLINE long one(long k) { __asm__ volatile(""); return k; }
NOINLINE long two(long x) { __asm__ volatile(""); return x; }
NOINLINE long three(long k) { __asm__ volatile(""); return k; }
NOINLINE long four(long k) { __asm__ volatile(""); return k; }
NOINLINE long five(long k) { __asm__ volatile(""); return k; }
static long (*const functions[])(long) = {one, two, three, four, five};
int main(void)
{
	long which, k;

	setvbuf(stdout, 0, _IOLBF, 0);
	while (scanf("%ld %ld", &which, &k) == 2) printf("%ld\\n", functions[which](k));
	return 0;
}
"""
NAMES = ("one", "two", "three", "four", "five")
TEXT = """
aspect some: seq((call(long one(long k)) || call(long two(long x))); call(long three(long k)); call(long four(long k)))
    until call(long five(long k));
aspect later: seq(call(long two(long x)); (call(long one(long k)) || call(long three(long y))) ;
    (call(long four(long k)) || call(long two(long z))); call(long five(long k)));
aspect ways: seq(call(long two(long x)); (call(long one(long k)) && if (k == 1) || call(long one(long y)));
    call(long three(long k)); call(long four(long k)));
"""


def test_names_bound_by_some_alternatives_agree_with_the_model(tmp_path: Path) -> None:
    program = tmp_path / "program"
    (tmp_path / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O2", "-o", program, tmp_path / "program.c"], check=True)
    path = aspects(tmp_path, TEXT)
    calls = [(random.Random(n).randrange(5), random.Random(n + 1000).randrange(3)) for n in range(400)]
    with commanded(program) as running:
        pid = running.pid
        with gilk.attach(pid) as target, gilk.weave(path, target) as weaving:
            for which, k in calls:
                assert running.ask(f"{which} {k}") == str(k)
            woven = {one.name: (one.matches, one.begun, one.open, one.ended, one.until) for one in weaving.counts()}
        assert (differences(pid), leftovers(pid)) == ([], [])
    events = "".join(
        json.dumps({"call": NAMES[which], "args": [k]}) + "\n" + json.dumps({"return": NAMES[which], "value": k}) + "\n"
        for which, k in calls
    )
    (tmp_path / "calls.events").write_text(events)
    done = run_gilk("aspect", "explain", path, "--events", tmp_path / "calls.events", "--json")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["counts"]
    model = {
        name: (tuple(one["matches"]), one["begun"], one["open"], one["ended"], one["until"])
        for name, one in (counts.items() if isinstance(counts, dict) else ((each["name"], each) for each in counts))
    }
    assert woven == model
    assert all(each[3] > 3 for each in woven.values())
