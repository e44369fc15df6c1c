# SPDX-License-Identifier: LGPL-2.1-or-later
"""raise() and stop() in a kernel: the process that reaches the probe is stopped, or ends, and no other."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gilk.engines.dtrace import asked
from gilk.engines.dtrace.machine import OtherMachine
from gilk.errors import TargetError
from gilk.runs.elsewhere import Elsewhere
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import finished, program, ran
from tests.kernel.session.test_d_uprobes import FRAMES, PATIENCE, Turning, turning
from tests.programs.build import compile_to

IN_KERNEL = "syscall::getpgid:entry /pid == $target && arg0 == 0x20002/"
IN_PROCESS = "pid$target:a.out:turn:entry /arg0 == 2/"
pytestmark = pytest.mark.xdist_group("lab")


@pytest.fixture(scope="module")
def users(exchange: Path) -> Path:
    return compile_to(exchange / "users", [Path(__file__).with_name("users.c")], FRAMES)


def wait_for_state(guest: Guest, process: Turning, wanted: str) -> None:
    """Wait until the process has this state, by proc_pid_stat(5)."""
    due = time.monotonic() + PATIENCE
    while (told := guest.link.read_file(f"/proc/{process.pid}/stat").rpartition(b") ")[2][:1].decode()) != wanted:
        assert time.monotonic() < due, told


@pytest.mark.parametrize(
    ("meanwhile", "where"),
    [
        pytest.param(True, IN_KERNEL, id="meanwhile-kernel"),
        pytest.param(True, IN_PROCESS, id="meanwhile-process", marks=pytest.mark.stress),
        pytest.param(False, IN_KERNEL, id="afterwards-kernel", marks=pytest.mark.stress),
        pytest.param(False, IN_PROCESS, id="afterwards-process"),
    ],
)
def test_stop_stops_the_process_at_the_probe(
    kernel: KernelTarget, guest: Guest, users: Path, where: str, meanwhile: bool
) -> None:
    """The process stops at its third turn, and goes on when it is continued. A process still stopped at the
    program's end is named."""
    with turning(guest, users, 2) as (process, other):

        def go_on() -> None:
            guest.run("kill", "-CONT", str(process.pid))
            process.turns += 3
            process.turn(1)

        def work() -> None:
            other.turn(5)
            process.process.write(b"...")
            wait_for_state(guest, process, "T")
            assert guest.link.channel.until(lambda: b"turns 2\n" in process.said, PATIENCE)
            assert b"turns 3\n" not in process.said
            if meanwhile:
                go_on()
                other.turn(1)
                process.end()

        text = f"""int seen; {where} {{ stop(); @ = count(); seen = 1; }} fbt::do_msgsnd:entry {{ }}
            tick-100ms /seen && !{int(meanwhile)}/ {{ exit(0); }} END {{ printa("%@d\\n", @); }}"""
        done = ran(kernel, text, pids=(process.pid,), work=work, destructive="")
        said = f"dtrace: process {process.pid} is stopped: kill -CONT {process.pid} lets it go on\n"
        assert (done.lines, done.errors) == (["1"], "" if meanwhile else said)
        if not meanwhile:
            go_on()
    assert not guest.complaints()


def test_raise_ends_only_the_process_at_the_probe(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    with turning(guest, users, 2) as (process, other):

        def work() -> None:
            other.turn(6)
            process.process.write(b"......")
            assert process.process.wait(PATIENCE)

        text = """pid$target:a.out:turn:entry /arg0 == 4/ { raise(SIGUSR1); } fbt::do_msgsnd:entry { }"""
        done = ran(kernel, text, pids=(process.pid,), work=work, destructive="")
        assert guest.link.channel.until(lambda: b"turns 4\n" in process.said, PATIENCE)
        assert b"turns 5\n" not in process.said
        assert not done.errors
        other.turn(1)
    assert not guest.complaints()


def test_a_command_of_system_runs_where_the_kernel_is(kernel: KernelTarget, guest: Guest) -> None:
    """Its output is the program's, and the program's own probes see its process, whose parent is $pid."""
    text = """
        #pragma D option destructive
        #pragma D option quiet
        BEGIN { system("uname -r; exit %d", 3 + 4); }
        proc:::exec-success /execname == "uname"/ { named++; }
        proc:::exit /execname == "sh" && ppid == $pid && args[0] == 1/ { ended++; }
        tick-100ms /ended/ { printf("%d %d\\n", named > 0, ended); exit(0); }"""
    machine = OtherMachine(Elsewhere(guest.link, lambda: None), kernel)
    consumer = asked.on(machine, asked.Asked((("n", text),)))
    consumer.compile()
    done = finished(consumer)
    assert (done.lines, done.errors) == ([guest.link.release, "1 1"], "")
    assert not guest.complaints()


def test_signals_that_may_not_be_sent_are_not_sent(kernel: KernelTarget, guest: Guest) -> None:
    """No signal is sent to the program's own client, from interrupts, or with an invalid number."""
    text = """
        int errors, tried;
        BEGIN { raise(SIGKILL); } BEGIN { stop(); } BEGIN { raise(0); } BEGIN { raise(65); } BEGIN { raise(-1); }
        profile-97 /!tried/ { tried = 1; raise(SIGKILL); }
        ERROR { errors++; }
        tick-100ms /errors >= 6/ { exit(0); }
        END { printf("%d\\n", errors >= 6); }"""
    done = ran(kernel, text, destructive="")
    assert done.lines == ["1"] and done.ended and "illegal operation" in done.errors
    assert "is stopped" not in done.errors
    assert not guest.complaints()


def test_destructive_code_in_a_program_not_marked_so_is_refused(kernel: KernelTarget, guest: Guest) -> None:
    """The driver refuses it, whatever the client says."""
    consumer, _ = program(kernel, "syscall::getpgid:entry { raise(9); }")
    with pytest.raises(TargetError, match="clause 1: bad deed"):
        consumer.start()
    guest.link.close_driver()
    assert not guest.complaints()
