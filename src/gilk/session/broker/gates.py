# SPDX-License-Identifier: LGPL-2.1-or-later
"""The gates of one client in the process: places in its code at which a thread waits until the client lets it go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import Any

from gilk.errors import GilkError
from gilk.session.broker.messages import number, places_of_gate
from gilk.session.broker.session import Carried, ClientRegion, SharedSession
from gilk.session.ledger import Keys
from gilk.splice.instrument import CallOfGate
from gilk.splice.plan import Want
from gilk.trace.layout import GATES, IID_BITS


class ClientGates:
    """The gates of one client; their words are in the control page of its ``region``."""

    def __init__(self, session: SharedSession, region: ClientRegion) -> None:
        self._session, self._region = session, region
        self._put: list[Carried] = []
        session.process.keeper.have_gates(region.address)

    def put(
        self, words: dict[str, Any], along: Callable[[list[Carried]], Keys] = lambda _: ()
    ) -> tuple[list[str], Collection[int]]:
        """Put a gate in (messages.py, `gate`).

        Returns why it is refused, empty if it is in, else nothing has changed; and the keys of probes that are refused
        because of it. ``along``: returns the keys of dormant probes to activate with it. Raises ProtocolError,
        GilkError.
        """
        session, gate = self._session, number(words.get("gate"), 0, GATES - 1)
        loaded, points = places_of_gate(session.process, words)
        ground = session.workspace.ground(loaded, session.process.analysis(loaded))
        address = session.workspace.runtime_address(ground, "gilk_gate_reached")
        instrument = CallOfGate(address, self._region.part.number << IID_BITS | gate, False)
        keys = iter(range(session.take_keys(len(points)), 1 << 62))
        fresh = [(session.ledger.entry_at(ground, start), Want(at, after, instrument, next(keys)))
                 for start, at, after in points]  # fmt: skip
        refused = session.put_gate(fresh, along(fresh), first=bool(number(words.get("first"), 0, 1)))
        reasons = [refused[want.key] for _, want in fresh if want.key in refused]
        if not reasons:
            self._put += fresh
        return reasons, refused.keys()

    def leave(self) -> None:
        """Take all gates out, and let waiting threads go on. Raises GilkError: then some are still in, and this may be
        called again."""
        with contextlib.suppress(GilkError, OSError):  # the process may have ended
            self._session.process.keeper.have_no_gates(self._region.address)
        gates, self._put = self._put, []
        try:
            self._session.take_out(gates)
        except GilkError:
            self._put = gates
            raise
