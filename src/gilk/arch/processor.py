# SPDX-License-Identifier: LGPL-2.1-or-later
"""The features of this machine's processor."""

from __future__ import annotations

from pathlib import Path


def flags() -> frozenset[str]:
    """The flags of the first processor, by their names in /proc/cpuinfo."""
    return frozenset(_field("flags").split())


def model() -> str:
    """The name of the first processor's model, as /proc/cpuinfo has it; '' if it has none."""
    return _field("model name")


def _field(name: str) -> str:
    """The value of a line of /proc/cpuinfo about the first processor; '' if there is no such line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
