# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instances that nobody can continue any more, and instances that a thread was writing when it died."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import gilk
from gilk.engines.aspect.weaving import Weaving
from gilk.lang.aspect.woven import AspectCounts
from tests.behaviour.advised import aspects, build, rounds

PROGRAM = """
#include <pthread.h>
NOINLINE long first(long k) { __asm__ volatile(""); return 2 * k; }
NOINLINE long second(long k) { __asm__ volatile(""); return 3 * k; }
static void *begin(void *unused)
{
	first(1);
	return unused;
}
static void one_round(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, begin, 0);
	pthread_join(thread, 0);
	printf("begun\\n");
}
"""
SEQUENCE = "instances 3 seq(call(long first(long k)); call(long second(long k)));"
FAR = 1e12  # seconds on the clock of the checks


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("gone"), PROGRAM)


def counts(weaving: Weaving) -> AspectCounts:
    (found,) = weaving.counts()
    assert found.begun == found.open + found.ended + found.until + found.late + found.replaced + found.gone
    return found


def test_instances_of_ended_threads_are_freed(program: Path, tmp_path: Path) -> None:
    with rounds(program) as target, gilk.attach(target.pid) as held:
        with gilk.weave(aspects(tmp_path, f"perthread {SEQUENCE}"), held) as weaving:
            for _ in range(4):
                target.ask()
            assert (counts(weaving).begun, counts(weaving).open, counts(weaving).lost) == (3, 3, 1)
            weaving.release(FAR)
            assert (counts(weaving).gone, counts(weaving).open) == (3, 0)
            target.ask()
            assert (counts(weaving).begun, counts(weaving).gone, counts(weaving).open) == (4, 3, 1)
            weaving.release(2 * FAR)
            assert (counts(weaving).gone, counts(weaving).open) == (4, 0)


def test_instances_that_any_thread_may_continue_are_kept(program: Path, tmp_path: Path) -> None:
    with rounds(program) as target, gilk.attach(target.pid) as held:
        with gilk.weave(aspects(tmp_path, SEQUENCE), held) as weaving:
            for _ in range(4):
                target.ask()
            weaving.release(FAR)
            assert (counts(weaving).open, counts(weaving).gone, counts(weaving).lost) == (3, 0, 1)


def test_an_instance_whose_writer_died_is_freed(program: Path, tmp_path: Path) -> None:
    """The instance's word is as a thread leaves it that is killed while it writes."""
    with subprocess.Popen(["true"]) as ended:
        pass
    with rounds(program) as target, gilk.attach(target.pid) as held:
        with gilk.weave(aspects(tmp_path, SEQUENCE.replace("3", "1", 1)), held) as weaving:
            target.ask()
            at = weaving.state._layout.instances[0]
            word = np.frombuffer(weaving.state._view, "<u8", 1, at)
            word[0] = ended.pid << 16 | 1 << 1 | 1
            target.ask()
            assert (counts(weaving).begun, counts(weaving).lost) == (1, 1)
            weaving.release(FAR)
            assert counts(weaving).gone == 0  # a task that is ending may still write in the kernel
            weaving.release(2 * FAR)
            target.ask()
            assert (counts(weaving).begun, counts(weaving).gone, counts(weaving).lost) == (2, 1, 1)
