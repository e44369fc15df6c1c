# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of -l, a line for each probe, and what -v adds about the stability of probes and programs."""

from __future__ import annotations

from collections.abc import Sequence

from gilk.lang.d.probes import DProbe
from gilk.lang.d.reliance import ReadableLocal
from gilk.lang.d.stability import Attributes

LISTING_HEADER = f"{'ID':>5} {'PROVIDER':>10} {'MODULE':>17} {'FUNCTION':>33} NAME\n"


def listing(probe: DProbe) -> str:
    return f"{probe.number:5} {probe.provider:>10} {probe.module:>17} {probe.function:>33} {probe.name}\n"


def probe_details(
    probe: Attributes, arguments: Attributes, types: Sequence[str], locals_: Sequence[ReadableLocal] = (),
    early: Sequence[str] = (),
) -> str:  # fmt: skip
    """The text below a probe's line, with -l -v. ``types`` are those of args[]. DTrace has no variables of functions,
    and does not tell that a probe fires ``early``: without any, nothing is said of them."""
    names = "".join(f"\t\targs[{number}]: {name}\n" for number, name in enumerate(types)) or "\t\tNone\n"
    text = _attributes("Probe Description Attributes", probe) + _attributes("Argument Attributes", arguments)
    text = f"{text}\n\tArgument Types\n{names}"
    if locals_:
        text += "\n\tVariables of the Function\n" + "".join(f"\t\t{_local(each)}\n" for each in locals_)
    if early:
        text += "\n\tFires Before the Call is Over\n" + "".join(f"\t\t{why}\n" for why in early)
    return f"{text}\n"


def _local(one: ReadableLocal) -> str:
    some = f" (at {one.places} of {one.of} places)" if one.places < one.of else ""
    return f"{one.shown}: {one.type}{some}"


def program_details(kind: str, name: str, probes: Attributes, statements: Attributes) -> str:
    """The text before tracing, with -v. ``kind`` is ``script`` or ``description``. With -e, `enabled` of each clause
    follows; without it, an empty line.
    """
    text = f"\nStability attributes for {kind} {name}:\n"
    text += _attributes("Minimum Probe Description Attributes", probes)
    return text + _attributes("Minimum Statement Attributes", statements)


def enabled(description: str) -> str:
    """The text before the details of each probe description of a program, with -v and -e."""
    return f"\n{description}\n"


def _attributes(title: str, what: Attributes) -> str:
    names, data, dependency = what.words
    text = f"\n\t{title}\n\t\tIdentifier Names: {names}\n\t\tData Semantics:   {data}\n"
    return f"{text}\t\tDependency Class: {dependency}\n"
