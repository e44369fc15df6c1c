# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether an element matches at a moment, and which names it binds then. The model uses it."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from gilk.lang.aspect.automaton import (
    AliasAccess,
    Alternative,
    BoundName,
    Calling,
    Compute,
    ControlFlow,
    Demand,
    Element,
    Gives,
    GlobalAccess,
    JoinPoint,
    Qualifying,
    Take,
)
from gilk.lang.aspect.cells import Cell, equal, integer, told, truth
from gilk.lang.aspect.cells import converted as as_type
from gilk.lang.aspect.evaluate import NotTold, compute
from gilk.lang.aspect.events import EventKind
from gilk.lang.aspect.fragments import ctype
from gilk.lang.aspect.hits import CallFrame, Hit, HitScope
from gilk.lang.types import INT64, ULONG, size_of


def match(element: Element, hit: Hit, known: Mapping[str, Cell], words: dict[str, Cell]) -> dict[str, Cell] | None:
    """The names that the first matching alternative binds, together with ``known``; None if no alternative matches.
    Raises NotTold.

    ``known``: the names that earlier elements have bound. Binding one of them again is a test for equality.
    """
    for alternative in element.alternatives:
        if element.moment(alternative) is hit.moment:
            found = _Binding(hit, known, words)
            if found.fits(alternative):
                return found.bound
    return None


def touches(element: Element, hit: Hit) -> bool:
    """Whether the element is about such a call, or such an access of a variable, without regard to its conditions."""
    return any(
        element.moment(one) is hit.moment
        and not isinstance(one.point, AliasAccess)
        and _located(one.point, hit) is not None
        for one in element.alternatives
    )


def _located(point: JoinPoint, hit: Hit) -> tuple[CallFrame, ...] | None:
    """The frames of the functions that the join point names, in its order; None if it is not at this event."""
    match point:
        case Calling():
            return (hit.own,) if hit.is_call and _is_function(point, hit.own) else None
        case GlobalAccess(write=write):
            kind = EventKind.WRITE if write else EventKind.READ
            return () if hit.event.kind is kind and _is_variable(point, hit) else None
        case AliasAccess(write=write):
            return () if hit.event.kind is (EventKind.WRITE if write else EventKind.READ) else None
        case ControlFlow():
            return _flow(point, hit)


def _is_function(point: Calling, frame: CallFrame) -> bool:
    named = frame.function == point.function if point.exact else fnmatchcase(frame.function, point.function)
    return named and (not point.image or fnmatchcase(frame.image, point.image))


def _is_variable(point: GlobalAccess, hit: Hit) -> bool:
    """Whether the event accesses the variable or member itself, a part of it, or a whole of which it is a part. If the
    point or the event names no image, any image will do.
    """
    image, _, name = hit.event.variable.rpartition(":")
    a, b = f"{point.variable}.", f"{name}."
    return (a.startswith(b) or b.startswith(a)) and (not (point.image and image) or fnmatchcase(image, point.image))


def _flow(point: ControlFlow, hit: Hit) -> tuple[CallFrame, ...] | None:
    """The frames of the innermost calls that fit the control flow, outermost first; None if it does not match. In a
    strict one each function must have called the next one directly.
    """
    last = _located(point.last, hit)
    if last is None:
        return None
    around = list(hit.frames[:-1] if hit.is_call else hit.frames)
    found: list[CallFrame] = []
    for outer in reversed(point.outer):
        while around and not _is_function(outer, around[-1]) and not point.strict:
            around.pop()
        if not around or not _is_function(outer, around[-1]):
            return None
        found.insert(0, around.pop())
    return (*found, *last)


def _among(globs: tuple[str, ...], image: str, function: str) -> bool:
    """Whether one of ``globs`` matches the function: ``image:function``, or a function or an image alone."""
    for glob in globs:
        before, colon, name = glob.partition(":")
        if colon and not name.startswith(":"):
            if fnmatchcase(image, before or "*") and fnmatchcase(function, name or "*"):
                return True
        elif fnmatchcase(function, glob) or (image and fnmatchcase(image, glob)):
            return True
    return False


class _Binding:
    """One attempt to match an alternative; ``bound`` has the names that are bound so far."""

    def __init__(self, hit: Hit, known: Mapping[str, Cell], words: dict[str, Cell]) -> None:
        self._hit, self.bound = hit, dict(known)
        self._scope = HitScope(hit, self.bound, words)
        self._offset = 0

    def fits(self, alternative: Alternative) -> bool:
        frames = _located(alternative.point, self._hit)
        if frames is None or not self._placed(alternative) or not self._arguments(alternative.point, frames):
            return False
        if isinstance(alternative.point, AliasAccess) and not self._overlaps(alternative.point):
            return False
        return all(map(self._qualified, alternative.qualifiers))

    def _placed(self, alternative: Alternative) -> bool:
        own = self._hit.own
        code = (own.image, own.function) if not self._hit.is_call else self._hit.caller
        if alternative.callers and not _among(alternative.callers, *self._hit.caller):
            return False
        return not alternative.within or _among(alternative.within, *code)

    def _arguments(self, point: JoinPoint, frames: tuple[CallFrame, ...]) -> bool:
        functions = (point,) if isinstance(point, Calling) else ()
        if isinstance(point, ControlFlow):
            functions = (*point.outer, *((point.last,) if isinstance(point.last, Calling) else ()))
        return all(map(self._given, functions, frames))

    def _given(self, function: Calling, frame: CallFrame) -> bool:
        for number, parameter in enumerate(function.parameters):
            if not parameter.name:
                continue
            if number >= len(frame.arguments):
                raise NotTold(f"argument {parameter.name} of {frame.function}")
            if not self._bind(parameter, told(frame.arguments[number])):
                return False
        return True

    def _overlaps(self, point: AliasAccess) -> bool:
        """Whether the access overlaps the memory to which the name of ``point`` leads."""
        address, event = self.bound.get(point.address), self._hit.event
        if address is None or event.address is None or not isinstance(address.value, int):
            return False
        length = compute(point.length, self._scope).value if point.length else _size(point.ctype)
        self._offset = event.address - address.value
        return isinstance(length, int) and length > 0 and -event.size < self._offset < length

    def _qualified(self, qualifier: Qualifying) -> bool:
        match qualifier:
            case Demand(expression=text):
                return truth(compute(text, self._scope))
            case Compute(name=name, expression=text):
                return self._bind(name, compute(text, self._scope))
            case Take(what=what, name=name):
                return self._bind(name, self._taken(what))

    def _taken(self, what: Gives) -> Cell:
        event = self._hit.event
        match what:
            case Gives.SIZE:
                return integer(event.size, ULONG)
            case Gives.OFFSET:
                return integer(self._offset, INT64)
            case Gives.OLD:
                found = event.old
            case _:
                found = self._hit.result
        if found is None:
            raise NotTold({Gives.RETURN: "what it returns", Gives.OLD: "old"}.get(what, "value"))
        return told(found)

    def _bind(self, name: BoundName, cell: Cell) -> bool:
        """Bind ``name`` to ``cell``; if it is bound already, return whether the two are equal."""
        before = self.bound.get(name.name)
        if before is not None:
            return equal(before, cell)
        self.bound[name.name] = as_type(cell, ctype(name.ctype)) if name.ctype else cell
        return True


def _size(text: str) -> int:
    """The size in bytes of a type as written; 8 if it is not known."""
    known = ctype(text)
    return (size_of(known, 0) if known is not None else 0) or 8
