# SPDX-License-Identifier: LGPL-2.1-or-later
"""Abandoned weavings: the weaver was killed, and the weaving has stayed in its processes (`gilk weave --persist`).

They are found in the processes, which may have written anything there. So numbers are bounded, texts are only shown,
and no more is done to a process than `gilk restore` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from gilk.engines.aspect.state import ASPECTS, StayingState, staying
from gilk.errors import TargetError, UsageError
from gilk.targets.maps import CODE_NAME, DATA_NAME, MEMORY_NAME, Mapping, read_maps
from gilk.targets.memory import ProcessMemory
from gilk.targets.restore import is_kept, restore, session_of
from gilk.targets.selecting import processes
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class _Place:
    """A process that has the common state of a weaving at ``address``."""

    pid: int
    user: int
    address: int


@dataclass(frozen=True)
class AbandonedWeaving:
    """A weaving whose weaver has gone. ``number``: the pid of the weaver. ``places``: the processes that still have
    it."""

    number: int
    places: tuple[_Place, ...]
    state: StayingState

    def listed(self) -> dict[str, Any]:
        """The weaving in the form in which a weaver lists itself (asking.py)."""
        began = self.state.told.get("began")
        return {
            "file": str(self.state.told.get("file", "")),
            "began": began if isinstance(began, int | float) else 0,
            "pids": [one.pid for one in self.places],
            "aspects": [
                asdict(self.state.counts(n, name, elements, sequence)) | {"on": bool(self.state.on >> n & 1)}
                for n, (name, elements, sequence) in enumerate(self._aspects())
            ],
            "told": 0,
            "abandoned": True,
        }

    def answer(self, words: dict[str, Any]) -> dict[str, Any]:
        """Answer a request as a weaver does (asking.py). Raises UsageError `no-such-aspect`, TargetError."""
        if words.get("ask") == "turn":
            return self._turned(words.get("aspect"), bool(words.get("on")))
        functions = self.state.told.get("functions")
        known = functions if isinstance(functions, dict) else {}
        shown = [
            {"pid": one.pid, "functions": int(known.get(str(one.pid), 0)), "notes": ["its weaver has gone"]}
            for one in self.places
        ]
        return self.listed() | {"processes": shown, "reports": []}

    def _aspects(self) -> Iterator[tuple[str, int, bool]]:
        found = self.state.told.get("aspects")
        for one in found[:ASPECTS] if isinstance(found, list) else ():
            if isinstance(one, dict) and isinstance(one.get("elements"), int):
                yield str(one.get("name")), one["elements"], bool(one.get("sequence"))

    def _turned(self, name: object, on: bool) -> dict[str, Any]:
        names = [each for each, _, _ in self._aspects()]
        if name is not None and name not in names:
            raise UsageError("no-such-aspect", f"there is no aspect {name!r}; there are {', '.join(names)}")
        place = self.places[0]
        memory = ProcessMemory(place.pid)
        for number, each in enumerate(names):
            if name is None or each == name:  # one byte, so that few switches that advice sets meanwhile are lost
                at = place.address + number // 8
                (before,) = memory.read(at, 1)
                bit = 1 << number % 8
                memory.write(at, bytes([before | bit if on else before & ~bit]))
        return {}

    def remove(self) -> None:
        """Take the weaving out of all its processes. Raises TargetError."""
        for one in self.places:
            try:
                restore(one.pid)
            except TargetError as error:
                if error.slug not in ("no-such-process", "nothing-to-restore"):
                    raise


def abandoned() -> list[AbandonedWeaving]:
    """The abandoned weavings by number, in those processes that the user may look into."""
    found: dict[int, list[tuple[_Place, StayingState]]] = {}
    kept: dict[str, bool] = {}
    for seen in processes():
        for number, at, state in _of_process(seen.pid, kept):
            found.setdefault(number, []).append((_Place(seen.pid, seen.user, at), state))
    return [
        AbandonedWeaving(number, tuple(place for place, _ in rows), rows[0][1])
        for number, rows in sorted(found.items())
    ]


def _of_process(pid: int, kept: dict[str, bool]) -> Iterator[tuple[int, int, StayingState]]:
    """The weavings that a process has: number, address of the common state, and the state. ``kept``: a cache: whether a
    session still has its keeper."""
    with suppress(TargetError, OSError):
        maps = read_maps(pid)
        sessions = {session_of(one) for one in maps if one.path.startswith(CODE_NAME)}
        for name in sorted(sessions):
            number = name.partition("-")[0]
            if name not in kept:
                kept[name] = is_kept(name)
            if number.isdecimal() and not kept[name]:
                memory = ProcessMemory(pid)
                if any(memory.read(_data(maps, name), 8)):  # else the process has been restored
                    yield from ((int(number), at, state) for at, state in _states(memory, maps))


def _data(maps: tuple[Mapping, ...], session: str) -> int:
    """The address of the session's own memory. Raises OSError if there is none."""
    name = f"{DATA_NAME}{session}"
    for one in maps:
        if one.path.split()[0] == name if one.path else False:
            if one.offset == 0:
                return one.start
    raise OSError(f"no memory {name}")


def _states(memory: ProcessMemory, maps: tuple[Mapping, ...]) -> Iterator[tuple[int, StayingState]]:
    for one in maps:
        if one.path.startswith(MEMORY_NAME) and one.offset == 0:
            state = staying(lambda at, size, start=one.start: memory.read(start + at, size))  # type: ignore[misc]
            if state is not None:
                yield one.start, state
