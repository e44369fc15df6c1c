# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process that descriptions of a program name by its number, as in ``pid4711:libc::entry``: dtrace(1) traces it
without being given it by -p."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
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
from gilk.lang.d.probes import described
from gilk.targets.alive import is_alive

#: Any text that such a description is in has this somewhere; few others have.
_PERHAPS = re.compile(r"[\w*?\]-](?:\d|\$\$?\d+|\$\$?pp?id)\s*:")
_NUMBERED = re.compile(r".*?([0-9]{1,9})\Z")


def process_meant(
    texts: Sequence[ProgramText], macros: Macros, options: Options, directories: Sequence[str]
) -> int | None:
    """Its number; None of a program that names none. ``directories``: of libraries, as of -L.

    A provider whose name just ends in a number means no process, unless the one of that number has such a provider:
    whether it does is known without touching it. Raises UsageError `two-processes`.
    """
    if not any(_PERHAPS.search(text.source.text) for text in texts):
        return None
    providers = {described(each.text).provider for each in _descriptions(texts, macros, options, directories)}
    found = sorted({pid for provider in providers if (pid := _named(provider))})
    if len(found) > 1:
        what = f"the program is about processes {', '.join(map(str, found))}: one process is traced"
        raise UsageError("two-processes", what, "trace each by a command of its own")
    return found[0] if found else None


def _descriptions(
    texts: Sequence[ProgramText], macros: Macros, options: Options, directories: Sequence[str]
) -> Iterator[items.ProbeText]:
    """Those of all clauses; of a program with a mistake, which is told when it is compiled, none."""
    try:
        parsed = _parsed(texts, macros, options, directories)
    except (DoesNotCompile, UsageError):
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
    """The number of the process; 0 if it means none."""
    found = _NUMBERED.match(provider)
    pid = int(found[1]) if found else 0
    if not pid or not is_alive(pid):
        return 0
    return pid if fnmatch.fnmatchcase(f"pid{pid}", provider) or _provides(pid, provider) else 0


def _provides(pid: int, provider: str) -> bool:
    from gilk.providers import usdt  # here, as below: programs without a process need not wait for it
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
