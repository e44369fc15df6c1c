# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs on the fake: D's engine, and the broker's session with one client, which is called directly."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from mmap import mmap

import pytest

from gilk.engines.dtrace.compiled import ProgramText, compile_programs
from gilk.engines.dtrace.enabling import enable
from gilk.engines.dtrace.tracing import Engine
from gilk.engines.dtrace.world import SymbolContext
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.session.broker.client_state import ClientState
from gilk.session.broker.messages import Inserted, InsertRequest, insert_words
from gilk.session.broker.session import SharedSession
from gilk.toolchain.instrument import compile_instrument
from gilk.trace import clock
from tests.fake.sessions import CLOCK
from tests.fake.target import FakeProcess

_SMALL = "64k"


class Client:
    """A client that has the session to itself."""

    def __init__(self, process: FakeProcess, size: int) -> None:
        self._session, self._state = SharedSession(process), ClientState(1)
        words, fd = self._state.have(self._session, {"do": "memory", "size": size}, fd=-1)
        self.memory = mmap(fd, size)
        os.close(fd)
        self.offset = int(words["offset"])
        self.notes: list[str] = []

    def insert(self, asked: Sequence[InsertRequest]) -> Inserted:
        used = dict.fromkeys(one.instrument for one in asked)
        compiled = {one: compile_instrument(one.source, one.function, one.flags, one.made_of, one.text) for one in used}
        words, content = insert_words(asked, compiled)
        answer = self._state.insert(self._session, json.loads(json.dumps(words)), content)
        tactics = {int(place): str(tactic) for place, tactic in answer["tactics"]}
        return Inserted({int(place): str(reason) for place, reason in answer["refused"]}, tactics, 0.0, 0.0)

    def inside(self) -> set[int]:
        return set(self._session.inside())

    def close(self) -> bool | None:
        self._state.leave(self._session)
        self._session.close()
        return self._session.restored


def tracing(process: FakeProcess, text: str, patch: pytest.MonkeyPatch) -> Engine:
    """The engine of a D program, which has yet to begin."""
    patch.setattr(clock, "calibrate", lambda: CLOCK)  # a real calibration takes time
    options = Options()
    for name in ("bufsize", "aggsize", "dynvarsize", "specsize"):
        options.set(name, _SMALL)
    options.set("nolibs", None)
    texts = [ProgramText("description", Source(text, text))]
    program = compile_programs(
        texts, Macros({"target": process.pid}, ("test",)), options, SymbolContext(process)
    ).program
    return Engine(program, enable(program, process, False), options, (process, partial(Client, process)))
