# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments for probes, made from what their clauses use: what is done at each place in the process's code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from gilk.engines.dtrace.enabling import Enabled
from gilk.lang.d.probes import DProbe
from gilk.lang.facts import Facts, union
from gilk.lang.to_c.sites import (
    ENDS,
    ENTERS,
    FORGET,
    NOTE,
    PASSES,
    RETURNED,
    STAYS,
    ClauseEntry,
    Kind,
    Leaves,
    SiteStep,
    entry,
)  # fmt: skip
from gilk.providers.probe import ProbeSite
from gilk.targets.call_ends import COME_FIRST, SiteRole
from gilk.values import dataclass

_STEPS: dict[SiteRole, SiteStep] = {
    SiteRole.ENDS: ENDS, SiteRole.ENTERS: ENTERS, SiteRole.PASSES: PASSES, SiteRole.STAYS: STAYS,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SiteInstrument:
    """An instrument at a place. ``probe``: the probe that fires; the first of several, or the one that a step is for.
    ``others``: further probes that the step is for."""

    probe: DProbe
    site: ProbeSite
    kind: Kind
    others: tuple[DProbe, ...] = ()


@dataclass(frozen=True)
class Instruments:
    """``rows``: the instruments, for one place in the order in which they run. ``refused``: probes with an argument
    that cannot be fetched."""

    rows: tuple[SiteInstrument, ...]
    refused: dict[DProbe, str]


def instruments(enabled: Enabled, groups: list[tuple[int, ...]], needs: Mapping[int, Facts]) -> Instruments:
    """The instruments for all enabled probes. ``groups``: lists of clauses; ``needs``: what each clause uses."""
    firing: list[SiteInstrument] = []
    over: list[SiteInstrument] = []  # for calls that go on in other functions: the innermost call is over first
    chosen: dict[tuple[object, ...], list[tuple[DProbe, ProbeSite, ClauseEntry]]] = {}
    refused = {}
    used = {clauses: union(needs[clause] for clause in clauses) for clauses in groups}
    numbers = {clauses: number for number, clauses in enumerate(groups)}
    alike: dict[tuple[int, int], ClauseEntry] = {}
    same: dict[ClauseEntry, ClauseEntry] = {}
    taken: Counter[tuple[object, int]] = Counter()
    calls: dict[tuple[int, bool, SiteRole], list[tuple[DProbe, ProbeSite]]] = defaultdict(list)
    for probe, made in enabled.in_process:
        clauses = tuple(enabled.clauses[probe.number])
        for site in made.sites:
            if site.role in _STEPS:
                calls[site.loaded.bias + site.point.address, site.point.after, site.role].append((probe, site))
                continue
            missing = site.lost or _missing(site, used[clauses])
            if missing:
                refused[probe] = missing
                continue
            group = numbers[clauses]
            kind = group, id(site.given)  # sites share ``given``: comparing whole trees would take longer than all else
            made_there = alike.get(kind)
            if made_there is None:
                fresh = entry(group, used[clauses], site.given)
                made_there = alike[kind] = same.setdefault(fresh, fresh)
            if site.given.select is not None:
                # Numbers say the same as ``loaded`` and ``point``, and take a tenth of the time to hash.
                place = site.loaded.bias + site.point.address, site.point.after, id(made_there)
                taken[place, site.value] += 1  # two probes with the same value cannot be in one choice
                chosen.setdefault((place, taken[place, site.value]), []).append((probe, site, made_there))
            else:
                leaves = site.role is SiteRole.LEAVES
                firing.append(SiteInstrument(probe, site, Leaves(made_there) if leaves else made_there))
                if site.role is SiteRole.RETURNS:
                    over.append(SiteInstrument(probe, site, RETURNED))
    notes, forgets = _steps(chosen)
    firing += [_choice(rows) for rows in chosen.values()]
    begins = [_step(rows) for (_, _, role), rows in calls.items() if role in COME_FIRST]
    over += [_step(rows) for (_, _, role), rows in calls.items() if role not in COME_FIRST]
    return Instruments((*notes, *begins, *firing, *over, *forgets), refused)


def _step(rows: list[tuple[DProbe, ProbeSite]]) -> SiteInstrument:
    """One step for all probes that need it at a place."""
    probe, site = rows[0]
    others = dict.fromkeys(each for each, _ in rows if each != probe)
    return SiteInstrument(probe, site, _STEPS[site.role], tuple(others))


def _missing(site: ProbeSite, used: Facts) -> str:
    """The reason why the site cannot give an argument that clauses use; "" if it gives all."""
    arguments = site.given.arguments
    wanted = (n for n in sorted(used.arguments) if n < len(arguments))
    return next((f"arg{n} is where it cannot be fetched from" for n in wanted if arguments[n] is None), "")


def _choice(rows: list[tuple[DProbe, ProbeSite, ClauseEntry]]) -> SiteInstrument:
    """One instrument for probes at the same place with the same clauses, of which one fires, chosen by a value."""
    probe, site, made = rows[0]
    return SiteInstrument(
        probe, site, replace(made, cases=tuple((site.value, probe.number) for probe, site, _ in rows))
    )


def _steps(
    chosen: dict[tuple[object, ...], list[tuple[DProbe, ProbeSite, ClauseEntry]]],
) -> tuple[list[SiteInstrument], ...]:
    """The steps for calls that are told apart at their entry, but fire at their return: one notes the value at the
    entry, one forgets it after the return."""
    leaving = {site.loaded.bias + site.point.address: (probe, site) for rows in chosen.values()
               for probe, site, _ in rows if site.point.after}  # fmt: skip
    notes = [
        SiteInstrument(probe, replace(site, point=replace(site.point, after=False)), NOTE)
        for probe, site in leaving.values()
    ]
    return notes, [SiteInstrument(probe, site, FORGET) for probe, site in leaving.values()]
