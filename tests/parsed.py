# SPDX-License-Identifier: LGPL-2.1-or-later
"""Modules as trees, for tests about all of the source: each is parsed once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module, the module itself first."""
    return tuple(ast.walk(tree(path)))
