# SPDX-License-Identifier: LGPL-2.1-or-later
"""The worker for D programs that are being written for processes: it checks them, completes words and makes previews,
and changes nothing.

    python -m gilk.web.d_worker READING WRITING GRANTS

A text can be made so that a check takes for ever, so the server kills the worker if it does not answer in time
(d_routes.py).
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from gilk.api.d_writing import DWriting
from gilk.web.checked import Check, checked, free, of_process
from gilk.web.d_answers import DAnswers
from gilk.web.frames import ServerChannel
from gilk.web.grants import number_and_birth, taken
from gilk.web.serving import serve

_MEMORY: Final = 4 << 30  # in bytes; a text that takes more is given up


@lru_cache(maxsize=4)
def _writing(target: str) -> DWriting:
    """The programs of the process with that identity."""
    return DWriting(number_and_birth(target)[0])


CHECKS: Final[Mapping[str, Check]] = {"ready": free, "check": of_process, "words": of_process, "preview": of_process}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve(ServerChannel.given(), checked(taken(), DAnswers(_writing).answers(), CHECKS))
