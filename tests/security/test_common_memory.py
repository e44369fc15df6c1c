# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory that all processes of a tree share: a client that brings other memory in its place is dismissed before the
process has any of it, and a process that writes anything into the memory does no harm to the others."""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import shlex
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gilk.session.broker.transport import Closed, Line, packed
from gilk.targets.maps import read_maps
from gilk.targets.meeting import rendezvous, right_to_trace
from gilk.targets.shared_memory import is_sealed, sealed
from gilk.version import VERSION
from tests.behaviour.harness import Loop, differences, leftovers, run_gilk, wait_for
from tests.behaviour.waiting import PATIENCE
from tests.programs.build import build, compile_text
from tests.session.broker.consumers import Worker, consume, counting
from tests.session.broker.test_several_consumers import expected, play

SIZE = 1 << 20


def unsealed() -> int:
    """Memory without seals: it could be shrunk, and a process that then reads it is killed."""
    fd = os.memfd_create("gilk-memory-d", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SIZE)
    return fd


def shrinkable() -> int:
    fd = unsealed()
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def sealed_later() -> int:
    """Memory that can still be sealed against writing, for which its mappings would have to go."""
    fd = unsealed()
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd


def without_writing() -> int:
    fd = unsealed()
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd


def smaller() -> int:
    return sealed("gilk-memory-d", SIZE // 2)


def larger() -> int:
    return sealed("gilk-memory-d", SIZE * 2)


def opened_for_reading() -> int:
    fd = sealed("gilk-memory-d", SIZE)
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(fd)


def a_file() -> int:
    fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    os.ftruncate(fd, SIZE)
    return fd


def a_file_in_memory() -> int:
    fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    os.ftruncate(fd, SIZE)
    return fd


def a_pipe() -> int:
    one, other = os.pipe2(os.O_CLOEXEC)
    os.close(one)
    return other


def a_directory() -> int:
    return os.open("/", os.O_PATH | os.O_CLOEXEC)


def huge() -> int:
    """Memory of huge pages, with the same seals."""
    with contextlib.suppress(OSError):
        fd = os.memfd_create("huge", os.MFD_CLOEXEC | os.MFD_HUGETLB | os.MFD_ALLOW_SEALING)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        return fd
    pytest.skip("this system has no huge pages")


WRONG = (unsealed, shrinkable, sealed_later, without_writing, smaller, larger, opened_for_reading, a_file,
         a_file_in_memory, a_pipe, a_directory, huge)  # fmt: skip


def by_name(makers: tuple[Callable[[], int], ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("make", makers, ids=[make.__name__ for make in makers])


@by_name(WRONG)
def test_descriptors_that_are_no_sealed_memory_of_the_size_are_refused(make: Callable[[], int]) -> None:
    fd = make()
    try:
        assert not is_sealed(fd, SIZE)
    finally:
        os.close(fd)


def test_sealed_memory_keeps_its_size() -> None:
    """The system itself refuses to change the size."""
    fd = sealed("gilk-memory-d", SIZE)
    try:
        assert is_sealed(fd, SIZE) and not is_sealed(fd, SIZE + 1) and not is_sealed(-1, SIZE)
        for size in (0, SIZE - 1, SIZE + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        with pytest.raises(PermissionError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    finally:
        os.close(fd)


@pytest.fixture(scope="module")
def shared() -> Iterator[Loop]:
    """A process with a consumer at work, whose count is right whatever others have asked for meanwhile."""
    with Loop([build("rounds")]) as loop:
        worker: Worker = consume(loop.pid, counting(("one", "two")))
        worker.wait_until_in()
        yield loop
        play(loop, 1, 2)
        assert worker.finish() == expected(("one", "two"), 2)
        assert wait_for(lambda: not differences(loop.pid) and not leftovers(loop.pid))


@contextlib.contextmanager
def member(loop: Loop) -> Iterator[Line]:
    meeting = rendezvous(loop.pid)
    assert meeting.line is not None
    line = Line(meeting.line, PATIENCE)
    right = right_to_trace(loop.pid)
    try:
        assert line.ask({"do": "hello", "version": VERSION}, fd=right).words == {}
        yield line
    finally:
        os.close(right)
        line.close()


def common(pid: int) -> list[str]:
    return [mapping.path for mapping in read_maps(pid) if "gilk-memory-d" in mapping.path or "huge" in mapping.path]


@by_name(WRONG)
def test_a_client_that_brings_other_memory_is_disconnected(shared: Loop, make: Callable[[], int]) -> None:
    fd = make()
    try:
        with member(shared) as line, pytest.raises(Closed):
            line.ask({"do": "common", "size": SIZE}, fd=fd)
    finally:
        os.close(fd)
    assert not common(shared.pid)


@pytest.mark.parametrize("words", [{"size": SIZE}, {"size": 0}, {"size": -1}, {"size": "1"}, {"size": 1 << 62}, {}])
def test_a_client_that_brings_no_memory_is_disconnected(shared: Loop, words: dict[str, object]) -> None:
    with member(shared) as line, pytest.raises(Closed):
        line.ask({"do": "common", **words})


def test_common_memory_stays_until_its_client_leaves(shared: Loop) -> None:
    """The memory is the same, mapped once for each client, and before anything else."""
    fd = sealed("gilk-memory-d", SIZE)
    with member(shared) as line:
        offset = int(line.ask({"do": "common", "size": SIZE}, fd=fd).words["offset"])
        assert len(common(shared.pid)) == 1 and offset
        at = next(mapping.start for mapping in read_maps(shared.pid) if "gilk-memory-d" in mapping.path)
        with mmap.mmap(fd, SIZE) as here, open(f"/proc/{shared.pid}/mem", "rb", buffering=0) as there:
            here[100:105] = b"hello"
            there.seek(at + 100)
            assert there.read(5) == b"hello"
        assert line.ask({"do": "leave"}).words["others"] is True
        assert not common(shared.pid)
        line.ask({"do": "common", "size": SIZE}, fd=fd)
        with pytest.raises(Closed):
            line.ask({"do": "common", "size": SIZE}, fd=fd)
    os.close(fd)
    assert wait_for(lambda: not common(shared.pid))


def test_a_stranger_cannot_bring_common_memory(shared: Loop) -> None:
    meeting, fd = rendezvous(shared.pid), sealed("gilk-memory-d", SIZE)
    assert meeting.line is not None
    line = Line(meeting.line, PATIENCE)
    with pytest.raises(Closed):
        line.ask({"do": "common", "size": SIZE}, fd=fd)
    os.close(fd)
    line.close()
    assert not common(shared.pid)


def test_unrequested_descriptors_are_closed(shared: Loop) -> None:
    """Several descriptors come at once, with messages that need none: their other ends see that they were closed."""
    mine, theirs = socket.socketpair()
    with member(shared) as line, mine:
        end = line._end
        with theirs:
            many = array.array("i", [theirs.fileno()] * 20)
            for _ in range(5):
                end.sendmsg([packed({"do": "look"})], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, many)])
                assert line._inbox is not None
                while line._inbox.next() is None:
                    line._inbox.read()
        mine.settimeout(PATIENCE)
        assert mine.recv(1) == b""


SCRIBBLER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noipa)) void scribble(unsigned long start, unsigned long end, unsigned seed)
{
	unsigned long at, *page;
	for (at = start; at + 8 <= end; at += 8 * (1 + rand_r(&seed) % 7)) {
		page = (unsigned long *)at;
		*page = (unsigned long)rand_r(&seed) << 33 ^ rand_r(&seed) ^ (rand_r(&seed) % 3 ? 0 : ~0UL);
	}
}
int main(int count, char **words)
{
	char line[512];
	unsigned long start, end;
	unsigned seed = 1;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "gilk-memory-d") && sscanf(line, "%lx-%lx", &start, &end) == 2) {
			start += 4096; /* the first page says whether the program runs at all: it is spared, so that it does */
			fclose(fopen(words[2], "w"));
			for (seed = 1; access(words[1], F_OK); seed++)
				scribble(start, end, seed);
			return 0;
		}
	return 3;
}
"""
VICTIM = r"""
#include <stdio.h>
__attribute__((noipa)) long step(long n, const char *text) { __asm__ volatile(""); return n + text[0]; }
int main(void)
{
	long sum = 0, n;
	for (n = 0; n < 200000; n++)
		sum += step(n, n & 1 ? "odd" : "even");
	printf("sum %ld\n", sum);
	return 0;
}
"""
EVERYTHING = """
    pid$target:victim:step:entry {
        n++; last = copyinstr(arg1); many[arg0 % 50] = n; text[arg0 % 7] = last; self->n = arg0;
        @ = count(); @by[arg0 % 100, last] = sum(arg0); @q = quantize(arg0); @l = min(arg0);
        @longest[strjoin(last, execname)] = max(n);
    }
    pid$target:victim:step:entry /arg0 % 100 == 0/ { self->s = speculation(); speculate(self->s); trace(last); }
    pid$target:victim:step:return /self->s/ { commit(self->s); self->s = 0; }
    pid$target:victim:step:return { @d[self->n % 10] = avg(arg1); self->n = 0; }
"""


