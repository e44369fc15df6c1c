# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs of unusual kinds, each under `run`, `trace` and `dtrace`, launched and attached: their output, their end
and the counts are right, and nothing of gilk is left in them."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gilk
from gilk.errors import GilkError, TargetError
from gilk.trace.reading import read
from tests.behaviour.harness import ENVIRONMENT, Ran, differences, leftovers, plain, run, run_gilk
from tests.programs.build import HERE, compile_to

SOURCES = HERE / "kinds"
CALLS, STATUS = 200, 3
#: The number of calls of work() in a round, if it is not CALLS.
OTHERWISE = {"coroutines": 320}

#: kind: source, and the options to build it with.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "static-pie": ("steady", ("-static-pie", "-fPIE")),
    "rwx": ("steady", ()),
    "musl": ("steady", ("-static",)),
    "hugetext": ("hugetext", ()),
    "packed": ("packed", ()),
    "coroutines": ("coroutines", ()),
    "altstack": ("altstack", ()),
    "avx512": ("avx512", ()),
    "amx": ("amx", ()),
    "lazy": ("lazy", ()),
}
#: The kinds that other commands than `run`, which has all, take in every run.
TRACED = {"hugetext", "coroutines", "altstack", "lazy"}
UNDER_D = {"rwx", "musl", "packed", "altstack"}
ATTACHED = {"musl", "packed", "coroutines", "altstack"}


def some(often: set[str], besides: str = "") -> list[Any]:
    """All kinds; those that are not among ``often`` are left to `make stress`."""
    return [pytest.param(kind, marks=() if kind in often else pytest.mark.stress) for kind in KINDS if kind != besides]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The paths of the built programs, by kind."""
    place = tmp_path_factory.mktemp("kinds")
    return {kind: _built(place, kind) for kind in KINDS}


def _built(place: Path, kind: str) -> Path:
    name, flags = KINDS[kind]
    output = place / kind / name
    output.parent.mkdir()
    source = SOURCES / f"{name}.c"
    if kind == "musl":
        subprocess.run(["musl-gcc", "-g", "-O2", *flags, "-o", str(output), str(source)], check=True)
    else:
        compile_to(output, [source], ("-O2", *flags), [SOURCES / "kind.h", HERE / "tiles.h"])
    if kind == "rwx":
        make_writable(output)
    return output


def make_writable(program: Path) -> None:
    """Make the program's code writable, by the program headers of its executable segments."""
    content = bytearray(program.read_bytes())
    (headers,), (size, number) = struct.unpack_from("<Q", content, 32), struct.unpack_from("<HH", content, 54)
    for at in range(headers, headers + size * number, size):
        kind, flags = struct.unpack_from("<II", content, at)
        if kind == 1 and flags & 1:
            struct.pack_into("<I", content, at + 4, 7)
    program.write_bytes(content)


@pytest.fixture(params=list(KINDS))
def program(request: pytest.FixtureRequest, programs: dict[str, Path]) -> Path:
    return programs[request.param]


def alone(program: Path) -> Ran:
    done = plain([program])
    if done.status == 77:
        pytest.skip(done.stdout.decode().strip())
    assert done.status == STATUS
    return done


def calls(program: Path) -> int:
    return OTHERWISE.get(program.name, CALLS)


def test_programs_of_unusual_kinds_behave_the_same_under_run(program: Path) -> None:
    name, expected = program.name, alone(program)
    inserts = [f"{name}:main:blocks=count", f"{name}:work:blocks=count", f"{name}:work:entry=time"]
    ran = run(inserts, [program])
    assert ran.visible == expected.visible
    assert ran.report["counts"][f"{name}:work:@0:pre"] == calls(program)
    assert ran.report["latency"]["work"]["count"] == calls(program)
    assert (ran.report["restored"], ran.report["partial"]) == (True, False)


@pytest.mark.parametrize("program", some(TRACED), indirect=True)
def test_programs_of_unusual_kinds_behave_the_same_under_trace(program: Path, tmp_path: Path) -> None:
    expected = alone(program)
    out = tmp_path / "trace.parquet"
    words = ("--scope", f"{program.name}:", "--skip", "*:hidden", "-o", out)  # the hidden code is not in the file
    done = run_gilk("trace", "-q", *words, "--", program)
    assert (done.returncode, done.stdout) == (STATUS, expected.stdout.decode())
    rows = [row for row in read(out).flow.table.to_pylist() if row["function"] == "work"]
    assert [row["state"] for row in rows] == ["whole"] * calls(program)


