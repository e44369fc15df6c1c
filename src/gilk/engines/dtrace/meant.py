# SPDX-License-Identifier: LGPL-2.1-or-later
"""The target that a program's descriptions name, without -p, -c and --on: processes by their numbers, as in
``pid4711:libc::entry``, or the kernel of this machine, as in ``fbt::vfs_read:entry``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from gilk.engines.dtrace import libraries
from gilk.engines.dtrace.compiled import ProgramText
from gilk.errors import GilkError, UsageError
from gilk.lang.d import items
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.passes import reading
from gilk.lang.d.passes.state import Invocation
from gilk.lang.d.passes.values import DoesNotCompile, Units, Unread
from gilk.lang.d.probes import Description, described
from gilk.providers import IN_KERNEL
from gilk.targets.alive import has_ended

#: Providers of the kernel that are also there for a process.
_SHARED = frozenset(("syscall", "proc"))
_OF_KERNEL = frozenset(filter(None, IN_KERNEL.values())) - _SHARED - {"pid"}
#: A quick test: any text with such a description matches this; few others do.
_PERHAPS = re.compile(
    rf"[\w*?\]-](?:\d|\$\$?\d+|\$\$?pp?id)\s*:|\b(?:{'|'.join(sorted(_OF_KERNEL | _SHARED))})\s*:|\bprofile-"
)
_NUMBERED = re.compile(r".*?([0-9]{1,9})\Z")


def descriptions(
    texts: Sequence[ProgramText], macros: Macros, options: Options, directories: Sequence[str]
) -> frozenset[Description]:
    """The descriptions of the programs; empty if none can name a target, or if a program has a mistake and will not
    compile.

    ``directories``: of libraries, as for -L.
    """
    if not any(_PERHAPS.search(text.source.text) for text in texts):
        return frozenset()
    return frozenset(described(each.text) for each in _descriptions(texts, macros, options, directories))


def is_of_kernel(found: Iterable[Description], has_process: bool) -> bool:
    """Whether the program is about the kernel. If it has a process as well, system calls are the process's, and only
    other providers of the kernel count."""
    return any(
        each.provider in _OF_KERNEL
        or (not has_process and (each.provider in _SHARED or each.name.startswith("profile-")))
        for each in found
    )


def processes_meant(found: Iterable[Description]) -> tuple[int, ...]:
    """The pids of the processes that descriptions name, in ascending order.

    A provider whose name ends in a number means a process only if that process has such a provider, which can be seen
    without touching it.
    """
    return tuple(sorted({pid for provider in {each.provider for each in found} if (pid := _named(provider))}))


def _descriptions(
    texts: Sequence[ProgramText], macros: Macros, options: Options, directories: Sequence[str]
) -> Iterator[items.ProbeText]:
    try:
        parsed = _parsed(texts, macros, options, directories)
    except (DoesNotCompile, UsageError):
        return
    if any(unit.program.mistake for unit in (*parsed.libraries, *parsed.programs)):
        return
    for unit in parsed.programs:
        for item in unit.program.items:
            if isinstance(item, items.Clause):
                yield from item.probes


def _parsed(texts: Sequence[ProgramText], macros: Macros, options: Options, directories: Sequence[str]) -> Units:
    sources = libraries.wanted([text.source.text for text in texts], directories, None)
    libraries_first = tuple(ProgramText("library", source) for source in sources)
    return reading.run(Unread(libraries_first, tuple(texts)), Invocation(macros, options))


def _named(provider: str) -> int:
    """The pid that the provider's name ends in; 0 if it means no process."""
    found = _NUMBERED.match(provider)
    pid = int(found[1]) if found else 0
    if not pid or has_ended(pid):
        return 0
    return pid if fnmatch.fnmatchcase(f"pid{pid}", provider) or _provides(pid, provider) else 0


def _provides(pid: int, provider: str) -> bool:
    from gilk.providers import usdt  # imported here, as below: few programs need it
    from gilk.targets.files import Files
    from gilk.targets.maps import read_maps

    files = Files(pid)
    try:
        with suppress(GilkError, OSError):
            names = usdt.names(files.loaded(read_maps(pid)))
            return any(fnmatch.fnmatchcase(f"{name}{pid}", provider) for name in names)
        return False
    finally:
        files.close()
