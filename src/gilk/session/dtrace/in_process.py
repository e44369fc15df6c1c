# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses in a process: compiled into it, and called from its points."""

from __future__ import annotations

import tempfile
from functools import reduce
from operator import or_
from pathlib import Path

from gilk.build.dprogram import FLAGS
from gilk.errors import TargetError
from gilk.lang.d.code.entries import ENTER, Entry, Uses, calls_system, entries, uses
from gilk.lang.d.probes import Probe
from gilk.providers.probe import Site
from gilk.session.dtrace.enabling import Enabled
from gilk.session.request import CFunction, Wanted
from gilk.session.shared.member import Member
from gilk.target import seccomp
from gilk.target.process import Process


class InProcess:
    """``memory``: the D program's, mapped there and here."""

    def __init__(self, process: Process, size: int) -> None:
        self._process = process
        self._member = Member(process, size)
        self._place = tempfile.TemporaryDirectory(prefix="gilk-")
        self.memory = memoryview(self._member.memory)

    def insert(self, text: str, enabled: Enabled, groups: list[tuple[int, ...]]) -> list[tuple[Probe, str]]:
        """Put in all probes; those that are refused come back, with the reason. Raises TargetError `may-not-look`."""
        needs = uses(text)
        found, refused = _sites(enabled, groups, needs)
        kinds = list(dict.fromkeys(entry for _, _, entry in found))
        numbers = {entry: number for number, entry in enumerate(kinds)}
        chosen = [numbers[entry] for _, _, entry in found]
        starts = [site.start for _, site, _ in found]
        whole = text + entries(self._member.offset, kinds, chosen, [probe.number for probe, *_ in found], starts)
        self._check_calls(whole)
        source = Path(self._place.name) / "program.c"
        source.write_text(whole)
        function = CFunction(source, ENTER, FLAGS)
        wanted = [Wanted(site.loaded, site.part, site.point, function, "other") for _, site, _ in found]
        refused |= {found[place][0]: reason for place, reason in self._member.insert(wanted).items()}
        self._listen(enabled, set(refused))
        return list(refused.items())

    def _listen(self, enabled: Enabled, refused: set[Probe]) -> None:
        """Have the program make ready what probes are to be told, where it does so only when somebody listens."""
        wanted = {one for probe, made in enabled.in_process if probe not in refused for one in made.semaphores}
        if wanted:
            self._process.raise_semaphores([(one.address, one.path) for one in wanted])

    def _check_calls(self, text: str) -> None:
        """Of system calls in the process itself, such as those that look at memory: native/runtime/d/peek.h."""
        pid = self._process.pid
        if calls_system(text) and seccomp.may_kill(pid):
            raise TargetError(
                "may-not-look",
                f"process {pid} has a seccomp filter of its own, which may kill it for a system call of a clause",
                "clauses that do not look at its memory, nor change it, can be enabled",
            )

    def close(self) -> bool | None:
        self._place.cleanup()
        return self._member.close()


def _sites(
    enabled: Enabled, groups: list[tuple[int, ...]], needs: dict[int, Uses]
) -> tuple[list[tuple[Probe, Site, Entry]], dict[Probe, str]]:
    """All places of all probes with what is done there; and probes that have an argument which cannot be fetched."""
    found, refused = [], {}
    for probe, made in enabled.in_process:
        clauses = tuple(enabled.clauses[probe.number])
        used = reduce(or_, (needs[clause] for clause in clauses), Uses())
        for site in made.sites:
            missing = [n for n in sorted(used.arguments) if n < len(site.arguments) and site.arguments[n] is None]
            if missing:
                refused[probe] = f"arg{missing[0]} is where it cannot be fetched from"
            else:
                arguments = tuple(each or "0" for each in site.arguments)
                found.append((probe, site, Entry(groups.index(clauses), used, arguments, site.function)))
    return found, refused
