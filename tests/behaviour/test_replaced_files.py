# SPDX-License-Identifier: LGPL-2.1-or-later
"""Running programs and libraries whose files were removed or replaced: they keep their names, and gilk instruments the
code that runs, not that of the file now there.

The oracle is arithmetic: the program calls each function once for a byte of input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import ENVIRONMENT, leftovers, run_gilk
from tests.programs.build import compile_text
from tests.seldom import seldom

LIBRARY = "__attribute__((noipa)) int answer(int n) { return n + 1; }\n"
PROGRAM = """
#include <unistd.h>
int answer(int n);
__attribute__((noipa)) int serve(int n) { return answer(n) - 1; }
int main(void)
{
	for (char byte; read(0, &byte, 1) == 1; write(1, &byte, 1))
		byte = (char)serve(byte);
	return 0;
}
"""


class Server:
    """A program that for each byte calls serve() in itself and answer() in the library, and answers with the byte."""

    def __init__(self, *words: str | Path, **options: object) -> None:
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **options)  # type: ignore[call-overload]
        self.serve(1)

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def serve(self, times: int) -> None:
        for _ in range(times):
            self.process.stdin.write(b"x")
            assert self.process.stdout.read(1) == b"x", self.process.poll()

    def code(self) -> list[bytes]:
        """All executable memory of the process, except the vdso."""
        maps = Path(f"/proc/{self.pid}/maps").read_text().splitlines()
        places = [line.split()[0].split("-") for line in maps if "x" in line.split()[1] and "/" in line]
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            found = []
            for start, end in places:
                memory.seek(int(start, 16))
                found.append(memory.read(int(end, 16) - int(start, 16)))
            return found


def built(place: Path) -> tuple[Path, Path]:
    library = compile_text(place, "libanswer.so", LIBRARY, "-O1", "-shared", "-fPIC")
    return compile_text(
        place, "server", PROGRAM, "-O1", "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{place}"
    ), library


@pytest.fixture(params=seldom(["removed", "replaced", "program", "library"], 2))
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server whose files were both removed or replaced, or of which only one was removed."""
    program, library = built(tmp_path)
    made = Server(program)
    for file, name in ((program, "program"), (library, "library")):
        if request.param in ("removed", "replaced", name):
            file.unlink()
        if request.param == "replaced":
            compile_text(tmp_path, file.name, "int serve(int n) { return 5; } int answer; int main(void) { }", "-w")
    yield made
    made.process.kill()
    made.process.communicate()


def counted(server: Server, *points: str) -> dict[str, int]:
    before = server.code()
    with gilk.attach(server.pid) as target, target.session() as session:
        for point in points:
            session.insert(point, gilk.count)
        server.serve(7)
        counts = session.counts()
    assert session.restored is True
    assert (server.code() == before, leftovers(server.pid)) == (True, [])
    server.serve(1)
    return counts


def test_points_in_replaced_files_are_counted(server: Server) -> None:
    points = ["server:serve:entry", "libanswer.so:answer:entry"]
    assert counted(server, *points) == dict.fromkeys(points, 7)


def test_replaced_files_are_named_by_path_and_by_pattern(server: Server, tmp_path: Path) -> None:
    points = counted(server, f"{tmp_path}/server:serve:entry", "libans*:answer:entry")
    assert points == {"server:serve:entry": 7, "libanswer.so:answer:entry": 7}


def test_stacks_have_the_names_of_replaced_files(server: Server) -> None:
    program = 'BEGIN { printf("ready\\n"); } pid$target:libanswer:answer:entry { ustack(3); exit(0); }'
    words = [sys.executable, "-m", "gilk", "dtrace", "-qn", program, "-p", str(server.pid)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}) as tracer:
        assert tracer.stdout and tracer.stdout.readline() == "ready\n"
        server.serve(1)
        said = tracer.stdout.read()
    assert [line.strip().partition("`")[0] for line in said.split("\n") if "`" in line] == [
        "libanswer.so",
        "server",
        "server",
    ]


def test_a_scan_has_the_names_of_replaced_files(server: Server) -> None:
    (row,) = json.loads(run_gilk("scan", "--json", f"pid:{server.pid}", "server:serve").stdout)["images"]
    assert row["image"] == "server"


def test_a_program_that_was_never_a_file_is_counted(tmp_path: Path) -> None:
    """The program was executed from a memory object."""
    program, _ = built(tmp_path)
    memory = os.memfd_create("server")
    os.write(memory, program.read_bytes())
    made = Server(f"/proc/self/fd/{memory}", pass_fds=[memory])
    try:
        (count,) = counted(made, "serve:entry").values()
        assert count == 7
    finally:
        made.process.kill()
        made.process.communicate()
