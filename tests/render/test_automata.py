# SPDX-License-Identifier: LGPL-2.1-or-later
"""What ``gilk aspect explain`` prints: two aspects, and the model's answer to events."""

from __future__ import annotations

import json

from gilk.lang.aspect.automaton import AliasAccess, BoundName, ControlFlow, GlobalAccess, Word
from gilk.lang.aspect.model import AspectModel
from gilk.render.automata import automata_json, automata_text, pointed, steps_json, steps_text
from tests.lang.aspect.automata import calling, element, events, sequence

RACE = sequence(
    element(calling("stat", "char *p"), "return int r", "r == 0", "char path[16] = p", places=("A",), line=3),
    element(calling("vfs_rename", "n"), "pid() != 1", before="by = pid()", star=True, places=("K",), line=4),
    element(calling("open", "char *q"), "char path[16] = q", inplace='{ report("%s\x1b", q); return proceed(); }'),
    within=10_000_000_000,
    words=(Word(BoundName("by", "int")),),
    name="race",
)


def test_an_automaton_is_a_table_and_three_lines() -> None:
    lines = automata_text([RACE]).splitlines()
    assert lines[0] == "race: a sequence of 3, continued by any member"
    assert [line.split() for line in lines[2:5]] == [
        ["1", "A:", "call(stat(p))", "after", "3", "2", *lines[2].split()[-4:]],
        ["2*", "K:", "call(vfs_rename(n))", "before", "before", "3", "2", *lines[3].split()[-4:]],
        ["3", "call(open(q))", "inplace", "before", "path", "end", *lines[4].split()[-4:]],
    ]
    assert lines[5] == "  an instance has 48 bytes of state (its own 24, by 4, path 16); 4096 may be open"
    assert lines[6] == "  it ends by a match of element 3, an age over 10s"
    assert len(lines) == 7


def test_json_has_the_same_content_as_the_text() -> None:
    (found,) = json.loads(json.dumps(automata_json([RACE])))
    assert [one["keys"] for one in found["elements"]] == [[], [], ["path"]]
    assert found["transitions"][0] == {"source": 0, "element": 0, "target": 1}
    assert (found["state"]["bytes"], found["ends"]) == (48, ["a match of element 3", "age"])


def test_join_points_are_shown_as_they_are_written() -> None:
    flow = ControlFlow(False, (calling("libc:f", "n"),), GlobalAccess(True, "x.y", "main"))
    assert pointed(flow) == "controlflowstar(call(libc:f(n)), writeGlobal(main:x.y))"
    assert pointed(AliasAccess(False, "b", "n + 1")) == "read(b, n + 1)"


def test_actions_are_printed_below_their_event_without_control_characters() -> None:
    model = AspectModel((RACE,))
    listed = events("""
        {"call": "stat", "args": ["/a"], "at": "1s"}
        {"return": "stat", "value": 0}
        {"call": "vfs_rename", "args": [1], "pid": 2, "tid": 5, "kernel": true}
        {"call": "open", "args": ["/a"]}
        {"return": "open", "value": 3}
    """)
    steps = [(event, model.step(event)) for event in listed]
    assert steps_text(steps, model.counts()).splitlines() == [
        "line 1: call stat('/a') (pid 1, 1s)",
        "line 2: return stat = 0 (pid 1, 1s)",
        "    race 1: began by element 1",
        "line 3: call vfs_rename(1) (kernel, pid 2.5, 1s)",
        "    race 1: moved by element 2",
        "    race 1: advice before",
        "    race 1: sets by = 2",
        "line 4: call open('/a') (pid 1, 1s)",
        "    race 1: moved by element 3",
        "    race 1: ended",
        "    race 1: advice inplace",
        "    race 1: reports /a\\x1b",
        "    race 1: proceeds /a",
        "line 5: return open = 3 (pid 1, 1s)",
        "    returns 3",
        "race: matches 1 1 1, begun 1, ended 1",
    ]
    found = json.loads(json.dumps(steps_json(steps, model.counts())))
    assert found["counts"]["race"]["ended"] == 1 and found["events"][1]["deeds"][0]["did"] == "began"
