# SPDX-License-Identifier: LGPL-2.1-or-later
"""A thread that looks up a place is preempted at each instruction, and its table of places is rewritten meanwhile."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from gilk.toolchain.compilers import NATIVE, flags
from tests.native.host import HOSTS, build

PROGRAM = Path(__file__).with_name("rewritten.c")
CHECK = "return version_of(places) == version;"


def run(native: Path) -> subprocess.CompletedProcess[str]:
    sources = [PROGRAM, *sorted((native / "runtime").glob("*.c"))]
    alias = "-Wl,--defsym=gilk_control=gilk_params"
    program = build(sources, "rewritten", *flags(), "-mgeneral-regs-only", alias, *HOSTS["test"], native=native)
    return subprocess.run([program], capture_output=True, text=True, timeout=600)


def test_places_are_found_in_one_table_whenever_it_is_rewritten() -> None:
    done = run(NATIVE)
    assert done.returncode == 0, done.stdout[-2000:]
    assert int(done.stdout) > 100


def test_negative_control_without_the_version_two_tables_are_mixed(tmp_path: Path) -> None:
    """Negative control: the version is not read again after the look-up."""
    native = Path(shutil.copytree(NATIVE, tmp_path / "native"))
    source = native / "runtime" / "places.c"
    text = source.read_text()
    assert CHECK in text
    source.write_text(text.replace(CHECK, "return 1;"))
    done = run(native)
    assert done.returncode == 1 and "interrupted at" in done.stdout
