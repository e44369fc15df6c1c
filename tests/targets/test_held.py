# SPDX-License-Identifier: LGPL-2.1-or-later
"""The place at which a command is stopped before it is traced: nm tells its address, and the kernel where the command
is."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gilk.targets.kernel import held
from tests.behaviour.waiting import wait_for

#: Its constructor forks a child, which inherits whatever was written to the program's code.
PROGRAM = """\
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int child, status;
static __attribute__((constructor)) void begin(void)
{
	child = fork();
	dprintf(2, "%s\\n", child ? "constructor" : "child");
}
int main(int count, char **words)
{
	if (!child)
		return 7;
	wait(&status);
	printf("%s %d\\n", words[count - 1], WEXITSTATUS(status));
	return 5;
}
"""
FLAGS = [("-O1",), ("-O1", "-static"), ("-O1", "-no-pie", "-fno-pie"), ("-O1", "-static-pie", "-fPIE")]


class Held:
    """A command that has been started. ``said``: the line that it has written first."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self.process = process
        self.said = process.stderr.readline()

    @property
    def state(self) -> str:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    @property
    def where(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/syscall").read_text().split()[-1], 16)

    @property
    def tracer(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("TracerPid:")[1].split()[0])

    def begins_at(self, path: Path) -> int:
        """The least address at which the process has mapped a file."""
        lines = Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
        return min(int(line.split("-")[0], 16) for line in lines if line.endswith(str(path.resolve())))

    def goes_on(self) -> tuple[int, str, str]:
        """Let it run to its end: its exit status, its output and its errors."""
        os.kill(self.process.pid, signal.SIGCONT)
        out, errors = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), errors.decode()


@contextmanager
def command(place: str, *words: str, **environment: str) -> Iterator[Held]:
    program = ["/usr/bin/python3", "-I", "-S", "-c", held.text(), place, *words]
    pipe = subprocess.PIPE
    given = {**os.environ, **environment}
    # Without a buffer: what readline() had read beyond its line would be lost to communicate().
    with subprocess.Popen(program, 0, stdout=pipe, stderr=pipe, start_new_session=True, env=given) as process:
        try:
            yield Held(process)
        finally:
            process.kill()


def built(place: Path, *flags: str) -> Path:
    (place / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", *flags, "program.c", "-o", "program"], cwd=place, check=True)
    return place / "program"


def address_of(name: str, file: Path, *options: str) -> int:
    """The address that nm tells."""
    done = subprocess.run(["nm", *options, str(file)], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    (found,) = {int(row[0], 16) for row in rows if row[-1].split("@")[0] == name}
    return found


def interpreter(program: Path) -> Path:
    done = subprocess.run(["readelf", "-lW", str(program)], capture_output=True, text=True, check=True)
    return Path(done.stdout.split("interpreter: ")[1].split("]")[0])


@pytest.mark.parametrize("stripped", [False, True], ids=["named", "stripped"])
@pytest.mark.parametrize("flags", FLAGS, ids="".join)
def test_a_command_is_stopped_at_its_main(tmp_path: Path, flags: tuple[str, ...], stripped: bool) -> None:
    """Its constructors have run, and the child of one goes on untouched."""
    program = built(tmp_path, *flags)
    main = address_of("main", program)
    if stripped:
        subprocess.run(["strip", str(program)], check=True)
    with command("main", str(program), "word") as process:
        assert process.said == b"%d\n" % process.process.pid
        assert wait_for(lambda: process.state == "T")
        kind = subprocess.run(["readelf", "-h", str(program)], capture_output=True, text=True, check=True).stdout
        bias = process.begins_at(program) if "DYN" in kind else 0
        assert (process.where, process.tracer) == (main + bias, 0)
        status, out, errors = process.goes_on()
    assert (status, out, sorted(errors.split())) == (5, "word 7\n", ["child", "constructor"])


def test_a_command_is_stopped_when_its_libraries_are_in_place(tmp_path: Path) -> None:
    program = built(tmp_path, "-O1")
    linker = interpreter(program)
    with command("linked", str(program), "word") as process:
        assert wait_for(lambda: process.state == "T")
        assert process.where == address_of("_dl_debug_state", linker, "-D") + process.begins_at(linker)
        assert "libc.so" in Path(f"/proc/{process.process.pid}/maps").read_text()
        assert process.tracer == 0
        status, out, errors = process.goes_on()
    assert (status, out, sorted(errors.split())) == (5, "word 7\n", ["child", "constructor"])


def test_a_command_without_a_dynamic_linker_is_stopped_at_its_first_instruction(tmp_path: Path) -> None:
    program = built(tmp_path, "-O1", "-static")
    with command("linked", str(program)) as process:
        assert wait_for(lambda: process.state == "T")
        assert process.where == address_of("_start", program)
        assert process.goes_on()[0] == 5


def test_a_script_is_stopped_in_its_interpreter(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\necho $0 $1\nexit 6\n")
    (tmp_path / "script").chmod(0o755)
    with command("linked", str(tmp_path / "script"), "word") as process:
        assert wait_for(lambda: process.state == "T")
        assert Path(f"/proc/{process.process.pid}/comm").read_text() == "script\n"
        assert process.goes_on()[:2] == (6, f"{tmp_path}/script word\n")


def test_a_command_has_the_environment_that_it_was_given() -> None:
    """Python would set LC_CTYPE in the locale C, and ignores two signals."""
    given = {"LC_ALL": "", "LC_CTYPE": "", "LANG": "C", "PYTHONCOERCECLOCALE": "1"}
    with command("linked", "sh", "-c", "echo $LANG,$LC_CTYPE; grep SigIgn /proc/self/status", **given) as process:
        assert wait_for(lambda: process.state == "T")
        status, out, errors = process.goes_on()
    with subprocess.Popen(["sh", "-c", "grep SigIgn /proc/self/status"], stdout=subprocess.PIPE) as plain:
        assert plain.stdout is not None
        ignored = plain.stdout.read().decode()
    assert (status, out, errors) == (0, f"C,\n{ignored}", "")


@pytest.mark.parametrize("place", ["linked", "main"])
def test_a_command_that_there_is_not_is_told(place: str) -> None:
    with command(place, "there-is-no-such-program") as process:
        out, errors = process.process.communicate(timeout=60)
    assert (process.process.returncode, out) == (127, b"")
    assert errors == b"there-is-no-such-program: No such file or directory\n"


def test_a_command_that_ends_before_its_main_has_its_own_status(tmp_path: Path) -> None:
    text = (
        "#include <stdlib.h>\n__attribute__((constructor)) void end(void) { _Exit(3); }\nint main(void) { return 0; }"
    )
    (tmp_path / "early.c").write_text(text)
    subprocess.run(["gcc", "early.c", "-o", "early"], cwd=tmp_path, check=True)
    with command("main", str(tmp_path / "early")) as process:
        assert process.process.wait(60) == 3


def test_a_command_whose_main_cannot_be_found_is_killed(tmp_path: Path) -> None:
    (tmp_path / "bare.s").write_text(".globl _start\n_start: jmp _start\n")
    subprocess.run(["gcc", "-nostdlib", "-static", "-s", "bare.s", "-o", "bare"], cwd=tmp_path, check=True)
    with command("main", str(tmp_path / "bare")) as process:
        assert process.process.wait(60) == -signal.SIGKILL
