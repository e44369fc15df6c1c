# SPDX-License-Identifier: LGPL-2.1-or-later
"""The worker for D programs that are being written for processes: it checks them, completes words and makes previews,
and changes nothing.

    python -m gilk.web.d_worker READING WRITING

A text can be made so that a check takes for ever, so the server kills the worker if it does not answer in time
(d_routes.py).
"""

from __future__ import annotations

import resource
from functools import lru_cache
from typing import Final

from gilk.api.d_writing import DWriting
from gilk.web.d_answers import DAnswers
from gilk.web.frames import ServerChannel
from gilk.web.grants import check_born
from gilk.web.worker import serve

_MEMORY: Final = 4 << 30  # in bytes; a text that takes more is given up


@lru_cache(maxsize=4)
def _writing(pid: int, _born: int) -> DWriting:
    return DWriting(pid)


def _of(pid: int, born: int) -> DWriting:
    check_born(pid, born)
    return _writing(pid, born)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve(ServerChannel.given(), DAnswers(_of).answers())
