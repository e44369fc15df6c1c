# SPDX-License-Identifier: LGPL-2.1-or-later
"""-l and -v."""

from __future__ import annotations

from gilk.lang.d.probes import DProbe
from gilk.lang.d.stability import Attributes
from gilk.render.d.listing import LISTING_HEADER, enabled, listing, probe_details, program_details

EVOLVING = Attributes(5, 5, 5)


def test_the_list_of_probes() -> None:
    text = LISTING_HEADER + listing(DProbe(1, "dtrace", "", "", "BEGIN"))
    text += listing(DProbe(4711, "syscall", "vmlinux", "read", "entry"))
    assert text == (
        "   ID   PROVIDER            MODULE                          FUNCTION NAME\n"
        "    1     dtrace                                                     BEGIN\n"
        " 4711    syscall           vmlinux                              read entry\n"
    )


ATTRIBUTES = """
\t{}
\t\tIdentifier Names: Evolving
\t\tData Semantics:   Evolving
\t\tDependency Class: Common
"""


def test_details_of_a_probe() -> None:
    text = ATTRIBUTES.format("Probe Description Attributes") + ATTRIBUTES.format("Argument Attributes")
    text += "\n\tArgument Types\n"
    assert probe_details(EVOLVING, EVOLVING, ["int", "char *"]) == text + "\t\targs[0]: int\n\t\targs[1]: char *\n\n"
    assert probe_details(EVOLVING, EVOLVING, []) == text + "\t\tNone\n\n"


def test_details_of_a_program() -> None:
    text = "\nStability attributes for script a.d:\n" + ATTRIBUTES.format("Minimum Probe Description Attributes")
    text += ATTRIBUTES.format("Minimum Statement Attributes")
    assert program_details("script", "a.d", EVOLVING, EVOLVING) == text
    assert enabled("dtrace:::BEGIN") == "\ndtrace:::BEGIN\n"
