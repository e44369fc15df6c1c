# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads what the server reads late, before it gives up root's rights: the invoking user may not be able to read gilk,
or Python, where root has installed them.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from importlib.util import find_spec
from typing import Final

from gilk.web import manual, rights
from gilk.web.children import ToldError

#: Modules that this process imports as it goes on, or libraries for it.
_LATE: Final = (
    "anyio._backends._asyncio", "concurrent.futures.thread", "encodings.idna", "gilk.api.machine", "html",
    "importlib.metadata", "multipart", "pwd", "shutil", "tempfile", "uvicorn.lifespan.off", "uvicorn.loops.auto",
    "uvicorn.loops.asyncio", "uvicorn.protocols.http.auto", "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.http.httptools_impl", "uvicorn.protocols.websockets.websockets_sansio_impl",
)  # fmt: skip
_LARGE: Final = "pyarrow"  # for tables as Arrow


def preload(user: int, group: int) -> None:
    """Read all that this process may need once it is that user's, as far as it is installed."""
    for name in _LATE:
        _imported(name)
    found = find_spec(_LARGE)
    if found is not None and found.origin is not None and not rights.may_read(user, group, found.origin):
        _imported(_LARGE)
    with suppress(ToldError):  # this installation came without its documentation, and pages say so
        manual.texts()


def _imported(name: str) -> None:
    with suppress(ImportError):
        importlib.import_module(name)
