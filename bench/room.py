# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure how many functions of tightly packed programs cannot be timed for want of room, in live processes.

The programs are Debian's sources of a few well-known ones, fetched for the run, and the test programs. Each is built
with and without optimisation, and without alignment.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gilk
from bench.measure import Row
from gilk.engines.follow.follower import Follower
from gilk.engines.follow.scope import TraceScope
from gilk.splice.plan import Refusal

BUILDS = ("-O0", "-O1", "-Os", "-O2 -falign-functions=1")
TESTS = Path(__file__).parent.parent / "tests" / "programs"
_MIRROR = "deb-src http://deb.debian.org/debian bookworm main\n"


@dataclass(frozen=True)
class Program:
    """A program to build: the files of a source package that make it (``sources``) and those left out (``without``),
    as patterns below its directory."""

    package: str
    sources: tuple[str, ...]
    without: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


PROGRAMS = (
    Program("lua5.4", ("src/*.c",), ("luac.c",), ("-DLUA_USE_LINUX", "-lm", "-ldl")),
    Program("zlib", ("*.c", "test/minigzip.c"), (), ("-DHAVE_UNISTD_H", "-I.")),
    Program("bzip2", ("*.c",), ("bzip2recover.c", "dlltest.c", "mk251.c", "spewG.c", "unzcrash.c"), ()),
)
_OURS = ("work", "calls", "recursion", "interp", "signals", "unwind", "tailcall", "redzone")


def rows() -> Iterator[Row]:
    """For each build, the share of functions that `run` cannot time, and that `trace` cannot follow to their end."""
    with tempfile.TemporaryDirectory() as place:
        sources = dict(_fetched(Path(place)))
        for flags in BUILDS:
            built = list(_built(Path(place), sources, flags))
            counts = [_lacking(program) for program in built]
            functions = sum(count[0] for count in counts)
            for number, command in enumerate(("run", "trace"), 1):
                lacking = sum(count[number] for count in counts)
                note = f"{lacking} of {functions} functions of {len(built)} programs"
                yield Row(f"no room, {flags}, {command}", "gilk", 100 * lacking / functions, "%", note)


def _fetched(place: Path) -> Iterator[tuple[Program, Path]]:
    """The unpacked sources of the programs; nothing without a network. The machine's own package lists stay as they
    are."""
    (place / "lists" / "partial").mkdir(parents=True)
    (place / "sources.list").write_text(_MIRROR)
    options = {"Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "-", "Dir::State::lists": "lists"}
    words = [word for name, value in options.items()
             for word in ("-o", f"{name}={value if value == '-' else place / value}")]  # fmt: skip
    subprocess.run(["apt-get", *words, "-qq", "update"], cwd=place, check=False)
    for program in PROGRAMS:
        command = ["apt-get", *words, "-qq", "source", "--download-only", program.package]
        subprocess.run(command, cwd=place, capture_output=True, check=False)
        for archive in sorted(place.glob(f"{program.package}_*.orig.tar.*")):
            directory = place / program.package
            directory.mkdir()
            subprocess.run(["tar", "-xf", archive, "-C", directory, "--strip-components=1"], check=True)
            yield program, directory


def _built(place: Path, sources: dict[Program, Path], flags: str) -> Iterator[Path]:
    where = place / flags.replace(" ", "")
    where.mkdir()
    for program, directory in sources.items():
        found = [file for pattern in program.sources for file in sorted(directory.glob(pattern))]
        files = [file for file in found if file.name not in program.without]
        yield _compiled(where / program.package, files, flags, program.flags, directory)
    for name in _OURS:
        files = [f for suffix in (".c", ".S") if (f := TESTS / f"{name}{suffix}").exists()]
        yield _compiled(where / name, files, flags, ("-D_GNU_SOURCE", "-pthread", "-lm", "-ldl"), TESTS)


def _compiled(program: Path, files: list[Path], flags: str, more: tuple[str, ...], where: Path) -> Path:
    subprocess.run(["cc", "-w", *flags.split(), "-o", program, *files, *more], cwd=where, check=True)
    return program


def _lacking(program: Path) -> tuple[int, int, int]:
    """The number of functions of a program, of those that `run` cannot time, and of those that `trace` cannot follow
    to their end."""
    with gilk.launch([str(program)]) as target, target.session() as session:
        probes = session.insert("*:entry", gilk.time)
        functions = {probe.row.function for probe in probes}
        run = {probe.row.function for probe in probes if probe.refusal == Refusal.NO_ROOM}
        target.process.kill_unstarted()
    with gilk.launch([str(program)]) as target, Follower(target.process) as follower:
        follower.prepare([loaded for loaded in target.images if loaded.main], TraceScope())
        missing = [(each.function, each.reason) for each in follower.unfollowed()]
        missing += [(each.function, each.reason) for each in follower.unended()]
        trace = {function for function, reason in missing if reason == Refusal.NO_ROOM}
        target.process.kill_unstarted()
    return len(functions), len(run), len(trace)
