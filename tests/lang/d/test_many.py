# SPDX-License-Identifier: LGPL-2.1-or-later
"""Many keys and many threads: more than there is room for at a time, and no remains of those that have gone."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.harness import ENVIRONMENT, run_gilk
from tests.programs.build import compile_text

#: Calls hot() from threads, ROUNDS times THREADS of them, with numbers that never come twice; says how often.
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long calls, each;

__attribute__((noinline, noclone)) long hot(long x)
{
	__asm__ volatile("" ::: "memory");
	return x;
}

static void *body(void *first)
{
	struct timespec pause = {0, 2000000};
	for (long i = 0; i < each; i++) {
		hot((long)first + i);
		if (i % 100 == 99) nanosleep(&pause, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	long rounds = atol(argv[1]), threads = atol(argv[2]);
	pthread_t thread[64];
	(void)argc;
	each = atol(argv[3]);
	for (long r = 0; r < rounds; r++) {
		for (long t = 0; t < threads; t++, calls += each)
			pthread_create(&thread[t], 0, body, (void *)(calls));
		for (long t = 0; t < threads; t++)
			pthread_join(thread[t], 0);
	}
	printf("calls %ld\n", calls);
	return 0;
}
"""
HOT = "pid$target:a.out:hot:entry"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("many"), "many", PROGRAM, "-O1")


def counted(text: str, word: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{word} (\d+)$", text, re.M)]


def dropped(text: str) -> int:
    return sum(int(number) for number in re.findall(r"^dtrace: (\d+) aggregation drops? on CPU", text, re.M))


def ran(program: Path, text: str, *words: str, options: tuple[str, ...] = ()) -> tuple[str, str]:
    done = run_gilk("dtrace", "-q", *options, "-n", text, "-c", shlex.join([str(program), *words]), timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


ROOM = 2 * 2 * 2048  # keys: in two tables for each of two processors, of 32 bytes each
SMALL = ("-xaggsize=64k", "-xaggrate=2ms", "-xstatusrate=50ms", "-xswitchrate=5ms")


@pytest.mark.parametrize("forget", ["trunc", pytest.param("clear", marks=pytest.mark.stress)])
def test_more_keys_than_fit_are_reported_as_dropped(program: Path, forget: str, tmp_path: Path) -> None:
    """All output together has everything except what is reported as dropped; and this goes on, however many keys
    come."""
    text = f"""{HOT} {{ @[arg0] = count(); @n = count(); }}
        tick-20ms {{ printa("part %@d\\n", @); {forget}(@); }}
        END {{ printa("part %@d\\n", @); printa("n %@d\\n", @n); }}"""
    with subprocess.Popen([program, "1000000", "2", "2000"], stdout=subprocess.DEVNULL) as child:
        words = [sys.executable, "-m", "gilk", "dtrace", "-q", *SMALL, "-p", str(child.pid), "-n", text]
        environment = {**os.environ, **ENVIRONMENT}
        with (
            (tmp_path / "errors").open("w") as said,
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True, env=environment) as tracing,
        ):
            assert tracing.stdout is not None
            kept, rest = 0, []
            for line in tracing.stdout:
                if kept < 3 * ROOM:
                    kept += int(line.split()[1])
                    if kept >= 3 * ROOM:
                        tracing.send_signal(signal.SIGINT)
                else:
                    rest.append(line)
        child.kill()
    assert tracing.returncode == 0
    out, errors = "".join(rest), (tmp_path / "errors").read_text()
    assert counted(out, "n") == [kept + sum(counted(out, "part")) + dropped(errors)]


def test_keys_that_never_fit_are_reported_as_dropped(program: Path) -> None:
    """No loss goes unreported."""
    text = f'{HOT} {{ @[arg0] = count(); }} END {{ printa("part %@d\\n", @); }}'
    out, errors = ran(program, text, "1", "2", "10000", options=SMALL)
    assert counted(out, "calls") == [sum(counted(out, "part")) + dropped(errors)] == [20000]


def test_a_new_thread_sees_no_variables_of_an_ended_one(program: Path) -> None:
    """A new thread is often at the place of an old one, whose variables are removed meanwhile."""
    text = f"{HOT} {{ self->n++; @[self->n] = count(); }}"
    text += 'END { printa("turn %d %@d\\n", @); }'
    out, errors = ran(program, text, "150", "4", "2", options=("-xcleanrate=1ms",))
    assert counted(out, "calls") == [1200]
    assert counted(out, "turn 1") == counted(out, "turn 2") == [600]
    assert (len(re.findall(r"^turn", out, re.M)), errors) == (2, "")
