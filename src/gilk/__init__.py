# SPDX-License-Identifier: LGPL-2.1-or-later
"""gilk: put code of your choice anywhere in a running program, and take it out again.

    import gilk

    target = gilk.attach(pid)
    with target.session() as session:
        session.insert("main:hot:entry", gilk.count)

What users import is here, and is defined in :mod:`gilk.api`. It is loaded on
first use: the command line imports this package too, and ``gilk --help``
should not wait for numpy. Modules of the package never import from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gilk.errors import CompileError, GilkError, ImageError, StoreError, TargetError, UsageError
from gilk.version import VERSION as __version__

if TYPE_CHECKING:
    from gilk.api import *  # noqa: F403

__all__ = ["CompileError", "GilkError", "ImageError", "StoreError", "TargetError", "UsageError", "__version__"]


def __getattr__(name: str) -> Any:
    """A public name of :mod:`gilk.api` (PEP 562)."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    api = importlib.import_module("gilk.api")  # `from gilk import api` would ask here again
    if name == "api":
        return api
    try:
        return getattr(api, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    api = importlib.import_module("gilk.api")
    return sorted({*__all__, *api.__all__})
