# SPDX-License-Identifier: LGPL-2.1-or-later
"""Facts that follow from an automaton: by which names an instance is found, which names it keeps, and what ends it.

A *key* is a name of an instance that an element compares with a value of the event itself. Instances are found by keys;
an element without a key has to look at all open instances.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gilk.lang.aspect.automaton import (
    AliasAccess,
    Alternative,
    Automaton,
    BoundName,
    Compute,
    Demand,
    Element,
    Sharing,
    Take,
)
from gilk.lang.aspect.fragments import ctype, expression
from gilk.lang.d import ast
from gilk.lang.d.depth import children
from gilk.lang.types import align_of, size_of
from gilk.values import dataclass

#: Bytes of an instance's word (version, stage, tag) and of the hash of its key.
HEADER = 16
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|/\*.*?\*/|//[^\n]*', re.DOTALL)
_WORD = re.compile(r"(?<![.\w])(?<!->)[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class RecordedName:
    """A name that instances keep, at ``offset`` in their record; ``size`` is None if only a compiler knows it."""

    name: str
    ctype: str
    offset: int
    size: int | None


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """The layout of an instance's record. ``size`` is in bytes, with alignment; ``whole`` is False if it has names of
    unknown size.
    """

    names: tuple[RecordedName, ...]
    size: int
    whole: bool


def elements(automaton: Automaton) -> tuple[Element, ...]:
    """All elements that may move or end an instance: those of the sequence, then those of ``until``."""
    return (*automaton.elements, *automaton.until)


def bound_before(automaton: Automaton, number: int) -> dict[str, BoundName]:
    """The names that instances have before element ``number``; elements of ``until`` can rely on the first element
    only.

    A name that only some alternatives bind, or that a repeated element binds, is not included.
    """
    before = automaton.elements[: number if number < len(automaton.elements) else 1]
    found: dict[str, BoundName] = {}
    for element in before:
        if not element.star:
            for name in _by_all(element):
                found.setdefault(name.name, name)
    return found


def _by_all(element: Element) -> tuple[BoundName, ...]:
    first, *others = (one.binds for one in element.alternatives)
    names = [{each.name for each in other} for other in others]
    return tuple(one for one in first if all(one.name in each for each in names))


def keys(automaton: Automaton, number: int) -> tuple[str, ...]:
    """The sorted names by which an event finds the instances that the element may move; the first element has none."""
    known = bound_before(automaton, number)
    found = [_keys(one, known) for one in elements(automaton)[number].alternatives]
    return tuple(sorted(set.intersection(*found))) if found else ()


def _keys(alternative: Alternative, known: dict[str, BoundName]) -> set[str]:
    of_instance = {*known}
    taken = [one.name.name for one in alternative.qualifiers if isinstance(one, Take)]
    given = [one.name for one in alternative.binds if one.name not in _computed(alternative) and one.name not in taken]
    found = {name for name in (*given, *taken) if name in known}
    if isinstance(alternative.point, AliasAccess) and alternative.point.address in known:
        found.add(alternative.point.address)
    for one in alternative.qualifiers:
        if isinstance(one, Compute):
            free = not (_looked_at(one.expression) & of_instance)
            if one.name.name in known and free:
                found.add(one.name.name)
            elif not free:
                of_instance.add(one.name.name)
        elif isinstance(one, Demand):
            found |= {name for name in _equalities(one.expression, of_instance) if name in known}
    return found


def _computed(alternative: Alternative) -> set[str]:
    return {one.name.name for one in alternative.qualifiers if isinstance(one, Compute)}


def _equalities(text: str, of_instance: set[str]) -> Iterator[str]:
    """The names of the instance that a condition compares with a value of the event."""
    tree = expression(text)
    for each in _conjuncts(tree) if tree is not None else ():
        if isinstance(each, ast.Binary) and each.op == "==":
            for one, other in ((each.left, each.right), (each.right, each.left)):
                if isinstance(one, ast.Name) and not ({*_names(other)} & of_instance):
                    yield one.name


def _conjuncts(tree: ast.Expr) -> Iterator[ast.Expr]:
    if isinstance(tree, ast.Binary) and tree.op == "&&":
        yield from _conjuncts(tree.left)
        yield from _conjuncts(tree.right)
    else:
        yield tree


def _names(tree: ast.Node) -> Iterator[str]:
    if isinstance(tree, ast.Name):
        yield tree.name
    for child in children(tree):
        yield from _names(child)


def _looked_at(text: str) -> set[str]:
    """The names in an expression; if it cannot be read, every word in it, including names of functions."""
    tree = expression(text)
    return set(_names(tree)) if tree is not None else _mentioned(text)


def _mentioned(text: str) -> set[str]:
    """The words of C code that may be names: those outside of strings and comments, and not behind a dot or
    an arrow.
    """
    return set(_WORD.findall(_STRINGS.sub(" ", text)))


def mentions(element: Element) -> set[str]:
    """All names that the conditions, binds and advice of an element may use."""
    found = _mentioned(element.advice.text) if element.advice is not None else set[str]()
    for one in element.alternatives:
        found |= {name.name for name in one.binds}
        for each in one.qualifiers:
            found |= _mentioned(each.expression) if not isinstance(each, Take) else set()
        if isinstance(one.point, AliasAccess):
            found |= {one.point.address, *_mentioned(one.point.length)}
    return found


def record(automaton: Automaton) -> InstanceRecord:
    """The layout of the names that instances keep: those that later elements use, and words. Names with larger
    alignment come first.
    """
    if automaton.after(0) is None:
        return InstanceRecord((), 0, True)
    found: dict[str, BoundName] = {}
    for number, element in enumerate(automaton.elements):
        later = (*automaton.elements[number + 1 :], *automaton.until)
        wanted = {*(automaton.unique or ())}.union(*map(mentions, later))
        if not element.star:
            for name in (name for one in element.alternatives for name in one.binds if name.name in wanted):
                found.setdefault(name.name, name)
    for word in automaton.words:
        found.setdefault(word.name.name, word.name)
    return _laid_out(found.values())


def _laid_out(names: Iterable[BoundName]) -> InstanceRecord:
    kept: list[RecordedName] = []
    offset = 0
    sized = [(_size_and_align(one.ctype), one) for one in names]
    for (size, align), one in sorted(sized, key=lambda each: -each[0][1]):
        offset = -(-offset // align) * align
        kept.append(RecordedName(one.name, one.ctype or "long", offset, size))
        offset += size or 0
    return InstanceRecord(tuple(kept), -(-offset // 8) * 8, all(one.size is not None for one in kept))


def _size_and_align(text: str) -> tuple[int | None, int]:
    known = ctype(text) if text else None
    if known is None or not size_of(known, 0):
        return (8 if not text else None), 8
    return size_of(known, 0), align_of(known)


def owner_size(automaton: Automaton) -> int:
    """The bytes of an instance beside its record: the header, its time of birth if the aspect needs that, and who may
    continue it.
    """
    return HEADER + 8 * (automaton.within is not None) + 8 * (automaton.sharing is not Sharing.ANY)


def endings(automaton: Automaton) -> tuple[str, ...]:
    """The ways in which an instance ends, in words."""
    found = [f"a match of element {len(automaton.elements)}"]
    found += ["a match of until"] if automaton.until else []
    found += ["age"] if automaton.within is not None else []
    found += [f"another with an equal {', '.join(automaton.unique)}"] if automaton.unique else []
    found += ["any other that begins"] if automaton.unique == () else []
    alone = {Sharing.THREAD: ["the end of its thread"], Sharing.PROCESS: ["the end of its process"]}
    return (*found, *alone.get(automaton.sharing, []))
