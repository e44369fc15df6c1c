# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``rawtp``: the tracepoints of the kernel and of its modules. The tracepoints' groups are the probes'
modules."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel.event_format import listed
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_PREFIX = "__tracepoint_"  # prefix of a tracepoint's symbol


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes that the description means; none if it has no provider, because a name alone may mean anything."""
    if not description.provider or not fnmatch.fnmatchcase("rawtp", description.provider) or description.number:
        return
    known = tracepoints(target)
    name = description.name
    wanted = [name] if name in known else fnmatch.filter(sorted(known), name or "*")
    if not wanted or not fnmatch.fnmatchcase("", description.function or "*"):
        return
    groups = {event: group for group, event in listed(target.link)}
    for each in wanted:
        group = groups.get(each, "")
        if fnmatch.fnmatchcase(group, description.module or "*"):
            yield KernelProbe(("rawtp", group, "", each), None, point=each)


def tracepoints(target: HasKernel) -> frozenset[str]:
    """The names of all tracepoints."""
    names = target.kernel.snapshot.symbols.names
    return frozenset(name[len(_PREFIX) :] for name in names if name.startswith(_PREFIX))
