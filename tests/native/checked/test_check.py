# SPDX-License-Identifier: LGPL-2.1-or-later
"""The driver's checker: its table agrees with a disassembler, its verdicts are right, and accepted mutants do no
harm under an emulator."""

from __future__ import annotations

import random

import iced_x86 as iced
import pytest

from gilk.lang.to_kernel.code import HEAD, FormCode, Label
from gilk.lang.to_kernel.forms import BY_NAME, EXIT, FORMS, CheckedForm, Operand, form_at
from gilk.lang.to_kernel.header import header
from gilk.lang.to_kernel.helpers import FIRST_DEED, HELPERS
from gilk.targets.kernel.d_messages import CodeVerdict
from gilk.toolchain.compilers import NATIVE
from tests.native.checked.corpus import codes
from tests.native.checked.emulated import CODE, Emulator, Escaped
from tests.native.checked.library import MOST, TIME, check

MUTANTS = 5_000
#: The registers that checked code may change; the callee-saved ones and the stack pointer are not among them.
FREE = {getattr(iced.Register, name) for name in ("RAX", "RCX", "RDX", "RSI", "RDI", "R8", "R9")}
#: Those that a call's numbers are in, in order.
GIVEN = [getattr(iced.Register, name) for name in ("RSI", "RDX", "RCX", "R8", "R9")]
DEEDS = {each.number for each in HELPERS.values() if each.number >= HELPERS[FIRST_DEED].number}
INTERESTING = (0, 1, 7, 8, 127, 128, 8184, 8192, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFB, 0xFFFFFFFF)


def test_the_drivers_table_has_the_forms_that_the_printer_uses() -> None:
    assert (NATIVE / "abi" / "ilk_d_forms.h").read_text() == header()


def filled(form: CheckedForm) -> bytes:
    """An instruction of that form, with the operand 0x40."""
    rest = form.size - len(form.code)
    return form.code + (b"\x40\0\0\0\0\0\0\0"[:rest] if rest else b"")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_is_the_instruction_that_a_disassembler_shows(form: CheckedForm) -> None:
    code = filled(form)
    found = list(iced.Decoder(64, code, ip=CODE))
    assert sum(one.len for one in found) == len(code)
    assert len(found) == (2 if form.operand is Operand.CALL else 1)
    info = iced.InstructionInfoFactory().info(found[0])
    for used in info.used_memory():
        assert form.operand in (Operand.FRAME, Operand.FRAME_IMMEDIATE)
        assert (used.base, used.index, used.displacement) == (iced.Register.RBX, iced.Register.NONE, 0x40)
        assert iced.MemorySizeExt.size(used.memory_size) == form.width
    written = {iced.RegisterExt.full_register(one.register) for one in info.used_registers() if is_written(one.access)}
    assert written <= FREE
    changed = {GIVEN[form.writes % 8 - 1]} if form.writes else set()
    assert written & set(GIVEN) == changed
    if form.writes and form.writes < 8:  # it becomes that number
        assert found[0].mnemonic == iced.Mnemonic.MOV and found[0].immediate(1) == 0x40
    assert found[-1].flow_control == flow(form)


def is_written(access: int) -> bool:
    return access not in (iced.OpAccess.NONE, iced.OpAccess.READ, iced.OpAccess.COND_READ)


def flow(form: CheckedForm) -> int:
    kinds = {
        Operand.JUMP: iced.FlowControl.UNCONDITIONAL_BRANCH, Operand.EXIT: iced.FlowControl.UNCONDITIONAL_BRANCH,
        Operand.BRANCH: iced.FlowControl.CONDITIONAL_BRANCH, Operand.CALL: iced.FlowControl.CALL,
    }  # fmt: skip
    return kinds.get(form.operand, iced.FlowControl.NEXT)


def plain(*names: str) -> bytes:
    return b"".join(filled(BY_NAME[name]) for name in names) + EXIT


def jump(displacement: int) -> bytes:
    return BY_NAME["jmp"].code + displacement.to_bytes(4, "little", signed=True)


