# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether a program is about a process or about the kernel, by its probe descriptions alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from gilk.engines.dtrace import meant
from gilk.engines.dtrace.compiled import ProgramText
from gilk.errors import GilkError
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.probes import Description, described
from gilk.lang.syntax.source import Source
from gilk.runs.elsewhere import reach
from gilk.targets.kernel.own import is_loaded


def found(text: str, *arguments: str) -> frozenset[Description]:
    macros = Macros({"pid": os.getpid(), "target": 0}, ("dtrace", *arguments))
    return meant.descriptions([ProgramText("script", Source("test", text))], macros, Options(), ())


@pytest.mark.parametrize(
    ("text", "alone", "with_process"),
    [
        ("fbt::vfs_read:entry { }", True, True),
        ("sched:::on-cpu, BEGIN { }", True, True),
        ("BEGIN { } io:::start { }", True, True),
        ("syscall::read:entry { }", True, False),
        ("syscall::read:entry, pid$target:libc:read:entry { }", True, False),
        ("proc:::exit { }", True, False),
        ("profile-997 { }", True, False),
        ("profile:::profile-10ms { }", True, False),
        ("tick-1s { }", False, False),
        ('BEGIN { trace("fbt::vfs_read:entry"); }', False, False),
        ("BEGIN { x = 1 ? 2:3; /* sched:::on-cpu { } */ }", False, False),
        ("fbt::vfs_read:entry { trace(; }", False, False),
    ],
)
def test_probe_descriptions_tell_programs_about_the_kernel(text: str, alone: bool, with_process: bool) -> None:
    descriptions = found(text)
    assert meant.is_of_kernel(descriptions, has_process=False) is alone
    assert meant.is_of_kernel(descriptions, has_process=True) is with_process


@pytest.fixture
def sleeper() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "86400"])
    yield process.pid
    process.kill()
    process.wait()


def test_a_process_is_named_by_number_argument_and_macro(sleeper: int) -> None:
    assert meant.processes_meant(found(f"pid{sleeper}::malloc:entry {{ }}")) == (sleeper,)
    assert meant.processes_meant(found("pid$1::malloc:entry { }", str(sleeper))) == (sleeper,)
    assert meant.processes_meant(found("pid$$1::malloc:entry { }", str(sleeper))) == (sleeper,)
    assert meant.processes_meant(found("pid$pid::malloc:entry { }")) == (os.getpid(),)
    text = f"pid_t y; BEGIN {{ y = (pid_t)1; }} pid{sleeper}:::entry {{ }}"  # names of types come from libraries
    assert meant.processes_meant(found(text)) == (sleeper,)


@pytest.mark.parametrize("text", ["tick-10:::", "nosuch1:::", "pid$target:::entry", "pid999999999:::entry", "pid0:::"])
def test_other_numbers_name_no_process(text: str) -> None:
    assert meant.processes_meant([described(text.replace("$target", "0"))]) == ()


@pytest.mark.skipif(is_loaded(), reason="the driver is loaded in this machine's kernel")
def test_the_kernel_of_this_machine_needs_the_driver() -> None:
    with pytest.raises(GilkError) as caught:
        reach("here")
    assert caught.value.slug == "driver-not-loaded"
