# SPDX-License-Identifier: LGPL-2.1-or-later
"""The race between looking at a file and opening it, in Debian's bash: an attacker replaces the file in between by a
link to a secret. The script reads the secret without the aspect, and never with it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.test_weave import EXAMPLES

#: For each line of input, so many looks; prints how often it read the secret, was denied, and read its own file.
SCRIPT = """
exec 2>/dev/null
while read -r rounds; do
    stolen=0 denied=0 fine=0
    for ((i = 0; i < rounds; i++)); do
        if [ ! -L "$1" ]; then
            if read -r line < "$1"; then
                if [ "$line" = secret ]; then stolen=$((stolen + 1)); else fine=$((fine + 1)); fi
            else
                denied=$((denied + 1))
            fi
        fi
    done
    echo "$stolen $denied $fine"
done
"""
ATTACKER = r"""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	(void)argc;
	for (;;) {
		symlink("secret", "fresh");
		rename("fresh", argv[1]);
		link("own", "fresh");
		rename("fresh", argv[1]);
		unlink("fresh"); /* a rename of one file onto itself does nothing */
	}
}
"""
_ROUNDS = 300
_BOUND = 240.0  # seconds, for an event that happens within one second unless the machine is busy


class Reader:
    """The running script."""

    def __init__(self, place: Path) -> None:
        words = ["bash", "-c", SCRIPT, "script", "name"]
        self.process = subprocess.Popen(words, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def looks(self, rounds: int = _ROUNDS) -> tuple[int, int, int]:
        """Have the script look so often. Returns how often it read the secret, was denied, and read its own file."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        stolen, denied, fine = map(int, self.process.stdout.readline().split())
        return stolen, denied, fine


@contextmanager
def attacked(place: Path) -> Iterator[Reader]:
    (place / "secret").write_text("secret\n")
    (place / "own").write_text("own\n")
    (place / "name").hardlink_to(place / "own")
    (place / "attacker.c").write_text(ATTACKER)
    subprocess.run(["gcc", "-O2", "-w", "-o", place / "attacker", place / "attacker.c"], check=True)
    reader = Reader(place)
    with subprocess.Popen([place / "attacker", "name"], cwd=place) as attacker, reader.process:
        try:
            yield reader
        finally:
            attacker.kill()
            assert reader.process.stdin
            reader.process.stdin.close()
            reader.process.wait(60)


def until(reader: Reader, column: int, least: int, bound: float = _BOUND) -> list[int]:
    """The sums of the script's answers, once the sum of ``column`` is at least ``least``, or after ``bound``
    seconds."""
    sums, end = [0, 0, 0], time.monotonic() + bound
    while sums[column] < least and time.monotonic() < end:
        sums = [a + b for a, b in zip(sums, reader.looks(), strict=True)]
    return sums


def test_a_race_is_stopped(tmp_path: Path) -> None:
    with attacked(tmp_path) as reader:
        assert until(reader, 0, 1)[0] > 0, "without the aspect the secret is read"
        pid = reader.process.pid
        with gilk.attach(pid) as target, gilk.weave(EXAMPLES / "swapped.aspect", target) as weaving:
            stolen, denied, fine = until(reader, 1, 10)
            reports = list(weaving.reports())
        assert (stolen, denied > 0, fine > 0) == (0, True, True)
        assert {one.text for one in reports} == {"name is another file now"}
        assert len(reports) == denied
        assert (differences(pid), leftovers(pid)) == ([], [])
        assert until(reader, 0, 1)[0] > 0, "and again, when it is out"


@pytest.mark.stress
def test_a_race_is_stopped_for_a_minute(tmp_path: Path) -> None:
    with attacked(tmp_path) as reader:
        assert until(reader, 0, 1)[0] > 0
        with gilk.attach(reader.process.pid) as target, gilk.weave(EXAMPLES / "swapped.aspect", target) as weaving:
            stolen, denied, _ = until(reader, 0, 1, 60.0)
            assert (stolen, denied > 0) == (0, True)
            (counts,) = weaving.counts()
            assert counts.begun == counts.open + counts.ended + counts.until + counts.late + counts.replaced
            assert (counts.lost, counts.missed, counts.crowded) == (0, 0, 0)
