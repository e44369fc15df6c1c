# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is said on a line, as values: written by a consumer, and read by a broker that believes none of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from gilk.analysis.analysis import Analysis
from gilk.build.instrument import Compiled
from gilk.errors import CompileError, GilkError, OutOfMemory, TargetError, UsageError
from gilk.image.model import Image, Span
from gilk.session.request import CFunction
from gilk.splice.segments import is_call
from gilk.target.base import Loaded, Target
from gilk.target.semaphores import Semaphore
from gilk.values import dataclass

#: How many threads of a process have a place of their own in what is shared with it.
THREADS = 1024
_ERRORS: tuple[type[GilkError], ...] = (OutOfMemory, TargetError, UsageError, CompileError)
_KINDS = {each.__name__: each for each in _ERRORS}
_MOST_IID, _MOST_ADDRESS = (1 << 31) - 1, (1 << 47) - 1

_T = TypeVar("_T")


class ProtocolError(Exception):
    """It is not what a consumer would say."""


@dataclass(frozen=True, slots=True)
class InsertRequest:
    """One instrument at one point, as a consumer asks for it; ``start``: of the function, or of the part of one."""

    loaded: Loaded
    start: int
    address: int
    after: bool
    instrument: CFunction


@dataclass(frozen=True, slots=True)
class ResolvedInsert:
    """The same as the broker has it; ``iid`` is what the instrument is called with."""

    loaded: Loaded
    start: int
    address: int
    after: bool
    compiled: Compiled
    iid: int


# Errors.


def error_words(error: GilkError) -> dict[str, Any]:
    kind = next((name for name, made in _KINDS.items() if isinstance(error, made)), "TargetError")
    return {"error": [kind, error.slug, error.message, error.hint]}


def raise_error(words: dict[str, Any]) -> None:
    """If it is one."""
    if "error" in words:
        kind, slug, message, hint = map(str, words["error"])
        raise _KINDS[kind](slug, message, hint)


# Instruments.


def insert_words(asked: Sequence[InsertRequest], compiled: dict[CFunction, Compiled]) -> tuple[dict[str, Any], bytes]:
    """What is asked for, in order, numbered from 1; the objects are behind it."""
    objects, images = {made: n for n, made in enumerate(compiled)}, dict[Loaded, int]()
    rows = []
    for iid, one in enumerate(asked, 1):
        image = images.setdefault(one.loaded, len(images))
        rows.append([image, one.start, one.address, int(one.after), objects[one.instrument], iid])
    words = {
        "do": "insert",
        "images": [[str(loaded.path), loaded.bias] for loaded in images],
        "objects": [[made.function, list(made.undefined), len(made.content)] for made in compiled.values()],
        "wanted": rows,
    }
    return words, b"".join(made.content for made in compiled.values())


def placed(process: Target, words: dict[str, Any], content: bytes, name: str) -> list[ResolvedInsert]:
    """``name``: what nothing else that was compiled goes by. Raises ProtocolError, GilkError."""
    images = [_image(process, row) for row in _rows(words, "images", 2)]
    known = [(loaded, process.image(loaded.path)) for loaded in images]
    objects = list(_objects(_rows(words, "objects", 3), content, name))
    return [_placed(process, row, known, objects) for row in _rows(words, "wanted", 6)]


def semaphores(words: dict[str, Any]) -> list[Semaphore]:
    """Raises ProtocolError."""
    return [(number(address, 1, _MOST_ADDRESS), str(path)) for address, path in _rows(words, "counters", 2)]


def number(value: object, low: int, high: int) -> int:
    """Raises ProtocolError."""
    if type(value) is not int or not low <= value <= high:
        raise ProtocolError(f"{value!r} is no number from {low} to {high}")
    return value


def _rows(words: dict[str, Any], name: str, width: int) -> list[list[Any]]:
    rows = words.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == width for row in rows):
        raise ProtocolError(name)
    return rows


def _image(process: Target, row: list[Any]) -> Loaded:
    images = process.loaded()
    if not images:
        raise TargetError("no-such-process", f"{process.who} has ended")
    for loaded in images:
        if [str(loaded.path), loaded.bias] == row:
            return loaded
    raise TargetError("image-gone", f"{row[0]} is not mapped any more where it was", "try again")


def _objects(rows: list[list[Any]], content: bytes, name: str) -> list[Compiled]:
    made, at = [], 0
    for n, (function, undefined, size) in enumerate(rows):
        end = at + number(size, 0, len(content) - at)
        if not isinstance(function, str) or not isinstance(undefined, list):
            raise ProtocolError("objects")
        if not all(isinstance(each, str) and each.isidentifier() for each in (function, *undefined)):
            raise ProtocolError("names")
        made.append(Compiled(Path(f"{name}-{n}"), function, content[at:end], tuple(undefined)))
        at = end
    return made


def _placed(
    process: Target, row: list[Any], images: list[tuple[Loaded, Image]], objects: list[Compiled]
) -> ResolvedInsert:
    image, start, address, after, made, iid = row
    loaded, code = _item(images, image)
    where, behind = number(address, 0, _MOST_ADDRESS), bool(number(after, 0, 1))
    span = code.span_at(number(start, 0, _MOST_ADDRESS))
    if span is None or span.start != start:
        raise ProtocolError(f"no function begins at {start:#x}")
    entry = where == start and not behind  # there is no need to look into the function
    if not entry and not _is_point(process.analysis(loaded), span, where, behind):
        raise ProtocolError(f"{where:#x} is no point of {span.name}")
    return ResolvedInsert(loaded, span.start, where, behind, _item(objects, made), number(iid, 1, _MOST_IID))


def _item(items: list[_T], index: object) -> _T:
    return items[number(index, 0, len(items) - 1)]


def _is_point(analysis: Analysis, span: Span, address: int, after: bool) -> bool:
    """An instruction of the function begins there, which is no call if the instrument is to be behind it."""
    function = analysis.function(span)
    block = function.block_at(address)
    if block is None:
        return False
    if not after and address in (block.start, block.terminator):
        return address < block.end
    steps = analysis.steps(function, block)
    return any(step.instruction.ip == address and not (after and is_call(step)) for step in steps)
