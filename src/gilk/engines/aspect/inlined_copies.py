# SPDX-License-Identifier: LGPL-2.1-or-later
"""Copies of functions: where the compiler has inlined one, or made another of it, calls do not come by its entry.
Advice before runs at the beginning of a copy where debug information tells that and places the arguments; no other
advice runs there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gilk.engines.aspect.shadows import Shadow
from gilk.errors import UsageError
from gilk.image.value_place import ValuePlace
from gilk.lang.aspect.code.copies import asked_arguments
from gilk.lang.aspect.code.meeting import MetFunction
from gilk.session.advising import Advice, AdvisedCopy
from gilk.session.inlined import Instance, called_elsewhere, has_debug_information, instances
from gilk.session.places import Place
from gilk.spec.image import is_glob
from gilk.splice.plan import Refusal
from gilk.values import dataclass

_NAMED = 5  # refused copies in a message
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
            yield AdvisedCopy(Place(view.process, view.loaded, one.function, one.point), advice, places, partial)

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


def shadow_copies(shadow: Shadow) -> ShadowCopies:
    """The copies of a function, sorted by whether they can have advice."""
    words = copies_of(shadow)
    if not words:
        return ShadowCopies(shadow)
    message = f"{shadow.view.name} is {words}, and has no advice there"
    if not _is_simple(shadow.met):
        return ShadowCopies(shadow, (), message)
    every = [(one, *_looked_at(shadow, one)) for one in _instances(shadow)]
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
    return instances(view.process, view.loaded, spans, view.function.name, asked=True)


def _is_simple(met: MetFunction) -> bool:
    """Whether all that matches runs before the call, and looks at no other calls, since a copy has no frame."""
    ways = [way for one in met.elements for way in one.alternatives]
    return (
        met.observes_entries_only and not any(way.outer for way in ways) and not any(one.walks for one in met.elements)
    )


def _looked_at(shadow: Shadow, one: Instance) -> tuple[tuple[ValuePlace | None, ...], str]:
    """The places of the arguments in the process, and the reason why the copy can have no advice, or ""."""
    if one.refusal is not None:
        return (), str(one.refusal)
    if not one.inlined and one.function.loops:
        return (), "tail-call"
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
