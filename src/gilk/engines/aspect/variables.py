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

_APART = 1 << 60  # where no image has anything: an object that lies in another one


@dataclass(frozen=True, slots=True)
class VariablePart:
    """A member of a variable: where it begins in that, and how long it is, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class FoundVariable:
    """``symbol`` of an image of the process."""

    loaded: Loaded
    symbol: ElfSymbol

    @property
    def address(self) -> int:
        """In the running process."""
        return self.symbol.address + self.loaded.bias


@dataclass(frozen=True, slots=True)
class LoadedAccess:
    """An instruction of an image where that is loaded."""

    loaded: Loaded
    access: VariableAccess


def find_variable(process: Code, name: str, image: str) -> FoundVariable:
    """That of the program, and where it has none of that name, of any library. Raises UsageError `no-such-variable`,
    `ambiguous-variable`."""
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
    """The accesses of all images; and where an address of the variable gets out of sight."""
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
    """The variable as the code of an image has it; None if that does not know it."""
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
    """Words of its GOT that the loader sets by where the image lies."""
    tables = [(one.address, one.address + one.size) for one in image.sections if one.name in (".got", ".got.plt")]
    return {
        slot: addend
        for slot, addend in image.relative.items()
        if symbol.address <= addend < symbol.address + symbol.size and any(low <= slot < high for low, high in tables)
    }
