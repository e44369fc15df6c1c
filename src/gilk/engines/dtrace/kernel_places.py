# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places in a kernel's code at which clauses run, and what is done at each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace

from gilk.analysis.model import Function
from gilk.lang.d.probes import DProbe
from gilk.splice.points import Point
from gilk.targets.call_ends import CallEnds, SiteRole
from gilk.targets.kernel.d_messages import KernelFire, SiteKind
from gilk.values import dataclass


@dataclass(frozen=True)
class KernelPlace:
    """A site that is to be made. ``fires``: what is done there, in order, without the site's number. ``probes``: the
    probes that fire there. ``until``: for a jump after which a call goes on in other functions, the addresses at which
    it may end."""

    part: Function
    point: Point
    fires: tuple[KernelFire, ...]
    probes: tuple[DProbe, ...] = ()
    until: tuple[int, ...] = ()

    @property
    def at(self) -> tuple[int, SiteKind]:
        """The point, and the kind of its site; programs share the sites of a point by kind."""
        return self.fires[0].address, self.fires[0].kind


def of_returns(ends: CallEnds, fire: KernelFire, probe: DProbe) -> Iterator[KernelPlace]:
    """The places of a probe that fires when a call is over. ``fire``: without address and role."""
    until = tuple(place.point.address for place in ends.elsewhere)
    for role, place in ends.steps(left=False):
        address = place.point.address
        if role is SiteRole.ENDS:
            over = KernelFire(0, SiteKind.RETURN, address=address, role=role)
            yield KernelPlace(place.part, place.point, (over,))
        else:
            made = replace(fire, address=address, role=role)
            yield KernelPlace(place.part, place.point, (made,), (probe,), until if role is SiteRole.LEAVES else ())


def merged(places: Iterable[KernelPlace]) -> list[KernelPlace]:
    """The places with one for each point and kind of site. The ends of calls of other
    functions come last: the innermost call is over first."""
    found: dict[tuple[int, SiteKind], KernelPlace] = {}
    for place in places:
        before = found.setdefault(place.at, place)
        if before is not place:
            fires = tuple(dict.fromkeys((*before.fires, *place.fires)))
            probes = tuple(dict.fromkeys((*before.probes, *place.probes)))
            until = before.until or place.until
            found[place.at] = replace(before, fires=fires, probes=probes, until=until)
    return [replace(each, fires=tuple(sorted(each.fires, key=_is_last))) for each in found.values()]


def _is_last(fire: KernelFire) -> bool:
    return fire.role is SiteRole.ENDS


def attachments(places: Mapping[int, KernelPlace], refused: Set[tuple[int, SiteKind]]) -> Iterator[KernelFire]:
    """The attachments, by ``places`` with the numbers of their sites. If one of the places where a call may end
    was ``refused``, the call is over at the jump."""
    gone = {address for address, _ in refused}
    for site, place in places.items():
        cut = not gone.isdisjoint(place.until)
        for fire in place.fires:
            role = SiteRole.FIRES if cut and fire.role is SiteRole.LEAVES else fire.role
            yield replace(fire, site=site, role=role)
