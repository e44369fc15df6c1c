# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names of the errors of system calls have the numbers that the C library's header gives them."""

from __future__ import annotations

import re
import subprocess

from gilk.lang.d.meaning.builtins import CONSTANTS


def of_header() -> dict[str, int]:
    """The errors of <errno.h>, by name; some are defined as others."""
    command = ["cc", "-dM", "-E", "-x", "c", "-include", "errno.h", "/dev/null"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"^#define (E[A-Z0-9]+) (\w+)$", text, re.MULTILINE))
    return {name: int(found.get(value, value)) for name, value in found.items()}


def test_errors_have_all_their_names_and_the_headers_numbers() -> None:
    header = of_header()
    assert {"EAGAIN", "EWOULDBLOCK", "EDEADLK", "EOPNOTSUPP"} <= header.keys() and len(header) > 130
    assert {name: CONSTANTS.get(name) for name in header} == header
