# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that finds the instances that an event may move, by an index or by looking at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gilk.lang.aspect.code.keys import indexed, key_of, looked_up
from gilk.lang.aspect.code.meeting import MetElement, NumberedAspect

#: Three pieces of C: before the loop over instances; the number of the instance in the loop; and a check of that
#: number.
Found: TypeAlias = tuple[str, str, str]
_CHOSEN = "gilk_all ? gilk_at : gilk_found[gilk_at]"
_BOUNDED = "if (gilk_number >= gilk_limits(gilk_part)->limit) continue;\n"


def found_by(looks: Sequence[str] | None) -> Found:
    """C for a loop over the instances that ``looks`` find; each is a call that adds to the instances found so far. If
    ``looks`` is empty, no instance waits for the event. None: the loop goes through all instances.
    """
    if not looks:
        return ("gilk_end_at = 0;\n" if looks is not None else ""), "gilk_at", ""
    counted = "".join(f"gilk_found_now = {look};\n" for look in looks)
    before = f"""\
unsigned gilk_found[GILK_CANDIDATES], gilk_found_now = 0, gilk_all;
if (gilk_end_at) {{
{counted}}}
gilk_all = gilk_found_now > GILK_CANDIDATES;
gilk_end_at = gilk_all ? gilk_end_at : gilk_found_now;
"""
    return before, _CHOSEN, _BOUNDED


def looks(aspect: NumberedAspect, elements: Sequence[MetElement]) -> list[str] | None:
    """Calls that find the instances that the elements may move; None if all instances have to be looked at."""
    if any(each.alias for one in elements for each in one.alternatives):
        return ["gilk_regions_near(gilk_part, gilk_came->address, gilk_came->size, gilk_found)"]
    keys = looked_up(aspect, [one for one in elements if one.number])
    if keys is None:
        return None
    return [_by_any(several) for several in keys]


def _by_any(keys: Sequence[str]) -> str:
    """A call that looks for the first key, and for the next one if too many instances have the first."""
    first, *others = (f"gilk_keyed(gilk_part, {key}, gilk_found, gilk_found_now)" for key in keys)
    tried = "".join(f" if (gilk_now > GILK_CANDIDATES) gilk_now = {other};" for other in others)
    return f"({{ unsigned gilk_now = {first};{tried} gilk_now; }})" if others else first


def looks_for_equal(aspect: NumberedAspect) -> list[str] | None:
    """A call that finds the instances that a new one may replace; None if all instances have to be looked at."""
    names = [name for name in aspect.checked.unique or () if name in indexed(aspect)][:1]
    keys = [key_of(aspect, name, f"gilk_bound->{name}") for name in names]
    return [f"gilk_keyed(gilk_part, {key}, gilk_found, gilk_found_now)" for key in keys] or None