FRAME_AT = BY_NAME["store 8"].code
BAD = {
    "a return": (b"\xc3" + EXIT, CodeVerdict.BAD_FORM),
    "a push": (b"\x53" + EXIT, CodeVerdict.BAD_FORM),
    "an indirect call": (b"\xff\xd0" + EXIT, CodeVerdict.BAD_FORM),
    "a division": (b"\x48\xf7\xf9" + EXIT, CodeVerdict.BAD_FORM),
    "memory at rax": (b"\x48\x8b\x80\0\0\0\0" + EXIT, CodeVerdict.BAD_FORM),
    "a write of rbx": (b"\x48\x89\xc3" + EXIT, CodeVerdict.BAD_FORM),
    "a cut instruction": (b"\x48\xb8\0\0", CodeVerdict.BAD_FORM),
    "beyond the frame": (FRAME_AT + (HEAD - 7).to_bytes(4, "little") + EXIT, CodeVerdict.BAD_FRAME),
    "before the frame": (FRAME_AT + b"\xf8\xff\xff\xff" + EXIT, CodeVerdict.BAD_FRAME),
    "a jump back": (plain("test rax")[:-5] + jump(-8) + EXIT, CodeVerdict.BAD_BRANCH),
    "a jump beyond the end": (jump(64) + EXIT, CodeVerdict.BAD_BRANCH),
    "a jump to the end": (jump(5) + EXIT, CodeVerdict.BAD_BRANCH),
    "a jump into an instruction": (jump(1) + plain("mov rax, wide"), CodeVerdict.BAD_TARGET),
    "no such helper": (BY_NAME["call"].code + len(HELPERS).to_bytes(4, "little") + EXIT, CodeVerdict.BAD_CALL),
    "a call into itself": (b"\xe8\0\0\0\0" + EXIT, CodeVerdict.BAD_FORM),
    "no exit": (filled(BY_NAME["test rax"]), CodeVerdict.BAD_END),
}


@pytest.mark.parametrize(("code", "verdict"), BAD.values(), ids=BAD)
def test_harmful_code_is_refused(code: bytes, verdict: CodeVerdict) -> None:
    assert check(code, HEAD)[0] is verdict


@pytest.mark.parametrize("name", ["raise", "copyout", "copyout_text", "chill"])
def test_destructive_helpers_are_only_for_destructive_programs(name: str) -> None:
    code = BY_NAME["call"].code + HELPERS[name].number.to_bytes(4, "little") + EXIT
    assert check(code, HEAD) == (CodeVerdict.BAD_DEED, 0)
    assert check(code, HEAD, deeds=True)[0] is CodeVerdict.SOUND


def test_a_group_must_begin_at_an_instruction() -> None:
    assert check(EXIT, HEAD, (5,)) == (CodeVerdict.BAD_ENTRY, 0)
    assert check(plain("mov rax, wide"), HEAD, (0, 3)) == (CodeVerdict.BAD_TARGET, 0)


def test_the_most_expensive_path_counts() -> None:
    """The path through the expensive helper counts, whichever of the two paths comes first. The size it is given is
    unknown."""
    dear = HELPERS["store_dynamic"]
    cost = dear.cost + dear.per_word * len(dear.sizes) * HEAD // 8
    for order in (("store_dynamic", "rand"), ("rand", "store_dynamic")):
        code = FormCode()
        other, behind = Label(), Label()
        code.branch("jz", other)
        code.call(order[0])
        code.branch("jmp", behind)
        code.place(other)
        code.call(order[1])
        code.place(behind)
        text = bytes(code) + EXIT
        assert check(text, HEAD, clausetime=cost)[0] is CodeVerdict.TOO_LONG
        assert check(text, HEAD, clausetime=cost + 10)[0] is CodeVerdict.SOUND


def cheapest(code: bytes, least: int = 0) -> int:
    """The smallest clausetime with which the code is sound."""
    most = 1 << 20
    while least < most:
        middle = (least + most) // 2
        if check(code, HEAD, clausetime=middle)[0] is CodeVerdict.SOUND:
            most = middle
        else:
            least = middle + 1
    return least


SIZE = BY_NAME["mov rdx, imm"].code + (16).to_bytes(4, "little")
CALL = BY_NAME["call"].code + HELPERS["stack"].number.to_bytes(4, "little")
FORGETS = {
    "a way in between": BY_NAME["jz"].code + len(SIZE).to_bytes(4, "little") + SIZE,
    "another number": SIZE + filled(BY_NAME["mov rdx, frame"]),
    "a computed number": SIZE + filled(BY_NAME["mov rdx, rax"]),
    "a call": SIZE + CALL,
    "nothing": b"",
    "more than the frame": BY_NAME["mov rdx, imm"].code + b"\xff\xff\xff\xff",
}


