# SPDX-License-Identifier: LGPL-2.1-or-later
"""Contexts that wait in signal handlers are led out of patches, wherever their frames lie, and however large they are:
AMX makes frames of 11 KiB."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import gilk
from gilk.targets import movement, spawning
from gilk.targets.frame_writes import SecondFrame, rewritten
from gilk.targets.frames import ContextRegisters, SignalFrame, find_restorers
from gilk.targets.maps import read_maps
from gilk.targets.memory import Memory, ProcessMemory
from gilk.targets.parked import parked_frames
from tests.behaviour.harness import differences, leftovers
from tests.behaviour.parked_program import check_led_out, goes_on, heard, parked, signal_behind, with_three_bytes
from tests.programs.build import build

PAGE = 4096
REGISTERS = 18 * 8  # bytes of the registers that a frame restores
ALIGNMENT = 64  # of the kernel's frames, in bytes
#: An instrument that uses registers of its own, from the first to the last in a frame, and then executes a nop that no
#: other code has.
SOURCE = """
#include <gilk.h>
void marked(const struct gilk_regs *regs, unsigned iid)
{
    (void)regs, (void)iid;
    __asm__ volatile("mov $1, %%r8d; mov $2, %%edi; mov $3, %%ecx; nopl 0x44332211(%%rax)" ::: "r8", "rdi", "rcx");
}
"""
MARK = bytes.fromhex("0f1f8011223344")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, with known instructions where it computes, beside the source of an instrument."""
    place = tmp_path_factory.mktemp("parked")
    (place / "marked.c").write_text(SOURCE)
    return with_three_bytes(place)


@pytest.fixture(scope="module", params=["plain", "tiles"])
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The words that a program is told behind its place."""
    found = () if request.param == "plain" else ("tiles",)
    with subprocess.Popen([build("parked"), "0", *found], stdout=subprocess.PIPE) as program:
        said = program.stdout.readline() if program.stdout else b""
        program.kill()
    if said.startswith(b"skipped"):
        pytest.skip(said.decode())
    return found


def wait_in_an_instrument(program: subprocess.Popen[bytes], session: gilk.Session, built: Path) -> int:
    """Have a context wait in an instrument. Returns where in a page its registers begin."""
    pid = program.pid
    with ProcessMemory(pid) as memory:
        restorers = find_restorers(read_maps(pid), memory)  # a session puts jumps there
        session.insert("parked:work:+0x8", f"{built.parent / 'marked.c'}:marked")
        signal_behind(pid, MARK)
        assert heard(program) == b"parked\n"
        ours = [range(each.start, each.end) for each in read_maps(pid) if "memfd:gilk" in each.path]
        frames = parked_frames(pid, restorers, memory, ())
        (slot,) = (frame.slot for frame in frames if any(frame.place in each for each in ours))
        return (slot - 16 * 8) % PAGE


def places_across_pages(built: Path, words: tuple[str, ...]) -> list[int]:
    """The places of a program's stack for which the registers of a context that waits lie on two pages."""
    place = 2048
    with parked(built, place, *words) as program, gilk.attach(program.pid) as target, target.session() as session:
        begins = wait_in_an_instrument(program, session, built)
    starts = range(begins % ALIGNMENT, PAGE, ALIGNMENT)
    return [place + start - begins for start in starts if start + REGISTERS > PAGE]


def test_contexts_whose_registers_lie_on_two_pages_are_led_out(built: Path, words: tuple[str, ...]) -> None:
    for place in places_across_pages(built, words):
        with parked(built, place, *words) as program, gilk.attach(program.pid) as target:
            with target.session() as session:
                assert wait_in_an_instrument(program, session, built) + REGISTERS > PAGE
            assert session.restored is True
            assert not session.notes
            assert differences(program.pid) == [] and leftovers(program.pid) == []
            goes_on(program)


def kill_behind(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new keepers kill themselves behind the ``number``-th of the writes that lead a context out of a patch."""

    def lead(frame: SignalFrame, out: ContextRegisters, memory: Memory, second: SecondFrame | None) -> None:
        for piece in rewritten(replace(frame, note=None), out, memory, second)[:number]:
            memory.write(piece.at, piece.data)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(movement, "lead", lead)
    spawning.begin()


@pytest.mark.stress
@pytest.mark.parametrize("number", [2, pytest.param(3, marks=pytest.mark.stress)])
def test_a_context_goes_on_by_a_second_frame_if_the_keeper_is_killed_amid_the_first(
    number: int, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = places_across_pages(built, ())[0]
    with parked(built, place) as program:
        kill_behind(number, monkeypatch)
        with gilk.attach(program.pid) as target:
            with target.session() as session:
                wait_in_an_instrument(program, session, built)
            assert session.restored is not True
        assert gilk.restore(program.pid).waiting
        assert differences(program.pid) == []
        goes_on(program)


def test_contexts_with_large_frames_are_led_out(words: tuple[str, ...]) -> None:
    if words:
        check_led_out("args", range(3, 100, 24), 3000, *words)
