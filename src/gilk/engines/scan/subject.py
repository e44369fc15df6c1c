# SPDX-License-Identifier: LGPL-2.1-or-later
"""The subject of a scan: an ELF file, or images of a live process.

A process is scanned by reading /proc/PID/maps, /proc/PID/exe and the mapped files. Nothing is attached, and the process
does not notice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from gilk.analysis.analysis import Analysis
from gilk.errors import GilkError, ImageError, TargetError, UsageError
from gilk.image import dynamic, header
from gilk.image.elf import File
from gilk.image.model import Image
from gilk.image.source import open_source
from gilk.spec import image as image_names
from gilk.spec.functions import FunctionPattern, parse
from gilk.splice.allocator import PAGE, Arena, Occupied, PunPages
from gilk.splice.host import Host
from gilk.splice.patch_context import PatchContext
from gilk.targets.image import pretend_loaded
from gilk.targets.mapped_file import open_mapped
from gilk.targets.maps import Mapping, find_room, link_of, occupied, read_maps
from gilk.targets.program import path_there, program_file
from gilk.values import dataclass

#: The name of this machine's running kernel. A file of that name is written ./kernel.
KERNEL = "kernel"
_ARENA = 256 << 20
_MOST_PUN_PAGES = 24_000  # as in targets/workspace.py: what vm.max_map_count leaves


@dataclass(frozen=True, slots=True)
class Subject:
    """An image to scan. ``path``: where its file can be read now. ``mapping`` and ``space`` are given if it is a
    process's."""

    name: str
    path: Path
    mapping: Mapping | None = None  # the first executable mapping
    space: Occupied | None = None

    @property
    def live(self) -> bool:
        return self.mapping is not None

    def bias(self, image: Image) -> int:
        """The difference between run-time and link-time addresses. Raises ImageError if the file is not the mapped
        one."""
        if self.mapping is None:
            return 0
        for segment in image.segments:
            low = segment.offset & -PAGE
            if segment.executable and low <= self.mapping.offset < segment.offset + max(segment.size, 1):
                return self.mapping.start - self.mapping.offset + segment.offset - segment.address
        raise ImageError("not-what-is-mapped", f"{self.path} has no code where the process has it mapped")

    def ground(self, analysis: Analysis, makes_code: bool = True) -> PatchContext:
        """The ground to plan on: the image at its real address, among the process's real mappings. ``makes_code``: see
        PatchContext. Raises TargetError `no-room`."""
        made = self._ground(analysis)
        made.makes_code = makes_code
        return made

    def _ground(self, analysis: Analysis) -> PatchContext:
        if self.space is None:
            return pretend_loaded(analysis)
        segments, bias = analysis.image.segments, self.bias(analysis.image)
        low, high = min(s.address for s in segments) + bias, max(s.address + s.size for s in segments) + bias
        start = find_room(self.space, low, high, _ARENA + PAGE)
        if start is None:
            raise TargetError("no-room", f"there is no free address range within 2 GiB of {self.name}")
        base = start + PAGE
        taken = Occupied(tuple(sorted((*self.space.ranges, (start, base + _ARENA)))))
        host = Host(start, base, PAGE, ((1 << 20, 1 << 20),) * 4, base, base, base)
        return PatchContext(
            analysis, bias, Arena(base, _ARENA, 0, PAGE), PunPages(taken, _ARENA, _MOST_PUN_PAGES), host
        )


def subjects(target: str, glob: str) -> tuple[list[Subject], str]:
    """The images that ``[IMAGE:]FUNCTION`` means in ``target``, and FUNCTION.

    Raises UsageError `bad-point`, `bad-target`, `no-such-image`; ImageError and TargetError if the target cannot be
    read.
    """
    spec = parse(glob)
    found = _of_process(_pid(target), spec) if target.startswith("pid:") else _of_file(Path(target), spec)
    return found, spec.function


def _of_file(path: Path, spec: FunctionPattern) -> list[Subject]:
    try:
        with open_source(path) as source:
            soname = dynamic.soname(header.parse(source))
    except ImageError as error:
        installed = shutil.which(str(path)) if path.name == str(path) else None
        if error.slug == "no-such-file" and installed:
            raise ImageError("no-such-file", error.message, f"did you mean {installed}?") from None
        raise
    if spec.image and not image_names.matches(spec.image, os.path.abspath(path), soname, True):
        raise UsageError("no-such-image", f"no image matches {spec.image!r}", f"there is: {path.name}")
    return [Subject(path.name, path)]


def _pid(target: str) -> int:
    digits = target.removeprefix("pid:")
    if not (digits.isascii() and digits.isdigit()):
        raise UsageError("bad-target", f"{target!r} is not pid:NUMBER", "a file of that name is ./" + target)
    return int(digits)


def _of_process(pid: int, spec: FunctionPattern) -> list[Subject]:
    maps = read_maps(pid)
    main = _main_path(pid)
    space = occupied(maps)
    images = dict(_images(maps))
    chosen = [(n, m) for n, m in images.items() if _is_meant(pid, spec.image, m, n, n == main)]
    if not chosen:
        names = ", ".join(sorted(Path(name).name for name in images))
        raise UsageError("no-such-image", f"process {pid} has no image {spec.image!r}", f"there are: {names}")
    return [Subject(Path(n).name, _file(pid, m, n == main), m, space) for n, m in chosen]


def _is_meant(pid: int, pattern: str, mapping: Mapping, path: str, main: bool) -> bool:
    if not pattern:
        return main
    if image_names.matches(pattern, path, "", main):
        return True
    with suppress(GilkError), closing(File(found := _file(pid, mapping, main))) as file:
        return image_names.matches(pattern, path, file.soname, link=link_of(pid, found) if main else "")
    return False


def _main_path(pid: int) -> str:
    try:
        return program_file(pid)
    except PermissionError:
        raise TargetError("no-permission", f"no permission to look into process {pid}") from None
    except OSError:
        raise TargetError("no-program", f"process {pid} has no program: it has ended, or is a kernel thread") from None


def _images(maps: tuple[Mapping, ...]) -> Iterator[tuple[str, Mapping]]:
    """The path and the first executable mapping of each file that is mapped as code."""
    seen = set()
    for mapping in maps:
        path = path_there(mapping.path)
        if mapping.executable and path.startswith("/") and not path.startswith("/memfd:") and path not in seen:
            seen.add(path)
            yield path, mapping


def _file(pid: int, mapping: Mapping, main: bool) -> Path:
    """A path by which the mapped file can be read, even if it is in another mount namespace or was replaced on disk."""
    found = open_mapped(pid, mapping, main)
    if found is None:
        raise ImageError("no-such-file", f"{mapping.path}: what the process has mapped cannot be read")
    os.close(found[1])
    return found[0]
