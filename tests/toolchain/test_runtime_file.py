# SPDX-License-Identifier: LGPL-2.1-or-later
"""A package that was built where there is a compiler runs where there is none."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import setuptools

from gilk.toolchain import runtime_file
from tests.places import ROOT
from tests.programs.build import compile_text

COUNTED = """
__attribute__((noipa)) int f(int x) { return x + 1; }
int main(void) { int n = 0; for (int i = 0; i < 7; i++) n += f(i); return n != 28; }
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a copy of gilk, finished as setup.py finishes a package."""
    commands: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", commands.update)
    runpy.run_path(str(ROOT / "setup.py"))
    place = tmp_path / "site"
    shutil.copytree(ROOT / "src" / "gilk", place / "gilk", ignore=shutil.ignore_patterns("__pycache__"))
    finishing = commands["cmdclass"]["build_py"](setuptools.Distribution({"name": "gilk", "packages": []}))
    finishing.set_undefined_options = lambda *_: None
    finishing.build_lib, finishing.editable_mode = str(place), False
    finishing.packages = finishing.py_modules = None
    finishing.run()
    return place


def _run(package: Path, program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "PYTHONPATH": str(package), "GILK_CACHE": str(package.parent / "cache"), "CC": "/nowhere/cc",
    }  # fmt: skip
    inserts = [word for each in words for word in ("-i", each)]
    command = [sys.executable, "-P", "-m", "gilk", "run", "--cost", "--json", *inserts, "--", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


def test_a_package_counts_and_records_without_a_compiler(package: Path, tmp_path: Path) -> None:
    program = compile_text(tmp_path, "counted", COUNTED, "-O1")
    done = _run(package, program, "f:entry=count", "f:return=stamp", "main:entry=time", "main:entry=args")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["counts"] == {"counted:f:entry": 7} and report["cost"]["each_ns"].keys() >= {"count", "stamp"}
    assert (report["records"], list(report["latency"]), report["restored"]) == (7 + 2 + 1, ["main"], True)
    (package / runtime_file.SHIPPED.relative_to(ROOT / "src")).unlink()
    assert "no-compiler" in _run(package, program, "f:entry=count").stdout  # negative control
