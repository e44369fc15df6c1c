# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that enters an instance into the index: by its keys, and by the memory that it watches
(native/include/gilk_region.h).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gilk.lang.aspect.checked import CheckedAlias
from gilk.lang.aspect.cnames import renamed
from gilk.lang.aspect.code.keys import indexed, key_of
from gilk.lang.aspect.code.meeting import NumberedAspect, first_binders
from gilk.lang.aspect.code.sides import is_own
from gilk.lang.aspect.code.types import kept_symbols


def watched(aspect: NumberedAspect) -> tuple[CheckedAlias, ...]:
    """The memory whose accesses elements of the aspect match, each once."""
    points = (one.point for element in aspect.elements for one in element.alternatives)
    found = {(one.address, _length_text(one)): one for one in points if isinstance(one, CheckedAlias)}
    return tuple(found.values())


def noted_by(aspect: NumberedAspect, element: int) -> tuple[CheckedAlias, ...]:
    """The watched memory whose place is known from a match of ``element`` on, because that binds the last
    of its names.
    """
    binders = first_binders(aspect)

    def last(one: CheckedAlias) -> int:
        return max(binders[name][0] for name in _names(one) if name in binders)

    return tuple(one for one in watched(aspect) if last(one) == element)


def _names(alias: CheckedAlias) -> tuple[str, ...]:
    return (alias.address, *(alias.length.names if alias.length is not None else ()))


def _length_text(alias: CheckedAlias) -> str:
    return alias.length.text if alias.length is not None else ""


def length_of(alias: CheckedAlias, names: Mapping[str, str]) -> str:
    """The length of the memory in bytes, as C that uses ``names``."""
    if alias.length is None:
        return f"(long)sizeof(*{names[alias.address]})"
    return f"(long)({renamed(alias.length.text, names)})"


def _keys_of(aspect: NumberedAspect, element: int) -> tuple[str, ...]:
    """The keys that the element binds."""
    binders = first_binders(aspect)
    return tuple(name for name in indexed(aspect) if binders[name][0] == element)


def has_index(aspect: NumberedAspect) -> bool:
    """Whether instances of the aspect can be found by an index."""
    return bool(watched(aspect) or indexed(aspect))


def regions(aspects: Sequence[NumberedAspect], kernel: bool = False) -> Iterator[str]:
    """A function for each element, in processes or in the ``kernel``, that binds a key or the last name of watched
    memory. A length that may change while an instance is open does not compile.
    """
    found = [one for one in aspects if has_index(one)]
    if found:
        yield "#include <gilk_region.h>"
    for aspect in found:
        ones = {name: f"((__typeof__({of}))1)" for name, of in kept_symbols(aspect).items()}
        for each in watched(aspect) if not kernel else ():
            why = f"the length of the memory that {each.address} leads to is not of names and constants alone"
            if each.length is not None:
                yield f'_Static_assert({length_of(each, ones)} * 0 == 0, "{why}");'
        for number, element in enumerate(aspect.checked.elements):
            if is_own(element, kernel) and note(aspect, number):
                yield _noting(aspect, number)


def _noting(aspect: NumberedAspect, number: int) -> str:
    names = {name: f"gilk_record->kept.{name}" for name in kept_symbols(aspect)}
    keys = "".join(
        f"gilk_note_key(gilk_part, gilk_one, {key_of(aspect, name, names[name])});\n"
        for name in _keys_of(aspect, number)
    )
    notes = "".join(
        f"gilk_note_region(gilk_part, gilk_one, (gilk_u64){names[each.address]}, {length_of(each, names)});\n"
        for each in noted_by(aspect, number)
    )
    return f"""\
__attribute__((unused)) static void gilk_note_{aspect.number}_{number}(const struct gilk_aspect_part *gilk_part,
	const struct gilk_instance *gilk_one)
{{
const struct gilk_record_{aspect.number} *gilk_record = (const void *)gilk_one->record;
{keys}{notes}}}
"""


def note(aspect: NumberedAspect, number: int) -> str:
    """A call of the element's function, for an instance that is taken; "" if there is none."""
    notes = noted_by(aspect, number) or _keys_of(aspect, number)
    return f"gilk_note_{aspect.number}_{number}(gilk_part, gilk_instance_);\n" if notes else ""
