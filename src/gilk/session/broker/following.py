# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions that one client follows in a shared session: dormant or active units of the session's ledger.

The client names its probes by iids, which are in its records. Where other clients have probes in a function, all of its
probes are planned together; if one of them finds no room then, the function is not followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gilk.errors import GilkError
from gilk.session import plan_cache
from gilk.session.broker.gates import ClientGates
from gilk.session.broker.messages import masks, number, starts_of
from gilk.session.broker.session import Carried, ClientRegion, SharedSession
from gilk.session.placed import PlacedTiming, place_timing
from gilk.session.plan_cache import TIMING
from gilk.session.staging import ChangeResult, Timed
from gilk.splice.allocator import OutOfSpace
from gilk.splice.template import PlanTemplate
from gilk.targets.base import Loaded
from gilk.targets.templates import Shape
from gilk.trace.layout import IID_BITS

Mask = NDArray[np.bool_]
Keys = NDArray[np.int64]
Answer = tuple[dict[str, Any], bytes]
_MOST_IID = 1 << IID_BITS
_TOO_MUCH = (OutOfSpace, OverflowError, MemoryError, GilkError)


class Following:
    """The functions that one client follows; ``region`` is its memory."""

    def __init__(self, session: SharedSession, region: ClientRegion) -> None:
        self._session, self._region = session, region
        self._key_of: Keys = np.full(1, -1, np.int64)  # by iid: the key; -1 if there is no probe, or it is refused
        self._on: Mask = np.zeros(1, np.bool_)  # by iid: whether the probe is active
        self._placed: list[PlacedTiming] = []
        self._gates = ClientGates(session, region)
        self._expected: Mask = np.zeros(1, np.bool_)

    def carry_out(self, words: dict[str, Any], content: bytes) -> Answer:
        """Answer a request of the client (messages.py). Raises ProtocolError, GilkError; then nothing has changed."""
        match words["do"]:
            case "timing":
                self._session.look_after()
                return {"live": self._shape.assume_live}, b""
            case "place":
                return self._place(words, content)
            case "copy":
                return {"copies": self._copy()}, b""
            case "expect":
                return self._expect(*masks(content, 2, len(self._key_of))), b""
            case "begin":
                return self._told(*self._begin()), b""
            case "follow":
                return self._told(*self._activate(*masks(content, 1, len(self._key_of)))), b""
            case "unfollow":
                return self._told(self._deactivate(*masks(content, 1, len(self._key_of))), set()), b""
            case "lose":
                return self._lose(words)
            case "gate" | _:
                return self._put_gate(words)

    @staticmethod
    def _told(took: Timed, lost: Collection[int]) -> dict[str, Any]:
        return {"total": took.total, "seconds": took.seconds, "lost": sorted(lost)}

    # Making functions ready.

    @property
    def _shape(self) -> Shape:
        part = self._region.part
        return Shape(part.counters, part.rings, self._session.workspace.shape.assume_live, part.number)

    def _place(self, words: dict[str, Any], content: bytes) -> Answer:
        loaded, starts = starts_of(self._session.process, words, content)
        first = number(words.get("first"), 0, _MOST_IID)
        template = self._template(loaded)
        if template is None or first + template.rows >= _MOST_IID:
            return {"units": 0}, b""
        key = self._session.take_keys(template.rows)
        made = place_timing(
            self._session.workspace, loaded, template, key, starts, first + 1 - key, self._region.part
        )  # fmt: skip
        if made is None:
            return {"units": 0}, b""
        self._session.ledger.hold(made)
        self._placed.append(made)
        rows = np.arange(template.rows)
        self.know(first + 1 + rows, np.where(made.had, key + rows, -1))
        return {"units": len(made.ready)}, np.packbits(made.ready).tobytes()

    def _template(self, loaded: Loaded) -> PlanTemplate | None:
        """The timing template of an image from the cache, where the client has put it; made again if the cache lacks
        it, None if there can be none."""
        process = self._session.process
        try:
            known = plan_cache.load(TIMING, process.image(loaded.path), self._shape)
            return known or plan_cache.make_timing(process.analysis(loaded), self._shape)
        except _TOO_MUCH:
            return None

    def know(self, iids: Keys, keys: Keys) -> None:
        """Note the keys of probes, which are dormant; the key -1 means that the probe is refused."""
        more = int(iids.max(initial=0)) + 1 - len(self._key_of)
        if more > 0:
            self._key_of = np.concatenate((self._key_of, np.full(more, -1, np.int64)))
            self._on = np.concatenate((self._on, np.zeros(more, np.bool_)))
        self._key_of[iids] = keys

    # Putting in, and taking out.

    def _keys(self, chosen: Mask) -> Keys:
        keys = self._key_of[chosen]
        return keys[keys >= 0]

    def holds(self, keys: Iterable[int]) -> set[int]:
        """The keys among these that belong to functions followed at present."""
        wanted = list(keys)
        return set(self._key_of[self._on & np.isin(self._key_of, wanted)].tolist()) if wanted else set()

    def _copy(self) -> int:
        session = self._session
        return session.process.copy_code(session.ledger.units(self._keys(self._key_of >= 0)))

    def _expect(self, chosen: Mask, busy: Mask) -> dict[str, Any]:
        """Make ready what `begin` is to activate. Functions that must be planned again for that, since others have
        probes there, are activated at once."""
        session, lost, ahead = self._session, set[int](), np.zeros(len(chosen), np.bool_)
        units = session.ledger.expect(self._keys(chosen))
        if left := session.ledger.left_out:
            ahead = chosen & np.isin(self._key_of, list(left))
            _, lost = self._activate(ahead)
            chosen = chosen & ~ahead
            units = session.ledger.expect(self._keys(chosen))
        session.process.keeper.expect(units, session.ledger.units(self._keys(busy)))
        self._expected = chosen
        return {"active": np.flatnonzero(ahead & self._on).tolist(), "lost": sorted(lost)}

    def _begin(self) -> tuple[Timed, set[int]]:
        """Activate what was made ready. If other changes have come in between, it is activated as if it had not been
        made ready."""
        session, chosen = self._session, self._expected
        if not session.ledger.expects:
            return self._activate(chosen)
        took: Timed = session.ledger.begin(session.process.keeper.begin)
        self._turn(chosen, True)
        return took, set()

    def _activate(self, chosen: Mask) -> tuple[Timed, set[int]]:
        """Activate the chosen probes; returns how long it took, and the iids that could not be had because of other
        clients' probes."""
        result = self._session.ledger.activate(self._keys(chosen))
        self._turn(chosen, True)
        return result.outcome, self._give_way(result)

    def _deactivate(self, chosen: Mask) -> Timed:
        result = self._session.ledger.deactivate(self._keys(chosen))
        self._turn(chosen, False)
        return result.outcome

    def _turn(self, chosen: Mask, on: bool) -> None:
        self._on[np.flatnonzero(chosen & (self._key_of[: len(chosen)] >= 0))] = on

    def _give_way(self, result: ChangeResult) -> set[int]:
        """Make followed functions dormant in which a probe, of whichever client, has lost its place by the change;
        returns their iids."""
        lost: set[int] = set()
        refused = result.refusals.keys()
        while pushed := self._session.carries(refused) | self.holds(refused):
            mine = self.holds(self._session.ledger.beside(pushed))
            if not mine:
                break
            gone = self._on & np.isin(self._key_of, list(mine))
            lost |= set(np.flatnonzero(gone).tolist())
            refused = self._session.ledger.deactivate(self._keys(gone)).refusals.keys()
            self._turn(gone, False)
        return lost

    # Gates.

    def _put_gate(self, words: dict[str, Any]) -> Answer:
        """Put a gate in; followed functions that have it are active from then on. The answer has their iids, or why the
        gate is refused."""
        mine: Mask = np.zeros(0, np.bool_)

        def along(fresh: list[Carried]) -> Keys:
            nonlocal mine
            mine = np.isin(self._key_of, [key for entry, _ in fresh for key in entry.wants]) & (self._key_of >= 0)
            return self._keys(mine)

        reasons, refused = self._gates.put(words, along)
        if reasons:
            return {"carried": [], "refused": reasons}, b""
        self._key_of[np.isin(self._key_of, list(refused))] = -1
        self._turn(mine, True)
        return {"carried": np.flatnonzero(mine).tolist(), "refused": []}, b""

    # The end.

    def _lose(self, words: dict[str, Any]) -> Answer:
        """Note that an image was unmapped, none of whose functions is active."""
        rows = [one for one in self._placed if [str(one.loaded.path), one.loaded.bias] == words.get("image")]
        for one in rows:
            self._session.ledger.lose(one.number)
        return {}, b""

    def leave(self) -> None:
        """Take everything out. Raises GilkError: then some of it is still in, and this may be called again."""
        session = self._session
        self._gates.leave()
        self._deactivate(np.ones(len(self._key_of), np.bool_))
        while self._placed:
            one = self._placed[-1]
            session.workspace.give_up(one.loaded, one.template, session.ledger.give_up(one))
            self._placed.pop()
