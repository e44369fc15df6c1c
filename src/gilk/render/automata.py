# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of ``gilk aspect explain``: automata, keys, state and cost of aspects, and what the model does
at events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from gilk.lang.aspect import derived
from gilk.lang.aspect.automaton import AliasAccess, Automaton, Calling, ControlFlow, Element, GlobalAccess, JoinPoint
from gilk.lang.aspect.cost import COPIED, COPY, FRAME, TRAP, hit_costs
from gilk.lang.aspect.deeds import AspectTally, Deed
from gilk.lang.aspect.events import AspectEvent, EventKind
from gilk.render.text import cell, nanoseconds, plural, table

Steps = Sequence[tuple[AspectEvent, Sequence[Deed]]]
_WIDEST = 72


def automata_text(automata: Iterable[Automaton]) -> str:
    """The elements, state, ends and costs of each aspect; an empty line lies between aspects."""
    return "\n".join("".join(f"{line}\n" for line in _lines(one)) for one in automata)


def automata_json(automata: Iterable[Automaton]) -> list[dict[str, Any]]:
    return [_json(one) for one in automata]


def steps_text(steps: Steps, counts: dict[str, AspectTally]) -> str:
    """A line for each event, followed by its deeds; then the counts of each aspect."""
    lines: list[str] = []
    for event, deeds in steps:
        lines.append(f"line {event.line}: {cell(_event(event))}")
        lines += [f"    {cell(_deed(deed))}" for deed in deeds]
    lines += [f"{cell(name)}: {_counted(found)}" for name, found in counts.items()]
    # Strings of C may contain any bytes.
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace").decode()


def steps_json(steps: Steps, counts: dict[str, AspectTally]) -> dict[str, Any]:
    return {
        "events": [{"line": event.line, "deeds": [asdict(deed) for deed in deeds]} for event, deeds in steps],
        "counts": {name: asdict(found) for name, found in counts.items()},
    }


# Automata.


def _lines(automaton: Automaton) -> Iterator[str]:
    count = len(automaton.elements)
    what = "a single element" if count == 1 else f"a sequence of {count}"
    yield f"{cell(automaton.name)}: {what}, continued by {automaton.sharing}"
    yield from _rows(automaton)
    yield from _walks(automaton)
    if count > 1:
        yield f"  an instance has {_state(automaton)}; {automaton.instances} may be open"
        yield f"  it ends by {', '.join(_ending(automaton, one) for one in derived.endings(automaton))}"


def _walks(automaton: Automaton) -> Iterator[str]:
    cost = f"{FRAME:.0f} ns a frame, and {COPY:.0f} for each {COPIED >> 10} KiB of stack"
    if automaton.walk:
        yield f"  walk: the last event of a control flow looks for the functions around it on the stack, {cost}"
    if automaton.verify:
        yield f"  verify: each match compares the calls that are recorded with the stack, {cost}"
    if automaton.debugreg:
        yield f"  debugreg: each access of its variables stops its thread for the keeper, some {TRAP / 1000:.0f} us"


def _ending(automaton: Automaton, how: str) -> str:
    age = automaton.within is not None and how == "age"
    return f"an age over {nanoseconds(automaton.within or 0)}" if age else cell(how)


def _rows(automaton: Automaton) -> Iterator[str]:
    costs = hit_costs(automaton)
    rows = []
    for number, element in enumerate(derived.elements(automaton)):
        cost = costs[number]
        found = (*(f"{one:.1f}" for one in (cost.idle, cost.passed, cost.moved)), f"{cost.each:.1f}")
        rows.append((_numbered(automaton, number), shortened(element), *_transition(automaton, number), *found))
    heads = ("", "element", "when", "keys", "then", "idle ns", "passed", "moved", "each more")
    yield from (f"  {line}".rstrip() for line in table(heads, rows, terminal=False).splitlines())


def _numbered(automaton: Automaton, number: int) -> str:
    if number >= len(automaton.elements):
        return "until"
    return f"{number + 1}{'*' if automaton.elements[number].star else ''}"


def _transition(automaton: Automaton, number: int) -> tuple[str, str, str]:
    """The moments at which an element matches, its keys, and the elements that are active behind it, in the order in
    which they are tried.
    """
    element = derived.elements(automaton)[number]
    moments = sorted({element.moment(one).value for one in element.alternatives}, reverse=True)
    keys = ", ".join(derived.keys(automaton, number)) if number else ""
    target = automaton.after(number) if number < len(automaton.elements) else None
    then = "end" if target is None else " ".join(str(one + 1) for one in automaton.active(target))
    return "/".join(moments), keys, then


