# SPDX-License-Identifier: LGPL-2.1-or-later
"""driver_abi.py agrees with ilk_abi.h: sizes, offsets and numbers as a compiler has them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gilk.targets.kernel import driver_abi as abi
from gilk.toolchain.compilers import NATIVE

HEADER = NATIVE / "abi" / "ilk_abi.h"
HEAD = abi.HEAD.size


def compiled(tmp_path: Path, expressions: dict[str, str]) -> dict[str, int]:
    lines = "".join(f'printf("{name} %lld\\n", (long long)({text}));\n' for name, text in expressions.items())
    source = f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{\n{lines}}}\n'
    (tmp_path / "abi.c").write_text(source)
    subprocess.run(["cc", "-Wall", "-Werror", "-o", tmp_path / "abi", tmp_path / "abi.c"], check=True)
    rows = subprocess.run([tmp_path / "abi"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, rows)}


def test_structures_have_the_compilers_sizes(tmp_path: Path) -> None:
    expected = {
        "ilk_head": HEAD,
        "ilk_hello": HEAD + abi.HELLO_BODY.size,
        "ilk_symbol": abi.SYMBOL.size,
        "ilk_block": abi.BLOCK.size,
        "ilk_unit": abi.UNIT.size,
        "ilk_result": abi.RESULT.size,
        "ilk_status": HEAD + abi.STATUS_BODY.size,
        "ilk_records": HEAD + abi.RECORDS_BODY.size,
        "ilk_filter": HEAD + abi.FILTER_BODY.size,
        "ilk_chunk": abi.CHUNK.size,
        "ilk_arena": HEAD + 16,
        "ilk_fill": HEAD + 16,
        "ilk_counters": HEAD + 8,
        "ilk_read": HEAD + 16,
        "ilk_apply": HEAD + 8,
        "ilk_undo": HEAD + 8,
        "ilk_symbols": HEAD + 8,
        "ilk_share": HEAD + abi.SHARE_BODY.size,
    }
    assert compiled(tmp_path, {name: f"sizeof(struct {name})" for name in expected}) == expected


def test_members_of_a_unit_have_the_compilers_offsets(tmp_path: Path) -> None:
    unit = abi.DriverUnit(
        0x01020304, abi.DriverUnitKind.PAD, 0x1111, 0x2222, b"\x33" * 9, b"\x44" * 9, 0x5555, 0x66, True
    )
    raw = abi.pack_units([unit])
    expected = {"address": 0x1111, "patch": 0x2222, "copy": 0x5555, "id": 0x01020304, "kind": 6, "length": 9}
    expected |= {"flags": 1, "pad": 0x66, "status": 0, "detail": 0}
    offsets = compiled(tmp_path, {name: f"offsetof(struct ilk_unit, {name})" for name in (*expected, "old", "new")})
    sizes = compiled(tmp_path, {name: f"sizeof(((struct ilk_unit *)0)->{name})" for name in expected})
    for name, value in expected.items():
        assert int.from_bytes(raw[offsets[name] : offsets[name] + sizes[name]], "little") == value, name
    assert raw[offsets["old"] :][:10] == b"\x33" * 9 + b"\0"
    assert raw[offsets["new"] :][:10] == b"\x44" * 9 + b"\0"


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (abi.DriverUnitKind, [kind.name for kind in abi.DriverUnitKind]),
        (abi.Verdict, [verdict.name for verdict in abi.Verdict]),
    ],
)
def test_enumerations_have_the_compilers_numbers(
    tmp_path: Path, kind: type[abi.DriverUnitKind], names: list[str]
) -> None:
    assert compiled(tmp_path, {name: f"ILK_{name}" for name in names if name not in ("STATUS",)}) == {
        each.name: each.value for each in kind
    }


def test_no_verdict_is_missing(tmp_path: Path) -> None:
    assert compiled(tmp_path, {"count": "ILK_STATUSES"})["count"] == len(abi.Verdict)


def test_requests_and_limits(tmp_path: Path) -> None:
    names = ("HELLO", "SYMBOLS", "ARENA", "FILL", "COUNTERS", "READ", "RECORDS", "APPLY", "UNDO", "STATUS", "FILTER")
    names += ("SHARE", "HOLD", "FLIGHT", "FILTER_ON", "FILTER_ONLY", "FILTER_CLEAR", "TGIDS")
    names += ("PROTOCOL", "ALL_CPUS", "CLASSES", "READ_MIN", "WINDOW")
    assert compiled(tmp_path, {name: f"ILK_{name}" for name in names}) == {name: getattr(abi, name) for name in names}


def test_ioctl_numbers_are_those_of_the_systems_macro(tmp_path: Path) -> None:
    source = (
        '#include <stdio.h>\n#include <sys/ioctl.h>\nint main(void) { printf("%u", (unsigned)_IOWR(0xe1, 1, long)); }'
    )
    (tmp_path / "n.c").write_text(source)
    subprocess.run(["cc", "-o", tmp_path / "n", tmp_path / "n.c"], check=True)
    assert int(subprocess.run([tmp_path / "n"], capture_output=True, check=True).stdout) == abi.HELLO


def test_every_verdict_is_explained() -> None:
    text = HEADER.read_text()
    for verdict in abi.Verdict:
        assert re.search(rf"#define ILK_{verdict.name} {verdict.value}\b", text)


def test_malformed_chunks_are_refused() -> None:
    good = abi.CHUNK.pack(1, 0, 32, 0, 7) + bytes(32)
    (chunk,) = abi.unpack_chunks(good)
    assert (chunk.cpu, chunk.kind, chunk.lost, len(chunk.records)) == (1, 0, 7, 32)
    for bad in (good[:-1], good[:10], abi.CHUNK.pack(0, 4, 0, 0, 0), abi.CHUNK.pack(0, 1, 16, 0, 0) + bytes(16)):
        with pytest.raises(ValueError):
            list(abi.unpack_chunks(bad))
