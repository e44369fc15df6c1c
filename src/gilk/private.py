# SPDX-License-Identifier: LGPL-2.1-or-later
"""Directories and files that nobody but we and root can change."""

from __future__ import annotations

import os
import stat

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def only_ours(file: os.stat_result) -> bool:
    """Its owner is this user or root, and nobody else may write to it. (Where an access list lets others write, the
    group's bit says so: acl(5).)"""
    return file.st_uid in (0, os.geteuid()) and not file.st_mode & _OTHERS
