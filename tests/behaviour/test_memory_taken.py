# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process maps memory of its own just where jumps were planned to lead, before the jumps are written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

import gilk
from gilk.engines.follow.functions import of_template
from gilk.errors import MemoryTaken
from gilk.session.placed import place_timing
from gilk.session.plan_workers import timing_templates
from gilk.session.session import Session
from gilk.splice.planner import plan
from tests.behaviour.harness import differences, leftovers

#: Maps the pages it is told to where nothing is (MAP_FIXED_NOREPLACE), fills them, and checks them at the end.
_PROGRAM = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
mine = []
print("ready", flush=True)
for line in sys.stdin:
    for at in map(int, line.split()):
        if libc.mmap(at, 4096, 3, 0x100022, -1, 0) == at:
            ctypes.memset(at, len(mine) % 251, 4096)
            mine.append(at)
    print(len(mine), flush=True)
print(all(ctypes.string_at(at, 4096) == bytes([n % 251]) * 4096 for n, at in enumerate(mine)))
"""
_TRIES = 8
_POINTS = "libc.so.6:s*:blocks"


@dataclass
class Grabber:
    """The running program. ``times`` is how often it is still to take some of the new pages; ``taken`` are the pages
    that it has taken."""

    process: subprocess.Popen[str]
    times: int
    taken: set[int] = field(default_factory=set)

    def ask(self, pages: list[int]) -> None:
        if not self.times or not pages:
            return
        self.times -= 1
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(" ".join(map(str, pages)) + "\n")
        self.process.stdin.flush()
        before = len(self.taken)
        self.taken.update(pages)
        assert int(self.process.stdout.readline()) == len(self.taken) > before


@contextmanager
def grabber(times: int) -> Iterator[Grabber]:
    """Run the program; at the end its memory must hold what it wrote there."""
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        try:
            yield Grabber(process, times)
            assert (differences(process.pid), leftovers(process.pid)) == ([], [])
            assert process.communicate(timeout=250)[0] == "True\n"
        finally:
            process.kill()


def planned_late(session: Session, program: Grabber, step: int) -> None:
    """Have each plan made, and then the program take every ``step``-th of the pages that the plan needs."""

    def planning(ground, wanted):  # type: ignore[no-untyped-def]
        made = plan(ground, wanted)
        program.ask(sorted(ground.puns.pages.keys() - session._workspace._mapped)[::step])
        return made

    session._ledger.planner.planning = planning


def test_points_are_planned_again_when_the_process_has_taken_their_memory() -> None:
    with grabber(times=2) as program, gilk.attach(program.process.pid) as target, Session(target.process) as session:
        planned_late(session, program, step=3)
        probes = session.insert(_POINTS, gilk.count)
        assert program.times == 0
        workspace = session._workspace
        assert workspace._mapped.isdisjoint(program.taken)
        assert workspace._mapped == workspace._puns.pages.keys()
        assert sum(probe.refusal is not None for probe in probes) < len(probes) // 20


def test_memory_taken_every_time_is_an_error_and_does_no_harm() -> None:
    with (
        grabber(times=_TRIES) as program,
        gilk.attach(program.process.pid) as target,
        Session(target.process) as session,
    ):
        planned_late(session, program, step=1)
        with pytest.raises(MemoryTaken) as raised:
            session.insert(_POINTS, gilk.count)
        assert raised.value.slug == "no-room"
        assert program.times == 0
        assert any(probe.tactic == "pun" for probe in session.insert(_POINTS, gilk.count))
        assert session._workspace._mapped.isdisjoint(program.taken)


@pytest.mark.stress
def test_functions_from_the_plan_cache_whose_memory_is_taken_are_left_out() -> None:
    with grabber(times=1) as program, gilk.attach(program.process.pid) as target, Session(target.process) as session:
        workspace = session._workspace
        map_pages = workspace._map_pages

        def late() -> set[int]:
            program.ask(sorted(workspace._puns.pages.keys() - workspace._mapped)[::3])
            return map_pages()

        workspace._map_pages = late  # type: ignore[method-assign]
        process = target.process
        (image,) = [loaded for loaded in process.loaded() if "libc.so" in loaded.name]
        (template,) = timing_templates(process, [image], workspace.shape).values()
        starts = set(template.unit_start.tolist())
        made = place_timing(workspace, image, template, 0, starts)
        assert made is not None
        functions = of_template(made, starts)
        assert program.times == 0
        assert workspace._mapped.isdisjoint(program.taken)
        assert 0 < len(functions.names) < len(template.unit_names)
        session._ledger.hold(made)
        session._ledger.activate(functions.keys)
