# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses in a process: compiled into it, and called from its points."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gilk.build.dprogram import FLAGS
from gilk.errors import TargetError
from gilk.lang.d.code.entries import Entry, entries, is_light
from gilk.lang.d.probes import Probe
from gilk.session.dtrace.enabling import Enabled
from gilk.session.request import CFunction, Wanted
from gilk.session.session import Session
from gilk.target import seccomp
from gilk.target.process import Process

_THREADS, _RING = 1024, 4096
#: What C calls that makes system calls in the process.
_CALLS = (
    *("gd_load(", "gd_copyin_string(", "gd_copy(", "gd_store(", "gd_store_string("),
    *("gd_ask_signal(", "gd_vtimestamp(", "gd_cwd("),
)


class InProcess:
    """``memory``: the D program's, mapped there and here; ``points``: how many there are to be."""

    def __init__(self, process: Process, size: int, points: int) -> None:
        self._session = Session(process, points=max(points, 1), threads=_THREADS, ring=_RING, extra=size)
        self._place = tempfile.TemporaryDirectory(prefix="gilk-")
        start = self._session.extra_offset
        self.memory = memoryview(self._session.shared)[start : start + size]

    def insert(self, text: str, enabled: Enabled, groups: list[tuple[int, ...]]) -> list[tuple[Probe, str]]:
        """Put in all probes; those that are refused come back, with the reason. Raises TargetError `may-not-look`."""
        self._check_calls(text)
        light = is_light(text)
        found = [(probe, made, part, point) for probe, made in enabled.in_process for part, point in made.points]
        chosen = [
            Entry(groups.index(tuple(enabled.clauses[probe.number])), made.returns, light)
            for probe, made, _, _ in found
        ]
        source = Path(self._place.name) / "program.c"
        numbers, starts = [probe.number for probe, *_ in found], [made.start for _, made, *_ in found]
        kinds = sorted(set(chosen), key=lambda entry: entry.name)
        source.write_text(text + entries(self._session.extra_offset, kinds, numbers, starts))
        wanted = [
            Wanted(made.loaded, part, point, CFunction(source, entry.name, FLAGS), "other")
            for entry, (_, made, part, point) in zip(chosen, found, strict=True)
        ]
        probes = self._session.insert_wanted(wanted) if wanted else ()
        refusals = ((found[n][0], str(probe.refusal)) for n, probe in enumerate(probes) if probe.refusal is not None)
        return list(dict(refusals).items())

    def _check_calls(self, text: str) -> None:
        """Of system calls in the process itself, such as those that look at memory: native/runtime/d/peek.h."""
        pid = self._session.process.pid
        if any(call in text for call in _CALLS) and seccomp.may_kill(pid):
            raise TargetError(
                "may-not-look",
                f"process {pid} has a seccomp filter of its own, which may kill it for a system call of a clause",
                "clauses that do not look at its memory, nor change it, can be enabled",
            )

    def close(self) -> bool | None:
        self._session.close()
        self._place.cleanup()
        return self._session.restored
