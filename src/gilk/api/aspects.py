# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects: their files checked, explained, and woven into processes.

import gilk

with gilk.attach(4711) as target, gilk.weave("fix.aspect", target) as woven:
    for report in woven.reports():
        print(report.text)
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gilk.api.processes import hold
from gilk.engines.aspect.checked import check as check_aspects
from gilk.engines.aspect.checked import defined
from gilk.engines.aspect.explained import explain as explain_aspects
from gilk.errors import UsageError
from gilk.outputs import fresh, replaceable

if TYPE_CHECKING:
    from gilk.api.kernels import Kernel
    from gilk.api.processes import Target
    from gilk.api.woven import MembersOf, Woven
    from gilk.engines.aspect.asking import WeavingAnswers
    from gilk.engines.aspect.emitted import EmittedC
    from gilk.engines.aspect.membership import MemberChoice as MemberChoice
    from gilk.engines.aspect.membership import Members
    from gilk.engines.aspect.weaving import Weaving as Weaving
    from gilk.errors import GilkError
    from gilk.lang.aspect.checked import CheckedFile
    from gilk.lang.aspect.woven import WovenReport as WovenReport
    from gilk.runs.elsewhere import Elsewhere as Elsewhere
    from gilk.session.broker.control import ControlServer
    from gilk.targets.detached import Detached
    from gilk.targets.kernel.target import KernelTarget

__all__ = [
    "aspect", "check_aspects", "emitted", "explain_aspects", "choices", "held", "read_aspects", "tended", "weave"
]  # fmt: skip


def aspect(path: str | Path, defines: Sequence[str] = ()) -> CheckedFile:
    """Read and check a file of aspects, which can then be woven any number of times. ``defines``: NAME or NAME=VALUE
    each, macros in front of all C for processes. Raises UsageError `no-such-file`, `bad-aspects`, `bad-define`."""
    return read_aspects(path, defines)


def read_aspects(path: str | Path, defines: Sequence[str] = ()) -> CheckedFile:
    """Read and check the file of aspects at ``path``.

    ``defines``: NAME or NAME=VALUE each, macros in front of all C that runs in processes. Raises UsageError
    `no-such-file`, `bad-aspects`, `bad-define`.
    """
    try:
        reading = check_aspects(Path(path))
    except OSError as error:
        raise UsageError("no-such-file", f"{path}: {error.strerror}") from None
    if reading.check.file is None:
        first = reading.check.errors[0]
        line = reading.source.line(first.span)
        raise UsageError("bad-aspects", f"{path}, line {line}: [{first.tag}] {first.message}", first.hint)
    file = reading.check.file
    return replace(file, process_c=(*map(defined, defines), *file.process_c)) if defines else file


def emitted(path: Path) -> tuple[EmittedC, ...]:
    """The C of the file at ``path``: of functions in processes, of accesses, and of functions in the kernel; () if the
    file has errors. Raises UsageError `cannot-weave`, OSError if the file cannot be read."""
    from gilk.engines.aspect.emitted import emitted as emit  # imported here, as below

    return emit(path)


def weave(
    file: str | Path | CheckedFile, *targets: Target, groups: Mapping[int, Sequence[str]] | None = None,
    defines: Sequence[str] = (), kernel: Kernel | None = None, allow_kernel_replace: bool = False,
    at_least: int | None = None, dry_run: bool = False, K: Kernel | None = None, **members: MembersOf,
) -> Woven:  # fmt: skip
    """Weave a file of aspects into processes. The result is a context manager; the aspects are at work until it ends.

    ``groups``: for each pid the groups that the process is a member of; a process without any is a member of all.
    ``members``: the processes of a group, as in ``A=[4711, target]``. ``defines``: see `aspect`. ``kernel``, or ``K``:
    the kernel for elements that are placed in one; ``allow_kernel_replace``: permit advice in place of its functions.
    ``at_least``: so many processes are enough; ``refused`` has the others. ``dry_run``: weave nothing; ``shadows`` has
    the places where the aspects would be woven.

    ``groups``: by pid, the names of the groups that the process is a member of; a process that it does not name is a
    member of all groups of the file. ``defines``: macros, as read_aspects() takes them. ``kernel``: the kernel for the
    elements that are placed in one. ``allow_kernel_replace``: whether advice may stand in place of functions of the
    kernel. Raises UsageError, CompileError, TargetError; then nothing has changed.
    """
    from gilk.api.woven import Woven, members_of  # imported here, as few programs weave

    if isinstance(file, str | Path):
        file = read_aspects(file, defines)
    of, attached, threads = members_of(file, targets, groups, members)
    woven = Woven(file, of, attached, at_least, kernel or K, allow_kernel_replace, threads)
    if not dry_run:
        woven.weave()
    return woven


def choices(groups: Sequence[str], pids: Sequence[int]) -> list[MemberChoice]:
    """The members that a user has named.

    ``groups``: GROUP=MEMBERS each. ``pids``: processes that are members of all groups. Raises UsageError `bad-group`.
    """
    from gilk.engines.aspect.membership import read_choices, said  # imported here, as below

    return [*said(pids), *(one for text in groups for one in read_choices(text))]


