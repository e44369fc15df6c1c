# SPDX-License-Identifier: LGPL-2.1-or-later
"""USDT, the providers that programs and libraries define, in a kernel: by the kernel's uprobes."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence

from gilk.errors import ImageError
from gilk.image import demangle, lookup
from gilk.image.model import FunctionSpan, Image
from gilk.image.stapsdt import UsdtMarker
from gilk.lang.d.probes import Description, Key
from gilk.lang.ir import Given
from gilk.providers.kernel.probe import HasKernel, HasUsers, KernelProbe
from gilk.providers.operands import operands
from gilk.providers.usdt import name
from gilk.targets.kernel.d_messages import INSTRUCTION, NOWHERE, SiteKind, UserFire
from gilk.targets.kernel.users import UserFile

_TOLD = 8  # names of providers in a message
_FILE = 48  # bits for an address in a file in a probe's number; above them, the number of the file


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """Probes in the traced processes, and in a process that the description names by its number."""
    if description.number or not description.provider:
        return
    for number, pids in target.users.meant(description.provider):
        for place, file in enumerate(target.users.files(pids)):
            if file.loaded.is_meant(description.module) and description.function != "-":
                yield from _of_file(target.users, number, place, file, description)


def _of_file(
    users: HasUsers, number: str, place: int, file: UserFile, description: Description
) -> Iterator[KernelProbe]:  # fmt: skip
    marks = [mark for mark in users.marks(file) if _matches(mark, number, description)]
    if not marks:
        return
    try:
        image = users.image(file)
    except ImageError:
        return
    functions = {span.start: span for span in lookup.matching(image, description.function or "*")}
    by_key: dict[Key, list[tuple[FunctionSpan, UserFire]]] = {}
    for mark in marks:
        span = image.span_at(mark.address)
        fire = _fire(image, file, span, mark) if span is not None and span.start in functions else None
        if span is not None and fire is not None:
            key = (f"{mark.provider}{number}", file.loaded.name, demangle.readable(span.name), name(mark))
            by_key.setdefault(key, []).append((span, fire))
    for key, found in by_key.items():
        yield KernelProbe(key, None, user=tuple(fire for _, fire in found), number=place << _FILE | found[0][0].start)


def _matches(mark: UsdtMarker, number: str, description: Description) -> bool:
    if not fnmatch.fnmatchcase(f"{mark.provider}{number}", description.provider):
        return False
    globs = description.name
    return not globs or any(fnmatch.fnmatchcase(each, globs) for each in (name(mark), mark.name))


def _fire(image: Image, file: UserFile, span: FunctionSpan, mark: UsdtMarker) -> UserFire | None:
    """The place of a probe; None if the note is wrong, because no code of the file is there."""
    at, content = image.offset_of(mark.address), image.read(mark.address, INSTRUCTION)
    if at < 0 or not content:
        return None
    here = mark.address if image.position_independent else None
    given = Given(operands(mark.arguments, lambda symbol: _symbol(image, symbol), here))
    start = max(image.offset_of(span.start), 0)
    counter = _counter(image, mark.semaphore)
    return UserFire(file.path, SiteKind.ENTRY, at, start, content, False, file.pids, semaphore=counter, given=given)


def _symbol(image: Image, symbol: str) -> int | None:
    """The link-time address of a symbol; None unless exactly one address has that name."""
    found: Sequence[int] = sorted({each.address for each in image.named(symbol)})
    return found[0] if len(found) == 1 else None


def _counter(image: Image, address: int) -> int:
    """The offset of a semaphore in the file; NOWHERE if it does not lie in the image's own data; 0 if there is no
    semaphore."""
    if not address:
        return 0
    at = image.offset_of(address, 2, writable=True)
    return at if at > 0 and not at & 1 else NOWHERE


def missing(users: HasUsers, description: Description) -> str:
    """Why a description means no probes; "" if that is not known."""
    meant = list(users.meant(description.provider))
    known = sorted({mark.provider + number for number, mark in _marks(users, meant)})
    if not meant:
        return ""
    if any(fnmatch.fnmatchcase(each, description.provider) for each in known):
        return "its providers have other probes"
    return f"what the process executes has no such provider, but {', '.join(known[:_TOLD]) or 'none'}"


def _marks(users: HasUsers, meant: Sequence[tuple[str, tuple[int, ...]]]) -> Iterator[tuple[str, UsdtMarker]]:
    for number, pids in meant:
        for file in users.files(pids):
            yield from ((number, mark) for mark in users.marks(file))
