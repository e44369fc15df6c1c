# SPDX-License-Identifier: LGPL-2.1-or-later
"""A workspace that has advice on calls besides: its C, linked into arenas, and the stacks on which it runs."""

from __future__ import annotations

import struct

from gilk.lang.c.advice import PASS, PROCEED, PROCEED_WITH
from gilk.splice.access import AccessAdvice
from gilk.splice.advice import Advised, AdvisedEntry, compared
from gilk.splice.planner import PatchContext
from gilk.targets.arena_parameters import ArenaWord
from gilk.targets.arena_site import LINE, ArenaSite
from gilk.targets.workspace import ARENA_SIZE, Workspace
from gilk.toolchain.advice import CompiledAdvice
from gilk.toolchain.runtime import runtime

_ADVICE = struct.Struct("<QIIIBBBx")  # struct gilk_advice, native/runtime/advice.h


class AdvisedWorkspace(Workspace):
    """The workspace of an AdvisedSession; raises as a Workspace does."""

    def advised(self, ground: PatchContext, compiled: CompiledAdvice) -> AdvisedEntry:
        """Advice for one function, at its entry. Raises CompileError `undefined-symbol`."""
        self._parameters.map_stacks(ArenaWord.ADVICE, self._process.keeper.map_advice, self._blocks)
        site = self._site_of(ground)
        linked = self._link(site, compiled.compiled, 0)
        at = site.arena.allocate(LINE)
        flags = compiled.vectors | compiled.goes_on << 1
        called = compiled.called
        numbers = (linked.plain, called.stack, flags, compiled.more, called.results, called.integers, called.vectors)
        self._store(at, _ADVICE.pack(*numbers))
        thunks = (self.runtime_address(ground, name) for name in ("gilk_advice_enter", "gilk_advice_returned"))
        return AdvisedEntry((self._word(site, at),), at, *thunks)

    def accessed(self, ground: PatchContext, compiled: CompiledAdvice) -> AccessAdvice:
        """Advice on accesses of a variable, by instructions of one image. Raises CompileError `undefined-symbol`."""
        self._parameters.map_stacks(ArenaWord.ADVICE, self._process.keeper.map_advice, self._blocks)
        site, key = self._site_of(ground), id(compiled)
        if key not in site.accessed:
            linked = self._link(site, compiled.compiled, 0)
            site.accessed[key] = compiled, AccessAdvice(linked.plain, compiled.vectors)
        return site.accessed[key][1]

    def advised_on(self, ground: PatchContext, entry: AdvisedEntry, kind: type[Advised]) -> Advised:
        """The instrument that the same advice has at another point, maybe of another image."""
        if kind is AdvisedEntry:
            return entry
        words = (self._word(self._site_of(ground), entry.advice),)
        return compared(kind, words, lambda name: self.runtime_address(ground, name))

    def stored(self, address: int, size: int) -> bytes:
        """The code or constants that gilk has put at an address, also when the process has ended; b"" where
        there are none of it."""
        for site in self._sites:
            at = address - site.arena.base
            if 0 <= at < ARENA_SIZE:
                start = site.arena.offset + at
                return self._code[start : start + min(size, ARENA_SIZE - at)]
        return b""

    def _own(self, site: ArenaSite) -> dict[str, int]:
        ways = {name: site.host.base + runtime().symbols[name] for name in (PROCEED, PROCEED_WITH, PASS)}
        return super()._own(site) | ways
