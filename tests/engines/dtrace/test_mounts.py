# SPDX-License-Identifier: LGPL-2.1-or-later
"""fds[]: for descriptors of all kinds, a clause finds what the kernel shows in /proc."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from gilk.engines.dtrace.compiled import ProgramText, compile_programs
from gilk.engines.dtrace.mounts import Mount, library, mounts
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from tests.lang.d.sessions import happenings
from tests.providers.sessions import traced

OPENS = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) void look(int fd); void look(int fd) { __asm__ volatile("nop" : : "r"(fd)); }
int main(void)
{
	int ends[2], pair[2], gone, last;
	char text[8];
	struct timespec pause = { 0, 10000000 };

	lseek(open("here", O_RDWR | O_CREAT | O_APPEND, 0600), 3, SEEK_SET);
	if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
		return 1;
	eventfd(0, 0);
	open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	open("/", O_RDONLY | O_DIRECTORY);
	gone = open("gone", O_WRONLY | O_CREAT, 0600);
	unlink("gone");
	last = open("/etc/passwd", O_RDONLY);
	if (read(last, text, sizeof text) != sizeof text || write(gone, text, 5) != 5)
		return 1;
	printf("%d\\n", last);
	fflush(stdout);
	for (;;) {
		for (int fd = 3; fd <= last + 1; fd++)
			look(fd);
		nanosleep(&pause, 0);
	}
}
"""
SHOWS = """
pid$target::look:entry /!seen[arg0]/
{
	seen[arg0] = 1;
	printf("%d|%s|%s|%s|%d|%s|%s|%o\\n", arg0, fds[arg0].fi_pathname, fds[arg0].fi_name, fds[arg0].fi_dirname,
		fds[arg0].fi_offset, fds[arg0].fi_fs, fds[arg0].fi_mount, fds[arg0].fi_oflags);
	n++;
}
tick-20ms /n == $1/ { exit(0); }
"""
_CLOEXEC = 0o2000000  # shown in fdinfo; it belongs to the descriptor, not to the file


def test_fds_has_what_proc_shows_of_descriptors(tmp_path: Path) -> None:
    (tmp_path / "opens.c").write_text(OPENS)
    subprocess.run(["gcc", "-Wall", "-O1", "opens.c", "-o", "opens"], cwd=tmp_path, check=True)
    with subprocess.Popen([tmp_path / "opens"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        last = int(process.stdout.readline())
        done = traced("int seen[int];" + SHOWS.replace("$1", str(last - 1)), pid=process.pid)
        expected = [said(process.pid, fd) for fd in range(3, last + 1)]
        process.kill()
    closed = f"{last + 1}|<none>|<none>|<none>|0|<none>|<none>|0"
    assert done.lines == [*expected, closed]
    assert done.refused == {} and done.errors == ""


def said(pid: int, fd: int) -> str:
    """The facts about a descriptor by the kernel, in /proc; the file system's kind by stat(1), whose names partly
    differ from mount's."""
    path = os.readlink(f"/proc/{pid}/fd/{fd}")
    facts = dict(re.findall(r"^(\w+):\s+(\S+)$", Path(f"/proc/{pid}/fdinfo/{fd}").read_text(), re.M))
    rows = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    on = {row[0]: (row[row.index("-") + 1], row[4]) for row in rows}
    nowhere = {"pipe": "pipefs", "socket": "sockfs", "anon_inode": "anon_inodefs"}.get(path.partition(":")[0], "")
    kind, point = on.get(facts["mnt_id"], (nowhere, "<unknown>"))
    name, directory = os.path.basename(path) or "/", os.path.dirname(path) or "."
    flags = int(facts["flags"], 8) & ~_CLOEXEC
    return f"{fd}|{path}|{name}|{directory}|{facts['pos']}|{kind}|{point}|{flags:o}"


def test_in_begin_fds_are_the_descriptors_of_gilk() -> None:
    with open("/etc/passwd") as file:
        file.seek(7)
        (fired, *_) = happenings(f"BEGIN {{ trace(fdoffset({file.fileno()})); exit(0); }}")
    assert int.from_bytes(fired.data[:8], "little") == 7  # type: ignore[union-attr]


def test_mounts_are_those_of_findmnt() -> None:
    told = subprocess.run(["findmnt", "-rno", "ID,TARGET,FSTYPE"], capture_output=True, text=True, check=True).stdout
    rows = sorted(line.split(" ") for line in told.splitlines())
    assert sorted([str(each.number), each.point, each.kind] for each in mounts(os.getpid())) == rows
    assert mounts(1999999999) == []


def test_any_number_of_mounts_compiles() -> None:
    for count in (0, 1, 2, 1000):
        text = library([Mount(2 * number, f'/a {number}"', "b") for number in range(count)])
        program = Source("test", f"{text} BEGIN {{ trace(mount_point[3]); trace(mount_is_known[4]); }}")
        compile_programs([ProgramText("script", program)], Macros({}, ("test",)), Options())
