# SPDX-License-Identifier: LGPL-2.1-or-later
"""The variables of functions that D programs can read at probes: -l -v lists them, and editors offer them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from gilk.engines.dtrace.local_variables import LocalPlace, Whereabouts
from gilk.lang.d.probes import Description
from gilk.lang.d.reliance import ReadableLocal
from gilk.lang.types import is_scalar, text
from gilk.providers import pid, usdt
from gilk.providers.probe import ProbeSite
from gilk.targets.base import Code, Target

_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def readable(code: Code, sites: Sequence[ProbeSite]) -> tuple[ReadableLocal, ...]:
    """The variables that can be read at some of the places, in the order of their scopes, from the outermost on."""
    found = Counter[tuple[str, str, str]]()
    for site in sites:
        found.update(_at(Whereabouts(code, site)))
    return tuple(ReadableLocal(*of, places, len(sites)) for of, places in found.items())


def readable_at(process: Target, descriptions: Sequence[Description], most: int) -> tuple[ReadableLocal, ...]:
    """The variables that can be read at the probes of the descriptions, of which the first ``most`` places are looked
    at."""
    found = (
        site
        for description in descriptions
        for provider in (pid, usdt)
        for probe in provider.probes(process, description)
        for site in probe.sites
    )
    return readable(process, list(islice(found, most)))


def _at(there: Whereabouts) -> Iterator[tuple[str, str, str]]:
    """The function, the name and the type of each variable that can be read there, and that D can name."""
    for function, name in there.named():
        if _WORD.fullmatch(name) and (not function or _WORD.fullmatch(function)):
            place = there.local(function, name)
            if place.type is not None and _is_readable(place):
                yield function, name, text(place.type)


def _is_readable(place: LocalPlace) -> bool:
    if place.placed is None or place.type is None:
        return False
    return place.placed.address is not None or is_scalar(place.type)
