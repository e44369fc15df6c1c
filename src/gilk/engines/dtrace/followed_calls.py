# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that fire when calls are over, in a process: also where a function ends in a jump to another one, which
returns in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from gilk.lang.d.probes import DProbe
from gilk.providers.probe import ProbeSite, ProcessProbe
from gilk.targets.base import Target
from gilk.targets.call_ends import CallEndFinder, CallEnds


class FollowedCalls:
    """The places of such probes in one process."""

    def __init__(self, process: Target) -> None:
        self._process = process

    def placed(self, rows: Iterable[tuple[DProbe, ProcessProbe]]) -> Iterator[tuple[DProbe, ProcessProbe]]:
        """The probes, with all places where something has to be done for them. One whose clauses read variables of the
        function fires at its jumps: the variables are gone later."""
        for probe, made in rows:
            follows = made.calls and made.sites and not any(site.given.locals for site in made.sites)
            ends = self._ends_of(made.sites[0]) if follows else None
            if ends is not None and ends.jumps:
                made = replace(made, sites=tuple(_sites(ends, made.sites[0])))
            yield probe, made

    def early(self, made: ProcessProbe) -> tuple[str, ...]:
        """The reasons why the probe fires at jumps after which a call may go on."""
        ends = self._ends_of(made.sites[0])
        return () if ends is None else ends.why

    @cached_property
    def _finder(self) -> CallEndFinder:
        return CallEndFinder(self._process, self._process.keeper.peek)

    def _ends_of(self, site: ProbeSite) -> CallEnds | None:
        """The ends of calls of the function in which the site is; None if it is a part of another, or of Go, whose
        stacks move."""
        analysis = self._process.analysis(site.loaded)
        span = analysis.image.span_at(site.start - site.loaded.bias)
        function = None if span is None else analysis.function(span)
        if function is None or function.whole or analysis.image.is_go:
            return None
        return self._finder.of(site.loaded, function)


def _sites(ends: CallEnds, like: ProbeSite) -> Iterator[ProbeSite]:
    for role, place in ends.steps(left=True):
        yield replace(like, loaded=place.loaded, part=place.part.start, point=place.point, role=role)
