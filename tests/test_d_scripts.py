# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each script of examples/d prints about a real program what its first lines promise."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "examples" / "d"
PYTHON = "/usr/bin/python3"
#: The traced command, the arguments of the script, and its expected output.
CASES = {
    "allocations": ("date +%Y", [], r"bytes taken: +\d{4,}\nbytes given back: +\d+\nasked for:\n"),
    "collections": (f"{PYTHON} -c 'import gc; gc.collect()'", [], r"generation 2: \d+ objects found"),
    "errors": ("cat nothing", [], r"cat +openat +2 +\d+\n"),
    "failed": ("bash -c nosuch", ["search_for_command", "newfstatat"], r"<= newfstatat +errno 2\n"),
    "flow": ("bash -c 'echo hello'", ["echo_builtin"], r"-> echo_builtin +\n.*<- echo_builtin +\n"),
    "hot": ("bash -c 'for ((i = 0; i < 60000; i++)); do :; done'", [], r"\d+ bash`\w+\n"),
    "imports": (f"{PYTHON} -c 'import json'", [], r"us alone +json\.decoder\n.*us alone +json\n"),
    "lastwords": ("bash -c 'echo hello'", [], r"\d+ exit_shell\n"),
    "locks": ("sort --parallel=2 numbers -o sorted", [], r"MUTEX +TID +WORST ns\n +[0-9a-f]{8,} +\d+ +\d+\n"),
    "maps": ("date +%Y", [], r"PID +FD +COUNT\n.*\d+ +3 +\d+\n"),
    "opens": ("cat nothing numbers", [], r"cat +-1 +2 nothing\n.*cat +3 +0 numbers\n"),
    "reads": ("wc -l numbers", [], r"spent \d+ nsecs in read\n.*all reads, nsecs"),
    "strings": ("bash -c 'for i in {1..50}; do : $HOME; done'", [], r" HOME +5\d\n"),
    "syscall_times": ("sort numbers -o sorted", [], r"\nwrite +\d+ +\d+ +\d+\n"),
    "syscalls": ("head -c 5 numbers", ["1"], r"\d+ +\d+ read\(0x3, 0x\w+, 0x5\) = 5\n"),
    "times": ("bash -c 'for i in 1 2 3; do echo $i; done'", ["bash"], r"echo_builtin +3 +\d+ +\d+\n"),
    "who_maps": ("date +%Y", [], r"libc\.so\.6`mmap\+0x\w+\n.*libc\.so\.6`setlocale\+0x\w+\n"),
    "writes": ("head -n 4 numbers", [], r" 1 +1 +8\n"),
}
QUICK = ("opens", "who_maps")


def test_every_script_has_a_case() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.d")} == CASES.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.stress) for name in CASES]
)
def test_a_script_prints_what_its_first_lines_promise(name: str, gilk_on_path: dict[str, str], tmp_path: Path) -> None:
    command, given, expected = CASES[name]
    (tmp_path / "numbers").write_text("".join(f"{n}\n" for n in range(1, 100_001)))
    words = ["gilk", "dtrace", "-s", str(SCRIPTS / f"{name}.d"), "-c", command, *given]
    done = subprocess.run(words, cwd=tmp_path, env=gilk_on_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\bdrops?\b|\berrors?\b on|dtrace: error", done.stderr)
    assert re.search(expected, done.stdout, re.DOTALL), done.stdout
