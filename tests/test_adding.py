# SPDX-License-Identifier: LGPL-2.1-or-later
"""Count how many files must change to add something to gilk: each test adds it in a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.programs.build import build

SOURCE = Path(__file__).parent.parent / "src"
PROVIDER = """
from gilk.lang.ir import Binary, Constant, Given
from gilk.lang.machine import CallArg
from gilk.lang.types import UINT64
from gilk.providers.probe import ProcessProbe, ProbeSite
from gilk.image import lookup
from gilk.splice import points

NOT_SEEN = {"hours": "it counts beats"}
_TWICE = Binary(UINT64, "*", CallArg(0), Constant(UINT64, 2))


def probes(process, description):
    if description.provider != "pulse" or description.name not in ("", "beat"):
        return
    for loaded in process.loaded():
        image = process.image(loaded.path)
        for span in lookup.spans(image, "step") if loaded.main else ():
            site = ProbeSite(loaded, span.start, points.entry(image.name, span), Given((CallArg(0), _TWICE)))
            yield ProcessProbe(("pulse", "", span.name, "beat"), (site,))
"""
BUILT_IN = """
static inline gd_u64 gd_doubled(struct gd_context *ctx)
{
	return 2 * (gd_u64)ctx->event->tid;
}
"""


@dataclass(frozen=True)
class Copy:
    package: Path

    def add(self, path: str, text: str) -> None:
        file = self.package / path
        assert not file.exists()
        file.write_text(text)

    def add_row(self, path: str, behind: str, row: str) -> None:
        file = self.package / path
        text = file.read_text()
        assert text.count(behind) == 1
        file.write_text(text.replace(behind, behind + row))

    def changed(self) -> set[str]:
        mine, theirs = _files(self.package), _files(SOURCE / "gilk")
        return {path for path in mine.keys() | theirs.keys() if mine.get(path) != theirs.get(path)}

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.package.parent), "NO_COLOR": "1"}
        words = [sys.executable, "-m", "gilk", *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, env=environment)

    def dtrace(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.run("dtrace", *arguments)


def _files(package: Path) -> Mapping[str, bytes]:
    found = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(package)): path.read_bytes() for path in found}


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    shutil.copytree(SOURCE / "gilk", tmp_path / "gilk", ignore=shutil.ignore_patterns("__pycache__"))
    return Copy(tmp_path / "gilk")


def test_a_provider_is_a_file_and_a_row(copy: Copy) -> None:
    copy.add("providers/pulse.py", PROVIDER)
    copy.add_row("providers/__init__.py", '"proc": "proc"', ', "pulse": "pulse"')
    assert copy.changed() == {"providers/pulse.py", "providers/__init__.py"}
    program = """#pragma D depends_on provider pulse
        pulse:::beat { @n["beats"] = count(); @f["first"] = sum(arg0); @t["second"] = sum(arg1); }"""
    done = copy.dtrace("-q", "-n", program, "-c", build("marked"))
    numbers = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    assert int(numbers["beats"]) > 0 and int(numbers["second"]) == 2 * int(numbers["first"]) > 0, done.stderr
    assert "it counts beats" in copy.dtrace("-n", "pulse:::hours { }", "-c", build("marked")).stderr


def test_a_built_in_is_a_file_and_a_row(copy: Copy) -> None:
    copy.add("native/runtime/d/doubled.h", BUILT_IN)
    copy.add_row("lang/variables.py", "gd_ustackdepth\n", "    doubled u64 doubled.h\n")
    assert copy.changed() == {"native/runtime/d/doubled.h", "lang/variables.py"}
    done = copy.dtrace(
        "-q", "-n", 'BEGIN { printf("%d %s", doubled - tid, doubled == 2 * tid ? "same" : "other"); exit(0); }'
    )
    number, word = done.stdout.split()
    assert int(number) > 0 and word == "same", done.stderr


COMMAND = """
import click

from gilk.api import scans


@click.command()
@click.argument("name")
def greet(name):
    click.echo(f"{name}: {scans.__name__}")
    return 3
"""


def test_a_subcommand_is_a_file_and_a_row(copy: Copy) -> None:
    copy.add("cli/greet.py", COMMAND)
    copy.add_row("cli/main.py", "COMMANDS = {\n", '    "greet": "Greet somebody.",\n')
    assert copy.changed() == {"cli/greet.py", "cli/main.py"}
    done = copy.run("greet", "you")
    assert (done.returncode, done.stdout) == (3, "you: gilk.api.scans\n"), done.stderr
    assert "Greet somebody." in copy.run("--help").stdout


EXPORTER = """
def parts(trace):
    yield f"{trace.flow.table.num_rows} calls\\n"
"""


@pytest.mark.stress
def test_an_exporter_is_a_file_and_a_row(copy: Copy, tmp_path: Path) -> None:
    copy.add("render/export/total.py", EXPORTER)
    copy.add_row("cli/export.py", "from gilk.render.export import ", "total, ")
    copy.add_row("cli/export.py", '    "csv": (plain.csv, ".csv"),\n', '    "total": (total.parts, ".txt"),\n')
    assert copy.changed() == {"render/export/total.py", "cli/export.py"}
    samples = tmp_path / "samples.parquet"
    made = copy.run("run", "-q", "-i", "step:entry=time", "-o", samples, "-c", build("marked"))
    assert made.returncode == 0, made.stderr
    done = copy.run("export", samples, "--to", "total", "-o", "-")
    assert done.stdout.endswith(" calls\n") and int(done.stdout.split()[0]) > 0, done.stderr