@contextmanager
def held(
    path: Path,
    chosen: Sequence[MemberChoice],
    command: Sequence[str],
    at_least: int | None = None,
    defines: Sequence[str] = (),
    persist: bool = False,
    machine: str = "",
    replaces: bool = False,
) -> Iterator[tuple[Weaving, Members, Elsewhere | None]]:
    """A context with a weaving that has put nothing in yet, its members, and the connection to ``machine``; that is
    None if the kernel is this machine's, or if there is none.

    The command, if there is one, is launched, is a member of all groups, and waits until it is released; if ``machine``
    is another one, the caller has to start it there. At the end of the context the processes and the machine are let
    go. ``at_least``: how many processes have to be woven if others are refused; None if all have to be. ``persist``:
    the aspects stay in the processes when gilk is killed. ``replaces``: advice may stand in place of functions of the
    kernel. Raises as weave(), and UsageError `bad-group`, `bad-machine`, `remote-kernel-only`, TargetError
    `no-such-process`.
    """
    from gilk.engines.aspect.membership import Members
    from gilk.engines.aspect.weaving import Weaving  # imported here, as few programs weave
    from gilk.targets.selecting import processes as all_processes

    file = read_aspects(path, defines)
    every = tuple(group.name for group in file.groups)
    members = Members(chosen, every)
    groups = members.first(all_processes())
    with _kernel_for(file, bool(chosen or (command and not machine)), machine, replaces) as (kernel, elsewhere):
        processes = hold(list(groups), command if elsewhere is None else ())
        try:
            of = {one.pid: groups.get(one.pid, every) for one in processes}
            weaving = Weaving(file, of, processes, at_least, persist, kernel, replaces, members.threads)
            weaving.kills_unstarted = True
            yield weaving, members, elsewhere
        finally:
            for one in processes:
                one.kill_unstarted()
                one.keeper.leave()


def is_of_both(file: CheckedFile) -> bool:
    """Whether the file has both elements in processes and elements in the kernel."""
    elements = [one for aspect in file.aspects for one in (*aspect.elements, *aspect.until)]
    return any(one.kernel for one in elements) and any(one.processes for one in elements)


def weave_in_lab(words: Sequence[str]) -> int:
    """Run `gilk weave` with the arguments ``words`` in a fresh virtual machine; returns its exit status.

    There it weaves into processes as it does where gilk runs. Raises TargetError, MachineGone.
    """
    from gilk.runs.elsewhere import reach

    elsewhere = reach("lab")
    try:
        elsewhere.start([sys.executable, "-m", "gilk", "weave", *words])
        return elsewhere.ended()
    finally:
        elsewhere.close()


@contextmanager
def _kernel_for(
    file: CheckedFile, processes: bool, machine: str, replaces: bool
) -> Iterator[tuple[KernelTarget | None, Elsewhere | None]]:
    """A context with the kernel in which elements of the file are placed, and the connection to its machine; each is
    None if there is none. Both are let go at the end. Raises UsageError, TargetError."""
    elements = [one for aspect in file.aspects for one in (*aspect.elements, *aspect.until)]
    wanted = any(one.kernel for one in elements)
    if machine and (processes or any(one.processes for one in elements)):
        raise UsageError(
            "remote-kernel-only", f"on {machine}, elements are placed in the kernel: K: call(...)",
            "processes are woven where gilk runs: --on lab -c COMMAND has it run there",
        )  # fmt: skip
    if not wanted:
        yield None, None
        return
    from gilk.engines.aspect.kernel_part import confined_file
    from gilk.runs.kernels import kernel_at  # imported here: most weavings are in processes alone

    confined_file(file, processes, replaces)  # elements that are not allowed are refused before a machine is booted
    target, elsewhere = kernel_at(machine)
    try:
        yield target, elsewhere
    finally:
        target.link.close()
        if elsewhere is not None:
            elsewhere.close()


@contextmanager
def tended(weaving: Weaving, members: Members, tell: Callable[[int, GilkError], None]) -> Iterator[Callable[[], bool]]:
    """A context with a function that has processes join and leave the weaving as members come and go.

    The function returns whether more members may come. ``tell`` is called with the pid and the error of each process
    that cannot take part.
    """
    from gilk.engines.aspect.tending import Tender  # imported here, as above

    with Tender(weaving, members, tell) as tender:
        yield tender.tend


class AnswersOfWeaving:
    """The answers of a weaving to `gilk aspect list` and the commands like it. ``removed``: whether one of them has
    asked the weaving to end."""

    def __init__(self, answers: WeavingAnswers, server: ControlServer) -> None:
        self._answers, self._server = answers, server

    def note(self, report: WovenReport) -> None:
        self._answers.note(report)

    def serve(self) -> None:
        """Answer every client that has sent a request since the last call."""
        self._server.answer()

    @property
    def removed(self) -> bool:
        return self._answers.removed


@contextmanager
def answering(weaving: Weaving, file: Path) -> Iterator[AnswersOfWeaving]:
    """A context in which `gilk aspect` can reach the weaving of ``file``; call serve() often. Raises OSError."""
    from gilk.engines.aspect.asking import WeavingAnswers
    from gilk.session.broker.control import ControlServer

    answers = WeavingAnswers(weaving, str(file.absolute()))
    with ControlServer(answers.answer) as server:
        yield AnswersOfWeaving(answers, server)


def fresh_text(path: Path) -> IO[str]:
    """A new file in the place of the one at ``path``, if there is one; opened for writing. Raises OSError, also if
    ``path`` is not a regular file."""
    if not replaceable(path):
        raise OSError(errno.EEXIST, "is there, and is no file")
    return os.fdopen(fresh(path), "w", encoding="utf-8")


def detached() -> Detached:
    """Split gilk into two processes, the second of which goes on in the background (targets/detached.py)."""
    from gilk.targets.detached import Detached

    return Detached()
