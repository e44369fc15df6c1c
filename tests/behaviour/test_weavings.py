# SPDX-License-Identifier: LGPL-2.1-or-later
"""Weavings in the background: listed, shown, switched, and taken out by other commands."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gilk.errors import GilkError, TargetError, UsageError
from gilk.session.broker import control
from gilk.targets.atomic import set_bit
from tests.behaviour.advised import Rounds, build, rounds
from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, run_gilk, wait_for

PROGRAM = """
NOINLINE long one(long k) { __asm__ volatile(""); return 2 * k; }
NOINLINE long two(long k) { __asm__ volatile(""); return 3 * k; }
static void one_round(void)
{
	static long n;
	long first = one(++n);

	printf("%ld %ld\\n", first, two(n));
}
"""
ASPECTS = """group A;
aspect first: A: call(long one(long k)) then { report("one %ld", k); };
aspect second: A: call(long two(long k)) then { report("two %ld", k); };
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("weavings"), PROGRAM)


@contextmanager
def in_background(target: Rounds, place: Path, *more: str) -> Iterator[int]:
    """Weave in the background. Yields the number of the weaving, which is ended after the block in any case."""
    path = place / "some.aspect"
    path.write_text(ASPECTS)
    done = run_gilk("weave", path, "-p", str(target.pid), "-d", *more)
    assert (done.returncode, done.stdout.strip().isdecimal()) == (0, True), done.stderr
    number = int(done.stdout)
    try:
        yield number
    finally:
        with_status = run_gilk("aspect", "remove", str(number))
        assert with_status.returncode == 0 or "(no-such-weaving)" in with_status.stderr


def shown(number: int) -> dict[str, Any]:
    """What `gilk aspect show` tells. A weaver that is at work may want to be asked again (`busy`)."""
    answers: list[dict[str, Any]] = []

    def is_answered() -> bool:
        done = run_gilk("aspect", "show", str(number), "--json")
        answers.append(json.loads(done.stdout))
        assert done.returncode == 0 or answers[-1]["error"]["slug"] == "busy", done.stderr
        return done.returncode == 0

    assert wait_for(is_answered)
    return answers[-1]


def matches(number: int) -> dict[str, int]:
    return {one["name"]: one["matches"][0] for one in shown(number)["aspects"]}


def test_a_weaving_goes_on_in_the_background_until_it_is_removed(program: Path, tmp_path: Path) -> None:
    with rounds(program) as target:
        with in_background(target, tmp_path) as number:
            target.ask()
            found = shown(number)
            assert found["pids"] == [target.pid]
            assert wait_for(lambda: [one["text"] for one in shown(number)["reports"]] == ["one 1", "two 1"])
            listed = json.loads(run_gilk("aspect", "list", "--json").stdout)["weavings"]
            assert [one["file"] for one in listed if one["id"] == number] == [str(tmp_path / "some.aspect")]
            text = run_gilk("aspect", "show", str(number)).stdout
            assert "first: matches 1" in text and f"[{target.pid}] two 1" in text
            assert str(number) in run_gilk("aspect", "list").stdout
        assert (differences(target.pid), leftovers(target.pid)) == ([], [])
        done = run_gilk("aspect", "show", str(number))
        assert (done.returncode != 0, "(no-such-weaving)" in done.stderr) == (True, True)


#: Prints whether clients find a weaver at the moment at which `gilk weave` says that it has woven.
FOUND_WHEN_BEGUN = """
import os, sys
from gilk.cli import main, weave_told
from gilk.session.broker import control
begun = weave_told.WeavingTold.begun
def told(self, weaving):
    print(control.is_there(os.getpid(), control.WEAVE), flush=True)
    begun(self, weaving)
weave_told.WeavingTold.begun = told
sys.argv[1:] = ["weave", *sys.argv[1:], "--for", "0"]
sys.exit(main.run())
"""


