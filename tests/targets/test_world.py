# SPDX-License-Identifier: LGPL-2.1-or-later
"""Threads that end while they are stopped, or that stop late: the waiting keeper notices, and no thread is left
standing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from gilk.errors import TargetError
from gilk.targets import ptrace, wire
from gilk.targets.linux import LinuxProcess
from gilk.targets.world import PtracedThreads
from tests.behaviour.harness import ENVIRONMENT, cpu, mortal, state, wait_for
from tests.programs.build import build

#: Stops a process, has it killed, lets it go, and takes care of late threads until its input is closed.
STOPPER = """
import os, select, sys
from gilk.targets.world import PtracedThreads
world, number = PtracedThreads(int(sys.argv[1])), int(sys.argv[2])
with world.stopped():
    os.kill(world.pid, number)
while not select.select([0], [], [], 0.05)[0]:
    world.release_late()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGRTMAX])
def test_a_process_killed_while_stopped_is_detected(number: signal.Signals) -> None:
    with mortal([build("hot8")]) as program:
        words = [sys.executable, "-c", STOPPER, str(program.pid), str(int(number))]
        with subprocess.Popen(words, stdin=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}) as stopper:
            assert program.wait(60) == -number
            stopper.communicate()
        assert stopper.returncode == 0


def test_a_process_killed_while_being_stopped_is_detected() -> None:
    """The kill comes at different moments, until the process has gone: the process is never reported as one that
    does not stop."""
    for pause in (0.0, 0.001, 0.002, 0.004):
        with mortal([build("hot8")]) as program:
            world, killer = (
                PtracedThreads(program.pid),
                subprocess.Popen(["sh", "-c", f"sleep {pause}; kill -9 {program.pid}"]),
            )
            began = time.monotonic()
            with pytest.raises(TargetError) as raised:
                while True:
                    with world.stopped():
                        pass
            assert raised.value.slug == "no-such-process"
            assert time.monotonic() - began < 60
            assert killer.wait() == 0
            while program.poll() is None:
                world.release_late()
                time.sleep(0.01)


def late(pid: int, interrupted: bool) -> PtracedThreads:
    """Give up a process that stops later: when it is interrupted, or when a signal comes."""
    world = PtracedThreads(pid)
    ptrace.seize(pid, ptrace.O_TRACESYSGOOD)
    if interrupted:
        ptrace.call(ptrace.INTERRUPT, pid)
    world._late.add(pid)
    return world


def let_go_when_it_stops(world: PtracedThreads) -> None:
    assert wait_for(lambda: state(world.pid) == "t")
    assert not world.release_late()


def test_a_thread_that_stops_late_gets_its_signal() -> None:
    with subprocess.Popen(["sleep", "100"]) as program:
        world = late(program.pid, interrupted=False)
        program.terminate()
        let_go_when_it_stops(world)
        assert program.wait(60) == -signal.SIGTERM


#: A program that calls epoll_wait(2) directly, as Python would repeat its own call. It says when it is about to, and
#: waits for input.
WAITS = """
import ctypes, select
library, events = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(64)
poll = select.epoll()
poll.register(0)
print("waits", flush=True)
print(library.epoll_wait(poll.fileno(), events, 1, -1), ctypes.get_errno())
"""


def test_a_system_call_is_not_interrupted_by_a_late_stop() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WAITS], stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdout and program.stdout.readline() == "waits\n"
        assert wait_for(lambda: state(program.pid) == "S")
        let_go_when_it_stops(late(program.pid, interrupted=True))
        assert program.communicate("x")[0] == "1 0\n"


#: A keeper without patience, on the processor of its target, so that a thread asked to stop cannot do so in time.
KEEPER = """
import os
from gilk.targets import keeper_program, world
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
world._GLIMPSE = -1
keeper_program.main()
"""


def test_a_program_goes_on_however_often_it_is_sampled() -> None:
    mine, theirs = socket.socketpair()
    with mortal([build("hot8")]) as program:
        for tid in ptrace.thread_ids(program.pid):
            os.sched_setaffinity(tid, {min(os.sched_getaffinity(0))})
        words = [sys.executable, "-c", KEEPER, str(theirs.fileno())]
        keeper = subprocess.Popen(words, pass_fds=[theirs.fileno()], env={**os.environ, **ENVIRONMENT})
        theirs.close()
        with keeper, mine:
            assert asked(mine, "attach", program.pid) == program.pid
            begun = cpu(program.pid)
            deadline = time.monotonic() + 60
            while cpu(program.pid) < begun + os.sysconf("SC_CLK_TCK") // 5:
                asked(mine, "sample", 0)
                assert time.monotonic() < deadline
        assert keeper.returncode == 0


def asked(channel: socket.socket, *words: object) -> object:
    wire.send(channel, (words[0], words[1:]))
    (fine, answer), _ = wire.receive(channel)
    assert fine, answer
    return answer


def test_heirs_that_do_not_stop_share_the_patience_with_them() -> None:
    """Each of them could take five seconds of the end of a session, and a program may have a thousand."""
    with mortal([build("vforked"), "4"]) as program:
        assert program.stdout is not None
        pids = [int(program.stdout.readline()) for _ in range(4)]
        assert wait_for(lambda: {state(pid) for pid in pids} == {"D"})  # they are in vfork
        process, given = LinuxProcess(program.pid), []
        for pid in pids:
            with pytest.raises(TargetError) as raised, process.heir(pid) as heir:
                given.append(heir.threads.patience)
                heir.threads.stop()
            assert raised.value.slug == "busy"
        assert given[0] >= 5 and given[1:] == [min(given)] * 3 and min(given) < 1
