# SPDX-License-Identifier: LGPL-2.1-or-later
"""Users' C instruments: forms, errors, and code that is made for its address."""

from __future__ import annotations

from pathlib import Path

import pytest
from iced_x86 import Decoder, Mnemonic

from gilk.errors import CompileError, GilkError, UsageError
from gilk.toolchain.instrument import _by_linker, compile_instrument, link_instrument
from gilk.toolchain.runtime import runtime

CODE, DATA = 0x7F0000010000, 0x7F0000000000
SOURCE = """\
#include <gilk.h>
static unsigned long calls = 7;
int puts(const char *text);
void plain(unsigned int iid) { ilk_log_integer_sample(gilk_time(), iid); }
void registers(const struct gilk_regs *regs) { calls += regs->rdi; }
void both(const struct gilk_regs *regs, unsigned int iid) { ilk_log_pair_sample(regs->rdi, calls, iid); }
void outside(unsigned int iid) { (void)iid; puts("x"); }
int wrong(int a, int b) { return a + b; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "instrument.c"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(("name", "takes"), [("plain", False), ("registers", True), ("both", True), ("outside", False)])
def test_every_form_of_an_instrument_is_recognised(source: Path, name: str, takes: bool) -> None:
    compiled = compile_instrument(source, name)
    linked = link_instrument(compiled, CODE, DATA, {"gilk_control": CODE + 0x8000, "puts": 0x7FFF12345678})
    assert linked.takes_registers is takes
    assert CODE <= linked.entry < CODE + len(linked.code)
    assert compiled.undefined == (("puts",) if name == "outside" else ())


@pytest.mark.parametrize("name", ["plain", "both"])
def test_code_placed_without_a_linker_equals_the_linkers(tmp_path: Path, name: str) -> None:
    """The two agree except in the order of their parts. The file has no variables; unaligned code is left to the
    linker."""
    source = tmp_path / "instrument.c"
    constant = SOURCE.replace("static unsigned long calls = 7", "enum { calls = 7 }")
    source.write_text(constant.replace("calls +=", "(void)"))
    compiled, symbols = compile_instrument(source, name), {"gilk_control": CODE + 0x8000}
    own, linkers = link_instrument(compiled, CODE, DATA, symbols), _by_linker(compiled, CODE, DATA, symbols)
    assert (own.data, own.takes_registers, own.clobbers) == (b"", linkers.takes_registers, linkers.clobbers)
    for at in ("entry", "plain"):
        assert _flow(own.code, getattr(own, at)) == _flow(linkers.code, getattr(linkers, at))


def _flow(code: bytes, address: int) -> list[str]:
    """The instructions executed from there on, without their addresses: jumps are followed, and calls shown by their
    targets."""
    shown: list[str] = []
    while True:
        one = next(iter(Decoder(64, code[address - CODE :], ip=address)))
        if one.mnemonic == Mnemonic.JMP:
            address = one.near_branch_target
            continue
        shown.append(f"{one.mnemonic} {one.ip_rel_memory_address}" if one.is_ip_rel_memory_operand else str(one))
        if one.mnemonic == Mnemonic.RET or len(shown) > 60:
            return shown
        address = one.next_ip


def test_variables_of_an_instrument_keep_their_values(source: Path) -> None:
    linked = link_instrument(compile_instrument(source, "registers"), CODE, DATA, {"gilk_control": CODE})
    assert linked.data[:8] == (7).to_bytes(8, "little")


_ALIGNED = """\
#include <gilk.h>
static const unsigned long table[8] __attribute__((aligned(256))) = {11, 12, 13, 14, 15, 16, 17, 18};
static unsigned long sums[4] __attribute__((aligned(512))) = {21, 22, 23, 24};
void looks_up(unsigned int iid) { sums[iid & 3] += table[iid & 7]; ilk_log_integer_sample(sums[iid & 3], iid); }
"""


@pytest.mark.parametrize("off", [0, 16, 48, 240])
def test_code_and_data_are_at_their_linked_addresses_with_any_alignment(tmp_path: Path, off: int) -> None:
    """The first instruction, a table and a variable are found at the addresses that the code uses."""
    source = tmp_path / "aligned.c"
    source.write_text(_ALIGNED)
    code, data = CODE + off, DATA + 64 + off
    linked = link_instrument(compile_instrument(source, "looks_up"), code, data, {"gilk_control": CODE + 0x8000})
    padding = len(linked.code) - len(linked.code.lstrip(b"\0"))
    reached = {
        instruction.ip_rel_memory_address
        for instruction in Decoder(64, linked.code.lstrip(b"\0"), ip=code + padding)
        if instruction.is_ip_rel_memory_operand
    }
    tables, variables = ((11).to_bytes(8, "little"), linked.code, code), ((21).to_bytes(8, "little"), linked.data, data)
    for first, content, start in (tables, variables):
        at = content.index(first + bytes([first[0] + 1]))
        assert start + at in reached, "the code looks elsewhere"
    assert linked.code[linked.plain - code] == 0xE9, "a jump to the function"


def test_no_vector_register_is_touched(source: Path) -> None:
    linked = link_instrument(compile_instrument(source, "plain"), CODE, DATA, {"gilk_control": CODE})
    text = [str(i) for i in Decoder(64, linked.code, ip=CODE) if i.mnemonic != Mnemonic.INVALID]
    assert text and not any("xmm" in line or "ymm" in line for line in text)


def test_a_function_that_is_no_instrument_is_refused(source: Path) -> None:
    with pytest.raises(CompileError, match="an instrument is void wrong"):
        compile_instrument(source, "wrong")


def test_a_missing_instrument_function_is_an_error(source: Path) -> None:
    with pytest.raises(UsageError) as caught:
        compile_instrument(source, "missing")
    assert caught.value.slug == "no-such-instrument"


def test_the_compilers_message_names_the_users_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.c"
    path.write_text("#include <gilk.h>\n\nvoid bad(unsigned int iid) { return iid +; }\n")
    with pytest.raises(CompileError) as caught:
        compile_instrument(path, "bad")
    assert f"{path}:3:" in caught.value.message


def test_a_missing_instrument_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GilkError) as caught:
        compile_instrument(tmp_path / "none.c", "f")
    assert caught.value.slug == "no-such-file"


def test_the_runtime_is_position_independent_and_without_data_of_its_own() -> None:
    made = runtime()
    assert set(made.symbols) >= {"gilk_claim_thunk", "gilk_params", "gilk_signal_enter"}
    assert all(0 <= offset < len(made.code) for offset in made.symbols.values())
