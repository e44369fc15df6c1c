# SPDX-License-Identifier: LGPL-2.1-or-later
"""The bounce tactic: a two-byte jump to a five-byte jump nearby, in padding or amid code that runs in a patch.

Room for the five-byte jump is looked for in the cheapest places first: padding, bytes that other splices have
displaced, bytes that a splice made only for that would displace. Fewer than five bytes suffice if the jump can be a
pun; and if need be, a call is moved to a patch, which costs each of its returns a misprediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gilk.arch import decode as x86
from gilk.arch.asm import JMP8, JMP8_SIZE, JUMP_SIZE
from gilk.splice.kernel_unit import Unit, UnitKind, Windows, filled
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Site, Splice
from gilk.splice.policy import Policy
from gilk.splice.segments import Segment
from gilk.splice.tactics.jump import JUMP
from gilk.splice.tactics.tactic import Choice, Choices, Effort, Lead, Tactic

if TYPE_CHECKING:
    from gilk.splice.tactics.tactic import Flags, Rows, Stretches

_REACH_BACK: Final = 128 - JMP8_SIZE
_REACH_AHEAD: Final = 127 + JMP8_SIZE
_LONGEST = 15  # the greatest length of an instruction in bytes


class BounceTactic(Tactic):
    name, number = "bounce", 2
    bounces = True

    def allowed(self, policy: Policy, effort: Effort) -> bool:
        """Whether the effort may be tried. If a policy limits what splices lend, the bytes that a moved call frees
        cannot be lent.
        """
        if effort is Effort.SHARE:
            return policy.any_address
        return effort is not Effort.MOVE_CALLS or not policy.max_borrow

    def propose(self, choices: Choices, segment: Segment, first: int, last: int, effort: Effort) -> Choice | None:
        cheap = effort is Effort.CHEAP and segment.calls
        for index in range(first, -1, -1):
            start = segment.heads[index]
            if start + JMP8_SIZE > segment.room:
                continue
            choice = choices.window(segment, self, index, last, JMP8_SIZE)
            if choice is None or (cheap and choice.moves_call and choice.last > last):
                continue
            choices.registry.claim(start, start + JMP8_SIZE)
            found = _find(choices, start, effort)
            choices.registry.release(start, start + JMP8_SIZE)
            if found:
                choice.bounce, choice.landing, choice.host = found
                choice.pun = choice.bounce if choice.landing < JUMP_SIZE else 0
                return choice
        return None

    def lead(self, choice: Choice, patch: int, context: PatchContext) -> Lead:
        distance = choice.bounce - (choice.start + JMP8_SIZE)
        window = context.site(choice.start, JMP8 + distance.to_bytes(1, "little", signed=True))
        bounce = None if choice.pun else context.jump(choice.bounce, patch)
        return Lead(window, bounce, ways=(choice.bounce,))

    def units(self, splice: Splice, windows: Windows) -> Iterator[Unit]:
        """The pad, and the short jump that leads to it."""
        pad, window = splice.bounce, splice.window
        assert pad is not None
        code, several = windows.code(splice)
        yield _pad(pad, splice, windows)
        new = filled(window.new, code)
        yield Unit(UnitKind.SHORT, window.address, code, new, splice.patch, splice.copy, pad.address, several)

    def among(self, stretches: Stretches, which: Rows, effort: Effort) -> Flags:
        """Whether there is any room for the jump of each bounce within reach. Several bounces may count on the same
        room.
        """
        start = stretches.start(which, JMP8_SIZE)
        lands = stretches.lands(which, start, _REACH_BACK, _REACH_AHEAD)
        found: Flags = lands & stretches.fits(which, start, JMP8_SIZE)
        if effort is not Effort.CHEAP:
            return found
        high = stretches.high[which]
        dear = stretches.returns[which] & (stretches.covering(start, JMP8_SIZE) >= high)
        found &= ~dear | (stretches.wanted[which] == high)
        return found


BOUNCE: Final = BounceTactic()


def _pad(pad: Site, splice: Splice, windows: Windows) -> Unit:
    """The unit of the pad: in the window of its host, or else in padding, where it takes the whole of a nop."""
    host = windows.hosts.get(splice.host)
    if host:
        at = pad.address - host.address
        return Unit(UnitKind.PAD, pad.address, host.new[at : at + len(pad.new)], pad.new, splice.patch)
    code = windows.read(pad.address, len(pad.new) + _LONGEST)
    end = next(i.next_ip for i in x86.decode(code, pad.address) if i.next_ip >= pad.end)
    code = code[: end - pad.address]
    return Unit(UnitKind.PAD, pad.address, code, filled(pad.new, code), splice.patch)


# Finding a place for the five-byte jump.


class _Landing(NamedTuple):
    """The place of a bounce's five-byte jump: where it begins, and how many bytes it has of its own; ``host`` as in
    Choice.
    """

    start: int
    size: int
    host: Choice | None


def _find(choices: Choices, start: int, effort: Effort) -> _Landing | None:
    """Claim a place that a two-byte jump at ``start`` can lead to; None if there is none."""
    layout = choices.layout
    low, high = start - _REACH_BACK, start + _REACH_AHEAD
    for address in layout.pads(low, high, effort is Effort.TAKE):
        if _usable(choices, address, address + JUMP_SIZE):
            return _claimed(choices, address, JUMP_SIZE, None)
    if layout.strict or effort is Effort.TAKE:
        return None
    near = layout.segments(low, high + JUMP_SIZE)
    for choice in _displacing(choices, near, effort):
        if effort is Effort.SHARE:
            found = _shared_within(choices, choice, low, high)
        else:
            found = _whole_within(choices, choice, low, high, effort is Effort.MOVE_CALLS)
        if found:
            if choice.segment.start not in choices.made:
                choices.take(choice)
            return found
    return None


def _usable(choices: Choices, start: int, end: int) -> bool:
    return choices.writable(start, end) and not choices.layout.entered_between(start, end)


def _claimed(choices: Choices, start: int, size: int, host: Choice | None) -> _Landing:
    choices.registry.claim(start, start + size)
    return _Landing(start, size, host)


def _displacing(choices: Choices, near: list[Segment], effort: Effort) -> Iterator[Choice]:
    """The splices that there are among ``near``; then jumps for segments in which nothing is wanted, only to free the
    bytes behind them.
    """
    for segment in near:
        choice = choices.made.get(segment.start)
        if choice and choice.window:
            yield choice
    least = JUMP_SIZE + 1 if effort is Effort.SHARE else 2 * JUMP_SIZE
    for segment in near:
        if segment.wanted or segment.start in choices.made or segment.end - segment.start < least:
            continue
        victim = JUMP.at(choices, segment, 0, 0)
        if victim and (effort is Effort.MOVE_CALLS or not victim.moves_call):
            yield victim


def _whole_within(choices: Choices, choice: Choice, low: int, high: int, calls: bool) -> _Landing | None:
    """A place of five bytes among those that ``choice`` displaces, or can displace besides; None if there is none.
    ``calls``: a call may be moved for that.
    """
    layout, segment, movable = choices.layout, choice.segment, choice.movable(calls)
    most = layout.policy.max_borrow
    if movable <= choice.first or (most and not choice.tactic.lends):
        return None
    if not most:
        movable = max(movable, choice.last + 1)  # a call that has to be moved in any case
    begin = max(choice.start + choice.window, low)
    end = min(segment.heads[movable], high + JUMP_SIZE)
    for address in range(begin, end - JUMP_SIZE + 1):
        if not _usable(choices, address, address + JUMP_SIZE):
            continue
        covering = segment.covering(address + JUMP_SIZE)
        if most and segment.heads[covering + 1] > choice.start + most:
            return None
        last = max(choice.last, covering)
        if layout.reserved and layout.is_reserved(choice.start, segment.heads[last + 1]):
            return None
        choice.last = last
        return _claimed(choices, address, JUMP_SIZE, choice)
    return None


def _shared_within(choices: Choices, choice: Choice, low: int, high: int) -> _Landing | None:
    """A place in the last bytes that ``choice`` displaces, fewer than five of them but as many as possible; None if
    there is none.
    """
    end = choice.segment.heads[choice.last + 1]
    for address in range(max(choice.start + choice.window, low, end - JUMP_SIZE + 1), min(end, high + 1)):
        if not choices.failed[address] and _usable(choices, address, end):
            return _claimed(choices, address, end - address, choice)
    return None
