# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names for addresses of a process, also after its end: its images are noted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from gilk.errors import GilkError
from gilk.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from gilk.image.model import Image
    from gilk.targets.base import Loaded
    from gilk.targets.jit_map import JitMap

_MOST = 1 << 16  # how many names are cached
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Named:
    """The name of an address. ``function`` is a variable for an address of data; it is empty if no symbol covers the
    address, ``module`` if that is in no known image."""

    address: int
    module: str = ""
    function: str = ""
    offset: int = 0


def name_of_return(name: Callable[[int], Named], address: int) -> Named:
    """The name of a return address. The address before it is looked up: if the call is the function's last instruction,
    the return address is already in the next function."""
    found = name(address - 1)
    return Named(address, found.module, found.function, found.offset + 1 if found.module else 0)


class MapsImages(Protocol):
    """A process, as far as its mapped images go."""

    def loaded(self) -> tuple[Loaded, ...]: ...
    def image(self, path: Path) -> Image: ...


class SymbolNames:
    """Names in one process. ``generated``: names of code that the process compiles at run time, which is in no
    image."""

    def __init__(self, process: MapsImages | None, generated: JitMap | None = None) -> None:
        self._process, self._generated = process, generated
        self._loaded: tuple[Loaded, ...] = ()
        self._names: dict[int, Named] = {}
        self._replaced: dict[Path, bool] = {}  # whether another file lies at the path of an image
        self.look()

    def look(self) -> None:
        """Note what is mapped now, and keep what was mapped before. Mappings are read now, because they go with the
        process."""
        if self._process is None:
            return
        known = set(self._loaded)
        try:
            self._loaded += tuple(loaded for loaded in self._process.loaded() if loaded not in known)
        except GilkError:  # the process has ended
            return
        self._names.clear()

    def of(self, process: int) -> SymbolNames:
        """The names of the only process there is."""
        return self

    def name(self, address: int) -> Named:
        found = self._names.get(address)
        if found is None:
            if len(self._names) >= _MOST:
                self._names.clear()
            found = self._find(address)
            if found.module:  # without a module, it may get a name later, if it is generated code
                self._names[address] = found
        return found

    def settle(self) -> None:
        """Note that the process has ended, so that nothing more is read."""
        if self._generated is not None:
            self._generated.settle()

    @property
    def remarks(self) -> list[str]:
        """Reasons why names are missing, for the user."""
        return [self._generated.remark] if self._generated is not None and self._generated.remark else []

    def frames(self, addresses: Sequence[int]) -> list[Named]:
        """The names of a stack's addresses, the innermost first. All others are return addresses, or the places where
        signals came."""
        return [
            name_of_return(self.name, address) if returns else self.name(address)
            for address, returns in self._of_frames(addresses)
        ]

    def lines(self, addresses: Sequence[int]) -> list[str]:
        """The lines of the source of a stack's addresses, such as ``parse.c:12``: those of the calls, except for the
        innermost; '' where a line is not known, or where the file is no longer what the process has mapped."""
        return [self._line(address - int(returns)) for address, returns in self._of_frames(addresses)]

    def _of_frames(self, addresses: Sequence[int]) -> Iterator[tuple[int, bool]]:
        """The addresses of a stack, each with whether it is a return address."""
        exact = True
        for address in addresses:
            restorer = not exact and self._is_restorer(address)
            yield address, not (exact or restorer)
            exact = restorer

    def _line(self, address: int) -> str:
        from gilk.targets.lines import doubt, line_of  # here: D programs without such stacks need not wait for it

        loaded = self._at(address)
        image = None if loaded is None else self._image(loaded)
        if loaded is None or image is None:
            return ""
        if loaded.path not in self._replaced:
            self._replaced[loaded.path] = bool(doubt(loaded.path, image.content.hex()))
        line = None if self._replaced[loaded.path] else line_of(loaded.path, address - loaded.bias)
        return "" if line is None else str(line)

    def place(self, address: int) -> Named:
        """The module of an address; ``offset`` is the offset in the file's mapping there, and the function is empty."""
        loaded = self._at(address)
        image = None if loaded is None else self._image(loaded)
        if loaded is None or image is None:
            return Named(address)
        inside = address - loaded.bias
        starts = [each.address & -_PAGE for each in image.segments if each.address <= inside < each.address + each.size]
        return Named(address, loaded.name, "", inside - max(starts, default=0))

    def start(self, address: int) -> int:
        """The start of the function that has the address; the address itself if no function is known."""
        found = self.name(address)
        return address - found.offset if found.function else address

    def module_start(self, address: int) -> int:
        loaded = self._at(address)
        return address if loaded is None else loaded.start

    def _at(self, address: int) -> Loaded | None:
        return next((loaded for loaded in reversed(self._loaded) if loaded.start <= address < loaded.end), None)

    def _image(self, loaded: Loaded) -> Image | None:
        assert self._process is not None
        try:
            return self._process.image(loaded.path)
        except GilkError:
            return None

    def _find(self, address: int) -> Named:
        loaded = self._at(address)
        if loaded is None:
            return self._in_generated(address)
        image = self._image(loaded)
        inside = address - loaded.bias
        span = None if image is None else image.span_at(inside)
        if span is not None:
            return Named(address, loaded.name, span.name, inside - span.start)
        variable = None if image is None else image.object_at(inside)
        if variable is None:
            return Named(address, loaded.name, "", inside)
        return Named(address, loaded.name, variable.name.partition("@")[0], inside - variable.address)

    def _in_generated(self, address: int) -> Named:
        code = self._generated.at(address) if self._generated is not None else None
        if self._generated is None or code is None:
            return Named(address)
        return Named(address, self._generated.name, code.name, address - code.start)

    def _is_restorer(self, address: int) -> bool:
        """Whether the address is where signal handlers return to."""
        named = self.name(address)
        if named.offset:
            return False
        if named.function == "__restore_rt":
            return True
        loaded = self._at(address)
        image = None if loaded is None else self._image(loaded)
        if loaded is None or image is None:
            return False
        return any(frame.signal and frame.start <= address - loaded.bias < frame.end for frame in image.frames)
