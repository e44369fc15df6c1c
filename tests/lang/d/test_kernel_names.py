# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of the kernel's functions and variables, beside what /proc/kallsyms says; some may not know it: zeroes."""

from __future__ import annotations

import random
import re
from pathlib import Path

from gilk.engines.dtrace.kernel_names import KernelNames
from gilk.engines.dtrace.symbols import Named


def test_kernel_names_are_those_of_kallsyms() -> None:
    names = KernelNames()
    lines = re.findall(r"^([89a-f]\w{15}|0{16}) [tTdDbBrR] (\S+)$", Path("/proc/kallsyms").read_text(), re.M)
    known: dict[int, set[str]] = {}
    for address, name in lines:
        known.setdefault(int(address, 16), set()).add(name)
    for address in random.Random(1).sample(sorted(known), min(len(known), 50)):
        found = names.name(address)
        if address:
            assert (found.module, found.offset) == ("vmlinux", 0)
            assert found.function in known[address]
        else:
            assert found == Named(0)


def test_addresses_outside_of_the_kernel_have_no_name() -> None:
    for address in (0, 4096, (1 << 47) - 1, (1 << 64) - 1):
        assert KernelNames().name(address) == Named(address)
