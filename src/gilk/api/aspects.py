# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects: their files checked, explained, and woven into processes.

    import gilk

    with gilk.attach(4711) as target, gilk.weave("fix.aspect", target) as woven:
        for report in woven.reports():
            print(report.text)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.api.processes import hold
from gilk.engines.aspect.checked import check as check_aspects
from gilk.engines.aspect.explained import explain as explain_aspects
from gilk.errors import UsageError

if TYPE_CHECKING:
    from gilk.api.processes import Target
    from gilk.engines.aspect.membership import MemberChoice, Members
    from gilk.engines.aspect.weaving import Weaving as Weaving
    from gilk.errors import GilkError
    from gilk.lang.aspect.checked import CheckedFile
    from gilk.lang.aspect.woven import WovenReport as WovenReport

__all__ = ["check_aspects", "explain_aspects", "choices", "held", "read_aspects", "tended", "weave"]


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


def choices(groups: Sequence[str], pids: Sequence[int]) -> list[MemberChoice]:
    """``groups``: GROUP=MEMBERS each; ``pids`` are members of all groups. Raises UsageError `bad-group`."""
    from gilk.engines.aspect.membership import read_choices, said  # here, as below

    return [*said(pids), *(one for text in groups for one in read_choices(text))]


@contextmanager
def held(
    path: Path, chosen: Sequence[MemberChoice], command: Sequence[str], at_least: int | None = None
) -> Iterator[tuple[Weaving, Members]]:
    """A weaving that nothing of is in yet, and its members. Its processes are let go at the end; the command, if there
    is one, is launched, is a member of all groups, and waits for its release. ``at_least``: how many processes are
    enough.

    Raises as weave(), and UsageError `bad-group`, TargetError `no-such-process`.
    """
    from gilk.engines.aspect.membership import Members
    from gilk.engines.aspect.weaving import Weaving  # here: few programs weave
    from gilk.targets.selecting import processes as all_processes

    file = read_aspects(path)
    every = tuple(group.name for group in file.groups)
    members = Members(chosen, every)
    groups = members.first(all_processes())
    processes = hold(list(groups), command)
    try:
        yield Weaving(file, {one.pid: groups.get(one.pid, every) for one in processes}, processes, at_least), members
    finally:
        for one in processes:
            one.kill_unstarted()
            one.keeper.leave()


@contextmanager
def tended(weaving: Weaving, members: Members, tell: Callable[[int, GilkError], None]) -> Iterator[Callable[[], bool]]:
    """A function that has processes join and leave as members come and go; it says whether more may come. ``tell`` is
    told of each that does not take part."""
    from gilk.engines.aspect.tending import Tender  # here, as above

    with Tender(weaving, members, tell) as tender:
        yield tender.tend
