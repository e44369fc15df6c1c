# SPDX-License-Identifier: LGPL-2.1-or-later
"""A stand-in for the driver: the units that it would refuse (native/abi/ilk_abi.h), and the text that it would make of
them.

Instructions are decoded by objdump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gilk.splice.kernel.units import Unit, UnitKind
from gilk.splice.plan import Patch

WINDOW = 24
JUMP, SHORT, CALL, TRAP = 0xE9, 0xEB, 0xE8, 0xCC
Listing = Mapping[int, tuple[int, str]]  # address -> length, text
Read = Callable[[int, int], bytes]


def refused(units: Iterable[Unit], patches: Iterable[Patch], listing: Listing, read: Read) -> Iterator[str]:
    """The reasons, in words, for which the driver would refuse the units."""
    applied: dict[int, Unit] = {}
    arena = [(patch.address, patch.address + len(patch.data)) for patch in patches]
    for unit in units:
        for fault in (*_form(unit), *_place(unit, applied, listing, read), *_bytes(unit, applied)):
            yield f"{unit.kind.name} at {unit.address:#x}: {fault}"
        for name, address in (("patch", unit.patch), ("copy", unit.copy)):
            if address and not any(low <= address < high for low, high in arena):
                yield f"{unit.kind.name} at {unit.address:#x}: {name} {address:#x} is in no arena"
        applied[unit.address] = unit


def _form(unit: Unit) -> Iterator[str]:
    if not 0 < len(unit.old) <= WINDOW or len(unit.old) != len(unit.new):
        yield f"length {len(unit.old)} and {len(unit.new)}"
    free = unit.kind in (UnitKind.TRAP, UnitKind.FENTRY, UnitKind.PAD)
    free = free or (unit.kind is UnitKind.SINGLE and unit.old[0] in (CALL, JUMP))
    if not unit.copy and not free:
        yield "no copy"
    if not unit.patch:
        yield "no patch"


def _place(unit: Unit, applied: Mapping[int, Unit], listing: Listing, read: Read) -> Iterator[str]:
    if unit.kind is UnitKind.PAD:
        yield from _pad(unit, applied, read)
        return
    if read(unit.address, len(unit.old)) != unit.old:
        yield "stale"
    if unit.kind is UnitKind.FENTRY:
        return
    for other in applied.values():
        if unit.address < other.end and other.address < unit.end:
            yield f"overlaps {other.address:#x}"
    texts = _instructions(unit, listing)
    if texts is None:
        yield "not whole instructions"
        return
    returns = texts[0].startswith("ret") and all(text == "int3" for text in texts[1:])
    single = len(texts) == 1 or returns
    if not returns and any(text.startswith(("call", "jmp", "ret")) for text in _without_traps(texts)[:-1]):
        yield "code behind an instruction that goes elsewhere"
    expected = {
        UnitKind.SINGLE: single,
        UnitKind.MULTI: not single,
        UnitKind.TRAP: len(texts) == 1,
        UnitKind.SHORT: True,
    }
    if not expected[unit.kind] or (unit.kind is UnitKind.SHORT and unit.several == single):
        yield f"covers {texts}"


def _instructions(unit: Unit, listing: Listing) -> list[str] | None:
    address, texts = unit.address, []
    while address < unit.end:
        if address not in listing:
            return None
        length, text = listing[address]
        texts.append(text)
        address += length
    return texts if address == unit.end else None


def _without_traps(texts: list[str]) -> list[str]:
    """The instructions without the int3 after a return."""
    last = max(n for n, text in enumerate(texts) if text != "int3")
    return texts[: last + 1] if texts[last].startswith("ret") else texts


def _pad(unit: Unit, applied: Mapping[int, Unit], read: Read) -> Iterator[str]:
    for host in applied.values():
        if host.address <= unit.address < host.end and host.kind in (UnitKind.SINGLE, UnitKind.MULTI):
            at = unit.address - host.address
            if at < 5 or host.new[at : at + len(unit.old)] != unit.old:
                yield f"the host has {host.new[at:].hex()} there"
            return
    if read(unit.address, len(unit.old)) != unit.old:
        yield "stale"
    if unit.old.strip(b"\x90\xcc") and not _is_nop(unit.old):
        yield f"{unit.old.hex()} is not idle"


def _is_nop(code: bytes) -> bool:
    """One nop of several bytes, by its form (Intel SDM volume 2, NOP)."""
    bare = code.lstrip(b"\x66\x2e")
    return bare[:2] == b"\x0f\x1f" and len(bare) in (3, 4, 5, 7, 8)


def _bytes(unit: Unit, applied: Mapping[int, Unit]) -> Iterator[str]:
    new, rest = unit.new, unit.new[5:]
    if unit.kind in (UnitKind.SINGLE, UnitKind.MULTI, UnitKind.PAD):
        allowed = (JUMP, CALL) if unit.kind is UnitKind.SINGLE and unit.old[0] == CALL else (JUMP,)
        if new[0] not in allowed or _target(unit) != unit.patch or rest.strip(b"\x90\xcc"):
            yield f"writes {new.hex()}"
    elif unit.kind is UnitKind.TRAP:
        if new != bytes((TRAP,)) + unit.old[1:]:
            yield f"writes {new.hex()}"
    elif unit.kind is UnitKind.SHORT:
        pad = applied.get(unit.address + 2 + int.from_bytes(new[1:2], "little", signed=True))
        if new[0] != SHORT or pad is None or pad.kind is not UnitKind.PAD or pad.patch != unit.patch:
            yield f"writes {new.hex()}"
        elif pad.address != unit.pad:
            yield f"names the pad {unit.pad:#x}"


def _target(unit: Unit) -> int:
    return unit.address + 5 + int.from_bytes(unit.new[1:5], "little", signed=True)


def written(units: Iterable[Unit]) -> tuple[dict[int, bytes], dict[int, int]]:
    """The memory after the units were applied, in order of writing, and the targets of traps."""
    memory, traps = {}, {}
    for unit in units:
        memory[unit.address] = unit.new
        if unit.kind is UnitKind.TRAP:
            traps[unit.address] = unit.patch
        elif unit.kind is UnitKind.FENTRY:
            distance = unit.patch - unit.address - 5
            memory[unit.address] = bytes((CALL,)) + distance.to_bytes(4, "little", signed=True)
    return memory, traps
