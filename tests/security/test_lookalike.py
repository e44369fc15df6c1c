# SPDX-License-Identifier: LGPL-2.1-or-later
"""A user's library that looks like the genuine one leaves nothing in the cache that gilk would believe of the genuine
one.

The look-alike has the same build-id and symbols, and, by four bytes of padding, the same CRC-32 of its code, but other
code: its helper() does not read rdx. If gilk believed that of the genuine library, it would destroy rdx where api() is
entered.
"""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import gilk
from gilk.engines.scan.scanning import scan
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.image.unwind import unwind
from gilk.session import plan_cache
from gilk.session.plan_cache import TIMING
from gilk.targets.image import analyse
from gilk.targets.templates import Shape
from tests.behaviour.harness import wait_for
from tests.programs.build import build

SHAPE = Shape(4096, ((1 << 20, 1 << 20),) * 4)
#: Two functions of the same size: one reads rdx, the other sets it.
GENUINE, LOOKALIKE = "lea (%rdi,%rdx), %rax; ret", "xor %edx, %edx; xor %eax, %eax; ret"
SOURCE = """
	.text
	.globl	api, helper
	.type	api, @function
	.type	helper, @function
api:	.cfi_startproc
	.fill	8, 1, 0x90
	jmp	helper
	.cfi_endproc
	.size	api, . - api
	.p2align 4
helper:	.cfi_startproc
	{code}
	.cfi_endproc
	.fill	16 - (. - helper), 1, 0x90
	.size	helper, 16
	.globl	padding
padding: .fill	16, 1, 0
	.section .note.GNU-stack,"",@progbits
"""


class Pair(NamedTuple):
    genuine: Path
    lookalike: Path


def made(place: Path, code: str) -> Path:
    place.mkdir()
    (place / "lib.S").write_text(SOURCE.format(code=code))
    library = place / "libv.so"
    flags = ["-shared", "-nostdlib", "-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233"]
    subprocess.run(["gcc", *flags, "-o", library, place / "lib.S"], check=True)
    return library


def code_crc(image: Image, change: tuple[int, bytes] | None = None) -> int:
    """The checksum of all executable segments; ``change`` is an address, and bytes to put there."""
    value = 0
    for segment in image.segments:
        if segment.executable:
            data = bytearray(segment.data)
            if change is not None:
                at = change[0] - segment.address
                data[at : at + len(change[1])] = change[1]
            value = zlib.crc32(data, value)
    return value


def solved(wanted: int, base: int, columns: list[int]) -> int:
    """The bits x for which base ^ XOR of columns[i], over all i in x, equals wanted, by Gauss' elimination over
    GF(2)."""
    pivots: dict[int, tuple[int, int]] = {}  # highest bit -> (a sum of columns, the set of those)
    for number, column in enumerate(columns):
        mask = 1 << number
        while column:
            top = column.bit_length()
            if top not in pivots:
                pivots[top] = column, mask
                break
            column, mask = column ^ pivots[top][0], mask ^ pivots[top][1]
    rest, found = wanted ^ base, 0
    while rest:
        column, mask = pivots[rest.bit_length()]
        rest, found = rest ^ column, found ^ mask
    return found


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))
    both = Pair(made(tmp_path / "genuine", GENUINE), made(tmp_path / "lookalike", LOOKALIKE))
    image = load(both.lookalike)
    (padding,) = image.named("padding")
    columns = [code_crc(image, (padding.address, (1 << n).to_bytes(4, "little"))) for n in range(32)]
    base = code_crc(image)
    bits = solved(code_crc(load(both.genuine)), base, [each ^ base for each in columns])
    segment = next(s for s in image.segments if s.executable)
    with both.lookalike.open("r+b") as file:
        file.seek(padding.address - segment.address + segment.offset)
        file.write(bits.to_bytes(4, "little"))
    return both


def test_the_lookalike_has_the_same_build_id_and_symbols(pair: Pair) -> None:
    """Otherwise the other tests would show nothing."""
    genuine, lookalike = map(load, pair)
    assert genuine.build_id == lookalike.build_id
    assert genuine.spans == lookalike.spans
    assert code_crc(genuine) == code_crc(lookalike)
    assert genuine.content != lookalike.content


def timed(library: Path) -> tuple[int, int]:
    """The numbers of wrong results, and of all, of a program that was timed in between."""
    program = [build("asked"), library]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            with gilk.attach(process.pid) as target, target.session() as session:
                session.insert("libv.so:api:entry", gilk.time)
                assert wait_for(lambda: session.poll().num_rows > 1000)
            process.stdin.close()
            wrong, total = map(int, process.stdout.read().split())
        finally:
            process.kill()
    return wrong, total


def test_a_program_computes_correctly_after_its_lookalike_was_traced(pair: Pair) -> None:
    wrong, total = timed(pair.lookalike)
    assert wrong == total > 0, "its helper is another"
    wrong, total = timed(pair.genuine)
    assert (wrong, total > 0) == (0, True)


def test_cached_findings_of_a_lookalike_are_not_used(pair: Pair) -> None:
    """This covers summaries and targets of jumps, plans, unwind tables, and figures of scans."""
    genuine, lookalike = map(load, pair)
    other = analyse(lookalike)
    for span in lookalike.spans:
        other.liveness(other.function(span))
    plan_cache.make_timing(other, SHAPE)
    unwind(lookalike)
    scan(str(pair.lookalike))
    kept = plan_cache.load(TIMING, lookalike, SHAPE)
    assert kept is not None and scan(str(pair.lookalike)).cached, "nothing is kept at all"
    assert plan_cache.load(TIMING, genuine, SHAPE) is None
    assert analyse(genuine).known == {}
    assert not scan(str(pair.genuine)).cached


def test_unwind_tables_of_a_debug_file_with_the_same_build_id_are_not_used(tmp_path: Path, pair: Pair) -> None:
    """A file with the build-id of one library has the frames of another."""
    (tmp_path / "other").mkdir()
    source, strange = tmp_path / "other" / "lib.S", tmp_path / "other" / "libv.so"
    source.write_text(SOURCE.format(code=f".cfi_def_cfa_offset 4096; {GENUINE}"))
    identity = f"-Wl,--build-id=0x{load(pair.genuine).build_id}"
    subprocess.run(["gcc", "-shared", "-nostdlib", identity, "-o", strange, source], check=True)
    theirs, ours = unwind(load(strange)), unwind(load(pair.genuine))
    assert theirs.rules != ours.rules
    assert np.array_equal(unwind(load(pair.genuine)).ids, ours.ids)
