# SPDX-License-Identifier: LGPL-2.1-or-later
"""The worker for C instruments that are being written: it compiles them, and runs none.

    python -m gilk.web.c_worker READING WRITING GRANTS

A text can be made so that compiling it takes for ever, so the time and the memory for it are limited.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from gilk.api.c_writing import check_c, functions_of, no_function
from gilk.errors import UsageError
from gilk.web.checked import Check, checked, free, of_c
from gilk.web.commands import C_FILE
from gilk.web.frames import ServerChannel
from gilk.web.grants import taken
from gilk.web.limited import limited
from gilk.web.serving import serve

Json = dict[str, Any]
_WITHIN: Final = 20.0  # in seconds
_MEMORY: Final = 4 << 30  # in bytes, for the worker and for each process of the compiler


def ready() -> Json:
    return {}


def check(text: str) -> Json:
    """The functions of a text, and its problems with their places."""
    slow = UsageError("c-too-slow", "the compiler took too long, and was ended", "gilk run takes as long as it needs")
    with limited(_WITHIN, slow):
        found = check_c(C_FILE, text)
    return {"functions": list(found.functions), "problems": [asdict(each) for each in found.problems]}


def names(text: str) -> Json:
    """The functions of a text that may be instruments, which is not compiled; and one problem if it has none."""
    found = list(functions_of(text))
    return {"functions": found, "problems": [] if found else [asdict(no_function())]}


CHECKS: Final[Mapping[str, Check]] = {"ready": free, "check": of_c, "names": of_c}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve(ServerChannel.given(), checked(taken(), {"ready": ready, "check": check, "names": names}, CHECKS))