def _state(automaton: Automaton) -> str:
    record = derived.record(automaton)
    least = "" if record.whole else "at least "
    kept = "".join(f", {one.name} {one.size if one.size is not None else '?'}" for one in record.names)
    own = derived.owner_size(automaton)
    return f"{least}{plural(own + record.size, 'byte')} of state (its own {own}{cell(kept)})"


def shortened(element: Element) -> str:
    """An element in the form for a line of the table, cut to its width."""
    places = f"{','.join(element.places)}: " if element.places else ""
    points = " || ".join(pointed(one.point) for one in element.alternatives)
    advice = f" {element.advice.when}" if element.advice is not None else ""
    found = f"{places}{points}{advice}"
    return found if len(found) <= _WIDEST else f"{found[: _WIDEST - 3]}..."


def pointed(point: JoinPoint) -> str:
    """A join point in the syntax of the language; functions are shown without types."""
    match point:
        case Calling(function=function, image=image, parameters=parameters):
            names = ", ".join(one.name or "_" for one in parameters)
            return f"call({image}{':' if image else ''}{function}({names}))"
        case GlobalAccess(write=write, variable=variable, image=image):
            return f"{'write' if write else 'read'}Global({image}{':' if image else ''}{variable})"
        case AliasAccess(write=write, address=address, length=length):
            return f"{'write' if write else 'read'}({address}{', ' if length else ''}{length})"
        case ControlFlow(strict=strict, outer=outer, last=last):
            within = ", ".join(map(pointed, (*outer, last)))
            return f"controlflow{'' if strict else 'star'}({within})"


def _json(automaton: Automaton) -> dict[str, Any]:
    record = derived.record(automaton)
    return {
        "name": automaton.name,
        "sharing": automaton.sharing,
        "instances": automaton.instances,
        "unique": automaton.unique,
        "within": automaton.within,
        "walk": automaton.walk,
        "verify": automaton.verify,
        "debugreg": automaton.debugreg,
        "elements": [_element_json(automaton, number) for number in range(len(automaton.elements))],
        "until": [_element_json(automaton, len(automaton.elements) + number) for number in range(len(automaton.until))],
        "transitions": [asdict(one) for one in automaton.transitions],
        "state": {
            "bytes": derived.owner_size(automaton) + record.size,
            "whole": record.whole,
            "names": [asdict(one) for one in record.names],
        },
        "ends": derived.endings(automaton),
    }


def _element_json(automaton: Automaton, number: int) -> dict[str, Any]:
    element = derived.elements(automaton)[number]
    return {
        "line": element.line,
        "places": element.places,
        "points": [pointed(one.point) for one in element.alternatives],
        "moments": [element.moment(one) for one in element.alternatives],
        "binds": sorted({name.name for one in element.alternatives for name in one.binds}),
        "keys": derived.keys(automaton, number) if number else (),
        "repeated": element.star,
        "advice": element.advice.when if element.advice is not None else None,
        "cost": asdict(hit_costs(automaton)[number]),
    }


# Events.


def _event(event: AspectEvent) -> str:
    where = f"{'kernel, ' if event.kernel else ''}pid {event.pid}" + (f".{event.tid}" if event.tid != event.pid else "")
    return f"{event.kind} {_what(event)} ({where}{f', {nanoseconds(event.at)}' if event.at else ''})"


def _what(event: AspectEvent) -> str:
    match event.kind:
        case EventKind.CALL:
            return f"{event.function}({', '.join(map(repr, event.arguments))})"
        case EventKind.RETURN:
            return event.function + ("" if event.value is None else f" = {event.value!r}")
        case EventKind.READ | EventKind.WRITE:
            what = event.variable or hex(event.address or 0)
            return what + ("" if event.value is None else f" = {event.value!r}")
        case EventKind.UNWIND | EventKind.FORK:
            return str(event.number)
        case EventKind.GROUPS:
            return ", ".join(name for name, _ in event.members)
    return event.word


def _deed(deed: Deed) -> str:
    """A deed in words: ``race 1: moved by element 2``. The outcome of a call has no aspect."""
    who = f"{deed.aspect}{f' {deed.instance}' if deed.instance is not None else ''}: " if deed.aspect else ""
    by = f" by element {deed.element + 1}" if deed.element is not None and not deed.words else ""
    return f"{who}{deed.did}{by}{f' {deed.words}' if deed.words else ''}"


def _counted(found: AspectTally) -> str:
    matches = " ".join(map(str, found.matches))
    counts = ((name, count) for name, count in asdict(found).items() if name != "matches" and count)
    return f"matches {matches}" + "".join(f", {name} {count}" for name, count in counts)