def test_a_known_size_determines_the_cost_of_a_call() -> None:
    stack, instructions = HELPERS["stack"], 4
    known = SIZE + filled(BY_NAME["mov rsi, rax"]) + CALL + EXIT
    assert cheapest(known) <= stack.cost + stack.per_word * 3 + instructions


@pytest.mark.parametrize("before", FORGETS.values(), ids=FORGETS)
def test_an_unknown_size_costs_as_much_as_the_whole_frame(before: bytes) -> None:
    """The cost of a helper is that of the largest argument on any way that leads there."""
    stack = HELPERS["stack"]
    assert cheapest(before + CALL + EXIT) >= stack.cost + stack.per_word * HEAD // 8


def test_printed_code_is_accepted_and_stays_in_its_frame() -> None:
    emulator = Emulator()
    for code in codes():
        assert check(code.code, code.frame, code.entries, MOST, deeds=True)[0] is CodeVerdict.SOUND
        for entry in code.entries:
            emulator.run(code.code, entry, code.frame, TIME, entry)


def test_the_emulator_detects_code_that_the_checker_refuses() -> None:
    """Otherwise the emulator could not show what the checker overlooks."""
    emulator = Emulator()
    outside = FRAME_AT + HEAD.to_bytes(4, "little")
    endless = jump(-5)
    returns = b"\x53\xc3"
    for code in (outside, endless, returns, b"\x48\x8b\x80\0\0\0\0", b"\x48\x89\xc3" + b"\x90" * 80):
        with pytest.raises(Escaped):
            emulator.run(code, 0, HEAD, 1000, 1, linked=True)


def test_no_accepted_mutant_leaves_its_frame() -> None:
    chance = random.Random(20)
    emulator = Emulator()
    accepted = 0
    done: set[int] = set()
    destructive = [
        code for code in codes() if check(code.code, code.frame, code.entries, MOST)[0] is CodeVerdict.BAD_DEED
    ]
    for number in range(MUTANTS):  # one in eight destructive, of which there are few
        source = chance.choice(codes() if number % 8 else destructive)
        code = mutant(chance, source.code)
        deeds = chance.random() < 0.5
        if check(code, source.frame, source.entries, deeds=deeds)[0] is CodeVerdict.SOUND:
            accepted += 1
            emulator.run(code, chance.choice(source.entries), source.frame, TIME, number)
            done |= emulator.called & DEEDS
            assert deeds or not emulator.called & DEEDS
    assert accepted > MUTANTS // 50 and done == DEEDS  # otherwise nothing is shown


def mutant(chance: random.Random, code: bytes) -> bytes:
    """The code changed in one to three places, mostly in ways that leave instructions whole."""
    changed = bytearray(code)
    for _ in range(chance.randint(1, 3)):
        chance.choice((_flip, _number, _exchange, _insert, _remove))(chance, changed)
    return bytes(changed)


def _places(code: bytearray) -> list[int]:
    """The places where instructions begin, as far as they can be decoded."""
    places, at = [], 0
    while (form := form_at(bytes(code), at)) is not None:
        places.append(at)
        at += form.size
    return places or [0]


def _flip(chance: random.Random, code: bytearray) -> None:
    code[chance.randrange(len(code))] ^= 1 << chance.randrange(8)


def _number(chance: random.Random, code: bytearray) -> None:
    """Change the operand of an instruction."""
    at = chance.choice(_places(code))
    form = form_at(bytes(code), at)
    if form is not None and form.size >= len(form.code) + 4:
        where = at + len(form.code)
        value = chance.choice((*INTERESTING, chance.getrandbits(32), chance.randrange(len(code))))
        code[where : where + 4] = value.to_bytes(4, "little")


def _exchange(chance: random.Random, code: bytearray) -> None:
    """Replace an instruction by one of another form."""
    at = chance.choice(_places(code))
    form = form_at(bytes(code), at)
    if form is not None:
        code[at : at + form.size] = filled(chance.choice(FORMS))


def _insert(chance: random.Random, code: bytearray) -> None:
    at = chance.choice(_places(code))
    code[at:at] = chance.choice((filled(chance.choice(FORMS)), bytes([chance.randrange(256)])))


def _remove(chance: random.Random, code: bytearray) -> None:
    at = chance.choice(_places(code))
    form = form_at(bytes(code), at)
    if form is not None and form.size < len(code):
        del code[at : at + form.size]
