# SPDX-License-Identifier: LGPL-2.1-or-later
"""A workspace that can have advice on calls, too: its C code, linked into arenas, and the stacks on which it runs."""

from __future__ import annotations

import struct

from gilk.lang.c.advice import OF_RUNTIME
from gilk.splice.access import AccessAdvice
from gilk.splice.advice import Advised, AdvisedEntry, compared
from gilk.splice.planner import PatchContext
from gilk.targets.arena_parameters import ArenaWord
from gilk.targets.arena_site import LINE, ArenaSite
from gilk.targets.workspace import ARENA_SIZE, Workspace
from gilk.toolchain.advice import CompiledAdvice
from gilk.toolchain.runtime import runtime
from gilk.values import dataclass

_SITE, _TRAPPED = struct.Struct("<ii4Iii"), 5  # struct gilk_access_site, GILK_ACCESS_TRAPPED
_ADVICE = struct.Struct("<QIIIBBBxQQQQ")  # struct gilk_advice, native/runtime/advice.h


@dataclass(frozen=True, slots=True)
class AboutFunction:
    """A function that has advice, at ``address`` in the process; ``number`` tells functions apart that are declared
    alike in C."""

    number: int
    function: str
    image: str
    address: int


class AdvisedWorkspace(Workspace):
    """The workspace of an AdvisedSession; raises as a Workspace does."""

    def advised(self, ground: PatchContext, compiled: CompiledAdvice, about: AboutFunction) -> AdvisedEntry:
        """Advice for one function, at its entry. Raises CompileError `undefined-symbol`."""
        site = self._site_of(ground)
        plain = self.accessed(ground, compiled).entry
        at = site.arena.allocate(LINE)
        flags = compiled.vectors | compiled.goes_on << 1
        called = compiled.called
        numbers = (plain, called.stack, flags, compiled.more, called.results, called.integers, called.vectors)
        names = (self._text(site, about.function), self._text(site, about.image))
        self._store(at, _ADVICE.pack(*numbers, about.number, *names, about.address))
        way_in = "gilk_advice_brief" if compiled.is_brief else "gilk_advice_enter"
        thunks = (self.runtime_address(ground, name) for name in (way_in, "gilk_advice_returned"))
        return AdvisedEntry((self._word(site, at),), at, *thunks)

    def accessed(self, ground: PatchContext, compiled: CompiledAdvice) -> AccessAdvice:
        """The same advice for instructions that access memory; linked once for all instructions of one arena. Raises
        CompileError `undefined-symbol`."""
        self._parameters.map_stacks(ArenaWord.ADVICE, self._process.keeper.map_advice, self._blocks)
        site, key = self._site_of(ground), id(compiled)
        if key not in site.accessed:
            linked = self._link(site, compiled.compiled, 0)
            site.accessed[key] = compiled, AccessAdvice(linked.plain, compiled.vectors)
        return site.accessed[key][1]

    def trap_site(self, ground: PatchContext, advice: AccessAdvice, behind: str, size: int) -> int:
        """The address of the constants (struct gilk_access_site) of advice on trapped accesses of ``size`` bytes.
        ``behind``: the runtime's label at which a thread is behind it."""
        site = self._site_of(ground)
        at = site.arena.allocate(LINE)
        failed, entry = self.runtime_address(ground, behind) - (at + 4), advice.entry - (at + 8)
        self._store(at, _SITE.pack(failed, entry, advice.vectors, 0, size, _TRAPPED, 0, 0))
        return at

    def advised_on(self, ground: PatchContext, entry: AdvisedEntry, kind: type[Advised]) -> Advised:
        """The instrument of kind ``kind`` that the same advice has at another point, maybe of another image."""
        if kind is AdvisedEntry:
            return entry
        words = (self._word(self._site_of(ground), entry.advice),)
        return compared(kind, words, lambda name: self.runtime_address(ground, name))

    def _text(self, site: ArenaSite, text: str) -> int:
        """The address of a string, which each arena stores only once."""
        if text not in site.texts:
            data = text.encode("utf-8", "surrogateescape") + b"\0"
            site.texts[text] = site.arena.allocate(len(data))
            self._store(site.texts[text], data)
        return site.texts[text]

    def stored(self, address: int, size: int) -> bytes:
        """The code or constants that gilk has put at an address, also when the process has ended; b"" for other
        addresses."""
        for site in self._sites:
            at = address - site.arena.base
            if 0 <= at < ARENA_SIZE:
                start = site.arena.offset + at
                return self._code[start : start + min(size, ARENA_SIZE - at)]
        return b""

    def _own(self, site: ArenaSite) -> dict[str, int]:
        ways = {name: site.host.base + runtime().symbols[name] for name in OF_RUNTIME}
        return super()._own(site) | ways
