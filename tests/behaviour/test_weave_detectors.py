# SPDX-License-Identifier: LGPL-2.1-or-later
"""Planted faults, found by aspects and by others: memcheck finds stores, copies and reads past a block, and blocks that
are freed twice; the kernel, seen by strace, refuses descriptors that are closed."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.behaviour.harness import run_gilk
from tests.behaviour.test_weave import EXAMPLES

FAULTY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char text[200];
int main(int argc, char **argv)
{
	char *volatile block = malloc(100);
	int fd = open(argv[0], O_RDONLY), n;

	for (n = 0; n < 5; n++) {
		switch (argv[1][0]) {
		case 's': block[98 + n] = 1; *(long *volatile)(block + 90 + n) = n; break;
		case 'm': memcpy(block, text, 98 + n + argc - 2); break;
		case 'r': if (read(fd, block + 60, 38 + n) < 0) return 1; break;
		case 'f': free(block); free(block); block = malloc(100); break;
		case 'c':
			close(fd);
			if (write(fd, "x", 1) == 1 || lseek(fd, 0, SEEK_SET) >= 0) return 1;
			fd = open("/dev/null", O_WRONLY);
			if (write(fd, "x", 1) != 1) return 1;
		}
	}
	free(block);
	close(fd);
	return 0;
}
"""
#: Advice sees the arguments of read(2), so it knows how much the kernel is going to write.
RECEIVED = """group A;
%{ #include <sys/types.h> %}
seq(A: call(void *libc:malloc(size_t n)) && return(b) && if (b) && bind(char *start, b) && bind(char *end, (char *)b + n);
  A: call(ssize_t libc:read(int fd, void *to, size_t count)) && bind(char *at, to) && if (at >= start && at < end && at + count > end)
    then inplace { report("%ld bytes at %ld of %ld", count, at - start, n); return proceed(fd, to, end - at); } *;
  A: call(void libc:free(void *b))) until A: call(void *libc:realloc(void *b, size_t m));
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("faulty")
    (place / "faulty.c").write_text(FAULTY)
    subprocess.run(["gcc", "-O1", "-g", "-w", "-fno-builtin", "-o", place / "faulty", place / "faulty.c"], check=True)
    return place / "faulty"


def found_by_memcheck(program: Path, fault: str) -> Counter[str]:
    """How often memcheck found each kind of fault."""
    log = program.parent / f"{fault}.xml"
    words = ["valgrind", "--leak-check=no", "--xml=yes", f"--xml-file={log}", program, fault]
    subprocess.run(words, check=True, capture_output=True)
    root = ElementTree.parse(log).getroot()
    counts = {one.findtext("unique"): int(one.findtext("count") or 0) for one in root.iter("pair")}
    found: Counter[str] = Counter()
    for error in root.iter("error"):
        found[error.findtext("what") or ""] += counts[error.findtext("unique")]
    return found


def found_woven(program: Path, fault: str, aspect: Path) -> list[str]:
    """The texts of the reports; the program ends as it does by itself."""
    done = run_gilk("weave", aspect, "--json", "--", program, fault)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(one["lost"] == one["missed"] == 0 for one in lines[-1]["aspects"])
    return [one["report"]["text"] for one in lines if "report" in one]


def test_memcheck_finds_the_same_stores_past_a_block(faulty: Path) -> None:
    reports = found_woven(faulty, "s", EXAMPLES / "overflow.aspect")
    sizes = Counter(f"Invalid write of size {one.split()[0]}" for one in reports)
    assert sizes == found_by_memcheck(faulty, "s")
    assert sizes == {"Invalid write of size 1": 3, "Invalid write of size 8": 2}


@pytest.mark.stress
def test_memcheck_finds_copies_past_a_block(faulty: Path) -> None:
    """Both make their own accesses of a memcpy(): two of the five copies reach past the block."""
    reports = found_woven(faulty, "m", EXAMPLES / "overflow.aspect")
    assert all(re.fullmatch(r"\d+ at \d+ of 100", one) for one in reports)
    ends = {int(at) + int(size) for size, at in (re.findall(r"(\d+) at (\d+)", one)[0] for one in reports)}
    assert ends == {101, 102}
    assert any(what.startswith("Invalid write") for what in found_by_memcheck(faulty, "m"))


@pytest.mark.stress
def test_memcheck_finds_the_same_reads_past_a_block(faulty: Path, tmp_path: Path) -> None:
    aspect = tmp_path / "received.aspect"
    aspect.write_text(RECEIVED)
    assert found_woven(faulty, "r", aspect) == ["41 bytes at 60 of 100", "42 bytes at 60 of 100"]
    assert found_by_memcheck(faulty, "r") == {"Syscall param read(buf) points to unaddressable byte(s)": 2}


def test_memcheck_finds_the_same_blocks_freed_twice(faulty: Path) -> None:
    reports = found_woven(faulty, "f", EXAMPLES / "doublefree.aspect")
    assert all(one.endswith("is free already") for one in reports)
    (count,) = found_by_memcheck(faulty, "f").values()
    assert len(reports) == count == 5


@pytest.mark.stress
def test_the_kernel_refuses_the_descriptors_that_are_reported(faulty: Path) -> None:
    log = faulty.parent / "strace.log"
    subprocess.run(["strace", "-o", log, faulty, "c"], check=True)
    refused = re.findall(r"^(\w+)\((\d+).*EBADF", log.read_text(), re.MULTILINE)
    assert len(refused) == 10
    reports = found_woven(faulty, "c", EXAMPLES / "closed.aspect")
    assert reports == [f"{name} of {number}, which is closed" for name, number in refused]


CLEAN = (
    ("bash", "-c", "exec 5>/dev/null; echo x >&5; exec 5>&-; read -r x < /etc/passwd; echo $x"),
    ("sqlite3", ":memory:", "create table t(a); insert into t values(1); select count(*) from t;"),
)


@pytest.mark.parametrize("words", CLEAN, ids=["bash", "sqlite3"])
def test_programs_that_use_no_closed_descriptor_are_left_alone(words: tuple[str, ...]) -> None:
    plain = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    done = run_gilk("weave", EXAMPLES / "closed.aspect", "--json", "--", *words)
    assert plain.strip() in done.stdout and done.returncode == 0, done.stderr
    assert '"report"' not in done.stdout
