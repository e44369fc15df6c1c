# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk lab`: a command goes into the machine and its results come out, but nothing else does."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from tests.seldom import seldom

LIMIT = 120  # seconds, for a boot and little more
Environment = dict[str, str]


def lab(
    environment: Environment, *words: str, given: bytes = b"", directory: Path | None = None
) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        ["gilk", "lab", *words], env=environment, input=given, capture_output=True, timeout=LIMIT, cwd=directory
    )
    return done.returncode, done.stdout, done.stderr


def test_bytes_status_directory_and_environment_pass_between_lab_and_command(
    gilk_on_path: Environment, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 5000
    script = 'cat; pwd >&2; echo "$WORD" >&2; kill -9 $$'
    environment = {**gilk_on_path, "WORD": "a  word'"}
    status, out, err = lab(environment, "run", "--", "sh", "-c", script, given=data, directory=tmp_path)
    assert (status, out, err.decode()) == (128 + 9, data, f"{tmp_path}\na  word'\n")


@pytest.mark.stress
def test_the_lab_machine_has_the_properties_that_options_request(gilk_on_path: Environment, tmp_path: Path) -> None:
    """With --icount, the kernel measures a clock of one tick per nanosecond."""
    script = f"grep MHz /proc/cpuinfo; cat /proc/cmdline; grep MemTotal /proc/meminfo; echo done > '{tmp_path}/file'"
    options = ["--icount", "--memory", "700", "--append", "preempt=full", "--append", "quux", "--rw", str(tmp_path)]
    status, out, err = lab(gilk_on_path, "run", *options, "sh", "-c", script)
    assert (status, err) == (0, b"")
    clock, arguments, memory = out.decode().splitlines()
    assert float(clock.split()[-1]) == pytest.approx(1000, rel=1e-3)
    assert "preempt=full quux" in arguments
    assert 500 << 10 < int(memory.split()[1]) < 700 << 10
    assert (tmp_path / "file").read_text() == "done\n"


@pytest.mark.parametrize(
    ("words", "slug", "status"),
    [
        (["run", "--kernel", "no/release", "true"], "bad-release", 2),
        (["run", "--memory", "1", "true"], "bad-machine", 2),
        (["run", "--cpus", "2", "--icount", "true"], "bad-machine", 2),
        (["run", "--timeout", "0.5", "true"], "lab-no-boot", 4),
        pytest.param(["run", "--", "/nonesuch"], "cannot-launch", 4, marks=pytest.mark.stress),
    ],
)
def test_errors_of_the_lab_have_slugs_and_statuses(
    gilk_on_path: Environment, words: list[str], slug: str, status: int
) -> None:
    found, out, err = lab(gilk_on_path, *words)
    assert (found, out) == (status, b"")
    assert f"({slug})" in err.decode()


def test_the_lab_without_qemu_is_an_error(gilk_on_path: Environment, tmp_path: Path) -> None:
    (tmp_path / "gilk").symlink_to(Path(gilk_on_path["PATH"].split(":")[0]) / "gilk")
    status, _, err = lab({**gilk_on_path, "PATH": str(tmp_path)}, "run", "true")
    assert status == 4
    assert "(lab-no-qemu)" in err.decode() and "apt-get install" in err.decode()


@pytest.mark.parametrize("number", seldom([signal.SIGKILL, signal.SIGINT], 1))
def test_the_lab_machine_ends_with_gilk(gilk_on_path: Environment, number: signal.Signals) -> None:
    """gilk is interrupted, or killed without a chance to clean up; QEMU is its child."""
    words = ["gilk", "lab", "run", "--", "sh", "-c", "echo up; exec sleep 1000"]
    with subprocess.Popen(words, env=gilk_on_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        handles = [os.pidfd_open(int(child)) for child in children]
        assert handles
        process.send_signal(number)
        ended = [bool(select.select([handle], [], [], LIMIT)[0]) for handle in handles]
        for handle in handles:
            os.close(handle)
        assert process.wait(LIMIT) == (130 if number == signal.SIGINT else -number)
    assert all(ended)


def test_a_shell_in_the_lab_has_a_terminal(gilk_on_path: Environment) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("<HHHH", 33, 101, 0, 0))
    before = termios.tcgetattr(theirs)
    # Short sleeps: a shell that is interrupted just before it starts a command runs its trap when the command ends.
    loop = "trap 'echo caught; exit 5' INT; stty size; while :; do sleep 0.2; done"
    words = ["gilk", "lab", "shell", "--", "sh", "-c", loop]
    with subprocess.Popen(words, env=gilk_on_path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        assert _until(ours, b"33 101\r\n")
        os.write(ours, b"\x03")
        assert _until(ours, b"caught")
        assert process.wait(LIMIT) == 5
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def _until(descriptor: int, wanted: bytes) -> bool:
    seen = b""
    while wanted not in seen:
        if not select.select([descriptor], [], [], LIMIT)[0]:
            return False
        seen += os.read(descriptor, 4096)
    return True
