# SPDX-License-Identifier: LGPL-2.1-or-later
"""From a file to automata: examples become the hand-written automata, and random texts mean what they say."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.errors import UsageError
from gilk.lang.aspect import derived
from gilk.lang.aspect.automaton import Automaton, Calling, ControlFlow, Element, GlobalAccess, calling
from gilk.lang.aspect.events import read_events
from gilk.lang.aspect.fragments import ctype, normal
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.meaning.order import check_aspects
from gilk.lang.aspect.model import AspectModel
from gilk.lang.syntax.source import Source
from gilk.render.automata import automata_json, automata_text
from tests.lang.aspect import naive
from tests.lang.aspect.naive import Happened, Part, Whole
from tests.lang.aspect.test_model_laws import event, happenings, logged, wholes
from tests.lang.aspect.worked import WORKED
from tests.seldom import seldom

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
EXAMPLES = Path(__file__).parents[3] / "examples" / "aspects"


def lowered(text: str, name: str = "x.aspect") -> tuple[Automaton, ...]:
    found = check_aspects(Source(name, text))
    assert found.file is not None, found.errors
    return automata(found.file)


@pytest.mark.parametrize("name", WORKED)
def test_an_example_lowers_to_its_hand_written_automaton(name: str) -> None:
    (found,) = lowered((EXAMPLES / f"{name}.aspect").read_text())
    assert plain(found) == plain(WORKED[name])


def plain(automaton: Automaton) -> Any:
    """The automaton without names and lines, and with C in a normal form."""
    return replace(
        automaton,
        name="", file="", words=tuple(map(_plain, automaton.words)),
        elements=tuple(map(_element, automaton.elements)), until=tuple(map(_element, automaton.until)),
    )  # fmt: skip


def _element(one: Element) -> Any:
    return _plain(replace(one, line=0))


def _plain(found: Any) -> Any:
    """Each text of C in its normal form, each type as its definition, as far as it is known."""
    if isinstance(found, tuple):
        return tuple(map(_plain, found))
    if isinstance(found, str):
        return "".join(_COMMENT.sub("", normal(found)).split())
    if not hasattr(found, "__dataclass_fields__"):
        return found
    values = {name: getattr(found, name) for name in found.__dataclass_fields__}
    return type(found).__name__, {
        name: ctype(value) or "".join(value.split()) if name in ("ctype", "result") else _plain(value)
        for name, value in values.items()
        if name not in ("result", "exact")
    }


def written(whole: Whole) -> str:
    """The text of a naive sequence in the language of aspects."""
    options = {"any": "", "process": "perprocess ", "thread": "perthread "}[whole.sharing]
    options += "unique(k) " if whole.unique else ""
    options += f"instances {whole.instances} " if whole.instances < 1000 else ""
    parts = [_written(part, f"n{number}") for number, part in enumerate(whole.parts)]
    if len(parts) == 1:
        return f"group A;\n{options}{parts[0]};"
    until = ", ".join(_written(part, f"u{number}") for number, part in enumerate(whole.until))
    ends = (f" until {until}" if until else "") + (f" within {whole.within}ns" if whole.within is not None else "")
    return f"group A;\n{options}seq({'; '.join(parts)}){ends};"


def _written(part: Part, own: str) -> str:
    name = "k" if part.binds else own
    star = " *" if part.star else ""
    return f"A: call(void {part.function}(long {name})) && if ({name} >= {part.least}){star}"


@settings(max_examples=60, deadline=None)
@given(wholes(), happenings(6))
def test_random_aspects_lower_to_the_automata_they_describe(whole: Whole, events: list[Happened]) -> None:
    """A sequence of a single element has no end but itself."""
    if len(whole.parts) == 1:
        whole = replace(whole, until=(), within=None, unique=False, sharing="any", instances=1000)
    whole = replace(whole, within=1 if whole.within == 0 else whole.within)
    model = AspectModel(lowered(written(whole)))
    assert logged(model.run(map(event, events))) == naive.runs(whole, events)


SOUND = sorted([*Path(__file__).parent.glob("tst.*.aspect"), *EXAMPLES.glob("*.aspect")])


def points(automaton: Automaton) -> Iterator[Calling | GlobalAccess]:
    """The functions and variables that the automaton names."""
    for one in (*automaton.elements, *automaton.until):
        for way in one.alternatives:
            yield from calling(way.point)
            last = way.point.last if isinstance(way.point, ControlFlow) else way.point
            if isinstance(last, GlobalAccess):
                yield last


def lines(found: tuple[Automaton, ...], chance: random.Random, asked: set[str]) -> Iterator[dict[str, Any]]:
    """An endless series of events of the automata's own functions and variables; for requested expressions, values."""
    every = [one for automaton in found for one in points(automaton)]
    called = [f"{one.image}:{one.function}" if one.image else one.function for one in every if isinstance(one, Calling)]
    variables = [one.variable for one in every if isinstance(one, GlobalAccess)]
    while True:
        kind = chance.choice(["call", "call", "return", "return", "read", "write"])
        access = kind in ("read", "write")
        line = {
            kind: chance.choice([*variables, 1, 2, 100]) if access else chance.choice([*called, "f"]),
            "pid": chance.choice([1, 2]),
            "kernel": chance.random() < 0.4,
            "values": {text: chance.randrange(3) for text in asked},
        }
        if kind == "call":
            line["args"] = [chance.choice([0, 1, 2, ord(";"), 100]) for _ in range(8)]
        else:
            line["value"] = chance.choice([0, 1, 100])
        yield line | ({"old": chance.randrange(2)} if kind == "write" else {})


