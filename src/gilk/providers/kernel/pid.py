# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``pidN`` in a kernel: functions of processes, by the kernel's uprobes."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from gilk.analysis.analysis import Analysis
from gilk.errors import ImageError
from gilk.image import demangle, lookup
from gilk.image.model import FunctionSpan, Image
from gilk.lang.d.probes import Description
from gilk.providers.kernel.probe import HasKernel, HasUsers, KernelProbe
from gilk.providers.pid import places
from gilk.splice.points import Point
from gilk.targets.base import Loaded
from gilk.targets.call_ends import CallEndFinder, CallEnds, SiteRole
from gilk.targets.kernel.d_messages import INSTRUCTION, SiteKind, UserFire
from gilk.targets.kernel.users import UserFile
from gilk.values import dataclass

_EDGES = {"entry": SiteKind.ENTRY, "return": SiteKind.RETURN}
_TOLD = 8  # names of files in a message
_FILE = 48  # bits for an address in a file in a probe's number; above them, the number of the file


@dataclass(frozen=True)
class _FileCode:
    """A file that processes execute, as code in which points are looked up; what it jumps to elsewhere is not known."""

    users: HasUsers
    file: UserFile

    @property
    def who(self) -> str:
        return self.file.path

    def loaded(self) -> tuple[Loaded, ...]:
        spans = self.users.image(self.file).spans
        end = spans[-1].end if spans else 0
        return (replace(self.file.loaded, bias=0, start=0, end=end),)

    def image(self, path: Path) -> Image:
        return self.users.image(self.file)

    def analysis(self, loaded: Loaded) -> Analysis:
        return self.users.analysis(self.file)


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """Probes in the traced processes, and in a process that the description names by its number."""
    if description.number or not description.provider:
        return
    for provider, pids in _meant(target.users, description.provider):
        for number, file in enumerate(target.users.files(pids)):
            if file.loaded.is_meant(description.module) and description.function != "-":
                yield from _of_file(target.users, provider, number, file, description)


def _meant(users: HasUsers, glob: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    for number, pids in users.meant(glob):
        if fnmatch.fnmatchcase(f"pid{number}", glob):
            yield f"pid{number}", pids


def _of_file(
    users: HasUsers, provider: str, number: int, file: UserFile, description: Description
) -> Iterator[KernelProbe]:  # fmt: skip
    try:
        image = users.image(file)
    except ImageError:
        return
    functions = lookup.matching(image, description.function or "*")
    code = _FileCode(users, file)
    calls = CallEndFinder(code)
    for span, name, where in places(image, lambda: users.analysis(file), functions, description.name):
        start = image.offset_of(span.start)
        ends = _ends(code, calls, span) if name == "return" else None
        steps = ((SiteRole.FIRES, point) for _, point in where)
        if ends is not None:
            steps = ((role, place.point) for role, place in ends.steps(left=True))
        user = tuple(_fires(image, file, name, start, steps))
        if user:
            key = (provider, file.loaded.name, demangle.readable(span.name), name)
            early = ends.why if ends is not None else ()
            yield KernelProbe(key, None, user=user, number=number << _FILE | span.start, early=early)


def _ends(code: _FileCode, calls: CallEndFinder, span: FunctionSpan) -> CallEnds | None:
    """The ends of calls of the function; None if it is a part of another."""
    (loaded,) = code.loaded()
    function = code.analysis(loaded).function(span)
    return None if function.whole else calls.of(loaded, function)


def _fires(
    image: Image, file: UserFile, name: str, start: int, steps: Iterable[tuple[SiteRole, Point]]
) -> Iterator[UserFire]:
    for role, point in steps:
        at, content = image.offset_of(point.address), image.read(point.address, INSTRUCTION)
        if at >= 0 and content:
            kind, edge = _EDGES.get(name, SiteKind.ENTRY), name in _EDGES and not point.after
            yield UserFire(file.path, kind, at, max(start, 0), content, edge, file.pids, role=role)


def missing(users: HasUsers, description: Description) -> str:
    """Why a description means no probes; "" if that is not known."""
    meant = list(_meant(users, description.provider))
    if not meant:
        return "no such process is traced: -p or -c says which, or its number"
    files = [file for _, pids in meant for file in users.files(pids)]
    if not files:
        return "what the process executes cannot be read: it may have ended"
    if not any(file.loaded.is_meant(description.module) for file in files):
        known = sorted({file.loaded.name for file in files})
        return f"the process maps no {description.module}, but {', '.join(known[:_TOLD])}"
    return ""
