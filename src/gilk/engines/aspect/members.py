# SPDX-License-Identifier: LGPL-2.1-or-later
"""Members of variables that aspects name: the file's own C declares the variable, and a compiler says where they are."""

from __future__ import annotations

from gilk.engines.aspect.variables import Part
from gilk.lang.aspect.checked import CheckedFile


def member_parts(file: CheckedFile) -> dict[str, Part]:
    return {}