CLAUSES = """
pid$target:NAME:work:entry { @entries = count(); }
pid$target:NAME:work:return { @returns = count(); @sum = sum(arg1 != 0); }
END { printa("entries %@d\\n", @entries); printa("returns %@d\\n", @returns); }
"""


@pytest.mark.parametrize("program", some(UNDER_D), indirect=True)
def test_programs_of_unusual_kinds_behave_the_same_under_dtrace(program: Path) -> None:
    expected = alone(program)
    done = run_gilk("dtrace", "-q", "-n", CLAUSES.replace("NAME", program.name), "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    for line in (expected.stdout.decode().strip(), f"entries {calls(program)}", f"returns {calls(program)}"):
        assert line in said


@contextlib.contextmanager
def attending(program: Path, argument: str = "attend") -> Iterator[subprocess.Popen[str]]:
    """Run a program that does its work on demand; it must end as it should."""
    alone(program)
    words = [str(program), argument]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        try:
            assert process.stdout and process.stdout.readline() == "ready\n"
            yield process
            process.communicate(timeout=250)
            assert process.returncode == STATUS
        finally:
            process.kill()


def poke(process: subprocess.Popen[str]) -> str:
    """Have the program do its work once. Returns the line that it prints."""
    assert process.stdin and process.stdout
    process.stdin.write(".")
    process.stdin.flush()
    said = process.stdout.readline()
    assert said, process.poll()
    return said


@pytest.mark.parametrize("program", some(ATTACHED, "hugetext"), indirect=True)
def test_running_programs_of_unusual_kinds_behave_the_same_when_attached_to(program: Path) -> None:
    """hugetext has a test of its own, as its code is then in no file."""
    times = 3
    with attending(program) as process:
        undisturbed = [poke(process) for _ in range(2 * times)]
    with attending(program) as process:
        said = []
        for turn in range(times):
            with gilk.attach(process.pid) as target, target.session() as session:
                session.insert(f"{program.name}:work:blocks", gilk.count)
                if turn:
                    session.insert(f"{program.name}:work:entry", gilk.time)
                said.append(poke(process))
                (count,) = {n for point, n in session.counts().items() if point.endswith(":work:@0:pre")}
                # Coroutines go on in the calls in which they were left.
                assert count == calls(program) + (0 if not turn or program.name != "coroutines" else 40)
            assert session.restored
            said.append(poke(process))
            assert [line for line in differences(process.pid) if not own(line, program)] == []
            assert leftovers(process.pid) == []
        assert said == undisturbed


def own(difference: str, program: Path) -> bool:
    """Whether a difference comes from the program itself, which changes its code in one place."""
    return program.name == "packed"


def test_code_that_was_moved_out_of_its_file_is_refused_or_restored(programs: dict[str, Path]) -> None:
    """Code that was moved before gilk came has no file, and is refused; if it moves during a session, the patches
    move along."""
    program = programs["hugetext"]
    with attending(program) as process, gilk.attach(process.pid) as target, target.session() as session:
        with pytest.raises(GilkError) as refused:
            session.insert("hugetext:work:entry", gilk.count)
        assert refused.value.slug == "no-such-image"
        poke(process)
    with attending(program, "late") as process:
        with gilk.attach(process.pid) as target, target.session() as session:
            session.insert("hugetext:*:blocks", gilk.count)
            said = poke(process)
            assert session.counts()["hugetext:work:@0:pre"] == CALLS
        assert session.restored
        assert leftovers(process.pid) == []
        assert said
        assert poke(process)


def test_code_that_was_unpacked_in_place_is_refused(programs: dict[str, Path]) -> None:
    with attending(programs["packed"]) as process:
        with gilk.attach(process.pid) as target, target.session() as session:
            with pytest.raises(TargetError) as refused:
                session.insert("packed:hidden:entry", gilk.count)
            assert refused.value.slug == "code-changed"
        poke(process)


def test_text_that_is_mapped_shared_is_not_written(tmp_path: Path) -> None:
    """gilk writes neither to the process nor, by way of it, to the file."""
    program = compile_to(tmp_path / "sharedtext", [SOURCES / "sharedtext.c"], ("-O2",))
    before = program.read_bytes()
    with attending(program) as process:
        with gilk.attach(process.pid) as target, target.session() as session:
            with pytest.raises(TargetError) as refused:
                session.insert("sharedtext:work:entry", gilk.count)
            assert refused.value.slug == "shared-code"
            poke(process)
        assert session.restored
        assert (differences(process.pid), leftovers(process.pid)) == ([], [])
    assert program.read_bytes() == before


def test_strings_on_pages_that_userfaultfd_fills_on_access_are_read(programs: dict[str, Path]) -> None:
    """A clause looks at the strings first, and waits for the thread that fills them, as the program would."""
    expected = alone(programs["lazy"])
    clause = 'pid$target:lazy:look:entry { @[copyinstr(arg0)] = count(); } END { printa("%@d %s\\n", @); }'
    done = run_gilk("dtrace", "-q", "-n", clause, "-c", programs["lazy"], timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected.stdout.decode() in done.stdout
    rows = [line.split(" ", 1) for line in done.stdout.splitlines() if "filled" in line]
    assert sorted(text for _, text in rows) == [f"filled {n}" for n in range(8)]
    assert sum(int(number) for number, _ in rows) == CALLS


# Surroundings in which programs run.

WHO = r"""
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("%d %d\n", (int)getuid(), (int)geteuid()); return 0; }
"""


def test_a_set_uid_helper_that_the_program_starts_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "who.c").write_text(WHO)
    helper = compile_to(tmp_path / "who", [tmp_path / "who.c"], ("-O2",))
    if os.geteuid() == 0:
        os.chown(helper, 65534, 65534)
    helper.chmod(0o755 | stat.S_ISUID)
    starter = compile_to(tmp_path / "helper", [SOURCES / "helper.c"], ("-O2",))
    expected = plain([starter, helper])
    assert expected.status == STATUS
    ran = run(["helper:work:entry=count", "libc:popen:entry=time"], [starter, helper])
    assert ran.visible == expected.visible
    assert ran.report["counts"]["helper:work:entry"] == CALLS


def limited(shell: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """gilk, started by a shell that first makes something scarce."""
    words = ["sh", "-c", f'{shell} exec "$@"', "sh", sys.executable, "-m", "gilk", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT}, timeout=120)


def test_commands_work_with_few_file_descriptors(programs: dict[str, Path], tmp_path: Path) -> None:
    program = programs["packed"]
    expected = alone(program).stdout.decode()
    counted = limited("ulimit -n 64;", "run", "-i", "packed:work:entry=count", "--", program)
    assert (counted.returncode, f"{CALLS}  packed:work:entry" in counted.stderr) == (STATUS, True), counted
    words = ("--scope", "packed:", "--skip", "*:hidden", "-o", tmp_path / "t.parquet")
    followed = limited("ulimit -n 64;", "trace", "-q", *words, "--", program)
    assert (followed.returncode, followed.stdout) == (STATUS, expected)
    asked = limited("ulimit -n 64;", "dtrace", "-qn", "pid$target:packed:work:entry { @ = count(); }", "-c", program)
    assert (asked.returncode, str(CALLS) in asked.stdout.split()) == (0, True), asked


def test_a_process_that_may_open_no_more_files_is_refused(programs: dict[str, Path]) -> None:
    with attending(programs["packed"]) as process:
        limits = ["prlimit", f"--pid={process.pid}", f"--nofile={len(os.listdir(f'/proc/{process.pid}/fd'))}"]
        subprocess.run(limits, check=True)
        with gilk.attach(process.pid) as target, pytest.raises(TargetError) as refused:
            target.session()
        assert refused.value.slug == "refused-by-kernel"
        assert leftovers(process.pid) == []
        poke(process)


def test_commands_work_with_little_shared_memory(programs: dict[str, Path]) -> None:
    """/dev/shm is one megabyte, and full, as in a container."""
    scarce = "mount -t tmpfs -o size=1m tmpfs /dev/shm && ! cat /dev/zero 2>/dev/null >/dev/shm/full;"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("may not make a mount namespace")
    program = programs["packed"]
    words = ["unshare", "-m", "sh", "-c", f'{scarce} exec "$@"', "sh", sys.executable, "-m", "gilk", "run"]
    words += ["-i", "packed:work:entry=count", "-i", "packed:work:blocks=stamp", "--", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT}, timeout=120)
    assert (done.returncode, f"{CALLS}  packed:work:entry" in done.stderr) == (STATUS, True), done
