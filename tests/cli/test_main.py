# SPDX-License-Identifier: LGPL-2.1-or-later
"""The command line itself: it lists its commands, loads few modules, and ends as documented."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys

import click
import pytest

from gilk.cli import main as cli_main
from gilk.cli.main import main, wants_json
from gilk.errors import TargetError


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gilk", *arguments], capture_output=True, text=True)


def add_command(monkeypatch: pytest.MonkeyPatch, action: click.Command) -> None:
    monkeypatch.setattr(cli_main.Commands, "list_commands", lambda self, ctx: ["broken"])
    monkeypatch.setattr(cli_main.Commands, "get_command", lambda self, ctx, name: action)


def command_that_raises(error: BaseException) -> click.Command:
    @click.command()
    @click.option("--json", is_flag=True)
    def broken(json: bool) -> None:
        raise error

    return broken


def test_help_lists_the_commands_and_imports_none_of_them() -> None:
    code = (
        "import sys\nfrom gilk.cli.main import main\nstatus = main(['--help'])\n"
        "heavy = {'numpy', 'pyarrow', 'duckdb', 'iced_x86', 'rich', 'gilk.cli.doctor', 'gilk.api'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert " Show what works on this machine" in done.stdout
    assert done.stdout.endswith("heavy: []\n")


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == "gilk 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gilk", "ano"], {"anomalies"}),
        (["gilk", "tra"], {"trace"}),
        (["gilk", "trace", "--s"], {"--start", "--stop", "--scope", "--skip"}),
        (["gilk", "nothing", "--s"], set()),
    ],
)
def test_a_shell_completes_commands_and_options(
    gilk_on_path: dict[str, str], words: list[str], expected: set[str]
) -> None:
    """bash itself runs the completion script for bash."""
    script = (
        'set -e; script=$(_GILK_COMPLETE=bash_source gilk); eval "$script"; complete -p gilk >&2;'
        "COMP_CWORD=$(($# - 1));"
        'COMP_WORDS=("$@"); _gilk_completion gilk; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words], env=gilk_on_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, "_gilk_completion" in done.stderr) == (0, True), done.stderr
    assert set(done.stdout.split()) == expected


def test_an_unknown_command_suggests_a_similar_one() -> None:
    done = run("docter")
    assert done.returncode == 2
    assert "Did you mean 'doctor'?" in done.stderr


def test_a_gilk_error_is_one_line_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(monkeypatch, command_that_raises(TargetError("no-process", "no process 4711", "ps lists them")))
    assert main(["broken"]) == 4
    captured = capsys.readouterr()
    assert captured.err == "gilk: no process 4711 (no-process)\n  ps lists them\n"
    assert captured.out == ""


def test_under_json_an_error_is_the_last_line_of_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(monkeypatch, command_that_raises(TargetError("no-process", "no process 4711")))
    assert main(["broken", "--json"]) == 4
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == {"error": {"slug": "no-process", "message": "no process 4711", "hint": ""}}


def test_a_usage_error_under_json_has_a_slug() -> None:
    done = run("doctor", "--json", "--nonsense")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["slug"] == "usage"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), 130),
        (OSError(28, "No space left on device", "x.parquet"), 1),
        (click.exceptions.Exit(3), 3),
    ],
)
def test_other_exceptions_have_exit_statuses_and_no_traceback(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command(monkeypatch, command_that_raises(error))
    assert main(["broken"]) == status
    assert "Traceback" not in capsys.readouterr().err


def test_a_full_disk_error_names_the_directories_in_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", "/no/room")
    monkeypatch.setenv("GILK_CACHE", "/nor/here")
    add_command(monkeypatch, command_that_raises(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    assert main(["broken"]) == 1
    message = capsys.readouterr().err
    assert "(system)" in message
    assert "/no/room" in message
    assert "/nor/here" in message


def test_unexpected_exceptions_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    add_command(monkeypatch, command_that_raises(ZeroDivisionError("ours")))
    with pytest.raises(ZeroDivisionError):
        main(["broken"])


def test_a_reader_that_closes_the_pipe_early_is_no_error() -> None:
    pipeline = f"{shlex.quote(sys.executable)} -m gilk --help | true; echo ${{PIPESTATUS[0]}}"
    for _ in range(3):
        done = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True)
        assert done.stderr == ""
        assert done.stdout in ("0\n", "141\n")


def test_a_closed_output_ends_with_141() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        command = [sys.executable, "-m", "gilk", "--help"]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert done.returncode in (141, -signal.SIGPIPE) and done.stderr == ""


def test_a_json_option_of_the_launched_command_is_not_gilks() -> None:
    assert wants_json(["run", "--json", "--", "ls"])
    assert not wants_json(["run", "--", "tool", "--json"])
