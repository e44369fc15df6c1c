# SPDX-License-Identifier: LGPL-2.1-or-later
"""A block is freed twice, for which glibc ends the program: with the aspect it goes on. Debian's programs, which
free each block once, get no reports."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import gilk
from tests.behaviour.advised import build, rounds
from tests.behaviour.harness import differences, leftovers, run_gilk
from tests.behaviour.test_weave import EXAMPLES

PLANTED = """
#include <stdlib.h>
#include <string.h>
static void one_round(void)
{
	static int n;
	char *volatile block = malloc(100), *volatile other;

	free(block);
	if (n++ > 0) free(block);
	other = malloc(100);
	free(other);
	printf("%d %d\\n", n, other == block);
}
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("twice"), PLANTED)


def test_without_the_aspect_a_double_free_ends_the_program(planted: Path) -> None:
    done = subprocess.run([planted], input="\n\n", capture_output=True, text=True, check=False)
    assert (done.returncode < 0, "double free" in done.stderr) == (True, True)


def test_with_the_aspect_a_block_is_freed_once(planted: Path) -> None:
    with rounds(planted) as program:
        assert program.ask() == "1 1"
        with gilk.attach(program.pid) as target, gilk.weave(EXAMPLES / "doublefree.aspect", target) as weaving:
            assert [program.ask() for _ in range(20)] == [f"{n} 1" for n in range(2, 22)]
            reports = [one.text for one in weaving.reports()]
            assert len(reports) == 20 and all(text.endswith("is free already") for text in reports)
            (counts,) = weaving.counts()
            assert (counts.matches[1], counts.lost, counts.missed) == (20, 0, 0)
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])


CLEAN = (
    ("bash", "-c", 'for i in {1..200}; do a[i]="$i$i"; done; unset "a[3]"; f() { local x=${a[*]}; }; f; echo ${#a[*]}'),
    ("sqlite3", ":memory:", "create table t(a, b); insert into t select value, value from generate_series(1, 2000); "
     "create index i on t(b); select count(*) from t where b > 100 order by a;"),
)  # fmt: skip


@pytest.mark.parametrize("words", CLEAN, ids=["bash", "sqlite3"])
def test_programs_without_a_fault_are_left_alone(words: tuple[str, ...]) -> None:
    plain = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    done = run_gilk("weave", EXAMPLES / "doublefree.aspect", "--json", "--", *words)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert plain.strip() in done.stdout and done.returncode == 0, done.stderr
    assert not [line for line in lines if "report" in line]
    (counts,) = lines[-1]["aspects"]
    assert counts["begun"] > 100 and counts["ended"] > 50
    assert (counts["lost"], counts["missed"]) == (0, 0)
