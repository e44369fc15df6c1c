# SPDX-License-Identifier: LGPL-2.1-or-later
"""Lines of the tables of a kernel's providers: the code that they become, and those that are left out."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from gilk.engines.dtrace.kernel_given import givens, keeps
from gilk.lang import ir
from gilk.lang.d.meaning.world import Nothing
from gilk.lang.facts import facts
from gilk.lang.walk import walk
from gilk.providers.kernel import fsinfo, io, ip, lockstat, proc, sched, sysinfo, table, tcp, udp, vminfo

PLAIN = table.rows("""
    one | t:a | arg1 == 3 | arg2; arg0 + 1
    two | e:b |           |
""")


def test_conditions_and_arguments_follow_the_tables_line() -> None:
    one, two = (givens(PLAIN, Nothing())[row] for row in PLAIN)
    assert one.condition is not None and facts(one.condition).arguments == {1}
    assert [facts(each).arguments for each in one.arguments if each is not None] == [{2}, {0}]
    assert (two.condition, two.arguments) == (None, ())


def test_a_line_about_types_that_the_kernel_lacks_is_left_out() -> None:
    """The other lines stay."""
    lacking = table.rows("three | t:c | ((struct none *)arg0)->x | arg0")
    assert set(givens((*PLAIN, *lacking), Nothing())) == set(PLAIN)
    assert givens((), Nothing()) == {}


def test_variables_of_table_lines_differ_from_those_of_programs() -> None:
    """All lines that are compiled together share a variable, whose number no variable of a program has."""
    kept = table.rows("""
        four | t:d | (self->from[arg0] = timestamp, 0) |
        four | t:e | self->from[arg0] != 0 | timestamp - self->from[arg0]
    """)
    found = givens((*PLAIN, *kept), Nothing())
    assert [keeps(found[row]) for row in (*PLAIN, *kept)] == [False, False, True, True]
    parts = [part for row in kept for part in (found[row].condition, *found[row].arguments) if part is not None]
    variables = {node.variable for part in parts for node in walk(part) if isinstance(node, ir.Keyed)}
    assert len(variables) == 1 and min(variables) >= 1 << 30


def test_protocols_have_the_numbers_of_the_kernels_headers() -> None:
    library = Path(str(files("gilk.lang.d"))) / "library" / "kernel" / "net.d"
    found = dict(re.findall(r"^inline int (IPPROTO_\w+) = (\d+);", library.read_text(), re.MULTILINE))
    headers = "".join(Path(f"/usr/include/linux/{name}.h").read_text() for name in ("in", "in6"))
    known = re.findall(r"^(?:#define)?\s+(IPPROTO_\w+)[\s=]+(\d+)", headers, re.MULTILINE)
    assert found == dict(known) and found["IPPROTO_ICMPV6"] == "58"


def test_no_probe_is_both_in_a_table_and_refused() -> None:
    for provider in (fsinfo, io, ip, lockstat, proc, sched, sysinfo, tcp, udp, vminfo):
        assert not {row.name for row in provider._ROWS} & provider.NOT_SEEN.keys()
