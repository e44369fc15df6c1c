# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stability of programs and probes as text (-v)."""

from __future__ import annotations

from gilk.lang.d.reliance import ProbeStability, ProgramStability
from gilk.render.d.listing import enabled, probe_details, program_details


def tell_probe(found: ProbeStability) -> str:
    """The lines below that of a probe, with -l."""
    return probe_details(found.description, found.arguments, found.types, found.locals, found.early)


def tell_program(kind: str, name: str, found: ProgramStability, alone: bool) -> str:
    """The text about a program. ``kind`` and ``name`` are as in messages. ``alone``: with -e; all its descriptions
    follow.
    """
    told = program_details(kind, name, found.descriptions, found.statements)
    if not alone:
        return f"{told}\n"
    return told + "".join(enabled(str(description)) + tell_probe(of) for description, of in found.each)