@pytest.mark.parametrize("path", seldom(SOUND, 12), ids=lambda path: path.name)
def test_every_accepted_file_is_explained_and_runs_or_names_what_it_lacks(path: Path) -> None:
    found = lowered(path.read_text(), path.name)
    assert automata_text(found).count("\n") >= 3 * len(found)
    assert len(json.loads(json.dumps(automata_json(found)))) == len(found)
    model, asked = AspectModel(found), set[str]()
    for line in itertools.islice(lines(found, random.Random(3), asked), 1000):
        try:
            model.step(*read_events([json.dumps(line)]))
        except UsageError as error:
            text = re.findall("`(.*)`", error.message)[0]
            assert error.slug == "event-lacks-value" and text not in asked
            asked.add(text)
    for automaton in found:
        tally = model.counts()[automaton.name]
        assert tally.begun == tally.open + tally.ended + tally.until + tally.late + tally.replaced + tally.gone
    assert not found or sum(sum(tally.matches) for tally in model.counts().values()) > 0


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in SOUND])
def test_the_checker_and_the_automaton_agree_on_keys(path: Path) -> None:
    checked = check_aspects(Source(path.name, path.read_text())).file
    assert checked is not None
    for aspect, automaton in zip(checked.aspects, automata(checked), strict=True):
        for number, one in enumerate((*aspect.elements, *aspect.until)):
            each = ({key.name for key in one.keys if key.alternative == way} for way in range(len(one.alternatives)))
            assert tuple(sorted(set.intersection(*each))) == (derived.keys(automaton, number) if number else ())


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(SOUND),
    st.integers(0, 3000),
    st.integers(0, 12),
    st.sampled_from(["", " ", "*", "(", ";", "x", "K: "]),
)
def test_a_damaged_file_is_refused_or_explained(path: Path, start: int, length: int, instead: str) -> None:
    text = path.read_text()
    start %= len(text) + 1
    found = check_aspects(Source(path.name, text[:start] + instead + text[start + length :]))
    assert found.errors or found.file is not None
    if found.file is not None:
        shown = automata(found.file)
        assert automata_text(shown) or not shown
        json.dumps(automata_json(shown))
