# SPDX-License-Identifier: LGPL-2.1-or-later
"""Providers whose probes are conditions on underlying probes: tables with a line for each probe.

A line has the probe's name, the underlying probe, a condition and the arguments, separated by ``|``; condition and
arguments are D, which is compiled like a program's. The underlying probe is ``t:NAME``, a tracepoint; ``b:NAME``, a
tracepoint, once for each bio that ends there, which is its arg0; ``e:NAME`` or ``r:NAME``, the entry or return of a
function; or ``d:NAME``, a return that is no tail call, after which the call is over. A glob means the first function
that it matches. Several lines may have one name.

A condition may assign ``self->`` variables, which no program sees: so one line passes on what another needs. A line
whose condition ends with ``0`` only does that.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence

from gilk.image.model import FunctionSpan
from gilk.lang.d.probes import Description, is_glob
from gilk.providers.kernel.probe import HasKernel, KernelProbe, ProviderRow
from gilk.providers.kernel.rawtp import tracepoints

_MODULE = "vmlinux"
_EDGES = {"e": "entry", "r": "return", "d": "done"}


def rows(text: str) -> tuple[ProviderRow, ...]:
    """The rows of a table, given as text."""
    return tuple(_row(line) for line in text.strip().splitlines())


def _row(line: str) -> ProviderRow:
    name, at, condition, arguments = (part.strip() for part in line.split("|", 3))
    return ProviderRow(name, at, condition, tuple(part.strip() for part in arguments.split(";") if part.strip()))


def probes(
    provider: str, table: Sequence[ProviderRow], target: HasKernel, description: Description
) -> Iterator[KernelProbe]:  # fmt: skip
    """The probes of the table that the description means, as far as the kernel has the underlying ones."""
    fields = ((provider, description.provider), (_MODULE, description.module), ("", description.function))
    if description.number or not all(fnmatch.fnmatchcase(each, glob or "*") for each, glob in fields):
        return
    for number, row in enumerate(table):
        if fnmatch.fnmatchcase(row.name, description.name or "*"):
            made = _made((provider, _MODULE, "", row.name), row, target)
            if made is not None:
                yield KernelProbe(*made, number=number, bios=row.at.startswith("b:"))


def _made(
    key: tuple[str, str, str, str], row: ProviderRow, target: HasKernel
) -> tuple[tuple[str, str, str, str], FunctionSpan | None, str, None, str, ProviderRow] | None:
    """The fields of a probe, up to its row; None where the kernel lacks the underlying probe."""
    kind, _, name = row.at.partition(":")
    if kind in ("t", "b"):
        found = name in tracepoints(target)
        there = ProviderRow(row.name, f"rawtp:::{name}", row.condition, row.arguments)
        return (key, None, "entry", None, name, there) if found else None
    span = _function(target, name)
    if span is None:
        return None
    side = "entry" if kind == "e" else "return"
    there = ProviderRow(row.name, f"fbt:{_MODULE}:{span.name}:{side}", row.condition, row.arguments)
    return key, span, _EDGES[kind], None, "", there


def _function(target: HasKernel, name: str) -> FunctionSpan | None:
    spans = target.kernel.image.spans
    if is_glob(name):
        return next((span for span in spans if fnmatch.fnmatchcase(span.name, name)), None)
    return next((span for span in spans if name in (span.name, *span.aliases)), None)
