# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses in a process: compiled, put into the process, and called from its points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Protocol

from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.instruments import Instruments, SiteInstrument, instruments
from gilk.errors import TargetError
from gilk.lang.d.probes import DProbe
from gilk.lang.d.unit import TranslationUnit
from gilk.lang.to_c.sites import ENTER, INSIDE, NOTES, Kind, entries
from gilk.providers.probe import ProbeSite
from gilk.session.broker.messages import THREADS, Inserted, InsertRequest
from gilk.session.request import CFunction
from gilk.targets.base import Loaded, Target
from gilk.toolchain.dprogram import made_of, program_flags
from gilk.trace.layout import PAGE
from gilk.values import dataclass


class ProcessPart(Protocol):
    """A part in the session of a process. ``memory`` is shared with the process, at ``offset`` from the session's
    control page (gilk_abi.h)."""

    memory: mmap
    offset: int

    def map_common(self, memory: int, size: int) -> int:
        """Map sealed memory, given by its descriptor, into the process; returns its offset from the session's control
        page.

        Raises TargetError `cannot-share`.
        """
        ...

    def insert(self, asked: Sequence[InsertRequest]) -> Inserted:
        """Put C functions in, in one change; each is called with its place among ``asked``, counted from 1.

        Raises CompileError, TargetError; then nothing has changed.
        """
        ...

    def lose(self, loaded: Loaded) -> None:
        """Note that an image was unmapped; all that was put in there is out. Raises TargetError."""
        ...

    def inside(self) -> set[int]:
        """The blocks of the threads that are in an instrument which reports that. Raises TargetError `keeper-gone`."""
        ...

    def close(self) -> bool | None:
        """Take out what was put in; returns whether the process is known to be what it was, None if others still have a
        part in it."""
        ...

    @property
    def notes(self) -> list[str]:
        """Notes for the user, known after the end."""
        ...


