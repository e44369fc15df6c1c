# SPDX-License-Identifier: LGPL-2.1-or-later
"""The worker for D programs that are being written: it checks them, completes words and makes previews, and changes
nothing.

    python -m gilk.web.d_worker READING WRITING

A text can be made so that a check takes for ever, so the server kills the worker if it does not answer in time
(d_routes.py).
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final

from gilk.api.d_writing import DWriting, Problem
from gilk.render.survey import REASONS
from gilk.web.frames import ServerChannel
from gilk.web.grants import check_born
from gilk.web.worker import serve

Json = dict[str, Any]
_MEMORY: Final = 4 << 30  # in bytes; a text that takes more is given up
_MOST_REFUSED: Final = 200  # the most refused probes that are listed


@lru_cache(maxsize=4)
def _writing(pid: int, _born: int) -> DWriting:
    return DWriting(pid)


def _of(pid: int, born: int) -> DWriting:
    check_born(pid, born)
    return _writing(pid, born)


def check(pid: int, born: int, text: str) -> Json:
    """The problems of a program, and the number of probes that each description matches."""
    found = _of(pid, born).check(text)
    return {
        "problems": [_problem(each) for each in found.problems],
        "descriptions": [
            {"text": one.text, "start": one.span.start, "end": one.span.end, "line": one.line, "probes": one.probes}
            for one in found.descriptions
        ],
        "probes": found.probes,
    }


def _problem(one: Problem) -> Json:
    place = {"start": one.span.start, "end": one.span.end} if one.span is not None else {"start": None, "end": None}
    told = {"slug": one.slug, "tag": one.tag, "message": one.message, "hint": one.hint}
    return {**told, "line": one.line, "column": one.column, **place}


def words(pid: int, born: int, text: str, at: int) -> Json:
    """The words that may stand at the position ``at``, a number of characters."""
    return asdict(_of(pid, born).words(text, at))


def preview(pid: int, born: int, text: str) -> Json:
    """The probes that a program would enable, those of them that are refused, and the reasons."""
    found = _of(pid, born).preview(text)
    known = {str(reason): words for reason, words in REASONS.items()}
    used = {name for each in found.refused for name, _ in each.reasons}
    return {
        "probes": found.probes,
        "own": found.own,
        "places": found.places,
        "tactics": dict(found.tactics),
        "refused": [
            {"probe": str(each.probe), "places": each.places, "reasons": dict(each.reasons)}
            for each in found.refused[:_MOST_REFUSED]
        ],
        "refused_probes": len(found.refused),
        "reasons": {name: known[name] for name in used if name in known},
    }


def ready() -> Json:
    return {}


#: All questions that this worker answers.
ANSWERS: Final[Mapping[str, Callable[..., Json]]] = {
    "ready": ready, "check": check, "words": words, "preview": preview,
}  # fmt: skip


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve(ServerChannel.given(), ANSWERS)
