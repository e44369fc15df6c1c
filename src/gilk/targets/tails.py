# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions in which calls of one function may return: the function itself, and all that it or they jump to at the
end.

A jump to another function leads to that function's beginning; one through the global offset table leads to where the
loader has bound the slot. A jump that may lead anywhere is lost: a closure is refused where it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import Block, End, Function
from gilk.analysis.noreturn import named_noreturn
from gilk.arch.decode import BRANCH, JUMP, JUMP_INDIRECT, decode, decode_one
from gilk.errors import UsageError
from gilk.image.model import Image
from gilk.targets.base import Code, Loaded
from gilk.values import dataclass

MOST = 64  # how many functions a closure can have
_DIRECT = (End.TAIL, End.BRANCH)
_JUMPS = (JUMP, BRANCH)
_LONGEST_STUB = 16
_INSTEAD = "advice that does not wait for the function can be had: before, or in place with pass()"

Peek = Callable[[int, int], bytes]  # reads memory at an address, so many bytes


@dataclass(frozen=True, slots=True)
class Jump:
    """A jump at the end of ``block`` of ``part`` to the entry of a function. ``to``: the link-time address of that
    entry.

    ``slot``: if the jump goes through memory, the link-time address of the word with the run-time address, else 0.
    ``lost``: the reason why there is no telling where it leads, "" if that is known.
    """

    part: Function
    block: Block
    to: int
    slot: int = 0
    lost: str = ""

    @property
    def where(self) -> str:
        return f"{self.part.name}+{self.block.terminator - self.part.start:#x}"

    @property
    def leaves(self) -> bool:
        """Whether the function is left there for sure, even where it is not known where to."""
        return self.block.how in (End.TAIL, End.TAIL_INDIRECT)


@dataclass(frozen=True, slots=True)
class Member:
    """A function of a closure. ``jumps``: its jumps to members of the closure, itself included."""

    loaded: Loaded
    function: Function
    jumps: tuple[Jump, ...]


def closure(code: Code, loaded: Loaded, function: Function, peek: Peek | None = None) -> tuple[Member, ...]:
    """The functions in which a call of ``function`` may return, itself first. ``peek`` reads memory of the target;
    without it, a jump through a slot is one that may lead anywhere. Raises UsageError `tail-call`."""
    images = code.loaded()
    found: dict[tuple[int, int], Member] = {}
    todo = [(loaded, function)]
    for where, each in todo:
        key = where.bias, each.start
        if key in found:
            continue
        found[key] = member = Member(where, each, _known(jumps(code, where, each)))
        todo += [target(code, images, where, jump, peek) for jump in member.jumps]
        if len(found) > MOST:
            raise _refused(f"{function.name} may end in jumps that lead on to more than {MOST} functions")
    return tuple(found.values())


def jumps_away(process: Code, loaded: Loaded, function: Function) -> tuple[str, ...]:
    """The names of the functions that ``function`` may end in jumps to, in order of the jumps; calls of it are then
    over for whoever looks at the stack. Raises UsageError `tail-call` if a jump may lead anywhere."""
    image = process.image(loaded.path)
    found = (one for one in _known(jumps(process, loaded, function)) if one.slot or one.to != function.start)
    return tuple(dict.fromkeys(_name(image, one) or "a function without a name" for one in found))


def _known(found: Iterable[Jump]) -> tuple[Jump, ...]:
    """The jumps. Raises UsageError `tail-call` if one is lost."""
    known = tuple(found)
    for jump in known:
        if jump.lost:
            raise _refused(jump.lost)
    return known


def jumps(code: Code, loaded: Loaded, function: Function) -> Iterator[Jump]:
    """The jumps of all parts of a function to entries, and those that are lost, without those to functions that do not
    return."""
    analysis = code.analysis(loaded)
    extents = analysis.extents(function)
    for part in extents:
        for at in part.indirect[:1]:
            block = part.block_at(at)
            assert block is not None, at
            yield Jump(part, block, 0, lost=f"{part.name} has jumps that may lead anywhere, at +{at - part.start:#x}")
        for block in part.blocks:
            for jump in _jumps_of(analysis.image, extents, part, block):
                if jump.lost or jump.to == function.start or _comes_back(analysis, jump):
                    yield jump


def _comes_back(analysis: Analysis, jump: Jump) -> bool:
    if jump.to:
        return analysis.returns.at(jump.to)
    return not named_noreturn(analysis.image.got[jump.slot])