def test_commands_find_a_weaving_from_the_moment_at_which_it_is_said_to_be_woven(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.aspect"
    path.write_text(ASPECTS)
    with rounds(program) as target:
        words = [sys.executable, "-c", FOUND_WHEN_BEGUN, path, "-p", str(target.pid)]
        done = subprocess.run(words, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=True)
        assert (done.stdout.splitlines()[0], "woven" in done.stderr) == ("True", True)


def test_aspects_are_switched_off_and_on_one_by_one(program: Path, tmp_path: Path) -> None:
    with rounds(program) as target, in_background(target, tmp_path) as number:
        target.ask()
        assert matches(number) == {"first": 1, "second": 1}
        assert run_gilk("aspect", "off", str(number), "first").returncode == 0
        target.ask()
        assert matches(number) == {"first": 1, "second": 2}
        assert run_gilk("aspect", "off", str(number)).returncode == 0
        target.ask()
        assert matches(number) == {"first": 1, "second": 2}
        assert run_gilk("aspect", "on", str(number), "first", "second").returncode == 0
        target.ask()
        assert matches(number) == {"first": 2, "second": 3}
        done = run_gilk("aspect", "off", str(number), "third")
        assert (done.returncode != 0, "(no-such-aspect)" in done.stderr) == (True, True)


def test_reports_are_written_into_a_file(program: Path, tmp_path: Path) -> None:
    output = tmp_path / "reports.jsonl"
    with rounds(program) as target:
        with in_background(target, tmp_path, "-o", str(output)):
            target.ask()
            assert wait_for(lambda: output.read_text().count('"report"') == 2)
        assert wait_for(lambda: '"aspects"' in output.read_text())
        lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert lines[0] == {"woven": {str(target.pid): 2}}
    assert [line["report"]["text"] for line in lines[1:3]] == ["one 1", "two 1"]
    assert [one["matches"] for one in lines[-1]["aspects"]] == [[1], [1]]


def test_an_output_that_cannot_be_written_is_an_error_before_anything_is_woven(program: Path, tmp_path: Path) -> None:
    with rounds(program) as target:
        path = tmp_path / "some.aspect"
        path.write_text(ASPECTS)
        for output in (tmp_path, tmp_path / "none" / "file", Path("/dev/null")):
            done = run_gilk("weave", path, "-p", str(target.pid), "-o", str(output))
            assert "(cannot-write)" in done.stderr, done.stderr
        assert (differences(target.pid), leftovers(target.pid)) == ([], [])


def test_a_full_disk_ends_a_weaving_and_everything_is_removed(program: Path, tmp_path: Path) -> None:
    """The file system has one page, in a mount namespace of the weaver's own."""
    path = tmp_path / "some.aspect"
    path.write_text(ASPECTS)
    with rounds(program) as target:
        small = tmp_path / "small"
        small.mkdir()
        words = f"mount -t tmpfs -o size=4k none {small} && exec $0 -m gilk weave {path} -p {target.pid} -o {small}/out"
        weaver = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", words, sys.executable], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
            text=True, env={**os.environ, **ENVIRONMENT},
        )  # fmt: skip
        assert wait_for(lambda: bool(differences(target.pid)) or weaver.poll() is not None)
        assert wait_for(lambda: bool(target.ask()) and weaver.poll() is not None)
        _, said = weaver.communicate(timeout=250)
        assert "(cannot-write)" in said
        assert wait_for(lambda: (differences(target.pid), leftovers(target.pid)) == ([], []))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_however_a_background_weaver_ends_everything_is_removed(
    program: Path, tmp_path: Path, how: signal.Signals
) -> None:
    with rounds(program) as target, in_background(target, tmp_path) as number:
        os.kill(number, how)
        assert wait_for(lambda: (differences(target.pid), leftovers(target.pid)) == ([], []))
        assert wait_for(lambda: number not in [one.pid for one in control.servers(control.WEAVE)])
        target.ask()


