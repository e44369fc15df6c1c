# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects: their files checked, explained, and woven into processes.

    import gilk

    with gilk.attach(4711) as target, gilk.weave("fix.aspect", target) as woven:
        for report in woven.reports():
            print(report.text)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.api.processes import hold
from gilk.engines.aspect.checked import check as check_aspects
from gilk.engines.aspect.explained import explain as explain_aspects
from gilk.errors import UsageError

if TYPE_CHECKING:
    from gilk.api.processes import Target
    from gilk.engines.aspect.weaving import Weaving as Weaving
    from gilk.lang.aspect.checked import CheckedFile
    from gilk.lang.aspect.woven import WovenReport as WovenReport

__all__ = ["check_aspects", "explain_aspects", "held", "members", "read_aspects", "weave"]


def read_aspects(path: str | Path) -> CheckedFile:
    """Raises UsageError `no-such-file`, `bad-aspects`."""
    try:
        reading = check_aspects(Path(path))
    except OSError as error:
        raise UsageError("no-such-file", f"{path}: {error.strerror}") from None
    if reading.check.file is None:
        first = reading.check.errors[0]
        line = reading.source.line(first.span)
        raise UsageError("bad-aspects", f"{path}, line {line}: [{first.tag}] {first.message}", first.hint)
    return reading.check.file


def weave(path: str | Path, *targets: Target, groups: Mapping[int, Sequence[str]] | None = None) -> Weaving:
    """A file of aspects in processes, at work until the context that this is ends. ``groups``: by pid, those that the
    process is a member of; one of which none are said is a member of all.

    Raises UsageError, CompileError, TargetError; then nothing has changed.
    """
    from gilk.engines.aspect.weaving import Weaving  # here: few programs weave

    file = read_aspects(path)
    every = tuple(group.name for group in file.groups)
    members = {one.pid: (groups or {}).get(one.pid, every) for one in targets}
    woven = Weaving(file, members, [one.process for one in targets])
    woven.weave()
    return woven


def members(groups: Sequence[str], pids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The groups of each process; () of one that is a member of all. ``groups``: GROUP=PID,PID each.

    Raises UsageError `bad-group`.
    """
    found: dict[int, tuple[str, ...]] = dict.fromkeys(pids, ())
    for text in groups:
        name, separator, numbers = text.partition("=")
        words = numbers.split(",")
        if not separator or not name.isidentifier() or not all(word.isdecimal() for word in words):
            raise UsageError("bad-group", f"{text!r} is not GROUP=PID[,PID]", "for example A=4711")
        for pid in map(int, words):
            if pid not in pids:
                found[pid] = (*found.get(pid, ()), name)
    return found


@contextmanager
def held(path: Path, members: Mapping[int, Sequence[str]], command: Sequence[str]) -> Iterator[Weaving]:
    """A weaving that nothing of is in yet. Its processes are let go at the end; the command, if there is one, is
    launched, and waits for its release.

    Raises as weave(), and UsageError `bad-group`.
    """
    from gilk.engines.aspect.weaving import Weaving  # here, as above

    file = read_aspects(path)
    every = tuple(group.name for group in file.groups)
    for name in {name for names in members.values() for name in names} - set(every):
        raise UsageError("bad-group", f"{path} has no group {name!r}", f"it has {', '.join(every) or 'none'}")
    processes = hold(list(members), command)
    try:
        yield Weaving(file, {one.pid: members.get(one.pid) or every for one in processes}, processes)
    finally:
        for one in processes:
            one.kill_unstarted()
            one.keeper.leave()
