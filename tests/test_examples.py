# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every example does what it says, on real programs; the expected results are known by other means."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.trace.reading import read
from tests.programs.build import compile_text

EXAMPLES = Path(__file__).parent.parent / "examples"
TARGET = """
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline, noclone)) long step(long x) { __asm__ volatile("" : "+r"(x)); return x * 3; }
__attribute__((noinline, noclone)) long never(long x) { __asm__ volatile("" : "+r"(x)); return x - 3; }
__attribute__((noinline, noclone)) long choose(long x) { return x > 1000 ? never(x) : step(x) + 1; }
int main(int argc, char **argv)
{
	long sum = 0, n = argc > 1 ? atol(argv[1]) : -1;
	for (long i = 0; n < 0 || i < n; i++) {
		free(malloc(100 + (i & 1) * 1000));
		sum += choose(i & 7);
		if (n < 0)
			usleep(1000);
	}
	return getenv("GILK_EXAMPLE") ? (sum & 1) + 3 : 5;
}
"""

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("example"), "program", TARGET, "-O1", "-fno-builtin")


@pytest.fixture
def busy(program: Path) -> Iterator[int]:
    process = subprocess.Popen([program])
    yield process.pid
    assert process.poll() is None, "the example has ended the program it watched"
    process.kill()
    process.wait()


def run(
    environment: dict[str, str], name: str, *arguments: str | int | Path, status: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def recorded(environment: dict[str, str], points: str, where: Path, command: list[str | Path], status: int) -> Path:
    words = ["gilk", "run", "-i", points, "-o", where, "--", *command]
    done = subprocess.run(words, cwd=EXAMPLES, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    assert "dropped" not in done.stderr
    return where


def test_simple_instr(gilk_on_path: dict[str, str], program: Path, tmp_path: Path) -> None:
    points = "step:entry=simple_instr.c:simple_instr"
    samples = read(recorded(gilk_on_path, points, tmp_path / "s.parquet", [program, "1234"], 5)).samples
    assert samples.num_rows == 1234


def test_sizes(gilk_on_path: dict[str, str], program: Path, tmp_path: Path) -> None:
    """Half of the sizes are 100, half 1100. Each set of samples adds up to a thousand calls."""
    points = "libc:malloc:entry=sizes.c:sizes"
    samples = read(recorded(gilk_on_path, points, tmp_path / "s.parquet", [program, "5000"], 5)).samples
    latest: dict[int, int] = {}
    for bucket, calls in zip(samples["value"].to_pylist(), samples["extra"].to_pylist(), strict=True):
        latest[bucket] = max(calls, latest.get(bucket, 0))
    assert sum(latest.values()) == 5000
    assert latest[6] == pytest.approx(2500, abs=2)
    assert latest[10] == pytest.approx(2500, abs=2)


def test_strings(gilk_on_path: dict[str, str], program: Path, tmp_path: Path) -> None:
    points = "libc:getenv:entry=strings.c:first_argument"
    samples = read(recorded(gilk_on_path, points, tmp_path / "s.parquet", [program, "1"], 5)).samples
    assert "GILK_EXAMPLE" in samples["text"].to_pylist()


def test_count(gilk_on_path: dict[str, str], busy: int) -> None:
    output = run(gilk_on_path, "count.py", busy, "step", 1).stdout
    assert "1 of 1 functions are counted" in output
    found = re.search(r"(\d+) program:step:entry", output)
    assert found and 20 < int(found[1]) <= 1100
    assert "the code is what it was" in output


def test_latency(gilk_on_path: dict[str, str], program: Path) -> None:
    output = run(gilk_on_path, "latency.py", "choose", program, 3000, status=5).stdout
    assert output.startswith("3000 calls of choose, 0 records dropped\n")
    median, longest = re.search(r"median (\d+) ns, longest (\d+) ns", output).groups()  # type: ignore[union-attr]
    assert 0 < int(median) < 10_000 and int(median) <= int(longest)


def test_coverage(gilk_on_path: dict[str, str], program: Path) -> None:
    output = run(gilk_on_path, "coverage.py", "*e*", program, 3000, status=5).stdout
    assert re.search(r"1 of +1 blocks of step", output)
    assert re.search(r"0 of +1 blocks of never", output)
    assert "0 could not be watched" in output


def test_watch(gilk_on_path: dict[str, str], busy: int) -> None:
    output = run(gilk_on_path, "watch.py", busy, "", 2).stdout
    assert "second 2: " in output
    assert re.search(r"\d+ program:choose:entry", output)


def test_every_example_has_a_test() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    tested.add("notebook")  # tests/notebook executes it
    assert {path.stem for path in EXAMPLES.iterdir() if path.is_file()} <= tested