@dataclass(frozen=True, slots=True)
class InsideLayout:
    """Offsets in the process, in bytes from the session's control page: of the program's memory, and of the threads'
    notes.

    ``environment`` and ``unwind`` (the unwind tables, of ``unwind_size`` bytes) are given only if these are not in the
    program's memory.
    """

    memory: int
    notes: int
    environment: int | None = None
    unwind: int = 0
    unwind_size: int = 0

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags for this layout."""
        if self.environment is None:
            return ()
        tables = f"-DD_UNWIND={self.unwind - self.memory}L", f"-DD_UNWIND_SIZE={self.unwind_size}UL"
        return f"-DD_ENVIRONMENT={self.environment - self.memory}L", *tables


@dataclass(frozen=True)
class _Whole:
    """Probes that go in together: their clauses, what is enabled, and an instrument for each place."""

    unit: TranslationUnit
    enabled: Enabled
    made: Instruments

    def only(self, path: Path) -> _Whole:
        return self._with(row for row in self.made.rows if row.site.loaded.path == path)

    def without(self, path: Path) -> _Whole:
        return self._with(row for row in self.made.rows if row.site.loaded.path != path)

    def at(self, loaded: Loaded) -> _Whole:
        """The probes of the image, at the addresses where the image is loaded now."""
        return self._with(replace(row, site=_moved(row.site, loaded)) for row in self.made.rows)

    def _with(self, rows: Iterable[SiteInstrument]) -> _Whole:
        return replace(self, made=replace(self.made, rows=tuple(rows)))


def _moved(site: ProbeSite, loaded: Loaded) -> ProbeSite:
    return replace(site, loaded=loaded, start=site.start - site.loaded.bias + loaded.bias if site.start else 0)


#: Joins the session of a process with memory of so many bytes. Raises TargetError, and OSError if that is too much.
Joining = Callable[[int], ProcessPart]


class InProcess:
    """A D program in one process. ``memory``: the program's, of ``size`` bytes, shared with the process. ``made``: its
    compiled clauses."""

    def __init__(
        self,
        process: Target,
        join: Joining,
        size: int,
        made: TranslationUnit,
        enabled: Enabled,
        groups: list[tuple[int, ...]],
    ) -> None:
        self._process = process
        self._whole = _Whole(made, enabled, instruments(enabled, groups, made.needs))
        self._in: list[_Whole] = []
        self._units = 0  # how often probes were put in
        self._lost: list[_Whole] = []  # probes of images that have been unmapped
        self._size = size + PAGE - 1 & -PAGE
        self._client = join(self._room)
        self.memory = memoryview(self._client.memory)[:size]

    @property
    def _room(self) -> int:
        """The bytes of the memory that the process and gilk share."""
        return self._size + THREADS * NOTES

    @property
    def _layout(self) -> InsideLayout:
        return InsideLayout(self._client.offset, self._client.offset + self._size)

    def insert(self, marked: bool) -> list[tuple[DProbe, str]]:
        """Put all probes in; returns those that are refused, with the reasons. ``marked``: threads note that they are
        inside, for `inside`.

        Raises TargetError `may-not-look`.
        """
        return self._insert(self._whole, marked)

    def add(self, made: TranslationUnit, enabled: Enabled, marked: bool) -> list[tuple[DProbe, str]]:
        """Put the probes of new images in, whose clauses are in ``made``; returns those that are refused. Raises as
        insert()."""
        return self._insert(_Whole(made, enabled, instruments(enabled, enabled.groups(), made.needs)), marked)

    def lose(self, loaded: Loaded) -> None:
        """Note that an image was unmapped; its probes stay known, for ``regain``. Raises TargetError."""
        gone = [whole.only(loaded.path) for whole in self._in]
        if any(whole.made.rows for whole in gone):
            self._client.lose(loaded)
        self._in = [whole.without(loaded.path) for whole in self._in]
        self._lost += [whole for whole in gone if whole.made.rows]

    def regain(self, loaded: Loaded, marked: bool) -> list[tuple[DProbe, str]] | None:
        """Put the probes of an unmapped image in again, after the same file was mapped again.

        Returns those that are refused; None if the image had no probes. Raises as insert().
        """
        mine = [bool(whole.only(loaded.path).made.rows) for whole in self._lost]
        back = [whole.at(loaded) for whole, is_mine in zip(self._lost, mine, strict=True) if is_mine]
        self._lost = [whole for whole, is_mine in zip(self._lost, mine, strict=True) if not is_mine]
        refused = [one for whole in back for one in self._insert(whole, marked)]
        return refused if back else None

    def forget(self, loaded: Loaded) -> None:
        """Forget the probes of an unmapped image that will not come back, because its path is another file now."""
        self._lost = [whole.without(loaded.path) for whole in self._lost]

    def _insert(self, whole: _Whole, marked: bool) -> list[tuple[DProbe, str]]:
        rows = whole.made.rows
        self._units += 1
        flags = (*program_flags(), "-DD_INSIDE", *([f"-DD_MARKED={INSIDE}"] * marked), *self._layout.flags)
        function = CFunction(Path("program.c"), ENTER, flags, made_of(), self._text(whole, marked))
        sites = [row.site for row in rows]
        asked = [
            InsertRequest(each.loaded, each.part, each.point.address, each.point.after, function, iid)
            for iid, each in enumerate(sites, 1)
        ]
        refused = dict(whole.made.refused)
        places = {probe: made.sites for probe, made in whole.enabled.in_process}
        for place, reason in self._client.insert(asked).refused.items():
            row = rows[place]
            for probe in (row.probe, *row.others):
                where = "" if len(places[probe]) == 1 else f" at {row.site.point.label}"
                refused[probe] = ", ".join(filter(None, (refused.get(probe), f"{reason}{where}")))
        self._in.append(whole)
        self._listen(whole.enabled, set(refused))
        return list(refused.items())

    def _text(self, whole: _Whole, marked: bool) -> str:
        rows = whole.made.rows
        kinds = list(dict.fromkeys(row.kind for row in rows))
        numbers = {kind: number for number, kind in enumerate(kinds)}
        text = whole.unit.text + entries(
            self._layout.memory, self._layout.notes, kinds, [numbers[row.kind] for row in rows],
            [row.probe.number for row in rows], [row.site.start for row in rows], marked, self._units,
        )  # fmt: skip
        self._check_calls(whole, kinds)
        return text

    def _listen(self, enabled: Enabled, refused: set[DProbe]) -> None:
        """Raise the semaphores of the probes: a program prepares the arguments of some probes only if a tracer
        listens."""
        found = ((probe, made.semaphores) for probe, made in enabled.in_process)
        wanted = {one for probe, semaphores in found if probe not in refused for one in semaphores}
        if wanted:
            self._process.raise_semaphores([(one.address, one.path) for one in wanted])

    def _check_calls(self, whole: _Whole, kinds: list[Kind]) -> None:
        """Check that clauses may make system calls in the process, for example to read its memory
        (native/runtime/d/peek.h).

        Raises TargetError `may-not-look`.
        """
        calls = any(each.calls for each in (*whole.unit.needs.values(), *kinds))
        if calls and self._process.may_be_killed():
            raise TargetError(
                "may-not-look",
                f"{self._process.who} has a seccomp filter of its own, which may kill it for a system call of a clause",
                "clauses that do not look at its memory, nor change it, can be enabled",
            )

    def inside(self) -> set[int]:
        """The blocks of the threads that run clauses at the moment."""
        return self._client.inside()

    def close(self) -> bool | None:
        return self._client.close()

    @property
    def notes(self) -> list[str]:
        return self._client.notes
