# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of ``gilk dtrace``: JSON, tables, files and pipes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.cli.conftest import Dtrace
from tests.programs.build import build

HOT = "pid$target:a.out:hot"
TEXT = "pid$target:a.out:text_hash"


def test_output_is_appended_to_a_file(dtrace: Dtrace, tmp_path: Path) -> None:
    for _ in range(2):
        done = dtrace("-q", "-o", "out", "-n", 'BEGIN { printf("x"); exit(0); }')
        assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "out").read_text() == "x\nx\n"


def test_json_has_an_object_a_line_and_loses_nothing(dtrace: Dtrace) -> None:
    program = r'BEGIN { @[probename] = count(); printf("%s %u", "a\377b", 18446744073709551615); exit(3); }'
    done = dtrace("--json", "-n", program)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr, lines[0]["type"], lines[0]["version"]) == (3, "", "dtrace", 1)
    (printed,) = (line for line in lines if line["type"] == "printed")
    assert printed["values"] == [{"bytes": "61ff62"}, 18446744073709551615]
    (snapshot,) = (line for line in lines if line["type"] == "snapshot")
    assert snapshot["rows"] == [{"keys": ["BEGIN"], "values": [1]}]
    assert lines[-1] == {"type": "exited", "status": 3, "restored": None}


def test_json_has_the_error_of_a_program_that_does_not_compile(dtrace: Dtrace) -> None:
    done = dtrace("--json", "-n", "BEGIN { nothing; }")
    first, last = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, done.stderr, first["type"]) == (1, "", "dtrace")
    assert (last["type"], last["error"]["tag"]) == ("error", "D_IDENT_UNDEF")


def test_json_says_which_action_could_not_be_carried_out(dtrace: Dtrace) -> None:
    done = dtrace("--json", "-n", 'BEGIN { setopt("quiet", "um, no"); exit(0); }')
    (failed,) = (line for line in map(json.loads, done.stdout.splitlines()) if line["type"] == "failed")
    why = 'couldn\'t set option "quiet" to "um, no": Invalid value for specified option'
    assert (failed["clause"], failed["action"], failed["why"]) == (1, "setopt", why)


def test_messages_go_to_the_terminal_too_when_json_goes_to_a_file(dtrace: Dtrace, tmp_path: Path) -> None:
    done = dtrace("--json", "-o", tmp_path / "out", "-n", "BEGIN { nothing; }")
    last = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    assert (done.returncode, done.stdout, last["type"]) == (1, "", "error")
    assert last["error"]["message"] in done.stderr


def test_json_ends_in_order_at_a_signal(gilk_on_path: dict[str, str]) -> None:
    words = ["gilk", "dtrace", "--json", "-n", "tick-1ms { @ = count(); } tick-1ms /!n++/ { trace(n); }"]
    with subprocess.Popen(words, env=gilk_on_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout
        while json.loads(run.stdout.readline())["type"] != "printed":
            pass
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=250)
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert (run.returncode, err) == (0, "") and kinds[-3:] == ["ended", "snapshot", "exited"]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_dtrace_ends_when_its_reader_closes_the_pipe(gilk_on_path: dict[str, str], form: list[str]) -> None:
    """SIGPIPE ends the command, as it ends others, and the process is what it was."""
    with Loop([build("work")]) as loop:
        words = ["gilk", "dtrace", *form, "-q", "-n", f'{TEXT}:entry {{ printf("hit\\n"); }}', "-p", str(loop.pid)]
        with subprocess.Popen(words, env=gilk_on_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            assert run.stdout and run.stderr and run.stdout.readline()
            run.stdout.close()
            assert run.wait(timeout=250) in (-signal.SIGPIPE, 128 + signal.SIGPIPE)
            assert b"Traceback" not in run.stderr.read()
        assert wait_for(lambda: not differences(loop.pid) and not leftovers(loop.pid))


def test_json_of_a_launched_command_has_every_call(dtrace: Dtrace, tmp_path: Path) -> None:
    """The command's own output stays out of the file."""
    program = 'pid$target:bash:xmalloc:entry { @ = count(); trace(arg0); } END { printf("%s", "done"); }'
    done = dtrace("--json", "-o", "out", "-n", program, "-c", "bash -c 'echo {}'")
    events = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    (snapshot,) = (event for event in events if event["type"] == "snapshot")
    traced = [event for event in events if event["type"] == "printed" and event["action"] == "trace"]
    assert (done.returncode, done.stdout, events[-1]["restored"]) == (0, "{}\n", True)
    assert snapshot["rows"] == [{"keys": [], "values": [len(traced)]}] and traced


def test_output_as_a_parquet_table_of_records_and_aggregations(
    dtrace: Dtrace, tmp_path: Path, gilk_on_path: dict[str, str]
) -> None:
    program = 'pid$target:bash:xmalloc:entry { @[probefunc] = count(); printf("%d bytes\\n", arg0); }'
    done = dtrace("-q", "-o", "out.parquet", "-n", program, "-c", "bash -c 'echo {}'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "{}\n", "")
    right = "type = 'printed' AND text = data[1].integer || ' bytes' || chr(10)"
    sql = f"SELECT (SELECT count(*) FROM events WHERE {right}), keys[1].text, total.integer FROM aggregations"
    words = ["gilk", "query", "out.parquet", sql, "--json"]
    asked = subprocess.run(words, env=gilk_on_path, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    ((printed, key, counted),) = json.loads(asked.stdout)["rows"]
    assert key == "xmalloc" and printed == counted > 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--json", "-o", "x.parquet"], "only one can be given"),
        (["-o", "/proc/x.parquet"], "cannot make|cannot-write|No such file"),
        (["-o", "."], "is not a regular file|Is a directory|cannot-write"),
    ],
)
def test_an_impossible_output_table_is_refused_before_the_program_runs(
    dtrace: Dtrace, words: list[str], told: str
) -> None:
    done = dtrace(*words, "-n", 'BEGIN { system("echo run"); exit(0); }', "-w")
    assert done.returncode in (1, 2) and re.search(told, done.stdout + done.stderr) and "run\n" not in done.stdout