def test_errors_of_a_background_weaver_are_printed_by_the_command_that_starts_it(tmp_path: Path, program: Path) -> None:
    path = tmp_path / "some.aspect"
    path.write_text('call(long nobody(long k)) then { report("x"); };')
    with rounds(program) as target:
        done = run_gilk("weave", path, "-p", str(target.pid), "-d")
        assert (done.returncode, done.stdout, "(no-such-function)" in done.stderr) == (2, "", True)
        done = run_gilk("weave", path, "-d", "-c", "true")
        assert (done.returncode, "(usage)" in done.stderr) == (2, True)


# Connections to a weaver, whoever is at the other end.


def served(answering: control.Answering, words: dict[str, Any]) -> dict[str, Any]:
    with control.ControlServer(answering) as server:
        child = os.fork()
        if not child:
            try:
                control.ask(os.getppid(), words)
            except TargetError:
                os._exit(3)
            except UsageError as error:
                os._exit(4 if error.slug == "bad-request" else 5)
            os._exit(0)
        while True:
            server.answer()
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return {"code": os.waitstatus_to_exitcode(status)}


def test_a_weaver_answers_and_refuses() -> None:
    def refuse(words: dict[str, Any]) -> dict[str, Any]:
        raise UsageError("bad-request", f"{words}")

    assert served(lambda words: words, {"ask": "list"}) == {"code": 0}
    assert served(refuse, {"ask": "nothing"}) == {"code": 4}


@contextmanager
def other_sockets() -> Iterator[None]:
    """Another process opens and closes abstract sockets all the while."""
    child = os.fork()
    if not child:
        while True:
            held = [socket.socket(socket.AF_UNIX) for _ in range(300)]
            for number, one in enumerate(held):
                one.bind(f"\0gilk-test-{os.getpid()}-{number}".encode())
            for one in held:
                one.close()
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_weaver_is_listed_while_other_sockets_come_and_go() -> None:
    own = control.ServerName(os.getpid(), os.geteuid())
    with other_sockets(), control.ControlServer(lambda words: words):
        assert all(own in control.servers(control.WEAVE) for _ in range(100))
    assert own not in control.servers(control.WEAVE)


def test_a_weaver_for_which_many_clients_wait_is_listed() -> None:
    with control.ControlServer(lambda words: words) as server:
        for _ in range(socket.SOMAXCONN + 8):
            assert control.is_there(
                os.getpid(), control.WEAVE
            )  # each leaves a connection that the weaver has not accepted
        server.answer()
        assert control.is_there(os.getpid(), control.WEAVE)
    assert not control.is_there(os.getpid(), control.WEAVE)


def test_malformed_requests_close_the_connection_and_the_weaver_goes_on() -> None:
    with control.ControlServer(lambda words: words) as server:
        name = control._address(control.ServerName(os.getpid(), os.geteuid()))
        for said in (b"", b"x" * 5000, b"\xff" * 8, b"\x02\0\0\0\0\0\0\0{]", b"\0\0\0\0\0\0\0\0"):
            with socket.socket(socket.AF_UNIX) as end:
                end.connect(name)
                end.sendall(said)
                end.shutdown(socket.SHUT_WR)
                server.answer()
                assert end.recv(1) == b""


def test_a_socket_that_names_another_users_process_is_not_believed() -> None:
    """The socket claims to belong to process 1."""
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(control._address(control.ServerName(1, os.geteuid())))
        squatter.listen()
        with pytest.raises(GilkError) as raised:
            control.ask(1, {"ask": "list"})
        assert raised.value.slug == "no-such-weaving"


@pytest.mark.parametrize("bit", [0, 5, 31, 32, 47, 63])
def test_switches_are_set_and_cleared_separately(bit: int) -> None:
    memory = bytearray(16)
    view = memoryview(memory)
    set_bit(view, 8, bit, True)
    assert int.from_bytes(memory, "little") == 1 << 64 + bit
    memory[8:] = b"\xff" * 8
    set_bit(view, 8, bit, False)
    assert int.from_bytes(memory[8:], "little") == (1 << 64) - 1 - (1 << bit)
