# SPDX-License-Identifier: LGPL-2.1-or-later
"""The lines of the source at which functions of a stored run begin."""

from __future__ import annotations

from functools import cached_property

from gilk.targets.lines import doubt, line_of
from gilk.trace.about import About
from gilk.trace.image_files import ImageFile
from gilk.trace.probes import RecordKind

__all__ = ["FunctionLines"]

_BEGINNINGS = frozenset((RecordKind.ENTRY, RecordKind.HEAD))


class FunctionLines:
    """Looks up lines when they are asked for, in the programs as they are now. ``notes``: sentences about programs that
    are not those of the run any more, in which nothing is looked up.
    """

    def __init__(self, about: About) -> None:
        self._about = about
        self._doubts: dict[ImageFile, str] = {}
        self._found: dict[tuple[str, str], str] = {}

    def __call__(self, function: str, image: str) -> str:
        """The line, such as ``parse.c:12``; '' if it is not known, or if there are several such functions."""
        key = function, image
        if key not in self._found:
            files, addresses = self._files.get(image, []), self._addresses.get(key, set())
            one = len(files) == 1 and len(addresses) == 1
            self._found[key] = self._look_up(files[0], *addresses) if one else ""
        return self._found[key]

    @property
    def notes(self) -> list[str]:
        return list(filter(None, self._doubts.values()))

    def _look_up(self, file: ImageFile, address: int) -> str:
        if file not in self._doubts:
            self._doubts[file] = doubt(file.path, file.content)
        line = None if self._doubts[file] else line_of(file.path, address)
        return "" if line is None else str(line)

    @cached_property
    def _files(self) -> dict[str, list[ImageFile]]:
        """The files that have each name."""
        found: dict[str, list[ImageFile]] = {}
        for file in self._about.images:
            found.setdefault(file.name, []).append(file)
        return found

    @cached_property
    def _addresses(self) -> dict[tuple[str, str], set[int]]:
        """The addresses at which functions of each name, in images of each name, begin."""
        found: dict[tuple[str, str], set[int]] = {}
        for probe in self._about.probes:
            if probe.address >= 0 and probe.kind in _BEGINNINGS:
                found.setdefault((probe.function, probe.image), set()).add(probe.address)
        return found
