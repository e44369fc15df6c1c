# SPDX-License-Identifier: LGPL-2.1-or-later
"""The answers of a weaving to `gilk aspect list`, show, on, off and remove (control.py), as JSON values."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict
from typing import Any

from gilk.engines.aspect.weaving import Weaving
from gilk.errors import UsageError
from gilk.lang.aspect.woven import WovenReport

_KEPT = 100  # how many reports are kept
_BUSY = 16  # how many functions are named


class WeavingAnswers:
    """Answers requests about a weaving, and keeps its last reports for that. ``removed``: whether a client has asked
    for the weaving's end."""

    def __init__(self, weaving: Weaving, file: str) -> None:
        self._weaving, self._file, self._began = weaving, file, time.time()
        self._reports = deque[WovenReport](maxlen=_KEPT)
        self._told = 0
        self.removed = False

    def note(self, report: WovenReport) -> None:
        self._reports.append(report)
        self._told += 1

    def answer(self, words: dict[str, Any]) -> dict[str, Any]:
        """Answer a request. ``words["ask"]`` is list, show, turn or remove.

        The words of turn are ``on``, and ``aspect``, which may be missing for all aspects. Raises UsageError
        `no-such-aspect`, `bad-request`, TargetError.
        """
        match words.get("ask"):
            case "list":
                return self._listed()
            case "show":
                return self._listed() | self._shown()
            case "turn":
                return self._turned(words.get("aspect"), bool(words.get("on")))
            case "remove":
                return self._removed(bool(words.get("idle")))
        raise UsageError("bad-request", "this weaver knows list, show, turn and remove")

    def _removed(self, idle: bool) -> dict[str, Any]:
        """Note that the weaving is to end. If the client wants that only when the weaving is ``idle``, and calls are
        under way, nothing changes and the answer has their functions as ``busy``."""
        if idle:
            if busy := self._weaving.off_when_idle():
                return {"busy": busy[:_BUSY]}
        self.removed = True
        return {}

    def _listed(self) -> dict[str, Any]:
        weaving = self._weaving
        on = weaving.states()
        return {
            "file": self._file,
            "began": self._began,
            "pids": [one.process.pid for one in weaving.processes],
            "aspects": [asdict(one) | {"on": on.get(one.name, False)} for one in weaving.counts()],
            "told": self._told,
        }

    def _shown(self) -> dict[str, Any]:
        return {
            "processes": [asdict(one) for one in self._weaving.summaries()],
            "reports": [asdict(one) for one in self._reports],
        }

    def _turned(self, name: object, on: bool) -> dict[str, Any]:
        names = [one.name for one in self._weaving.counts()]
        if name is not None and name not in names:
            raise UsageError("no-such-aspect", f"there is no aspect {name!r}; there are {', '.join(names)}")
        for each in names if name is None else [str(name)]:
            self._weaving.turn(each, on)
        return {"aspects": self._weaving.states()}
