# SPDX-License-Identifier: LGPL-2.1-or-later
"""The mappings of a process with their unwind tables, for clauses that walk its stacks; updated while it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gilk.errors import GilkError
from gilk.image.elf import load_bytes
from gilk.image.unwind import Unwind, made_of, unwind
from gilk.targets.base import Target
from gilk.targets.maps import Mapping, read_maps
from gilk.trace.d.unwinding import MappedCode, Tables, room

_VDSO = "[vdso]"


class Unwinding:
    """The unwind tables of all code that a process has mapped. They are made with the object; ``place`` says where they
    go."""

    def __init__(self, process: Target) -> None:
        self._process = process
        self._tables: Tables | None = None
        self._mapped: tuple[Mapping, ...] = ()
        self._known: dict[Path, Unwind] = {}
        self._vdso: Unwind | None = None
        self._code: list[
            MappedCode
        ] = []  # empty if nothing is mapped: a process that has ended, but is not waited for yet
        self._code = self._look()

    @property
    def code(self) -> Sequence[MappedCode]:
        """The code that was mapped when it was last looked at."""
        return self._code

    @property
    def room(self) -> int:
        """How many bytes of memory to set aside for the tables."""
        return room([*self._known.values(), *([self._vdso] if self._vdso else [])])

    def place(self, buffer: memoryview) -> None:
        self._tables = Tables(buffer)
        self._tables.publish(self._code)

    def follow(self) -> bool:
        """Look at the mappings again, if a clause has met an unknown address; returns whether anything has changed."""
        if self._tables is None or not self._tables.missed():
            return False
        before = self._mapped
        try:
            self._code = self._look()
        except GilkError:  # the process has ended
            return False
        if self._mapped == before:
            return False
        self._tables.publish(self._code)
        return True

    def _look(self) -> list[MappedCode]:
        mapped = tuple(mapping for mapping in read_maps(self._process.pid) if mapping.executable)
        if mapped == self._mapped:
            return self._code
        self._mapped = mapped
        loaded = {(image.start, image.end): image for image in self._process.loaded()}
        found = []
        for mapping in mapped:
            image = next((one for (low, high), one in loaded.items() if low <= mapping.start < high), None)
            if image is not None:
                found.append(MappedCode(mapping.start, mapping.end, image.bias, self._table(image.path)))
            elif mapping.path == _VDSO:
                found.append(MappedCode(mapping.start, mapping.end, mapping.start, self._own_vdso(mapping)))
            elif not mapping.ours:
                found.append(MappedCode(mapping.start, mapping.end))
        return found

    def _table(self, path: Path) -> Unwind:
        if path not in self._known:
            self._known[path] = unwind(self._process.image(path))
        return self._known[path]

    def _own_vdso(self, mapping: Mapping) -> Unwind | None:
        """The unwind table of the vdso, read from our own, which is the same in every process; None if it differs."""
        if self._vdso is None:
            own = next((one for one in read_maps(os.getpid()) if one.path == _VDSO), None)
            if own is None or own.end - own.start != mapping.end - mapping.start:
                return None
            try:
                with open("/proc/self/mem", "rb", buffering=0) as file:
                    file.seek(own.start)
                    content = file.read(own.end - own.start)
                self._vdso = made_of(load_bytes(content, Path(_VDSO)))
            except (GilkError, OSError):
                return None
        return self._vdso
