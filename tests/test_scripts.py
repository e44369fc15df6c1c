# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run tools/scripts on a collection made here, with gilk and with a command made here in the place of dtrace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: By name: the text of a script, its result, and a part of the reason.
COLLECTION: dict[str, tuple[str, str, str]] = {
    "a/begins.d": ("#!/usr/sbin/dtrace -qs\nBEGIN { @ = count(); } ", "fired", ""),
    "a/ticks.d": ("#! /usr/sbin/dtrace -s\ntick-100ms { printf(\"once\"); }", "fired", ""),
    "a/silent.d": ("#!/usr/sbin/dtrace -qs\nBEGIN { printf(\"Tracing\"); } tick-50ms { n++; }", "silent", ""),
    "calls.d": ("#!/usr/sbin/dtrace -qs\nsyscall::write:entry { @[execname, $1] = count(); }", "fired", ""),
    "absent.d": ("#!/usr/sbin/dtrace -Zs\nperl*:::sub-entry { @ = count(); }", "silent", ""),
    "wrong.d": ("#!/usr/sbin/dtrace -s\nBEGIN { nothing(); }", "refused", "undefined function name: nothing"),
    "kernel.d": ("#!/usr/sbin/dtrace -s\n/* its */ fbt::vfs_read:entry { @ = count(); }", "kernel", ""),
    "variable.d": ("#!/usr/sbin/dtrace -s\nBEGIN { trace(`max_pfn); }", "kernel", ""),
    "comment.d": (
        "#!/usr/sbin/dtrace -s\n/* fbt:::entry */\n/* a `name */ tick-50ms { printf(\"fbt:::x\"); }", "fired", ""
    ),
    "wrapper": (
        "#!/bin/sh\necho `date` >&2\n/usr/sbin/dtrace -n 'syscall::write:entry { @[pid] = count(); }'", "fired", ""
    ),
    "line.d": ("dtrace -n 'syscall::write:entry { @[pid] = count(); }'\n", "fired", ""),
    "perl": (
        "#!/usr/bin/perl -w\nuse strict;\nsystem q(/usr/sbin/dtrace -n 'syscall::write:entry { @[pid] = count(); }');",
        "fired", ""
    ),
    "commands": (
        '#!/bin/sh\ncommand="$*"\n/usr/sbin/dtrace -c "$command" -n \'syscall:::entry { @ = count(); }\'', "fired", ""
    ),
}  # fmt: skip
OTHERS = {"README": "not a script", "data.txt": "#!/bin/sh\necho"}


def ran(collection: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "tools" / "scripts"), str(collection), "--jobs", "1", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout


def made(place: Path) -> Path:
    for name, text in {**{name: row[0] for name, row in COLLECTION.items()}, **OTHERS}.items():
        path = place / "collection" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (place / "collection" / "link.d").symlink_to("wrong.d")
    return place / "collection"


@pytest.mark.stress
def test_scripts_are_run_and_judged_by_what_fired(tmp_path: Path) -> None:
    state = tmp_path / "state"
    status, told = ran(made(tmp_path), "--seconds", "1", "--state", str(state), "--json")
    rows = {row["name"]: row for row in json.loads(told)}
    assert {name: row["result"] for name, row in rows.items()} == {name: row[1] for name, row in COLLECTION.items()}
    assert all(row[2] in rows[name]["why"] for name, row in COLLECTION.items())
    assert status == 0
    state.write_text(state.read_text().replace('"wrong.d", "refused"', '"wrong.d", "failed"'))
    status, told = ran(tmp_path / "collection", "--only", "w*", "--state", str(state))
    assert status == 1 and "failed   wrong.d  " in told and "refused" not in told


def test_a_command_that_breaks_is_a_failure(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'Traceback (most recent call last):' >&2\nexit 1\n")
    broken.chmod(0o755)
    status, told = ran(made(tmp_path), "--only", "wrong.d", "--command", str(broken))
    assert status == 1 and "failed   wrong.d  a traceback" in told
    assert ran(tmp_path / "collection", "--only", "none")[0] == 2
