# SPDX-License-Identifier: LGPL-2.1-or-later
"""The index by which instances are found keeps enough room, whatever begins and ends, so that instances are never
searched one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gilk
from gilk.engines.aspect.weaving import Weaving
from tests.behaviour.advised import aspects, build, rounds

#: The first round leaves 200 instances open, each with a key of its own and another key that all share; in each round a
#: thousand instances of one key begin and end.
PROGRAM = """
NOINLINE long first(long k, long same) { __asm__ volatile(""); return k + same; }
NOINLINE long second(long k, long same) { __asm__ volatile(""); return k - same; }
static void one_round(void)
{
	static int begun;
	long sum = 0, n;

	for (n = 0; n < 200 && !begun; n++)
		sum += first(1000 + n, 5);
	for (n = 0; n < 1000; n++)
		sum += first(7, 6) + second(7, 6);
	begun = 1;
	printf("%ld\\n", sum);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("index"), PROGRAM)


def spilled(weaving: Weaving) -> int:
    """The number of buckets that have once had no room (native/include/gilk_region.h)."""
    at, bits = weaving._layout.indexes[0]
    buckets = np.frombuffer(weaving._memory.view, "<u8", 8 << bits, at + 64).reshape(-1, 8)
    return int(np.count_nonzero(buckets[:, 7]))


def rounds_of(program: Path, place: Path, text: str) -> int:
    """The number of spilled buckets after five rounds, in which no match was missed."""
    with rounds(program) as target, gilk.attach(target.pid) as held:
        with gilk.weave(aspects(place, text), held) as weaving:
            for _ in range(5):
                target.ask()
            (found,) = weaving.counts()
            assert (found.ended, found.open, found.lost, found.missed) == (5000, 200, 0, 0)
            return spilled(weaving)


def test_keys_of_ended_instances_leave_the_index(program: Path, tmp_path: Path) -> None:
    text = "instances 300 seq(call(long first(long k, long)); call(long second(long k, long)));"
    assert rounds_of(program, tmp_path, text) <= 8, "two hundred keys, by chance, not five thousand"


def test_a_key_shared_by_many_instances_does_not_hide_others(program: Path, tmp_path: Path) -> None:
    """Two hundred instances share the value of one key, for which there is no room; all matches are still found."""
    text = "instances 300 seq(call(long first(long k, long same)); call(long second(long k, long same)));"
    assert 8 <= rounds_of(program, tmp_path, text) <= 20, "the buckets of that value, and few by chance"
