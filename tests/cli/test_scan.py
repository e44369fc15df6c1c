# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk scan``: its output, its exit status, and its end when it is interrupted."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gilk.engines.scan.scanning import scan as survey
from tests.behaviour.harness import children, run_gilk, wait_for
from tests.programs.build import build

Environment = dict[str, str]


def run(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_gilk("scan", *arguments, env=environment)


def as_json(environment: Environment, *arguments: str) -> Any:
    return json.loads(run(environment, *arguments, "--json").stdout)


@pytest.fixture
def work() -> str:
    return str(build("work"))


def test_json_of_a_scan_has_the_documented_members(gilk_on_path: Environment, work: str) -> None:
    found = as_json(gilk_on_path, work)
    assert found["image"] == "work"
    for side in ("pre", "post"):
        assert sum(found["points"][side].values()) == found["blocks"]
    refused = sum(found["points"][side]["refused"] for side in ("pre", "post"))
    assert sum(found["refusals"].values()) == refused
    assert isinstance(found["seconds"], float)
    assert "list" not in found
    assert as_json(gilk_on_path, work)["cached"] is True


def test_figures_of_functions_add_up_to_the_total(gilk_on_path: Environment, work: str) -> None:
    found = as_json(gilk_on_path, work, "--list")
    assert len(found["list"]) == found["functions"]
    for side in ("pre", "post"):
        for outcome, count in found["points"][side].items():
            assert sum(row["points"][side].get(outcome, 0) for row in found["list"]) == count
    main = next(row for row in found["list"] if row["function"] == "main")
    assert sum(main["points"]["pre"].values()) == main["blocks"] > 0


def test_text_has_the_same_figures(gilk_on_path: Environment, work: str) -> None:
    text, found = run(gilk_on_path, work, "-v").stdout, survey(work)
    assert f"{found.functions} functions, {found.blocks} blocks\n" in text
    row = re.search(r"^pre +(\d+) +(\d+) ", text, re.MULTILINE)
    assert row is not None
    assert row.groups() == (str(found.blocks), str(found.pre["jump"]))
    assert re.search(r"^0x[0-9a-f]+ .* main$", text, re.MULTILINE)


def test_hostile_names_do_not_reach_the_terminal(gilk_on_path: Environment, tmp_path: Path) -> None:
    source, program = tmp_path / "x.s", tmp_path / "x"
    source.write_text(".globl main\n.type main,@function\nmain: xor %eax,%eax\nret\n.size main,.-main\n")
    subprocess.run(["cc", "-o", program, source], check=True)
    content = program.read_bytes().replace(b"\0main\0", b"\0m\x1b\xffn\0")
    program.write_bytes(content)
    done = run(gilk_on_path, str(program), "--list")
    assert done.returncode == 0
    assert "m\\x1b\\xffn" in done.stdout
    assert "\x1b" not in done.stdout
    assert json.loads(run(gilk_on_path, str(program), "--json", "--list").stdout)


@pytest.mark.parametrize(
    ("arguments", "status", "slug"),
    [
        (["/nowhere/at-all"], 3, "no-such-file"),
        (["/etc/passwd"], 3, "not-elf"),
        (["pid:4194305"], 4, "no-such-process"),
        (["pid:one"], 2, "bad-target"),
        (["/bin/sleep", "no_such_function_there"], 2, "no-such-function"),
        (["/bin/sleep", "libc:malloc"], 2, "no-such-image"),
        (["/bin/sleep", ""], 2, "bad-point"),
    ],
)
def test_errors_of_a_scan_have_slugs_and_statuses(
    arguments: list[str], status: int, slug: str, gilk_on_path: Environment
) -> None:
    plain = run(gilk_on_path, *arguments)
    assert (plain.returncode, plain.stdout) == (status, "")
    assert plain.stderr.splitlines()[0].endswith(f"({slug})")
    assert as_json(gilk_on_path, *arguments)["error"]["slug"] == slug


def descendants(process: subprocess.Popen[bytes]) -> list[int]:
    """The scan's child processes, once it has any."""
    wait_for(lambda: process.poll() is not None or children(process.pid))
    return children(process.pid)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor, one process")
def test_an_interrupt_ends_a_scan_at_once_and_leaves_no_helper(gilk_on_path: Environment) -> None:
    command = [sys.executable, "-m", "gilk", "scan", "/bin/bash", "[a-z]*"]
    with subprocess.Popen(command, env=gilk_on_path, stderr=subprocess.PIPE, start_new_session=True) as process:
        helpers = descendants(process)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=250)
    assert helpers
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert wait_for(lambda: not any(map(running, helpers)))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor, one process")
def test_the_helper_process_ends_when_the_scan_is_killed(gilk_on_path: Environment) -> None:
    command = [sys.executable, "-m", "gilk", "scan", "/bin/bash", "[a-z]*"]
    with subprocess.Popen(command, env=gilk_on_path, start_new_session=True) as process:
        helpers = descendants(process)
        process.kill()
    assert helpers
    assert wait_for(lambda: not any(map(running, helpers)))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_progress_bar_is_drawn_on_a_terminal_only(gilk_on_path: Environment) -> None:
    ours, theirs = pty.openpty()
    environment = {**gilk_on_path, "TERM": "xterm", "GILK_PROGRESS": "1e-9"}
    command = ["gilk", "scan", "/bin/bash", "re*"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
        assert process.stdout is not None
        printed = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert b"planning" in shown
    assert printed.startswith(b"bash: /bin/bash\n")
    assert run(gilk_on_path, "/bin/bash", "reset_parser").stderr == ""
