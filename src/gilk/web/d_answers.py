# SPDX-License-Identifier: LGPL-2.1-or-later
"""The answers to questions about D programs that are being written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from gilk.api.d_writing import DWriting, Problem
from gilk.render.survey import REASONS

Json = dict[str, Any]
_MOST_REFUSED: Final = 200  # the most refused probes that are listed


class DAnswers:
    """``writing`` returns the programs of a process or kernel; it is given the part of a question that says which."""

    def __init__(self, writing: Callable[..., DWriting]) -> None:
        self._writing = writing

    def answers(self) -> Mapping[str, Callable[..., Json]]:
        return {each.__name__: each for each in (self.ready, self.check, self.words, self.preview)}

    def ready(self) -> Json:
        return {}

    def check(self, text: str, **whose: Any) -> Json:
        """The problems of a program, and the number of probes that each description matches."""
        found = self._writing(**whose).check(text)
        return {
            "problems": [_problem(each) for each in found.problems],
            "descriptions": [
                {"text": one.text, "start": one.span.start, "end": one.span.end, "line": one.line, "probes": one.probes}
                for one in found.descriptions
            ],
            "probes": found.probes,
        }

    def words(self, text: str, at: int, **whose: Any) -> Json:
        """The words that may stand at the position ``at``, a number of characters."""
        return asdict(self._writing(**whose).words(text, at))

    def preview(self, text: str, **whose: Any) -> Json:
        """The probes that a program would enable, those of them that are refused, and the reasons."""
        found = self._writing(**whose).preview(text)
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


def _problem(one: Problem) -> Json:
    place = {"start": one.span.start, "end": one.span.end} if one.span is not None else {"start": None, "end": None}
    told = {"slug": one.slug, "tag": one.tag, "message": one.message, "hint": one.hint}
    return {**told, "line": one.line, "column": one.column, **place}
