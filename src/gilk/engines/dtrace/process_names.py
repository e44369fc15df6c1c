# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names for addresses of whatever processes a program about a kernel has met, also once they have ended.

The driver tells what each image of a process has mapped; files are read when a name is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from pathlib import Path

from gilk.engines.dtrace.symbols import SymbolNames
from gilk.errors import ImageError, MachineGone
from gilk.image import elf
from gilk.image.model import Image
from gilk.providers.kernel.probe import ReadsFiles
from gilk.targets.base import Loaded
from gilk.targets.kernel.d_messages import ProcessImage, ToldMapping
from gilk.targets.program import path_there

_IMAGES = 32  # the upper half of a word is the image
_PAGE = 4096
_VDSO = "[vdso]"


class SeenFiles:
    """Files of the machine, each read once."""

    def __init__(self, link: ReadsFiles) -> None:
        self._link = link
        self._found: dict[Path, Image | None] = {}

    def image(self, path: Path) -> Image:
        """Raises ImageError."""
        if path not in self._found:
            try:
                self._found[path] = elf.load_bytes(self._link.read_file(str(path)), path)
            except (OSError, ImageError, MachineGone):
                self._found[path] = None
        found = self._found[path]
        if found is None:
            raise ImageError("no-such-file", f"{path} cannot be read there")
        return found


class SeenProcess:
    """An image of a process, as it was when the driver told of it."""

    def __init__(self, files: SeenFiles, mappings: tuple[ToldMapping, ...]) -> None:
        self._files, self._mappings = files, mappings

    def image(self, path: Path) -> Image:
        """Raises ImageError."""
        return self._files.image(path)

    def loaded(self) -> tuple[Loaded, ...]:
        return self._loaded

    @cached_property
    def _loaded(self) -> tuple[Loaded, ...]:
        return tuple(self._place(each) for each in self._mappings if each.path)

    def _place(self, at: ToldMapping) -> Loaded:
        """A file that cannot be read has its name, and nothing else."""
        path = Path(path_there(at.path.decode("utf-8", "surrogateescape")))
        bias = at.start - at.offset
        try:
            segments = self._files.image(path).segments if path.name != _VDSO else ()
        except ImageError:
            segments = ()
        for segment in segments:
            if segment.executable and segment.offset & -_PAGE <= at.offset < segment.offset + max(segment.size, 1):
                bias = at.start - at.offset + segment.offset - segment.address
        return Loaded(path, bias, at.start, at.end, main=False)


class ProcessNames:
    """By image. `note` what the driver has told."""

    def __init__(self, link: ReadsFiles) -> None:
        self._files = SeenFiles(link)
        self._mappings: dict[int, tuple[ToldMapping, ...]] = defaultdict(tuple)
        self._names: dict[int, SymbolNames] = {}
        self._none = SymbolNames(None)

    def note(self, told: ProcessImage) -> None:
        """Nothing that was mapped before is forgotten."""
        before = self._mappings[told.number]
        self._mappings[told.number] = (*before, *(each for each in told.mappings if each not in before))
        self._names.pop(told.number, None)

    def of(self, process: int) -> SymbolNames:
        """The names of what an image has mapped, by the word that tells of it."""
        number = process >> _IMAGES
        if number not in self._mappings:
            return self._none
        if number not in self._names:
            self._names[number] = SymbolNames(SeenProcess(self._files, self._mappings[number]))
        return self._names[number]
