# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables of a process that aspects name, and all instructions of its images that may access them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gilk.analysis.accesses import Escape, Variable, VariableAccess, accesses
from gilk.analysis.references import AddressRange
from gilk.errors import UsageError
from gilk.image.model import ElfSymbol, Image, SymbolKind
from gilk.targets.base import Code, Loaded
from gilk.values import dataclass

_APART = 1 << 60  # an address that no image has, for an object that lies in another image


@dataclass(frozen=True, slots=True)
class VariablePart:
    """A member of a variable: its offset and its size, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class FoundVariable:
    """A variable that an image of the process has; ``symbol`` is its symbol."""

    loaded: Loaded
    symbol: ElfSymbol

    @property
    def address(self) -> int:
        """The address in the running process."""
        return self.symbol.address + self.loaded.bias


@dataclass(frozen=True, slots=True)
class LoadedAccess:
    """An instruction of a loaded image that may access a variable."""

    loaded: Loaded
    access: VariableAccess


def find_variable(process: Code, name: str, image: str) -> FoundVariable:
    """The variable of that name in the given image; without an image, in the main program, or if that has none, in any
    library.

    Raises UsageError `no-such-variable`, `ambiguous-variable`.
    """
    for pattern in (image,) if image else ("", "*"):
        meant = (loaded for loaded in process.loaded() if _is_meant(loaded, pattern))
        found = [each for loaded in meant for each in _named(process, loaded, name)]
        if len({one.address for one in found}) > 1:
            images = ", ".join(sorted({one.loaded.name for one in found})[:5])
            raise UsageError("ambiguous-variable", f"there are {len(found)} variables {name}", f"they are in {images}")
        if found:
            return found[0]
    raise UsageError("no-such-variable", f"{process.who} has no variable {name!r}", "static ones need a symbol table")


def _is_meant(loaded: Loaded, pattern: str) -> bool:
    return loaded.main if not pattern else loaded.is_meant(pattern)


def _named(process: Code, loaded: Loaded, name: str) -> Iterator[FoundVariable]:
    image = process.image(loaded.path)
    kinds = (SymbolKind.OBJECT, SymbolKind.NOTYPE)
    yield from (FoundVariable(loaded, one) for one in image.named(name) if one.kind in kinds and one.size)


def loaded_accesses(
    process: Code, variable: FoundVariable, part: VariablePart
) -> tuple[tuple[LoadedAccess, ...], tuple[tuple[Loaded, Escape], ...]]:
    """The accesses of a variable in all images, and the places where an address of the variable escapes the
    analysis."""
    found: list[LoadedAccess] = []
    escapes: list[tuple[Loaded, Escape]] = []
    for loaded in process.loaded():
        seen = _as_seen(process.image(loaded.path), loaded, variable, part)
        if seen is None:
            continue
        result = accesses(process.analysis(loaded), seen)
        found += map(partial(LoadedAccess, loaded), result.accesses)
        escapes += [(loaded, one) for one in result.escapes]
    return tuple(found), tuple(escapes)


def _as_seen(image: Image, loaded: Loaded, variable: FoundVariable, part: VariablePart) -> Variable | None:
    """The variable as an image's code refers to it; None if the image does not refer to it."""
    own, symbol = loaded == variable.loaded, variable.symbol
    start = symbol.address if own else _APART
    slots = {slot: start for slot, name in image.got.items() if name == symbol.name} if symbol.exported else {}
    if own:
        slots |= _own_slots(image, symbol)
    pointers = tuple(slot for slot, name in image.symbolic.items() if name == symbol.name) if symbol.exported else ()
    if not own and not slots and not pointers:
        return None
    whole = AddressRange(start, start + symbol.size)
    return Variable(whole, AddressRange(start + part.offset, start + part.offset + part.size), slots, pointers)


def _own_slots(image: Image, symbol: ElfSymbol) -> dict[int, int]:
    """The slots of the GOT of the variable's own image that the loader fills with addresses in the variable: by slot,
    the link-time address."""
    tables = [(one.address, one.address + one.size) for one in image.sections if one.name in (".got", ".got.plt")]
    return {
        slot: addend
        for slot, addend in image.relative.items()
        if symbol.address <= addend < symbol.address + symbol.size and any(low <= slot < high for low, high in tables)
    }
