# SPDX-License-Identifier: LGPL-2.1-or-later
"""The messages between a broker and its clients. The broker trusts nothing in them.

Each is JSON, with bytes after it, and in some a file descriptor (transport.py). A client sends requests, named by
``do``, and the broker answers each; it sends nothing unasked. An answer with ``error`` stands for a GilkError:
[kind, slug, message, hint].

| do | with | answer |
|---|---|---|
| hello | version; descriptor: of /proc/PID/mem | {} if the client may trace the process; else the line is closed |
| memory | size | offset (from the session's control page), address; descriptor: of that memory |
| common | size; descriptor: of sealed memory | offset: of that memory in the process, from the session's control page |
| region | blocks, stride, counters, rings, follows | number: the memory is this part of the session now (gilk_abi.h) |
| insert | images, objects, wanted, dormant; bytes: objects | refused: [place, why]; tactics: [place, name]; times |
| remove | numbers: of probes of a region | {}: they are out |
| look | | {}: signal handlers that the program has installed since have their instruments |
| renew | | {}: threads without room in the clients' memory look for some again |
| inside | | blocks: of the threads that are in an instrument which reports that |
| listen | counters: [address, path] | {}: these semaphores are raised, until the client leaves |
| sample | stack | samples: [tid, cpu, thread, registers, bytes of stack]; bytes: the stacks |
| hold | | {}: the process stands still until `release`, or until the client goes |
| release | | {}: a launched program runs, or a process that stood still |
| wait | | code: the exit status of a launched program, null before its end |
| leave | | restored, others, notes, lost: all that the client had is out; it may begin anew |

``wanted`` of an insert: [image, start of the function, address, after, object or name of a built-in, number]. In
place of `args` there may be a list of places of arguments, each [register or -1, offset, loaded, width], or null. The
built-in `goes-on` is `time` in front of a jump by which a timed call goes on in another function.

A client that has a region may have gates, and any client may tell that an image was unmapped: `gate` and `lose` below.

A client whose region ``follows`` has dormant functions, and activates them (following.py). A *mask* has a bit for each
iid, from 0 on; the first bit of a byte is its highest. `place` answers with such bits for the units of the image's
template: those that are dormant now; the iids of its probes begin after ``first``.

| do | with | answer |
|---|---|---|
| timing | | live: registers that plans of whole images have to keep (targets/templates.py, Shape) |
| place | image, first; bytes: starts of functions, i64 | units: their number, 0 without a template; bytes: bits |
| copy | | copies: how many copies of code, so that an exchange of code can activate all |
| expect | bytes: masks of what `begin` will activate, and of busy functions | active: iids that are so already; lost |
| begin | | total, seconds, lost: iids that have no room beside others' probes |
| follow | bytes: a mask | total, seconds, lost |
| unfollow | bytes: a mask | total, seconds, lost: none |
| gate | image, points: [start, address, after], gate, first | carried: iids, active from now on; refused: why |
| lose | image: that was unmapped | {}: all that the client had in it is out |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gilk import activity
from gilk.analysis.analysis import Analysis
from gilk.errors import CompileError, GilkError, OutOfMemory, TargetError, UsageError
from gilk.image.model import FunctionSpan, Image
from gilk.image.value_place import FARTHEST, RBP, RSP, ValuePlace
from gilk.session.request import Builtin, CFunction, GoesOn, ValuesAt
from gilk.splice.segments import is_call
from gilk.targets.another_program import program_gone
from gilk.targets.base import Loaded, Target
from gilk.targets.semaphores import Semaphore
from gilk.toolchain.instrument import CompiledObject
from gilk.trace.layout import CLASSES, MAX_BLOCKS, PAGE, Geometry, RingClass
from gilk.values import dataclass

OF_FOLLOWING = ("timing", "place", "copy", "expect", "begin", "follow", "unfollow", "gate", "lose")
#: How many threads of a process can have blocks of their own in memory that is shared with it.
THREADS = 1024
MOST_MEMORY = 1 << 40  # bytes of one client's memory
_ERRORS: tuple[type[GilkError], ...] = (OutOfMemory, TargetError, UsageError, CompileError)
_KINDS = {each.__name__: each for each in _ERRORS}
_MOST_IID, _MOST_ADDRESS = (1 << 31) - 1, (1 << 47) - 1
_MOST_STRIDE = (1 << 31) - 1  # the farthest that an instruction reaches

_MOST_PLACES = 6
_GOES_ON = "goes-on"

_T = TypeVar("_T")


class ProtocolError(Exception):
    """A message is not what a client would send."""


@dataclass(frozen=True, slots=True)
class InsertRequest:
    """One instrument at one point, as a client asks for it. ``start``: the link-time start of the function, or of the
    part of one.

    ``number``: the iid that the instrument gets, or its counter's number plus one.
    """

    loaded: Loaded
    start: int
    address: int
    after: bool
    instrument: CFunction | Builtin | ValuesAt | GoesOn
    number: int


@dataclass(frozen=True, slots=True)
class Inserted:
    """The outcome of an insert, by place in the request, from 0: why probes were refused, and the tactics of the
    others.

    ``total``: seconds of the change; ``seconds``: those of them in which the threads were stopped.
    """

    refused: dict[int, str]
    tactics: dict[int, str]
    total: float
    seconds: float


@dataclass(frozen=True, slots=True)
class ResolvedInsert:
    """The same, as the broker resolves it: with the compiled object, or the built-in, in ``made``."""

    loaded: Loaded
    start: int
    address: int
    after: bool
    made: CompiledObject | Builtin | ValuesAt | GoesOn
    number: int


# Errors.


def error_words(error: GilkError) -> dict[str, Any]:
    kind = next((name for name, made in _KINDS.items() if isinstance(error, made)), "TargetError")
    return {"error": [kind, error.slug, error.message, error.hint]}


def raise_error(words: dict[str, Any]) -> None:
    """Raise the error that an answer has, if it has one."""
    if "error" in words:
        kind, slug, message, hint = map(str, words["error"])
        raise _KINDS[kind](slug, message, hint)


# Instruments.


def insert_words(
    asked: Sequence[InsertRequest], compiled: dict[CFunction, CompiledObject], dormant: bool = False
) -> tuple[dict[str, Any], bytes]:
    """The words of an insert request, and its content: the compiled objects one after the other."""
    objects: dict[CFunction | Builtin | ValuesAt | GoesOn, int | str] = {made: n for n, made in enumerate(compiled)}
    objects[GoesOn()] = _GOES_ON
    images: dict[Loaded, int] = {}
    rows = []
    for one in asked:
        image = images.setdefault(one.loaded, len(images))
        asked_for = one.instrument
        made = _places(asked_for) if isinstance(asked_for, ValuesAt) else objects.get(asked_for, asked_for)
        rows.append([image, one.start, one.address, int(one.after), made, one.number])
    words = {
        "do": "insert",
        "images": [[str(loaded.path), loaded.bias] for loaded in images],
        "objects": [[made.function, list(made.undefined), len(made.content)] for made in compiled.values()],
        "wanted": rows,
        "dormant": int(dormant),
    }
    return words, b"".join(made.content for made in compiled.values())


def placed(process: Target, words: dict[str, Any], content: bytes, name: str) -> list[ResolvedInsert]:
    """The instruments that a client asks for. ``name``: a prefix for the names of its objects that nothing else
    compiled has.

    Raises ProtocolError, GilkError.
    """
    images = [_image(process, row) for row in _rows(words, "images", 2)]
    known = [(loaded, process.image(loaded.path)) for loaded in images]
    objects = list(_objects(_rows(words, "objects", 3), content, name))
    return [_placed(process, row, known, objects) for row in activity.step_by_step(_rows(words, "wanted", 6))]


def region(words: dict[str, Any], size: int) -> Geometry:
    """The layout that a client has declared for its memory of ``size`` bytes, which has room for one block more.

    Raises ProtocolError.
    """
    rings = tuple(
        RingClass(number(at, 0, _MOST_STRIDE), number(room, 0, _MOST_STRIDE)) for at, room in _rows(words, "rings", 2)
    )
    blocks, stride = number(words.get("blocks"), 1, MAX_BLOCKS), number(words.get("stride"), PAGE, _MOST_STRIDE)
    made = Geometry(blocks, PAGE, stride, number(words.get("counters"), 0, _MOST_STRIDE), rings)
    if len(rings) != CLASSES or not made.is_sane(size - stride):
        raise ProtocolError("rings")
    return made


def semaphores(words: dict[str, Any]) -> list[Semaphore]:
    """The semaphores that a client names: pairs (address, path). Raises ProtocolError."""
    return [(number(address, 1, _MOST_ADDRESS), str(path)) for address, path in _rows(words, "counters", 2)]


def number(value: object, low: int, high: int) -> int:
    """The value, if it is an integer from ``low`` to ``high``. Raises ProtocolError."""
    if type(value) is not int or not low <= value <= high:
        raise ProtocolError(f"{value!r} is no number from {low} to {high}")
    return value


def _rows(words: dict[str, Any], name: str, width: int) -> list[list[Any]]:
    rows = words.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == width for row in rows):
        raise ProtocolError(name)
    return rows


def masks(content: bytes, count: int, known: int) -> list[NDArray[np.bool_]]:
    """``count`` masks of ``known`` iids each. Raises ProtocolError."""
    size, rest = divmod(len(content), count)
    if rest:
        raise ProtocolError("masks")
    made = []
    for first in range(0, count * size, size or 1):
        bits = np.unpackbits(np.frombuffer(content, np.uint8, size, first)).astype(np.bool_)
        if bits[known:].any():
            raise ProtocolError("a mask has iids that are not known")
        made.append(np.pad(bits[:known], (0, max(known - len(bits), 0))))
    return made or [np.zeros(known, np.bool_) for _ in range(count)]


def starts_of(process: Target, words: dict[str, Any], content: bytes) -> tuple[Loaded, set[int]]:
    """The image that a client names, and the starts of functions of it. Raises ProtocolError, GilkError."""
    if len(content) % 8:
        raise ProtocolError("starts")
    (image,) = _rows({"images": [words.get("image")]}, "images", 2)
    return _image(process, image), set(np.frombuffer(content, np.int64).tolist())


def places_of_gate(process: Target, words: dict[str, Any]) -> tuple[Loaded, list[tuple[int, int, bool]]]:
    """The image that a client names, and the points of a gate: the function's start, the address, and whether the gate
    is after the instruction there.

    Raises ProtocolError, GilkError.
    """
    (image,) = _rows({"images": [words.get("image")]}, "images", 2)
    loaded = _image(process, image)
    code = process.image(loaded.path)
    return loaded, [_point(process, loaded, code, *row) for row in _rows(words, "points", 3)]


def image_named(words: dict[str, Any]) -> tuple[Path, int]:
    """The path and the bias of an image that a client names, which may not be mapped any more. Raises ProtocolError."""
    ((path, bias),) = _rows({"images": [words.get("image")]}, "images", 2)
    return Path(str(path)), number(bias, -_MOST_ADDRESS, _MOST_ADDRESS)


def _image(process: Target, row: list[Any]) -> Loaded:
    images = process.loaded()
    if not images:
        raise TargetError("no-such-process", f"{process.who} has ended")
    for loaded in images:
        if [str(loaded.path), loaded.bias] == row:
            return loaded
    if not process.keeper.is_present():
        raise program_gone(process.pid)
    moved = images[0].main and str(images[0].path) == row[0]  # a program is not, unlike a library
    why = f": {process.who} has executed another program meanwhile" if moved else ""
    raise TargetError("image-gone", f"{row[0]} is not mapped any more where it was{why}", "try again")


def _objects(rows: list[list[Any]], content: bytes, name: str) -> list[CompiledObject]:
    made, at = [], 0
    for n, (function, undefined, size) in enumerate(rows):
        end = at + number(size, 0, len(content) - at)
        if not isinstance(function, str) or not isinstance(undefined, list):
            raise ProtocolError("objects")
        if not all(isinstance(each, str) and each.isidentifier() for each in (function, *undefined)):
            raise ProtocolError("names")
        made.append(CompiledObject(Path(f"{name}-{n}"), function, content[at:end], tuple(undefined)))
        at = end
    return made


def _placed(
    process: Target, row: list[Any], images: list[tuple[Loaded, Image]], objects: list[CompiledObject]
) -> ResolvedInsert:
    image, start, address, after, made, called_with = row
    loaded, code = _item(images, image)
    point = _point(process, loaded, code, start, address, after)
    what: CompiledObject | Builtin | ValuesAt | GoesOn
    if isinstance(made, list):
        what = ValuesAt(tuple(map(value_place, made[:_MOST_PLACES])))
    else:
        what = _item(objects, made) if type(made) is int else _builtin(made)
    return ResolvedInsert(loaded, *point, what, number(called_with, 1, _MOST_IID))


def _point(
    process: Target, loaded: Loaded, code: Image, start: Any, address: Any, after: Any
) -> tuple[int, int, bool]:  # fmt: skip
    where, behind = number(address, 0, _MOST_ADDRESS), bool(number(after, 0, 1))
    span = code.span_at(number(start, 0, _MOST_ADDRESS))
    if span is None or span.start != start:
        raise ProtocolError(f"no function begins at {start:#x}")
    entry = where == start and not behind  # the function need not be analysed
    if not entry and not _is_point(process.analysis(loaded), span, where, behind):
        raise ProtocolError(f"{where:#x} is no point of {span.name}")
    return span.start, where, behind


def _places(instrument: ValuesAt) -> list[list[int] | None]:
    return [
        None
        if place is None
        else [-1 if place.base is None else place.base, place.offset, int(place.loaded), place.width]
        for place in instrument.places
    ]


def value_place(row: object) -> ValuePlace | None:
    """A place of a value; memory is read in the frame only. Raises ProtocolError."""
    if row is None:
        return None
    if not isinstance(row, list) or len(row) != 4:
        raise ProtocolError("places")
    base, loaded, width = number(row[0], -1, 15), bool(number(row[2], 0, 1)), number(row[3], 1, 8)
    if width.bit_count() != 1:
        raise ProtocolError("places")
    if base < 0 and not loaded:
        return ValuePlace(None, number(row[1], -(1 << 63), (1 << 64) - 1), width=width)
    if loaded and base not in (RSP, RBP):
        raise ProtocolError("places")
    return ValuePlace(base, number(row[1], -FARTHEST, FARTHEST), loaded, width)


def _builtin(name: object) -> Builtin | GoesOn:
    if name == _GOES_ON:
        return GoesOn()
    try:
        return Builtin(str(name))
    except ValueError:
        raise ProtocolError(f"{name!r} is no instrument") from None


def _item(items: list[_T], index: object) -> _T:
    return items[number(index, 0, len(items) - 1)]


def _is_point(analysis: Analysis, span: FunctionSpan, address: int, after: bool) -> bool:
    """Whether an instruction of the function begins at the address; if ``after``, it must not be a call."""
    function = analysis.function(span)
    block = function.block_at(address)
    if block is None:
        return False
    if not after and address in (block.start, block.terminator):
        return address < block.end
    steps = analysis.steps(function, block)
    return any(step.instruction.ip == address and not (after and is_call(step)) for step in steps)
