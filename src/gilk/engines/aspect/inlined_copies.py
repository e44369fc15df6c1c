# SPDX-License-Identifier: LGPL-2.1-or-later
"""Copies of functions: where the compiler has inlined one, or made another of it, calls do not come by its entry.
Advice before runs at the beginning of a copy where debug information tells that and places the arguments; advice after
runs where calls of the copy are left, if all ways out are known. No other advice runs there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gilk.analysis.model import Function
from gilk.engines.aspect.shadows import Shadow
from gilk.errors import UsageError
from gilk.image.value_place import ValuePlace
from gilk.lang.aspect.automaton import Moment
from gilk.lang.aspect.code.copies import asked_arguments, asks_result
from gilk.lang.aspect.code.meeting import MetFunction
from gilk.session.advising import Advice, AdvisedCopy
from gilk.session.inlined import Instance, called_elsewhere, has_debug_information, instances
from gilk.session.places import Place
from gilk.spec.image import is_glob
from gilk.splice.plan import Refusal
from gilk.targets.tails import jumps_away
from gilk.values import dataclass

_NAMED = 5  # refused copies in a message
_RAX = 1  # in the results of struct gilk_advice, native/runtime/advice.h
_HIDDEN = "("  # the name of a result's address, which no declaration has, begins with it


@dataclass(frozen=True, slots=True)
class ShadowCopies:
    """The copies of a function that can have advice, each with the places of the arguments in the process, by their
    numbers. ``without``: the message about those that cannot, "" if there are none."""

    shadow: Shadow
    found: tuple[tuple[Instance, tuple[ValuePlace | None, ...]], ...] = ()
    without: str = ""

    def advised(self, advice: Advice) -> Iterator[AdvisedCopy]:
        view, partial = self.shadow.view, self.shadow.met.partial
        for one, places in self.found:
            place = Place(view.process, view.loaded, one.function, one.point)
            yield AdvisedCopy(place, advice, places, one.left, one.depth, one.frames, partial)

    @property
    def words(self) -> tuple[str, ...]:
        """The functions that contain the copies, or are copies, in words, each once."""
        named = (f"{'inlined copy in' if one.inlined else 'copy'} {one.function.name}" for one, _ in self.found)
        return tuple(dict.fromkeys(named))

    def check(self) -> None:
        """Raises UsageError `inlined` if a copy can have no advice, and the aspects are not `partial`."""
        if self.without and not self.shadow.met.partial:
            tracked = self.shadow.met.tracked
            hint = "`walk` finds control flows through copies" if tracked else "`partial` does without these"
            raise UsageError("inlined", self.without, hint)


def copies_of(shadow: Shadow) -> str | None:
    """The places of copies of a function, in words; "" if it has none, None if nothing tells. Functions that the file
    names by a glob are not looked up, since there may be thousands."""
    view = shadow.view
    if is_glob(shadow.met.point.name) or not has_debug_information(view.loaded):
        return None
    return called_elsewhere(view.process, view.loaded, view.function.name, view.function.start)


def shadow_copies(shadow: Shadow, advice: Advice) -> ShadowCopies:
    """The copies of a function, sorted by whether they can have advice. ``advice``: that on calls of the function
    itself, which tells how its result is returned."""
    words = copies_of(shadow)
    if not words:
        return ShadowCopies(shadow)
    message = f"{shadow.view.name} is {words}, and has no advice there"
    if not _is_simple(shadow.met):
        return ShadowCopies(shadow, (), message)
    in_rax = asks_result(shadow.met) and advice.compiled().called.results == _RAX
    every = [(one, *_looked_at(shadow, one, in_rax)) for one in _instances(shadow)]
    refused = [f"{one.point.where}: {why}" for one, _, why in every if why]
    more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
    without = f"{message}: {', '.join(refused[:_NAMED])}{more}" if refused else ""
    return ShadowCopies(shadow, tuple((one, places) for one, places, why in every if not why), without)


def left_out(found: Iterable[ShadowCopies]) -> list[str]:
    """Messages about copies that have no advice, since the aspects are `partial`."""
    return [one.without for one in found if one.without and one.shadow.met.partial]


def _instances(shadow: Shadow) -> Iterator[Instance]:
    view = shadow.view
    image = view.process.image(view.loaded.path)
    own = image.span_at(view.function.start)
    spans = [own] if own is not None else []
    waits = bool(shadow.met.at(Moment.AFTER))
    return instances(view.process, view.loaded, spans, view.function.name, waits, asked=True, moved=True)


def _is_simple(met: MetFunction) -> bool:
    """Whether all advice only observes the call, and nothing asks for the copy's frame, which it has not."""
    if met.tracked or any(one.walks for one in met.elements):
        return False
    return all(one.advice is None or one.advice.when != "inplace" for one in met.elements)


def _looked_at(shadow: Shadow, one: Instance, in_rax: bool) -> tuple[tuple[ValuePlace | None, ...], str]:
    """The places of the arguments in the process, and the reason why the copy can have no advice, or "". ``in_rax``:
    functions have their results there."""
    if one.refusal is not None:
        return (), str(one.refusal)
    waits = bool(shadow.met.at(Moment.AFTER))
    if not one.inlined and (one.function.loops or (waits and _jumps_away(shadow, one.function))):
        return (), "tail-call"
    if _is_strict(shadow.met) and not (one.inlined and one.depth == 1):
        return (), Refusal.INLINED_WITHIN
    if one.left and None in one.frames:
        return (), Refusal.INLINED_EXIT
    if asks_result(shadow.met) and not (in_rax and _returns(one)):
        return (), Refusal.RESULT_LOST
    given = [each for each in one.arguments if not each.name.startswith(_HIDDEN)]
    asked = asked_arguments(shadow.met)
    bias, places = shadow.view.loaded.bias, list[ValuePlace | None]()
    for number in range(max(asked, default=-1) + 1):
        each = given[number] if number < len(given) else None
        place = each.place if each is not None and number in asked else None
        if place is None and number in asked:
            name = each.name if each is not None and each.name else f"argument {number + 1}"
            why = each.why if each is not None and each.why else Refusal.ARGUMENT_LOST
            return (), f"{why} ({name})"
        places.append(place.moved(bias) if place is not None else None)
    return tuple(places), ""


def _is_strict(met: MetFunction) -> bool:
    """Whether a strict control flow ends at the calls: their callers have to be known."""
    return any(way.strict for one in met.elements for way in one.alternatives)


def _returns(one: Instance) -> bool:
    """Whether calls of the copy return a result as other functions do. gcc drops results that no caller uses; it names
    such functions ``f.isra.0``."""
    return not one.inlined and ".isra" not in one.function.name


def _jumps_away(shadow: Shadow, function: Function) -> bool:
    """Whether calls may be left by a jump to another function, which returns for them."""
    try:
        return bool(jumps_away(shadow.view.process, shadow.view.loaded, function))
    except UsageError:
        return True
