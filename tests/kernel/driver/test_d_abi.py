# SPDX-License-Identifier: LGPL-2.1-or-later
"""d_messages.py agrees with ilk_d_abi.h and the checker: sizes, offsets and numbers as a compiler has them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from gilk.lang.data import Aggregating, Aggregation, Function
from gilk.lang.to_kernel import code
from gilk.lang.to_kernel.values import EVENT_PLACES
from gilk.targets.call_ends import SiteRole
from gilk.targets.kernel import d_messages as abi
from gilk.targets.kernel.driver_abi import HEAD
from gilk.toolchain.compilers import NATIVE
from gilk.trace.d.layout import LayoutMembers

_HEAD = """\
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
#include "abi/ilk_d_abi.h"
#include "ilk/d/check.h"
"""


def compiled(tmp_path: Path, expressions: dict[str, str]) -> dict[str, int]:
    lines = "".join(f'printf("{name} %lld\\n", (long long)({text}));\n' for name, text in expressions.items())
    (tmp_path / "abi.c").write_text(f"{_HEAD}int main(void) {{\n{lines}}}\n")
    flags = ["-Wall", "-Wno-unused-function", "-Werror", "-I", NATIVE]
    subprocess.run(["cc", *flags, "-o", tmp_path / "abi", tmp_path / "abi.c"], check=True)
    rows = subprocess.run([tmp_path / "abi"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, rows)}


def test_structures_have_the_compilers_sizes(tmp_path: Path) -> None:
    expected = {
        "ilk_d_program": HEAD.size + abi.PROGRAM_BODY.size + ctypes.sizeof(LayoutMembers),
        "ilk_d_aggregation": abi.AGGREGATION.size,
        "ilk_d_attach": HEAD.size + abi.ATTACH_BODY.size,
        "ilk_d_choice": abi.CHOICE.size,
        "ilk_d_clock": HEAD.size + abi.CLOCK_BODY.size,
        "ilk_d_point": HEAD.size + abi.POINT_BODY.size,
        "ilk_d_uprobe": HEAD.size + abi.UPROBE_BODY.size,
        "ilk_d_perf": HEAD.size + abi.PERF_BODY.size,
        "ilk_d_fire": HEAD.size + abi.FIRE_BODY.size,
        "ilk_d_lines": HEAD.size + abi.LINES_BODY.size,
        "ilk_d_line": abi.LINE_BODY.size,
        "ilk_d_word": abi.WORD.size,
        "ilk_d_mapped": HEAD.size + abi.MAPPED_BODY.size,
        "ilk_d_mapping": abi.MAPPING.size,
        "ilk_d_original": abi.ORIGINAL.size,
        "ilk_d_status": HEAD.size + abi.STATUS_BODY.size,
        "ilk_d_find": HEAD.size + 16,
        "ilk_d_settle": HEAD.size + 8,
        "ilk_d_event": code.HEAD,
    }
    assert compiled(tmp_path, {name: f"sizeof(struct {name})" for name in expected}) == expected


def test_enumerations_have_the_compilers_numbers(tmp_path: Path) -> None:
    names = (
        *("PROGRAM", "SITES", "ATTACH", "CLOCK", "FIRE", "READ", "LINES", "PUT", "STATUS", "REAP", "FIND", "FORCE"),
        *("ORIGINALS", "POINT", "MAPPED", "SETTLE", "UNWATCHED", "LINE", "EVERY_CPU", "ALWAYS", "DEEP", "POINT_NAME"),
        *("UPROBE", "EDGE", "BIOS", "INSTRUCTION", "PERF", "NO_USER", "NO_KERNEL", "FIELDS", "TRY"),
    )
    expected = {f"ILK_D_{name}": int(getattr(abi, name)) for name in names}
    expected["ILK_D_SPECULATIONS_MAX"] = abi.SPECULATIONS
    expected |= {"ILK_D_FRAME_MAX": code.LARGEST_FRAME, "ILK_D_HEAD": code.HEAD}
    expected |= {f"ILK_D_{verdict.name}": int(verdict) for verdict in abi.CodeVerdict}
    kinds = ("ENTRY", "RETURN", "CALL_BEGINS", "CALL_ENDS")
    expected |= {f"ILK_D_{name}": int(abi.SiteKind[name]) for name in kinds}
    expected |= {f"ILK_D_{role.name}": int(role) for role in SiteRole}
    expected |= {f"ILK_D_{function.name}": number for number, function in enumerate(Function)}
    assert compiled(tmp_path, {name: name for name in expected}) == expected


def test_members_of_an_event_have_the_compilers_offsets(tmp_path: Path) -> None:
    named = {"pid": "pid", "tid": "tid", "cpu": "cpu", "id": "probe", "errno": "error", "ipl": "level"}
    places = {name: f"offsetof(struct ilk_d_event, {member})" for name, member in named.items()}
    assert compiled(tmp_path, places) == {name: place for name, (place, _) in EVENT_PLACES.items()}


def test_edges_of_distributions_follow_one_another() -> None:
    """Each distribution with edges of its own knows where these begin."""
    what = (Aggregating(Function.LLQUANTIZE, 0, 1, 1, 10, 10), Aggregating(Function.COUNT))
    made = [Aggregation(n, str(n), what[n % 2], (), 0) for n in range(4)]
    rows = [abi.AGGREGATION.unpack(row) for row in abi.pack_rows(made)]
    edges = len(what[0].edges)
    assert [(row[2], row[3]) for row in rows] == [(0, edges), (edges, 0), (edges, edges), (2 * edges, 0)]
