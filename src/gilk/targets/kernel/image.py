# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads a running kernel through a link: symbols, live text, and the tables that name single instructions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gilk.errors import TargetError
from gilk.image.kernel import kallsyms, listings
from gilk.image.kernel import modules as structs
from gilk.image.kernel.btf import Btf
from gilk.image.kernel.kallsyms import CORE, KernelSymbols
from gilk.image.kernel.snapshot import KernelPart, KernelSnapshot, KernelTables, TextRegion
from gilk.targets.kernel.link import Link

_BLACKLIST: Final = "/sys/kernel/debug/kprobes/blacklist"
_PROBES: Final = "/sys/kernel/debug/kprobes/list"
_TYPES: Final = "/sys/kernel/btf/vmlinux"
_BOOT: Final = "/proc/sys/kernel/random/boot_id"
#: The symbols around each part, in the order of KernelPart: text, constants, and the four tables.
_CORE_RANGES: Final = (
    ("_stext", "_etext"),
    ("__start_rodata", "__end_rodata"),
    ("__start___ex_table", "__stop___ex_table"),
    ("__start___jump_table", "__stop___jump_table"),
    ("__start___bug_table", "__stop___bug_table"),
    ("__start_static_call_sites", "__stop_static_call_sites"),
)
_LARGEST: Final = 1 << 30  # bytes of one range: limits what an unexpected symbol makes us read

Range = tuple[int, int]  # address and size


def identity(link: Link) -> str:
    """A text that identifies a kernel's code: its build, its boot, the modules that are loaded, and the kprobes. Raises
    TargetError `kernel-unreadable`."""
    boot = _file(link, _BOOT).decode(errors="replace").strip()
    modules = listings.modules(_file(link, "/proc/modules"))  # without their reference counts
    probes = listings.probes(_probes(link))
    return "\n".join((listings.build_id(_file(link, "/sys/kernel/notes")), boot, repr(modules), repr(probes)))


def read(link: Link) -> KernelSnapshot:
    """A snapshot of the running kernel. Raises TargetError `kernel-unreadable`; ImageError when its contents are not as
    gilk knows them."""
    symbols = kallsyms.parse(_file(link, "/proc/kallsyms"))
    types = Btf(_file(link, _TYPES))
    structs.check_entries(types)
    return KernelSnapshot(
        release=_file(link, "/proc/sys/kernel/osrelease").decode(errors="replace").strip(),
        build_id=listings.build_id(_file(link, "/sys/kernel/notes")),
        boot_id=_file(link, _BOOT).decode(errors="replace").strip(),
        symbols=symbols,
        parts=(_core(link, symbols), *_modules(link, symbols, types)),
        blacklist=listings.blacklist(_file(link, _BLACKLIST)),
        probes=listings.probes(_probes(link)),
    )


def as_it_was(snapshot: KernelSnapshot, originals: Sequence[tuple[int, bytes]]) -> KernelSnapshot:
    """The snapshot with ``originals``, (address, bytes), put back into its text."""
    parts = tuple(replace(part, text=_restored(part.text, originals)) for part in snapshot.parts)
    return replace(snapshot, parts=parts)


def _restored(text: TextRegion, originals: Sequence[tuple[int, bytes]]) -> TextRegion:
    inside = [(at - text.address, old) for at, old in originals if text.address <= at < text.address + len(text.data)]
    if not inside:
        return text
    data = bytearray(text.data)
    for at, old in inside:
        data[at : at + len(old)] = old
    return replace(text, data=bytes(data))


def types(link: Link, module: str = CORE, core: Btf | None = None) -> Btf:
    """The types of the kernel, or of a module. ``core``: the kernel's types, if they are known already. Raises
    TargetError `kernel-unreadable`, ImageError `btf-malformed`."""
    core = core or Btf(_file(link, _TYPES))
    return Btf(_file(link, f"/sys/kernel/btf/{module}"), core) if module else core


def _file(link: Link, path: str) -> bytes:
    try:
        return link.read_file(path)
    except OSError as error:
        hint = "be root; gilk doctor says what is missing"
        if path.startswith("/sys/kernel/debug/"):
            hint = "be root, and have debugfs mounted: mount -t debugfs none /sys/kernel/debug"
        elif path == _TYPES:
            hint = "gilk reads the layout of the kernel's tables there; such a kernel is built with DEBUG_INFO_BTF"
        raise TargetError("kernel-unreadable", f"{path}: {error.strerror or error}", hint) from None


def _probes(link: Link) -> bytes:
    """The list of kprobes; empty where the kernel has none at all."""
    try:
        return link.read_file(_PROBES)
    except FileNotFoundError:
        return b""
    except OSError:
        return _file(link, _PROBES)


def _memory(link: Link, ranges: Iterable[Range]) -> list[TextRegion]:
    """The contents of ranges of the kernel's memory. Raises TargetError `kernel-unreadable`."""
    wanted = list(ranges)
    if any(size > _LARGEST for _, size in wanted):
        raise TargetError("kernel-unreadable", "/proc/kallsyms puts a table end before, or too far behind, its start")
    filled = [each for each in wanted if each[1]]
    try:
        found = iter(link.read_core(filled))
    except OSError as error:
        hint = "be root; a kernel locked down for confidentiality does not allow it"
        raise TargetError("kernel-unreadable", f"/proc/kcore: {error.strerror or error}", hint) from None
    return [TextRegion(address, next(found) if size else b"") for address, size in wanted]


def _core(link: Link, symbols: KernelSymbols) -> KernelPart:
    ranges = []
    for low, high in _CORE_RANGES:
        start, end = symbols.find(low), symbols.find(high)
        if start is None or end is None or end < start:
            raise TargetError("kernel-unreadable", f"/proc/kallsyms has no {low} and {high}")
        ranges.append((start, end - start))
    return _part(CORE, _memory(link, ranges))


def _modules(link: Link, symbols: KernelSymbols, types: Btf) -> list[KernelPart]:
    """The parts of all live modules; a module's own description in memory says where its parts are."""
    layout = structs.ModuleLayout.of(types)
    live = {module.name for module in listings.modules(_file(link, "/proc/modules")) if module.live}
    known = {name: at for name, at in symbols.of_modules("__this_module").items() if name in live}
    described = _memory(link, ((address, layout.size) for address in known.values()))
    found = [module for region in described if (module := layout.read(region.data)) is not None]
    ranges = [each for m in found for each in (m.text, m.constants, m.exceptions, m.jumps, m.bugs, m.static_calls)]
    regions = _memory(link, ranges)
    return [_part(module.name, regions[6 * i : 6 * i + 6]) for i, module in enumerate(found)]


def _part(owner: str, regions: list[TextRegion]) -> KernelPart:
    text, constants, *tables = regions
    return KernelPart(owner, text, constants, KernelTables(*tables))
