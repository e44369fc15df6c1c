# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``sdt``: the events of the kernel and of its modules, as tracefs lists them. The groups of events are
the probes' modules, and the fields of an event's record are its arguments."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel.event_format import EventFormat, listed
from gilk.providers.kernel.probe import HasKernel, KernelProbe, ProviderRow

#: Groups that other providers are about, or that other tools make.
_LEFT_OUT = frozenset(("syscalls", "kprobes", "uprobes", "synthetic", "eprobes", "ftrace"))


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes that the description means; none if it has no provider, because a name alone may mean anything."""
    if not description.provider or not fnmatch.fnmatchcase("sdt", description.provider) or description.number:
        return
    if not fnmatch.fnmatchcase("", description.function or "*"):
        return
    for group, name in _events(target):
        in_module = fnmatch.fnmatchcase(group, description.module or "*")
        if in_module and fnmatch.fnmatchcase(name, description.name or "*"):
            yield KernelProbe(("sdt", group, "", name), None, event=f"{group}/{name}")


def _events(target: HasKernel) -> list[tuple[str, str]]:
    """The group and the name of each event that this provider is about."""
    return sorted({(group, name) for group, name in listed(target.link) if group not in _LEFT_OUT})


def row(probe: KernelProbe, known: EventFormat) -> ProviderRow:
    """The row that makes the probe's arguments of the address of the event's record."""
    _, group, _, name = probe.key
    return ProviderRow(name, f"sdt:{group}::{name}", "", tuple(field.value for field in known.fields))
