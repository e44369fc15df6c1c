# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python API of a weaving: a file of aspects that is woven into processes and the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

from gilk.api.kernels import Kernel
from gilk.api.processes import Target
from gilk.engines.aspect.membership import check_group, thread_members
from gilk.engines.aspect.thread_groups import ThreadGroups
from gilk.engines.aspect.weaving import Weaving
from gilk.errors import TargetError, UsageError
from gilk.lang.aspect.checked import CheckedFile
from gilk.lang.aspect.woven import DryShadow
from gilk.render.woven_tables import KeyPart, key_of, value_of
from gilk.targets.process import Process, attach

__all__ = ["Member", "MembersOf", "Woven", "check_groups", "members_of"]

#: A process, by its number or attached to already.
Member = int | Target
#: The members of a group.
MembersOf = Member | Iterable[Member]


class Woven(Weaving):
    """The result of `weave`, a context manager. At its end all advice is taken out, and processes that were given by
    their numbers are released."""

    def __init__(
        self, file: CheckedFile, groups: Mapping[int, Sequence[str]], targets: Iterable[Target], at_least: int | None,
        kernel: Kernel | None, replaces: bool, threads: Mapping[int, ThreadGroups],
    ) -> None:  # fmt: skip
        self._own, self._gone = ExitStack(), False
        given = {one.pid: one.process for one in targets}
        with self._own:
            held = [given.get(pid) or self._attached(pid) for pid in groups]
            target = kernel.target if kernel is not None else None
            super().__init__(file, groups, held, at_least, kernel=target, replaces=replaces, threads=threads)
            self._own = self._own.pop_all()  # else they are let go with the error

    def _attached(self, pid: int) -> Process:
        return self._own.enter_context(attach(pid))

    @property
    def shadows(self) -> list[DryShadow]:
        """The functions and accesses that have advice, or would have it, by process. Raises CompileError."""
        return self.dry()

    def table(self, name: str) -> dict[KeyPart | tuple[KeyPart, ...], int | float | list[dict[str, str | int]]]:
        """The values of a table by their keys; a key of several parts is a tuple. Raises UsageError `no-such-table`."""
        found = next((one for one in self.tables() if one.table.name == name), None)
        if found is None:
            there = ", ".join(one.name for one in self.file.tables) or "none"
            raise UsageError("no-such-table", f"there is no table {name!r}", f"the file has {there}")
        keyed = ((key_of(found.table, row), value_of(found.table, row)) for row in found.rows)
        return {key[0] if len(key) == 1 else key: value for key, value in keyed}

    def add(self, group: str, member: Member) -> None:
        """Make a process a member of a further group, and weave into it, anew if it was woven before. Raises UsageError
        `bad-group` and the errors of `weave`; then the others go on as before."""
        check_groups(self.file, [group])
        pid = member.pid if isinstance(member, Target) else member
        if thread_members([(group, pid)]):
            hint = "threads are members from the beginning, or by join() in advice"
            raise TargetError("no-such-process", f"{pid} is a thread, and no process", hint)
        woven = next((one for one in self.processes if one.process.pid == pid), None)
        if woven is not None:
            if group not in woven.groups:
                self.leave(woven)
                self.join(woven.process, (*woven.groups, group))
        elif isinstance(member, Target):
            self.join(member.process, (group,))
        else:
            with ExitStack() as stack:
                self.join(stack.enter_context(attach(pid)), (group,))
                self._own.push(stack.pop_all())

    def on(self, *aspects: str) -> None:
        """Switch an aspect on, or all of them if no name is given. An aspect without a name is `#1` and so on, by its
        place in the file. Raises UsageError `no-such-aspect`."""
        self._turn(aspects, True)

    def off(self, *aspects: str) -> None:
        """Switch aspects off; their advice stays in place. Takes names, and raises, as `on` does."""
        self._turn(aspects, False)

    def _turn(self, names: Sequence[str], on: bool) -> None:
        known = self.states()
        for name in names:
            if name not in known:
                raise UsageError("no-such-aspect", f"there is no aspect {name!r}; there are {', '.join(known)}")
        for name in names:
            self.turn(name, on)
        if not names:
            self.switch(on)

    def remove(self) -> None:
        """Take all advice out, and release the processes that were given by their numbers. Raises TargetError."""
        self.unweave()

    def unweave(self) -> None:
        if not self._gone:
            self._gone = True
            with self._own:
                super().unweave()


def members_of(
    file: CheckedFile, targets: Sequence[Target], groups: Mapping[int, Sequence[str]] | None,
    named: Mapping[str, MembersOf],
) -> tuple[dict[int, tuple[str, ...]], list[Target], dict[int, ThreadGroups]]:  # fmt: skip
    """The groups of each process, the processes that are attached already, and the groups of single threads.

    ``targets`` are members of the groups that ``groups`` gives them, or of all; ``named`` has members by group. Raises
    UsageError `bad-group`.
    """
    check_groups(file, named)
    every = tuple(group.name for group in file.groups)
    found = {one.pid: list((groups or {}).get(one.pid, every)) for one in targets}
    attached = list(targets)
    each = {group: [of] if isinstance(of, int | Target) else list(of) for group, of in named.items()}
    threads = thread_members((group, one) for group, of in each.items() for one in of if isinstance(one, int))
    for group, members in each.items():
        for one in members:
            if isinstance(one, int) and one in threads:
                found.setdefault(threads[one].pid, [])
                continue
            own = found.setdefault(one if isinstance(one, int) else one.pid, [])
            own.extend([group] if group not in own else [])
            attached += [one] if isinstance(one, Target) else []
    return {pid: tuple(own) for pid, own in found.items()}, attached, threads


def check_groups(file: CheckedFile, names: Iterable[str]) -> None:
    """Check that the file declares all groups that are named. Raises UsageError `bad-group`."""
    every = [group.name for group in file.groups]
    for name in names:
        check_group(name, every)