def _jumps_of(image: Image, extents: tuple[Function, ...], part: Function, block: Block) -> Iterator[Jump]:
    start = extents[0].start
    if block.how is End.TAIL_INDIRECT:
        yield _through_table(image, part, block)
    elif block.target and not any(each.owns(block.target) for each in extents) and not _is_no_jump(image, part, block):
        yield _elsewhere(image, part, block)
    if start in (*block.successors, block.target):
        lost = ""
        if block.how not in (*_DIRECT, End.JUMP):
            lost = f"{part.name} comes back to its beginning, from +{block.terminator - part.start:#x}"
        yield Jump(part, block, start, lost=lost)


def _is_no_jump(image: Image, part: Function, block: Block) -> bool:
    """Whether a block of a kernel ends in an instruction that may become another one, such as a call, but is no jump
    now."""
    if block.terminator == block.end or block.terminator not in image.detours:
        return False
    return decode_one(part.code[block.terminator - part.start :], block.terminator).flow_control not in _JUMPS


def _through_table(image: Image, part: Function, block: Block) -> Jump:
    """The jump of a block through a slot of the global offset table; it is lost if it is none."""
    at = block.terminator - part.start
    jump = decode(part.code[at : block.end - part.start], block.terminator)[0]
    if jump.is_ip_rel_memory_operand and jump.ip_rel_memory_address in image.got:
        return Jump(part, block, 0, jump.ip_rel_memory_address)
    return Jump(part, block, 0, lost=f"{part.name} ends in a jump to wherever a pointer leads, at +{at:#x}")


def _elsewhere(image: Image, part: Function, block: Block) -> Jump:
    at = f"at +{block.terminator - part.start:#x}"
    if block.how is End.FALL:
        return Jump(part, block, 0, lost=f"{part.name} runs on into what follows, {at}")
    if block.how not in _DIRECT:
        return Jump(part, block, 0, lost=f"{part.name} goes on in the middle of another function, {at}")
    if block.terminator in image.detours:
        return Jump(part, block, 0, lost=f"{part.name} ends in a jump that the kernel changes, {at}")
    if block.target in image.plt:
        return _through_stub(image, part, block)
    span = image.span_at(block.target)
    if span is None or span.start != block.target:
        return Jump(part, block, 0, lost=f"{part.name} jumps into the middle of another function, {at}")
    return Jump(part, block, block.target)


def _through_stub(image: Image, part: Function, block: Block) -> Jump:
    """The jump of a block to a stub of the PLT, which jumps through a slot."""
    stub = block.target
    found = [each for each in decode(image.read(stub, _LONGEST_STUB), stub) if each.flow_control == JUMP_INDIRECT]
    if not found or not found[0].is_ip_rel_memory_operand:
        return Jump(part, block, 0, lost=f"there is no telling where the stub at {stub:#x} of {image.name} leads")
    return Jump(part, block, stub, int(found[0].ip_rel_memory_address))


def target(
    code: Code, images: tuple[Loaded, ...], loaded: Loaded, jump: Jump, peek: Peek | None
) -> tuple[Loaded, Function]:  # fmt: skip
    """The function that a jump leads to. Raises UsageError `tail-call` if that is not known."""
    address = _led_to(loaded, jump, peek)
    for each in images:
        if each.start <= address < each.end:
            analysis = code.analysis(each)
            span = analysis.image.span_at(address - each.bias)
            if span is not None and span.start + each.bias == address:
                function = analysis.function(span)
                if not function.whole:
                    return each, function
    name = _name(code.image(loaded.path), jump) or "a place that is no function"
    if jump.slot:
        why = f"{jump.where} is a jump to {name}, which is not bound to a function of an image, or not yet"
        raise _refused(why, "a program that is started with LD_BIND_NOW=1 has all of them bound")
    raise _refused(f"{jump.where} is a jump to {name}, which is a part of another function")


def _name(image: Image, jump: Jump) -> str:
    if jump.slot:
        return image.got.get(jump.slot) or image.plt.get(jump.to, "")
    span = image.span_at(jump.to)
    return span.name if span else ""


def _led_to(loaded: Loaded, jump: Jump, peek: Peek | None) -> int:
    """The run-time address to which a jump leads; 0 if that is not known."""
    if not jump.slot:
        return loaded.bias + jump.to
    try:
        return 0 if peek is None else int.from_bytes(peek(loaded.bias + jump.slot, 8), "little")
    except OSError:  # the program has unmapped what the loader had bound
        return 0


def _refused(why: str, hint: str = _INSTEAD) -> UsageError:
    return UsageError("tail-call", why, hint)
