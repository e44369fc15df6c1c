# SPDX-License-Identifier: LGPL-2.1-or-later
"""Headers of providers: programs that are compiled with one have the probes, and the probes have the right values."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.engines.dtrace.compiled import ProgramText, compile_programs
from gilk.errors import UsageError
from gilk.lang.d.header import header
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.probes import described
from gilk.lang.d.tree import Interface
from gilk.lang.syntax.source import Source
from gilk.providers import usdt
from gilk.targets.process import attach
from tests.providers.sessions import traced

HERE = Path(__file__).parent / "header"
STRICT = ("-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pedantic")
Build = Callable[..., Path]

PROGRAM = """
app$target:::start { printf("start\\n"); }
app$target:::small-sizes { printf("small %d %d %d %d %d %d\\n", arg0, arg1, arg2, arg3, arg4, arg5); }
app$target:::large
{
	printf("large %d %d %d %d %s %s\\n", arg0, arg1, arg2, arg3, copyinstr(arg4), copyinstr(arg5));
}
app$target:::request-done { printf("request %d\\n", *(int *)copyin(arg0, 4)); }
app$target:::many
{
	printf("many %d %d %d %d %d %d %d %d %d %d\\n", arg0, arg1, arg2, arg3, arg4, arg5, arg6, arg7, arg8, arg9);
}
"""


def interfaces(text: str) -> tuple[Interface, ...]:
    texts = [ProgramText("script", Source("app.d", text))]
    return compile_programs(texts, Macros({}, ("app.d",)), Options()).program.interfaces


@pytest.fixture
def build(tmp_path: Path) -> Build:
    (tmp_path / "app.h").write_text(header(interfaces((HERE / "app.d").read_text()), "app.h"))

    def made(compiler: str, *flags: str, library: tuple[str, ...] = ()) -> Path:
        """Build the program; with ``library``, its second file is a library, compiled with these flags."""
        if shutil.which(compiler) is None:
            pytest.skip(f"there is no {compiler}")
        second, rest = HERE / "library.c", [f"-I{tmp_path}", *STRICT]
        language = ["-xc++"] if "++" in compiler else []
        objects: list[str | Path] = [*language, HERE / "app.c"]
        if library:
            shared = tmp_path / "libother.so"
            subprocess.run([compiler, "-shared", *library, *rest, *language, second, "-o", shared], check=True)
            objects += ["-xnone", shared, f"-Wl,-rpath,{tmp_path}"]
        else:
            objects.append(second)
        subprocess.run([compiler, *flags, *rest, *objects, "-o", tmp_path / "app"], check=True)
        return tmp_path / "app"

    return made


@pytest.mark.parametrize(
    ("compiler", "flags", "library"),
    [
        pytest.param("gcc", ("-O0", "-std=c99"), (), marks=pytest.mark.stress),
        ("gcc", ("-O2", "-flto", "-s"), ("-O2", "-fPIC")),
        pytest.param(
            *("g++", ("-O2", "-static", "-ffunction-sections", "-Wl,--gc-sections"), ()), marks=pytest.mark.stress
        ),
        ("clang", ("-O0",), ("-O2", "-fPIC")),
        pytest.param("clang", ("-O2", "-flto"), (), marks=pytest.mark.stress),
    ],
)
def test_probes_get_the_values_that_the_program_passes(
    build: Build, capfd: pytest.CaptureFixture[str], compiler: str, flags: tuple[str, ...], library: tuple[str, ...]
) -> None:
    done = traced(PROGRAM, build(compiler, *flags, library=library))
    told = capfd.readouterr().out.splitlines()
    assert [line for line in told if line.startswith("enabled")] == 3 * ["enabled 1 1"]
    expected = [line for line in told if not line.startswith("enabled")]
    expected += 3 * ["start", "small 1 2 3 4 5 0"]
    assert len(expected) == 21
    assert sorted(done.lines) == sorted(expected)
    assert (done.refused, done.errors) == ({}, "")


def test_probes_are_enabled_only_during_a_session(build: Build) -> None:
    """The program ends when somebody has listened to it, and has gone; all files use the same counters."""
    app = build("gcc", "-O2")
    assert subprocess.run([app], capture_output=True, text=True, check=True).stdout.count("enabled 0 0") == 3
    with subprocess.Popen([app, "wait"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "waits\n"
        done = traced("app*:::start, app*:::small-sizes { n++; } tick-10ms /n > 10/ { exit(0); }", pid=process.pid)
        assert process.wait(60) == 0
    assert done.restored and not done.refused


def test_probes_have_the_names_of_the_definition(build: Build) -> None:
    with subprocess.Popen([build("gcc", "-O2"), "wait"], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        with attach(process.pid) as found:
            names = {probe.key[3] for probe in usdt.probes(found, described(f"app{process.pid}:::"))}
        process.kill()
    assert names == {"start", "small-sizes", "large", "request-done", "many", "value"}


def test_probe_notes_are_those_that_readelf_shows(build: Build) -> None:
    told = subprocess.run(["readelf", "-nW", build("gcc", "-O0")], capture_output=True, text=True, check=True).stdout
    first = ["start", "small__sizes", "large", "request__done", "many", "value"]
    assert re.findall(r"Name: (\S+)", told) == [*first, "small__sizes", "start"]
    sizes = [re.findall(r"(\S+)@", row) for row in re.findall(r"Arguments:(.*)", told)]
    assert sizes[1] == ["-1", "1", "-1", "-2", "2", "-4"]
    assert sizes[2] == ["-4", "4", "-8", "8", "8", "8"]
    assert sizes[4] == 10 * ["-4"]
    assert sizes[5] == ["8f"]


def test_without_dtrace_version_the_macros_are_empty(tmp_path: Path) -> None:
    (tmp_path / "app.h").write_text(header(interfaces((HERE / "app.d").read_text()), "app.h"))
    flags = ["-D_DTRACE_VERSION=0", f"-I{tmp_path}", "-O2", "-c", HERE / "library.c", "-o", tmp_path / "library.o"]
    subprocess.run(["gcc", *flags], check=True)
    told = subprocess.run(["readelf", "-SW", tmp_path / "library.o"], capture_output=True, text=True, check=True).stdout
    assert ".note.stapsdt" not in told and ".probes" not in told


def test_probe_arguments_that_cannot_be_passed_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        header(interfaces("typedef struct s { int x; } s_t; provider p { probe a(s_t); };"), "p.h")
    assert caught.value.slug == "not-for-a-header"
    assert header((), "a-b.h").startswith("/* Made by gilk dtrace -h. */\n#ifndef _A_B_H\n")
