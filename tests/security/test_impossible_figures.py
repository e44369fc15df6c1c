# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program writes all over gilk's shared memory: gilk believes no figure that is impossible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import run_gilk
from tests.programs.build import compile_text
from tests.seldom import seldom

#: More than there can have been, as the session lasts only seconds.
LARGEST = 10**13

#: Calls `hit`, then writes into the gilk memory that it finds mapped, and ends. It writes ones, random numbers, or ones
#: only in the counters that stand at 4242. It stays on one processor: D counts on each processor for itself.
SOURCE = r"""
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noipa)) void hit(long n) { __asm__ volatile("" : : "r"(n)); }
static uint64_t state = 88172645463325252u;
static uint64_t random_word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}
static void scribble(uint64_t *at, uint64_t *end, int how)
{
	for (; at < end; at++)
		if (how == 'g' ? *at == 4242 : how == 'r' || *at)
			*at = how == 'r' ? random_word() | 1ul << 62 : ~0ul;
}
int main(int argc, char **argv)
{
	char line[512];
	int shared = 0, here = sched_getcpu();
	cpu_set_t only;
	FILE *maps = fopen("/proc/self/maps", "r");
	CPU_ZERO(&only);
	CPU_SET(here, &only);
	if (sched_setaffinity(0, sizeof only, &only))
		return 1;
	for (long n = 0; n < 4242; n++)
		hit(n);
	while (argc > 1 && maps && fgets(line, sizeof line, maps)) {
		unsigned long from, to;
		char rights[8];
		if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && !strcmp(rights, "rw-s") && strstr(line, "memfd:")) {
			unsigned long most = from + (48ul << 20);
			scribble((uint64_t *)from, (uint64_t *)(to < most ? to : most), argv[1][0]);
			shared++;
		}
	}
	printf("%d\n", shared);
	return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("scribbler"), "scribbler", SOURCE, "-O1")


def numbers(value: Any) -> list[int]:
    """All numbers in a piece of JSON."""
    if isinstance(value, dict):
        return [n for each in value.values() for n in numbers(each)]
    if isinstance(value, list):
        return [n for each in value for n in numbers(each)]
    return [value] if isinstance(value, int) else []


def report(program: Path, *words: str) -> dict[str, Any]:
    done = run_gilk("run", "--json", *words, "--", program, "g", timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert int(lines[0]) > 0, "it has found nothing of gilk's"
    told: dict[str, Any] = json.loads(lines[-1])
    return told


def test_stream_corrupt_impossible_counts_are_not_reported(program: Path) -> None:
    told = report(program, "-i", "hit:entry=count")
    assert told["counts"] == {}
    [note] = told["notes"]
    assert note.startswith("stream-corrupt:") and "the counts of scribbler:hit:entry" in note
    assert told["partial"] is True


@pytest.mark.parametrize("how", ["a", "r"], ids=["ones", "random"])
@pytest.mark.parametrize("instrument", seldom(["stamp", "time", "count", "args"], 2))
def test_impossible_figures_are_not_reported(how: str, instrument: str, program: Path) -> None:
    done = run_gilk("run", "--json", "-i", f"hit:entry={instrument}", "--", program, how, timeout=300)
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    if "error" in told:  # the keeper's own part may be gone too
        assert told["error"]["slug"]
        return
    assert all(0 <= n < LARGEST for n in numbers(told)), told
    if not told["corrupt"]:
        assert any(note.startswith("stream-corrupt:") for note in told["notes"]), told


def test_figures_of_a_program_that_overwrites_nothing_are_reported(program: Path) -> None:
    done = run_gilk("run", "--json", "-i", "hit:entry=count", "--", program, timeout=300)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["counts"] == {"scribbler:hit:entry": 4242}
    assert (told["notes"], told["corrupt"], told["partial"]) == ([], 0, False)


@pytest.mark.parametrize("how", ["g", "r"], ids=["the count", "random"])
def test_stream_corrupt_is_reported_for_d_programs_without_figures(how: str, program: Path) -> None:
    clause = "pid$target:a.out:hit:entry { @n = count(); @s[arg0 & 3] = avg(arg0); }"
    done = run_gilk("dtrace", "-q", "-n", clause, "-c", f"{program} {how}", timeout=300)
    assert "Traceback" not in done.stderr
    assert "dtrace: stream-corrupt: the process wrote into gilk's own memory: " in done.stderr
    assert done.returncode == 1
    # An error message may quote an impossible figure as such.
    others = [line for line in done.stderr.splitlines() if "stream-corrupt" not in line]
    figures = [int(word) for text in (done.stdout, *others) for word in text.split() if word.lstrip("-").isdigit()]
    assert all(abs(n) < LARGEST or n == -1 for n in figures), (done.stdout, done.stderr)
