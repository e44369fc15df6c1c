# SPDX-License-Identifier: LGPL-2.1-or-later
"""-v: what is said of how far one may rely on programs and probes."""

from __future__ import annotations

from gilk.lang.d.probes import Probe
from gilk.render.d.listing import enabled, probe_details, program_details
from gilk.session.dtrace import verbose
from gilk.session.dtrace.compiled import Compiled, Text


def tell_probe(compiled: Compiled, probe: Probe) -> str:
    """With -l, below its line."""
    return _details(verbose.of_probe(compiled, probe))


def tell_program(compiled: Compiled, text: Text, alone: bool) -> str:
    """``alone``: with -e, all its descriptions follow."""
    found = verbose.of_program(compiled, text)
    told = program_details(text.kind, text.said, found.descriptions, found.statements)
    if not alone:
        return f"{told}\n"
    for description in verbose.descriptions_of(compiled, text):
        told += enabled(str(description)) + _details(verbose.of_description(compiled, description))
    return told


def _details(found: verbose.ProbeStability) -> str:
    return probe_details(found.description, found.arguments, found.types)
