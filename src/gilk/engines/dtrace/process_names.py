# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names for addresses of all processes that a program about a kernel has met, also after their end.

The driver tells the mappings of each process image; files are read when a name is asked for.
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

_IMAGES = 32  # the upper 32 bits of a word are the number of the image
_PAGE = 4096
_VDSO = "[vdso]"


class SeenFiles:
    """Files of the machine; each is read once."""

    def __init__(self, link: ReadsFiles) -> None:
        self._link = link
        self._found: dict[Path, Image | None] = {}

    def image(self, path: Path) -> Image:
        """The image of a file. Raises ImageError."""
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
    """A process image with the mappings that the driver told."""

    def __init__(self, files: SeenFiles, mappings: tuple[ToldMapping, ...]) -> None:
        self._files, self._mappings = files, mappings

    def image(self, path: Path) -> Image:
        """The image of a file. Raises ImageError."""
        return self._files.image(path)

    def loaded(self) -> tuple[Loaded, ...]:
        return self._loaded

    @cached_property
    def _loaded(self) -> tuple[Loaded, ...]:
        return tuple(self._place(each) for each in self._mappings if each.path)

    def _place(self, at: ToldMapping) -> Loaded:
        """The mapping as a loaded image. If the file cannot be read, only its name is right."""
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
    """The names in each process image. `note` adds what the driver tells."""

    def __init__(self, link: ReadsFiles) -> None:
        self._files = SeenFiles(link)
        self._mappings: dict[int, tuple[ToldMapping, ...]] = defaultdict(tuple)
        self._names: dict[int, SymbolNames] = {}
        self._none = SymbolNames(None)

    def note(self, told: ProcessImage) -> None:
        """Add the mappings of a process image; earlier ones are kept."""
        before = self._mappings[told.number]
        self._mappings[told.number] = (*before, *(each for each in told.mappings if each not in before))
        self._names.pop(told.number, None)

    def of(self, process: int) -> SymbolNames:
        """The names of a process image. ``process``: the word by which a record identifies it."""
        number = process >> _IMAGES
        if number not in self._mappings:
            return self._none
        if number not in self._names:
            self._names[number] = SymbolNames(SeenProcess(self._files, self._mappings[number]))
        return self._names[number]
