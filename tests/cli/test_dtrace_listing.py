# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk dtrace -l`` and ``--words``: the probes that there are, and the words that may stand at a place."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.behaviour.harness import Loop, differences, leftovers
from tests.cli.conftest import Dtrace
from tests.programs.build import build

HOT = "pid$target:a.out:hot"
TEXT = "pid$target:a.out:text_hash"


def test_words_prints_completions_for_an_editor(dtrace: Dtrace, tmp_path: Path) -> None:
    with Loop([build("work")]) as loop:
        text = "pid$target:a.out:disp"
        done = dtrace("--words", len(text), "-p", loop.pid, "-n", text)
        assert (done.returncode, done.stdout, done.stderr) == (0, "dispatch  work\n", "")
        (tmp_path / "é.d").write_text('BEGIN { trace("é"); }\n\npid$target:a.out:disp')
        done = dtrace("--words", 44, "--json", "-p", loop.pid, "-s", "é.d")
        found = json.loads(done.stdout)
        assert [word["text"] for word in found["words"]] == ["dispatch"] and (found["start"], found["end"]) == (40, 44)
        assert not differences(loop.pid) and not leftovers(loop.pid)


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (("-n", "BEGIN", "--words", "9"), "no-such-letter"),
        (("-n", "BEGIN", "-n", "END", "--words", "1"), "words-of-one"),
        (("-f", "main", "--words", "1"), "words-of-one"),
        (("-s", "nothing.d", "--words", "1"), "cannot-open-script"),
        (("-n", "BEGIN", "-c", "true", "--words", "1"), "two-modes"),
        (("-n", "BEGIN", "-l", "--words", "1"), "two-modes"),
    ],
)
def test_bad_uses_of_words_are_refused(dtrace: Dtrace, words: tuple[str, ...], slug: str) -> None:
    done = dtrace(*words)
    assert done.returncode and f"({slug})" in done.stderr


def test_list_prints_the_probes_that_match(dtrace: Dtrace) -> None:
    with Loop([build("work")]) as loop:
        done = dtrace("-l", "-p", loop.pid, "-n", f"{TEXT}:", "-P", "dtrace")
    rows = [line.split() for line in done.stdout.splitlines()]
    pid = f"pid{loop.pid}"
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "--disassemble=text_hash", build("work")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.findall(r"^ +([0-9a-f]+):\t(.*)$", code, re.MULTILINE)
    start = int(found[0][0], 16)
    offsets = {f"{int(address, 16) - start:x}": words for address, words in found}
    listed = [row[4] for row in rows[6:]]
    assert all(row[1:4] == [pid, "work", "text_hash"] for row in rows[6:])
    assert listed == [offset for offset in offsets if offset in listed]
    assert all(re.search("nop|xchg +%ax,%ax", offsets[offset]) for offset in offsets.keys() - set(listed))  # padding
    assert rows[:6] == [
        ["ID", "PROVIDER", "MODULE", "FUNCTION", "NAME"],
        ["1", "dtrace", "BEGIN"],
        ["2", "dtrace", "END"],
        ["3", "dtrace", "ERROR"],
        ["10001", pid, "work", "text_hash", "entry"],
        ["10002", pid, "work", "text_hash", "return"],
    ]


def test_list_reports_descriptions_that_match_nothing(dtrace: Dtrace) -> None:
    done = dtrace("-l", "-m", "nosuch", "-n", "END")
    assert (done.returncode, [line.split()[-1] for line in done.stdout.splitlines()]) == (0, ["NAME", "END"])
    assert done.stderr == "dtrace: failed to match :nosuch::: No probe matches description\n"


def test_a_list_without_a_process_has_the_system_calls(dtrace: Dtrace) -> None:
    """They are those of the kernel's header; only a description that means some is told to take a process."""
    header = subprocess.run(
        ["cc", "-E", "-dM", "-include", "asm/unistd_64.h", "-x", "c", "/dev/null"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    done = dtrace("-l", "-n", "syscall::read*:entry", "-n", "syscall::nosuch*:")
    listed = [line.split()[1:] for line in done.stdout.splitlines()[1:]]
    wanted = set(re.findall(r"__NR_(read\w*) ", header))
    assert len(wanted) > 3
    assert sorted(listed) == sorted(["syscall", "vmlinux", name, "entry"] for name in wanted)
    assert done.stderr == "dtrace: failed to match syscall::nosuch*:: No probe matches description\n"
    assert "that takes a process" in dtrace("-n", "syscall::read*:entry").stderr
    assert dtrace("-n", "syscall::nosuch*:entry").stderr.endswith("does not match any probes\n")