def test_a_process_that_overwrites_common_memory_harms_no_other(tmp_path: Path) -> None:
    """One process overwrites everything that clauses in the other read and write; the other goes on, and its results
    are right."""
    scribbler = compile_text(tmp_path, "scribbler", SCRIBBLER, "-O1", "-w")
    victim = compile_text(tmp_path, "victim", VICTIM, "-O1", "-w")
    over = tmp_path / "over"
    begun = tmp_path / "begun"
    waits = f"{scribbler} {over} {begun} & until [ -e {begun} ]; do :; done"
    line = f"{waits}; {victim}; {victim}; echo victims $?; touch {over}; wait $!; echo scribbler $?"
    sizes = [word for name in ("bufsize", "aggsize", "dynvarsize", "specsize") for word in ("-x", f"{name}=64k")]
    program = EVERYTHING + "pid$target:scribbler:scribble:entry { @s = count(); }"
    words = ("-n", program, "-c", shlex.join(["sh", "-c", line]))
    done = run_gilk("dtrace", "--follow", "-q", "-o", tmp_path / "output", *sizes, *words)
    total = sum(n + ord("o" if n & 1 else "e") for n in range(200000))
    assert "followed 5 programs, 3 with probes" in done.stderr and done.returncode == 1, done.stderr
    assert done.stdout.count(f"sum {total}\n") == 2 and "victims 0\n" in done.stdout and "scribbler 0\n" in done.stdout
