# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tables of messages are complete: they list the requests that are made of a keeper and of a broker."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from gilk.session.broker import broker, client_state, messages
from gilk.targets import requests
from gilk.targets.server import Server

SOURCE = Path(requests.__file__).parents[1]


def asked(path: Path) -> Iterator[tuple[str, int]]:
    """The name and the number of arguments of each call of `ask` whose name is a literal."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(ast.Attribute(attr="ask"), [ast.Constant(str(name)), *arguments]):
                yield name, len(arguments)


def test_each_request_to_a_keeper_has_an_answer_with_its_arguments() -> None:
    found = dict(asked(Path(requests.__file__)))
    assert len(found) > 30
    answers = {name: inspect.signature(getattr(Server, name)).parameters for name in found}
    takes = {name: len(parameters) - ("self" in parameters) for name, parameters in answers.items()}
    assert found == takes


def test_requests_to_a_keeper_are_written_out_once() -> None:
    apart = SOURCE / "web"  # its requests go to processes of its own
    paths = [path for path in SOURCE.rglob("*.py") if path.name != "requests.py" and not path.is_relative_to(apart)]
    assert not [path for path in paths if list(asked(path))]


def said() -> set[str]:
    """The requests that the clients of a broker make."""
    files = [SOURCE / "session" / "broker" / name for name in ("client.py", "messages.py", "client_session.py")]
    files.append(SOURCE / "engines" / "follow" / "client.py")
    return {name for path in files for name in re.findall(r'"do": "(\w+)"', path.read_text())}


def test_the_brokers_table_lists_all_requests_of_clients() -> None:
    table = set(re.findall(r"^\| (\w+) \|", messages.__doc__ or "", re.MULTILINE)) - {"do"}
    answered = {
        name
        for module in (broker, client_state)
        for case in re.findall(r'case ("\w+"(?: \| "\w+")*)', Path(module.__file__ or "").read_text())
        for name in re.findall(r"\w+", case)
    }
    assert len(table) > 20
    assert table == answered | set(messages.OF_FOLLOWING)
    assert table == said()
