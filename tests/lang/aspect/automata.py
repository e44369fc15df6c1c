# SPDX-License-Identifier: LGPL-2.1-or-later
"""A short notation for automata, and events from text."""

from __future__ import annotations

import re
from typing import Any

from gilk.lang.aspect.automaton import (
    AdviceCode,
    Advising,
    Alternative,
    Automaton,
    BoundName,
    Calling,
    Compute,
    Demand,
    Element,
    Gives,
    Qualifying,
    Take,
)
from gilk.lang.aspect.deeds import Deed
from gilk.lang.aspect.events import AspectEvent, read_events
from gilk.lang.aspect.model import AspectModel

_NAMED = re.compile(r"(?P<ctype>.*[ *])?(?P<name>\w+)(?P<array> ?\[.*\])?")


def name(text: str) -> BoundName:
    """The bound name in a text such as ``char path[256]``; a name alone is a long."""
    found = _NAMED.fullmatch(text)
    assert found is not None, text
    return BoundName(found["name"], (found["ctype"] or "long").strip() + (found["array"] or ""))


def calling(function: str, *names: str) -> Calling:
    image, _, rest = function.rpartition(":")
    return Calling(rest, tuple(map(name, names)), image)


def qualifier(text: str) -> Qualifying:
    """The qualifier in a text such as ``return r``, ``name = expression``, or a condition."""
    word, _, rest = text.partition(" ")
    if word in list(Gives):
        return Take(Gives(word), name(rest))
    left, equals, right = text.partition(" = ")
    return Compute(name(left), right) if equals else Demand(text)


def element(
    point: Any, *qualifiers: str, before: str = "", inplace: str = "", after: str = "", **others: Any
) -> Element:
    advice = next((AdviceCode(Advising(when), text) for when, text in _advice(before, inplace, after) if text), None)
    return Element((Alternative(point, tuple(map(qualifier, qualifiers))),), advice, **others)


def _advice(before: str, inplace: str, after: str) -> tuple[tuple[str, str], ...]:
    return ("before", before), ("inplace", inplace), ("after", after)


def sequence(*elements: Element, **others: Any) -> Automaton:
    return Automaton(others.pop("name", "it"), elements, **others)


def events(text: str) -> tuple[AspectEvent, ...]:
    return read_events(line.strip() for line in text.strip().splitlines())


def ran(automata: Automaton | tuple[Automaton, ...], text: str) -> tuple[AspectModel, list[str]]:
    """The model after the events of a text, and its deeds, a line each."""
    model = AspectModel(automata if isinstance(automata, tuple) else (automata,))
    return model, [shown(deed) for step in model.run(events(text)) for deed in step]


def shown(deed: Deed) -> str:
    """The text of a deed, such as ``it 1.2 moved``: aspect, instance and element, if it has them."""
    where = f"{deed.aspect} " if deed.aspect else ""
    where += f"{deed.instance}" if deed.instance is not None else ""
    where += f".{deed.element}" if deed.element is not None else ""
    return f"{where.strip()} {deed.did} {deed.words}".strip()
