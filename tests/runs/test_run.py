# SPDX-License-Identifier: LGPL-2.1-or-later
"""Several processes in one run have one file and one time line."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from gilk import parse_request, prepare_run
from gilk.errors import TargetError
from gilk.session.kernel_session import KernelSession
from gilk.trace.reading import read
from tests.programs.build import compile_text
from tests.seldom import seldom

#: Prints CLOCK_MONOTONIC before and after each of 20 calls of its function, a millisecond apart.
SOURCE = r"""
#include <stdio.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) void marked(void) { __asm__ volatile(""); }
static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}
int main(void)
{
	long before[20], after[20];
	getchar();
	for (int i = 0; i < 20; i++, usleep(1000)) {
		before[i] = now();
		marked();
		after[i] = now();
	}
	for (int i = 0; i < 20; i++)
		printf("%ld %ld\n", before[i], after[i]);
	return 0;
}
"""
_APART = 100_000  # ns by which two fits of one counter may differ here

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("marks"), "marks", SOURCE, "-O1")


@pytest.fixture
def three(program: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Three programs that wait for a line of input."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(3)
        ]
        yield started
        for each in started:
            each.kill()


@pytest.mark.parametrize("instrument", ["stamp", "@path"])
def test_times_of_all_processes_are_on_one_line(
    three: list[subprocess.Popen[str]], tmp_path: Path, instrument: str
) -> None:
    """Each sample lies between the times that the program itself read before and after the call."""
    pids = [each.pid for each in three]
    points = "marked" + (f"={instrument}" if instrument.startswith("@") else f":entry={instrument}")
    run = prepare_run([parse_request(points)], pids, (), str(tmp_path / "s.parquet"))
    run.begin()
    said = {}
    for each in three:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    run.wait(60.0, lambda: False, lambda _: None)
    for each in three:
        said[each.pid] = [tuple(map(int, line.split())) for line in each.communicate()[0].splitlines()]
    assert run.finish().numbers["drops"] == 0
    trace = read(tmp_path / "s.parquet")
    for pid in pids:
        times = [row["time"] + trace.about.start for row in trace.samples.to_pylist() if row["pid"] == pid]
        assert len(times) == len(said[pid]) == 20
        for at, (before, after) in zip(times, said[pid], strict=True):
            assert before - _APART < at < after + _APART


@pytest.mark.parametrize("ending", [0, 1, 2])
def test_a_process_that_ends_before_it_is_instrumented_is_named(
    three: list[subprocess.Popen[str]], ending: int
) -> None:
    """The other processes are watched all the same, and the report names the one that was not."""
    run = prepare_run([parse_request("marked:entry=count")], [each.pid for each in three], ())
    three[ending].kill()
    three[ending].wait()
    run.begin()
    for each in three:
        if each is not three[ending]:
            each.communicate("\n")
    run.wait(60.0, lambda: False, lambda _: None)
    result = run.finish()
    assert result.notes == [f"process {three[ending].pid} ended before its probes were in"]
    assert result.counts == {"marks:marked:entry": 40}
    assert result.restored


def test_it_is_an_error_if_all_processes_end_before_they_are_instrumented(three: list[subprocess.Popen[str]]) -> None:
    run = prepare_run([parse_request("marked:entry=count")], [each.pid for each in three], ())
    for each in three:
        each.kill()
        each.wait()
    with pytest.raises(TargetError, match=str(three[2].pid)) as raised:
        run.begin()
    assert raised.value.slug == "no-such-process"


@pytest.mark.parametrize("ended", seldom([1, 0, 3], 1))
def test_a_run_leaves_no_process_and_no_file_open_here(three: list[subprocess.Popen[str]], ended: int) -> None:
    """This holds also if some of its processes end before their probes are in, or all do, so that it never begins."""
    gc.collect()  # closes files of other tests
    before, born = opened(), children()
    run = prepare_run([parse_request("marked:entry=count")], [each.pid for each in three], ())
    for each in three[:ended]:
        each.kill()
        each.wait()
        born.discard(each.pid)
    if ended == len(three):
        with pytest.raises(TargetError):
            run.begin()
    else:
        run.begin()
        assert children() - born  # the brokers
        run.finish()
    del run
    gc.collect()  # a mapped object stays open until then
    assert (opened(), children()) == (before, born)


def opened() -> Counter[str]:
    """The named files that this process has open, and the number of its other descriptors by kind."""
    links = Counter[str]()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the directory itself
            link = os.readlink(f"/proc/self/fd/{fd}")
            links[link if link.startswith("/") else link.partition("[")[0]] += 1
    return links


def children() -> set[int]:
    """The children of this process, including dead ones that nobody has waited for."""
    found = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return {int(pid) for pids in found for pid in pids}


@pytest.mark.parametrize("ahead", [0, 3_600 * 10**9, -3_600 * 10**9])
def test_the_difference_of_a_kernels_clock_is_measured(ahead: int) -> None:
    """A kernel with the same clock is exactly level; another machine's clock is ahead by its difference, up to the
    time of asking."""
    session = KernelSession.__new__(KernelSession)
    session._driver = SimpleNamespace(status=lambda: SimpleNamespace(monotonic=time.monotonic_ns() + ahead))  # type: ignore[assignment]
    assert session._ahead == 0 if ahead == 0 else session._ahead == pytest.approx(ahead, abs=1_000_000)
