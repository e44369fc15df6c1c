# SPDX-License-Identifier: LGPL-2.1-or-later
"""Commands that are started through a relay and wait to be traced; the relay is on this machine, without a driver."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gilk.engines.dtrace.asked import Asked, on
from gilk.engines.dtrace.machine import OtherMachine
from gilk.errors import TargetError
from gilk.runs.elsewhere import Elsewhere
from gilk.targets.kernel.link import RelayLink, start_relay
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.launch import Until
from tests.behaviour.waiting import wait_for

#: Of the values of evaltime, the program that the process executes when probes go in.
PLACES = [("exec", "sh"), ("preinit", "true"), ("postinit", "true"), ("main", "true")]


class WithoutDriver(RelayLink):
    """A link that has no driver to close."""

    def close_driver(self) -> None:
        pass


@contextmanager
def machine() -> Iterator[OtherMachine]:
    """This machine as another one, whose kernel is not looked at."""
    link = start_relay()
    without = WithoutDriver(link.channel, link.close)
    target = cast(KernelTarget, SimpleNamespace(link=without, close=lambda: None))
    found = OtherMachine(Elsewhere(without, without.close), target, bytearray().extend)
    try:
        yield found
    finally:
        found.close()


def executed(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


@pytest.mark.parametrize(("evaltime", "program"), PLACES)
def test_a_command_waits_where_evaltime_says(evaltime: str, program: str) -> None:
    asked = Asked((("n", "BEGIN { exit(0); }"),), options=(("evaltime", evaltime),), command=("/bin/true",))
    with machine() as there:
        consumer = on(there, asked)
        pid = int(consumer.macros.values["target"])
        assert wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        assert executed(pid) == program
        assert "libc.so" in Path(f"/proc/{pid}/maps").read_text()
        there.release()
        assert there._command is not None and there._command.wait(60) == 0


@pytest.mark.parametrize("until", [Until.LINKED, Until.MAIN])
def test_a_command_that_there_is_not_is_refused_before_tracing(until: Until) -> None:
    with machine() as there, pytest.raises(TargetError, match="cannot be run there") as caught:
        there.start(["there-is-no-such-program"], until)
    assert caught.value.slug == "cannot-launch"


def test_a_command_without_a_main_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bare.s").write_text(".globl _start\n_start: jmp _start\n")
    subprocess.run(["gcc", "-nostdlib", "-static", "-s", "bare.s", "-o", "bare"], cwd=tmp_path, check=True)
    with machine() as there, pytest.raises(TargetError) as caught:
        there.start([str(tmp_path / "bare")], Until.MAIN)
    assert caught.value.slug == "no-main"


def test_a_command_that_waits_dies_with_the_machine() -> None:
    with machine() as there:
        pid = there.start(["sleep", "600"], Until.MAIN)
        assert executed(pid) == "sleep"
        assert there._command is not None
        command = there._command
    assert command.status == 128 + signal.SIGKILL
