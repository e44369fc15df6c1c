# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program that a suite starts hundreds of times, with a hundred thousand points in it each time.

Planning them takes ten to thirty seconds a start. So the program is launched once, instrumented once, and from then on
forks a child for every start (zygote.c). The suite starts a small stand-in that passes arguments, environment and files
on (proxy.c). The plain run goes the same way.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gilk
from tests.behaviour.harness import differences, leftovers, wait_for
from tests.programs.build import WARNINGS

HERE = Path(__file__).resolve().parent


class Zygote:
    """A program as a server of itself. ``proxy`` is the stand-in that a suite starts instead of it."""

    def __init__(self, program: str, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.program = program
        self.proxy = directory / Path(program).name
        self.socket = directory / f"{self.proxy.name}.socket"
        self.log = directory / f"{self.proxy.name}.log"
        self._library = directory / "zygote.so"
        _compile(self.proxy, HERE / "proxy.c", f'-DSOCKET="{self.socket}"')
        _compile(self._library, HERE / "zygote.c", "-fPIC", "-shared")

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "LD_PRELOAD": str(self._library), "ZYGOTE": str(self.socket)}

    def quit(self) -> None:
        subprocess.run([self.proxy, "--zygote-quit"], check=True)

    def ends(self) -> list[int]:
        """The wait status of every child that has ended."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []

    def forget(self) -> None:
        for left in (self.socket, self.log):
            left.unlink(missing_ok=True)

    @contextlib.contextmanager
    def plain(self) -> Iterator[None]:
        self.forget()
        process = subprocess.Popen([self.program], env=self.environment)
        assert wait_for(self.socket.exists)
        try:
            yield
        finally:
            self.quit()
            process.wait(60)


@dataclass(frozen=True)
class Report:
    """gilk's report of a run, and the state of the zygote seen from outside once everything was taken out."""

    points: int
    spliced: int
    hits: int
    met: int  # points that were hit at least once
    lost: int
    restored: bool | None
    differences: list[str]
    leftovers: list[str]


def instrumented(zygote: Zygote, inserts: Sequence[str], work: Callable[[Callable[[], object]], None]) -> Report:
    """Do ``work`` with the instruments in. It gets a function that it must call now and then, to free the buffers."""
    zygote.forget()
    requests = [gilk.parse_request(text) for text in inserts]
    with (
        gilk.launch([zygote.program], zygote.environment) as target,
        target.session(points=1 << 19, ring=1 << 12) as session,
    ):
        probes = session.insert_all(requests)
        target.resume()
        assert wait_for(zygote.socket.exists)
        try:
            work(session.poll)
            session.close()
            seen = differences(target.pid), leftovers(target.pid)
        finally:
            zygote.quit()
        counts = session.counts().values()
        return Report(
            points=len(probes),
            spliced=sum(probe.tactic is not None for probe in probes),
            hits=sum(counts),
            met=sum(count > 0 for count in counts),
            lost=session.drain.lost(),
            restored=session.restored,
            differences=seen[0],
            leftovers=seen[1],
        )


@dataclass(frozen=True)
class WovenReport:
    """The reports of a weaving while a suite ran, and the state of the zygote seen from outside once it was removed.
    ``matches``: of each element of the file."""

    matches: list[int]
    reports: list[str]
    differences: list[str]
    leftovers: list[str]


def woven(zygote: Zygote, aspects: Path, work: Callable[[Callable[[], object]], None]) -> WovenReport:
    """Do ``work`` with a file of aspects woven into the program. It gets a function that it must call now and then, to
    take reports."""
    zygote.forget()
    reports: list[str] = []
    with gilk.launch([zygote.program], zygote.environment) as target:
        with gilk.weave(aspects, target) as weaving:
            target.resume()
            assert wait_for(zygote.socket.exists)
            try:
                work(lambda: reports.extend(one.text for one in weaving.reports()))
                counts = weaving.counts()
            except BaseException:
                zygote.quit()
                raise
        reports += [one.text for one in weaving.reports()]
        seen = differences(target.pid), leftovers(target.pid)
        zygote.quit()
    return WovenReport([n for one in counts for n in one.matches], reports, *seen)


def _compile(output: Path, source: Path, *flags: str) -> None:
    command = ["cc", *WARNINGS, "-D_GNU_SOURCE", "-O2", *flags, "-o", str(output), str(source)]
    subprocess.run(command, check=True)
