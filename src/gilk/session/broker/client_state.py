# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of one client in a session: its memory and its probes, which go when the client goes, however that
happens."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from gilk.collector import without_collector
from gilk.errors import GilkError, TargetError
from gilk.session.broker.following import Following
from gilk.session.broker.gates import ClientGates
from gilk.session.broker.messages import (
    MOST_MEMORY,
    ProtocolError,
    ResolvedInsert,
    image_named,
    number,
    placed,
    region,
    semaphores,
)
from gilk.session.broker.session import Carried, ClientRegion, SharedSession
from gilk.session.request import Builtin, GoesOn, ValuesAt
from gilk.targets.base import Target
from gilk.targets.semaphores import Raised
from gilk.targets.shared_memory import is_sealed
from gilk.toolchain.instrument import CompiledObject
from gilk.trace.layout import IID_BITS, Geometry

_MOST_NUMBER = (1 << IID_BITS) - 1
#: The class of the records that each built-in instrument makes; count makes none.
_CLASSES = {Builtin.STAMP: 0, Builtin.TIME: 0, Builtin.ARGS: 2, Builtin.REGS: 3}


class ClientState:
    """One client's memory, probes, gates and semaphores. ``identity``: unique in the broker."""

    def __init__(self, identity: int) -> None:
        self._identity = identity
        self._memory: tuple[int, int] | None = None  # address, size
        self._common: tuple[int, int] | None = None  # address and size of memory that the client has brought
        self._region: ClientRegion | None = None
        self._geometry: Geometry | None = None  # of the region
        self._carried: list[Carried] = []
        self._numbered: dict[int, Carried] = {}  # the region's probes, by number
        self._sources: set[str] = set()
        self._inserted = 0
        self._listening: list[Raised] = []
        self._following: Following | None = None
        self._gates: ClientGates | None = None  # of a client that does not follow calls

    def have(self, session: SharedSession, words: dict[str, Any], fd: int) -> tuple[dict[str, Any], int]:
        """Give the client memory, or map memory that it has brought; returns the answer, and a descriptor to send or
        -1.

        Raises ProtocolError, TargetError.
        """
        if words["do"] == "common":
            return self._have_common(session, words, fd), -1
        return self._have_memory(session, words)

    def _have_memory(self, session: SharedSession, words: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Give the client memory; returns its offset from the beginning of the shared data, and its descriptor.

        Memory that is not used yet is given back first, so that a client may ask for less. Raises ProtocolError,
        TargetError.
        """
        size = number(words.get("size"), 1, MOST_MEMORY)
        if self._inserted or self._region or self._common:
            raise ProtocolError("one has memory before anything else")
        self._give_memory_back(session.process)
        fd, address = session.process.keeper.share_memory(size)
        self._memory = address, size
        return {"offset": address - session.data_address, "address": address}, fd

    def _have_common(self, session: SharedSession, words: dict[str, Any], fd: int) -> dict[str, Any]:
        """Map memory that the client has brought; the answer has its offset from the beginning of the shared data.

        The memory must be sealed, so that nobody can take a page away from the process. Raises ProtocolError,
        TargetError.
        """
        size = number(words.get("size"), 1, MOST_MEMORY)
        if self._inserted or self._common or fd < 0 or not is_sealed(fd, size):
            raise ProtocolError("common memory is sealed memory of that size, and one has it before anything else")
        address = session.process.keeper.map_common(fd, size)
        self._common = address, size
        return {"offset": address - session.data_address}

    def have_region(self, session: SharedSession, words: dict[str, Any]) -> dict[str, Any]:
        """Make the client's memory a region, a part of the session; the answer has its number. Raises ProtocolError,
        TargetError."""
        if self._memory is None or self._region:
            raise ProtocolError("a region is memory")
        address, size = self._memory
        self._geometry = region(words, size)
        follows = bool(number(words.get("follows", 0), 0, 1))
        self._region = session.open_region(address, self._geometry, follows)
        if follows:
            self._following = session.following = Following(session, self._region)
        return {"number": self._region.part.number}

    @without_collector()
    def insert(self, session: SharedSession, words: dict[str, Any], content: bytes) -> dict[str, Any]:
        """Insert probes; the answer has the outcome of each, by place in the request. Raises ProtocolError, GilkError;
        then nothing has changed."""
        self._inserted += 1
        asked = placed(session.process, words, content, f"{self._identity}-{self._inserted}")
        self._check(asked)
        self._sources |= {str(one.made.source) for one in asked if isinstance(one.made, CompiledObject)}
        dormant = bool(number(words.get("dormant", 0), 0, 1))
        if dormant and self._following is None:
            raise ProtocolError("what is dormant belongs to what is followed")
        made = session.put_in(asked, self._region, active=not dormant)
        self._carried += made.carried
        numbers = [one.number for place, one in enumerate(asked) if place not in made.refused]
        if self._region:
            self._numbered.update(zip(numbers, made.carried, strict=True))
        if dormant and self._following is not None:
            keys = dict(zip(numbers, (want.key for _, want in made.carried), strict=True))
            all_asked = [one.number for one in asked]  # the client also names probes that were refused
            self._following.know(np.array(all_asked), np.array([keys.get(iid, -1) for iid in all_asked]))
        return {
            "refused": sorted(made.refused.items()),
            "tactics": sorted(made.tactics.items()),
            "total": made.took.total,
            "seconds": made.took.seconds,
        }

    def _check(self, asked: list[ResolvedInsert]) -> None:
        """Check that built-in instruments write to a region, and only to counters and rings that it has. Raises
        ProtocolError."""
        numbers = {one.number for one in asked}
        if self._region and (len(numbers) < len(asked) or not numbers.isdisjoint(self._numbered)):
            raise ProtocolError("a number of an instrument is its own")
        for one in asked:
            if not isinstance(one.made, CompiledObject):
                if self._geometry is None or one.number > _MOST_NUMBER:
                    raise ProtocolError("built-in instruments need a region")
                kind = _CLASSES.get(_like(one.made))
                if one.number > self._geometry.counters if kind is None else not self._geometry.rings[kind].size:
                    raise ProtocolError(f"there is no room for {one.made}")

    def remove(self, session: SharedSession, words: dict[str, Any]) -> dict[str, Any]:
        """Take the probes with the given numbers out. Raises ProtocolError, GilkError; then nothing has changed."""
        numbers = words.get("numbers")
        if not isinstance(numbers, list) or not all(type(each) is int and each in self._numbered for each in numbers):
            raise ProtocolError("numbers")
        self._take_out(session, [self._numbered[each] for each in set(numbers)])
        return {}

    def listen(self, session: SharedSession, words: dict[str, Any]) -> dict[str, Any]:
        """Raise semaphores, until the client leaves. Raises ProtocolError, TargetError."""
        wanted = semaphores(words)
        self._listening += session.process.raise_semaphores(wanted)
        return {}

    def follow(self, session: SharedSession, words: dict[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
        """Carry out a request about followed functions, a gate, or an unmapped image; returns the answer. Raises
        ProtocolError, GilkError; then nothing has changed."""
        if words["do"] == "lose":
            self._lose(session, words)
        if self._following is not None:
            return self._following.carry_out(words, content)
        if words["do"] == "gate" and self._region is not None:
            self._gates = self._gates or ClientGates(session, self._region)
            return {"carried": [], "refused": self._gates.put(words)[0]}, b""
        if words["do"] == "lose":
            return {}, b""
        raise ProtocolError("this region is not for following")

    def _lose(self, session: SharedSession, words: dict[str, Any]) -> None:
        """Take out the client's probes in an unmapped image: if it is mapped again, it is another one."""
        path, bias = image_named(words)
        session.lose_image(path, bias)
        gone = [one for one in self._carried if _image_of(one) == (path, bias)]
        if gone:
            self._take_out(session, gone)

    def _take_out(self, session: SharedSession, gone: list[Carried]) -> None:
        session.take_out(gone)
        keys = {want.key for _, want in gone}
        self._carried = [one for one in self._carried if one[1].key not in keys]
        self._numbered = {each: one for each, one in self._numbered.items() if one[1].key not in keys}

    def remarks(self, session: SharedSession) -> list[str]:
        """Remarks for the client about its probes."""
        return session.remarks(want.key for _, want in self._carried)

    def leave(self, session: SharedSession) -> bool:
        """Take out all that the client had; returns whether that worked. If not, for example because a thread is in the
        code, try again later."""
        try:
            if self._following is not None:
                self._following.leave()
            if self._gates is not None:
                self._gates.leave()
            session.take_out(self._carried)
        except TargetError as error:
            if error.slug != "no-such-process":
                return False
        except GilkError:
            return False
        self._carried = []
        if self._following is not None:
            self._following = session.following = None
        session.forget(self._sources)
        self._fall_silent(session.process)
        if self._region is not None:
            session.close_region(self._region)
            self._region = None
        if session.parts_are_looked_at:
            return False  # a thread that looks at the parts may have found this one
        self._give_memory_back(session.process)
        return True

    def _fall_silent(self, process: Target) -> None:
        raised, self._listening = self._listening, []
        if raised:
            with contextlib.suppress(GilkError):
                process.keeper.lower_semaphores(raised)

    def _give_memory_back(self, process: Target) -> None:
        for memory in filter(None, (self._memory, self._common)):
            with contextlib.suppress(GilkError):  # the process may have ended
                process.keeper.unshare_memory(*memory)
        self._memory = self._common = None


def _like(made: Builtin | ValuesAt | GoesOn) -> Builtin:
    """The built-in instrument whose records an instrument makes."""
    if isinstance(made, Builtin):
        return made
    return Builtin.TIME if isinstance(made, GoesOn) else Builtin.ARGS


def _image_of(one: Carried) -> tuple[Path, int]:
    ground = one[0].ground
    return ground.analysis.image.path, ground.bias
