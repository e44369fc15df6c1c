# SPDX-License-Identifier: LGPL-2.1-or-later
"""Refused probes: which functions are not followed because of them, or without their returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gilk.engines.follow.base import BaseFollower
from gilk.image.stripped import remark
from gilk.session.base import Probe
from gilk.session.request import Wanted
from gilk.trace.probes import RecordKind
from gilk.trace.traced import Unended, Unfollowed

ENTRIES = (RecordKind.ENTRY, RecordKind.HEAD)


def unfollowed(probes: Sequence[Probe]) -> list[Unfollowed]:
    """The functions whose entries were refused."""
    entries = [probe for probe in probes if probe.row.kind in ENTRIES]
    return [Unfollowed(p.row.function, p.row.image, str(p.refusal)) for p in entries if p.refusal is not None]


def unended(wanted: Sequence[Wanted], probes: Sequence[Probe]) -> list[Unended]:
    """The functions that are followed although a return was refused."""
    starts = [one.function.whole or one.function.start for one in wanted]
    pairs = list(zip(starts, probes, strict=True))
    entered = {start for start, probe in pairs if probe.row.kind in ENTRIES and probe.tactic is not None}
    found = [probe for start, probe in pairs if start in entered and probe.refusal is not None]
    return [Unended(probe.row.function, probe.row.image, str(probe.refusal)) for probe in found]


def stripped(followers: Iterable[BaseFollower]) -> list[str]:
    """A sentence about images whose functions have no names, if there are any."""
    return remark({loaded.name: names for follower in followers for loaded, names in follower.names})


def without_entry(wanted: Sequence[Wanted], probes: Sequence[Probe]) -> list[Probe]:
    """The probes at returns of functions whose entry was refused: their records would look like returns of calls made
    before the trace."""
    functions = [one.function.whole or one.function.start for one in wanted]
    pairs = list(zip(functions, probes, strict=True))
    refused = {start for start, probe in pairs if probe.row.kind in ENTRIES and probe.tactic is None}
    return [probe for start, probe in pairs if start in refused and probe.tactic is not None]
