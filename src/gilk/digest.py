# SPDX-License-Identifier: LGPL-2.1-or-later
"""SHA-256 without waiting for OpenSSL: to load that takes ten milliseconds, a tenth of a start."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256 as sha256
else:
    for _place in ("_sha256", "_sha2", "hashlib"):  # of Python 3.11, of later ones, of those that are not CPython
        try:
            sha256 = import_module(_place).sha256
        except (ImportError, AttributeError):
            continue
        break
